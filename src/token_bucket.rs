//! What a bucket of its own and a key's bucket have in common.

use std::sync::Arc;

use crate::clock::Instant;
use crate::decision::{Act, Allowed, Denied};

/// A bucket to take tokens from: a [`Bucket`](crate::Bucket), or a key's in a limiter ([`KeyBucket`](crate::KeyBucket)), by reference or shared.
///
/// What waits, settles or leases holds one of these: `&Bucket` for a call in place, `Arc<Bucket>` for one that outlives its caller.
/// This trait is for the crate's own buckets alone.
pub trait TokenBucket: Sealed {
    /// The time now, on this bucket's clock.
    fn now(&self) -> Instant;

    /// Takes `n` tokens at once, or says why not, at a time read from this bucket's clock.
    ///
    /// # Errors
    /// [`Denied`] when fewer than `n` tokens are there, or `n` is more than the burst. Nothing is charged then.
    fn check_at(&self, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.act(Act::Take, n, now)
    }

    /// What [`check_at`](Self::check_at) would answer. Charges nothing and creates nothing.
    ///
    /// # Errors
    /// As there.
    fn look_at(&self, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.look(Act::Take, n, now)
    }
}

/// What only this crate's buckets can do.
pub trait Sealed {
    /// What [`act`](Self::act) would answer. Changes nothing.
    #[doc(hidden)]
    fn look(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied>;

    /// Decides what becomes of `n` tokens at a time read from this bucket's clock.
    #[doc(hidden)]
    fn act(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied>;
}

macro_rules! shared {
    ($($handle:ty),+) => {$(
        impl<B: TokenBucket + ?Sized> TokenBucket for $handle {
            fn now(&self) -> Instant {
                (**self).now()
            }
        }

        impl<B: TokenBucket + ?Sized> Sealed for $handle {
            fn look(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
                (**self).look(act, n, now)
            }

            fn act(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
                (**self).act(act, n, now)
            }
        }
    )+};
}
shared!(&B, Arc<B>);
