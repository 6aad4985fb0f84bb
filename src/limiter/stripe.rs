//! Counting what happens without a write that threads share.
//!
//! Each thread counts in a stripe of its own, found by its index; reading adds the stripes up. Indices are dense and given out again when a
//! thread ends, so a limiter needs a stripe per thread that runs at a time, and a common one for any beyond.

use std::cell::Cell;
use std::thread;

use crate::indices::Indices;
use crate::register::Register;
use crate::table::Ledger;

/// What a limiter has done since it was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Calls allowed.
    pub allowed: u64,
    /// Calls denied.
    pub denied: u64,
    /// Buckets dropped to make room that were full: no loss.
    pub evicted_full: u64,
    /// Buckets dropped to make room that owed tokens: each such key was let off its debt. Zero under
    /// [`Overflow::DenyNew`](crate::Overflow::DenyNew).
    pub evicted_in_debt: u64,
}

/// One thread's counts, on cache lines of their own: two, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    /// Calls denied, and calls allowed.
    decided: [Register; 2],
    evicted_full: Register,
    evicted_in_debt: Register,
    stamps: Register,
    /// Which of the stripes it is.
    index: usize,
}

impl Stripe {
    fn new(index: usize) -> Self {
        let zero = || Register::new(0);
        Self { decided: [zero(), zero()], evicted_full: zero(), evicted_in_debt: zero(), stamps: zero(), index }
    }
}

#[derive(Debug)]
pub(super) struct Stripes {
    /// By thread index.
    own: Box<[Stripe]>,
    /// For the threads beyond.
    common: Box<Stripe>,
}

/// The stripe a thread counts in.
#[derive(Clone, Copy)]
struct Mine<'a> {
    stripe: &'a Stripe,
    /// Whether no other thread counts there.
    alone: bool,
}

/// The most threads that count alone. A stripe is 128 bytes.
const MOST_OWN: usize = 1_024;

impl Stripes {
    pub(super) fn new() -> Self {
        // Twice the processors: a server's worker threads, and as many others.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let own = processors.saturating_mul(2).min(MOST_OWN);
        Self { own: (0..own).map(Stripe::new).collect(), common: Box::new(Stripe::new(own)) }
    }

    /// Counts a call.
    #[inline]
    pub(super) fn decided(&self, allowed: bool) {
        self.mine().add(|stripe| &stripe.decided[usize::from(allowed)]);
    }

    /// The stripe this thread counts in.
    #[inline]
    fn mine(&self) -> Mine<'_> {
        match self.own.get(thread_index()) {
            Some(stripe) => Mine { stripe, alone: true },
            None => Mine { stripe: &self.common, alone: false },
        }
    }

    pub(super) fn stats(&self) -> Stats {
        self.own.iter().chain([&*self.common]).fold(Stats::default(), |sum, stripe| Stats {
            allowed: sum.allowed.wrapping_add(stripe.decided[1].get()),
            denied: sum.denied.wrapping_add(stripe.decided[0].get()),
            evicted_full: sum.evicted_full.wrapping_add(stripe.evicted_full.get()),
            evicted_in_debt: sum.evicted_in_debt.wrapping_add(stripe.evicted_in_debt.get()),
        })
    }
}

impl Mine<'_> {
    /// Counts one more, and returns the count before.
    #[inline]
    fn add(self, count: impl Fn(&Stripe) -> &Register) -> u64 {
        // A thread that is alone on its stripe needs no locked instruction; the common stripe does.
        if self.alone { count(self.stripe).add_alone(1) } else { count(self.stripe).add(1) }
    }
}

impl Ledger for &Stripes {
    fn stamp(&self) -> u64 {
        let mine = self.mine();
        // Each stripe has the numbers that leave its own remainder.
        mine.add(|stripe| &stripe.stamps).wrapping_mul(MOST_OWN as u64 + 1).wrapping_add(mine.stripe.index as u64)
    }

    fn evicted_full(&self) {
        self.mine().add(|stripe| &stripe.evicted_full);
    }

    fn evicted_in_debt(&self) {
        self.mine().add(|stripe| &stripe.evicted_in_debt);
    }
}

/// A thread's index that has not been given, or was given back.
const NONE: usize = usize::MAX;

thread_local! {
    /// Where the index is read: no destructor, so always there, at the price of one load.
    static INDEX: Cell<usize> = const { Cell::new(UNASKED) };
    /// What gives the index back.
    static LEASE: Lease = Lease(INDICES.take().unwrap_or(NONE));
}

/// An index that the thread has not asked for yet.
const UNASKED: usize = usize::MAX - 1;

#[inline]
fn thread_index() -> usize {
    match INDEX.get() {
        UNASKED => ask(),
        index => index,
    }
}

#[cold]
fn ask() -> usize {
    // In a thread whose `LEASE` is gone already, no index: the common stripe.
    let index = LEASE.try_with(|lease| lease.0).unwrap_or(NONE);
    INDEX.set(index);
    index
}

/// A thread's index, until the thread ends.
struct Lease(usize);

/// Indices below [`MOST_OWN`].
static INDICES: Indices<{ MOST_OWN / 64 }> = Indices::new();

impl Drop for Lease {
    fn drop(&mut self) {
        INDEX.set(NONE);
        if self.0 != NONE {
            INDICES.give_back(self.0);
        }
    }
}
