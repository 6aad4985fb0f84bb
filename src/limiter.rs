//! A bucket per key: the table, a quota, a clock and a hash.

mod books;
mod builder;
mod directory;
mod hash;
mod inspect;
mod key_bucket;
mod pinned;
mod quotas;
mod stripe;

use core::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Mutex;

use crate::bucket::elapsed;
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::{Act, Allowed, Answer, Ask, Call, Denied, Peek};
use crate::quota::Quota;
use crate::table::{Key, Table};

pub use builder::{BuildError, DEFAULT_MAX_KEYS, LimiterBuilder, MOST_MAX_KEYS};
pub use hash::KeyHasher;
pub use inspect::{BucketState, Stats};
pub use key_bucket::KeyBucket;
pub use pinned::Pinned;
pub use quotas::{ChangeError, MOST_OWN_QUOTAS};

use books::{Books, Pages};
use quotas::Assignments;

/// A token bucket for each key, for any number of keys over time, in bounded memory.
///
/// A key is anything that is [`Hash`], borrowed for the call: tenants, addresses, both. It is not stored. A key that was never seen has a full
/// bucket, as has one that was forgotten: only full buckets are forgotten by themselves, when a new key wants their place.
///
/// The table starts with a page and grows with its keys, by eight cache lines at a time, as ordinary checks go along; it shrinks in the same way, and
/// gives memory back (see [`shrink`](Self::shrink)). No check ever waits for that. Keys can have quotas of their own
/// ([`set_quota`](Self::set_quota)), and any quota can change while checks go on.
///
/// No check allocates or blocks, whether the key is new or known: address space is reserved when the limiter is built, and the table is
/// lock-free, so a thread that is suspended in the middle of a check holds up no other. (A thread's first check registers a destructor with the
/// system, which gives back the index by which the thread counts; a clock's first reading may calibrate it: building a limiter does that. Where
/// keys have quotas of their own, see there.)
///
/// Two keys share a bucket if their hashes agree in 52 bits: for a new key a chance of one in 2<sup>52</sup> for each key held, one in four
/// billion among a million. Keys of different types share one space: `"7"` and `7_u64` hash differently, `"a"` and `String::from("a")` alike.
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
    /// Time counts from here.
    origin: u64,
    hasher: S,
    books: Books,
    assignments: Mutex<Assignments>,
    clock: C,
}

impl Limiter {
    /// A limiter on [`MonotonicClock`] with room for [`DEFAULT_MAX_KEYS`].
    ///
    /// # Panics
    /// When the allocator has no 29 MiB of address space; [`LimiterBuilder::try_build`] returns an error instead.
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
        self.decide(self.key(key), Act::Take, n, || self.clock.now(), &self.books)
    }

    /// [`check_n`](Self::check_n) at a time already read from the limiter's clock: one reading can serve many checks.
    ///
    /// # Errors
    /// As for [`check_n`](Self::check_n).
    #[inline]
    pub fn check_at<K: Hash + ?Sized>(&self, key: &K, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.decide(self.key(key), Act::Take, n, || now, &self.books)
    }
}

impl<C: Clock, S> Limiter<C, S> {
    #[expect(
        clippy::inline_always,
        reason = "out of line, spilled registers wait for the locked exchange: a check takes half as long again"
    )]
    #[inline(always)]
    fn decide(&self, key: Key, act: Act, n: u64, now: impl FnOnce() -> Instant, books: impl Pages) -> Result<Allowed, Denied> {
        // Now, and not with the answer: this store is done while the clock is read, and the exchange need not wait for it.
        if act.is_counted() && books.mine().called() {
            self.tend(books);
        }
        let (ask, answer) = self.table.check_first(key, act, n, || elapsed(now(), self.origin));
        let Some(answer) = answer else { return self.decide_beyond(key, ask.call, books) };
        Self::answer(&ask, answer, books)
    }

    /// The rarer cases, apart, so that the other stays small. Takes all by value: a reference would have the other keep in memory, on every call,
    /// what otherwise stays in registers.
    #[inline(never)]
    fn decide_beyond(&self, key: Key, call: Call, books: impl Pages) -> Result<Allowed, Denied> {
        let (ask, answer) = self.table.check(key, call, books);
        Self::answer(&ask, answer, books)
    }

    #[inline]
    fn answer(ask: &Ask, answer: Answer, books: impl Pages) -> Result<Allowed, Denied> {
        if answer.denied.is_some() && ask.call.act.is_counted() {
            books.mine().denied();
        }
        ask.result(answer)
    }

    #[cold]
    fn tend(&self, books: impl Pages) {
        self.table.tend(self.elapsed(), books);
    }

    fn elapsed(&self) -> u64 {
        elapsed(self.clock.now(), self.origin)
    }

    /// Drops every full bucket, gives the memory that the others do not need back to the operating system, and leaves room for a third more.
    ///
    /// It goes through the whole table, in this thread; checks go on meanwhile. Without it, the same happens bit by bit in the course of ordinary
    /// checks, for buckets that have been full for ten seconds.
    ///
    /// Memory goes back on Linux. Elsewhere it stays with the limiter, and is used again.
    pub fn shrink(&self) {
        self.table.shrink(self.elapsed(), &self.books);
    }
}

impl<C: Clock, S: BuildHasher> Limiter<C, S> {
    /// The state of the key's bucket now. Charges nothing and creates nothing.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K) -> Peek {
        self.bucket(key).peek()
    }
}

impl<C, S: BuildHasher> Limiter<C, S> {
    #[inline]
    fn key<K: Hash + ?Sized>(&self, key: &K) -> Key {
        Key::new(self.hasher.hash_one(key))
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

    /// What each key is allowed that has no quota of its own.
    pub fn default_quota(&self) -> Quota {
        let plans = self.table.plans();
        loop {
            // None: it was changed at this moment.
            if let Some(terms) = plans.read(plans.standing().plan()) {
                return Quota::of(terms.ticks, terms.label);
            }
        }
    }
}

impl<C, S> fmt::Debug for Limiter<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("default_quota", &self.default_quota())
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
