//! Tokens taken a batch at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Bucket, Clock, Instant, Lease, Limiter, ManualClock, Overflow, Quota, Reason, TokenBucket};

use crate::both::on_both;
use crate::random::Random;
use crate::rounds::Rounds;
use crate::{HOUR, QUOTA, TOKEN};

#[test]
fn a_batch_is_taken_at_once_and_served_one_by_one() {
    on_both!(QUOTA.burst(100), |_clock, bucket| {
        let lease = bucket.lease(16);
        assert_eq!((lease.unused(), bucket.peek().remaining()), (0, 100), "a new handle is empty");
        for served in 1..=48 {
            assert_eq!(lease.check(), Ok(()));
            let batches = u64::div_ceil(served, 16);
            assert_eq!((lease.unused(), bucket.peek().remaining()), (batches * 16 - served, 100 - batches * 16));
        }
        assert_eq!(lease.check_n(0), Ok(()));
        assert_eq!((lease.unused(), bucket.peek().remaining()), (0, 52), "nothing is taken for nothing");
    });
}

#[test]
fn more_than_a_batch_is_taken_as_it_is_missing() {
    on_both!(QUOTA.burst(100), |_clock, bucket| {
        let lease = bucket.lease(4);
        assert_eq!(lease.check_n(10), Ok(()));
        assert_eq!((lease.unused(), bucket.peek().remaining()), (0, 90));
        assert_eq!(lease.check(), Ok(()));
        assert_eq!(lease.check_n(10), Ok(()), "three in the handle, seven from the bucket");
        assert_eq!((lease.unused(), bucket.peek().remaining()), (0, 79));
        assert_eq!(lease.check(), Ok(()));
        assert_eq!(lease.check_n(5), Ok(()), "three in the handle, and a batch");
        assert_eq!((lease.unused(), bucket.peek().remaining()), (2, 71));
    });
}

#[test]
fn where_a_batch_is_not_there_as_much_is_taken_as_is() {
    on_both!(QUOTA.burst(5), |clock, bucket| {
        for batch in [6, 100, u64::MAX] {
            let lease = bucket.lease(batch);
            assert_eq!(lease.check(), Ok(()), "a batch above the burst");
            assert_eq!((lease.unused(), bucket.peek().remaining()), (4, 0));
            assert_eq!(lease.check_n(4), Ok(()));
            let denied = lease.check().expect_err("drained");
            assert_eq!((denied.reason(), denied.retry_after()), (Reason::OverQuota, Some(TOKEN)));
            clock.advance(3 * TOKEN);
            assert_eq!(lease.check(), Ok(()));
            assert_eq!((lease.unused(), bucket.peek().remaining()), (2, 0));
            assert_eq!(lease.check_n(2), Ok(()));
            drop(lease);
            clock.advance(HOUR);
        }
        let single = bucket.lease(0);
        assert_eq!(single.check(), Ok(()), "no batch is one");
        assert_eq!((single.unused(), bucket.peek().remaining()), (0, 4));
    });
}

#[test]
fn a_denial_takes_nothing_and_its_wait_is_enough() {
    on_both!(QUOTA.burst(5), |clock, bucket| {
        let lease = bucket.lease(4);
        assert_eq!(lease.check(), Ok(()));
        let before = bucket.peek();
        // Three are in the handle, one is in the bucket.
        let denied = lease.check_n(6).expect_err("four are there");
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::OverQuota, Some(2 * TOKEN)));
        let never = lease.check_n(9).expect_err("eight is what both can have");
        assert_eq!((never.reason(), never.retry_after()), (Reason::OverBurst, None));
        assert_eq!(lease.check_n(u64::MAX).expect_err("never").retry_after(), None);
        assert_eq!((lease.unused(), bucket.peek()), (3, before));
        clock.advance((2 * TOKEN).saturating_sub(Duration::from_nanos(1)));
        assert!(lease.check_n(6).is_err());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(lease.check_n(6), Ok(()));
        assert_eq!((lease.unused(), bucket.peek().remaining()), (0, 0));
        clock.advance(HOUR);
        assert_eq!(lease.check(), Ok(()));
        clock.advance(HOUR);
        assert_eq!(lease.check_n(8), Ok(()), "three in the handle, and the burst");
    });
}

#[test]
fn what_is_unused_is_given_back_once() {
    on_both!(QUOTA.burst(20), |clock, bucket| {
        let lease = bucket.lease(10);
        assert_eq!(lease.check_n(3), Ok(()));
        lease.rest();
        assert_eq!((lease.unused(), bucket.peek().remaining()), (0, 17));
        lease.rest();
        assert_eq!(bucket.peek().remaining(), 17);
        assert_eq!(lease.check(), Ok(()), "after a rest it goes on");
        assert_eq!((lease.unused(), bucket.peek().remaining()), (9, 7));
        drop(lease);
        assert_eq!(bucket.peek().remaining(), 16, "dropped, it rests");
        // What was refilled meanwhile is not given back again.
        let lease = bucket.lease(10);
        assert_eq!(lease.check(), Ok(()));
        clock.advance(HOUR);
        lease.rest();
        assert_eq!((bucket.check_n(20).map(|allowed| allowed.remaining()), bucket.check().is_ok()), (Ok(0), false));
    });
}

