//! A bucket whose quota changes while it is in use.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{Allowed, Bucket, Clock, Denied, Instant, ManualClock, Quota, Reason};

const SECOND: u64 = 1_000_000_000;

fn bucket(quota: Quota) -> (ManualClock, Bucket<ManualClock>) {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(quota, clock.clone());
    (clock, bucket)
}

#[test]
fn tokens_owed_stay_owed() {
    let (_, bucket) = bucket(Quota::per_second(10));
    assert!(bucket.check_n(5).is_ok());
    for quota in [Quota::per_second(100), Quota::per_day(7), Quota::per_second(7_919), Quota::per_second(3).burst(6), Quota::per_second(10)]
    {
        bucket.set_quota(quota);
        let peek = bucket.peek();
        assert_eq!((peek.remaining(), peek.limit()), (quota.capacity() - 5, quota.capacity()), "{quota}");
        assert_eq!(bucket.quota(), quota);
    }
}

#[test]
fn parts_of_a_token_stay_owed_to_the_tick() {
    let (clock, bucket) = bucket(Quota::per_second(10));
    assert!(bucket.check_n(5).is_ok());
    clock.advance(Duration::from_millis(1));
    // 4.99 tokens are owed.
    bucket.set_quota(Quota::per_second(1_000));
    assert_eq!(bucket.peek().reset_after(), Duration::from_micros(4_990));
    bucket.set_quota(Quota::per_second(1));
    assert_eq!(bucket.peek().reset_after(), Duration::from_secs(1), "up to the burst");
}

#[test]
fn what_a_tick_cannot_hold_is_rounded_up() {
    let (clock, bucket) = bucket(Quota::per_second(10));
    assert!(bucket.check().is_ok());
    clock.advance(Duration::from_nanos(1));
    // 1 - 10^-8 tokens are owed: of a token of 7 ns, 7 - 7 * 10^-8 ns.
    bucket.set_quota(Quota::new(1, Duration::from_nanos(7)).expect("fits"));
    assert_eq!(bucket.peek().reset_after(), Duration::from_nanos(7));
    assert!(bucket.check().is_err());
}

#[test]
fn a_raised_limit_helps_at_once() {
    let (clock, bucket) = bucket(Quota::per_day(10));
    assert!(bucket.check_n(10).is_ok());
    assert_eq!(bucket.check().unwrap_err().retry_after(), Some(Duration::from_secs(8_640)));
    bucket.set_quota(Quota::per_day(25));
    assert_eq!(bucket.check_n(15).map(|allowed| allowed.remaining()), Ok(0));
    // A wait under the old rate does not live on.
    bucket.set_quota(Quota::per_second(1_000).burst(25));
    assert_eq!(bucket.check().unwrap_err().retry_after(), Some(Duration::from_millis(1)));
    clock.advance(Duration::from_millis(1));
    assert!(bucket.check().is_ok());
}

