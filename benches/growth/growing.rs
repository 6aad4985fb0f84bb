//! From an empty limiter to a million keys.

use std::array;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use tollgate::DEFAULT_MAX_KEYS;

use crate::common::spread;
use crate::process::ask;
use crate::statistics::{median, percentile};
use crate::subject::Subject;
use crate::{CLOCK_ALONE, FIXED_WORK, LIMITERS};

pub(crate) const NAME: &str = "growing";

const KEYS: usize = 1_000_000;
const THREADS: usize = 2;
const ROUNDS: usize = 5;

/// In ten thousand; the last is the maximum.
const PERCENTILES: [usize; 5] = [5_000, 9_900, 9_990, 9_999, 10_000];

/// The wall time in milliseconds, and a latency for each of the percentiles.
type Figures = [f64; 1 + PERCENTILES.len()];

pub(crate) fn report() {
    println!("growing to {KEYS} keys, {THREADS} threads; medians of {ROUNDS} rounds, the largest of all maxima; latencies in ns");
    println!("{:16}{:>9}{:>8}{:>8}{:>8}{:>9}{:>11}{:>11}", "", "wall", "p50", "p99", "p99.9", "p99.99", "maximum", "largest");
    let mut subjects = LIMITERS.into_iter().chain([FIXED_WORK, CLOCK_ALONE]).map(|subject| (subject, Vec::new())).collect::<Vec<_>>();
    for _ in 0..ROUNDS {
        for (subject, rounds) in &mut subjects {
            rounds.push(ask(NAME, subject));
        }
        // Another is first in the next round.
        subjects.rotate_left(1);
    }
    let turned = ROUNDS % subjects.len();
    subjects.rotate_right(turned);
    for (subject, rounds) in &subjects {
        print(subject, rounds);
    }
    println!();
}

fn print(subject: &str, rounds: &[Figures]) {
    let [wall, p50, p99, p99_9, p99_99, maximum] = array::from_fn(|figure| median(rounds.iter().map(|round| round[figure])));
    let largest = rounds.iter().map(|round| round[PERCENTILES.len()]).fold(0.0, f64::max);
    println!("{subject:16}{wall:>6.1} ms{p50:>8}{p99:>8}{p99_9:>8}{p99_99:>9}{maximum:>11}{largest:>11}");
}

pub(crate) fn measure<S: Subject>() -> Figures {
    let warm = S::build(1_000);
    warm.check(0);
    let limiter = S::build(DEFAULT_MAX_KEYS);
    // Not zeros, which would be untouched memory still.
    let mut latencies = vec![u32::MAX; KEYS];
    let start = Barrier::new(THREADS);
    let spans: Vec<_> = thread::scope(|scope| {
        let parts = (0..).step_by(KEYS / THREADS).zip(latencies.chunks_mut(KEYS / THREADS));
        let threads: Vec<_> = parts
            .map(|(first, latencies)| {
                let (limiter, warm, start) = (&limiter, &warm, &start);
                scope.spawn(move || {
                    // What a thread's first check does is not of interest here.
                    warm.check(0);
                    start.wait();
                    insert(limiter, first, latencies)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a check does not panic")).collect()
    });
    latencies.sort_unstable();
    let mut figures = [wall(&spans); 1 + PERCENTILES.len()];
    for (figure, per_ten_thousand) in figures[1..].iter_mut().zip(PERCENTILES) {
        *figure = percentile(&latencies, per_ten_thousand);
    }
    figures
}

/// Checks a new key for each of the latencies, and says when the first began and the last was done.
///
/// A latency lasts from one reading of the clock to the next, so that nothing that held up the thread is missed.
fn insert(limiter: &impl Subject, first: u64, latencies: &mut [u32]) -> [Instant; 2] {
    let began = Instant::now();
    let mut last = began;
    for (latency, number) in latencies.iter_mut().zip(first..) {
        black_box(limiter.check(black_box(spread(number))));
        let now = Instant::now();
        *latency = u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX);
        last = now;
    }
    [began, last]
}

/// Milliseconds from the first beginning to the last end.
fn wall(spans: &[[Instant; 2]]) -> f64 {
    let began = spans.iter().map(|span| span[0]).min().expect("a thread");
    let ended = spans.iter().map(|span| span[1]).max().expect("a thread");
    (ended - began).as_secs_f64() * 1e3
}
