//! Properties: bookings, charges and give-backs on a bucket and on a key, held against exact rational arithmetic.

#[path = "common/bookings.rs"]
mod bookings;
#[path = "common/model.rs"]
mod exact;
#[path = "common/strategies.rs"]
mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Bucket, KeyBucket, Limiter, ManualClock, Quota, Receipt, Reservation};

use exact::{Answer, Disagreement, Model};
use strategies::{Ask, DAY, HORIZON, SECOND, YEAR, asks, clock_at, quotas, starts, within};

/// How long to wait at most.
#[derive(Clone, Copy, Debug)]
enum Within {
    Nanos(u64),
    /// As long as the call has to, and so much more.
    Enough(i64),
    Any,
}

/// What happens next. What was booked before, and estimates, are chosen by a number.
#[derive(Clone, Copy, Debug)]
enum Op {
    Check(Ask),
    Reserve(Ask, Within),
    Cancel(usize),
    Drop(usize),
    Keep(usize),
    Charge(Ask),
    Estimate(Ask),
    Settle(usize, Ask),
    Refund(usize),
}

fn ops() -> impl Strategy<Value = Op> {
    let waits = prop_oneof![
        1 => Just(Within::Nanos(0)),
        2 => (0..=10 * SECOND).prop_map(Within::Nanos),
        1 => (0..=YEAR).prop_map(Within::Nanos),
        5 => (-2..=2_i64).prop_map(Within::Enough),
        2 => Just(Within::Any),
    ];
    prop_oneof![
        3 => asks().prop_map(Op::Check),
        6 => (asks(), waits).prop_map(|(ask, wait)| Op::Reserve(ask, wait)),
        2 => any::<usize>().prop_map(Op::Cancel),
        3 => any::<usize>().prop_map(Op::Drop),
        1 => any::<usize>().prop_map(Op::Keep),
        2 => asks().prop_map(Op::Charge),
        2 => asks().prop_map(Op::Estimate),
        2 => (any::<usize>(), asks()).prop_map(|(number, ask)| Op::Settle(number, ask)),
        1 => any::<usize>().prop_map(Op::Refund),
    ]
}

/// Where the clock goes before.
#[derive(Clone, Copy, Debug)]
enum Move {
    Forward(u64),
    Back(u64),
    /// To the moment of the last denial's retry, and so many nanoseconds off.
    Retry(i64),
    /// To when a reservation is due, and so many nanoseconds off.
    Due(usize, i64),
    /// So many 256ths of the time to a full bucket.
    Part(u8),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => Just(Move::Forward(0)),
        2 => (0..=1_000_u64).prop_map(Move::Forward),
        2 => (0..=10 * SECOND).prop_map(Move::Forward),
        1 => (0..=YEAR).prop_map(Move::Forward),
        1 => (0..=1_000_u64).prop_map(Move::Back),
        1 => (0..=40 * DAY).prop_map(Move::Back),
        3 => (-2..=2_i64).prop_map(Move::Retry),
        3 => (any::<usize>(), -1..=1_i64).prop_map(|(number, off)| Move::Due(number, off)),
        2 => any::<u8>().prop_map(Move::Part),
    ]
}

type OnBucket<'a> = &'a Bucket<ManualClock>;
type OnKey<'a> = KeyBucket<&'a Limiter<ManualClock>>;

/// A bucket and a key that the same happens to, and what should have become of them.
struct World<'a> {
    clock: &'a ManualClock,
    start: u64,
    now: u64,
    bucket: OnBucket<'a>,
    key: OnKey<'a>,
    model: Model,
    retry_after: u64,
    booked: Vec<(Reservation<OnBucket<'a>>, Reservation<OnKey<'a>>)>,
    estimates: Vec<(Receipt<OnBucket<'a>>, Receipt<OnKey<'a>>)>,
}

/// One of several, if there is any.
fn any_of<T>(things: &mut Vec<T>, number: usize) -> Option<T> {
    if things.is_empty() { None } else { Some(things.swap_remove(number % things.len())) }
}

