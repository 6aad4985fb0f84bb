//! A bucket per key, beside governor's keyed limiter with its default hash and with tollgate's: `cargo bench --bench limiter`.
//!
//! Each thread walks a shuffled sequence of keys, drawn before the clock starts; every key has its bucket by then, and every call is allowed.
//! A time is that of one whole check with its clock reading, on each of the threads.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use governor::state::keyed::DashMapStateStore;
use governor::{RateLimiter, clock};
use rand::distr::{Distribution, Uniform};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use tollgate::{KeyHasher, Limiter, Quota};

/// Refills faster than a benchmark can drain it: every call is allowed.
const AMPLE: u32 = 1_000_000_000;

const SIZES: [u64; 4] = [1, 1_000, 100_000, 1_000_000];

/// Keys in a thread's sequence: more than a cache remembers.
const SEQUENCE: usize = 1 << 21;

type Governor<S> = RateLimiter<u64, DashMapStateStore<u64, S>, clock::DefaultClock>;

fn governor<S: std::hash::BuildHasher + Clone + Default>() -> Governor<S> {
    let quota = governor::Quota::per_second(NonZeroU32::new(AMPLE).expect("not zero"));
    RateLimiter::new(quota, DashMapStateStore::with_hasher(S::default()), clock::DefaultClock::default())
}

/// Key numbers spread over 64 bits, so that no hash profits from their order.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn uniform(keys: u64, seed: u64) -> Vec<u64> {
    let numbers = Uniform::new(0, keys).expect("at least one key");
    SmallRng::seed_from_u64(seed).sample_iter(numbers).take(SEQUENCE).map(spread).collect()
}

/// Zipf with exponent 1: the second key is half as frequent as the first.
fn zipf(keys: u64, seed: u64) -> Vec<u64> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers")]
    let numbers = Zipf::new(keys as f64, 1.0).expect("a valid exponent").map(|rank| rank as u64 - 1);
    SmallRng::seed_from_u64(seed).sample_iter(numbers).take(SEQUENCE).map(spread).collect()
}

/// The wall time of `calls` calls on each of the threads, one per sequence.
fn time(sequences: &[Vec<u64>], calls: u64, check: &(impl Fn(u64) + Sync)) -> Duration {
    let start = Barrier::new(sequences.len());
    let longest = thread::scope(|scope| {
        let threads: Vec<_> = sequences
            .iter()
            .map(|keys| {
                scope.spawn(|| {
                    let calls = usize::try_from(calls).expect("criterion asks for fewer");
                    start.wait();
                    let began = Instant::now();
                    for &key in keys.iter().cycle().take(calls) {
                        check(black_box(key));
                    }
                    began.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a check does not panic")).max()
    });
    longest.unwrap_or_default()
}

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
                let max_keys = usize::try_from(keys).expect("fits").max(1_000);
                let limiter = Limiter::builder(Quota::per_second(AMPLE.into())).max_keys(max_keys).build();
                measure(&mut group, "tollgate", keys, &sequences, |key| _ = black_box(limiter.check(&key).is_ok()));
                drop(limiter);
                let limiter = governor::<KeyHasher>();
                measure(&mut group, "governor, same hash", keys, &sequences, |key| _ = black_box(limiter.check_key(&key).is_ok()));
                drop(limiter);
                let limiter = governor::<std::hash::RandomState>();
                measure(&mut group, "governor, default", keys, &sequences, |key| _ = black_box(limiter.check_key(&key).is_ok()));
            }
            group.finish();
        }
    }
}

/// What the choice of hash costs: the whole check of one hot key.
fn hashes(c: &mut Criterion) {
    fn with<S: std::hash::BuildHasher>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, hasher: S) {
        let limiter = Limiter::builder(Quota::per_second(AMPLE.into())).max_keys(1_000).hasher(hasher).build();
        group.bench_function(BenchmarkId::new(name, "u64"), |b| b.iter(|| limiter.check(&black_box(7_u64)).is_ok()));
        group.bench_function(BenchmarkId::new(name, "tenant-42"), |b| b.iter(|| limiter.check(black_box("tenant-42")).is_ok()));
    }
    let mut group = c.benchmark_group("limiter/hash");
    with(&mut group, "KeyHasher", KeyHasher::new());
    with(&mut group, "std RandomState (SipHash-1-3)", std::hash::RandomState::new());
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = keyed, hashes
}
criterion_main!(benches);
