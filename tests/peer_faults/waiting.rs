//! Queues that overtake, starve, poll, forget or hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tollgate::{Acquire, Bucket, Clock, Instant, Limiter, ManualClock, Quota, Reason, TokenBucket, check_all};

use crate::both::on_both;
use crate::nanos;
use crate::timers::{Tasks, Timers, poll_once};

const QUOTA: Quota = Quota::per_second(100).burst(1);
const TOKEN: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_denied_call_delays_nobody_after_it() {
    on_both!(QUOTA, |clock, bucket| {
        assert!(bucket.check().is_ok());
        let before = bucket.peek();
        for _ in 0..1_000 {
            assert!(bucket.check().is_err());
            assert!(bucket.check_n(u64::MAX).is_err());
            assert!(bucket.reserve(1, TOKEN.saturating_sub(nanos(1))).is_err());
            assert!(bucket.reserve(2, Duration::MAX).is_err());
            assert!(bucket.acquire_blocking(1, Duration::ZERO).is_err());
            assert!(bucket.estimate(1).is_err());
            assert!(bucket.lease(4).check().is_err());
        }
        assert_eq!(bucket.peek(), before);
        clock.advance(TOKEN.saturating_sub(nanos(1)));
        assert!(bucket.check().is_err());
        clock.advance(nanos(1));
        assert!(bucket.check().is_ok());
    });
}

#[test]
fn a_denial_by_one_of_several_limits_drains_none_of_the_others() {
    on_both!(QUOTA, |clock, narrow| {
        let wide = Bucket::with_clock(Quota::per_second(100), clock.clone());
        let limiter = Limiter::builder(Quota::per_second(50)).clock(clock.clone()).build();
        let key = limiter.bucket("key");
        assert!(check_all([(&wide, 1), (&narrow, 1), (&key, 1)]).is_ok());
        let before = (wide.peek(), narrow.peek(), key.peek());
        for _ in 0..1_000 {
            let by = check_all([(&wide, 1), (&narrow, 1), (&key, 1)]).expect_err("the narrow one is drained");
            assert_eq!((by.index(), by.retry_after()), (1, Some(TOKEN)));
        }
        assert_eq!((wide.peek(), narrow.peek(), key.peek()), before);
    });
}

/// A manual clock that counts its readings.
#[derive(Clone)]
struct Counting {
    clock: ManualClock,
    readings: Arc<AtomicUsize>,
}

impl Clock for Counting {
    fn now(&self) -> Instant {
        self.readings.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }
}

impl Counting {
    fn new() -> Self {
        Self { clock: ManualClock::new(), readings: Arc::default() }
    }
}

/// As many as wait come at these times, in this order; each is served when no earlier one is left and its token is there.
fn serves_in_order<B: TokenBucket + Copy>(bucket: B, counting: &Counting, arrivals: &[Duration]) {
    let timers = Timers::new(&counting.clock);
    let mut tasks = Tasks::new();
    let (mut served, mut next) = (Vec::new(), 0);
    let readings = counting.readings.load(Ordering::Relaxed);
    while served.len() < arrivals.len() {
        let now = counting.clock.now();
        while next < arrivals.len() && Instant::ORIGIN + arrivals[next] <= now {
            let done = tasks.start(Acquire::new(bucket, 1, HOUR, timers.clone()));
            served.extend(done.map(|answer| (next, now, answer)));
            next += 1;
        }
        served.extend(tasks.turn().into_iter().map(|(number, answer)| (number, now, answer)));
        // To whatever comes next: an arrival or a timer.
        timers.advance(
            arrivals.get(next).map_or(nanos(500_000), |&at| (Instant::ORIGIN + at).saturating_duration_since(now).min(nanos(500_000))),
        );
    }
    let mut free_at = Instant::ORIGIN;
    for (place, (number, at, answer)) in served.into_iter().enumerate() {
        assert_eq!(place, number, "served in the order of arrival");
        assert!(answer.is_ok());
        let ideal = free_at.max(Instant::ORIGIN + arrivals[number]);
        assert!(ideal <= at && at < ideal + TOKEN, "waiter {number}: served at {at:?}, not at {ideal:?}");
        free_at = ideal + TOKEN;
    }
    let (waiters, readings) = (arrivals.len(), counting.readings.load(Ordering::Relaxed) - readings);
    let wake_ups = timers.fired();
    assert!(wake_ups > 0 && wake_ups == timers.set(), "{wake_ups} woken of {}", timers.set());
    assert!(readings <= waiters + 1 && wake_ups <= waiters, "{readings} readings and {wake_ups} wake-ups of {waiters}");
    assert!(readings + wake_ups <= 2 * waiters, "{readings} readings and {wake_ups} wake-ups of {waiters}");
    assert!(tasks.polls() <= 2 * waiters, "{} polls", tasks.polls());
    assert_eq!(timers.sleeping(), 0);
}

