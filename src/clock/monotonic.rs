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

static START: OnceLock<Start> = OnceLock::new();

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(START.get_or_init(Start::now).elapsed_nanos())
    }
}

/// When the process first asked.
#[cfg(feature = "quanta")]
struct Start {
    counter: quanta::Clock,
    reading: u64,
}

#[cfg(feature = "quanta")]
impl Start {
    fn now() -> Self {
        let counter = quanta::Clock::new();
        let reading = counter.raw();
        Self { counter, reading }
    }

    /// Zero on a core whose counter is behind the one that started.
    #[inline]
    fn elapsed_nanos(&self) -> u64 {
        self.counter.delta_as_nanos(self.reading, self.counter.raw())
    }
}

/// When the process first asked.
#[cfg(not(feature = "quanta"))]
struct Start(std::time::Instant);

#[cfg(not(feature = "quanta"))]
impl Start {
    fn now() -> Self {
        Self(std::time::Instant::now())
    }

    #[inline]
    fn elapsed_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
