//! What operators see.

use core::fmt;
use std::hash::{BuildHasher, Hash};

use super::Limiter;
use crate::clock::Clock;
use crate::decision::Peek;
use crate::quota::Quota;
use crate::sync::STEP_LINES;

/// What a limiter has done since it was built, and how it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Calls allowed.
    pub allowed: u64,
    /// Calls denied.
    pub denied: u64,
    /// Buckets dropped that were full, to make room or to save memory: no loss.
    pub evicted_full: u64,
    /// Buckets dropped to make room that owed tokens: each such key was let off its debt. Zero under
    /// [`Overflow::DenyNew`](crate::Overflow::DenyNew).
    pub evicted_in_debt: u64,
    /// Cache lines (of four buckets) added to the table, eight at a time.
    pub grown: u64,
    /// Cache lines taken away.
    pub shrunk: u64,
    /// Buckets held: [`Limiter::len`].
    pub live: usize,
    /// Of these, the full ones, estimated from a sample of the table (from all of it, if it has no more than 16,384 slots).
    pub full: usize,
    /// The others: those that owe tokens.
    pub in_debt: usize,
    /// The most buckets that are held at a time: [`Limiter::capacity`].
    pub capacity: usize,
    /// Slots that the table has at present.
    pub slots: usize,
    /// Bytes in use: [`Limiter::memory`].
    pub memory: usize,
}

impl Stats {
    /// The part of the table's present slots that hold a bucket: at most about 9 in 16 while the table can grow.
    pub fn load(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let load = self.live as f64 / self.slots as f64;
        load
    }
}

/// One bucket, as it was found by [`Limiter::buckets`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketState {
    /// Which key's: see [`Limiter::fingerprint`].
    pub fingerprint: u64,
    /// What it is counted under.
    pub quota: Quota,
    /// What it holds.
    pub peek: Peek,
}

impl fmt::Debug for BucketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketState")
            .field("fingerprint", &format_args!("{:#x}", self.fingerprint))
            .field("quota", &self.quota)
            .field("peek", &self.peek)
            .finish()
    }
}

/// Lines that [`Limiter::stats`] looks at, at most.
const SAMPLE: usize = 1 << 12;

impl<C: Clock, S> Limiter<C, S> {
    /// What has happened since the limiter was built, and how it stands.
    ///
    /// A call that runs at this moment counts as allowed; otherwise counts are exact. `full` and `in_debt` are an estimate: up to 4,096 lines of
    /// the table are looked at, evenly spread, one after the other while checks go on. Reads the clock once.
    pub fn stats(&self) -> Stats {
        let totals = self.books.stripes.totals();
        let live = self.len();
        let now = self.elapsed();
        let (mut seen, mut seen_full) = (0, 0_usize);
        for state in self.table.sample(SAMPLE) {
            seen += 1;
            seen_full += usize::from(state.tat <= state.ticks.at(now));
        }
        // 0 of 0 is 0. No overflow: `seen` is at most four times `SAMPLE`.
        let full = live / seen.max(1) * seen_full + live % seen.max(1) * seen_full / seen.max(1);
        Stats {
            allowed: totals.calls.saturating_sub(totals.denied),
            denied: totals.denied,
            evicted_full: totals.evicted_full,
            evicted_in_debt: totals.evicted_in_debt,
            grown: totals.grown * STEP_LINES as u64,
            shrunk: totals.shrunk * STEP_LINES as u64,
            live,
            full,
            in_debt: live - full,
            capacity: self.capacity(),
            slots: self.table.slots_in_use(),
            memory: self.memory(),
        }
    }

    /// The buckets there are, one after the other, for an operator's eyes: the whole table is gone through.
    ///
    /// Each is as it was when it was found. Checks go on meanwhile: a bucket that is made, dropped or moved at the same time may be missing or come
    /// twice. All are seen at the time of this call, by one reading of the clock. Does not allocate.
    pub fn buckets(&self) -> impl Iterator<Item = BucketState> {
        let now = self.elapsed();
        self.table.buckets().map(move |(key, state)| BucketState {
            fingerprint: key.bits(),
            quota: Quota::of(state.ticks, state.label),
            peek: Peek::at(state.ticks, now, state.tat),
        })
    }
}

impl<C, S: BuildHasher> Limiter<C, S> {
    /// What a key goes by in [`buckets`](Self::buckets): 52 bits of its hash, which is keyed and so another in each limiter.
    pub fn fingerprint<K: Hash + ?Sized>(&self, key: &K) -> u64 {
        self.key(key).bits()
    }
}

impl<C, S> Limiter<C, S> {
    /// Bytes of memory in use, to within a page: the table's part that has been written since memory was last given back, the quotas' numbers, and
    /// the threads' counts. The table takes 29 bytes for each of `max_keys` at most. The map of keys with a quota of their own is not in it.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.books.stripes.memory()
    }
}