#[test]
fn four_hundred_waiters_are_served_in_order_and_on_time_and_none_of_them_polls() {
    let together = vec![Duration::ZERO; 400];
    // In lots of four, now faster than they are served and now slower.
    let pauses = [0, 90, 61, 7, 43].into_iter().cycle();
    let lots = pauses.scan(Duration::ZERO, |at, pause| {
        *at += Duration::from_millis(pause);
        Some(*at)
    });
    let scattered: Vec<_> = lots.take(100).flat_map(|at| [at; 4]).collect();
    for arrivals in [together, scattered] {
        let counting = Counting::new();
        let bucket = Bucket::with_clock(QUOTA, counting.clone());
        serves_in_order(&bucket, &counting, &arrivals);

        let counting = Counting::new();
        let limiter = Limiter::builder(QUOTA).max_keys(8).clock(counting.clone()).build();
        serves_in_order(limiter.bucket("key"), &counting, &arrivals);
    }
}

#[test]
fn a_waiter_that_is_dropped_gives_back_exactly_what_it_booked() {
    const WAITERS: u64 = 6;
    for quota in [QUOTA.burst(3), Quota::per_second(7_919).burst(3)] {
        for quitter in 0..WAITERS {
            for n in 1..=3 {
                on_both!(quota, |clock, bucket| {
                    let timers = Timers::new(&clock);
                    let tokens = |waiter| if waiter == quitter { n } else { 1 + waiter % 3 };
                    assert!(bucket.check_n(3).is_ok());
                    let mut tasks = Tasks::new();
                    for waiter in 0..WAITERS {
                        assert!(tasks.start(bucket.acquire_with(tokens(waiter), HOUR, timers.clone())).is_none());
                    }
                    let before = bucket.peek().reset_after();
                    tasks.cancel(usize::try_from(quitter).expect("a few"));

                    // A bucket that the dropped one never came to.
                    let other = Bucket::with_clock(quota, clock.clone());
                    assert!(other.check_n(3).is_ok());
                    let mut latest = None;
                    for waiter in (0..WAITERS).filter(|&waiter| waiter != quitter) {
                        latest = Some(other.reserve(tokens(waiter), HOUR).expect("within an hour").keep());
                    }
                    assert!(latest.is_some());
                    assert_eq!(bucket.peek(), other.peek(), "waiter {quitter} of {n}");
                    assert!(bucket.peek().reset_after() < before);
                    let next = bucket.reserve(1, HOUR).expect("within an hour");
                    assert_eq!(next.wait(), other.reserve(1, HOUR).expect("within an hour").wait());
                });
            }
        }
    }
}

#[test]
fn who_comes_after_a_dropped_waiter_is_not_delayed_by_it() {
    on_both!(QUOTA, |clock, bucket| {
        let timers = Timers::new(&clock);
        assert!(bucket.check().is_ok());
        for _ in 0..1_000 {
            let mut waiting = Box::pin(bucket.acquire_with(1, HOUR, timers.clone()));
            assert!(poll_once(waiting.as_mut()).is_pending());
            drop(waiting);
        }
        assert_eq!((timers.set(), timers.sleeping()), (1_000, 0));
        assert_eq!(bucket.check().expect_err("drained").retry_after(), Some(TOKEN));
        clock.advance(TOKEN);
        assert!(bucket.check().is_ok());
    });
}

/// Takes one token after another, for ever.
async fn takes_one_by_one<B: TokenBucket + Copy>(bucket: B, timers: Timers, served: &AtomicUsize) {
    loop {
        Acquire::new(bucket, 1, HOUR, timers.clone()).await.expect("one token within an hour");
        served.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_wait_for_many_is_not_starved_by_loops_that_wait_for_one() {
    on_both!(QUOTA.burst(20), |clock, bucket| {
        let timers = Timers::new(&clock);
        let (served, big_at) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let mut tasks = Tasks::new();
        for _ in 0..8 {
            assert!(tasks.start(takes_one_by_one(bucket, timers.clone(), &served)).is_none());
        }
        assert_eq!(served.load(Ordering::Relaxed), 20, "the burst");
        let big = async {
            let answer = bucket.acquire_with(20, HOUR, timers.clone()).await;
            big_at.store(served.load(Ordering::Relaxed), Ordering::Relaxed);
            assert!(answer.is_ok());
        };
        assert!(tasks.start(big).is_none());
        let start = clock.now();
        let mut done = Vec::new();
        while done.is_empty() {
            assert!(timers.fire_next());
            assert!(bucket.check().is_err(), "who does not wait takes nothing either");
            done = tasks.turn();
        }
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].0, 8);
        // Eight tokens were booked before, and twenty of its own.
        assert_eq!(clock.now().saturating_duration_since(start), 28 * TOKEN);
        assert_eq!(big_at.load(Ordering::Relaxed), 20 + 8);
        for _ in 0..8 {
            assert!(timers.fire_next());
            assert!(tasks.turn().is_empty());
        }
        assert_eq!(served.load(Ordering::Relaxed), 20 + 8 + 8, "and the loops go on");
    });
}

