//! Where time comes from.

mod coarse;
mod instant;
mod manual;
mod monotonic;

pub use coarse::CoarseClock;
pub use instant::Instant;
pub use manual::ManualClock;
pub use monotonic::MonotonicClock;

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
