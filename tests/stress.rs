//! The promise under real threads: any window of stamps, any interleaving.
//!
//! Iterations are bounded, not time, and nothing here depends on how threads are scheduled.

mod common;
#[path = "common/random.rs"]
mod random;
#[path = "common/time.rs"]
mod time;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Bucket, Clock, Limiter, ManualClock, Overflow, Quota};

use common::{Admission, excess};
use random::Random;
use time::{gather, longest_move, stamp};

fn quotas() -> [Quota; 6] {
    [
        Quota::per_second(1_000_000).burst(10),
        Quota::per_second(3_000_000_000).burst(1_000),
        Quota::per_second(3).burst(1),
        Quota::per_second(7_919).burst(100),
        Quota::per_second(600_000_000).burst(50),
        Quota::per_day(1).burst(1_000),
    ]
}

fn some_tokens(quota: Quota, random: &mut Random) -> u64 {
    if random.below(4) == 0 { random.below(quota.capacity()) + 1 } else { 1 }
}

#[test]
fn a_bucket_keeps_the_promise_among_threads() {
    const CALLS: usize = 15_000;
    for quota in quotas() {
        for threads in [2, 4, 8] {
            let clock = ManualClock::new();
            let bucket = Bucket::with_clock(quota, clock.clone());
            let mut admitted = gather(threads, &clock, quota, |thread| {
                let mut random = Random::new(thread + 1);
                let call = |_| {
                    let (n, at) = (some_tokens(quota, &mut random), stamp(&clock, quota, &mut random));
                    bucket.check_at(n, at).is_ok().then(|| Admission { at: at.as_nanos(), tokens: n })
                };
                (0..CALLS).filter_map(call).collect()
            });
            assert!(!admitted.is_empty(), "{quota}: starts full");
            assert!(admitted.len() < threads * CALLS, "{quota}: more was asked for than there is");
            assert_eq!(excess(quota, &mut admitted), 0, "{quota}, {threads} threads: tokens beyond the promise");
        }
    }
}

/// A call that was admitted on one of many keys.
type Keyed = (usize, Admission);

fn by_key(keys: usize, admitted: Vec<Keyed>) -> Vec<Vec<Admission>> {
    let mut each = vec![Vec::new(); keys];
    for (key, admission) in admitted {
        each[key].push(admission);
    }
    each
}

#[test]
fn every_key_keeps_the_promise_while_others_come_and_go() {
    const CALLS: usize = 15_000;
    for quota in quotas() {
        for (max_keys, keys, threads) in [(8, 12, 4), (16, 64, 8), (64, 100, 2)] {
            let clock = ManualClock::new();
            let limiter = Limiter::builder(quota).max_keys(max_keys).overflow(Overflow::DenyNew).clock(clock.clone()).build();
            let admitted = gather(threads, &clock, quota, |thread| {
                let mut random = Random::new(thread + 1);
                let call = |_| {
                    // A third of all calls are on one key.
                    let key = if random.below(3) == 0 { 0 } else { random.below(keys) };
                    let (n, at) = (some_tokens(quota, &mut random), stamp(&clock, quota, &mut random));
                    let answer = limiter.check_at(&key, n, at);
                    assert!(limiter.len() <= limiter.capacity());
                    let admission = Admission { at: at.as_nanos(), tokens: n };
                    answer.is_ok().then(|| (usize::try_from(key).expect("a few keys"), admission))
                };
                (0..CALLS).filter_map(call).collect::<Vec<Keyed>>()
            });
            let stats = limiter.stats();
            assert_eq!(stats.evicted_in_debt, 0, "{quota}: no debt is forgotten");
            assert_eq!(stats.allowed, admitted.len() as u64);
            assert_eq!(stats.allowed + stats.denied, (threads * CALLS) as u64);
            let keys = usize::try_from(keys).expect("a few keys");
            for (key, mut admitted) in by_key(keys, admitted).into_iter().enumerate() {
                assert_eq!(excess(quota, &mut admitted), 0, "{quota}, {threads} threads: tokens beyond the promise of key {key}");
            }
        }
    }
}

/// Each eviction lets one key off a burst at the most, and what is refilled in as much time as stamps lie back.
#[test]
fn what_evictions_forgive_is_counted() {
    const ROUNDS: usize = 200;
    const CALLS: usize = 25;
    const KEYS: u64 = 40;
    for quota in [Quota::per_second(1_000).burst(5), Quota::per_second(3).burst(2), Quota::per_second(7_919).burst(20)] {
        let threads = 4;
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).max_keys(8).clock(clock.clone()).build();
        let oldest = longest_move(quota) / 4;
        let round = Barrier::new(threads);
        let work = |thread| {
            let mut random = Random::new(thread);
            let (mut admitted, mut longest) = (Vec::new(), 0);
            for _ in 0..ROUNDS {
                // The clock stands still within a round: no stamp is older than it says.
                if round.wait().is_leader() {
                    clock.advance(Duration::from_nanos(oldest));
                }
                round.wait();
                for _ in 0..CALLS {
                    let key = random.below(KEYS);
                    let at = clock.now() - Duration::from_nanos(random.below(2) * oldest);
                    if limiter.check_at(&key, 1, at).is_ok() {
                        admitted.push((usize::try_from(key).expect("a few keys"), Admission { at: at.as_nanos(), tokens: 1 }));
                    }
                    longest = limiter.len().max(longest);
                }
            }
            assert!(longest <= limiter.capacity());
            admitted
        };
        let admitted: Vec<Keyed> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("no thread panics")).collect()
        });
        let stats = limiter.stats();
        assert_eq!(stats.allowed, admitted.len() as u64);
        assert_eq!(stats.allowed + stats.denied, (threads * ROUNDS * CALLS) as u64);
        assert!(stats.evicted_in_debt > 0, "{quota}: nothing was evicted");

        // Two stamps a round, of which the older is refilled by one token's time.
        let forgiven = i128::from(stats.evicted_in_debt) * i128::from(quota.capacity() + 2);
        let keys = usize::try_from(KEYS).expect("a few keys");
        let beyond: i128 = by_key(keys, admitted).iter_mut().map(|admitted| excess(quota, admitted)).sum();
        assert!(beyond <= forgiven, "{quota}: {beyond} tokens beyond the promise, {forgiven} forgiven");
    }
}

#[test]
fn calls_of_more_threads_than_count_alone_are_all_counted() {
    const CALLS: usize = 500;
    let limiter = Limiter::builder(Quota::per_second(100)).max_keys(64).clock(ManualClock::new()).build();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = 2 * processors + 8;
    // Twice, as the second lot counts where the first did.
    for round in 1..=2 {
        let (start, admitted) = (Barrier::new(threads), AtomicUsize::new(0));
        thread::scope(|scope| {
            let work = || {
                start.wait();
                let count = (0..CALLS).filter(|call| limiter.check(&(call % 50)).is_ok()).count();
                admitted.fetch_add(count, Ordering::Relaxed);
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                worker.join().expect("no thread panics");
            }
        });
        let stats = limiter.stats();
        assert_eq!(stats.allowed + stats.denied, (round * threads * CALLS) as u64);
        if round == 1 {
            assert_eq!(stats.allowed, admitted.into_inner() as u64);
        }
    }
}