#[test]
fn a_lowered_limit_holds_at_once() {
    let (clock, bucket) = bucket(Quota::per_second(100));
    assert!(bucket.check_n(3).is_ok());
    bucket.set_quota(Quota::per_second(1).burst(5));
    assert_eq!(bucket.check_n(6).unwrap_err().reason(), Reason::OverBurst);
    assert!(bucket.check_n(2).is_ok());
    assert_eq!(bucket.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    assert!(bucket.check().is_ok());
}

#[test]
fn nothing_is_owed_beyond_the_new_burst() {
    let (clock, bucket) = bucket(Quota::per_second(100));
    assert!(bucket.check_n(100).is_ok());
    bucket.set_quota(Quota::per_second(100).burst(1));
    assert_eq!(bucket.check().unwrap_err().retry_after(), Some(Duration::from_millis(10)));
    clock.advance(Duration::from_millis(10));
    assert!(bucket.peek().is_full());
    // And does not come back.
    bucket.set_quota(Quota::per_second(100));
    assert!(bucket.check_n(100).is_ok());
}

#[test]
fn a_full_bucket_stays_full_and_has_been_for_as_long() {
    let (clock, bucket) = bucket(Quota::per_second(10));
    bucket.set_quota(Quota::per_second(20));
    assert_eq!(bucket.peek().full_for(), None, "never used");
    assert!(bucket.check().is_ok());
    clock.advance(Duration::from_millis(1_050));
    for quota in [Quota::per_second(3), Quota::per_day(1), Quota::per_second(1_000_000_000)] {
        bucket.set_quota(quota);
        assert_eq!(bucket.peek().full_for(), Some(Duration::from_secs(1)), "{quota}");
        assert_eq!(bucket.peek().remaining(), quota.capacity());
    }
    // A call that was stamped a little earlier is not denied for it.
    let earlier = clock.now() - Duration::from_millis(900);
    assert!(bucket.check_at(SECOND, earlier).is_ok());
}

#[test]
fn ticks_that_are_not_exact_owe_as_many_tokens() {
    let inexact = [Quota::per_second(7_919).burst(50), Quota::per_second(999_999_937).burst(50), Quota::per_second(1_000_003).burst(50)];
    for from in inexact {
        for to in inexact.into_iter().chain([Quota::per_second(100)]) {
            let (_, bucket) = bucket(from);
            assert!(bucket.check_n(20).is_ok());
            bucket.set_quota(to);
            assert_eq!(bucket.peek().remaining(), to.capacity() - 20, "{from} to {to}");
            bucket.set_quota(from);
            assert_eq!(bucket.peek().remaining(), 30, "{from} to {to} and back");
        }
    }
}

#[test]
fn the_same_quota_changes_nothing() {
    for quota in [Quota::per_second(3).burst(10), Quota::per_second(7_919).burst(10)] {
        let (clock, bucket) = bucket(quota);
        assert!(bucket.check_n(7).is_ok());
        clock.advance(Duration::from_nanos(12_345));
        let before = bucket.peek();
        bucket.set_quota(quota);
        assert_eq!(bucket.peek(), before);
    }
}

#[test]
fn past_all_that_is_counted_a_change_still_holds() {
    let (clock, bucket) = bucket(Quota::per_second(3).burst(10));
    for nanos in [0, u64::MAX / 2, u64::MAX, 5] {
        clock.set(Duration::from_nanos(nanos));
        let _ = bucket.check_n(4);
        for quota in [Quota::per_second(7_919).burst(12), Quota::per_day(1).burst(1 << 32), Quota::per_second(14_000_000_000).burst(3)] {
            bucket.set_quota(quota);
            assert_eq!(bucket.quota(), quota);
            assert!(bucket.peek().remaining() <= quota.capacity());
            let _ = bucket.check();
        }
        bucket.set_quota(Quota::per_second(3).burst(10));
    }
}

#[test]
fn a_static_bucket_changes_too() {
    static BUCKET: Bucket = Bucket::new(Quota::per_day(2));
    assert!(BUCKET.check_n(2).is_ok());
    assert!(BUCKET.check().is_err());
    BUCKET.set_quota(Quota::per_day(3));
    assert!(BUCKET.check().is_ok());
    assert!(BUCKET.check().is_err());
    assert_eq!(BUCKET.quota(), Quota::per_day(3));
}

/// A clock that panics when told to.
struct Moody<'a>(&'a AtomicBool);

impl Clock for Moody<'_> {
    fn now(&self) -> Instant {
        assert!(!self.0.load(Ordering::Relaxed), "not now");
        Instant::ORIGIN
    }
}

#[test]
fn a_clock_that_panics_leaves_the_quota_as_it_was() {
    let panics = AtomicBool::new(false);
    let bucket = Bucket::with_clock(Quota::per_second(10), Moody(&panics));
    assert!(bucket.check_n(4).is_ok());
    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(|| bucket.set_quota(Quota::per_second(20))).is_err());
    panics.store(false, Ordering::Relaxed);
    assert_eq!(bucket.quota(), Quota::per_second(10));
    assert_eq!(bucket.peek().remaining(), 6);
    bucket.set_quota(Quota::per_second(30));
    assert_eq!(bucket.peek().remaining(), 26);
}

/// A bucket in exact rational arithmetic. Its quotas are exact, and so a tick is `1 / p` ns with `p / q = tokens / period` in lowest terms.
struct Exact {
    quota: Quota,
    full_at: BigRational,
}

