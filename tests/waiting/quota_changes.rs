//! Quotas that change while tokens are booked, or owed beyond the burst.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{Bucket, KeyBucket, Limiter, ManualClock, Quota, Reservation};

use crate::{HOUR, QUOTA, TOKEN};

/// A bucket, a key whose own quota changes, and a key under a default that changes: to all of them the same happens.
struct Three {
    clock: ManualClock,
    bucket: Bucket<ManualClock>,
    own: Limiter<ManualClock>,
    default: Limiter<ManualClock>,
}

type OnKey<'a> = KeyBucket<&'a Limiter<ManualClock>>;
type Booked<'a> = (Reservation<&'a Bucket<ManualClock>>, [Reservation<OnKey<'a>>; 2]);

impl Three {
    fn new(quota: Quota) -> Self {
        let clock = ManualClock::new();
        let limiter = || Limiter::builder(quota).max_keys(8).clock(clock.clone()).build();
        Self { bucket: Bucket::with_clock(quota, clock.clone()), own: limiter(), default: limiter(), clock }
    }

    fn keys(&self) -> [OnKey<'_>; 2] {
        [self.own.bucket("key"), self.default.bucket("key")]
    }

    fn set_quota(&self, quota: Quota) {
        self.bucket.set_quota(quota);
        self.own.set_quota("key", quota).expect("room");
        self.default.set_default_quota(quota).expect("room");
    }

    #[track_caller]
    fn check_n(&self, n: u64) -> Result<u64, Option<Duration>> {
        let answer = self.bucket.check_n(n);
        assert_eq!(self.keys().map(|key| key.check_n(n)), [answer; 2]);
        answer.map(|allowed| allowed.remaining()).map_err(|denied| denied.retry_after())
    }

    #[track_caller]
    fn charge(&self, n: u64) {
        let answer = self.bucket.charge(n).expect("always");
        assert_eq!(self.keys().map(|key| key.charge(n)), [Ok(answer); 2]);
    }

    #[track_caller]
    fn reserve(&self, n: u64) -> Option<Booked<'_>> {
        let (booked, keys) = (self.bucket.reserve(n, HOUR), self.keys().map(|key| key.reserve(n, HOUR)));
        let wait = booked.as_ref().map(Reservation::wait).map_err(|&denied| denied);
        for key in &keys {
            assert_eq!(key.as_ref().map(Reservation::wait).map_err(|&denied| denied), wait);
        }
        let [own, default] = keys;
        Some((booked.ok()?, [own.ok()?, default.ok()?]))
    }

    /// How long until all are full.
    #[track_caller]
    fn owes(&self) -> Duration {
        let level = self.bucket.peek();
        for key in self.keys() {
            assert_eq!((key.peek().remaining(), key.peek().reset_after()), (level.remaining(), level.reset_after()));
        }
        level.reset_after()
    }
}

fn cancel((bucket, keys): Booked<'_>) {
    bucket.cancel();
    keys.into_iter().for_each(Reservation::cancel);
}

#[test]
fn what_is_owed_beyond_the_old_burst_stays_owed() {
    let three = Three::new(QUOTA.burst(5));
    three.charge(8);
    three.set_quota(QUOTA.burst(2));
    assert_eq!(three.owes(), 5 * TOKEN, "three of the five within the burst are forgiven, and none of the three beyond");
    assert_eq!(three.check_n(1), Err(Some(4 * TOKEN)));
    three.set_quota(QUOTA.burst(20));
    assert_eq!(three.owes(), 5 * TOKEN, "what was forgiven does not come back");
    assert_eq!(three.check_n(15), Ok(0));
}