/// A clock that counts its readings.
struct Counted(AtomicUsize);

impl Clock for Counted {
    fn now(&self) -> Instant {
        self.0.fetch_add(1, Ordering::Relaxed);
        Instant::ORIGIN
    }
}

#[test]
fn what_is_in_the_handle_needs_no_look_at_the_clock() {
    let clock = Counted(AtomicUsize::new(0));
    let bucket = Bucket::with_clock(QUOTA.burst(100), &clock);
    let lease = bucket.lease(16);
    let readings = |work: &dyn Fn()| {
        let before = clock.0.load(Ordering::Relaxed);
        work();
        clock.0.load(Ordering::Relaxed) - before
    };
    assert_eq!(readings(&|| lease.rest()), 0, "there is nothing to give back");
    assert_eq!(readings(&|| assert!(lease.check().is_ok())), 1);
    assert_eq!(readings(&|| assert!((0..15).all(|_| lease.check().is_ok()))), 0);
    assert_eq!(readings(&|| assert!(lease.check().is_ok())), 1);
    assert_eq!(readings(&|| lease.rest()), 1);
}

#[test]
fn a_key_without_a_place_has_no_batch() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(QUOTA).max_keys(1).overflow(Overflow::DenyNew).clock(clock.clone()).build();
    assert!(limiter.check("first").is_ok());
    let lease = limiter.bucket("second").lease(8);
    let denied = lease.check().expect_err("no room");
    assert_eq!((denied.reason(), denied.retry_after(), lease.unused()), (Reason::NoRoom, Some(TOKEN), 0));
    clock.advance(TOKEN);
    assert_eq!(lease.check(), Ok(()));
}

#[test]
fn what_is_in_a_handle_outlives_a_change_of_quota() {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(QUOTA.burst(20), clock.clone());
    let limiter = Limiter::builder(QUOTA.burst(20)).max_keys(8).clock(clock).build();
    let (own, keys) = (bucket.lease(10), limiter.bucket("key").lease(10));
    assert!(own.check().is_ok() && keys.check().is_ok());
    let change = |quota| {
        bucket.set_quota(quota);
        limiter.set_quota("key", quota).expect("room");
    };
    // Ten are owed, of which nine are in the handle.
    change(Quota::per_second(7).burst(15));
    assert_eq!((own.unused(), keys.unused()), (9, 9));
    assert_eq!((own.check_n(4), keys.check_n(4)), (Ok(()), Ok(())));
    own.rest();
    keys.rest();
    assert_eq!((bucket.peek().remaining(), limiter.peek("key").remaining()), (10, 10), "five are used");
    assert!(own.check().is_ok() && keys.check().is_ok());
    // Fifteen are owed; five stay owed, and nine come back, of which no more than that is taken.
    change(Quota::per_second(7).burst(5));
    own.rest();
    keys.rest();
    assert!(bucket.peek().is_full() && limiter.peek("key").is_full());
}

/// Handles of many threads serve until nothing is left, now and then resting: served and unused tokens, together.
fn serve_all<B: TokenBucket + Clone + Send + 'static>(bucket: &B, threads: u64) -> u64 {
    let (rounds, total) = (Arc::new(Rounds::new(usize::try_from(threads).expect("a few"))), Arc::new(AtomicU64::new(0)));
    let work = |thread: u64| {
        let (bucket, rounds, total) = (bucket.clone(), Arc::clone(&rounds), Arc::clone(&total));
        thread::spawn(move || {
            let mut random = Random::new(usize::try_from(thread).expect("a few"));
            let lease = Lease::new(bucket, 3 + 5 * thread);
            let mut served = 0;
            let round = rounds.join();
            round.wait();
            for _ in 0..2_000 {
                let n = random.below(4) + 1;
                served += lease.check_n(n).map_or(0, |()| n);
                if random.below(50) == 0 {
                    lease.rest();
                    assert_eq!(lease.unused(), 0);
                }
            }
            // All that is left anywhere.
            while lease.check().is_ok() {
                served += 1;
            }
            round.wait();
            total.fetch_add(served + lease.unused(), Ordering::Relaxed);
            // The handles are dropped when all is added up.
            round.wait();
        })
    };
    let threads: Vec<_> = (0..threads).map(work).collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    total.load(Ordering::Relaxed)
}

#[test]
fn handles_of_many_threads_serve_exactly_what_was_charged() {
    const TOKENS: u64 = 10_000;
    let quota = Quota::per_day(1).burst(TOKENS);
    for threads in [2, 4] {
        let bucket = Arc::new(Bucket::with_clock(quota, ManualClock::new()));
        assert_eq!(serve_all(&bucket, threads), TOKENS);
        assert_eq!(bucket.peek().remaining(), 0);
        let limiter = Arc::new(Limiter::builder(quota).max_keys(8).clock(ManualClock::new()).build());
        assert_eq!(serve_all(&limiter.bucket_owned("key"), threads), TOKENS);
        assert_eq!(limiter.peek("key").remaining(), 0);
    }
}
