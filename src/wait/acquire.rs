use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::reservation::Reservation;
use super::sleep::Sleep;
use super::waiters::MaxWait;
use crate::decision::{Allowed, Denied};
use crate::token_bucket::TokenBucket;

pin_project! {
    /// Waits for tokens: see [`Bucket::acquire`](crate::Bucket::acquire).
    ///
    /// Books when it is first polled, sleeps once, and is done when the timer is: one reading of the clock and at most one timer for each.
    /// Dropped before it is done, it gives back what it booked, due or not.
    ///
    /// `Send`, if bucket, sleeper and timer are.
    ///
    /// # Panics
    /// If polled after it is done.
    #[must_use = "a future does nothing unless polled"]
    pub struct Acquire<B: TokenBucket, S: Sleep> {
        stage: Stage<B>,
        sleep: S,
        #[pin]
        timer: Option<S::Timer>,
    }
}

enum Stage<B: TokenBucket> {
    Asked { bucket: B, n: u64, max_wait: MaxWait },
    Booked(Unused<B>),
    Done,
}

/// A booking that nobody can have used.
struct Unused<B: TokenBucket>(Option<Reservation<B>>);

impl<B: TokenBucket> Drop for Unused<B> {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take() {
            reservation.cancel();
        }
    }
}

impl<B: TokenBucket, S: Sleep> Acquire<B, S> {
    /// Waits for `n` tokens of a bucket by reference, or shared. The future of a shared bucket can be spawned.
    pub fn new(bucket: B, n: u64, max_wait: impl Into<MaxWait>, sleep: S) -> Self {
        Self { stage: Stage::Asked { bucket, n, max_wait: max_wait.into() }, sleep, timer: None }
    }
}

impl<B: TokenBucket, S: Sleep> Future for Acquire<B, S> {
    type Output = Result<Allowed, Denied>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Stage::Asked { .. } = this.stage
            && let Stage::Asked { bucket, n, max_wait } = mem::replace(this.stage, Stage::Done)
        {
            let reservation = Reservation::book(bucket, n, max_wait)?;
            if reservation.wait().is_zero() {
                return Poll::Ready(Ok(reservation.keep()));
            }
            let wait = reservation.wait();
            // Before the sleeper is called, which may panic.
            let unused = Unused(Some(reservation));
            this.timer.set(Some(this.sleep.sleep(wait)));
            *this.stage = Stage::Booked(unused);
        }
        let timer = this.timer.as_mut().as_pin_mut().expect("polled after it was done");
        ready!(timer.poll(context));
        this.timer.set(None);
        match mem::replace(this.stage, Stage::Done) {
            Stage::Booked(mut unused) => Poll::Ready(Ok(unused.0.take().expect("booked once").keep())),
            _ => unreachable!("a timer is set with a booking"),
        }
    }
}

impl<B: TokenBucket, S: Sleep> fmt::Debug for Acquire<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Asked { .. } => "asked",
            Stage::Booked(_) => "booked",
            Stage::Done => "done",
        };
        f.debug_struct("Acquire").field("stage", &stage).finish_non_exhaustive()
    }
}
