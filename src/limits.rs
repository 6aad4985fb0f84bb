//! Several quotas for each key.

use core::fmt;
use std::hash::{BuildHasher, Hash};

use crate::clock::{Clock, MonotonicClock};
use crate::decision::Allowed;
use crate::limiter::{BuildError, KeyBucket, KeyHasher, Limiter, LimiterBuilder};
use crate::quota::Quota;
use crate::several::{DeniedBy, check_each};
use crate::table::Overflow;
use crate::token_bucket::TokenBucket;

/// `N` quotas for each key, as one decision: a call takes its tokens from all of a key's buckets, or from none.
///
/// Each quota has a [`Limiter`] of its own, in the order given, with its own table, counts and quotas per key.
///
/// ```
/// use tollgate::{Limits, ManualClock, Quota};
///
/// let quotas = [Quota::per_second(10), Quota::per_hour(1_000), Quota::per_day(50_000)];
/// let limits = Limits::builder(quotas).clock(ManualClock::new()).build();
/// assert_eq!(limits.check("tenant-42")?.map(|allowed| allowed.remaining()), [9, 999, 49_999]);
///
/// let by = limits.check_n("tenant-42", 10).unwrap_err();
/// assert_eq!(by.index(), 0);
/// assert_eq!(limits.limiter(1).peek("tenant-42").remaining(), 999);
/// # Ok::<(), tollgate::DeniedBy>(())
/// ```
pub struct Limits<const N: usize, C = MonotonicClock, S = KeyHasher> {
    limiters: [Limiter<C, S>; N],
}

impl<const N: usize> Limits<N> {
    /// On [`MonotonicClock`], each with room for [`DEFAULT_MAX_KEYS`](crate::DEFAULT_MAX_KEYS).
    ///
    /// # Panics
    /// As [`Limiter::new`].
    pub fn new(quotas: [Quota; N]) -> Self {
        Self::builder(quotas).build()
    }

    /// To be configured, all alike: clock, `max_keys`, overflow policy, hasher.
    pub fn builder(quotas: [Quota; N]) -> LimitsBuilder<N> {
        const { assert!(N > 0, "at least one quota") };
        // The quota is replaced before anything is built of it.
        LimitsBuilder { quotas, each: Limiter::builder(Quota::per_second(1)) }
    }
}

impl<const N: usize, C: Clock, S: BuildHasher> Limits<N, C, S> {
    /// Takes one token from each of the key's buckets, or none.
    ///
    /// # Errors
    /// [`DeniedBy`]: which limit denied, and the longest wait of all. None was charged.
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Result<[Allowed; N], DeniedBy> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens from each of the key's buckets, or none. Reads the clock once. Where other costs are due to each, or further limits are to be
    /// met, see [`check_all`](crate::check_all).
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, n: u64) -> Result<[Allowed; N], DeniedBy> {
        let buckets = self.buckets(key);
        let now = buckets[0].now();
        check_each(buckets.each_ref().map(|bucket| (bucket as &dyn TokenBucket, n, now)))
    }

    /// The key's buckets.
    pub fn buckets<K: Hash + ?Sized>(&self, key: &K) -> [KeyBucket<&Limiter<C, S>>; N] {
        self.limiters.each_ref().map(|limiter| limiter.bucket(key))
    }
}

impl<const N: usize, C, S> Limits<N, C, S> {
    /// The limiter of one quota, counted from 0: for its counts, and to change quotas.
    ///
    /// # Panics
    /// If there are not so many.
    pub const fn limiter(&self, index: usize) -> &Limiter<C, S> {
        &self.limiters[index]
    }
}

impl<const N: usize, C, S> fmt::Debug for Limits<N, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.limiters).finish()
    }
}

/// Builds [`Limits`]: see [`Limits::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LimitsBuilder<const N: usize, C = MonotonicClock, S = KeyHasher> {
    quotas: [Quota; N],
    each: LimiterBuilder<C, S>,
}

impl<const N: usize, C, S> LimitsBuilder<N, C, S> {
    /// For each limiter: see [`LimiterBuilder::max_keys`].
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self { each: self.each.max_keys(max_keys), ..self }
    }

    /// For each limiter: see [`LimiterBuilder::overflow`].
    pub fn overflow(self, overflow: Overflow) -> Self {
        Self { each: self.each.overflow(overflow), ..self }
    }

    /// For each limiter, a clone that tells the same time: see [`LimiterBuilder::clock`].
    pub fn clock<D: Clock + Clone>(self, clock: D) -> LimitsBuilder<N, D, S> {
        LimitsBuilder { quotas: self.quotas, each: self.each.clock(clock) }
    }

    /// For each limiter, a clone: see [`LimiterBuilder::hasher`].
    pub fn hasher<T: BuildHasher + Clone>(self, hasher: T) -> LimitsBuilder<N, C, T> {
        LimitsBuilder { quotas: self.quotas, each: self.each.hasher(hasher) }
    }
}

impl<const N: usize, C: Clock + Clone, S: BuildHasher + Clone> LimitsBuilder<N, C, S> {
    /// The limits. As [`LimiterBuilder::build`], for each.
    ///
    /// # Panics
    /// Where [`try_build`](Self::try_build) returns an error.
    pub fn build(self) -> Limits<N, C, S> {
        match self.try_build() {
            Ok(limits) => limits,
            Err(error) => panic!("{error}"),
        }
    }

    /// The limits, for a `max_keys` that comes from outside.
    ///
    /// # Errors
    /// As [`LimiterBuilder::try_build`].
    pub fn try_build(self) -> Result<Limits<N, C, S>, BuildError> {
        let limiters: Vec<_> = self.quotas.into_iter().map(|quota| self.each.clone().quota(quota).try_build()).collect::<Result<_, _>>()?;
        let limiters = limiters.try_into().unwrap_or_else(|_| unreachable!("as many as there are quotas"));
        Ok(Limits { limiters })
    }
}
