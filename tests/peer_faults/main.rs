//! What limiters get wrong: each test is named after the right behaviour.

mod arithmetic;
#[path = "../common/both.rs"]
mod both;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "tower")]
mod http;
mod keys;
mod races;
mod time;
#[path = "../common/timers.rs"]
mod timers;
mod waiting;

use std::time::Duration;

use tollgate::{Bucket, ManualClock, Quota};

const SECOND: u64 = 1_000_000_000;

fn nanos(count: u64) -> Duration {
    Duration::from_nanos(count)
}

fn bucket(quota: Quota) -> (ManualClock, Bucket<ManualClock>) {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(quota, clock.clone());
    (clock, bucket)
}

/// How many of `calls` calls for one token are allowed.
fn allowed(bucket: &Bucket<ManualClock>, calls: usize) -> usize {
    (0..calls).filter(|_| bucket.check().is_ok()).count()
}
