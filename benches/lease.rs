//! One hot key, and one hot bucket: leases of several batches beside direct checks and governor: `cargo bench --bench lease`.
//!
//! In each round every contestant in turn has all threads to itself for about a millisecond, on a bucket that no other uses. A turn in which the
//! threads did not run at the same time, because something else ran on a core, says nothing of a hot key, and is repeated; how often is printed. Prints
//! medians of the time of a check, on each of the threads, the part that was allowed, and medians of the ratios round by round. Two situations:
//!
//! - *ample*: every check is allowed. A lease goes to the bucket once in a batch.
//! - *scarce*: nearly all are denied. A lease is empty then, and goes to the bucket on every check: it is no help, and costs more than a direct check.

#[expect(dead_code, reason = "sequences of many keys are for the other benches")]
mod common;

use std::hash::RandomState;
use std::hint::{self, black_box};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use common::{AMPLE, governor_of, spread, tollgate_of};
use governor::RateLimiter;
use tollgate::{Bucket, KeyHasher, Lease, Quota, TokenBucket};

const ROUNDS: usize = 101;
/// A turn whose threads were at work together for a smaller part of its time is repeated, but not forever.
const TOGETHER: f64 = 0.75;
const MOST_TRIES: usize = 30;
/// A contestant's turn, in nanoseconds.
const TURN: f64 = 1e6;
/// No turn has more, whatever the first measurement says: a bucket of `AMPLE` burst lasts for all rounds.
const MOST_CALLS: u64 = 1_000_000;

const BATCHES: [u64; 3] = [16, 64, 256];

struct Situation {
    name: &'static str,
    per_second: u32,
    burst: u32,
}

const SITUATIONS: [Situation; 2] = [
    Situation { name: "ample", per_second: AMPLE, burst: AMPLE },
    // Less in a whole round than is asked for in a twentieth of a turn. Two batches of 256 are half of the burst, and never there.
    Situation { name: "scarce", per_second: 100_000, burst: 1_000 },
];

/// Runs so many checks on each of so many threads.
type Turn<'a> = dyn Fn(usize, u64) -> Sample + 'a;

struct Contestant<'a> {
    name: String,
    turn: Box<Turn<'a>>,
}

#[derive(Clone, Copy)]
struct Sample {
    /// Nanoseconds for a check.
    nanos: f64,
    /// The part of all checks.
    allowed: f64,
    /// The part of the time from the first thread's start to the last one's end in which all of them were at work.
    together: f64,
}

fn main() {
    // `cargo test --benches` passes this.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    for threads in [2, 1] {
        for situation in &SITUATIONS {
            one_key(threads, situation);
            one_bucket(threads, situation);
        }
    }
}

/// Everyone in a table of keys.
fn one_key(threads: usize, situation: &Situation) {
    let key = black_box(spread(1));
    let direct = tollgate_of(situation.tollgate(), 1_000);
    let same = governor_of::<KeyHasher>(situation.governor());
    let default = governor_of::<RandomState>(situation.governor());
    let leased: Vec<_> = BATCHES.map(|batch| (batch, tollgate_of(situation.tollgate(), 1_000))).into();
    let mut contestants = vec![
        Contestant::new("Limiter::check", || || direct.check(black_box(&key)).is_ok()),
        Contestant::new("governor, same hash", || || same.check_key(black_box(&key)).is_ok()),
        Contestant::new("governor, default", || || default.check_key(black_box(&key)).is_ok()),
    ];
    contestants.extend(leased.iter().map(|(batch, limiter)| Contestant::lease(*batch, || limiter.bucket(&key).lease(*batch))));
    compare("one key of a limiter", threads, situation, &contestants);
}

/// Everyone on a bucket by itself.
fn one_bucket(threads: usize, situation: &Situation) {
    let direct = Bucket::new(situation.tollgate());
    let governor = RateLimiter::direct(situation.governor());
    let leased = BATCHES.map(|batch| (batch, Bucket::new(situation.tollgate())));
    let mut contestants = vec![
        Contestant::new("Bucket::check", || || black_box(&direct).check().is_ok()),
        Contestant::new("governor, direct", || || black_box(&governor).check().is_ok()),
    ];
    contestants.extend(leased.iter().map(|(batch, bucket)| Contestant::lease(*batch, || bucket.lease(*batch))));
    compare("one bucket", threads, situation, &contestants);
}

impl Situation {
    fn tollgate(&self) -> Quota {
        Quota::per_second(self.per_second.into()).burst(self.burst.into())
    }

