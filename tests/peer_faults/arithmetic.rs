//! Rates, bursts and numbers of tokens.

use std::time::Duration;

use tollgate::{Bucket, Denied, Limiter, ManualClock, Quota, QuotaError, Reason};

use crate::{SECOND, allowed, bucket, nanos};

fn quota(tokens: u64, period: Duration) -> Quota {
    Quota::new(tokens, period).expect("an ordinary quota")
}

/// Takes all there is, over and over, at uneven steps; returns what was taken after the first burst, and the time.
fn taken_over_a_long_run(quota: Quota, steps: u64, longest_step: u64) -> (u128, u128) {
    let (clock, bucket) = bucket(quota);
    assert!(bucket.check_n(quota.capacity()).is_ok(), "starts full");
    let (mut taken, mut time) = (0_u128, 0_u128);
    let mut step = longest_step / 2;
    for _ in 0..steps {
        // Walks through the residues of a prime: no step is a multiple of another for long.
        step = (step * 48_271 + 11) % longest_step + 1;
        clock.advance(nanos(step));
        time += u128::from(step);
        let there = bucket.peek().remaining();
        assert!(there < quota.capacity(), "the step was too long for the burst");
        assert!(bucket.check_n(there).is_ok(), "what remains can be taken");
        taken += u128::from(there);
    }
    (taken, time)
}

#[test]
fn rates_hold_over_a_long_run() {
    let minute = Duration::from_secs(60);
    let second = Duration::from_secs(1);
    let rates =
        [(600_000_000, second), (1_000_003, second), (999_999_937, second), (7_919, second), (3, second), (7, minute), (130, second)];
    for (tokens, period) in rates {
        let quota = quota(tokens, period);
        let time_of_half_a_burst = u64::try_from(period.as_nanos() / 2).expect("at most a minute");
        let (taken, time) = taken_over_a_long_run(quota, 10_000, time_of_half_a_burst);
        let exact = time * u128::from(tokens) / period.as_nanos();
        // A clock rounded down to whole ticks may show the last token a tick late.
        let least = if quota.is_exact() { exact } else { exact - 1 };
        assert!((least..=exact).contains(&taken), "{quota}: {taken} in {time} ns, not {exact}");
    }
}

#[test]
fn ticks_of_ordinary_quotas_are_shorter_than_a_nanosecond() {
    for tokens in [3, 7, 130, 999, 7_919, 1_000_003, 600_000_000, 999_999_937, 3_999_999_979] {
        for quota in [Quota::per_second(tokens), Quota::per_second(tokens).burst(1), Quota::per_minute(tokens)] {
            assert!(quota.tick_nanos() <= 1.0, "{quota}: {} ns", quota.tick_nanos());
        }
    }
    let hundred = Quota::per_second(100);
    assert!(hundred.is_exact() && (hundred.tick_nanos() - 1.0).abs() < f64::EPSILON, "{} ns", hundred.tick_nanos());
    assert!(!Quota::per_second(7_919).is_exact());
}

#[test]
fn rates_above_one_token_per_nanosecond_limit_or_are_refused() {
    for tokens in [1_000_000_001, 1_250_000_000, 3_000_000_000, 3_999_999_979, 14_000_000_000] {
        let quota = Quota::per_second(tokens);
        let (taken, time) = taken_over_a_long_run(quota, 10_000, SECOND / 3);
        let exact = time * u128::from(tokens) / u128::from(SECOND);
        // A token takes less than the nanoseconds in which time is given.
        let least = if quota.is_exact() { exact } else { exact - 1 };
        assert!((least..=exact).contains(&taken), "{quota}: {taken} in {time} ns, not {exact}");
    }
    for tokens in [15_000_000_000, 1 << 40, u64::MAX] {
        let refused = Quota::new(tokens, Duration::from_secs(1));
        assert!(matches!(refused, Err(QuotaError::RateTooHigh { .. })), "{tokens}/s: {refused:?}");
    }
}

#[test]
fn slow_rates_with_large_bursts_are_right_or_refused() {
    const DAY: Duration = Duration::from_secs(86_400);
    let year = 365 * DAY;
    for (period, burst) in [(DAY, 213_504), (DAY, 300_000), (DAY, 1 << 32), (year, 600), (100 * year, 1), (100 * year, 1 << 32)] {
        let quota = quota(1, period).burst(burst);
        let (clock, bucket) = bucket(quota);
        assert_eq!(bucket.check_n(burst).map(|allowed| allowed.remaining()), Ok(0), "{quota}");
        let wait = bucket.check().expect_err("drained").retry_after().expect("a wait helps");
        let tick = nanos(1) + Duration::from_secs_f64(quota.tick_nanos() / 1e9);
        assert!(wait.abs_diff(period) <= tick, "{quota}: {wait:?}");
        let full = period.as_nanos() * u128::from(burst);
        if full <= Duration::MAX.as_nanos() {
            let reset = bucket.peek().reset_after().as_nanos();
            // Rates are rounded to 24 bits at the least.
            assert!(reset.abs_diff(full) <= full >> 24, "{quota}: {reset}");
        }
        if period <= year {
            clock.advance(wait.saturating_sub(nanos(1)));
            assert!(bucket.check().is_err(), "{quota}");
            clock.advance(nanos(1));
            assert_eq!(allowed(&bucket, 2), 1, "{quota}");
        }
    }
    assert!(matches!(quota(1, DAY).with_burst(u64::MAX), Err(QuotaError::BurstTooLarge { .. })));
}

