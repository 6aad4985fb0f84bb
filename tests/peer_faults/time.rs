//! Clocks that jump, lag, start far from zero, and idle for years.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tollgate::{Bucket, Instant, Limiter, ManualClock, Quota};

use crate::common::{Admission, excess};
use crate::{SECOND, allowed, bucket, nanos};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_reading_ahead_is_waited_for_exactly_and_lets_nobody_through_early() {
    let (clock, bucket) = bucket(Quota::per_second(1).burst(10));
    clock.set(HOUR);
    assert!(bucket.check().is_ok());
    clock.set(Duration::ZERO);
    // Full again at an hour and a second, so there is a token ten seconds before.
    let wait = Duration::from_secs(3_600 + 1 - 9);
    let denied = bucket.check().expect_err("in debt until the clock catches up");
    assert_eq!((denied.remaining(), denied.retry_after()), (0, Some(wait)));
    clock.set(wait.saturating_sub(nanos(1)));
    assert!(bucket.check().is_err());
    clock.set(wait);
    assert_eq!(allowed(&bucket, 2), 1);
    clock.set(HOUR);
    assert_eq!(allowed(&bucket, 20), 8);
}

#[test]
fn a_reading_ahead_of_a_denied_call_moves_nothing() {
    let (clock, bucket) = bucket(Quota::per_second(1).burst(10));
    assert!(bucket.check_n(10).is_ok());
    clock.set(HOUR);
    assert!(bucket.check_n(11).is_err());
    assert!(bucket.check_n(0).is_ok());
    clock.set(Duration::from_secs(1));
    assert_eq!(allowed(&bucket, 20), 1);
}

#[test]
fn a_reading_ahead_moves_no_other_key() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(1).burst(10)).max_keys(100).clock(clock.clone()).build();
    assert!(limiter.check_n("other", 4).is_ok());
    clock.set(HOUR);
    assert!(limiter.check("key").is_ok());
    clock.set(Duration::ZERO);
    assert!(limiter.check("key").is_err());
    assert_eq!(limiter.check("other").expect("its own").remaining(), 5);
    assert_eq!(limiter.check("new").expect("its own").remaining(), 9);
}

#[test]
fn an_old_reading_finds_the_debt_of_a_bucket_that_gave_way_since() {
    let limiter = Limiter::builder(Quota::per_second(1).burst(10)).max_keys(1).clock(ManualClock::new()).build();
    let check_n = |key, n, second| limiter.check_at(key, n, Instant::from_nanos(second * SECOND));
    assert!(check_n("key", 10, 100).is_ok());
    assert!(check_n("other", 1, 110).is_ok(), "the first is full, and gives way");
    let denied = check_n("key", 10, 100).expect_err("ten were taken at that time");
    assert_eq!((denied.remaining(), denied.retry_after()), (0, Some(Duration::from_secs(10))));
    assert_eq!(check_n("key", 0, 105).map(|allowed| allowed.remaining()), Ok(5));
    assert_eq!(limiter.stats().evicted_in_debt, 0);
    assert_eq!(check_n("key", 10, 110).map(|allowed| allowed.remaining()), Ok(0));
}

#[test]
fn old_and_new_readings_alternating_are_bounded_by_the_promise() {
    let quota = Quota::per_second(1_000_000).burst(10);
    let (_, bucket) = bucket(quota);
    let mut admitted: Vec<_> = (0..10_000_u64)
        .map(|step| 1_000 * step + if step % 2 == 0 { 10_000 } else { 0 })
        .filter(|&at| bucket.check_at(1, Instant::from_nanos(at)).is_ok())
        .map(|at| Admission { at, tokens: 1 })
        .collect();
    assert!(admitted.len() >= 5_000, "the readings ahead alone get that many, not {}", admitted.len());
    assert_eq!(excess(quota, &mut admitted), 0);
}

#[test]
fn two_threads_with_old_and_new_readings_are_bounded_by_the_promise() {
    const CALLS: u64 = 20_000;
    let quota = Quota::per_second(1_000_000).burst(10);
    let (_, bucket) = bucket(quota);
    let both = Barrier::new(2);
    let run = |ahead: u64| {
        both.wait();
        let calls = (0..CALLS).map(|step| 500 * step + ahead);
        let admitted = calls.filter(|&at| bucket.check_at(1, Instant::from_nanos(at)).is_ok());
        admitted.map(|at| Admission { at, tokens: 1 }).collect::<Vec<_>>()
    };
    let mut admitted = thread::scope(|threads| {
        let threads = [0, 10_000].map(|ahead| threads.spawn(move || run(ahead)));
        threads.map(|thread| thread.join().expect("no panic")).concat()
    });
    assert!(admitted.len() >= 10);
    assert_eq!(excess(quota, &mut admitted), 0);
}

#[test]
fn a_clock_far_from_zero_finds_a_full_bucket() {
    const UNIX_TIME: u64 = 1_767_225_600 * SECOND;
    for quota in [Quota::per_second(5), Quota::per_second(7_919), Quota::per_hour(1), Quota::per_second(4_000_000_000)] {
        let burst = quota.capacity();
        let clock = ManualClock::new();
        clock.set(nanos(UNIX_TIME));
        let limiter = Limiter::builder(quota).max_keys(4).clock(clock.clone()).build();
        let bucket = Bucket::with_clock(quota, clock.clone());
        // At once, and years on from there.
        for years in [0, 19] {
            clock.advance(Duration::from_secs(years * 365 * 86_400));
            assert_eq!(bucket.check_n(burst).map(|allowed| allowed.remaining()), Ok(0), "{quota}, {years} years on");
            assert!(bucket.check_n(burst).is_err());
            assert_eq!(limiter.check_n("key", burst).map(|allowed| allowed.remaining()), Ok(0), "{quota}, {years} years on");
            assert!(limiter.check_n("key", burst).is_err());
        }
    }
}

#[test]
fn a_clock_that_jumps_far_from_zero_after_the_bucket_was_built() {
    let (clock, bucket) = bucket(Quota::per_second(5));
    clock.set(nanos(1_767_225_600 * SECOND));
    assert_eq!(allowed(&bucket, 6), 5);
    clock.advance(Duration::from_millis(200));
    assert_eq!(allowed(&bucket, 6), 1);
}

#[test]
fn an_idle_of_years_is_right() {
    const DAY: Duration = Duration::from_secs(86_400);
    for quota in [Quota::per_second(100), Quota::per_second(7_919), Quota::per_day(1), Quota::per_second(4_000_000_000)] {
        let burst = quota.capacity();
        let (clock, bucket) = bucket(quota);
        assert!(bucket.check_n(burst).is_ok());
        clock.set(19 * 365 * DAY);
        let full_for = bucket.peek().full_for().expect("it was used");
        assert!(full_for.abs_diff((19 * 365 * DAY).saturating_sub(quota.period())) <= nanos(1), "{quota}: {full_for:?}");
        assert!(bucket.check_n(burst).is_ok(), "{quota}");
        let wait = bucket.check().expect_err("drained").retry_after().expect("a wait helps");
        clock.advance(wait.saturating_sub(nanos(1)));
        assert!(bucket.check().is_err(), "{quota}");
        clock.advance(nanos(1));
        assert!(bucket.check().is_ok(), "{quota}");
    }
}
