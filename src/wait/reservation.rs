use core::fmt;
use std::time::Duration;

use super::waiters::{MaxWait, Place, Waiters};
use crate::clock::Instant;
use crate::decision::{Act, Allowed, Denied, Reason};
use crate::receipt::Receipt;
use crate::token_bucket::TokenBucket;

/// Tokens that are charged already, and due after a wait: see [`Bucket::reserve`](crate::Bucket::reserve).
///
/// Wait until it is due, then use the tokens and drop it, or [`keep`](Self::keep) it, which needs no look at the
/// clock. Dropped before it is due, or [cancelled](Self::cancel) at any time, it gives back what it took.
///
/// # What is given back
/// As many tokens as were booked, whatever was booked behind them, as far as the bucket still owes so much: it is lifted to full and no
/// further. Who booked behind is due when told; who comes next is due the sooner. A change of quota in between gives back as many tokens of
/// the new quota.
#[must_use = "dropped before it is due, a reservation gives its tokens back"]
pub struct Reservation<B: TokenBucket> {
    /// Until nothing is to be given back any more.
    bucket: Option<B>,
    n: u64,
    allowed: Allowed,
    wait: Duration,
    due: Instant,
    /// Among the waiters, while it has one.
    _place: Option<Place>,
}

impl<B: TokenBucket> Reservation<B> {
    /// Books `n` tokens that are due within `max_wait`: see [`Bucket::reserve`](crate::Bucket::reserve). For a bucket by reference, or
    /// shared.
    ///
    /// # Errors
    /// As there.
    pub fn book(bucket: B, n: u64, max_wait: impl Into<MaxWait>) -> Result<Self, Denied> {
        let max_wait = max_wait.into();
        let within = max_wait.nanos();
        let place = max_wait.waiters().map(Waiters::enter);
        let now = bucket.now();
        let allowed = match &place {
            Some(None) => bucket.act(Act::Take, n, now).map_err(|denied| match denied.reason() {
                Reason::OverQuota if within > 0 => denied.because(Reason::TooManyWaiters),
                _ => denied,
            })?,
            _ => bucket.act(Act::Book { within }, n, now)?,
        };
        // A look books nothing.
        let wait = if n == 0 { Duration::ZERO } else { allowed.wait() };
        let place = place.flatten().filter(|_| !wait.is_zero());
        Ok(Self { bucket: Some(bucket), n, allowed, wait, due: now + wait, _place: place })
    }

    /// How long to wait, from when it was booked.
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// The moment it is due, on the bucket's clock; the last that an [`Instant`] can hold, if it would be later.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// The tokens booked.
    pub const fn tokens(&self) -> u64 {
        self.n
    }

    /// The bucket's state as it was after the booking.
    pub const fn allowed(&self) -> Allowed {
        self.allowed
    }

    /// Gives the tokens back, also after they were due. Reads the clock once.
    pub fn cancel(mut self) {
        if let Some(bucket) = self.bucket.take() {
            give_back(&bucket, self.n, bucket.now());
        }
    }

    /// Keeps the tokens: they are used, or will be, and nothing is given back. Does not read the clock.
    pub fn keep(mut self) -> Allowed {
        self.bucket = None;
        self.allowed
    }

    /// Keeps the tokens as an estimate, to be [settled](Receipt::settle) when what was used is known. Does not read the clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Bucket, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let bucket = Bucket::with_clock(Quota::per_second(1_000).burst(500), clock.clone());
    /// bucket.charge(700)?;
    /// let turn = bucket.reserve(300, Duration::from_secs(1))?;
    /// clock.advance(turn.wait());
    /// let receipt = turn.into_receipt();
    /// assert_eq!((bucket.peek().owed(), bucket.peek().remaining()), (500, 0));
    /// assert_eq!(receipt.settle(100)?.remaining(), 200);
    /// # Ok::<(), tollgate::Denied>(())
    /// ```
    ///
    /// # Panics
    /// Never: a reservation has its bucket until it is consumed.
    pub fn into_receipt(mut self) -> Receipt<B> {
        let bucket = self.bucket.take().expect("taken only by what consumes the reservation");
        Receipt::of(bucket, self.n, self.allowed)
    }
}

/// The answer says what is owed now: nothing that the caller could act on.
fn give_back(bucket: &impl TokenBucket, n: u64, now: Instant) {
    let _ = bucket.act(Act::GiveBack, n, now);
}

impl<B: TokenBucket> Drop for Reservation<B> {
    fn drop(&mut self) {
        if self.wait.is_zero() {
            return;
        }
        if let Some(bucket) = self.bucket.take() {
            let now = bucket.now();
            if now < self.due {
                give_back(&bucket, self.n, now);
            }
        }
    }
}

impl<B: TokenBucket> fmt::Debug for Reservation<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("tokens", &self.n).field("wait", &self.wait).field("due", &self.due).finish_non_exhaustive()
    }
}
