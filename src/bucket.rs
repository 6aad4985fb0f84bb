//! One bucket: a word, a quota and a clock.

use core::fmt;

use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::{Allowed, Ask, Denied, Peek};
use crate::quota::Quota;
use crate::sync::{AtomicU64, Ordering};
use crate::ticks::LEEWAY_NS;
use crate::word::WordCell;

/// One token bucket, shared by reference between any number of threads.
///
/// Its whole state is one atomic word: the theoretical arrival time of GCRA (the generic cell rate algorithm of ATM's traffic management,
/// ITU-T I.371), which is the moment at which the bucket will be full again. A new bucket is full.
///
/// No method allocates or blocks, except that the process's first reading of [`MonotonicClock`] calibrates it. A check is lock-free: it retries only when another thread's check succeeded in between, and a denial writes
/// nothing.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Bucket, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let bucket = Bucket::with_clock(Quota::per_second(100).burst(2), clock.clone());
/// assert_eq!(bucket.check()?.remaining(), 1);
/// assert_eq!(bucket.check()?.remaining(), 0);
///
/// let denied = bucket.check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(10)));
/// clock.advance(Duration::from_millis(10));
/// assert!(bucket.check().is_ok());
/// # Ok::<(), tollgate::Denied>(())
/// ```
///
/// It can live in a `static`:
///
/// ```
/// use tollgate::{Bucket, Quota};
///
/// static OUTGOING: Bucket = Bucket::new(Quota::per_second(50));
/// assert!(OUTGOING.check().is_ok());
/// ```
pub struct Bucket<C = MonotonicClock> {
    word: AtomicU64,
    quota: Quota,
    /// Ticks count from here.
    origin: u64,
    clock: C,
}

impl Bucket {
    /// A full bucket on [`MonotonicClock`].
    pub const fn new(quota: Quota) -> Self {
        Self { word: AtomicU64::new(0), quota, origin: 0, clock: MonotonicClock::new() }
    }
}

impl<C: Clock> Bucket<C> {
    /// A full bucket on a clock of your own. Reads the clock once, for the origin of its count (see [`Clock`]).
    pub fn with_clock(quota: Quota, clock: C) -> Self {
        let origin = origin(&clock);
        Self { word: AtomicU64::new(0), quota, origin, clock }
    }

    /// Takes one token, or says why not.
    ///
    /// # Errors
    /// [`Denied`] when no whole token is there. Nothing is charged then.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens at once, or says why not. `n` may count anything, bytes too. With `n = 0` always allowed, and nothing changes.
    ///
    /// # Errors
    /// [`Denied`] when fewer than `n` tokens are there, or `n` is more than the burst. Nothing is charged then.
    #[inline]
    pub fn check_n(&self, n: u64) -> Result<Allowed, Denied> {
        self.check_at(n, self.clock.now())
    }

    /// [`check_n`](Self::check_n) at a time already read from the bucket's clock: one reading can serve many checks.
    ///
    /// # Errors
    /// As for [`check_n`](Self::check_n).
    #[inline]
    pub fn check_at(&self, n: u64, now: Instant) -> Result<Allowed, Denied> {
        let ask = Ask::new(self.quota.ticks(), elapsed(now, self.origin), n);
        let word = WordCell::new(&self.word);
        loop {
            // Relaxed: see `WordCell::charge`. A bucket's word is always live, so the first round answers.
            if let Some(answer) = word.charge(word.load(Ordering::Relaxed), &ask, || true) {
                return ask.result(answer);
            }
        }
    }

    /// The bucket's state now. Charges nothing.
    pub fn peek(&self) -> Peek {
        let elapsed = elapsed(self.clock.now(), self.origin);
        // Relaxed: one word, read once.
        let tat = WordCell::new(&self.word).load(Ordering::Relaxed).tat().unwrap_or(0);
        Peek::at(self.quota.ticks(), elapsed, tat)
    }

    /// What this bucket allows.
    pub const fn quota(&self) -> Quota {
        self.quota
    }
}

impl<C: Clock> fmt::Debug for Bucket<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("quota", &self.quota).field("state", &self.peek()).finish_non_exhaustive()
    }
}

/// Where the count of a bucket on this clock begins.
pub(crate) fn origin(clock: &impl Clock) -> u64 {
    clock.now().as_nanos().saturating_sub(LEEWAY_NS)
}

#[inline]
pub(crate) fn elapsed(now: Instant, origin: u64) -> u64 {
    now.as_nanos().saturating_sub(origin)
}
