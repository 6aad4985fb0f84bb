use core::fmt;
use core::ops::Deref;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::Limiter;
use crate::bucket::elapsed;
use crate::clock::{Clock, Instant};
use crate::decision::{Act, Allowed, Call, Denied, Peek};
use crate::quota::Quota;
use crate::table::Key;
use crate::token_bucket::{Sealed, TokenBucket};

/// The bucket of a key: see [`Limiter::bucket`].
///
/// It holds the key's hash and a reference to the limiter, and nothing in the table: the bucket may come and go as ever.
#[derive(Clone, Copy)]
pub struct KeyBucket<L> {
    limiter: L,
    key: Key,
}

impl<C: Clock, S: BuildHasher> Limiter<C, S> {
    /// The bucket of a key, for more than a check: to wait for it, to book or lease from it, to pay afterwards. Hashes the key once, and
    /// makes nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Quota};
    ///
    /// let limiter = Limiter::builder(Quota::per_second(10).burst(1)).clock(ManualClock::new()).build();
    /// let tenant = limiter.bucket("tenant-42");
    /// assert!(tenant.check().is_ok());
    /// assert_eq!(tenant.reserve(1, Duration::from_secs(1))?.wait(), Duration::from_millis(100));
    /// # Ok::<(), tollgate::Denied>(())
    /// ```
    pub fn bucket<K: Hash + ?Sized>(&self, key: &K) -> KeyBucket<&Self> {
        KeyBucket { limiter: self, key: self.key(key) }
    }

    /// The same, owning a share of the limiter: for what outlives its caller, such as a spawned task.
    pub fn bucket_owned<K: Hash + ?Sized>(self: &Arc<Self>, key: &K) -> KeyBucket<Arc<Self>> {
        KeyBucket { limiter: Arc::clone(self), key: self.key(key) }
    }
}

#[cfg(feature = "tower")]
impl<C: Clock, S> Limiter<C, S> {
    /// The bucket of a key that is hashed already.
    pub(crate) const fn bucket_of(&self, key: Key) -> KeyBucket<&Self> {
        KeyBucket { limiter: self, key }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }
}

#[cfg(feature = "tower")]
impl<L> KeyBucket<L> {
    pub(crate) const fn key(&self) -> Key {
        self.key
    }
}

impl<L, C, S> KeyBucket<L>
where
    L: Deref<Target = Limiter<C, S>>,
    C: Clock,
{
    /// Takes one token, or says why not.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens at once, or says why not.
    ///
    /// # Errors
    /// As [`Limiter::check_n`].
    #[inline]
    pub fn check_n(&self, n: u64) -> Result<Allowed, Denied> {
        self.limiter.decide(self.key, Act::Take, n, || self.limiter.clock.now(), &self.limiter.books)
    }

    /// [`check_n`](Self::check_n) at a time already read from the limiter's clock.
    ///
    /// # Errors
    /// As [`Limiter::check_n`].
    #[inline]
    pub fn check_at(&self, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.limiter.decide(self.key, Act::Take, n, || now, &self.limiter.books)
    }

    /// The state of the bucket now. Charges nothing and creates nothing.
    pub fn peek(&self) -> Peek {
        let elapsed = self.limiter.elapsed();
        let state = self.limiter.table.peek(self.key, elapsed, &self.limiter.books);
        Peek::at(state.ticks, elapsed, state.tat)
    }

    /// What the key is allowed: its own quota, or the default. One look into a map, if any key has a quota of its own.
    pub fn quota(&self) -> Quota {
        self.limiter.quota_of(self.key)
    }
}

impl<L, C, S> TokenBucket for KeyBucket<L>
where
    L: Deref<Target = Limiter<C, S>>,
    C: Clock,
{
    fn now(&self) -> Instant {
        self.limiter.clock.now()
    }
}

impl<L, C, S> Sealed for KeyBucket<L>
where
    L: Deref<Target = Limiter<C, S>>,
    C: Clock,
{
    fn look(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        let call = Call { act, n, elapsed: elapsed(now, self.limiter.origin) };
        let Limiter { table, books, .. } = &*self.limiter;
        let (ask, answer) = table.look_first(self.key, call).unwrap_or_else(|| table.look_at(self.key, call, books));
        ask.result(answer)
    }

    #[inline]
    fn act(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.limiter.decide(self.key, act, n, || now, &self.limiter.books)
    }
}

impl<L> fmt::Debug for KeyBucket<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyBucket").field("fingerprint", &format_args!("{:#x}", self.key.bits())).finish_non_exhaustive()
    }
}
