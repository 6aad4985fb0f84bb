//! What else can be done with any bucket, its own or a key's.

use core::ops::Deref;
use std::thread;

use crate::bucket::Bucket;
use crate::clock::Clock;
use crate::decision::{Act, Allowed, Denied};
use crate::lease::Lease;
use crate::limiter::{KeyBucket, Limiter};
use crate::receipt::Receipt;
use crate::token_bucket::{Sealed, TokenBucket};
#[cfg(feature = "tokio")]
use crate::wait::TokioSleep;
use crate::wait::{Acquire, MaxWait, Reservation, Sleep};

/// The same for a bucket by reference and for a key's, which is a reference already.
macro_rules! verbs {
    ($handle:ty) => {
        /// Books `n` tokens at once, which are due after a wait of at most `max_wait`, or says why not.
        ///
        /// They are charged now: whoever books later is due no earlier, so the bucket is a queue, first come, first served, without a list
        /// or a lock. (Only after someone has given up, or a quota was raised, newcomers may be due before those who were told their wait
        /// earlier.) Nothing is booked that would be due later than `max_wait` allows: that is answered at once. A reservation that is
        /// dropped before it is due gives its tokens back. Reads the clock once; does not allocate.
        ///
        /// Of the tokens that are *due* within `[s, t]` there are at most `burst + rate * (t - s)`, and as many more as others gave back
        /// after the first of them was booked and before the last was; a wait is rounded up to a nanosecond, and `t - s` counts up to that
        /// much longer. See [the proof, and what it leaves open](crate::waiting).
        ///
        /// # Errors
        /// [`Denied`] when the wait would be longer, or `n` is more than the burst, or too many wait. Nothing is charged then.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tollgate::{Bucket, ManualClock, Quota};
        ///
        /// let bucket = Bucket::with_clock(Quota::per_second(10).burst(1), ManualClock::new());
        /// assert!(bucket.check().is_ok());
        /// let first = bucket.reserve(1, Duration::from_millis(200))?;
        /// let second = bucket.reserve(1, Duration::from_millis(200))?;
        /// assert_eq!((first.wait(), second.wait()), (Duration::from_millis(100), Duration::from_millis(200)));
        /// assert!(bucket.reserve(1, Duration::from_millis(200)).is_err());
        ///
        /// first.cancel();
        /// assert_eq!(bucket.reserve(1, Duration::from_millis(200))?.wait(), Duration::from_millis(200));
        /// # Ok::<(), tollgate::Denied>(())
        /// ```
        pub fn reserve(self: $handle, n: u64, max_wait: impl Into<MaxWait>) -> Result<Reservation<$handle>, Denied> {
            Reservation::book(self, n, max_wait)
        }

        /// Waits for `n` tokens on Tokio's timer, at most `max_wait`. Feature `tokio`; the future is to be polled within a Tokio runtime
        /// whose time is enabled.
        ///
        /// Fair in the order in which futures are first polled, as [`reserve`](Self::reserve) is. Each reads the clock once and sleeps
        /// once: nobody polls the bucket. A future that is dropped gives back what it booked. A wait that would be longer than `max_wait`
        /// is denied at once, without waiting. The wait is real time, whatever the bucket's clock.
        ///
        /// # Errors
        /// As [`reserve`](Self::reserve).
        ///
        /// # Panics
        /// When it has to wait outside of such a runtime.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tollgate::{Bucket, Quota};
        ///
        /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        /// let provider = Bucket::new(Quota::per_second(1_000).burst(1));
        /// for _ in 0..3 {
        ///     provider.acquire(1, Duration::from_secs(1)).await?;
        /// }
        /// # Ok::<(), tollgate::Denied>(()) }).unwrap();
        /// ```
        #[cfg(feature = "tokio")]
        pub fn acquire(self: $handle, n: u64, max_wait: impl Into<MaxWait>) -> Acquire<$handle, TokioSleep> {
            Acquire::new(self, n, max_wait, TokioSleep)
        }

        /// Waits for `n` tokens on another runtime's timer: a [`Sleep`], or any function from a duration to a future. Otherwise as
        /// `acquire`.
        ///
        /// # Errors
        /// As [`reserve`](Self::reserve).
        pub fn acquire_with<T: Sleep>(self: $handle, n: u64, max_wait: impl Into<MaxWait>, sleep: T) -> Acquire<$handle, T> {
            Acquire::new(self, n, max_wait, sleep)
        }

        /// Waits for `n` tokens in this thread, which sleeps once, at most `max_wait`. A wait that would be longer is denied at once.
        ///
        /// # Errors
        /// As [`reserve`](Self::reserve).
        pub fn acquire_blocking(self: $handle, n: u64, max_wait: impl Into<MaxWait>) -> Result<Allowed, Denied> {
            let reservation = self.reserve(n, max_wait)?;
            if !reservation.wait().is_zero() {
                thread::sleep(reservation.wait());
            }
            Ok(reservation.keep())
        }

        /// Takes `n` tokens as an estimate of what a call will have cost, or says why not. [`Receipt::settle`] charges or refunds the
        /// difference afterwards, once.
        ///
        /// # Errors
        /// [`Denied`] when fewer than `n` tokens are there, or `n` is more than the burst. Nothing is charged then.
        ///
        /// ```
        /// use tollgate::{Bucket, ManualClock, Quota};
        ///
        /// let tokens = Bucket::with_clock(Quota::per_minute(10_000), ManualClock::new());
        /// let (short, long) = (tokens.estimate(500)?, tokens.estimate(500)?);
        /// assert_eq!(short.settle(120)?.remaining(), 9_380);
        /// assert_eq!(long.settle(2_000)?.remaining(), 7_880);
        /// # Ok::<(), tollgate::Denied>(())
        /// ```
        pub fn estimate(self: $handle, n: u64) -> Result<Receipt<$handle>, Denied> {
            Receipt::take(self, n)
        }

        /// Charges `n` tokens that were used already, there or not: the level may fall below zero, and later calls wait for it. More than
        /// the burst is fine; at most about what is refilled until the [horizon](crate::Clock) can be owed.
        ///
        /// # Errors
        /// Only where a limiter has no room for the key ([`Reason::NoRoom`](crate::Reason::NoRoom)). Nothing is charged then.
        ///
        /// ```
        /// use tollgate::{Bucket, ManualClock, Quota};
        ///
        /// let bytes = Bucket::with_clock(Quota::per_second(1_000), ManualClock::new());
        /// bytes.charge(2_500)?;
        /// assert_eq!((bytes.peek().remaining(), bytes.peek().owed()), (0, 2_500));
        /// # Ok::<(), tollgate::Denied>(())
        /// ```
        pub fn charge(self: $handle, n: u64) -> Result<Allowed, Denied> {
            self.act(Act::Charge, n, TokenBucket::now(&self))
        }

        /// A handle for one thread that takes `batch` tokens at a time, for a bucket that is hot on many cores: its checks mostly write
        /// nothing that is shared. What lies unused in the handle is charged already; see [`Lease`] for what that means.
        ///
        /// ```
        /// use tollgate::{Bucket, ManualClock, Quota};
        ///
        /// let bucket = Bucket::with_clock(Quota::per_second(1_000), ManualClock::new());
        /// let lease = bucket.lease(16);
        /// lease.check()?;
        /// assert_eq!((lease.unused(), bucket.peek().remaining()), (15, 984));
        /// lease.rest();
        /// assert_eq!(bucket.peek().remaining(), 999);
        /// # Ok::<(), tollgate::Denied>(())
        /// ```
        pub fn lease(self: $handle, batch: u64) -> Lease<$handle> {
            Lease::new(self, batch)
        }
    };
}

impl<C: Clock> Bucket<C> {
    verbs!(&Self);
}

impl<L, C, S> KeyBucket<L>
where
    L: Deref<Target = Limiter<C, S>>,
    C: Clock,
{
    verbs!(Self);
}
