//! How long to wait, and among how many.

use std::sync::Arc;
use std::time::Duration;

use crate::register::Register;

/// The most that a caller will wait. A [`Duration`] is one by itself.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Bucket, ManualClock, MaxWait, Quota, Reason, Waiters};
///
/// let bucket = Bucket::with_clock(Quota::per_second(1), ManualClock::new());
/// let waiters = Waiters::new(1);
/// let max_wait = MaxWait::new(Duration::from_secs(10)).among(&waiters);
/// let (now, first) = (bucket.reserve(1, &max_wait)?, bucket.reserve(1, &max_wait)?);
/// assert_eq!((now.wait(), first.wait()), (Duration::ZERO, Duration::from_secs(1)));
/// assert_eq!(bucket.reserve(1, &max_wait).unwrap_err().reason(), Reason::TooManyWaiters);
/// # Ok::<(), tollgate::Denied>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaxWait {
    longest: Duration,
    waiters: Option<Waiters>,
}

impl MaxWait {
    /// At most so long: a longer wait is answered at once with a denial. Zero: no wait. [`Duration::MAX`]: any.
    pub const fn new(longest: Duration) -> Self {
        Self { longest, waiters: None }
    }

    /// And only if there are fewer of these than there may be.
    #[must_use]
    pub fn among(self, waiters: &Waiters) -> Self {
        Self { waiters: Some(waiters.clone()), ..self }
    }

    /// In nanoseconds, up to all that fit.
    pub(crate) fn nanos(&self) -> u64 {
        u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) const fn waiters(&self) -> Option<&Waiters> {
        self.waiters.as_ref()
    }
}

impl From<Duration> for MaxWait {
    fn from(longest: Duration) -> Self {
        Self::new(longest)
    }
}

impl From<&Self> for MaxWait {
    fn from(max_wait: &Self) -> Self {
        max_wait.clone()
    }
}

/// A bound on how many wait at a time: for one bucket, or for as many together as you like. Clones count together.
///
/// A call counts from when it is decided, for that moment even if it need not wait, until it has waited or given up. Who finds as many
/// there as may wait is admitted if no wait is needed, and else denied ([`Reason::TooManyWaiters`](crate::Reason::TooManyWaiters)).
#[derive(Clone, Debug)]
pub struct Waiters {
    counter: Arc<Counter>,
}

#[derive(Debug)]
struct Counter {
    waiting: Register,
    most: u64,
}

impl Waiters {
    /// At most so many. Allocates the count that its clones share.
    pub fn new(most: usize) -> Self {
        Self { counter: Arc::new(Counter { waiting: Register::new(0), most: most as u64 }) }
    }

    /// How many wait at this moment.
    pub fn waiting(&self) -> usize {
        usize::try_from(self.counter.waiting.get()).unwrap_or(usize::MAX)
    }

    /// How many may wait.
    pub fn most(&self) -> usize {
        usize::try_from(self.counter.most).unwrap_or(usize::MAX)
    }

    /// Counts one more, if there may be.
    pub(crate) fn enter(&self) -> Option<Place> {
        self.counter.waiting.add_below(self.counter.most).then(|| Place { counter: Arc::clone(&self.counter) })
    }
}

/// One that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    counter: Arc<Counter>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counter.waiting.subtract(1);
    }
}