fn agree<T: PartialEq + std::fmt::Debug>(on_bucket: &T, on_key: &T) -> Result<(), Disagreement> {
    if on_bucket == on_key { Ok(()) } else { Err(Disagreement(format!("{on_bucket:?} on a bucket, {on_key:?} on a key"))) }
}

impl World<'_> {
    fn move_on(&mut self, to: Move) {
        let after = |by: u64, off: i64| self.now.saturating_add(by).saturating_add_signed(off);
        let time = match to {
            Move::Forward(by) => after(by, 0),
            Move::Back(by) => self.now.saturating_sub(by),
            Move::Retry(off) => after(self.retry_after, off),
            Move::Due(number, off) => match self.booked.len() {
                0 => self.now,
                count => self.booked[number % count].0.due().as_nanos().saturating_add_signed(off),
            },
            Move::Part(part) => {
                let reset = u64::try_from(self.bucket.peek().reset_after().as_nanos()).unwrap_or(u64::MAX);
                after(reset / 256 * u64::from(part), 0)
            }
        };
        // Half of what is counted, as bookings and charges reach ahead.
        self.now = within(self.start, time.min(self.start + HORIZON / 2));
        self.clock.set(Duration::from_nanos(self.now));
    }

    fn happen(&mut self, op: Op) -> Result<(), Disagreement> {
        let (bucket, key, now) = (self.bucket, self.key, self.now);
        let burst = bucket.quota().capacity();
        match op {
            Op::Check(ask) => {
                let answer = bucket.check_n(ask.of(burst));
                agree(&answer, &key.check_n(ask.of(burst)))?;
                self.follow(ask.of(burst), answer.into())?;
            }
            Op::Reserve(ask, wait) => self.reserve(ask.of(burst), wait)?,
            Op::Cancel(number) => {
                let Some((on_bucket, on_key)) = any_of(&mut self.booked, number) else { return Ok(()) };
                self.model.give_back(now, on_bucket.tokens());
                on_bucket.cancel();
                on_key.cancel();
            }
            Op::Drop(number) => {
                let Some((on_bucket, on_key)) = any_of(&mut self.booked, number) else { return Ok(()) };
                if !on_bucket.wait().is_zero() && now < on_bucket.due().as_nanos() {
                    self.model.give_back(now, on_bucket.tokens());
                }
                drop((on_bucket, on_key));
            }
            Op::Keep(number) => {
                let Some((on_bucket, on_key)) = any_of(&mut self.booked, number) else { return Ok(()) };
                let was = on_bucket.allowed();
                agree(&on_bucket.keep(), &was)?;
                agree(&on_key.keep(), &was)?;
            }
            Op::Charge(ask) => {
                let n = ask.of(burst);
                if self.model.can_owe(now, n, self.start + HORIZON) {
                    let answer = bucket.charge(n);
                    agree(&answer, &key.charge(n))?;
                    self.model.charge(now, n);
                    self.stands(answer.map(|allowed| (allowed.remaining(), allowed.reset_after())))?;
                }
            }
            Op::Estimate(ask) => {
                let (on_bucket, on_key) = (bucket.estimate(ask.of(burst)), key.estimate(ask.of(burst)));
                let answer = on_bucket.as_ref().map(Receipt::allowed).map_err(|&denied| denied);
                agree(&answer, &on_key.as_ref().map(Receipt::allowed).map_err(|&denied| denied))?;
                self.follow(ask.of(burst), answer.into())?;
                self.estimates.extend(on_bucket.ok().zip(on_key.ok()));
            }
            Op::Settle(number, ask) => {
                let Some((on_bucket, on_key)) = any_of(&mut self.estimates, number) else { return Ok(()) };
                let (estimate, used) = (on_bucket.tokens(), ask.of(burst));
                if self.model.can_owe(now, used, self.start + HORIZON) {
                    match used.checked_sub(estimate) {
                        Some(more) => self.model.charge(now, more),
                        None => self.model.give_back(now, estimate - used),
                    }
                    let answer = on_bucket.settle(used);
                    agree(&answer, &on_key.settle(used))?;
                    self.stands(answer.map(|allowed| (allowed.remaining(), allowed.reset_after())))?;
                }
            }
            Op::Refund(number) => {
                let Some((on_bucket, on_key)) = any_of(&mut self.estimates, number) else { return Ok(()) };
                self.model.give_back(now, on_bucket.tokens());
                on_bucket.refund();
                on_key.refund();
            }
        }
        agree(&bucket.peek(), &key.peek())?;
        self.model.stands_as(now, bucket.peek())
    }

    fn follow(&mut self, n: u64, answer: Answer) -> Result<(), Disagreement> {
        self.retry_after = u64::try_from(answer.retry_after.unwrap_or(0)).unwrap_or(u64::MAX);
        self.model.follow(self.now, n, answer)
    }

    fn stands(&self, level: Result<(u64, Duration), tollgate::Denied>) -> Result<(), Disagreement> {
        let (remaining, reset) = level.map_err(|denied| Disagreement(format!("a charge was denied: {denied:?}")))?;
        self.model.stands_at(self.now, remaining, reset.as_nanos())
    }

    fn reserve(&mut self, n: u64, wait: Within) -> Result<(), Disagreement> {
        let end = self.start + HORIZON;
        let max_wait = match wait {
            // No longer than is counted.
            Within::Nanos(nanos) => Duration::from_nanos(nanos.min(end - self.now)),
            Within::Enough(off) => {
                let wait = self.model.whole_wait(self.now, n).map_or(0, |wait| u64::try_from(wait).unwrap_or(u64::MAX));
                Duration::from_nanos(wait.saturating_add_signed(off).min(end - self.now))
            }
            Within::Any => Duration::MAX,
        };
        let within = u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX);
        let (on_bucket, on_key) = (self.bucket.reserve(n, max_wait), self.key.reserve(n, max_wait));
        let waits = |wait: Duration| wait.as_nanos();
        let answer = on_bucket.as_ref().map(|booked| waits(booked.wait())).map_err(|&denied| denied);
        agree(&answer, &on_key.as_ref().map(|booked| waits(booked.wait())).map_err(|&denied| denied))?;
        self.model.follow_booking(self.now, n, within, end, answer)?;
        match (on_bucket, on_key) {
            (Ok(on_bucket), Ok(on_key)) => {
                let due = on_bucket.due();
                agree(&due, &on_key.due())?;
                let when = u128::from(self.now) + answer.unwrap_or(0);
                agree(&u128::from(due.as_nanos()), &when.min(u64::MAX.into()))?;
                agree(&(on_bucket.tokens(), on_key.tokens()), &(n, n))?;
                let allowed = on_bucket.allowed();
                agree(&allowed, &on_key.allowed())?;
                self.model.stands_at(self.now, allowed.remaining(), allowed.reset_after().as_nanos())?;
                self.booked.push((on_bucket, on_key));
            }
            (Err(denied), _) => {
                let after = denied.retry_after().map_or(0, |after| after.as_nanos());
                self.retry_after = u64::try_from(after).unwrap_or(u64::MAX);
            }
            (Ok(_), Err(_)) => {}
        }
        Ok(())
    }
}

