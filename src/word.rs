//! One bucket in one word.
//!
//! A live word is the theoretical arrival time (TAT) of GCRA in ticks: the moment at which the bucket will be full again. Zero, and any time
//! that has passed, reads as full. The other kinds of word are the table's: a slot without a bucket, or with one that is being set up.

use core::fmt;

use crate::decision::{Answer, Ask, Reason};
use crate::sync::{AtomicU64, Ordering};
use crate::ticks::MAX_TICKS;

/// `[ 0 | TAT:63 ]`, or `[ 1 | kind:2 | stamp:61 ]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// A word, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A bucket, full again at this tick.
    Live(u64),
    /// A claim: a bucket being set up, that anyone who has its key may finish or end. No two claims bear the same stamp.
    Claimed,
    /// No bucket, and whoever reserves the slot may have it.
    Dead,
    /// No bucket, and one thread alone may change the slot.
    Reserved,
}

const NOT_LIVE: u64 = 1 << 63;
const KIND_SHIFT: u32 = 61;
const DEAD: u64 = NOT_LIVE;
const RESERVED: u64 = NOT_LIVE | 1 << KIND_SHIFT;
const CLAIMED: u64 = NOT_LIVE | 2 << KIND_SHIFT;
const STAMP_MASK: u64 = (1 << KIND_SHIFT) - 1;

impl Word {
    pub(crate) const DEAD: Self = Self(DEAD);
    pub(crate) const RESERVED: Self = Self(RESERVED);

    /// A bucket that is full again at `tat`, at most [`MAX_TICKS`].
    #[inline]
    pub(crate) const fn live(tat: u64) -> Self {
        debug_assert!(tat <= MAX_TICKS);
        Self(tat)
    }

    pub(crate) const fn claimed(stamp: u64) -> Self {
        Self(CLAIMED | stamp & STAMP_MASK)
    }

    #[inline]
    pub(crate) const fn kind(self) -> Kind {
        match self.0 {
            tat if tat < NOT_LIVE => Kind::Live(tat),
            DEAD => Kind::Dead,
            RESERVED => Kind::Reserved,
            _ => Kind::Claimed,
        }
    }

    /// The tick at which the bucket is full again, if there is a bucket.
    #[inline]
    pub(crate) const fn tat(self) -> Option<u64> {
        if self.0 < NOT_LIVE { Some(self.0) } else { None }
    }

    pub(crate) const fn is_claim(self) -> bool {
        matches!(self.kind(), Kind::Claimed)
    }

    /// What a live bucket owes at tick `now`.
    #[inline]
    pub(crate) const fn debt(self, now: u64) -> u64 {
        self.0.saturating_sub(now)
    }

    /// The decision of GCRA on a live word.
    #[inline]
    pub(crate) const fn decide(self, ask: &Ask<'_>) -> Verdict {
        let debt = self.debt(ask.now);
        if ask.n == 0 {
            return Verdict::Final(Answer::allowed(debt));
        }
        let Some(cost) = ask.cost else {
            return Verdict::Final(Answer::denied(debt, Reason::OverBurst));
        };
        // No overflow: a cost is at most the span, and `now` at most `MAX_TICKS - span`.
        if debt > ask.span() - cost {
            return Verdict::Final(Answer::denied(debt, Reason::OverQuota));
        }
        Verdict::Charge { debt: debt + cost, word: Self::live(ask.now + debt + cost) }
    }
}

/// What becomes of a call.
pub(crate) enum Verdict {
    /// Nothing changes.
    Final(Answer),
    /// It is allowed, once this word has replaced the other; then this is owed.
    Charge { debt: u64, word: Word },
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Kind::Claimed => write!(f, "Claimed({})", self.0 & STAMP_MASK),
            kind => kind.fmt(f),
        }
    }
}

/// A word that threads share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordCell<'a>(&'a AtomicU64);

impl<'a> WordCell<'a> {
    #[inline]
    pub(crate) const fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) fn load(self, ordering: Ordering) -> Word {
        Word(self.0.load(ordering))
    }

    #[inline]
    pub(crate) fn store(self, word: Word, ordering: Ordering) {
        self.0.store(word.0, ordering);
    }

    /// Puts `new` in the place of `old`; on failure, what is there instead.
    #[inline]
    pub(crate) fn exchange(self, old: Word, new: Word, success: Ordering, failure: Ordering) -> Result<(), Word> {
        self.0.compare_exchange(old.0, new.0, success, failure).map(|_| ()).map_err(Word)
    }

    /// Decides on the bucket whose word was just `seen`, and charges it, for as long as `stands` says that it is still the same bucket.
    /// `None`: it is not, or there is none here any more.
    ///
    /// A denial writes nothing. Lock-free: an exchange is lost only to another thread's success.
    #[inline]
    pub(crate) fn charge(self, mut seen: Word, ask: &Ask<'_>, stands: impl Fn() -> bool) -> Option<Answer> {
        while seen.tat().is_some() && stands() {
            let (debt, charged) = match seen.decide(ask) {
                Verdict::Charge { debt, word } => (debt, word),
                Verdict::Final(answer) => return Some(answer),
            };
            // Relaxed: the word is all the data there is, and its own modification order decides. As a read-modify-write it leaves the
            // release sequence of the slot's owner whole (see `Slot::publish`).
            // Acquire on failure: `stands` must see the tag that goes with the word now seen. Partner: `Slot::publish`.
            match self.exchange(seen, charged, Ordering::Relaxed, Ordering::Acquire) {
                Ok(()) => return Some(Answer::allowed(debt)),
                Err(now) => seen = now,
            }
        }
        None
    }
}
