//! One slot: a tag that says whose bucket it holds, and the bucket's word.

use core::fmt;

use super::Key;
use crate::plans::Plan;
use crate::sync::{LINE_PAIRS, Ordering, Pair};
use crate::word::{Kind, Pad, Word, WordCell};

/// Slots in a line.
pub(super) const SLOTS: usize = LINE_PAIRS;

/// `[ plan:12 | key:52 ]`: whose bucket a slot holds, and the quota it is counted under. It says nothing where the word says that there is no
/// bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u64);

const KEY_MASK: u64 = (1 << Key::BITS) - 1;

impl Tag {
    #[inline]
    pub(super) const fn new(plan: Plan, key: Key) -> Self {
        Self((plan.number() as u64) << Key::BITS | key.0)
    }

    pub(super) const fn key(self) -> Key {
        Key(self.0 & KEY_MASK)
    }

    pub(super) fn plan(self) -> Plan {
        Plan::new((self.0 >> Key::BITS) as usize)
    }

    /// What the arrival time beside it is stored under.
    #[inline]
    pub(super) const fn pad(self) -> Pad {
        Pad::of(self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag(plan {}, key {:#x})", self.0 >> Key::BITS, self.0 & KEY_MASK)
    }
}

/// The tag of a pair.
#[inline]
pub(super) fn tag_of(pair: &Pair) -> Tag {
    // Acquire: the word read next is at least as new as the reservation that came before this tag; and a word read again after it, as the
    // word that came before. Partner: the store in `publish`.
    Tag(pair[0].load(Ordering::Acquire))
}

/// The word of a pair that has that tag.
#[inline]
pub(super) const fn word_of(pair: &Pair, tag: Tag) -> WordCell<'_> {
    WordCell::new(&pair[1], tag.pad())
}

/// A slot of the table: a pair, and its number, which decides between two claims for one key: the lower one stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a> {
    pair: &'a Pair,
    pub(super) number: usize,
}

/// What a slot held when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) tag: Tag,
    pub(super) word: Word,
}

impl Held {
    /// Whether it was that key's: a bucket, or one on its way.
    pub(super) fn is_of(self, key: Key) -> bool {
        self.tag.key() == key && matches!(self.word.kind(), Kind::Live(_) | Kind::Claimed | Kind::Moving(_))
    }
}

impl PartialEq for Slot<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<'a> Slot<'a> {
    pub(super) const fn new(pair: &'a Pair, number: usize) -> Self {
        Self { pair, number }
    }

    pub(super) const fn line(self) -> usize {
        self.number / SLOTS
    }

    pub(super) const fn word(self, tag: Tag) -> WordCell<'a> {
        word_of(self.pair, tag)
    }

    /// What the slot holds, if it has that key's tag.
    ///
    /// Whoever publishes a claim writes the tag first; so where the tag is another's, there is no claim or bucket of that key.
    #[inline]
    pub(super) fn held_for(self, key: Key) -> Option<Held> {
        if tag_of(self.pair).key() != key {
            return None;
        }
        Some(self.content()).filter(|held| held.is_of(key))
    }

    /// The word, if it says that there is nothing in the slot; together with any tag, since that means nothing then.
    #[inline]
    pub(super) fn free(self, turn: u64) -> Option<Held> {
        let tag = Tag(0);
        // Relaxed: what is there to be read is read after the slot is reserved.
        let word = self.word(tag).content(self.pair[1].load(Ordering::Relaxed));
        word.is_free(turn).then_some(Held { tag, word })
    }

    /// What the slot holds: a word, and the tag it goes with.
    ///
    /// Word, tag, word: where the word is the same before and after, the tag was its. A word is another tag's in between only if a bucket leaves
    /// the slot, another one comes and leaves, and the first comes back owing what it owed to the tick, all while this thread stands still
    /// between two loads: that is left to chance (docs/table-protocol.md).
    pub(super) fn content(self) -> Held {
        // Acquire: the tag read next is as new as the word, and a bucket found gone is found with the mark that was raised before it went.
        // Partners: `publish`, `take`.
        let stored = || self.pair[1].load(Ordering::Acquire);
        let mut before = stored();
        loop {
            let tag = tag_of(self.pair);
            let after = stored();
            if before == after {
                return Held { tag, word: self.word(tag).content(after) };
            }
            before = after;
        }
    }

    pub(super) fn tag(self) -> Tag {
        tag_of(self.pair)
    }

    /// Whatever is there: for a cache to fetch.
    pub(super) fn glance(self) -> u64 {
        // Relaxed: not looked at.
        self.pair[0].load(Ordering::Relaxed)
    }

    /// Writes what is there: the first access to a page had better be a write. A read would get the page of zeros that all share, and the write
    /// after it a page in its place, which every processor has to be told.
    pub(super) fn touch(self) {
        // Relaxed: changes nothing, and whether it was zero does not matter.
        let _ = self.pair[1].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the slot has that tag, where its word was read before, with acquire.
    pub(super) fn has(self, tag: Tag) -> bool {
        tag_of(self.pair) == tag
    }

    /// Whether the slot still holds that.
    pub(super) fn still(self, held: Held) -> bool {
        self.content() == held
    }

    /// Makes the slot the caller's alone, if it still holds what had been found there.
    pub(super) fn reserve(self, held: Held) -> bool {
        self.take(held, Word::RESERVED)
    }

    /// Ends what the slot held, and leaves `instead`. Fails if it does not hold that any more.
    pub(super) fn take(self, held: Held, instead: Word) -> bool {
        // Acquire: the last owner's tag comes before the next one's. Partner: `publish`.
        // Release: whoever finds the bucket gone finds the table's mark raised, and what a move says written. Partner: `content`.
        self.word(held.tag).exchange(held.word, instead, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Hands a reserved slot to everyone, as a claim.
    pub(super) fn publish(self, tag: Tag, claim: Word) {
        // Release: whoever sees the tag sees the reservation before it. Partner: `tag_of`.
        self.pair[0].store(tag.0, Ordering::Release);
        // Release: whoever sees this word, or one that was exchanged for it, sees the tag. Partners:
        // `content`, `take`, and the loads in `WordCell::charge`.
        self.word(tag).store(claim, Ordering::Release);
    }

    /// Gives a reserved slot back.
    pub(super) fn give_back(self) {
        // Release: whoever reserves it next comes after. Partner: `take`.
        self.word(Tag(0)).store(Word::DEAD, Ordering::Release);
    }
}