/// What happens to a bucket and a key under a quota, step by step.
fn follows(quota: Quota, start: u64, steps: Vec<(Move, Op)>) -> Result<(), TestCaseError> {
    let clock = clock_at(start);
    let bucket = Bucket::with_clock(quota, clock.clone());
    let limiter = Limiter::builder(quota).max_keys(4).clock(clock.clone()).build();
    let mut world = World {
        clock: &clock,
        start,
        now: start,
        bucket: &bucket,
        key: limiter.bucket("key"),
        model: Model::new(quota),
        retry_after: 0,
        booked: Vec::new(),
        estimates: Vec::new(),
    };
    for (to, op) in steps {
        world.move_on(to);
        let now = world.now;
        if let Err(disagreement) = world.happen(op) {
            prop_assert!(false, "{:?}, {:?} at {} ns: {}", quota, op, now, disagreement);
        }
    }
    Ok(())
}

/// Once found by the properties below, on their side.
#[test]
fn a_booking_that_would_be_due_after_the_last_instant_is_due_then() {
    let quota: Quota = "5/36500day burst 34".parse().expect("a quota");
    let wait = Duration::from_nanos(29 * 7_300 * DAY);
    let last = Duration::from_nanos(u64::MAX);
    let second = Duration::from_secs(1);
    let there = last.saturating_sub(wait);
    for start in [there.saturating_sub(second), there + second] {
        let clock = ManualClock::new();
        clock.set(start);
        let bucket = Bucket::with_clock(quota, clock.clone());
        assert!(bucket.check_n(29).is_ok());
        let booked = bucket.reserve(34, Duration::MAX).expect("a wait within what is counted");
        assert!(booked.wait() >= wait && booked.wait() < wait + second, "{:?}", booked.wait());
        let due = (start + booked.wait()).min(last);
        assert_eq!(u128::from(booked.due().as_nanos()), due.as_nanos());
    }
}

