//! The table grows and shrinks under its keys, and no bucket can tell.
//!
//! All on one thread and a clock that stands still or moves when told to; hashes are the same in every run.

#[path = "common/hash.rs"]
mod hash;

use std::thread;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Overflow, Quota, Reason, Stats};

use hash::Seeded;

/// A token comes every millisecond.
const QUOTA: Quota = Quota::per_second(1_000).burst(BURST);
const BURST: u64 = 10_000;
const TOKEN_NS: u64 = 1_000_000;

/// Slots for each of `max_keys`, in ninths; and bytes.
const SLOT_NINTHS: usize = 16;
const BYTES_PER_KEY: usize = 29;

/// A limiter, and what each of its keys must be found to owe. Keys are numbers.
struct Crowd {
    clock: ManualClock,
    limiter: Limiter<ManualClock, Seeded>,
    now: u64,
    /// When each key's bucket is full again, in nanoseconds.
    full_at: Vec<u64>,
}

impl Crowd {
    fn new(max_keys: usize, seed: u64) -> Self {
        let clock = ManualClock::new();
        let limiter =
            Limiter::builder(QUOTA).max_keys(max_keys).overflow(Overflow::DenyNew).clock(clock.clone()).hasher(Seeded(seed)).build();
        Self { clock, limiter, now: 0, full_at: Vec::new() }
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.now += u64::try_from(by.as_nanos()).expect("a short time");
    }

    /// The whole tokens and the nanoseconds to go that a key has now.
    fn expected(&self, key: usize) -> (u64, Duration) {
        let debt = self.full_at.get(key).copied().unwrap_or(0).saturating_sub(self.now);
        (BURST - debt.div_ceil(TOKEN_NS), Duration::from_nanos(debt))
    }

    #[track_caller]
    fn charge(&mut self, key: usize, n: u64) {
        if self.full_at.len() <= key {
            self.full_at.resize(key + 1, 0);
        }
        self.full_at[key] = self.full_at[key].max(self.now) + n * TOKEN_NS;
        let allowed = self.limiter.check_n(&key, n).unwrap_or_else(|denied| panic!("key {key}: {denied}"));
        assert_eq!((allowed.remaining(), allowed.reset_after()), self.expected(key), "key {key}, charged");
    }

    #[track_caller]
    fn verify(&self, key: usize) {
        let peek = self.limiter.peek(&key);
        assert_eq!((peek.remaining(), peek.reset_after()), self.expected(key), "key {key} of {}", self.full_at.len());
    }

    #[track_caller]
    fn verify_all(&self) {
        (0..self.full_at.len()).for_each(|key| self.verify(key));
    }

    /// Charges a key that is not known, a little later than the last one, and differently.
    fn charge_another(&mut self) {
        let key = self.full_at.len();
        self.advance(Duration::from_nanos(1_001));
        self.charge(key, 300 + (key as u64 * 7) % 1_000);
    }

    fn charge_others(&mut self, count: usize) {
        (0..count).for_each(|_| self.charge_another());
    }

    fn stats(&self) -> Stats {
        self.limiter.stats()
    }
}

/// About as many slots as the table needs for so many keys in debt.
fn slots_for(keys: usize) -> usize {
    (keys * SLOT_NINTHS / 9).max(256)
}

#[test]
fn every_bucket_stays_as_it_was_while_the_table_grows() {
    // With room to spare, and with none.
    for (keys, max_keys, seed) in [(100_000, 1 << 20, 1), (20_000, 20_000, 2)] {
        let mut crowd = Crowd::new(max_keys, seed);
        let small = crowd.stats();
        for key in 0..keys {
            crowd.charge_another();
            // One of those before, and now and then all.
            crowd.verify(key * 40_503 % (key + 1));
            if (key + 1).is_power_of_two() {
                crowd.verify_all();
            }
        }
        crowd.verify_all();
        // Known keys go on from there.
        (0..keys).step_by(3).for_each(|key| crowd.charge(key, 5));
        crowd.verify_all();

        let stats = crowd.stats();
        assert_eq!((stats.live, stats.in_debt, stats.denied), (keys, keys, 0));
        assert_eq!((stats.evicted_full, stats.evicted_in_debt, stats.shrunk), (0, 0, 0));
        assert!(small.slots <= 256, "{small:?}");
        assert!(stats.slots >= keys && stats.slots <= slots_for(keys) + 32, "{stats:?}");
        assert_eq!(stats.grown * 4, (stats.slots - small.slots) as u64);
    }
}

#[test]
fn as_many_keys_as_there_may_be_find_room() {
    // Seeds, so that small tables are tried often.
    for (max_keys, seeds) in [(1, 20), (2, 100), (5, 1_000), (8, 1_000), (10, 1_000), (100, 100), (1_000, 20), (6_000, 4), (100_000, 1)] {
        let mut denied = 0;
        for seed in 0..seeds {
            let crowd = Crowd::new(max_keys, seed);
            denied += (0..max_keys).filter(|key| crowd.limiter.check(key).is_err()).count();
            if crowd.limiter.len() == max_keys {
                assert_eq!(crowd.limiter.check("one more").expect_err("no room").reason(), Reason::NoRoom);
            }
            assert_eq!(crowd.stats().evicted_in_debt, 0);
        }
        assert_eq!(denied, 0, "keys denied for room, of {max_keys} keys in each of {seeds} tables");
    }
}

