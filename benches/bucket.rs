//! One bucket, beside governor's direct limiter: `cargo bench --bench bucket`.

use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{Criterion, criterion_group, criterion_main};
use governor::RateLimiter;
use tollgate::{Bucket, Clock, CoarseClock, ManualClock, MonotonicClock, Quota};

/// Refills faster than a benchmark can drain it: every call is allowed.
const AMPLE: u32 = 1_000_000_000;

fn allowed(c: &mut Criterion) {
    let mut group = c.benchmark_group("bucket/allowed");
    let bucket = Bucket::new(Quota::per_second(AMPLE.into()));
    group.bench_function("tollgate check", |b| b.iter(|| black_box(&bucket).check().is_ok()));

    let now = MonotonicClock::new().now();
    group.bench_function("tollgate check_at", |b| {
        // A reading of its own for each call, as an event loop's turns have.
        let mut nanos = now.as_nanos();
        b.iter(|| {
            nanos += 20;
            black_box(&bucket).check_at(1, tollgate::Instant::from_nanos(black_box(nanos))).is_ok()
        });
    });

    let coarse = CoarseClock::new(std::time::Duration::from_millis(1)).expect("a thread for the clock");
    let bucket = Bucket::with_clock(Quota::per_second(AMPLE.into()), coarse);
    group.bench_function("tollgate check, CoarseClock", |b| b.iter(|| black_box(&bucket).check().is_ok()));

    let governor = RateLimiter::direct(governor::Quota::per_second(NonZeroU32::new(AMPLE).expect("not zero")));
    group.bench_function("governor check", |b| b.iter(|| black_box(&governor).check().is_ok()));
    group.finish();
}

fn denied(c: &mut Criterion) {
    let mut group = c.benchmark_group("bucket/denied");
    let bucket = Bucket::new(Quota::per_hour(1));
    assert!(bucket.check().is_ok());
    group.bench_function("tollgate check", |b| b.iter(|| black_box(&bucket).check().is_ok()));

    let bucket = Bucket::with_clock(Quota::per_hour(1), ManualClock::new());
    assert!(bucket.check().is_ok());
    group.bench_function("tollgate check_at", |b| {
        let mut nanos = 0;
        b.iter(|| {
            nanos += 20;
            black_box(&bucket).check_at(1, tollgate::Instant::from_nanos(black_box(nanos))).is_ok()
        });
    });

    let governor = RateLimiter::direct(governor::Quota::per_hour(NonZeroU32::MIN));
    assert!(governor.check().is_ok());
    group.bench_function("governor check", |b| b.iter(|| black_box(&governor).check().is_ok()));
    group.finish();
}

criterion_group!(benches, allowed, denied);
criterion_main!(benches);
