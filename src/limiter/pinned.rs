use core::fmt;
use core::marker::PhantomData;
use std::hash::{BuildHasher, Hash};

use super::Limiter;
use super::books::Page;
use crate::clock::{Clock, Instant};
use crate::decision::{Act, Allowed, Denied};

/// A [`Limiter`] held by one thread for many checks: see [`Limiter::pin`].
pub struct Pinned<'a, C, S> {
    limiter: &'a Limiter<C, S>,
    page: Page<'a>,
    /// The page is this thread's.
    _here: PhantomData<*const ()>,
}

impl<C: Clock, S: BuildHasher> Limiter<C, S> {
    /// The limiter, for many checks by this thread: for one turn of an event loop, say, together with one reading of the clock.
    ///
    /// A check through it saves finding out which thread it runs on. That is all it holds: no lock, no epoch, nothing that another thread waits
    /// for, and no memory that could not go back meanwhile. So holding it costs the others nothing, however long; a thread can keep it for good.
    ///
    /// ```
    /// use tollgate::{Clock, Limiter, MonotonicClock, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_second(100));
    /// let (pinned, now) = (limiter.pin(), MonotonicClock::new().now());
    /// for tenant in ["a", "b", "a"] {
    ///     pinned.check_at(tenant, 1, now)?;
    /// }
    /// # Ok::<(), tollgate::Denied>(())
    /// ```
    pub fn pin(&self) -> Pinned<'_, C, S> {
        Pinned { limiter: self, page: self.books.open(), _here: PhantomData }
    }
}

impl<C: Clock, S: BuildHasher> Pinned<'_, C, S> {
    /// As [`Limiter::check`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// As [`Limiter::check_n`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, n: u64) -> Result<Allowed, Denied> {
        self.limiter.decide(self.limiter.key(key), Act::Take, n, || self.limiter.clock.now(), self.page)
    }

    /// As [`Limiter::check_at`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn check_at<K: Hash + ?Sized>(&self, key: &K, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.limiter.decide(self.limiter.key(key), Act::Take, n, || now, self.page)
    }
}

impl<C, S> fmt::Debug for Pinned<'_, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").field("limiter", self.limiter).finish_non_exhaustive()
    }
}
