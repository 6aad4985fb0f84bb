//! The table: buckets by hash, inline in cache lines, without a lock.
//!
//! A key's hash gives two candidate lines of four slots and a fingerprint. Its bucket is in at most one of those eight slots. Nothing is
//! chained and nothing moves, so no set of keys makes the check of a known key look further.
//!
//! `docs/table-protocol.md` has the whole argument. In short, a slot's word says what may be done with the slot:
//!
//! ```text
//!   live, full ──┐
//!   live, owing ─┤ (evicted)
//!   dead ────────┴─ reserve ─▶ reserved ── publish ─▶ claimed ── settle ─▶ live
//!    ▲                         (one thread)           (anyone)
//!    └───────────────────────── dropped ─────────────────┘
//! ```
//!
//! The tag changes only while the slot is reserved, by the one thread that reserved it.

mod place;
mod slot;

use core::fmt;

use crate::decision::{Answer, Ask, Reason};
use crate::sync::{AtomicU64, Line, Lines, Ordering, fence};
use crate::word::{Kind, Verdict, Word};

use place::Place;
use slot::{Fingerprint, SLOTS, Slot};

/// Candidate lines of a key.
const CHOICES: usize = 2;

/// Slots per key that the table is built for: at this load, eight candidates are almost always enough (docs/design.md has the figures).
const SLOTS_PER_KEY: usize = 2;

/// What to do with a new key when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// Evict the bucket that owes least among those that could make room, and count it. A flood of keys used once cannot wash away the debt
    /// of a key that is being limited: it owes more than they do.
    #[default]
    EvictLeastDebt,
    /// Deny the new key ([`Reason::NoRoom`]), until a bucket is full again. No debt is ever forgotten.
    DenyNew,
}

/// What a table tells about itself while it works, and asks for.
pub(crate) trait Ledger: Copy {
    /// A number that this table's claims have not had.
    fn stamp(&self) -> u64;
    /// A full bucket gave way.
    fn evicted_full(&self);
    /// A bucket that owed tokens gave way.
    fn evicted_in_debt(&self);
}

/// A key, as a table knows it: its hash says where its bucket can be, and how it is told from others there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(u64);

impl Key {
    #[inline]
    pub(crate) const fn new(hash: u64) -> Self {
        Self(hash)
    }

    #[inline]
    const fn fingerprint(self) -> Fingerprint {
        Fingerprint::of(self.0)
    }
}

pub(crate) struct Table {
    lines: Lines,
    overflow: Overflow,
    /// The most slots that may have held a bucket.
    max_keys: u64,
    /// Slots that have held a bucket: those whose tag is not vacant, and those reserved to become so.
    occupied: AtomicU64,
    /// Ticks: no bucket was dropped as full that was not full by then. A new bucket is full as of the mark, so that a call stamped earlier
    /// finds the debt that its key may have had, and no slot holds the same word again.
    mark: AtomicU64,
}

impl Table {
    /// A table for `max_keys` keys, at least 1; `None` if there is no memory for it.
    pub(crate) fn new(max_keys: usize, overflow: Overflow) -> Option<Self> {
        let lines = max_keys.checked_mul(SLOTS_PER_KEY)?.div_ceil(SLOTS).max(CHOICES);
        Some(Self {
            lines: Lines::zeroed(lines)?,
            overflow,
            max_keys: max_keys as u64,
            occupied: AtomicU64::new(0),
            mark: AtomicU64::new(0),
        })
    }

    /// Slots that hold a bucket, or did until it was full.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a count, at some moment.
        usize::try_from(self.occupied.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    pub(crate) fn max_keys(&self) -> usize {
        usize::try_from(self.max_keys).unwrap_or(usize::MAX)
    }

    /// Decides a call on a key's bucket, which is made if there is none.
    ///
    /// The first line is read before `ask` is called, since `ask` may read a clock: a time-stamp counter is not read before older
    /// instructions are done nor much ahead of younger ones, so the cache miss and the reading had better be under way together.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    pub(crate) fn check<'q>(&self, key: Key, ask: impl FnOnce() -> Ask<'q>, ledger: impl Ledger) -> (Ask<'q>, Answer) {
        let mut matches = self.matches(self.first_line(key), key);
        let ask = ask();
        loop {
            if let Some(answer) = matches.charge(key, &ask) {
                return (ask, answer);
            }
            if let Some(answer) = self.check_beyond(key, ask, ledger) {
                return (ask, answer);
            }
            matches = self.matches(self.first_line(key), key);
        }
    }

    /// The rarer cases of `check`, apart, so that the other stays small. `None`: start over.
    ///
    /// Takes all by value: a reference would have `check` keep in memory, on every call, what otherwise stays in registers.
    #[inline(never)]
    fn check_beyond(&self, key: Key, ask: Ask<'_>, ledger: impl Ledger) -> Option<Answer> {
        let (ask, ledger) = (&ask, &ledger);
        if let Some(answer) = self.matches(self.second_line(key), key).charge(key, ask) {
            return Some(answer);
        }
        let claim =
            self.candidates(key).find_map(|slot| Some((slot, slot.word_of(key.fingerprint())?)).filter(|(_, word)| word.is_claim()));
        match claim {
            Some((slot, claim)) => self.settle(key, slot, claim, ask),
            None => self.enter(key, ask, ledger),
        }
    }

