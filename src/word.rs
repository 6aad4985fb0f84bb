//! One bucket in one word.
//!
//! A live word is the theoretical arrival time (TAT) of GCRA in ticks: the moment at which the bucket will be full again. Zero, and any time
//! that has passed, reads as full. The other kinds of word are the table's: a slot without a bucket, or with one that is on its way.

use core::fmt;

use crate::decision::{Act, Answer, Ask, Call, Reason};
use crate::sync::{AtomicU64, MOVE_BITS, Ordering};
use crate::ticks::{MAX_TICKS, Ticks};

/// `[ 0 | TAT:63 ]`, or `[ 1 | kind:3 | payload:60 ]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// A word, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A bucket, full again at this tick.
    Live(u64),
    /// A claim: a bucket being set up, that anyone who has its key may finish or end. No two claims bear the same stamp.
    Claimed,
    /// A bucket on its way to another slot: what it owes stands under this number among the table's moves. No two moves bear the same stamp.
    Moving(usize),
    /// No bucket, and whoever reserves the slot may have it: memory as it came.
    Vacant,
    /// The same, after a bucket.
    Dead,
    /// The same, except that the table shrank away from under the slot at this turn: free only once it has grown again.
    Closed(u64),
    /// No bucket, and one thread alone may change the slot.
    Reserved,
}

const NOT_LIVE: u64 = 1 << 63;
const KIND_SHIFT: u32 = 60;
const PAYLOAD_MASK: u64 = (1 << KIND_SHIFT) - 1;

const VACANT: u64 = NOT_LIVE;
const DEAD: u64 = NOT_LIVE | 1 << KIND_SHIFT;
const RESERVED: u64 = NOT_LIVE | 2 << KIND_SHIFT;
const CLAIMED: u64 = NOT_LIVE | 3 << KIND_SHIFT;
const MOVING: u64 = NOT_LIVE | 4 << KIND_SHIFT;
const CLOSED: u64 = NOT_LIVE | 5 << KIND_SHIFT;

/// As many moves can be under way at a time: the low bits of a move's payload are its number; the rest is its stamp.
pub(crate) const MOST_MOVES: usize = 1 << MOVE_BITS;

impl Word {
    /// Stored as zero: only [`WordCell::content`] tells it from a bucket.
    pub(crate) const VACANT: Self = Self(VACANT);
    pub(crate) const DEAD: Self = Self(DEAD);
    pub(crate) const RESERVED: Self = Self(RESERVED);

    /// A bucket that is full again at `tat`, at most [`MAX_TICKS`].
    #[inline]
    pub(crate) const fn live(tat: u64) -> Self {
        debug_assert!(tat <= MAX_TICKS);
        Self(tat)
    }

    /// A claim that is counted as a taken slot, or is not.
    pub(crate) const fn claimed(stamp: u64, counted: bool) -> Self {
        Self(CLAIMED | (stamp << 1 | counted as u64) & PAYLOAD_MASK)
    }

    /// Whether a claim is counted.
    pub(crate) const fn is_counted(self) -> bool {
        self.0 & 1 == 1
    }

    /// The move of that number, below [`MOST_MOVES`].
    pub(crate) const fn moving(stamp: u64, number: usize) -> Self {
        Self(MOVING | (stamp << MOVE_BITS | number as u64) & PAYLOAD_MASK)
    }

    pub(crate) const fn closed(turn: u64) -> Self {
        Self(CLOSED | turn & PAYLOAD_MASK)
    }

    #[inline]
    pub(crate) const fn kind(self) -> Kind {
        if self.0 < NOT_LIVE {
            return Kind::Live(self.0);
        }
        let payload = self.0 & PAYLOAD_MASK;
        match self.0 - payload {
            VACANT => Kind::Vacant,
            DEAD => Kind::Dead,
            RESERVED => Kind::Reserved,
            CLAIMED => Kind::Claimed,
            MOVING => Kind::Moving((payload % MOST_MOVES as u64) as usize),
            _ => Kind::Closed(payload),
        }
    }

