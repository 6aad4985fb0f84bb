use std::sync::Arc;
use std::time::Duration;

use super::instant::saturating_nanos;
use super::{Clock, Instant};
use crate::register::Register;

/// A clock that moves only when told to: for tests, of this crate and of services that use it.
///
/// Starts at zero. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Bucket, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let bucket = Bucket::with_clock(Quota::per_second(1), clock.clone());
/// assert!(bucket.check().is_ok());
/// assert!(bucket.check().is_err());
/// clock.advance(Duration::from_secs(1));
/// assert!(bucket.check().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    nanos: Arc<Register>,
}

impl ManualClock {
    /// A clock at zero. Allocates the time that its clones will share.
    pub fn new() -> Self {
        Self { nanos: Arc::new(Register::new(0)) }
    }

    /// Moves the time forward, for all clones. Stops at 2<sup>64</sup> - 1 nanoseconds.
    pub fn advance(&self, by: Duration) {
        self.nanos.add_saturating(saturating_nanos(by));
    }

    /// Sets the time to so long after zero, for all clones: backwards too. At most 2<sup>64</sup> - 1 nanoseconds; more counts as that.
    pub fn set(&self, since_zero: Duration) {
        self.nanos.set(saturating_nanos(since_zero));
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos.get())
    }
}