impl Exact {
    fn rate(&self) -> BigRational {
        BigRational::new(self.quota.tokens().into(), self.quota.period().as_nanos().into())
    }

    /// In tokens.
    fn debt(&self, now: u64) -> BigRational {
        (&self.full_at - whole(now)).max(whole(0)) * self.rate()
    }

    fn check(&mut self, now: u64, n: u64) -> bool {
        let debt = self.debt(now) + whole(n);
        let allowed = debt <= whole(self.quota.capacity());
        if allowed && n > 0 {
            self.full_at = whole(now) + debt / self.rate();
        }
        allowed || n == 0
    }

    fn set_quota(&mut self, now: u64, quota: Quota) {
        let debt = self.debt(now);
        // Beyond the burst, when the clock has stepped back: nothing of that is cut.
        let within = (&debt).min(&whole(self.quota.capacity())).clone();
        let beyond = &debt - &within;
        self.quota = quota;
        self.full_at = if debt == whole(0) {
            self.full_at.ceil()
        } else {
            let ticks_per_ns = BigRational::from_integer(self.rate().numer().clone());
            let ticks = |tokens: BigRational| (tokens / self.rate() * &ticks_per_ns).ceil();
            let full_at = whole(now) + (ticks(within.min(whole(quota.capacity()))) + ticks(beyond)) / &ticks_per_ns;
            // All that a word can say.
            full_at.min(whole((1 << 63) - 1) / ticks_per_ns)
        };
    }

    fn remaining(&self, now: u64) -> BigInt {
        (whole(self.quota.capacity()) - self.debt(now)).floor().to_integer().max(BigInt::ZERO)
    }

    fn reset_after(&self, now: u64) -> BigInt {
        (&self.full_at - whole(now)).max(whole(0)).ceil().to_integer()
    }
}

fn whole(number: u64) -> BigRational {
    BigRational::from_integer(number.into())
}

#[derive(Clone, Debug)]
enum Step {
    /// Forward; or back, with the sign.
    Move(i64),
    /// Tokens; or, above a thousand, that many thousandths of the burst beyond it.
    Check(u64),
    Change(Quota),
}

fn exact_quotas() -> impl Strategy<Value = Quota> {
    let period = select(&[1_u64, 7, 1_000, SECOND, 60 * SECOND, 86_400 * SECOND][..]);
    (1..=14_u64, prop_oneof![period, 1..=10 * SECOND], 0..=6_u32, 1..=1_000_u64).prop_filter_map(
        "not exact",
        |(tokens, period, zeros, burst)| {
            // Such as 3,000,000 per second.
            let quota = Quota::new(tokens * 10_u64.pow(zeros), Duration::from_nanos(period)).ok()?.with_burst(burst).ok()?;
            quota.is_exact().then_some(quota)
        },
    )
}