    /// The tick at which the bucket is full again, if there is a bucket.
    #[inline]
    pub(crate) const fn tat(self) -> Option<u64> {
        if self.0 < NOT_LIVE { Some(self.0) } else { None }
    }

    /// Whether there is nothing in the slot, for who has seen the table at that turn.
    #[inline]
    pub(crate) const fn is_free(self, turn: u64) -> bool {
        match self.kind() {
            Kind::Vacant | Kind::Dead => true,
            Kind::Closed(since) => since < turn,
            _ => false,
        }
    }

    /// What a live bucket owes at tick `now`.
    #[inline]
    pub(crate) const fn debt(self, now: u64) -> u64 {
        self.0.saturating_sub(now)
    }

    /// A live word as it is stored under a pad.
    #[inline]
    pub(crate) const fn padded(self, pad: Pad) -> u64 {
        self.0 ^ pad.0
    }

    /// The live word that [`padded`](Self::padded) made this of.
    #[inline]
    pub(crate) const fn unpadded(stored: u64, pad: Pad) -> Self {
        Self::live(stored ^ pad.0)
    }

    /// Of two live words, the one that owes more.
    pub(crate) const fn or_later(self, other: Self) -> Self {
        if self.0 < other.0 { other } else { self }
    }

    /// The decision of GCRA on a live word. A booking is decided with a second tolerance: the burst, and what is refilled meanwhile.
    #[inline]
    pub(crate) const fn decide(self, ask: &Ask) -> Verdict {
        let debt = self.debt(ask.now);
        if ask.call.n == 0 {
            return Verdict::Final(Answer::allowed(debt));
        }
        if let Act::Charge | Act::GiveBack = ask.call.act {
            return self.settle(ask);
        }
        let Some(cost) = ask.cost else {
            return Verdict::Final(Answer::denied(debt, Reason::OverBurst));
        };
        // No overflow: a cost is at most the span, which is at most `most`, and that at most `MAX_TICKS - now`.
        if debt > ask.most() - cost {
            return Verdict::Final(Answer::denied(debt, Reason::OverQuota));
        }
        Self::owing(debt + cost, ask.now)
    }

    /// What a call would be told.
    pub(crate) const fn look(self, ticks: Ticks, call: Call) -> (Ask, Answer) {
        let ask = Ask::new(ticks, call);
        (ask, self.decide(&ask).answer())
    }

    /// The decision on tokens that were used, or not used.
    #[inline(never)]
    const fn settle(self, ask: &Ask) -> Verdict {
        let debt = self.debt(ask.now);
        match ask.call.act {
            // Who gives back to a full bucket lifts it no further: what was taken has been refilled.
            Act::GiveBack if debt == 0 => Verdict::Final(Answer::allowed(0)),
            Act::GiveBack => Self::owing(debt.saturating_sub(ask.price()), ask.now),
            _ => {
                let (owed, most) = (debt.saturating_add(ask.price()), MAX_TICKS - ask.now);
                Self::owing(if owed < most { owed } else { most }, ask.now)
            }
        }
    }

    const fn owing(debt: u64, now: u64) -> Verdict {
        Verdict::Change { debt, word: Self::live(now + debt) }
    }
}

/// What becomes of a call.
pub(crate) enum Verdict {
    /// Nothing changes.
    Final(Answer),
    /// It is allowed, once this word has replaced the other; then this is owed.
    Change { debt: u64, word: Word },
}

impl Verdict {
    /// What the caller is told.
    const fn answer(&self) -> Answer {
        match *self {
            Self::Final(answer) => answer,
            Self::Change { debt, .. } => Answer::allowed(debt),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            kind @ (Kind::Claimed | Kind::Moving(_)) => write!(f, "{kind:?} {:#x}", self.0 & PAYLOAD_MASK),
            kind => kind.fmt(f),
        }
    }
}

/// What a bucket's arrival time is stored under: an exclusive or with 63 bits that are another bucket's only by chance.
///
/// A thread that read a bucket's word and stood still may find the slot another's when it comes to exchange the word. Arrival times alone often
/// agree, because clocks tick; under their pads they agree for one pair of words in 2<sup>63</sup>, and so the exchange fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pad(u64);

