//! The shipped `sync` module's face, made of loom's types, and small enough to explore.

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// One look: whoever finds every slot in another thread's hands is told so, instead of waiting for it.
pub(crate) const PATIENCE: usize = 1;

pub(crate) type Pair = [AtomicU64; 2];

/// One slot a line, so that a key has two candidates.
pub(crate) const LINE_PAIRS: usize = 1;

pub(crate) type Line = [Pair; LINE_PAIRS];

pub(crate) struct Lines(Vec<Line>);

impl Lines {
    pub(crate) fn zeroed(count: usize) -> Option<Self> {
        Some(Self((0..count).map(|_| [[AtomicU64::new(0), AtomicU64::new(0)]]).collect()))
    }

    pub(crate) fn line(&self, index: usize) -> &Line {
        &self.0[index]
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