/// Quotas of a few tokens, which bookings and give-backs meet at their ends.
fn small_quotas() -> impl Strategy<Value = Quota> {
    let exact =
        [Quota::per_second(1), Quota::per_second(3), Quota::per_minute(7), Quota::per_second(130), Quota::per_second(1_000_000_000)];
    let inexact = [Quota::per_second(7_919), Quota::per_second(1_000_003), Quota::per_second(3_999_999_979)];
    assert!(exact.iter().all(Quota::is_exact) && inexact.iter().all(|quota| !quota.is_exact()));
    (proptest::sample::select([&exact[..], &inexact[..]].concat()), 1..=12_u64).prop_map(|(quota, burst)| quota.burst(burst))
}

proptest! {
    // What fails here is to become a test with a name.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bucket_and_key_follow_exact_arithmetic(
        quota in quotas(),
        start in starts(),
        steps in proptest::collection::vec((moves(), ops()), 1..30),
    ) {
        follows(quota, start, steps)?;
    }

    #[test]
    fn small_bursts_follow_exact_arithmetic(
        quota in small_quotas(),
        start in starts(),
        steps in proptest::collection::vec((moves(), ops()), 1..40),
    ) {
        follows(quota, start, steps)?;
    }

    #[test]
    fn a_bounded_wait_is_denied_until_its_retry_and_booked_exactly_then(
        quota in small_quotas(),
        drains in proptest::collection::vec(1..=12_u64, 1..6),
        n in 1..=12_u64,
        part in any::<u8>(),
    ) {
        let clock = ManualClock::new();
        let bucket = Bucket::with_clock(quota, clock.clone());
        for n in drains {
            prop_assert!(bucket.charge(n.min(quota.capacity())).is_ok());
        }
        let n = n.min(quota.capacity());
        let Err(denied) = bucket.check_n(n) else { return Ok(()) };
        let wait = denied.retry_after().expect("no more than the burst");
        let within = wait.saturating_sub(Duration::from_nanos(1)) * u32::from(part) / 255;
        let denied = bucket.reserve(n, within).map(|booked| booked.wait()).expect_err("a longer wait");
        prop_assert_eq!(denied.retry_after(), Some(wait.saturating_sub(within)));
        let retry = denied.retry_after().unwrap_or_default();
        for early in [Duration::ZERO, retry / 2, retry.saturating_sub(Duration::from_nanos(1))] {
            clock.set(early);
            let denied = bucket.reserve(n, within).map(|booked| booked.wait()).expect_err("early");
            prop_assert_eq!(denied.retry_after(), Some(retry.saturating_sub(early)), "the end of the wait stands still");
        }
        clock.set(retry);
        let booked = bucket.reserve(n, within).map_err(|denied| TestCaseError::fail(format!("{denied:?} after {retry:?}")))?;
        prop_assert_eq!(booked.wait(), within);
    }
}
