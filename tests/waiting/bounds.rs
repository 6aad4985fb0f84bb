//! Bounds on a wait, bookings, charges and estimates.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tollgate::{Bucket, Clock, Limiter, ManualClock, MaxWait, Quota, Reason, Waiters};

use crate::both::on_both;
use crate::rounds::Rounds;
use crate::timers::{Timers, poll_once};
use crate::{HOUR, QUOTA, TOKEN};

#[test]
fn no_more_wait_than_may_and_who_needs_no_wait_is_admitted() {
    on_both!(QUOTA.burst(2), |clock, bucket| {
        for most in [0, 1, 3] {
            let waiters = Waiters::new(most);
            let max_wait = MaxWait::new(HOUR).among(&waiters);
            assert_eq!((waiters.most(), waiters.waiting()), (most, 0));
            for _ in 0..2 {
                let there = bucket.reserve(1, &max_wait).expect("a token is there");
                assert_eq!((there.wait(), waiters.waiting()), (Duration::ZERO, 0), "who need not wait is not counted on");
            }
            let waiting: Vec<_> = (1..=most).map(|_| bucket.reserve(1, &max_wait).expect("a place")).collect();
            assert_eq!(waiters.clone().waiting(), most);

            let before = bucket.peek();
            let denied = bucket.reserve(2, &max_wait).expect_err("no place");
            assert_eq!((denied.reason(), denied.requested()), (Reason::TooManyWaiters, 2));
            let places = u32::try_from(most).expect("a few");
            assert_eq!(denied.retry_after(), Some((places + 2) * TOKEN), "when no wait is needed");
            assert_eq!(bucket.reserve(3, &max_wait).expect_err("never").reason(), Reason::OverBurst);
            let at_once = MaxWait::new(Duration::ZERO).among(&waiters);
            assert_eq!(bucket.reserve(1, at_once).expect_err("no token").reason(), Reason::OverQuota);
            assert!(bucket.reserve(0, &max_wait).is_ok());
            assert_eq!(bucket.peek(), before, "a denial writes nothing");
            assert_eq!(waiters.waiting(), most, "nor is it counted");

            drop(waiting);
            assert_eq!(waiters.waiting(), 0);
            clock.advance(HOUR);
        }
    });
}

#[test]
fn a_place_is_free_again_however_the_wait_ends() {
    on_both!(QUOTA, |clock, bucket| {
        let (waiters, timers) = (Waiters::new(1), Timers::new(&clock));
        let max_wait = MaxWait::new(HOUR).among(&waiters);
        assert!(bucket.check().is_ok());
        let acquire = || Box::pin(bucket.acquire_with(1, &max_wait, timers.clone()));
        let book = || bucket.reserve(1, &max_wait).expect("a place");
        book().cancel();
        book().keep();
        drop(book());

        let mut unpolled = acquire();
        assert_eq!(waiters.waiting(), 0, "a future that was not polled waits for nothing");
        assert!(poll_once(unpolled.as_mut()).is_pending());
        assert_eq!(waiters.waiting(), 1);
        let mut second = acquire();
        let Poll::Ready(Err(denied)) = poll_once(second.as_mut()) else { panic!("no place") };
        assert_eq!(denied.reason(), Reason::TooManyWaiters);
        drop(unpolled);
        assert_eq!(waiters.waiting(), 0);

        let mut done = acquire();
        assert!(poll_once(done.as_mut()).is_pending());
        clock.advance(HOUR);
        assert_eq!(waiters.waiting(), 1, "as long as it was not told");
        assert!(matches!(poll_once(done.as_mut()), Poll::Ready(Ok(_))));
        assert_eq!(waiters.waiting(), 0, "also while the future is still there");
        drop(done);

        let over_due = bucket.reserve(1, &max_wait).expect("a token is there");
        assert!(over_due.wait().is_zero());
        let late = book();
        clock.advance(HOUR);
        drop(late);
        assert_eq!(waiters.waiting(), 0);
    });
}

