//! Where atomics come from, and memory full of them.
//!
//! The model checker's package has a module of the same name and face, made of loom's types: nothing above this floor can tell.

mod pages;

use core::ops::Range;

pub(crate) use core::hint::spin_loop;
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};

/// How often to look again at slots that are all in other threads' hands for the moment. Each is in hand for a few instructions.
pub(crate) const PATIENCE: usize = 1_000;

/// Bits that number the moves under way: 16 at a time. A thread has one at most, for less than a microsecond unless it is suspended.
pub(crate) const MOVE_BITS: u32 = 4;

/// Two words side by side.
pub(crate) type Pair = [AtomicU64; 2];

/// Pairs in a [`Line`].
pub(crate) const LINE_PAIRS: usize = 4;

/// The fewest lines of a table: 4 KiB, a page.
pub(crate) const FEWEST_LINES: usize = 64;

/// Lines that a table grows or shrinks by at a time: a power of two, and no more than the fewest lines of any table.
pub(crate) const STEP_LINES: usize = 8;

/// Eight words that belong together.
pub(crate) type Record = [AtomicU64; 8];

/// So many records of zeros; `None` if there is no memory for them.
pub(crate) fn records(count: usize) -> Option<Box<[Record]>> {
    bytemuck::allocation::try_zeroed_slice_box(count).ok()
}

/// One 64-byte cache line of atomic words.
pub(crate) type Line = [Pair; LINE_PAIRS];

const LINE_BYTES: usize = 64;
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// Cache lines of zeroed words, in pages that the operating system does not hand out before they are written.
///
/// The allocator zeroes by itself what it must align by more than two words, and so would touch every page. So the pairs are allocated as
/// they come, one line more than asked for, and the lines start at the first boundary.
pub(crate) struct Lines {
    pairs: Box<[Pair]>,
    /// Pairs before the first boundary.
    skip: usize,
    count: usize,
}

impl Lines {
    /// `count` lines of zeros; `None` if there is no memory for them.
    pub(crate) fn zeroed(count: usize) -> Option<Self> {
        let pairs = count.checked_add(1)?.checked_mul(LINE_PAIRS)?;
        let pairs: Box<[Pair]> = bytemuck::allocation::try_zeroed_slice_box(pairs).ok()?;
        // Where pairs are not on boundaries of their own size, `align_offset` declines; then lines straddle, and all is slower but right.
        let skip = pairs.as_ptr().align_offset(LINE_BYTES);
        let skip = if skip < LINE_PAIRS { skip } else { 0 };
        Some(Self { pairs, skip, count })
    }

    /// # Panics
    /// If it is beyond the last line and the one more that was allocated.
    #[inline]
    pub(crate) fn line(&self, index: usize) -> &Line {
        &self.pairs[self.skip..].as_chunks().0[index]
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Gives the memory of whole pages within these lines back to the operating system, where that is known how, and says from which line on.
    /// They then hold zeros again, as at first, and whoever reads or writes one gets a new page. The other lines stay as they are.
    ///
    /// The caller sees to it that nothing in these lines is worth keeping.
    pub(crate) fn release(&self, lines: Range<usize>) -> usize {
        let pairs = &self.pairs[self.skip + lines.start * LINE_PAIRS..self.skip + lines.end * LINE_PAIRS];
        match pages::release(pairs) {
            Some(skipped) => lines.start + skipped.div_ceil(LINE_BYTES),
            None => lines.end,
        }
    }
}
