//! An atomic number that orders nothing.

use crate::sync::{AtomicU64, Ordering};

/// A number that threads share and that guards nothing else: a clock's reading, a count.
///
/// Every access is `Relaxed`: readers take the number as it is and conclude nothing from it about other memory, so there is no partner.
#[derive(Debug)]
pub(crate) struct Register(AtomicU64);

impl Register {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds, and returns what was there before.
    #[inline]
    pub(crate) fn add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    /// Adds one if that leaves no more than `most`, and says whether it did.
    pub(crate) fn add_below(&self, most: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(before + 1).filter(|_| before < most)).is_ok()
    }

    pub(crate) fn subtract(&self, value: u64) {
        self.0.fetch_sub(value, Ordering::Relaxed);
    }

    pub(crate) fn add_saturating(&self, value: u64) {
        // The closure always returns a value, so there is no error to see.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(before.saturating_add(value)));
    }

    /// Adds without a locked instruction: right only where no other thread writes.
    #[inline]
    pub(crate) fn add_alone(&self, value: u64) -> u64 {
        let before = self.get();
        self.set(before.wrapping_add(value));
        before
    }
}
