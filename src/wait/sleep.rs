use std::time::Duration;

/// A runtime's timer, for [`Bucket::acquire_with`](crate::Bucket::acquire_with). Any function from a duration to a future is one:
/// `monoio::time::sleep`, say.
///
/// Neither the timer nor the future that waits for it need be `Send`.
pub trait Sleep {
    /// Is ready when the time has passed, and not before.
    type Timer: Future<Output = ()>;

    /// Starts to sleep: from the call on, or from the timer's first poll, which follows at once. A few milliseconds more do no harm, but to
    /// the sleeper.
    fn sleep(&self, time: Duration) -> Self::Timer;
}

impl<F, T> Sleep for F
where
    F: Fn(Duration) -> T,
    T: Future<Output = ()>,
{
    type Timer = T;

    fn sleep(&self, time: Duration) -> T {
        self(time)
    }
}

/// Tokio's timer. It is used within a Tokio runtime whose time is enabled, and panics elsewhere.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TokioSleep;

#[cfg(feature = "tokio")]
impl Sleep for TokioSleep {
    type Timer = tokio::time::Sleep;

    fn sleep(&self, time: Duration) -> Self::Timer {
        tokio::time::sleep(time)
    }
}
