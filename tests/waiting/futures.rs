//! Futures and handles that wait: shared, dropped and broken at any point.

use std::cell::Cell;
use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use tollgate::{Acquire, Bucket, Clock, Instant, Lease, Limiter, ManualClock, MaxWait, Receipt, Reservation, Waiters};

use crate::both::on_both;
use crate::timers::{Tasks, Timers, poll_once};
use crate::{HOUR, QUOTA, TOKEN};

#[test]
fn shared_handles_outlive_their_caller() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let bucket = Arc::new(Bucket::with_clock(QUOTA.burst(4), clock.clone()));
    let limiter = Arc::new(Limiter::builder(QUOTA.burst(4)).max_keys(8).clock(clock.clone()).build());
    let key = limiter.bucket_owned("key");
    macro_rules! sent_away {
        ($handle:expr) => {{
            let receipt = Receipt::take($handle, 2).expect("full");
            let there = Reservation::book($handle, 2, HOUR).expect("the rest");
            let waits = Reservation::book($handle, 1, HOUR).expect("within an hour");
            let mut acquire = Box::pin(Acquire::new($handle, 1, HOUR, timers.clone()));
            assert!(poll_once(acquire.as_mut()).is_pending());
            let lease = Lease::new($handle, 3);
            assert!(lease.check().is_err());
            let away = thread::spawn(move || {
                there.cancel();
                waits.cancel();
                receipt.refund();
                drop(acquire);
                assert!(lease.check().is_ok());
                lease.unused()
            });
            assert_eq!(away.join().expect("no panic"), 2);
        }};
    }
    sent_away!(Arc::clone(&bucket));
    sent_away!(key.clone());
    sent_away!(Arc::new(limiter.bucket_owned("other")));
    assert_eq!((bucket.peek().remaining(), key.peek().remaining()), (3, 3));
    // The limiter is kept by the handle.
    drop(limiter);
    assert!(key.check().is_ok());
}

#[test]
fn a_timer_that_cannot_be_sent_serves_one_thread() {
    on_both!(QUOTA, |clock, bucket| {
        let slept = Rc::new(Cell::new(Duration::ZERO));
        let sleep = |time| {
            let (slept, clock) = (Rc::clone(&slept), clock.clone());
            async move {
                clock.advance(time);
                slept.set(slept.get() + time);
            }
        };
        let mut tasks = Tasks::new();
        for number in 0..5_u32 {
            let answer = tasks.start(bucket.acquire_with(1, HOUR, sleep)).expect("it does not wait for anyone");
            assert!(answer.is_ok());
            assert_eq!(slept.get(), number * TOKEN);
        }
    });
}

/// What is left of a token's wait, when the future is dropped: `moved` after it was first polled.
fn dropped(polled: bool, moved: Duration) -> [u64; 2] {
    let mut left = Vec::new();
    on_both!(QUOTA, |clock, bucket| {
        let timers = Timers::new(&clock);
        assert!(bucket.check().is_ok());
        let mut acquire = Box::pin(bucket.acquire_with(1, HOUR, timers.clone()));
        if polled {
            assert!(poll_once(acquire.as_mut()).is_pending());
            assert_eq!(bucket.peek().reset_after(), 2 * TOKEN);
        }
        timers.advance(moved);
        drop(acquire);
        assert_eq!(timers.sleeping(), 0);
        left.push(u64::try_from(bucket.peek().reset_after().as_nanos()).expect("short"));
    });
    left.try_into().expect("two")
}

#[test]
fn a_future_that_is_dropped_gives_back_whenever_that_is() {
    let token = u64::try_from(TOKEN.as_nanos()).expect("short");
    assert_eq!(dropped(false, Duration::ZERO), [token; 2], "before it was polled, nothing was booked");
    assert_eq!(dropped(true, Duration::ZERO), [token; 2], "asleep");
    assert_eq!(dropped(true, TOKEN / 2), [token / 2; 2], "asleep");
    assert_eq!(dropped(true, TOKEN), [0; 2], "its timer had fired, but it was not polled again");
    assert_eq!(dropped(true, TOKEN + TOKEN / 2), [0; 2], "the same, later");
    assert_eq!(dropped(true, HOUR), [0; 2], "and what was refilled is not given back again");
}

