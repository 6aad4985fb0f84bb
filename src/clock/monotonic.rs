use std::sync::OnceLock;

use super::{Clock, Instant};

/// The default clock: nanoseconds since the process first asked.
///
/// With the default feature `quanta`, a read of the processor's time-stamp counter, scaled; where the counter is not invariant, and without
/// the feature, the operating system's monotonic clock. What it does in a suspend or a migration, and why a limiter bears it: see [`Clock`].
///
/// The first reading in a process calibrates the counter, which can take a few hundred milliseconds. A [`Limiter`](crate::Limiter) takes it
/// when it is built; a `static` [`Bucket`](crate::Bucket) at its first check, unless something called [`now`](Clock::now) before.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock(());

impl MonotonicClock {
    /// The clock of this process: all values are the same clock.
    pub const fn new() -> Self {
        Self(())
    }
}

/// The counter, and its reading when the process first asked.
static STARTED: OnceLock<(source::Counter, source::Reading)> = OnceLock::new();

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Instant {
        let (counter, start) = STARTED.get_or_init(source::start);
        Instant::from_nanos(source::nanos_since(counter, *start))
    }
}

#[cfg(feature = "quanta")]
mod source {
    pub(super) type Counter = quanta::Clock;
    pub(super) type Reading = u64;

    pub(super) fn start() -> (Counter, Reading) {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        (counter, start)
    }

    #[inline]
    pub(super) fn nanos_since(counter: &Counter, start: Reading) -> u64 {
        // Zero on a core whose counter is behind the one that started.
        counter.delta_as_nanos(start, counter.raw())
    }
}

#[cfg(not(feature = "quanta"))]
mod source {
    pub(super) type Counter = ();
    pub(super) type Reading = std::time::Instant;

    pub(super) fn start() -> (Counter, Reading) {
        ((), std::time::Instant::now())
    }

    #[inline]
    pub(super) fn nanos_since((): &Counter, start: Reading) -> u64 {
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