#[test]
fn a_bounded_wait_answers_at_once_when_the_wait_would_be_longer() {
    on_both!(Quota::per_hour(1), |clock, bucket| {
        let timers = Timers::new(&clock);
        assert!(bucket.check().is_ok());
        let before = bucket.peek();
        for within in [Duration::ZERO, nanos(1), HOUR / 2, HOUR.saturating_sub(nanos(1))] {
            let mut waiting = Box::pin(bucket.acquire_with(1, within, timers.clone()));
            let answers = [
                // A timer that was set would not fire, as nobody moves the clock; a thread that slept would for an hour.
                poll_once(waiting.as_mut()).map(|answer| answer.expect_err("not yet")),
                Poll::Ready(bucket.reserve(1, within).map(|reservation| reservation.wait()).expect_err("not yet")),
                Poll::Ready(bucket.acquire_blocking(1, within).expect_err("not yet")),
            ];
            for answer in answers {
                let Poll::Ready(denied) = answer else { panic!("waits") };
                assert_eq!((denied.reason(), denied.retry_after()), (Reason::OverQuota, Some(HOUR.saturating_sub(within))));
            }
        }
        assert_eq!((timers.set(), bucket.peek()), (0, before));
        assert_eq!(bucket.reserve(1, HOUR).map(|reservation| reservation.wait()), Ok(HOUR));
    });
}

#[test]
fn a_wait_above_the_burst_fails_at_once_with_never() {
    on_both!(QUOTA.burst(5), |clock, bucket| {
        let timers = Timers::new(&clock);
        for _ in 0..2 {
            let before = bucket.peek();
            for n in [6, 7, 1 << 40, u64::MAX] {
                let mut waiting = Box::pin(bucket.acquire_with(n, Duration::MAX, timers.clone()));
                let Poll::Ready(Err(polled)) = poll_once(waiting.as_mut()) else { panic!("no denial of {n}") };
                let reserved = bucket.reserve(n, Duration::MAX).map(|reservation| reservation.wait()).expect_err("over burst");
                let blocking = bucket.acquire_blocking(n, Duration::MAX).expect_err("over burst");
                for denied in [polled, reserved, blocking] {
                    assert_eq!((denied.reason(), denied.retry_after(), denied.requested()), (Reason::OverBurst, None, n));
                }
            }
            assert_eq!((timers.set(), bucket.peek()), (0, before));
            // And again while tokens are owed.
            assert!(bucket.check_n(2).is_ok());
        }
    });
}

#[test]
fn a_timeout_of_a_durations_most_does_not_overflow() {
    for quota in [QUOTA, Quota::per_second(7_919).burst(1), Quota::per_second(14_000_000_000).burst(1), Quota::per_day(1)] {
        for start in [0, 1 << 55, u64::MAX / 2, u64::MAX - 1] {
            on_both!(quota, |clock, bucket| {
                clock.set(nanos(start));
                let timers = Timers::new(&clock);
                let first = bucket.reserve(1, Duration::MAX);
                let second = bucket.reserve(1, Duration::MAX).map(|reservation| (reservation.wait(), reservation.keep()).0);
                let mut waiting = Box::pin(bucket.acquire_with(1, Duration::MAX, timers.clone()));
                let third = poll_once(waiting.as_mut());
                assert_eq!(first.map(|reservation| reservation.wait()), Ok(Duration::ZERO), "{quota}, at {start}");
                if start > 1 << 55 {
                    // Beyond all that is counted: no other token will ever come.
                    let denied = second.expect_err("time has stopped");
                    assert_eq!(denied.retry_after(), Some(Duration::MAX), "{quota}, at {start}");
                    assert!(matches!(third, Poll::Ready(Err(_))), "{quota}, at {start}");
                } else {
                    let token = quota.period().as_nanos() / u128::from(quota.tokens());
                    let wait = second.expect("any wait").as_nanos();
                    assert!(wait.abs_diff(token) <= 1, "{quota}, at {start}: {wait} ns");
                    assert!(third.is_pending() && timers.sleeping() == 1);
                }
            });
        }
    }
}
