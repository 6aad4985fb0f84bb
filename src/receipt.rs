//! Paying afterwards: an estimate, and what it was in the end.

use core::fmt;

use crate::decision::{Act, Allowed, Denied};
use crate::token_bucket::TokenBucket;

/// An estimate that was charged, to be settled once: see [`Bucket::estimate`](crate::Bucket::estimate), and for one that waits its turn,
/// [`Reservation::into_receipt`](crate::Reservation::into_receipt).
///
/// Dropped unsettled, the estimate stays charged.
#[must_use = "dropped, a receipt leaves the estimate charged"]
pub struct Receipt<B: TokenBucket> {
    bucket: B,
    n: u64,
    allowed: Allowed,
}

impl<B: TokenBucket> Receipt<B> {
    /// Takes `n` tokens: see [`Bucket::estimate`](crate::Bucket::estimate). For a bucket by reference, or shared.
    ///
    /// # Errors
    /// As there.
    pub fn take(bucket: B, n: u64) -> Result<Self, Denied> {
        let allowed = bucket.act(Act::Take, n, bucket.now())?;
        Ok(Self { bucket, n, allowed })
    }

    /// For tokens that were taken already.
    pub(crate) const fn of(bucket: B, n: u64, allowed: Allowed) -> Self {
        Self { bucket, n, allowed }
    }

    /// The tokens charged so far.
    pub const fn tokens(&self) -> u64 {
        self.n
    }

    /// The bucket's state as it was after the estimate was charged.
    pub const fn allowed(&self) -> Allowed {
        self.allowed
    }

    /// Settles the estimate: `used` tokens are charged in all. What was used beyond it is charged, below zero if need be, and later calls
    /// wait for it; what was not used is given back, as far as the bucket still owes so much. Reads the clock once.
    ///
    /// # Errors
    /// Only where a limiter has no room for the key ([`Reason::NoRoom`](crate::Reason::NoRoom)): then the estimate alone was charged.
    pub fn settle(self, used: u64) -> Result<Allowed, Denied> {
        let (act, n) = if used > self.n { (Act::Charge, used - self.n) } else { (Act::GiveBack, self.n - used) };
        self.bucket.act(act, n, self.bucket.now())
    }

    /// Gives the whole estimate back: nothing was used. As [`settle(0)`](Self::settle).
    pub fn refund(self) {
        // The answer says what is owed now: nothing that the caller could act on.
        let _ = self.settle(0);
    }
}

impl<B: TokenBucket> fmt::Debug for Receipt<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("tokens", &self.n).finish_non_exhaustive()
    }
}
