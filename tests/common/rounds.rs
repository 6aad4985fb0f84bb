//! Threads that work in rounds, and do not wait for one that has panicked.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// A barrier that breaks when one of its threads panics.
pub(crate) struct Rounds {
    threads: usize,
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Default)]
struct State {
    arrived: usize,
    round: usize,
    broken: bool,
}

impl Rounds {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::default(), turn: Condvar::new() }
    }

    /// A thread's part in it.
    pub(crate) fn join(&self) -> Member<'_> {
        Member(self)
    }
}

pub(crate) struct Member<'a>(&'a Rounds);

impl Member<'_> {
    /// Waits for all the others, and says whether this thread is the one that came last.
    pub(crate) fn wait(&self) -> bool {
        let Rounds { threads, state, turn } = self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let round = state.round;
        state.arrived += 1;
        let last = state.arrived == *threads;
        if last {
            (state.arrived, state.round) = (0, round + 1);
            turn.notify_all();
        }
        while state.round == round && !state.broken {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let broken = state.broken;
        // Not while it is locked.
        drop(state);
        assert!(!broken, "another thread has panicked");
        last
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).broken = true;
            self.0.turn.notify_all();
        }
    }
}
