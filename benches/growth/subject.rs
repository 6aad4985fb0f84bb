//! What is measured: limiters under one quota, and nothing, for the clock's own part.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use tollgate::{Limiter, Quota};

use crate::common::{Governor, governor_of, spread, tollgate_of};

/// Tokens an hour, and the burst. The first comes back after six minutes: nothing that is charged here is paid back before the end.
pub(crate) const HOURLY: u32 = 10;

pub(crate) trait Subject: Sync {
    fn build(max_keys: usize) -> Self;
    fn check(&self, key: u64) -> bool;
    /// Whether a key that owes its whole burst still does. Charges nothing then.
    fn is_limited(&self, key: u64) -> bool;
    fn says(&self) -> Says;
}

/// What a limiter tells about itself.
#[derive(Clone, Copy, Default)]
pub(crate) struct Says {
    pub(crate) keys: usize,
    /// Keys that were let off a debt to make room.
    pub(crate) let_off: u64,
}

impl Subject for Limiter {
    fn build(max_keys: usize) -> Self {
        tollgate_of(Quota::per_hour(HOURLY.into()), max_keys)
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.check(&key).is_ok()
    }

    fn is_limited(&self, key: u64) -> bool {
        self.peek(&key).remaining() == 0
    }

    fn says(&self) -> Says {
        Says { keys: self.len(), let_off: self.stats().evicted_in_debt }
    }
}

impl<S: BuildHasher + Clone + Default + Send + Sync> Subject for Governor<S> {
    /// Its map holds any number of keys.
    fn build(_max_keys: usize) -> Self {
        governor_of(governor::Quota::per_hour(NonZeroU32::new(HOURLY).expect("not zero")))
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        self.check_key(&key).is_ok()
    }

    /// It cannot be asked without a check, which a limited key is denied.
    fn is_limited(&self, key: u64) -> bool {
        self.check_key(&key).is_err()
    }

    fn says(&self) -> Says {
        Says { keys: self.len(), let_off: 0 }
    }
}

/// No limiter: so many steps of arithmetic, each of which waits for the one before.
pub(crate) struct Nothing<const STEPS: u32>;

impl<const STEPS: u32> Subject for Nothing<STEPS> {
    fn build(_max_keys: usize) -> Self {
        Self
    }

    #[inline]
    fn check(&self, key: u64) -> bool {
        (0..STEPS).fold(key, |mixed, _| spread(mixed ^ mixed >> 32)) != 0
    }

    fn is_limited(&self, _key: u64) -> bool {
        false
    }

    fn says(&self) -> Says {
        Says::default()
    }
}
