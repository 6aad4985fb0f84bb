use core::fmt;
use std::hash::BuildHasher;
use std::sync::Mutex;

use super::Limiter;
use super::books::Books;
use super::hash::KeyHasher;
use super::quotas::Assignments;
use crate::bucket::origin;
use crate::clock::{Clock, MonotonicClock};
use crate::plans::Plans;
use crate::quota::Quota;
use crate::table::{Overflow, Table};

/// What [`Limiter::new`] holds: 1,048,576 keys, 29 MiB of address space, of which only what keys need becomes memory.
pub const DEFAULT_MAX_KEYS: usize = 1 << 20;

/// The most keys a limiter can be built for: 2<sup>32</sup> where addresses have 64 bits, 114 GiB of slots.
pub const MOST_MAX_KEYS: usize = if usize::BITS >= 64 { 1 << 32 } else { 1 << 24 };

/// Builds a [`Limiter`]: see [`Limiter::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LimiterBuilder<C = MonotonicClock, S = KeyHasher> {
    quota: Quota,
    max_keys: usize,
    overflow: Overflow,
    clock: C,
    hasher: S,
}

/// Why a limiter cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// `max_keys` is 0.
    ZeroKeys,
    /// `max_keys` is more than [`MOST_MAX_KEYS`].
    TooManyKeys {
        /// The number given.
        max_keys: usize,
    },
    /// The allocator has no memory for so many keys.
    OutOfMemory {
        /// The number given.
        max_keys: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroKeys => f.write_str("max_keys is 0: a limiter needs room for at least 1 key"),
            Self::TooManyKeys { max_keys } => write!(f, "max_keys is {max_keys}: at most {MOST_MAX_KEYS} can be held"),
            Self::OutOfMemory { max_keys } => {
                write!(f, "max_keys is {max_keys}: the allocator has no memory for so many, which take 29 bytes each")
            }
        }
    }
}

impl core::error::Error for BuildError {}

impl LimiterBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, max_keys: DEFAULT_MAX_KEYS, overflow: Overflow::default(), clock: MonotonicClock::new(), hasher: KeyHasher::new() }
    }
}

impl<C, S> LimiterBuilder<C, S> {
    /// The same for another quota.
    pub(crate) fn quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// The most buckets to hold at a time, 1 to [`MOST_MAX_KEYS`]; [`DEFAULT_MAX_KEYS`] if not called.
    ///
    /// Set it to the number of keys you expect to be *in debt* at one time, generously: full buckets give way to new keys by themselves, and
    /// cost nothing to forget. It also bounds the memory: 29 bytes per key. A limiter takes a page at first, and grows with its keys.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// What to do with a new key when there is no room; [`Overflow::EvictLeastDebt`] if not called.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// The clock to read; [`MonotonicClock`] if not called.
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<D, S> {
        let Self { quota, max_keys, overflow, hasher, clock: _ } = self;
        LimiterBuilder { quota, max_keys, overflow, clock, hasher }
    }

    /// How to hash keys; a new [`KeyHasher`] if not called. The low 52 bits of a hash are used, and should all be good: they choose a key's slots
    /// and tell it from others there. Unkeyed hashes let whoever chooses keys choose those too.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> LimiterBuilder<C, T> {
        let Self { quota, max_keys, overflow, clock, hasher: _ } = self;
        LimiterBuilder { quota, max_keys, overflow, clock, hasher }
    }
}

impl<C: Clock, S: BuildHasher> LimiterBuilder<C, S> {
    /// The limiter. Reserves the address space it will ever need for its buckets, and reads the clock once.
    ///
    /// # Panics
    /// Where [`try_build`](Self::try_build) returns an error.
    pub fn build(self) -> Limiter<C, S> {
        match self.try_build() {
            Ok(limiter) => limiter,
            Err(error) => panic!("{error}"),
        }
    }

    /// The limiter, for a `max_keys` that comes from outside.
    ///
    /// # Errors
    /// When `max_keys` is 0 or more than [`MOST_MAX_KEYS`], or the allocator has no memory.
    pub fn try_build(self) -> Result<Limiter<C, S>, BuildError> {
        let Self { quota, max_keys, overflow, clock, hasher } = self;
        if max_keys == 0 {
            return Err(BuildError::ZeroKeys);
        }
        if max_keys > MOST_MAX_KEYS {
            return Err(BuildError::TooManyKeys { max_keys });
        }
        let plans = Plans::new(*quota.ticks(), quota.label());
        let table = Table::new(max_keys, overflow, plans).ok_or(BuildError::OutOfMemory { max_keys })?;
        let origin = origin(&clock);
        Ok(Limiter { table, origin, hasher, books: Books::new(), assignments: Mutex::new(Assignments::new()), clock })
    }
}
