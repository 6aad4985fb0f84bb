//! Where time comes from.

mod coarse;
mod manual;
mod monotonic;

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

pub use coarse::CoarseClock;
pub use manual::ManualClock;
pub use monotonic::MonotonicClock;

/// A reading of a [`Clock`]: nanoseconds since the clock's origin, up to 2<sup>64</sup> - 1 (about 584 years).
///
/// Readings of clocks with different origins must not be mixed. All [`MonotonicClock`]s and [`CoarseClock`]s of a process share one origin;
/// clones of a [`ManualClock`] do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at the ends of what an `Instant` can hold.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(duration)))
    }
}

/// Saturates at the origin.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(duration)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", Duration::from_nanos(self.0))
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A source of time.
///
/// A check reads its clock once. Any reading is taken as it is, and none can make a limiter admit more than its promise (at most
/// `burst + rate * (t - s)` tokens to the calls stamped within `[s, t]`), because no reading ever lowers a bucket's arrival time. So a clock
/// need not be monotonic:
///
/// - **Small steps back** (time-stamp counters of two cores that disagree) make the late call see a debt larger by the step. It may be
///   denied, by as much.
/// - **Suspend**: [`MonotonicClock`] may or may not count the time asleep, depending on system and counter. If it does not, buckets refill
///   later than a wall clock would have it, never earlier.
/// - **Migration of a virtual machine** can step the counter. A step forward refills buckets, at most to full. After a step back, buckets
///   charged before the step stay in debt until the clock has caught up with them.
/// - **A wild reading ahead** moves the buckets charged under it: they read as in debt until the clock catches up. In a limiter that drops such a
///   bucket as full, under another such reading, new keys are held to that debt too: they might be the dropped one.
///
/// A limiter or bucket reads its clock when it is built and counts from 30 days before; a clock may step back so far. It counts for at least
/// twenty years on; past that it stops refilling.
pub trait Clock {
    /// The time now. Called once per check. Should not block, allocate or panic.
    fn now(&self) -> Instant;
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Instant {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    #[inline]
    fn now(&self) -> Instant {
        (**self).now()
    }
}