#[test]
fn waiters_are_counted_over_many_buckets_and_threads() {
    const MOST: usize = 3;
    const THREADS: usize = 4;
    const ROUNDS: usize = 2_000;
    let clock = ManualClock::new();
    let buckets = [(); 2].map(|()| Bucket::with_clock(QUOTA, clock.clone()));
    let limiter = Limiter::builder(QUOTA).max_keys(8).clock(clock.clone()).build();
    assert!(buckets.iter().all(|bucket| bucket.check().is_ok()));
    assert!(limiter.check("key").is_ok());
    let waiters = Waiters::new(MOST);
    let max_wait = MaxWait::new(Duration::MAX).among(&waiters);
    let (held, denied, rounds) = (AtomicUsize::new(0), AtomicUsize::new(0), Rounds::new(THREADS));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (buckets, limiter, waiters, max_wait) = (&buckets, &limiter, &waiters, &max_wait);
            let (held, denied, rounds) = (&held, &denied, &rounds);
            scope.spawn(move || {
                let round = rounds.join();
                // All ask before any lets go: as many as may are admitted, and no more.
                for _ in 0..ROUNDS {
                    round.wait();
                    let key = limiter.bucket("key");
                    let (mine, keys) = match thread {
                        0 | 1 => (Some(buckets[thread].reserve(1, max_wait)), None),
                        _ => (None, Some(key.reserve(1, max_wait))),
                    };
                    let got = mine.as_ref().is_some_and(Result::is_ok) || keys.as_ref().is_some_and(Result::is_ok);
                    held.fetch_add(usize::from(got), Ordering::Relaxed);
                    denied.fetch_add(usize::from(!got), Ordering::Relaxed);
                    assert!(waiters.waiting() <= MOST);
                    round.wait();
                    assert_eq!(waiters.waiting(), MOST);
                    round.wait();
                }
            });
        }
    });
    assert_eq!((held.into_inner(), denied.into_inner()), (ROUNDS * MOST, ROUNDS * (THREADS - MOST)));
    assert_eq!(waiters.waiting(), 0);
    for bucket in &buckets {
        assert_eq!(bucket.peek().reset_after(), TOKEN, "what was dropped was given back");
    }
}

#[test]
fn no_wait_is_a_check_and_any_wait_is_booked() {
    on_both!(QUOTA.burst(2), |clock, bucket| {
        assert_eq!(bucket.reserve(1, Duration::ZERO).expect("there").keep().remaining(), 1);
        assert_eq!(bucket.acquire_blocking(1, Duration::ZERO).expect("there").remaining(), 0);
        let (none, any) = (MaxWait::new(Duration::ZERO), MaxWait::from(Duration::MAX));
        let denied = bucket.reserve(1, &none).expect_err("drained");
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::OverQuota, Some(TOKEN)));
        assert_eq!(denied, bucket.check().expect_err("drained"), "one answer");
        for waits in 1..=1_000 {
            assert_eq!(bucket.reserve(1, &any).expect("any wait").keep().remaining(), 0);
            assert_eq!(bucket.check().expect_err("others wait").retry_after(), Some((waits + 1) * TOKEN));
        }
        clock.advance(1_000 * TOKEN);
        assert_eq!(bucket.reserve(1, none).map(|booked| booked.wait()).map_err(|denied| denied.retry_after()), Err(Some(TOKEN)));
    });
}

#[test]
fn a_denial_within_a_bound_says_the_bound() {
    let bucket = Bucket::with_clock(QUOTA, ManualClock::new());
    assert!(bucket.check().is_ok());
    let text = |max_wait: MaxWait| bucket.reserve(1, max_wait).expect_err("drained").to_string();
    let four = Duration::from_millis(4);
    assert_eq!(text(four.into()), "rate limited: 1 asked for within 4ms, 0 of 1 left; retry after 6ms");
    let nobody = MaxWait::new(HOUR).among(&Waiters::new(0));
    assert_eq!(text(nobody), "rate limited: 1 asked for, 0 of 1 left, and as many wait as may; retry after 10ms");
}

#[test]
fn nothing_asked_for_is_always_allowed_and_changes_nothing() {
    let none = |level: (u64, Duration)| level;
    on_both!(QUOTA, |clock, bucket| {
        for owed in [0, 1, 1_000] {
            assert!(bucket.charge(owed).is_ok());
            let before = bucket.peek();
            let level = none((before.remaining(), before.reset_after()));
            let timers = Timers::new(&clock);
            let booked = bucket.reserve(0, Duration::ZERO).expect("nothing asked for");
            assert_eq!((booked.wait(), booked.tokens(), booked.due()), (Duration::ZERO, 0, clock.now()));
            booked.cancel();
            let mut acquire = Box::pin(bucket.acquire_with(0, Duration::ZERO, timers.clone()));
            let Poll::Ready(Ok(allowed)) = poll_once(acquire.as_mut()) else { panic!("waits for nothing") };
            assert_eq!((allowed.remaining(), allowed.reset_after()), level);
            assert!(bucket.acquire_blocking(0, Duration::ZERO).is_ok());
            assert!(bucket.charge(0).is_ok());
            assert!(bucket.estimate(0).and_then(|receipt| receipt.settle(0)).is_ok());
            bucket.estimate(0).expect("nothing asked for").refund();
            assert!(bucket.lease(4).check_n(0).is_ok());
            assert_eq!((bucket.peek(), timers.set()), (before, 0), "after {owed}");
        }
    });
    let limiter = Limiter::builder(QUOTA).max_keys(8).clock(ManualClock::new()).build();
    let key = limiter.bucket("key");
    assert!(key.charge(0).is_ok() && key.reserve(0, HOUR).is_ok() && key.lease(4).check_n(0).is_ok());
    assert!(limiter.is_empty(), "no bucket is made for it");
}

