//! The shipped `sync` module's face, made of loom's types, and small enough to explore.

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// A few looks: whoever finds every slot in another thread's hands is told so, instead of waiting for it.
pub(crate) const PATIENCE: usize = 4;

/// Two moves at a time.
pub(crate) const MOVE_BITS: u32 = 1;

/// Tables here are made with as many lines as the model says.
pub(crate) const FEWEST_LINES: usize = 64;

pub(crate) const STEP_LINES: usize = 1;

pub(crate) type Record = [AtomicU64; 8];

pub(crate) fn records(count: usize) -> Option<Box<[Record]>> {
    // As many as the models use.
    Some((0..count.min(2)).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
}

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

    /// As if the operating system took the memory and gave other memory back, full of zeros: a word at a time, in no order.
    pub(crate) fn release(&self, lines: std::ops::Range<usize>) -> usize {
        for line in &self.0[lines.clone()] {
            for word in line.iter().flatten() {
                word.store(0, Ordering::Relaxed);
            }
        }
        lines.start
    }
}
