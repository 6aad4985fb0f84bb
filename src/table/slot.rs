//! One slot: a tag that says whose bucket it holds, and the bucket's word.

use core::fmt;

use crate::sync::{LINE_PAIRS, Ordering, Pair};
use crate::word::{Kind, Word, WordCell};

/// Slots in a line.
pub(super) const SLOTS: usize = LINE_PAIRS;

/// `[ version:21 | fingerprint:43 ]`. A fingerprint of 0 says that the slot never held a bucket.
///
/// The version changes whenever a slot changes hands, so that a tag read twice alike did not change in between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u64);

const FINGERPRINT_BITS: u32 = 43;
const FINGERPRINT_MASK: u64 = (1 << FINGERPRINT_BITS) - 1;

impl Tag {
    #[inline]
    pub(super) const fn is_of(self, fingerprint: Fingerprint) -> bool {
        (self.0 ^ fingerprint.0) & FINGERPRINT_MASK == 0
    }

    pub(super) const fn is_vacant(self) -> bool {
        self.0 & FINGERPRINT_MASK == 0
    }

    /// The next tag of this slot, for a bucket of that key. The version wraps around.
    const fn next(self, fingerprint: u64) -> Self {
        let version = (self.0 >> FINGERPRINT_BITS).wrapping_add(1);
        Self(version << FINGERPRINT_BITS | fingerprint)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, fingerprint) = (self.0 >> FINGERPRINT_BITS, self.0 & FINGERPRINT_MASK);
        write!(f, "Tag(version {version}, fingerprint {fingerprint:#x})")
    }
}

/// The part of a key's hash that tells it from others in its slots. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// Of the low bits; the high ones choose the lines.
    #[inline]
    pub(super) const fn of(hash: u64) -> Self {
        let bits = hash & FINGERPRINT_MASK;
        Self(if bits == 0 { 1 } else { bits })
    }
}

/// A slot of the table: a pair, and its number, which decides between two claims for one key: the lower one stands.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    pair: &'a Pair,
    pub(super) number: usize,
}

/// Whose slot a pair is.
#[inline]
pub(super) fn tag_of(pair: &Pair) -> Tag {
    // Acquire: the word read next is at least as new as the reservation that came before this tag. Partner: the store in `publish`.
    Tag(pair[0].load(Ordering::Acquire))
}

/// A pair's word.
#[inline]
pub(super) const fn word_of(pair: &Pair) -> WordCell<'_> {
    WordCell::new(&pair[1])
}

/// Whether a pair had `tag` when its word was last read, with acquire.
#[inline]
pub(super) fn still(pair: &Pair, tag: Tag) -> bool {
    // Relaxed: ordered behind the word by the word's acquire.
    pair[0].load(Ordering::Relaxed) == tag.0
}

impl<'a> Slot<'a> {
    #[inline]
    pub(super) const fn new(pair: &'a Pair, number: usize) -> Self {
        Self { pair, number }
    }

    #[inline]
    pub(super) fn word(self) -> WordCell<'a> {
        word_of(self.pair)
    }

    /// The number of its line.
    pub(super) const fn line(self) -> usize {
        self.number / SLOTS
    }

    /// Tag and word, together.
    pub(super) fn content(self) -> (Tag, Word) {
        loop {
            let tag = tag_of(self.pair);
            // Acquire: if this word is a later owner's, the tag read next is that owner's too. Partner: `publish`.
            let word = self.word().load(Ordering::Acquire);
            if still(self.pair, tag) {
                return (tag, word);
            }
        }
    }

    /// The word, if the slot is that key's.
    pub(super) fn word_of(self, fingerprint: Fingerprint) -> Option<Word> {
        let (tag, word) = self.content();
        tag.is_of(fingerprint).then_some(word)
    }

    /// Makes the slot the caller's alone, if its word is still `free`, and says what tag it had.
    pub(super) fn reserve(self, free: Word) -> Option<Tag> {
        // Acquire: the last owner's tag is there to be read, and to be followed by ours. Partner: `publish`.
        // Release: whoever finds the bucket gone finds the table's mark raised. Partners: the loads in `content`.
        self.word().exchange(free, Word::RESERVED, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(Tag(self.pair[0].load(Ordering::Relaxed)))
    }

    /// Hands a reserved slot to everyone, as a claim for a key.
    pub(super) fn publish(self, old: Tag, fingerprint: Fingerprint, claim: Word) {
        // Release: whoever sees the tag sees the reservation before it. Partner: `tag_of`.
        self.pair[0].store(old.next(fingerprint.0).0, Ordering::Release);
        // Release: whoever sees this word, or one that was exchanged for it, sees the tag. Partners:
        // `content`, `reserve`, and the loads in `Matches::charge` and `WordCell::charge`.
        self.word().store(claim, Ordering::Release);
    }

    /// Gives a reserved slot back as one that holds no bucket and no key.
    pub(super) fn vacate(self, old: Tag) {
        // As in `publish`.
        self.pair[0].store(old.next(0).0, Ordering::Release);
        self.word().store(Word::live(0), Ordering::Release);
    }

    /// Ends a claim. Fails if the claim does not stand any more.
    pub(super) fn drop_claim(self, claim: Word) -> bool {
        debug_assert_eq!(claim.kind(), Kind::Claimed);
        // Relaxed: nothing is read on the strength of it, and it leaves the owner's release sequence whole.
        self.word().exchange(claim, Word::DEAD, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
