use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::{Clock, Instant, MonotonicClock};
use crate::register::Register;

/// [`MonotonicClock`], read ahead of time: a reading is one load, and up to a stated age old.
///
/// A thread of its own takes the readings, twice per `max_age`, until the last clone is dropped. Under a loaded scheduler that thread can run
/// late, and readings are then older by as much. An old reading is always safe: it can deny a call that a fresh one would have allowed, never
/// allow more than the promise (see [`Clock`]).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{CoarseClock, Limiter, Quota};
///
/// let clock = CoarseClock::new(Duration::from_millis(1))?;
/// let limiter = Limiter::builder(Quota::per_second(100)).clock(clock).build();
/// assert!(limiter.check("tenant-42").is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoarseClock {
    nanos: Arc<Register>,
}

impl CoarseClock {
    /// A clock whose readings are at most `max_age` old, as far as its thread is scheduled in time. A `max_age` below 2 microseconds counts
    /// as that.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn new(max_age: Duration) -> io::Result<Self> {
        let nanos = Arc::new(Register::new(MonotonicClock::new().now().as_nanos()));
        let reading = Arc::downgrade(&nanos);
        let pause = (max_age / 2).max(Duration::from_micros(1));
        thread::Builder::new().name("tollgate-clock".into()).spawn(move || keep_current(&reading, pause))?;
        Ok(Self { nanos })
    }
}

fn keep_current(reading: &Weak<Register>, pause: Duration) {
    // A pause of a day would keep the thread a day beyond the last clone.
    let pause = pause.min(Duration::from_secs(1));
    while let Some(nanos) = reading.upgrade() {
        nanos.set(MonotonicClock::new().now().as_nanos());
        drop(nanos);
        thread::sleep(pause);
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos.get())
    }
}