impl Pad {
    /// The pad that goes with a number: two numbers have the same one by chance only.
    #[inline]
    pub(crate) const fn of(number: u64) -> Self {
        // An odd factor loses nothing, and carries the low bits up; the shift brings bit 63 to zero.
        Self(number.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 1)
    }

    /// For a place where threads share it.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// A pad of these bits. Where words have no kinds, it may have all 64.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A word that threads share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordCell<'a> {
    word: &'a AtomicU64,
    pad: Pad,
}

impl<'a> WordCell<'a> {
    #[inline]
    pub(crate) const fn new(word: &'a AtomicU64, pad: Pad) -> Self {
        Self { word, pad }
    }

    #[inline]
    const fn read(self, stored: u64) -> Word {
        Word(if stored < NOT_LIVE { stored ^ self.pad.0 } else { stored })
    }

    #[inline]
    const fn stored(self, word: Word) -> u64 {
        match word.0 {
            VACANT => 0,
            tat if tat < NOT_LIVE => tat ^ self.pad.0,
            other => other,
        }
    }

    /// What a stored word says in a slot that may be vacant.
    pub(crate) const fn content(self, stored: u64) -> Word {
        if stored == 0 { Word::VACANT } else { self.read(stored) }
    }

    #[inline]
    pub(crate) fn store(self, word: Word, ordering: Ordering) {
        self.word.store(self.stored(word), ordering);
    }

    /// Puts `new` in the place of `old`; on failure, what is there instead.
    #[inline]
    pub(crate) fn exchange(self, old: Word, new: Word, success: Ordering, failure: Ordering) -> Result<(), Word> {
        self.word.compare_exchange(self.stored(old), self.stored(new), success, failure).map(|_| ()).map_err(|stored| self.read(stored))
    }

    /// What [`charge`](Self::charge) would answer. Writes nothing.
    #[inline]
    pub(crate) fn look(self, ask: &Ask, stands: impl Fn() -> bool) -> Option<Answer> {
        // Acquire, both, and twice: as in `charge`, where it denies.
        let mut stored = self.word.load(Ordering::Acquire);
        while stored < NOT_LIVE && stands() {
            let again = self.word.load(Ordering::Acquire);
            if again == stored {
                return Some(Word(stored ^ self.pad.0).decide(ask).answer());
            }
            stored = again;
        }
        None
    }

    /// Decides on the bucket whose word is here, and changes it, for as long as `stands` says, of a word just read, that it is that bucket's.
    /// `None`: it is not, or there is none here any more.
    ///
    /// A denial writes nothing. Lock-free: an exchange is lost only to another thread's success.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    pub(crate) fn charge(self, ask: &Ask, stands: impl Fn() -> bool) -> Option<Answer> {
        // Acquire: `stands` must see the tag that goes with this word, or a later one. Partner: `Slot::publish`.
        let mut stored = self.word.load(Ordering::Acquire);
        while stored < NOT_LIVE && stands() {
            let seen = Word(stored ^ self.pad.0);
            match seen.decide(ask) {
                Verdict::Change { debt, word } => {
                    // Relaxed: the word is all the data there is, and its own modification order decides. As a read-modify-write it leaves
                    // the release sequence of the slot's owner whole (see `Slot::publish`).
                    // Acquire on failure: as above.
                    match self.word.compare_exchange(stored, word.0 ^ self.pad.0, Ordering::Relaxed, Ordering::Acquire) {
                        Ok(_) => return Some(Answer::allowed(debt)),
                        Err(now) => stored = now,
                    }
                }
                Verdict::Final(answer) => {
                    // No exchange shows that word and tag belong together. But under this pad a word is this tag's: if it stands again or
                    // still, the bucket owes now what was decided on. Acquire: as above.
                    let again = self.word.load(Ordering::Acquire);
                    if again == stored {
                        return Some(answer);
                    }
                    stored = again;
                }
            }
        }
        None
    }
}
