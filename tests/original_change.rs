//! What the first limiter of this project promised, on the crate that took its place.

use std::time::Duration;

use tollgate::{Bucket, Limiter, ManualClock, Quota};

fn ten_per_second() -> (ManualClock, Bucket<ManualClock>) {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(Quota::per_second(10), clock.clone());
    (clock, bucket)
}

#[test]
fn starts_full() {
    let (_, bucket) = ten_per_second();
    assert!(bucket.peek().is_full());
    assert_eq!(bucket.peek().remaining(), 10);
    assert!(bucket.check_n(10).is_ok());
}

#[test]
fn drains_under_load() {
    let (_, bucket) = ten_per_second();
    let remaining: Vec<_> = (0..10).map(|_| bucket.check().expect("ten are there").remaining()).collect();
    assert_eq!(remaining, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn refills_linearly() {
    let (clock, bucket) = ten_per_second();
    assert!(bucket.check_n(10).is_ok());
    for tenths in 1..=10 {
        clock.advance(Duration::from_millis(100));
        assert_eq!(bucket.peek().remaining(), tenths, "after {tenths} tenths of a second");
    }
}

#[test]
fn does_not_overshoot_capacity() {
    let (clock, bucket) = ten_per_second();
    assert!(bucket.check_n(10).is_ok());
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(bucket.peek().remaining(), 10);
    assert_eq!((0..20).filter(|_| bucket.check().is_ok()).count(), 10);
}

#[test]
fn false_when_empty() {
    let (_, bucket) = ten_per_second();
    assert!(bucket.check_n(10).is_ok());
    assert!(bucket.check().is_err());
}

#[test]
fn separate_tenants_have_separate_buckets() {
    let limiter = Limiter::builder(Quota::per_second(10)).max_keys(100).clock(ManualClock::new()).build();
    assert!(limiter.check_n("one", 10).is_ok());
    assert!(limiter.check("one").is_err());
    assert_eq!(limiter.check("other").expect("untouched").remaining(), 9);
}
