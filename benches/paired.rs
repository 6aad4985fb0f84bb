//! Keyed limiters in turn, batch by batch, so that whatever slows the machine slows them all: `cargo bench --bench paired`.
//!
//! Prints the median time of a check with its clock reading, on each of the threads, and the median of the ratios batch by batch.

mod common;

use std::hash::RandomState;
use std::hint::black_box;

use common::{SIZES, governor, spread, time, tollgate, uniform, zipf};
use tollgate::KeyHasher;

const ROUNDS: usize = 31;
const CALLS: u32 = 400_000;

fn main() {
    // `cargo test --benches` passes this.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!(
        "{:>9} {:8} {:>7}   {:>8} {:>15} {:>13}   ratio to: {:>9} {:>9}",
        "keys", "order", "threads", "tollgate", "gov., same hash", "gov., default", "same hash", "default"
    );
    for threads in [1, 2] {
        for (order, draw) in [("uniform", uniform as fn(u64, u64) -> Vec<u64>), ("zipf", zipf)] {
            for keys in SIZES {
                let sequences: Vec<_> = (0..threads).map(|seed| draw(keys, seed)).collect();
                compare(keys, order, &sequences);
            }
        }
    }
}

fn compare(keys: u64, order: &str, sequences: &[Vec<u64>]) {
    let ours = tollgate(keys);
    let same = governor::<KeyHasher>();
    let default = governor::<RandomState>();
    for key in (0..keys).map(spread) {
        _ = (ours.check(&key), same.check_key(&key), default.check_key(&key));
    }

    let mut times = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        // Another part of the sequences in each round, the same for all three.
        let part = |keys: &Vec<u64>| keys.iter().copied().cycle().skip(round * CALLS as usize % keys.len()).take(CALLS as usize).collect();
        let sequences: Vec<Vec<u64>> = sequences.iter().map(part).collect();
        for (limiter, times) in times.iter_mut().enumerate() {
            let elapsed = match limiter {
                0 => time(&sequences, CALLS.into(), &|key| _ = black_box(ours.check(&key).is_ok())),
                1 => time(&sequences, CALLS.into(), &|key| _ = black_box(same.check_key(&key).is_ok())),
                _ => time(&sequences, CALLS.into(), &|key| _ = black_box(default.check_key(&key).is_ok())),
            };
            times.push(elapsed.as_secs_f64() * 1e9 / f64::from(CALLS));
        }
    }
    let ratio = |peer: usize| median(times[0].iter().zip(&times[peer]).map(|(ours, theirs)| ours / theirs).collect());
    let [ours, same, default] = times.clone().map(median);
    println!(
        "{keys:>9} {order:8} {:>7}   {ours:>5.1} ns {same:>12.1} ns {default:>10.1} ns             {:>9.2} {:>9.2}",
        sequences.len(),
        ratio(1),
        ratio(2),
    );
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