#[test]
fn huge_numbers_of_tokens_are_denied_as_never() {
    for quota in [Quota::per_minute(10), Quota::per_second(7_919), Quota::per_second(1).burst(1 << 32), Quota::per_second(4_000_000_000)] {
        let limiter = Limiter::builder(quota).max_keys(4).clock(ManualClock::new()).build();
        let (_, bucket) = bucket(quota);
        assert!(limiter.check("known").is_ok());
        for n in [3_074_457_347_u64, 1 << 32, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX] {
            let answers = [bucket.check_n(n), limiter.check_n("known", n), limiter.check_n("new", n)];
            for answer in answers {
                if n <= quota.capacity() {
                    continue;
                }
                let denied = answer.expect_err("more than the burst");
                assert_eq!((denied.reason(), denied.retry_after()), (Reason::OverBurst, None), "{quota}, n = {n}");
            }
        }
    }
}

#[test]
fn never_more_than_the_burst_after_any_idle() {
    for idle in
        [Duration::ZERO, nanos(1), Duration::from_millis(17_900), Duration::from_secs(1 << 20), 19 * 365 * Duration::from_secs(86_400)]
    {
        for quota in [Quota::per_second(5), Quota::per_second(1).burst(10), Quota::per_second(7_919).burst(3), Quota::per_hour(1)] {
            let burst = quota.capacity();
            let (clock, bucket) = bucket(quota);
            clock.advance(idle);
            let calls = usize::try_from(burst).expect("a small burst");
            assert_eq!(bucket.peek().remaining(), burst);
            assert_eq!(allowed(&bucket, calls + 1), calls, "{quota}, new, after {idle:?}");

            clock.advance(idle);
            assert!(bucket.peek().remaining() <= burst, "{quota}, drained, after {idle:?}");
            assert!(allowed(&bucket, calls + 1) <= calls, "{quota}, drained, after {idle:?}");
        }
    }
}

#[test]
fn idle_fills_up_to_the_limit_and_no_further() {
    let (clock, bucket) = bucket(Quota::per_second(1).burst(10));
    assert_eq!(allowed(&bucket, 11), 10);
    clock.advance(Duration::from_millis(17_900));
    assert_eq!(bucket.peek().remaining(), 10);
    assert_eq!(bucket.check().map(|allowed| allowed.remaining()), Ok(9));
    assert_eq!(allowed(&bucket, 11), 9);
}

/// What a drained bucket allows in `time`, polled so often.
fn polled(quota: Quota, every: u64, time: u64) -> usize {
    let (clock, bucket) = bucket(quota);
    assert!(bucket.check_n(quota.capacity()).is_ok());
    let mut now = 0;
    let mut count = 0;
    while now + every <= time {
        now += every;
        clock.set(nanos(now));
        count += usize::from(bucket.check().is_ok());
    }
    clock.set(nanos(time));
    count + usize::from(bucket.check().is_ok())
}

#[test]
fn polling_fast_loses_no_fractions() {
    assert_eq!(polled(Quota::per_second(1).burst(10), 997, 10 * SECOND), 10);
    assert_eq!(polled(Quota::per_second(10_000), 1, SECOND / 1_000), 10);
    assert_eq!(polled(Quota::per_second(7_919), 17, SECOND / 1_000), 7);
}

#[test]
fn polling_slowly_loses_no_fractions() {
    for every in [99_999_989, 33_333_333, 100_000_007, 250_000_001] {
        assert_eq!(polled(Quota::per_second(1).burst(2), every, 100 * SECOND), 100, "polled every {every} ns");
    }
}

#[test]
fn waiting_exactly_the_retry_after_is_enough_and_a_nanosecond_less_is_not() {
    for tokens in [3, 300, 130, 7_919] {
        let (clock, bucket) = bucket(Quota::per_second(tokens));
        assert!(bucket.check_n(tokens).is_ok());
        for round in 0..1_000 {
            let wait = bucket.check().expect_err("nothing is left").retry_after().expect("a wait helps");
            clock.advance(wait.saturating_sub(nanos(1)));
            assert!(bucket.check().is_err(), "{tokens}/s, round {round}: 1 ns less than {wait:?} is too short");
            clock.advance(nanos(1));
            assert!(bucket.check().is_ok(), "{tokens}/s, round {round}: {wait:?} is enough");
        }
    }
}