fn any_quotas() -> impl Strategy<Value = Quota> {
    let period = select(&[1_u64, 1_000, SECOND, 86_400 * SECOND][..]);
    (1..=1_u64 << 40, period, 1..=1_u64 << 32).prop_filter_map("cannot be represented", |(tokens, period, burst)| {
        Quota::new(tokens, Duration::from_nanos(period)).ok()?.with_burst(burst).ok()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = prop_oneof![0..=20_i64, 0..=2_000_000_000_i64, -1_000_000..=0_i64, 0..=1_i64 << 45];
    let step = prop_oneof![
        2 => time.prop_map(Step::Move),
        3 => (0..=2_000_u64).prop_map(Step::Check),
        2 => exact_quotas().prop_map(Step::Change),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn changes_follow_exact_arithmetic(quota in exact_quotas(), steps in steps()) {
        let (clock, bucket) = bucket(quota);
        let mut model = Exact { quota, full_at: whole(0) };
        let mut now = 0_u64;
        for step in steps {
            match step {
                Step::Move(by) => {
                    now = now.saturating_add_signed(by);
                    clock.set(Duration::from_nanos(now));
                }
                Step::Check(n) => {
                    let n = n.checked_sub(1_000).map_or(n, |over| model.quota.capacity() * over / 1_000);
                    prop_assert_eq!(bucket.check_n(n).is_ok(), model.check(now, n), "{} of {} at {}", n, model.quota, now);
                }
                Step::Change(quota) => {
                    bucket.set_quota(quota);
                    model.set_quota(now, quota);
                    prop_assert_eq!(bucket.quota(), quota);
                }
            }
            let peek = bucket.peek();
            prop_assert_eq!(BigInt::from(peek.remaining()), model.remaining(now), "{} at {}", model.quota, now);
            prop_assert_eq!(BigInt::from(peek.reset_after().as_nanos()), model.reset_after(now), "{} at {}", model.quota, now);
        }
    }

    #[test]
    fn whole_tokens_stay_whole_under_any_quota(
        first in any_quotas(),
        changes in proptest::collection::vec((any_quotas(), 0..=1_u64 << 33), 1..10),
    ) {
        let (_, bucket) = bucket(first);
        let (mut owed, mut limit) = (0, first.capacity());
        for (quota, n) in changes {
            if bucket.check_n(n).is_ok() {
                owed += n;
            }
            prop_assert!(owed <= limit);
            bucket.set_quota(quota);
            limit = quota.capacity();
            owed = owed.min(limit);
            prop_assert_eq!((bucket.peek().remaining(), bucket.peek().limit()), (limit - owed, limit));
        }
    }
}

/// Whether what an answer says belongs together, for a bucket charged whole tokens at one time under quotas told apart by their bursts: the
/// burst, the tokens left, and how long it takes to give back the rest.
fn belong_together(quotas: &[Quota], limit: u64, remaining: u64, reset_after: Duration) -> bool {
    let quota = quotas.iter().find(|quota| quota.capacity() == limit).expect("a quota that there was");
    let owed = u128::from(limit - remaining) * quota.period().as_nanos();
    reset_after.as_nanos() == owed.div_ceil(quota.tokens().into())
}

#[test]
fn no_charge_is_lost_and_no_answer_is_half_of_a_change() {
    const CALLS: u64 = 200_000;
    // Nothing is denied, capped or refilled: so all that is admitted is owed in the end.
    let quotas = [Quota::per_second(1), Quota::per_minute(7), Quota::per_second(1_000), Quota::per_minute(11), Quota::per_second(250)];
    let quotas: Vec<_> = (0..).zip(quotas).map(|(number, quota)| quota.burst((1 << 22) + number)).collect();
    let (_, bucket) = bucket(quotas[0]);
    let (setters, checkers, readers) = (2, 2, 1);
    let (start, done) = (Barrier::new(setters + checkers + readers), AtomicBool::new(false));
    let admitted: u64 = thread::scope(|scope| {
        let (bucket, quotas, start, done) = (&bucket, &quotas, &start, &done);
        let others: Vec<_> = (0..setters)
            .map(|setter| {
                scope.spawn(move || {
                    start.wait();
                    for change in (setter..).step_by(setter + 1) {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        bucket.set_quota(quotas[change % quotas.len()]);
                    }
                })
            })
            .chain((0..readers).map(|_| {
                scope.spawn(move || {
                    start.wait();
                    while !done.load(Ordering::Relaxed) {
                        let peek = bucket.peek();
                        assert!(belong_together(quotas, peek.limit(), peek.remaining(), peek.reset_after()), "{peek:?}");
                        assert!(quotas.contains(&bucket.quota()));
                    }
                })
            }))
            .collect();
        let check = |call| {
            let n = call % 4;
            let allowed: Allowed = bucket.check_n(n).expect("more than all is left");
            assert!(belong_together(quotas, allowed.limit(), allowed.remaining(), allowed.reset_after()), "{allowed:?}");
            let denied: Denied = bucket.check_n(1 << 40).expect_err("more than the burst");
            assert!(belong_together(quotas, denied.limit(), denied.remaining(), denied.reset_after()), "{denied:?}");
            n
        };
        let checkers: Vec<_> = (0..checkers)
            .map(|_| {
                scope.spawn(move || {
                    start.wait();
                    (0..CALLS).map(check).sum::<u64>()
                })
            })
            .collect();
        let admitted: Vec<_> = checkers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        for other in others {
            other.join().expect("no thread panics");
        }
        admitted.into_iter().map(|admitted| admitted.expect("no thread panics")).sum()
    });
    assert_eq!(bucket.peek().limit() - bucket.peek().remaining(), admitted);
}

/// A change to a quota: in which round, and before it what could have been admitted since the start by refilling, and by forgiving, in tokens
/// of `SECOND` parts.
#[derive(Clone, Copy)]
struct Era {
    burst: i128,
    refilled: i128,
    forgiven: i128,
}

/// The clock stands still within a round, so that stamps and changes are in order: each era of a quota admits what it refills, all of them
/// together one burst, and what is forgiven when a burst is lowered.
#[test]
fn the_promise_holds_over_changes() {
    const ROUNDS: usize = 400;
    const CALLS: usize = 40;
    const CHECKERS: usize = 3;
    let quotas = [
        Quota::per_second(1_000).burst(10),
        Quota::per_second(5).burst(3),
        Quota::per_second(1_000_000).burst(40),
        Quota::per_second(100).burst(25),
        Quota::per_second(3_000_000_000).burst(6),
    ];
    let (clock, bucket) = bucket(quotas[0]);
    let round = Barrier::new(CHECKERS + 1);
    let mut eras = vec![Era { burst: quotas[0].capacity().into(), refilled: 0, forgiven: 0 }];
    // By round and burst, the number of the era. No quota comes twice in a round.
    let mut numbers = HashMap::new();
    let admitted: Vec<(usize, u64, u64)> = thread::scope(|scope| {
        let (bucket, round) = (&bucket, &round);
        let checkers: Vec<_> = (0..CHECKERS)
            .map(|checker| {
                scope.spawn(move || {
                    let mut admitted = Vec::new();
                    for number in 0..ROUNDS {
                        round.wait();
                        for call in 0..CALLS {
                            let n = [1, 1, 2, 5][(call * 7 + number + checker) % 4];
                            if let Ok(allowed) = bucket.check_n(n) {
                                admitted.push((number, allowed.limit(), n));
                            }
                        }
                        round.wait();
                    }
                    admitted
                })
            })
            .collect();
        let mut standing = 0;
        for number in 0..ROUNDS {
            numbers.insert((number, quotas[standing].capacity()), eras.len() - 1);
            round.wait();
            let first = standing;
            for turn in 1..=(number * 5 % 7).min(quotas.len() - 1) {
                let next = (first + turn * (number % 4 + 1)) % quotas.len();
                bucket.set_quota(quotas[next]);
                let last = eras[eras.len() - 1];
                let lowered = quotas[standing].capacity().saturating_sub(quotas[next].capacity());
                let burst = quotas[next].capacity();
                eras.push(Era { burst: burst.into(), forgiven: last.forgiven + i128::from(lowered) * i128::from(SECOND), ..last });
                assert_eq!(numbers.insert((number, burst), eras.len() - 1), None);
                standing = next;
                thread::yield_now();
            }
            round.wait();
            // A few tokens' time, if tokens come often.
            let time = 1 + (number as u64 * 7_919) % 3_000_000;
            clock.advance(Duration::from_nanos(time));
            let last = eras[eras.len() - 1];
            let refilled = last.refilled + i128::from(quotas[standing].tokens()) * i128::from(time);
            eras.push(Era { refilled, ..last });
        }
        checkers.into_iter().flat_map(|checker| checker.join().expect("no thread panics")).collect()
    });
    assert!(!admitted.is_empty());
    assert!(admitted.len() < CHECKERS * ROUNDS * CALLS, "more was asked for than there is");

    let mut sums = vec![0; eras.len()];
    for (number, limit, tokens) in admitted {
        sums[*numbers.get(&(number, limit)).expect("a quota of that round")] += i128::from(tokens) * i128::from(SECOND);
    }
    let (mut sum, mut least_before) = (0, i128::MAX);
    for (number, (era, admitted)) in eras.iter().zip(sums).enumerate() {
        let free = era.refilled + era.forgiven;
        least_before = least_before.min(sum - free);
        sum += admitted;
        let most = era.burst * i128::from(SECOND);
        assert!(sum - free - least_before <= most, "more than the promise, up to era {number}");
    }
}