#[test]
fn a_future_that_is_done_gives_nothing_back() {
    on_both!(QUOTA, |clock, bucket| {
        let timers = Timers::new(&clock);
        let mut at_once = Box::pin(bucket.acquire_with(1, HOUR, timers.clone()));
        assert!(matches!(poll_once(at_once.as_mut()), Poll::Ready(Ok(_))));
        let mut waits = Box::pin(bucket.acquire_with(1, HOUR, timers.clone()));
        assert!(poll_once(waits.as_mut()).is_pending());
        clock.advance(TOKEN / 2);
        assert!(poll_once(waits.as_mut()).is_pending(), "woken for nothing");
        clock.advance(TOKEN / 2);
        assert!(matches!(poll_once(waits.as_mut()), Poll::Ready(Ok(_))));
        drop((at_once, waits));
        assert_eq!((bucket.peek().reset_after(), timers.set()), (TOKEN, 1));
    });
}

#[test]
fn each_is_woken_once_and_polled_twice_whoever_gives_up() {
    on_both!(QUOTA, |clock, bucket| {
        let (timers, waiters) = (Timers::new(&clock), 60_u32);
        let mut tasks = Tasks::new();
        assert!(bucket.check().is_ok());
        for _ in 0..waiters {
            assert!(tasks.start(bucket.acquire_with(1, HOUR, timers.clone())).is_none());
        }
        // Every third gives up before its time, and none of the others is told sooner or later for it.
        (0..waiters).filter(|waiter| waiter % 3 == 2).for_each(|waiter| tasks.cancel(waiter as usize));
        let mut served = Vec::new();
        while timers.fire_next() {
            let now = clock.now().saturating_duration_since(Instant::ORIGIN);
            for (number, answer) in tasks.turn() {
                assert!(answer.is_ok());
                served.push((number, now));
            }
        }
        let staying = (0..waiters).filter(|waiter| waiter % 3 != 2);
        assert_eq!(served, staying.map(|waiter| (waiter as usize, (waiter + 1) * TOKEN)).collect::<Vec<_>>());
        assert_eq!((timers.set(), timers.fired(), tasks.polls()), (60, 40, 60 + 40));
    });
}

#[test]
fn a_future_that_is_polled_after_it_is_done_says_so() {
    let bucket = Bucket::with_clock(QUOTA, ManualClock::new());
    let mut acquire = Box::pin(bucket.acquire_with(1, HOUR, |_| pending()));
    assert_eq!(format!("{acquire:?}"), "Acquire { stage: \"asked\", .. }");
    assert!(poll_once(acquire.as_mut()).is_ready());
    assert_eq!(format!("{acquire:?}"), "Acquire { stage: \"done\", .. }");
    let again = catch_unwind(AssertUnwindSafe(|| poll_once(acquire.as_mut())));
    assert_eq!(again.expect_err("a panic").downcast_ref(), Some(&String::from("polled after it was done")));
    let mut second = Box::pin(bucket.acquire_with(1, HOUR, |_| pending()));
    assert!(poll_once(second.as_mut()).is_pending());
    assert_eq!(format!("{second:?}"), "Acquire { stage: \"booked\", .. }");
}

/// A clock that panics when told to.
#[derive(Clone)]
struct Moody(Rc<Cell<bool>>);

impl Clock for Moody {
    fn now(&self) -> Instant {
        assert!(!self.0.get(), "not now");
        Instant::ORIGIN
    }
}

