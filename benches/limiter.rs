//! A bucket per key, beside governor's keyed limiter with its default hash and with tollgate's: `cargo bench --bench limiter`.
//!
//! Each thread walks a shuffled sequence of keys, drawn before the clock starts; every key has its bucket by then, and every call is allowed.
//! A time is that of one whole check with its clock reading, on each of the threads. Benches run one after the other: on a machine whose speed
//! drifts, `cargo bench --bench paired` compares better.

mod common;

use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::time::Duration;

use common::{AMPLE, SIZES, governor, spread, time, tollgate, uniform, zipf};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate::{KeyHasher, Limiter, Quota};

fn measure(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, keys: u64, sequences: &[Vec<u64>], check: impl Fn(u64) + Sync) {
    (0..keys).map(spread).for_each(&check);
    group.bench_function(BenchmarkId::new(name, keys), |b| b.iter_custom(|calls| time(sequences, calls, &check)));
}

fn keyed(c: &mut Criterion) {
    for threads in [1, 2] {
        for (order, draw) in [("uniform", uniform as fn(u64, u64) -> Vec<u64>), ("zipf", zipf)] {
            let mut group = c.benchmark_group(format!("limiter/{order}/{threads} threads"));
            for keys in SIZES {
                let sequences: Vec<_> = (0..threads).map(|seed| draw(keys, seed)).collect();
                let limiter = tollgate(keys);
                measure(&mut group, "tollgate", keys, &sequences, |key| _ = black_box(limiter.check(&key).is_ok()));
                drop(limiter);
                let limiter = governor::<KeyHasher>();
                measure(&mut group, "governor, same hash", keys, &sequences, |key| _ = black_box(limiter.check_key(&key).is_ok()));
                drop(limiter);
                let limiter = governor::<RandomState>();
                measure(&mut group, "governor, default", keys, &sequences, |key| _ = black_box(limiter.check_key(&key).is_ok()));
            }
            group.finish();
        }
    }
}

/// What the choice of hash costs: the whole check of one hot key.
fn hashes(c: &mut Criterion) {
    fn with<S: BuildHasher>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, hasher: S) {
        let limiter = Limiter::builder(Quota::per_second(AMPLE.into())).max_keys(1_000).hasher(hasher).build();
        group.bench_function(BenchmarkId::new(name, "u64"), |b| b.iter(|| limiter.check(&black_box(7_u64)).is_ok()));
        group.bench_function(BenchmarkId::new(name, "tenant-42"), |b| b.iter(|| limiter.check(black_box("tenant-42")).is_ok()));
    }
    let mut group = c.benchmark_group("limiter/hash");
    with(&mut group, "KeyHasher", KeyHasher::new());
    with(&mut group, "std RandomState (SipHash-1-3)", RandomState::new());
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = keyed, hashes
}
criterion_main!(benches);