#[test]
fn after_a_charge_of_the_most_there_is_everything_still_answers() {
    let quotas = [QUOTA, Quota::per_second(7_919).burst(3), Quota::per_day(1).burst(1 << 32), Quota::per_second(14_000_000_000)];
    for quota in quotas {
        for start in [0, 1 << 55, u64::MAX] {
            on_both!(quota, |clock, bucket| {
                clock.set(Duration::from_nanos(start));
                let timers = Timers::new(&clock);
                let (early, receipt) = (bucket.reserve(1, HOUR).expect("full"), bucket.estimate(0).expect("nothing"));
                for _ in 0..2 {
                    let charged = bucket.charge(u64::MAX).expect("always");
                    assert_eq!(charged.remaining(), 0);
                    let reset = bucket.peek().reset_after();
                    assert!(reset == charged.reset_after() && reset > HOUR, "{quota}, at {start}: {reset:?}");
                    if quota == QUOTA && start < u64::MAX {
                        assert_eq!(reset.as_nanos(), (1 << 63) - 1 - u128::from(start), "as much as a word holds");
                    }
                }
                assert!(receipt.settle(u64::MAX).is_ok());
                for n in [1, quota.capacity()] {
                    let denied = bucket.check_n(n).expect_err("in debt");
                    assert!(denied.retry_after() > Some(HOUR), "{denied:?}");
                    for within in [Duration::ZERO, HOUR, Duration::MAX] {
                        let denied = bucket.reserve(n, within).map(|booked| booked.wait()).expect_err("in debt");
                        assert!(denied.retry_after() > Some(HOUR), "{quota}, at {start}, within {within:?}: {denied:?}");
                        assert!(!denied.to_string().is_empty() && bucket.acquire_blocking(n, within).is_err());
                        let mut acquire = Box::pin(bucket.acquire_with(n, within, timers.clone()));
                        assert!(matches!(poll_once(acquire.as_mut()), Poll::Ready(Err(_))));
                    }
                    assert!(bucket.estimate(n).is_err() && bucket.lease(n).check().is_err());
                }
                assert_eq!(bucket.check_n(u64::MAX).expect_err("too many").remaining(), 0);
                let reset = bucket.peek().reset_after();
                early.cancel();
                assert!(bucket.peek().reset_after() <= reset, "{quota}, at {start}");
                if quota == QUOTA && start < u64::MAX {
                    assert_eq!(bucket.peek().reset_after(), reset.saturating_sub(TOKEN));
                }
                for time in [0, start.min(1 << 55)] {
                    clock.set(Duration::from_nanos(time));
                    assert!(bucket.check().is_err() && bucket.charge(1).is_ok() && !bucket.peek().is_full(), "{quota}, at {time}");
                }
                // Where time stands still, a burst is owed at most, and of that what was given back.
                clock.set(Duration::MAX);
                assert!(bucket.charge(u64::MAX).is_ok() && bucket.check().is_err() && !bucket.peek().is_full(), "{quota}");
            });
        }
    }
}

#[test]
fn a_bucket_that_was_charged_too_much_pays_it_off() {
    on_both!(QUOTA.burst(5), |clock, bucket| {
        assert_eq!(bucket.charge(12).map(|allowed| (allowed.remaining(), allowed.reset_after())), Ok((0, 12 * TOKEN)));
        assert_eq!(bucket.check().expect_err("below zero").retry_after(), Some(8 * TOKEN));
        assert_eq!(bucket.check_n(5).expect_err("below zero").retry_after(), Some(12 * TOKEN));
        assert_eq!(bucket.reserve(1, HOUR).map(|booked| booked.wait()), Ok(8 * TOKEN), "whoever waits comes after it");
        clock.advance(8 * TOKEN);
        assert_eq!(bucket.check().map(|allowed| allowed.remaining()), Ok(0));
    });
}

#[test]
fn an_estimate_is_settled_below_and_above() {
    on_both!(QUOTA.burst(10), |clock, bucket| {
        let (left, reset) = (bucket.estimate(4).expect("full"), bucket.estimate(4).expect("six are left"));
        assert_eq!((left.tokens(), left.allowed().remaining(), reset.allowed().remaining()), (4, 6, 2));
        assert_eq!(left.settle(1).map(|allowed| allowed.remaining()), Ok(5));
        assert_eq!(reset.settle(4).map(|allowed| allowed.remaining()), Ok(5), "as estimated");
        let third = bucket.estimate(2).expect("five are left");
        assert_eq!(third.settle(20).map(|allowed| (allowed.remaining(), allowed.reset_after())), Ok((0, 25 * TOKEN)));
        clock.advance(HOUR);
        bucket.estimate(3).expect("full").refund();
        assert!(bucket.peek().is_full());
        drop(bucket.estimate(3).expect("full"));
        assert_eq!(bucket.peek().remaining(), 7, "unsettled, it stays charged");
        // What was refilled meanwhile is not given back again.
        let late = bucket.estimate(3).expect("seven are left");
        clock.advance(5 * TOKEN);
        assert_eq!(late.settle(0).map(|allowed| allowed.remaining()), Ok(10));
        assert_eq!(bucket.check_n(10).map(|allowed| allowed.remaining()), Ok(0));
        assert!(bucket.check().is_err());
    });
}
