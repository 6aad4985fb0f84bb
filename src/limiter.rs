//! A bucket per key: the table, a quota, a clock and a hash.

mod builder;
mod hash;
mod stripe;

use core::fmt;
use std::hash::{BuildHasher, Hash};

use crate::bucket::elapsed;
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::{Allowed, Ask, Denied, Peek};
use crate::quota::Quota;
use crate::table::{Key, Table};

pub use builder::{BuildError, DEFAULT_MAX_KEYS, LimiterBuilder, MOST_MAX_KEYS};
pub use hash::KeyHasher;
pub use stripe::Stats;

use stripe::Stripes;

/// A token bucket for each key, for any number of keys over time, in bounded memory.
///
/// A key is anything that is [`Hash`], borrowed for the call: tenants, addresses, both. It is not stored. A key that was never seen has a full
/// bucket, as has one that was forgotten: only full buckets are forgotten by themselves, when a new key wants their place.
///
/// No check allocates or blocks, whether the key is new or known: the table is allocated when the limiter is built, and it is lock-free, so a
/// thread that is suspended in the middle of a check holds up no other. (A thread's first check registers a destructor with the system, which
/// gives back the index by which the thread counts; and a clock's first reading may calibrate it: building a limiter does that.)
///
/// Two keys share a bucket if their 64-bit hashes agree in the 43 bits of the fingerprint and in a candidate line: for a new key a chance of
/// about 8 in 2<sup>43</sup>, one in 10<sup>12</sup>. Keys of different types share one space: `"7"` and `7_u64` hash differently, `"a"` and
/// `String::from("a")` alike.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_second(100));
/// match limiter.check("tenant-42") {
///     Ok(allowed) => println!("{} left", allowed.remaining()),
///     Err(denied) => println!("{denied}"),
/// }
/// ```
///
/// In a test, on a clock that moves when told to:
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(Quota::per_minute(2)).max_keys(10_000).clock(clock.clone()).build();
/// assert!(limiter.check_n("a", 2).is_ok());
/// assert!(limiter.check("a").is_err());
/// assert!(limiter.check("b").is_ok());
/// clock.advance(Duration::from_secs(30));
/// assert!(limiter.check("a").is_ok());
/// ```
pub struct Limiter<C = MonotonicClock, S = KeyHasher> {
    table: Table,
    quota: Quota,
    /// Ticks count from here.
    origin: u64,
    hasher: S,
    stripes: Stripes,
    clock: C,
}

impl Limiter {
    /// A limiter on [`MonotonicClock`] with room for [`DEFAULT_MAX_KEYS`].
    ///
    /// # Panics
    /// When the allocator has no 32 MiB of address space; [`LimiterBuilder::try_build`] returns an error instead.
    pub fn new(quota: Quota) -> Self {
        Self::builder(quota).build()
    }

    /// A limiter to be configured: clock, `max_keys`, overflow policy, hasher.
    pub fn builder(quota: Quota) -> LimiterBuilder {
        LimiterBuilder::new(quota)
    }
}

impl<C: Clock, S: BuildHasher> Limiter<C, S> {
    /// Takes one token from the key's bucket, or says why not.
    ///
    /// # Errors
    /// [`Denied`] when no whole token is there. Nothing is charged then.
    #[inline]
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens at once from the key's bucket, or says why not. With `n = 0` always allowed, and nothing changes.
    ///
    /// # Errors
    /// [`Denied`] when fewer than `n` tokens are there, or `n` is more than the burst. Nothing is charged then.
    #[inline]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, n: u64) -> Result<Allowed, Denied> {
        self.decide(key, n, || self.clock.now())
    }

    /// [`check_n`](Self::check_n) at a time already read from the limiter's clock: one reading can serve many checks.
    ///
    /// # Errors
    /// As for [`check_n`](Self::check_n).
    #[inline]
    pub fn check_at<K: Hash + ?Sized>(&self, key: &K, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.decide(key, n, || now)
    }

    #[expect(
        clippy::inline_always,
        reason = "out of line, spilled registers wait for the locked exchange: a check takes half as long again"
    )]
    #[inline(always)]
    fn decide<K: Hash + ?Sized>(&self, key: &K, n: u64, now: impl FnOnce() -> Instant) -> Result<Allowed, Denied> {
        let ask = || Ask::new(self.quota.ticks(), elapsed(now(), self.origin), n);
        let (ask, answer) = self.table.check(self.key(key), ask, &self.stripes);
        self.stripes.decided(answer.denied.is_none());
        ask.result(answer)
    }

    /// The state of the key's bucket now. Charges nothing and creates nothing.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K) -> Peek {
        let elapsed = elapsed(self.clock.now(), self.origin);
        let tat = self.table.peek(self.key(key)).or_else(|| self.table.fresh_after(self.quota.ticks().at(elapsed)));
        Peek::at(self.quota.ticks(), elapsed, tat.unwrap_or(0))
    }

    #[inline]
    fn key<K: Hash + ?Sized>(&self, key: &K) -> Key {
        Key::new(self.hasher.hash_one(key))
    }

    /// What each key is allowed.
    pub const fn quota(&self) -> Quota {
        self.quota
    }
}

impl<C, S> Limiter<C, S> {
    /// The buckets held, approximately: also those that have become full since, until a new key takes their place. Never more than
    /// [`capacity`](Self::capacity).
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no key has a bucket.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most buckets that are held at a time: the `max_keys` it was built with.
    pub fn capacity(&self) -> usize {
        self.table.max_keys()
    }

    /// What has happened since the limiter was built. Counts of calls that run at this moment may be missing; otherwise exact.
    pub fn stats(&self) -> Stats {
        self.stripes.stats()
    }
}

impl<C, S> fmt::Debug for Limiter<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("quota", &self.quota)
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
