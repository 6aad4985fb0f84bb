//! Properties: random quotas, clocks and calls, held against exact rational arithmetic.

mod common;
#[path = "common/model.rs"]
mod exact;
#[path = "common/strategies.rs"]
mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Bucket, Clock, Denied, Instant, Limiter, ManualClock, Overflow, Quota, QuotaError};

use common::{Admission, excess};
use exact::{Answer, Model};
use strategies::{DAY, HORIZON, SECOND, YEAR, asks, clock_at, quotas, starts, within};

/// Quotas under which windows can be summed up in 128 bits.
fn ordinary_quotas() -> impl Strategy<Value = Quota> {
    quotas().prop_filter("counts beyond 128 bits", |quota| quota.period() <= Duration::from_nanos(30 * DAY))
}

/// Where the clock goes before a call.
#[derive(Clone, Copy, Debug)]
enum Move {
    Forward(u64),
    Back(u64),
    /// To the moment that the last answer named for a retry, and so many nanoseconds off.
    Retry(i64),
    /// To the moment that the last answer named for a full bucket, and so many nanoseconds off.
    Reset(i64),
    /// So many 256ths of the time to a full bucket.
    Part(u8),
}

impl Move {
    fn from(self, now: u64, last: &Answer) -> u64 {
        let after = |wait: u128, off: i64| u64::try_from(u128::from(now) + wait).unwrap_or(u64::MAX).saturating_add_signed(off);
        match self {
            Self::Forward(by) => now.saturating_add(by),
            Self::Back(by) => now.saturating_sub(by),
            Self::Retry(off) => after(last.retry_after.unwrap_or(0), off),
            Self::Reset(off) => after(last.reset_after, off),
            Self::Part(part) => after(last.reset_after * u128::from(part) / 256, 0),
        }
    }
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => Just(Move::Forward(0)),
        2 => (0..=1_000_u64).prop_map(Move::Forward),
        2 => (0..=10 * SECOND).prop_map(Move::Forward),
        1 => (0..=YEAR).prop_map(Move::Forward),
        1 => (0..=1_000_u64).prop_map(Move::Back),
        1 => (0..=40 * DAY).prop_map(Move::Back),
        5 => (-2..=2_i64).prop_map(Move::Retry),
        2 => (-2..=2_i64).prop_map(Move::Reset),
        3 => any::<u8>().prop_map(Move::Part),
    ]
}

const UNASKED: Answer = Answer { allowed: true, remaining: 0, retry_after: Some(0), reset_after: 0 };