#[test]
fn what_is_owed_beyond_the_burst_is_paid_at_the_new_rate() {
    let three = Three::new(QUOTA.burst(5));
    three.charge(40);
    three.set_quota(Quota::per_second(1_000).burst(5));
    assert_eq!(three.owes(), 40 * TOKEN / 10);
    three.set_quota(Quota::per_second(7_919).burst(50));
    assert_eq!(three.check_n(0), Ok(10));
    // All of it is within this burst, and so it is cut to the next.
    three.set_quota(QUOTA);
    assert_eq!(three.owes(), TOKEN);
}

#[test]
fn a_reservation_is_due_when_it_said_and_gives_back_as_many_tokens() {
    let three = Three::new(QUOTA);
    assert_eq!(three.check_n(1), Ok(0));
    let [first, second, third] = [1, 2, 3].map(|place| {
        let booked = three.reserve(1).expect("within an hour");
        assert_eq!(booked.0.wait(), place * TOKEN);
        booked
    });
    let dues = [&first, &second, &third].map(|booked| booked.0.due());
    three.set_quota(Quota::per_second(10).burst(1));
    assert_eq!(three.owes(), 4 * 10 * TOKEN, "four tokens, each a tenth of a second");
    assert_eq!([&first, &second, &third].map(|booked| booked.0.due()), dues);
    let fourth = three.reserve(1).expect("within an hour");
    assert_eq!(fourth.0.wait(), 4 * 10 * TOKEN, "who comes now waits behind them, at the new rate");
    cancel(second);
    assert_eq!(three.owes(), 4 * 10 * TOKEN);
    // After the first was due as told, and before the third is.
    three.clock.advance(TOKEN);
    drop(first);
    assert_eq!(three.owes(), 39 * TOKEN, "used, it is not given back");
    drop(third);
    assert_eq!(three.owes(), 29 * TOKEN);
    three.set_quota(Quota::per_second(100).burst(1));
    cancel(fourth);
    assert_eq!(three.owes(), 19 * TOKEN / 10);
}

#[test]
fn a_reservation_of_what_was_forgiven_lifts_no_bucket_above_full() {
    let three = Three::new(QUOTA.burst(6));
    let there = three.reserve(5).expect("full");
    let waits = three.reserve(4).expect("within an hour");
    assert_eq!((there.0.wait(), waits.0.wait()), (Duration::ZERO, 3 * TOKEN));
    three.set_quota(QUOTA.burst(2));
    assert_eq!(three.owes(), 5 * TOKEN, "two of six, and three");
    cancel(waits);
    assert_eq!(three.owes(), TOKEN);
    cancel(there);
    assert_eq!(three.owes(), Duration::ZERO);
    assert_eq!((three.check_n(2), three.check_n(1)), (Ok(0), Err(Some(TOKEN))), "and no more than the burst");
}

#[test]
fn an_estimate_is_settled_in_tokens_of_the_new_quota() {
    let three = Three::new(QUOTA.burst(10));
    let take = || (three.bucket.estimate(4).expect("full"), three.keys().map(|key| key.estimate(4).expect("full")));
    let ((less, less_keys), (more, more_keys)) = (take(), take());
    three.set_quota(Quota::per_second(10).burst(10));
    assert!(less.settle(1).is_ok() && less_keys.map(|key| key.settle(1).is_ok()) == [true; 2]);
    assert_eq!(three.owes(), 5 * 10 * TOKEN);
    assert!(more.settle(14).is_ok() && more_keys.map(|key| key.settle(14).is_ok()) == [true; 2]);
    assert_eq!(three.owes(), 15 * 10 * TOKEN);
}

/// A bucket in whole nanoseconds, of quotas of so many to a token.
#[derive(Clone, Copy, Debug)]
struct Plain {
    full_at: u64,
    token: u64,
    burst: u64,
}

impl Plain {
    fn debt(&self, now: u64) -> u64 {
        self.full_at.saturating_sub(now)
    }

    fn charge(&mut self, now: u64, n: u64) {
        self.full_at = now + self.debt(now) + n * self.token;
    }