    fn governor(&self) -> governor::Quota {
        let not_zero = |number| NonZeroU32::new(number).expect("not zero");
        governor::Quota::per_second(not_zero(self.per_second)).allow_burst(not_zero(self.burst))
    }
}

impl<'a> Contestant<'a> {
    /// `check` makes a thread's check, in that thread.
    fn new<F: FnMut() -> bool>(name: impl Into<String>, check: impl Fn() -> F + Sync + 'a) -> Self {
        Self { name: name.into(), turn: Box::new(move |threads, calls| run(threads, calls, &check)) }
    }

    fn lease<B: TokenBucket>(batch: u64, lease: impl Fn() -> Lease<B> + Sync + 'a) -> Self {
        Self::new(format!("lease of {batch}"), move || {
            let lease = lease();
            move || black_box(&lease).check().is_ok()
        })
    }
}

fn run<F: FnMut() -> bool>(threads: usize, calls: u64, check: &(impl Fn() -> F + Sync)) -> Sample {
    let ready = AtomicUsize::new(0);
    let one = || {
        let mut check = check();
        // Relaxed: nothing but the count is read.
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < threads {
            hint::spin_loop();
        }
        let began = Instant::now();
        let allowed: u64 = (0..calls).map(|_| u64::from(black_box(check()))).sum();
        (began, began.elapsed(), allowed)
    };
    let each: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a check does not panic")).collect()
    });
    let first = each.iter().map(|&(began, ..)| began).min().expect("a thread");
    let since = |at: Instant| at.duration_since(first).as_secs_f64();
    let last_start = each.iter().map(|&(began, ..)| since(began)).fold(0.0, f64::max);
    let ends = || each.iter().map(|&(began, took, _)| since(began + took));
    let (first_end, last_end) = (ends().fold(f64::MAX, f64::min), ends().fold(0.0, f64::max));
    let longest = each.iter().map(|&(_, took, _)| took).max().unwrap_or_default();
    let allowed: u64 = each.iter().map(|&(.., allowed)| allowed).sum();
    Sample {
        nanos: longest.as_secs_f64() * 1e9 / float(calls),
        allowed: float(allowed) / float(calls * threads as u64),
        together: (first_end - last_start) / last_end,
    }
}

/// The first contestant is what the ratios are to, and then its peers.
fn compare(what: &str, threads: usize, situation: &Situation, contestants: &[Contestant<'_>]) {
    let mut repeated = 0;
    let mut turn = |contestant: &Contestant<'_>, calls| {
        for _ in 1..MOST_TRIES {
            let sample = (contestant.turn)(threads, calls);
            if sample.together >= TOGETHER {
                return sample;
            }
            repeated += 1;
        }
        (contestant.turn)(threads, calls)
    };
    // Warms up, and makes all turns about as long.
    let calls: Vec<_> = contestants.iter().map(|contestant| calls_of(turn(contestant, 20_000).nanos)).collect();
    let mut samples = vec![Vec::with_capacity(ROUNDS); contestants.len()];
    for _ in 0..ROUNDS {
        for ((contestant, calls), samples) in contestants.iter().zip(&calls).zip(&mut samples) {
            samples.push(turn(contestant, *calls));
        }
    }

    let peers: Vec<_> = contestants.iter().enumerate().filter(|(_, contestant)| !contestant.name.starts_with("lease")).collect();
    let Situation { name, per_second, burst } = situation;
    println!("{what}, {threads} threads, {name}: {per_second} a second, burst {burst}; {repeated} turns repeated");
    println!(
        "  {:20} {:>9} {:>9}   ratio to {}",
        "",
        "a check",
        "allowed",
        peers.iter().map(|(_, peer)| format!("{:>20}", peer.name)).collect::<Vec<_>>().concat()
    );
    for (contestant, own) in contestants.iter().zip(&samples) {
        let nanos = median(own.iter().map(|sample| sample.nanos));
        let allowed = 100.0 * median(own.iter().map(|sample| sample.allowed));
        let ratio = |peer: usize| median(own.iter().zip(&samples[peer]).map(|(own, peer)| own.nanos / peer.nanos));
        let ratios: Vec<_> = peers.iter().map(|(peer, _)| format!("{:>20.3}", ratio(*peer))).collect();
        println!("  {:20} {nanos:>6.1} ns {allowed:>7.2} %            {}", contestant.name, ratios.concat());
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the bounds given")]
fn calls_of(nanos: f64) -> u64 {
    ((TURN / nanos) as u64).clamp(10_000, MOST_CALLS)
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