#[test]
fn a_clock_that_panics_leaves_nothing_booked() {
    let panics = Rc::new(Cell::new(false));
    let clock = Moody(Rc::clone(&panics));
    let own = Bucket::with_clock(QUOTA.burst(3), clock.clone());
    let limiter = Limiter::builder(QUOTA.burst(3)).max_keys(8).clock(clock).build();
    macro_rules! breaks {
        ($bucket:expr) => {{
            let bucket = $bucket;
            let waiters = Waiters::new(1);
            let max_wait = MaxWait::new(HOUR).among(&waiters);
            let lease = bucket.lease(2);
            assert!(bucket.check().is_ok());
            panics.set(true);
            let acquire = || bucket.acquire_with(1, &max_wait, |_| ready(()));
            let works: [&dyn Fn() -> bool; 6] = [
                &|| bucket.reserve(1, &max_wait).is_ok(),
                &|| bucket.acquire_blocking(1, &max_wait).is_ok(),
                &|| bucket.estimate(1).is_ok(),
                &|| bucket.charge(1).is_ok(),
                &|| lease.check().is_ok(),
                &|| poll_once(Box::pin(acquire()).as_mut()).is_ready(),
            ];
            for work in works {
                assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
            }
            panics.set(false);
            assert_eq!((waiters.waiting(), lease.unused(), bucket.peek().remaining()), (0, 0, 2));
        }};
    }
    breaks!(&own);
    breaks!(limiter.bucket("key"));
}

#[test]
fn a_timer_that_panics_leaves_nothing_booked() {
    on_both!(QUOTA, |clock, bucket| {
        let waiters = Waiters::new(1);
        let max_wait = MaxWait::new(HOUR).among(&waiters);
        assert!(bucket.check().is_ok());
        // When it is set; also if so much time passes meanwhile that the tokens are due.
        for passes in [Duration::ZERO, TOKEN] {
            let sleep = |_| -> std::future::Ready<()> {
                assert_eq!(waiters.waiting(), 1);
                clock.advance(passes);
                panic!("no timer is left")
            };
            let mut acquire = Box::pin(bucket.acquire_with(1, &max_wait, sleep));
            assert!(catch_unwind(AssertUnwindSafe(|| poll_once(acquire.as_mut()))).is_err());
            assert_eq!((bucket.peek().reset_after(), waiters.waiting()), (TOKEN.saturating_sub(passes), 0));
        }
        // When it is polled.
        assert!(bucket.check().is_ok());
        let broken = |_| async { panic!("a broken timer") };
        let mut acquire = Box::pin(bucket.acquire_with(1, &max_wait, broken));
        assert!(catch_unwind(AssertUnwindSafe(|| poll_once(acquire.as_mut()))).is_err());
        drop(acquire);
        assert_eq!((bucket.peek().reset_after(), waiters.waiting()), (TOKEN, 0));
    });
}

#[test]
fn a_thread_that_waits_gets_its_tokens_no_sooner_than_they_are_there() {
    let bucket = Bucket::new(QUOTA);
    let start = StdInstant::now();
    for _ in 0..4 {
        assert!(bucket.acquire_blocking(1, HOUR).is_ok());
    }
    // Clocks may differ by a little.
    let (waited, little) = (start.elapsed(), Duration::from_millis(2));
    assert!(waited + little >= 3 * TOKEN, "{waited:?}");
}

#[cfg(feature = "tokio")]
#[test]
fn tasks_on_tokio_get_their_tokens_no_sooner_than_they_are_there() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("threads can be had");
    let bucket = Arc::new(Bucket::new(QUOTA));
    let start = StdInstant::now();
    let served = runtime.block_on(async {
        assert!(bucket.acquire(1, HOUR).await.is_ok());
        assert!(bucket.acquire(2, HOUR).await.is_err_and(|denied| denied.retry_after().is_none()));
        let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(Acquire::new(Arc::clone(&bucket), 1, HOUR, tollgate::TokioSleep))).collect();
        let mut served = 0;
        for task in tasks {
            served += u32::from(task.await.expect("no panic").is_ok());
        }
        served
    });
    let (waited, little) = (start.elapsed(), Duration::from_millis(2));
    assert_eq!(served, 3);
    assert!(waited + little >= 3 * TOKEN, "{waited:?}");
}