#[test]
fn a_table_of_full_buckets_shrinks_to_its_least() {
    let mut crowd = Crowd::new(1 << 20, 3);
    let least = crowd.stats();
    for round in 0..3 {
        crowd.charge_others(30_000);
        let most = crowd.stats();
        assert_eq!((most.live, most.shrunk), (30_000, round * most.grown / (round + 1)));
        assert!(most.slots >= 30_000 && most.memory > least.memory + 30_000 * 16, "{most:?}");

        crowd.advance(Duration::from_secs(10));
        crowd.limiter.shrink();
        let shrunk = crowd.stats();
        assert_eq!((shrunk.live, shrunk.slots), (0, least.slots), "round {round}");
        assert_eq!((shrunk.grown, shrunk.evicted_full), (shrunk.shrunk, (round + 1) * 30_000));
        if cfg!(target_os = "linux") {
            // To within a page, which may be large.
            assert!(shrunk.memory <= least.memory + (64 << 10), "{} bytes, {} at first", shrunk.memory, least.memory);
        }
        crowd.verify_all();
    }
}

#[test]
fn keys_in_debt_stay_as_they_are_while_the_table_shrinks_and_grows_again() {
    const DEBTORS: usize = 3_000;
    for seed in 4..6 {
        let mut crowd = Crowd::new(1 << 20, seed);
        (0..DEBTORS).for_each(|key| crowd.charge(key, BURST - key as u64 % 100));
        for _ in 0..4 {
            let known = crowd.full_at.len();
            crowd.charge_others(8_000);
            crowd.verify_all();
            // All but the first are full then.
            crowd.advance(Duration::from_millis(1_500));
            assert!((DEBTORS..known).all(|key| crowd.expected(key).0 == BURST));
            crowd.limiter.shrink();
            assert_eq!(crowd.limiter.len(), DEBTORS);
            crowd.verify_all();
            // They can still be charged, and only they have buckets.
            (0..DEBTORS).step_by(7).for_each(|key| crowd.charge(key, 3));
            crowd.verify_all();
            assert_eq!(crowd.limiter.len(), DEBTORS);
        }
        assert_eq!((crowd.stats().denied, crowd.stats().evicted_in_debt), (0, 0));
    }
}

/// Where a bucket in debt stood in a line that was to go and its other lines were full, the table stayed as large as it was.
#[test]
fn a_table_with_keys_in_debt_shrinks_to_what_they_need() {
    for debtors in [100, 1_000, 10_000] {
        let mut crowd = Crowd::new(1 << 20, 7);
        (0..debtors).for_each(|key| crowd.charge(key, BURST));
        crowd.charge_others(50_000);
        let most = crowd.stats();
        crowd.advance(Duration::from_millis(1_500));
        crowd.limiter.shrink();
        crowd.verify_all();
        let shrunk = crowd.stats();
        assert_eq!(shrunk.live, debtors);
        assert!(shrunk.slots <= slots_for(debtors) * 11 / 10, "{} slots for {debtors} keys in debt, {} before", shrunk.slots, most.slots);
        if cfg!(target_os = "linux") {
            let bytes = shrunk.slots * 16 + (64 << 10) + thread_counts();
            assert!(shrunk.memory <= bytes, "{} bytes for {debtors} keys in debt, {} before", shrunk.memory, most.memory);
        }
    }
}

/// More than what a limiter keeps for each processor.
fn thread_counts() -> usize {
    (2 * thread::available_parallelism().map_or(1, usize::from) + 2) * 128
}

/// Calls on a few keys, no more than these are allowed.
fn ordinary_traffic(crowd: &mut Crowd, calls: usize) {
    for call in 0..calls {
        crowd.advance(Duration::from_micros(250));
        crowd.charge(call % 5, 1);
    }
}

#[test]
fn memory_comes_back_through_ordinary_traffic() {
    const KEYS: usize = 20_000;
    let mut crowd = Crowd::new(1 << 20, 8);
    let least = crowd.stats();
    crowd.charge_others(KEYS);
    let most = crowd.stats();
    assert!(most.slots > KEYS);

    // Nothing goes before it has been full for ten seconds.
    crowd.advance(Duration::from_secs(9));
    let mut calls = 0;
    ordinary_traffic(&mut crowd, 2_000);
    assert_eq!(crowd.stats().evicted_full, 0);

    crowd.advance(Duration::from_secs(10));
    // 64 calls a line, twice round.
    while crowd.stats().slots > least.slots {
        ordinary_traffic(&mut crowd, 10_000);
        calls += 10_000;
        assert!(calls <= 128 * most.slots / 4, "{:?} after {calls} calls", crowd.stats());
    }
    ordinary_traffic(&mut crowd, 1_000);
    let stats = crowd.stats();
    assert!(stats.live <= 64, "{stats:?}");
    if cfg!(target_os = "linux") {
        assert!(stats.memory <= least.memory + (96 << 10), "{} bytes, {} at first, {} at most", stats.memory, least.memory, most.memory);
    }
}