proptest! {
    // What fails here is to become a test with a name.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bucket_and_key_follow_exact_arithmetic(
        quota in quotas(),
        start in starts(),
        steps in proptest::collection::vec((moves(), asks()), 1..40),
    ) {
        let bucket = Bucket::with_clock(quota, clock_at(start));
        let limiter = Limiter::builder(quota).max_keys(4).clock(clock_at(start)).build();
        let mut model = Model::new(quota);
        let (mut now, mut last) = (start, UNASKED);
        for (step, ask) in steps {
            now = within(start, step.from(now, &last));
            let n = ask.of(quota.capacity());
            let answer = bucket.check_at(n, Instant::from_nanos(now));
            prop_assert_eq!(limiter.check_at("key", n, Instant::from_nanos(now)), answer, "a key answers as a bucket does");
            last = answer.into();
            if let Err(disagreement) = model.follow(now, n, last) {
                prop_assert!(false, "{:?}: {}", quota, disagreement);
            }
        }
    }

    #[test]
    fn denied_at_every_part_of_the_wait_and_allowed_exactly_at_its_end(
        quota in quotas(),
        start in starts(),
        drains in proptest::collection::vec((moves(), asks()), 1..8),
        ask in asks(),
        part in any::<u8>(),
    ) {
        let bucket = Bucket::with_clock(quota, clock_at(start));
        let (mut now, mut last) = (start, UNASKED);
        for (step, ask) in drains {
            now = within(start, step.from(now, &last));
            last = bucket.check_at(ask.of(quota.capacity()), Instant::from_nanos(now)).into();
        }
        let n = ask.of(quota.capacity());
        let at = |after: u64| bucket.check_at(n, Instant::from_nanos(now + after));
        let Err(denied) = at(0) else { return Ok(()) };
        let Some(wait) = denied.retry_after() else {
            prop_assert!(n > quota.capacity());
            return Ok(());
        };
        let Ok(wait) = u64::try_from(wait.as_nanos()) else { return Ok(()) };
        prop_assert!(wait > 0);
        if now.saturating_add(wait) > start + HORIZON {
            return Ok(());
        }
        for after in [0, 1, wait / 256 * u64::from(part), wait / 2, wait - 1] {
            // A wait of 1 ns has no middle.
            if after < wait {
                let early = at(after);
                prop_assert!(early.is_err(), "{:?}: {} ns of {} ns", quota, after, wait);
                let left = early.err().and_then(|denied| denied.retry_after());
                prop_assert_eq!(left, Some(Duration::from_nanos(wait - after)), "the end of the wait stands still");
            }
        }
        prop_assert!(at(wait).is_ok(), "{:?}: after {} ns", quota, wait);
    }

    #[test]
    fn full_exactly_when_the_reset_says(quota in quotas(), start in starts(), asks in proptest::collection::vec(asks(), 1..4)) {
        let clock = clock_at(start);
        let bucket = Bucket::with_clock(quota, clock.clone());
        for ask in asks {
            let _ = bucket.check_n(ask.of(quota.capacity()));
        }
        let reset = bucket.peek().reset_after();
        if reset > Duration::from_nanos(HORIZON) {
            return Ok(());
        }
        prop_assert_eq!(bucket.peek().is_full(), reset.is_zero());
        if !reset.is_zero() {
            clock.advance(reset.saturating_sub(Duration::from_nanos(1)));
            prop_assert!(!bucket.peek().is_full());
            prop_assert_eq!(bucket.peek().reset_after(), Duration::from_nanos(1));
            clock.advance(Duration::from_nanos(1));
        }
        prop_assert!(bucket.peek().is_full());
        prop_assert_eq!(bucket.peek().remaining(), quota.capacity());
        prop_assert_eq!(bucket.check_n(quota.capacity()).map(|allowed| allowed.remaining()), Ok(0));
    }

    #[test]
    fn remaining_is_the_number_of_calls_that_would_succeed(
        quota in quotas(),
        burst in 1..=60_u64,
        steps in proptest::collection::vec((moves(), asks()), 1..8),
    ) {
        let quota = quota.burst(burst);
        let clock = ManualClock::new();
        let bucket = Bucket::with_clock(quota, clock.clone());
        let mut last = UNASKED;
        for (step, ask) in steps {
            clock.set(Duration::from_nanos(within(0, step.from(clock.now().as_nanos(), &last))));
            last = bucket.check_n(ask.of(burst)).into();
        }
        let promised = bucket.peek().remaining();
        prop_assert_eq!(last.remaining, promised);
        let calls = (0..=burst).take_while(|_| bucket.check().is_ok()).count();
        prop_assert_eq!(calls as u64, promised);
    }

    #[test]
    fn the_promise_holds_for_any_clock(
        quota in ordinary_quotas(),
        start in starts(),
        calls in proptest::collection::vec((moves(), asks(), 0..3_u8), 1..150),
    ) {
        let bucket = Bucket::with_clock(quota, clock_at(start));
        // Three keys, of which one is always without a place.
        let limiter = Limiter::builder(quota).max_keys(2).overflow(Overflow::DenyNew).clock(clock_at(start)).build();
        let (mut now, mut last) = (start, UNASKED);
        let mut admitted = [const { Vec::new() }; 4];
        for (step, ask, key) in calls {
            // Any time, before and behind all that a quota counts.
            now = step.from(now, &last);
            let (n, stamp) = (ask.of(quota.capacity()), Instant::from_nanos(now));
            let on_bucket = bucket.check_at(n, stamp);
            if on_bucket.is_ok() {
                admitted[3].push(Admission { at: now, tokens: n });
            }
            if limiter.check_at(&key, n, stamp).is_ok() {
                admitted[usize::from(key)].push(Admission { at: now, tokens: n });
            }
            last = on_bucket.into();
            prop_assert!(limiter.len() <= limiter.capacity());
        }
        for admitted in &mut admitted {
            prop_assert_eq!(excess(quota, admitted), 0, "{:?}: {:?}", quota, admitted);
        }
    }

    #[test]
    fn a_new_key_is_denied_for_exactly_as_long_as_it_is_told(
        quota in quotas(),
        max_keys in 1..=8_usize,
        asks in proptest::collection::vec((asks(), 0..=1_000_u64), 12),
        n in asks(),
    ) {
        let limiter = Limiter::builder(quota).max_keys(max_keys).overflow(Overflow::DenyNew).clock(ManualClock::new()).build();
        let mut now = 0;
        for (key, (ask, pause)) in asks.into_iter().enumerate() {
            now += pause;
            let _ = limiter.check_at(&key, ask.of(quota.capacity()).min(quota.capacity()), Instant::from_nanos(now));
        }
        let n = n.of(quota.capacity()).min(quota.capacity());
        let at = |after: u64| limiter.check_at("new", n, Instant::from_nanos(now + after));
        let wait = match at(0).as_ref().map_err(Denied::retry_after) {
            Ok(_) => return Ok(()),
            Err(wait) => u64::try_from(wait.expect("no more than the burst").as_nanos()).unwrap_or(u64::MAX),
        };
        if wait <= HORIZON - now {
            prop_assert!(at(wait - 1).is_err());
            prop_assert!(at(wait).is_ok());
        }
    }

    #[test]
    fn what_display_prints_is_what_from_str_reads(quota in quotas()) {
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let _ = text.parse::<Quota>();
    }

    #[test]
    fn text_that_is_read_is_printed_and_read_alike(text in "[0-9]{0,21} ?/? ?[0-9]{0,21} ?(ns|us|ms|s|sec|m|min|h|hours|day|d|x|)( ?burst ?[0-9]{0,21})?") {
        if let Ok(quota) = text.parse::<Quota>() {
            prop_assert_eq!(quota.to_string().parse(), Ok(quota));
        }
    }

    #[test]
    fn any_numbers_make_a_quota_or_an_error_with_the_nearest_that_do(
        tokens in any_size(),
        seconds in any_size(),
        nanos in 0..1_000_000_000_u32,
        burst in any_size(),
    ) {
        let period = Duration::new(seconds, nanos);
        match Quota::new(tokens, period) {
            Ok(quota) => {
                prop_assert_eq!((quota.tokens(), quota.period(), quota.capacity()), (tokens, period, tokens));
                fits_up_to_most(quota, burst)?;
            }
            Err(QuotaError::RateTooHigh { tokens: given, period: of, most }) => {
                prop_assert_eq!((given, of), (tokens, period));
                prop_assert!(most < tokens);
                prop_assert!(Quota::new(most, period).is_ok());
                prop_assert!(Quota::new(most + 1, period).is_err());
            }
            Err(QuotaError::ZeroTokens) => prop_assert_eq!(tokens, 0),
            Err(QuotaError::ZeroPeriod) => prop_assert!(period.is_zero()),
            Err(QuotaError::PeriodTooLong { period: given }) => {
                prop_assert_eq!(given, period);
                prop_assert!(period.as_nanos() > u64::MAX.into());
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

/// Numbers of all lengths.
fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..=64_u32).prop_map(|(bits, shift)| bits.checked_shr(shift).unwrap_or(0))
}

fn fits_up_to_most(quota: Quota, burst: u64) -> Result<(), TestCaseError> {
    match quota.with_burst(burst) {
        Ok(with) => prop_assert_eq!((with.tokens(), with.period(), with.capacity()), (quota.tokens(), quota.period(), burst)),
        Err(QuotaError::BurstTooLarge { burst: given, most }) => {
            prop_assert_eq!(given, burst);
            prop_assert!(most >= quota.capacity());
            prop_assert_eq!(quota.with_burst(most).map(|quota| quota.capacity()), Ok(most));
            prop_assert!(quota.with_burst(most + 1).is_err());
        }
        Err(QuotaError::ZeroBurst) => prop_assert_eq!(burst, 0),
        Err(error) => prop_assert!(false, "{}", error),
    }
    Ok(())
}
