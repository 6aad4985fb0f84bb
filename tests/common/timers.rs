//! Timers that fire when a manual clock has passed them, and an executor that polls who was woken.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::{Clock, Instant, ManualClock, Sleep};

/// A runtime's timers, on a clock that is moved by hand. Clones share them.
#[derive(Clone)]
pub(crate) struct Timers {
    clock: ManualClock,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// By moment, then in the order in which they were set.
    sleeping: Mutex<BTreeMap<(Instant, usize), Option<Waker>>>,
    set: AtomicUsize,
    fired: AtomicUsize,
}

impl Timers {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), shared: Arc::default() }
    }

    /// How many timers were ever set.
    pub(crate) fn set(&self) -> usize {
        self.shared.set.load(Ordering::Relaxed)
    }

    /// How many woke a task.
    pub(crate) fn fired(&self) -> usize {
        self.shared.fired.load(Ordering::Relaxed)
    }

    /// How many have not fired yet.
    pub(crate) fn sleeping(&self) -> usize {
        self.shared.sleeping.lock().expect("no panic").len()
    }

    /// When the next one fires.
    fn next(&self) -> Option<Instant> {
        self.shared.sleeping.lock().expect("no panic").keys().next().map(|&(due, _)| due)
    }

    /// Moves the clock to the next timer's moment and fires all that are due then. False: none is set.
    pub(crate) fn fire_next(&self) -> bool {
        let Some(due) = self.next() else { return false };
        let wait = due.saturating_duration_since(self.clock.now());
        self.advance(wait);
        true
    }

    /// Moves the clock, and fires what is due then.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        let now = self.clock.now();
        let mut sleeping = self.shared.sleeping.lock().expect("no panic");
        let later = sleeping.split_off(&(now + Duration::from_nanos(1), 0));
        let due = std::mem::replace(&mut *sleeping, later);
        drop(sleeping);
        for waker in due.into_values().flatten() {
            self.shared.fired.fetch_add(1, Ordering::Relaxed);
            waker.wake();
        }
    }
}

impl Sleep for Timers {
    type Timer = Timer;

    fn sleep(&self, time: Duration) -> Timer {
        let number = self.shared.set.fetch_add(1, Ordering::Relaxed);
        let key = (self.clock.now() + time, number);
        self.shared.sleeping.lock().expect("no panic").insert(key, None);
        Timer { timers: self.clone(), key }
    }
}

/// Ready once the clock has passed its moment.
pub(crate) struct Timer {
    timers: Timers,
    key: (Instant, usize),
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.clock.now() >= self.key.0 {
            return Poll::Ready(());
        }
        let mut sleeping = self.timers.shared.sleeping.lock().expect("no panic");
        sleeping.insert(self.key, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.timers.shared.sleeping.lock().expect("no panic").remove(&self.key);
    }
}

/// Futures, each polled when it is started and when it was woken.
pub(crate) struct Tasks<'a, T> {
    tasks: Vec<Task<'a, T>>,
    polls: usize,
}

/// Whether it was woken, and the future, until that is done.
type Task<'a, T> = (Arc<Woken>, Option<Pin<Box<dyn Future<Output = T> + 'a>>>);

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a, T> Tasks<'a, T> {
    pub(crate) fn new() -> Self {
        Self { tasks: Vec::new(), polls: 0 }
    }

    /// Starts a task, numbered in the order of starts, and polls it: what it returns, if it is done at once.
    pub(crate) fn start(&mut self, future: impl Future<Output = T> + 'a) -> Option<T> {
        self.tasks.push((Arc::default(), Some(Box::pin(future))));
        self.poll(self.tasks.len() - 1)
    }

    fn poll(&mut self, number: usize) -> Option<T> {
        self.polls += 1;
        let (woken, task) = &mut self.tasks[number];
        let waker = Waker::from(Arc::clone(woken));
        match task.as_mut()?.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                *task = None;
                Some(result)
            }
            Poll::Pending => None,
        }
    }

    /// Polls those that were woken: the numbers and results of those that are done.
    pub(crate) fn turn(&mut self) -> Vec<(usize, T)> {
        let woken: Vec<_> = (0..self.tasks.len()).filter(|&number| self.tasks[number].0.0.swap(false, Ordering::Relaxed)).collect();
        woken.into_iter().filter_map(|number| Some((number, self.poll(number)?))).collect()
    }

    /// Drops a task that is under way.
    pub(crate) fn cancel(&mut self, number: usize) {
        assert!(self.tasks[number].1.take().is_some(), "task {number} is done");
    }

    /// How often any was polled.
    pub(crate) fn polls(&self) -> usize {
        self.polls
    }
}

/// Polls a future once, with nobody to be woken.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