/// Slots are for twice as many keys as there are, when all is done.
#[test]
fn keys_in_debt_stay_as_they_are_while_the_table_shrinks_in_passing() {
    const DEBTORS: usize = 2_000;
    let quota = Quota::per_day(1).burst(5);
    let clock = ManualClock::new();
    let limiter = Limiter::builder(quota).max_keys(1 << 20).overflow(Overflow::DenyNew).clock(clock.clone()).hasher(Seeded(9)).build();
    limiter.set_default_quota(Quota::per_second(1).burst(100)).expect("nothing is there");
    (0..20_000_usize).for_each(|key| assert!(limiter.check(&key).is_ok()));
    let most = limiter.stats();
    for key in 0..DEBTORS {
        limiter.set_quota(&key, quota).expect("room");
        assert!(limiter.check_n(&key, 2 + key as u64 % 3).is_ok());
    }
    let second = Duration::from_secs(1);
    let owed = |key: usize| Duration::from_secs((3 + key as u64 % 3) * 86_400);
    clock.advance(60 * second);
    let (mut calls, mut now) = (0, 60 * second);
    while limiter.stats().slots > 2 * slots_for(DEBTORS) + 64 {
        for _ in 0..10_000 {
            clock.advance(Duration::from_millis(1));
            _ = limiter.check("hot");
        }
        now += 10 * second;
        calls += 10_000;
        assert!(calls <= 256 * most.slots / 4, "{:?} after {calls} calls", limiter.stats());
        // Not all of them were full: what was owed when the quota changed had been owed under another.
        for key in (0..DEBTORS).step_by(17) {
            assert_eq!(limiter.peek(&key).reset_after() + now, owed(key), "key {key}");
        }
    }
    for key in 0..DEBTORS {
        assert_eq!(limiter.peek(&key).reset_after() + now, owed(key), "key {key}");
    }
}

#[test]
fn memory_is_bounded_by_max_keys() {
    for max_keys in [1, 10, 1_000, 10_000] {
        for overflow in [Overflow::DenyNew, Overflow::EvictLeastDebt] {
            let limiter =
                Limiter::builder(QUOTA).max_keys(max_keys).overflow(overflow).clock(ManualClock::new()).hasher(Seeded(10)).build();
            let bound = BYTES_PER_KEY * max_keys + (8 << 10) + thread_counts();
            for key in 0..4 * max_keys {
                _ = limiter.check(&key);
                if key % 97 == 0 {
                    assert!(limiter.memory() <= bound, "{} bytes for {key} of {max_keys} keys", limiter.memory());
                }
            }
            assert!(limiter.memory() <= bound, "{} bytes for {max_keys} keys", limiter.memory());
            assert!(limiter.memory() >= 16 * limiter.len(), "less than what the buckets take");
        }
    }
}

#[test]
fn a_limiter_with_ten_keys_takes_a_few_kilobytes() {
    for max_keys in [10, 1 << 20, 1 << 26] {
        let limiter = Limiter::builder(QUOTA).max_keys(max_keys).clock(ManualClock::new()).hasher(Seeded(11)).build();
        (0..10).for_each(|key| _ = limiter.check(&key));
        assert!(limiter.memory() <= (8 << 10) + thread_counts(), "{} bytes, room for {max_keys} keys", limiter.memory());
    }
}

/// A call may come before the table's time, or after it.
#[test]
fn a_table_that_shrinks_on_an_old_stamp_drops_nothing_in_debt() {
    let mut crowd = Crowd::new(1 << 20, 12);
    crowd.advance(Duration::from_secs(100));
    crowd.charge_others(10_000);
    crowd.clock.set(Duration::from_secs(50));
    crowd.limiter.shrink();
    assert_eq!(crowd.limiter.len(), 10_000);
    crowd.clock.set(Duration::from_nanos(crowd.now));
    crowd.verify_all();
}

#[test]
fn a_flood_that_leaves_lines_empty_lets_no_debtor_off() {
    const MAX_KEYS: usize = 1_000;
    const DEBTORS: u64 = 50;
    for seed in 0..4 {
        let clock = ManualClock::new();
        let quota = Quota::per_second(1).burst(100_000_000);
        let limiter = Limiter::builder(quota).max_keys(MAX_KEYS).clock(clock.clone()).hasher(Seeded(seed)).build();
        for debtor in 0..DEBTORS {
            assert!(limiter.check_n(&debtor, 50_000_000).is_ok());
        }
        // Each bucket is full after a second and gives way after thirty; after ten, the sweep may drop it, line by line.
        for stranger in 0..100_000_u64 {
            assert!(limiter.check(&(1 << 40 | stranger)).is_ok());
            clock.advance(Duration::from_millis(30));
        }
        let stats = limiter.stats();
        assert_eq!((stats.evicted_in_debt, limiter.len()), (0, MAX_KEYS), "{stats:?}");
    }
}