    /// Reads the tags of a line and compares them with the key's fingerprint: all four before any branch, since none could predict which of
    /// them is the key's.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    fn matches(&self, line: usize, key: Key) -> Matches<'_> {
        let pairs = self.lines.line(line);
        let bits = pairs.iter().rev().fold(0, |bits, pair| bits << 1 | u32::from(slot::tag_of(pair).is_of(key.fingerprint())));
        Matches { pairs, bits }
    }

    /// The tick at which the key's bucket is full again, if it has one.
    pub(crate) fn peek(&self, key: Key) -> Option<u64> {
        self.candidates(key).find_map(|slot| slot.word_of(key.fingerprint())?.tat())
    }

    /// The tick at which a bucket made for a new key is full, if that is after `now`.
    pub(crate) fn fresh_after(&self, now: u64) -> Option<u64> {
        self.fresh().tat().filter(|&tat| tat > now)
    }

    #[inline]
    fn first_line(&self, key: Key) -> usize {
        scale(key.0, self.lines.count())
    }

    #[inline]
    fn second_line(&self, key: Key) -> usize {
        let count = self.lines.count();
        // Odd, so that it loses nothing; 2^64 divided by the golden ratio, so that it mixes well (Knuth, TAOCP 3, section 6.4).
        let second = scale(key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15), count);
        if second == self.first_line(key) { (second + 1) % count } else { second }
    }

    fn lines(&self, key: Key) -> [usize; CHOICES] {
        [self.first_line(key), self.second_line(key)]
    }

    #[inline]
    fn slots(&self, line: usize) -> impl Iterator<Item = Slot<'_>> {
        self.lines.line(line).iter().enumerate().map(move |(index, pair)| Slot::new(pair, line * SLOTS + index))
    }

    fn candidates(&self, key: Key) -> impl Iterator<Item = Slot<'_>> {
        self.lines(key).into_iter().flat_map(|line| self.slots(line))
    }

    /// Makes a bucket for a key that was not found, and decides the call on it. `None`: start over.
    #[cold]
    fn enter(&self, key: Key, ask: &Ask<'_>, ledger: &impl Ledger) -> Option<Answer> {
        if let Verdict::Final(answer) = self.fresh().decide(ask) {
            return Some(answer);
        }
        let (slot, old) = match self.place(key, ask, ledger) {
            Place::Reserved(slot, old) => (slot, old),
            Place::Lost => return None,
            Place::NoRoom { debt } => return Some(Answer::denied(debt, Reason::NoRoom)),
        };
        let claim = Word::claimed(ledger.stamp());
        slot.publish(old, key.fingerprint(), claim);
        self.settle(key, slot, claim, ask)
    }

    /// A new bucket: full as of the mark.
    fn fresh(&self) -> Word {
        // Relaxed: what must have raised the mark was read with acquire, or came before in the order of fences. See `settle`.
        Word::live(self.mark.load(Ordering::Relaxed))
    }

    /// Turns a claim into a bucket and decides the call on it, or drops the claim because the key has a bucket, or a better claim to one.
    /// Any thread that has the key may do it. `None`: start over.
    #[cold]
    fn settle(&self, key: Key, mine: Slot<'_>, claim: Word, ask: &Ask<'_>) -> Option<Answer> {
        // SeqCst: of two claims for one key, each published (or read) before this fence and looked for behind it, at least one is seen by the
        // other's settler. Partner: this fence, in that settler.
        fence(Ordering::SeqCst);
        for other in self.candidates(key).filter(|other| other.number != mine.number) {
            if !yields(key, other, mine) {
                mine.drop_claim(claim);
                return None;
            }
        }
        // Read only here: a bucket of this key that came and went while this thread stood still has raised the mark. It was found gone above
        // (acquire), or it would have found this claim and ended it.
        match self.fresh().decide(ask) {
            Verdict::Charge { debt, word } => {
                // Relaxed: the tag was published with the claim, and this exchange continues that release sequence.
                mine.word().exchange(claim, word, Ordering::Relaxed, Ordering::Relaxed).ok()?;
                Some(Answer::allowed(debt))
            }
            Verdict::Final(answer) => {
                mine.drop_claim(claim);
                Some(answer)
            }
        }
    }
}

/// Whether another candidate slot leaves the key to the claim in `mine`: it holds nothing of that key, or a claim that could be ended.
fn yields(key: Key, other: Slot<'_>, mine: Slot<'_>) -> bool {
    while let Some(word) = other.word_of(key.fingerprint()) {
        match word.kind() {
            Kind::Dead | Kind::Reserved => return true,
            Kind::Live(_) => return false,
            Kind::Claimed if other.number < mine.number => return false,
            // If it does not stand any more, it may have become a bucket: look again.
            Kind::Claimed if other.drop_claim(word) => return true,
            Kind::Claimed => {}
        }
    }
    true
}

/// The slots of a line whose tags have a key's fingerprint, or had it when they were read.
struct Matches<'a> {
    pairs: &'a Line,
    /// One for each slot.
    bits: u32,
}

impl Matches<'_> {
    /// Decides a call on the bucket that is in one of them, if it is.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    fn charge(&self, key: Key, ask: &Ask<'_>) -> Option<Answer> {
        let mut bits = self.bits;
        while bits != 0 {
            let slot = &self.pairs[bits.trailing_zeros() as usize % SLOTS];
            let tag = slot::tag_of(slot);
            let word = slot::word_of(slot);
            // Acquire: if this word is a later owner's, the tag read next is that owner's too. Partner: `Slot::publish`.
            let seen = word.load(Ordering::Acquire);
            if let Some(answer) = word.charge(seen, ask, || slot::still(slot, tag) && tag.is_of(key.fingerprint())) {
                return Some(answer);
            }
            bits &= bits - 1;
        }
        None
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len()).field("max_keys", &self.max_keys).finish_non_exhaustive()
    }
}

/// Maps a hash to `0..count`, evenly, by its high bits (Lemire, "Fast Random Integer Generation in an Interval", 2019).
#[inline]
fn scale(hash: u64, count: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below count")]
    let scaled = ((u128::from(hash) * count as u128) >> 64) as usize;
    scaled
}
