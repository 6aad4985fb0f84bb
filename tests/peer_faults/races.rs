//! Real threads on one key, on a new key, and on a key among others that come and go.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Allowed, Denied, Limiter, ManualClock, Overflow, Quota};

use crate::bucket;

/// The calls that succeed when so many threads start together and each makes so many.
fn together(threads: usize, calls: usize, check: impl Fn() -> Result<Allowed, Denied> + Sync) -> usize {
    let (start, admitted) = (Barrier::new(threads), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                let count = (0..calls).filter(|_| check().is_ok()).count();
                admitted.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    admitted.into_inner()
}

#[test]
fn eight_threads_share_exactly_one_burst() {
    for _ in 0..50 {
        let (_, bucket) = bucket(Quota::per_day(1).burst(100));
        assert_eq!(together(8, 50, || bucket.check()), 100);
        let limiter = Limiter::builder(Quota::per_day(1).burst(100)).max_keys(8).clock(ManualClock::new()).build();
        assert_eq!(together(8, 50, || limiter.check("key")), 100);
    }
}

#[test]
fn threads_that_meet_on_a_new_key_share_one_bucket() {
    const KEYS: usize = 3_000;
    for threads in [2, 4] {
        let limiter = Limiter::builder(Quota::per_day(1)).max_keys(2 * KEYS).overflow(Overflow::DenyNew).clock(ManualClock::new()).build();
        let start = Barrier::new(threads);
        let admitted: Vec<_> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for (key, admitted) in admitted.iter().enumerate() {
                        start.wait();
                        if limiter.check(&key).is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        for (key, admitted) in admitted.into_iter().enumerate() {
            assert_eq!(admitted.into_inner(), 1, "key {key}, {threads} threads");
        }
    }
}

/// Tells threads to end, also when the one that waits for them has panicked.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_charge_is_lost_to_keys_that_come_and_go() {
    const BURST: usize = 50;
    const ROUNDS: usize = 200;
    let clock = ManualClock::new();
    let quota = Quota::per_second(10).burst(BURST as u64);
    let limiter = Limiter::builder(quota).max_keys(4).overflow(Overflow::DenyNew).clock(clock.clone()).build();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = EndOnDrop(&done);
        for churner in 0..2 {
            let (limiter, done) = (&limiter, &done);
            scope.spawn(move || {
                for key in 0_u64.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let _ = limiter.check(&(churner, key));
                }
            });
        }
        for round in 0..ROUNDS {
            // Others may hold all the places. Once the key has one, it keeps it until it is full.
            let entered = (0..1_000).any(|_| {
                clock.advance(Duration::from_secs(1));
                limiter.check("hot").is_ok()
            });
            assert!(entered, "places become free");
            let first = limiter.peek("hot").remaining();
            let left = usize::try_from(first).expect("a small burst");
            let admitted = together(2, BURST, || limiter.check("hot"));
            assert_eq!(admitted, left, "round {round}");
            clock.advance(Duration::from_secs(1));
            let refilled = together(2, BURST, || limiter.check("hot"));
            assert_eq!(refilled, 10, "round {round}");
            clock.advance(Duration::from_secs(5));
        }
    });
    assert_eq!(limiter.stats().evicted_in_debt, 0);
    assert!(limiter.stats().evicted_full > 0, "nothing came and went");
}
