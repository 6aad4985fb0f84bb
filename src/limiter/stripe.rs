//! Counting what happens without a write that threads share.
//!
//! Each thread counts in a stripe of its own, found by its index; reading adds the stripes up. Indices are dense and given out again when a
//! thread ends, so a limiter needs a stripe per thread that runs at a time, and a common one for any beyond.

use std::cell::Cell;
use std::thread;

use crate::indices::Indices;
use crate::register::Register;
use crate::sync::AtomicU64;

/// One thread's counts, on cache lines of their own: two, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    /// Calls begun.
    calls: Register,
    denied: Register,
    evicted_full: Register,
    evicted_in_debt: Register,
    grown: Register,
    shrunk: Register,
    stamps: Register,
    /// Which of the stripes it is.
    index: usize,
}

impl Stripe {
    fn new(index: usize) -> Self {
        let zero = || Register::new(0);
        Self {
            calls: zero(),
            denied: zero(),
            evicted_full: zero(),
            evicted_in_debt: zero(),
            grown: zero(),
            shrunk: zero(),
            stamps: zero(),
            index,
        }
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Mine<'a> {
    stripe: &'a Stripe,
    /// Whether no other thread counts there.
    alone: bool,
}

/// What the stripes add up to.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) denied: u64,
    pub(super) evicted_full: u64,
    pub(super) evicted_in_debt: u64,
    pub(super) grown: u64,
    pub(super) shrunk: u64,
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

    /// The stripe this thread counts in.
    #[inline]
    pub(super) fn mine(&self) -> Mine<'_> {
        match self.own.get(INDEX.get()) {
            Some(stripe) => Mine { stripe, alone: true },
            None => self.mine_at_first(),
        }
    }

    /// The same for a thread that has not asked for an index, or got a high one or none.
    #[cold]
    fn mine_at_first(&self) -> Mine<'_> {
        match self.own.get(thread_index()) {
            Some(stripe) => Mine { stripe, alone: true },
            None => Mine { stripe: &self.common, alone: false },
        }
    }

    pub(super) fn totals(&self) -> Totals {
        self.own.iter().chain([&*self.common]).fold(Totals::default(), |sum, stripe| Totals {
            calls: sum.calls.wrapping_add(stripe.calls.get()),
            denied: sum.denied.wrapping_add(stripe.denied.get()),
            evicted_full: sum.evicted_full.wrapping_add(stripe.evicted_full.get()),
            evicted_in_debt: sum.evicted_in_debt.wrapping_add(stripe.evicted_in_debt.get()),
            grown: sum.grown.wrapping_add(stripe.grown.get()),
            shrunk: sum.shrunk.wrapping_add(stripe.shrunk.get()),
        })
    }

    /// Bytes they take.
    pub(super) fn memory(&self) -> usize {
        (self.own.len() + 1) * size_of::<Stripe>()
    }
}

/// A thread tends the table each time it has made so many calls.
const TEND_EVERY: u64 = 256;

impl Mine<'_> {
    /// Counts a call, and says whether it is time to tend the table.
    #[inline]
    pub(super) fn called(self) -> bool {
        self.add(|stripe| &stripe.calls) % TEND_EVERY == TEND_EVERY - 1
    }

    #[inline]
    pub(super) fn denied(self) {
        self.add(|stripe| &stripe.denied);
    }

    pub(super) fn evicted_full(self) {
        self.add(|stripe| &stripe.evicted_full);
    }

    pub(super) fn evicted_in_debt(self) {
        self.add(|stripe| &stripe.evicted_in_debt);
    }

    pub(super) fn grown(self) {
        self.add(|stripe| &stripe.grown);
    }

    pub(super) fn shrunk(self) {
        self.add(|stripe| &stripe.shrunk);
    }

    /// A number that no other call returns: each stripe has those that leave its own remainder.
    pub(super) fn stamp(self) -> u64 {
        // Not as if alone: whoever keeps this beyond its thread's end loses counts, but no stamp comes twice.
        self.stripe.stamps.add(1).wrapping_mul(MOST_OWN as u64 + 1).wrapping_add(self.stripe.index as u64)
    }

    /// The stripe's number.
    pub(super) fn lane(self) -> usize {
        self.stripe.index
    }

    /// Counts one more, and returns the count before.
    #[inline]
    fn add(self, count: impl Fn(&Stripe) -> &Register) -> u64 {
        // A thread that is alone on its stripe needs no locked instruction; the common stripe does.
        if self.alone { count(self.stripe).add_alone(1) } else { count(self.stripe).add(1) }
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

fn thread_index() -> usize {
    if INDEX.get() != UNASKED {
        return INDEX.get();
    }
    // In a thread whose `LEASE` is gone already, no index: the common stripe.
    let index = LEASE.try_with(|lease| lease.0).unwrap_or(NONE);
    INDEX.set(index);
    index
}

/// A thread's index, until the thread ends.
struct Lease(usize);

/// Indices below [`MOST_OWN`].
static INDICES: Indices<{ MOST_OWN / 64 }> = Indices::of([const { AtomicU64::new(0) }; MOST_OWN / 64]);

impl Drop for Lease {
    fn drop(&mut self) {
        INDEX.set(NONE);
        if self.0 != NONE {
            INDICES.give_back(self.0);
        }
    }
}