    fn give_back(&mut self, now: u64, n: u64) {
        self.full_at = now + self.debt(now).saturating_sub(n * self.token);
    }

    fn set_quota(&mut self, now: u64, token: u64, burst: u64) {
        let (debt, span) = (self.debt(now), self.burst * self.token);
        let priced = |debt: u64| (debt * token).div_ceil(self.token);
        let owed = priced(debt.min(span)).min(burst * token) + priced(debt.saturating_sub(span));
        *self = Self { full_at: now + owed, token, burst };
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Check(u64),
    Reserve(u64),
    Cancel(usize),
    Drop(usize),
    Charge(u64),
    Change(u64, u64),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (1..=8_u64).prop_map(Op::Check),
        4 => (1..=8_u64).prop_map(Op::Reserve),
        2 => any::<usize>().prop_map(Op::Cancel),
        2 => any::<usize>().prop_map(Op::Drop),
        1 => (1..=20_u64).prop_map(Op::Charge),
        3 => (tokens(), 1..=8_u64).prop_map(|(token, burst)| Op::Change(token, burst)),
        3 => (0..=5_000_u64).prop_map(Op::Wait),
    ]
}

/// Nanoseconds to a token.
fn tokens() -> impl Strategy<Value = u64> {
    select(&[7_u64, 100, 333, 1_000, 4_096][..])
}

fn quota(token: u64, burst: u64) -> Quota {
    Quota::new(1, Duration::from_nanos(token)).expect("one in so long").burst(burst)
}

proptest! {
    // What fails here is to become a test with a name.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bookings_over_changes_follow_exact_arithmetic(
        token in tokens(),
        burst in 1..=8_u64,
        steps in proptest::collection::vec(ops(), 1..60),
    ) {
        let three = Three::new(quota(token, burst));
        let (mut plain, mut now) = (Plain { full_at: 0, token, burst }, 0);
        let mut booked = Vec::new();
        for op in steps {
            let wait = |n: u64| (plain.debt(now) + n * plain.token).saturating_sub(plain.burst * plain.token);
            match op {
                Op::Check(n) => {
                    let answer = three.check_n(n);
                    prop_assert_eq!(answer.is_ok(), n <= plain.burst && wait(n) == 0);
                    let retry = (n <= plain.burst).then(|| Duration::from_nanos(wait(n)));
                    match answer {
                        Ok(_) => plain.charge(now, n),
                        Err(after) => prop_assert_eq!(after, retry),
                    }
                }
                Op::Reserve(n) => {
                    let reservation = three.reserve(n);
                    prop_assert_eq!(reservation.is_some(), n <= plain.burst);
                    if let Some(reservation) = reservation {
                        prop_assert_eq!(reservation.0.wait(), Duration::from_nanos(wait(n)));
                        booked.push((now + wait(n), wait(n), n, reservation));
                        plain.charge(now, n);
                    }
                }
                Op::Cancel(number) if !booked.is_empty() => {
                    let (_, _, n, reservation) = booked.swap_remove(number % booked.len());
                    plain.give_back(now, n);
                    cancel(reservation);
                }
                Op::Drop(number) if !booked.is_empty() => {
                    let (due, wait, n, reservation) = booked.swap_remove(number % booked.len());
                    if wait > 0 && now < due {
                        plain.give_back(now, n);
                    }
                    drop(reservation);
                }
                Op::Charge(n) => {
                    plain.charge(now, n);
                    three.charge(n);
                }
                Op::Change(token, burst) => {
                    plain.set_quota(now, token, burst);
                    three.set_quota(quota(token, burst));
                }
                Op::Wait(nanos) => {
                    now += nanos;
                    three.clock.set(Duration::from_nanos(now));
                }
                Op::Cancel(_) | Op::Drop(_) => {}
            }
            prop_assert_eq!(three.owes(), Duration::from_nanos(plain.debt(now)), "after {:?} at {} ns: {:?}", op, now, plain);
        }
    }
}