#[test]
fn waiting_the_retry_after_of_many_tokens_is_enough() {
    for tokens in [3, 300, 130, 7_919] {
        for n in [2, 3] {
            let (clock, bucket) = bucket(Quota::per_second(tokens).burst(3));
            for round in 0..1_000 {
                let Err(denied) = bucket.check_n(n) else { continue };
                let wait = denied.retry_after().expect("a wait helps");
                clock.advance(wait.saturating_sub(nanos(1)));
                assert!(bucket.check_n(n).is_err(), "{tokens}/s, n = {n}, round {round}");
                clock.advance(nanos(1));
                assert!(bucket.check_n(n).is_ok(), "{tokens}/s, n = {n}, round {round}");
            }
        }
    }
}

#[test]
fn a_burst_of_one_lets_one_through() {
    let one_per_hour = [Quota::per_hour(1), Quota::per_second(1), Quota::per_second(7_919).burst(1), Quota::per_day(1)];
    for quota in one_per_hour {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).max_keys(4).clock(clock.clone()).build();
        for round in 0..100 {
            let allowed = (0..5).filter(|_| limiter.check("key").is_ok()).count();
            assert_eq!(allowed, 1, "{quota}, round {round}");
            clock.advance(limiter.peek("key").reset_after());
        }
    }
}

#[test]
fn more_than_the_burst_is_never_and_the_whole_burst_is_possible() {
    for burst in [1, 2, 5, 10, 1_000, 1 << 20, 1 << 32] {
        let (_, bucket) = bucket(Quota::per_second(1).burst(burst));
        let never = |left: u64| {
            let denied = bucket.check_n(burst + 1).expect_err("more than the burst");
            assert_eq!((denied.retry_after(), denied.remaining()), (None, left), "burst {burst}");
        };
        never(burst);
        assert!(bucket.check().is_ok());
        never(burst - 1);
        assert_eq!(bucket.check_n(burst).map_err(|denied| denied.retry_after()), Err(Some(Duration::from_secs(1))));
        assert_eq!(bucket.check_n(burst - 1).map(|allowed| allowed.remaining()), Ok(0));
        never(0);
    }
    let (_, full) = bucket(Quota::per_second(5));
    assert_eq!(full.check_n(5).map(|allowed| allowed.remaining()), Ok(0));
}

#[test]
fn remaining_is_what_would_succeed_at_every_moment() {
    for quota in [Quota::per_second(10), Quota::per_second(3), Quota::per_second(7_919).burst(4)] {
        let token = u64::try_from(quota.period().as_nanos() / u128::from(quota.tokens())).expect("less than a period");
        // Each moment on a bucket of its own, as counting takes the tokens.
        for moment in (0..12 * token).step_by(usize::try_from(token / 7).expect("a short step")).flat_map(|at| [at, at + 1]) {
            let (clock, bucket) = bucket(quota);
            let _ = bucket.check_n(quota.capacity());
            clock.set(nanos(moment));
            let promised = bucket.peek().remaining();
            assert_eq!(bucket.check_n(0).map(|allowed| allowed.remaining()), Ok(promised));
            assert_eq!(allowed(&bucket, 20) as u64, promised, "{quota}, at {moment} ns");
        }
    }
}

fn denial(bucket: &Bucket<ManualClock>, n: u64) -> Denied {
    bucket.check_n(n).expect_err("to be denied")
}

#[test]
fn a_denial_says_what_was_asked_and_what_is_possible() {
    let (_, bucket) = bucket(Quota::per_second(5));
    let never = denial(&bucket, 10).to_string();
    assert_eq!(never, "10 asked for, but the burst is 5: no wait will help, ask for at most 5");

    assert!(bucket.check_n(4).is_ok());
    let wait = denial(&bucket, 3).to_string();
    assert_eq!(wait, "rate limited: 3 asked for, 1 of 5 left; retry after 400ms");
}

#[test]
fn a_quota_that_cannot_be_is_refused_with_the_reason() {
    let second = Duration::from_secs(1);
    let ten = Quota::per_second(10);
    let texts = [
        (Quota::new(0, second), "0 tokens per period: a quota needs at least 1"),
        (Quota::new(1, Duration::ZERO), "a period of 0: a quota needs at least 1 ns"),
        (ten.with_burst(0), "a burst of 0: a quota needs at least 1"),
        (Quota::new(1, Duration::MAX), "a period of 18446744073709551615 s: at most 2^64 - 1 ns, about 584 years, can be represented"),
    ];
    for (refused, text) in texts {
        assert_eq!(refused.map_err(|error| error.to_string()), Err(text.to_owned()));
    }

    let burst = ten.with_burst(u64::MAX).expect_err("does not fit");
    let QuotaError::BurstTooLarge { burst: u64::MAX, most } = burst else { panic!("{burst:?}") };
    assert_eq!(burst.to_string(), format!("a burst of {}: at most {most} can be represented at this rate", u64::MAX));
    assert!(ten.with_burst(most).is_ok());

    let rate = Quota::new(u64::MAX, second).expect_err("does not fit");
    let QuotaError::RateTooHigh { tokens: u64::MAX, most, .. } = rate else { panic!("{rate:?}") };
    assert_eq!(rate.to_string(), format!("{} tokens per 1s: at most {most} in this period can be represented", u64::MAX));
    assert!(Quota::new(most, second).is_ok());
}
