//! The hot paths, each so many times and nothing else, to count instructions: see `benches/instructions`.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use tollgate::{Bucket, Clock, Instant, Limiter, Limits, MonotonicClock, Quota, Reservation, check_all};

/// A quota that no run drains.
const AMPLE: Quota = Quota::per_second(1_000_000_000);
/// A quota that one call drains for good.
const SCARCE: Quota = Quota::per_day(1);

/// Tokens that a lease takes at a time.
const BATCH: u64 = 64;

/// What callgrind counts: `call`, so many times.
#[inline(never)]
fn counted<T>(calls: u64, mut call: impl FnMut(u64) -> T) {
    for number in 0..calls {
        black_box(call(number));
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (Some(path), Some(Ok(calls))) = (args.next(), args.next().map(|calls| calls.parse())) else {
        eprintln!("usage: hot_paths PATH CALLS");
        return ExitCode::SUCCESS;
    };
    let now = MonotonicClock::new().now();
    let at = |call: u64| Instant::from_nanos(now.as_nanos() + call);
    let (ample, scarce) = (black_box(Bucket::new(AMPLE)), black_box(Bucket::new(SCARCE)));
    let (wide, narrow) = (black_box(Limiter::new(AMPLE)), black_box(Limiter::new(SCARCE)));
    let key = black_box("tenant-42");
    _ = (scarce.check(), narrow.check(key), wide.check(key));
    wide.set_quota("own", Quota::per_second(900_000_000)).expect("one key");
    _ = wide.check("own");
    let limits = black_box(Limits::new([AMPLE; 3]));
    let three = black_box([AMPLE; 3].map(Bucket::new));
    let (lease, key_lease) = (black_box(ample.lease(BATCH)), black_box(wide.bucket(key).lease(BATCH)));
    let (empty, key_empty) = (black_box(scarce.lease(BATCH)), black_box(narrow.bucket(key).lease(BATCH)));
    _ = limits.check(key);
    match path.as_str() {
        "nothing" => counted(calls, at),
        "clock" => counted(calls, |_| MonotonicClock::new().now()),
        "bucket-check-allowed" => counted(calls, |_| ample.check()),
        "bucket-check_at-allowed" => counted(calls, |call| ample.check_at(1, at(call))),
        "bucket-check_at-denied" => counted(calls, |call| scarce.check_at(1, at(call))),
        "limiter-check-allowed" => counted(calls, |_| wide.check(key)),
        "limiter-check_at-allowed" => counted(calls, |call| wide.check_at(key, 1, at(call))),
        "limiter-check_at-denied" => counted(calls, |call| narrow.check_at(key, 1, at(call))),
        "limiter-check_at-u64" => counted(calls, |call| wide.check_at(&7_u64, 1, at(call))),
        "limiter-check_at-own-quota" => counted(calls, |call| wide.check_at("own", 1, at(call))),
        "limiter-check_at-new" => counted(calls, |call| narrow.check_at(&call, 1, at(call))),
        "bucket-reserve-keep" => counted(calls, |_| ample.reserve(1, Duration::ZERO).map(Reservation::keep)),
        "bucket-charge" => counted(calls, |_| ample.charge(1)),
        "bucket-lease-check" => counted(calls, |_| lease.check()),
        "bucket-lease-denied" => counted(calls, |_| empty.check()),
        "limiter-lease-check" => counted(calls, |_| key_lease.check()),
        "limiter-lease-denied" => counted(calls, |_| key_empty.check()),
        "limits-check-3" => counted(calls, |_| limits.check(key)),
        "check_all-3" => counted(calls, |_| check_all([(&three[0], 1), (&three[1], 1), (&three[2], 1)])),
        other => {
            eprintln!("no such path: {other}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
