//! What the benches of keyed limiters share: key sequences, the peer, and threads that start together.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use governor::state::keyed::DashMapStateStore;
use governor::{RateLimiter, clock};
use rand::distr::{Distribution, Uniform};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use tollgate::{Limiter, Quota};

/// Refills faster than a benchmark can drain it: every call is allowed.
pub(crate) const AMPLE: u32 = 1_000_000_000;

pub(crate) const SIZES: [u64; 4] = [1, 1_000, 100_000, 1_000_000];

/// Keys in a thread's sequence: more than a cache remembers.
const SEQUENCE: usize = 1 << 21;

pub(crate) type Governor<S> = RateLimiter<u64, DashMapStateStore<u64, S>, clock::DefaultClock>;

pub(crate) fn governor<S: BuildHasher + Clone + Default>() -> Governor<S> {
    governor_of(governor::Quota::per_second(NonZeroU32::new(AMPLE).expect("not zero")))
}

pub(crate) fn governor_of<S: BuildHasher + Clone + Default>(quota: governor::Quota) -> Governor<S> {
    RateLimiter::new(quota, DashMapStateStore::with_hasher(S::default()), clock::DefaultClock::default())
}

/// Key numbers spread over 64 bits, so that no hash profits from their order.
pub(crate) fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(crate) fn uniform(keys: u64, seed: u64) -> Vec<u64> {
    let numbers = Uniform::new(0, keys).expect("at least one key");
    SmallRng::seed_from_u64(seed).sample_iter(numbers).take(SEQUENCE).map(spread).collect()
}

/// Zipf with exponent 1: the second key is half as frequent as the first.
pub(crate) fn zipf(keys: u64, seed: u64) -> Vec<u64> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers")]
    let numbers = Zipf::new(keys as f64, 1.0).expect("a valid exponent").map(|rank| rank as u64 - 1);
    SmallRng::seed_from_u64(seed).sample_iter(numbers).take(SEQUENCE).map(spread).collect()
}

/// The wall time of `calls` calls on each of the threads, one per sequence.
pub(crate) fn time(sequences: &[Vec<u64>], calls: u64, check: &(impl Fn(u64) + Sync)) -> Duration {
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

/// Tollgate's limiter for so many keys.
pub(crate) fn tollgate(keys: u64) -> Limiter {
    tollgate_of(Quota::per_second(AMPLE.into()), usize::try_from(keys).expect("fits").max(1_000))
}

pub(crate) fn tollgate_of(quota: Quota, max_keys: usize) -> Limiter {
    Limiter::builder(quota).max_keys(max_keys).build()
}
