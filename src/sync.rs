//! Where atomics come from, and memory full of them.
//!
//! The model checker's package has a module of the same name and face, made of loom's types: nothing above this floor can tell.

pub(crate) use core::hint::spin_loop;
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};

/// How often to look again at slots that are all in other threads' hands for the moment. Each is in hand for a few instructions.
pub(crate) const PATIENCE: usize = 1_000;

/// Words in a [`Line`].
pub(crate) const LINE_WORDS: usize = 8;

/// One 64-byte cache line of atomic words.
pub(crate) type Line = [AtomicU64; LINE_WORDS];

const LINE_BYTES: usize = 64;
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// Cache lines of zeroed words, in pages that the operating system does not hand out before they are written.
///
/// The allocator zeroes by itself what it must align by more than a word, and so would touch every page. So the words are aligned as words,
/// one line more than asked for, and the lines start at the first boundary.
pub(crate) struct Lines {
    words: Box<[AtomicU64]>,
    /// Words before the first boundary.
    skip: usize,
    count: usize,
}

impl Lines {
    /// `count` lines of zeros; `None` if there is no memory for them.
    pub(crate) fn zeroed(count: usize) -> Option<Self> {
        let words = count.checked_add(1)?.checked_mul(LINE_WORDS)?;
        let words: Box<[AtomicU64]> = bytemuck::allocation::try_zeroed_slice_box(words).ok()?;
        let skip = words.as_ptr().align_offset(LINE_BYTES);
        // `align_offset` may decline; then the lines straddle, and all is slower but right.
        let skip = if skip < LINE_WORDS { skip } else { 0 };
        Some(Self { words, skip, count })
    }

    /// # Panics
    /// If there are not so many lines.
    #[inline]
    pub(crate) fn line(&self, index: usize) -> &Line {
        let words = &self.words[self.skip + index * LINE_WORDS..];
        words.first_chunk().expect("one line more was allocated than there are")
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}
