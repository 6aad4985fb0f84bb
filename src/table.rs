//! The table: buckets by hash, inline in cache lines, without a lock.
//!
//! A key's hash gives two candidate lines of four slots and a fingerprint. Its bucket is in at most one of those eight slots. Nothing is
//! chained and nothing moves, so no set of keys makes a check look further.
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

use crate::decision::{Allowed, Ask, Denied};
use crate::sync::{AtomicU64, Lines, Ordering, fence};
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
    /// Deny the new key ([`Reason::NoRoom`](crate::Reason::NoRoom)), until a bucket is full again. No debt is ever forgotten.
    DenyNew,
}

/// What a table tells about itself while it works, and asks for.
pub(crate) trait Ledger {
    /// A number that this table's claims have not had.
    fn stamp(&self) -> u64;
    /// A full bucket gave way.
    fn evicted_full(&self);
    /// A bucket that owed tokens gave way.
    fn evicted_in_debt(&self);
}

/// Where a key's bucket can be, and how it is told from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    fingerprint: Fingerprint,
    lines: [usize; CHOICES],
}

pub(crate) struct Table {
    lines: Lines,
    overflow: Overflow,
    /// The most slots that may have held a bucket.
    max_keys: u64,
    /// Slots that have held a bucket: those whose tag is not vacant, and those reserved to become so.
    occupied: AtomicU64,
    /// Ticks: no bucket was dropped as full that was not full by then. A new bucket is full as of the mark, so that a call stamped earlier
    /// finds the debt that its key may have had.
    mark: AtomicU64,
}

enum Found<'a> {
    Live(Slot<'a>, slot::Tag, Word),
    Claimed(Slot<'a>, Word),
    Nothing,
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

    /// The place of a key with this hash.
    #[inline]
    pub(crate) fn key(&self, hash: u64) -> Key {
        let count = self.lines.count();
        let first = scale(hash, count);
        // Odd, so that it loses nothing; 2^64 divided by the golden ratio, so that it mixes well (Knuth, TAOCP 3, section 6.4).
        let second = scale(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15), count);
        let second = if second != first {
            second
        } else if first + 1 < count {
            first + 1
        } else {
            0
        };
        Key { fingerprint: Fingerprint::of(hash), lines: [first, second] }
    }

    /// Decides a call on a key's bucket, which is made if there is none.
    #[inline]
    pub(crate) fn check(&self, key: &Key, ask: &Ask, ledger: &impl Ledger) -> Result<Allowed, Denied> {
        loop {
            let answer = match self.find(key) {
                Found::Live(slot, tag, word) => slot.word().charge(word, ask, || slot.still(tag)),
                Found::Claimed(slot, claim) => self.settle(key, slot, claim, ask),
                Found::Nothing => self.enter(key, ask, ledger),
            };
            if let Some(answer) = answer {
                return answer;
            }
        }
    }

    /// The tick at which the key's bucket is full again, if it has one.
    pub(crate) fn peek(&self, key: &Key) -> Option<u64> {
        match self.find(key) {
            Found::Live(_, _, word) => word.tat(),
            Found::Claimed(..) | Found::Nothing => None,
        }
    }

    #[inline]
    fn line_slots(&self, line: usize) -> impl Iterator<Item = Slot<'_>> {
        let words = self.lines.line(line);
        (0..SLOTS).map(move |index| Slot::of(words, line, index))
    }

    fn candidates(&self, key: &Key) -> impl Iterator<Item = Slot<'_>> {
        key.lines.into_iter().flat_map(|line| self.line_slots(line))
    }

    /// Looks for the key's bucket, or for a claim to one.
    #[inline]
    fn find(&self, key: &Key) -> Found<'_> {
        let mut claimed = Found::Nothing;
        for line in key.lines {
            for slot in self.line_slots(line) {
                let tag = slot.tag();
                if !tag.is_of(key.fingerprint) {
                    continue;
                }
                let Some(word) = slot.word_under(tag) else { continue };
                match word.kind() {
                    Kind::Live(_) => return Found::Live(slot, tag, word),
                    Kind::Claimed => claimed = Found::Claimed(slot, word),
                    Kind::Dead | Kind::Reserved => {}
                }
            }
        }
        claimed
    }

    /// Makes a bucket for a key that was not found, and decides the call on it. `None`: start over.
    #[cold]
    fn enter(&self, key: &Key, ask: &Ask, ledger: &impl Ledger) -> Option<Result<Allowed, Denied>> {
        if let Verdict::Answer(answer) = self.fresh().decide(ask) {
            return Some(answer);
        }
        let (slot, old) = match self.place(key, ask, ledger) {
            Place::Reserved(slot, old) => (slot, old),
            Place::Lost => return None,
            Place::NoRoom { debt } => return Some(Err(ask.no_room(debt))),
        };
        let claim = Word::claimed(ledger.stamp());
        slot.publish(old, key.fingerprint, claim);
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
    fn settle(&self, key: &Key, mine: Slot<'_>, claim: Word, ask: &Ask) -> Option<Result<Allowed, Denied>> {
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
            Verdict::Charge(charged) => {
                // Relaxed: the tag was published with the claim, and this exchange continues that release sequence.
                mine.word().exchange(claim, charged, Ordering::Relaxed, Ordering::Relaxed).ok()?;
                Some(Ok(ask.allowed(charged.debt(ask.now))))
            }
            Verdict::Answer(answer) => {
                mine.drop_claim(claim);
                Some(answer)
            }
        }
    }
}

/// Whether another candidate slot leaves the key to the claim in `mine`: it holds nothing of that key, or a claim that could be ended.
fn yields(key: &Key, other: Slot<'_>, mine: Slot<'_>) -> bool {
    loop {
        let content = other.content();
        if !content.tag.is_of(key.fingerprint) {
            return true;
        }
        match content.word.kind() {
            Kind::Dead | Kind::Reserved => return true,
            Kind::Live(_) => return false,
            Kind::Claimed if other.number < mine.number => return false,
            // If it does not stand any more, it may have become a bucket: look again.
            Kind::Claimed if other.drop_claim(content.word) => return true,
            Kind::Claimed => {}
        }
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
