//! Tokens taken from a shared bucket a batch at a time, and served by one thread.

use core::cell::Cell;
use core::fmt;

use crate::decision::{Act, Denied};
use crate::token_bucket::TokenBucket;

/// One thread's handle to a hot bucket: see [`Bucket::lease`](crate::Bucket::lease).
///
/// A check that finds tokens in the handle subtracts from a plain number: no clock, no shared write, no shared read. A check that does not
/// takes a batch from the bucket, or what there is.
///
/// # What lies unused
/// At most one batch in each handle, less one token. It is charged already: what is *taken* keeps the promise as it is. What is *used*
/// within `[s, t]` can be more by what lay in the handles at `s`; and other threads are denied tokens that lie in a handle. So let the
/// batches of all handles together be a small part of the burst, and let a handle [rest](Self::rest) when its thread has nothing to do. A
/// dropped handle rests too.
///
/// While the bucket has less than a batch, a check costs about twice a check of the bucket (`cargo bench --bench lease`). A limiter's
/// [`Stats`](crate::Stats) count a handle's visits to the bucket, not its checks. A denial speaks of the tokens that were missing in the
/// handle.
pub struct Lease<B: TokenBucket> {
    bucket: B,
    batch: u64,
    left: Cell<u64>,
}

impl<B: TokenBucket> Lease<B> {
    /// An empty handle to a bucket by reference, or shared. It takes `batch` tokens at a time, at least 1.
    pub const fn new(bucket: B, batch: u64) -> Self {
        Self { bucket, batch, left: Cell::new(0) }
    }

    /// Takes one token, or says why not.
    ///
    /// # Errors
    /// [`Denied`] when neither the handle nor the bucket has a token.
    #[inline]
    pub fn check(&self) -> Result<(), Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens at once, or says why not.
    ///
    /// # Errors
    /// [`Denied`] when handle and bucket together have fewer, or `n` is more than both can have. Nothing is taken then.
    #[inline]
    pub fn check_n(&self, n: u64) -> Result<(), Denied> {
        match self.left.get().checked_sub(n) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.draw(n),
        }
    }

    /// Takes what is missing from the bucket, and as much more as makes a batch, if that is there.
    #[cold]
    fn draw(&self, n: u64) -> Result<(), Denied> {
        let (missing, now) = (n - self.left.get(), self.bucket.now());
        let take = |wanted| self.bucket.act(Act::Take, wanted, now).map(|_| wanted);
        let wanted = self.batch.max(missing);
        let taken = take(wanted).or_else(|denied| match denied.remaining() {
            there if there >= missing && missing < wanted => take(there).or_else(|_| take(missing)),
            _ => Err(denied.of(missing)),
        })?;
        self.left.set(taken - missing);
        Ok(())
    }

    /// Tokens in the handle.
    pub const fn unused(&self) -> u64 {
        self.left.get()
    }

    /// Gives what is unused back to the bucket. If there is something, reads the clock once.
    pub fn rest(&self) {
        let left = self.left.take();
        if left > 0 {
            // The answer says what is owed now: nothing that the caller could act on.
            let _ = self.bucket.act(Act::GiveBack, left, self.bucket.now());
        }
    }
}

impl<B: TokenBucket> Drop for Lease<B> {
    fn drop(&mut self) {
        self.rest();
    }
}

impl<B: TokenBucket> fmt::Debug for Lease<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("batch", &self.batch).field("unused", &self.left.get()).finish_non_exhaustive()
    }
}
