//! Where a new bucket goes: which slot is free, and what gives way when none is.

use super::slot::{SLOTS, Slot, Tag};
use super::{Key, Ledger, Overflow, Table};
use crate::decision::Ask;
use crate::sync::{Ordering, PATIENCE, spin_loop};
use crate::word::{Kind, Word};

/// What came of looking for a place.
pub(super) enum Place<'a> {
    /// This slot, the caller's alone, and the tag it had.
    Reserved(Slot<'a>, Tag),
    /// Another thread was faster: look for the key again.
    Lost,
    /// There is none before a bucket that owes so many ticks is full.
    NoRoom { debt: u64 },
}

/// A slot that holds no debt, or the debt that could give way.
#[derive(Clone, Copy)]
struct Seat<'a> {
    slot: Slot<'a>,
    tag: Tag,
    word: Word,
}

/// The first line is preferred while fewer of its slots than this are occupied, and while those of the second are no fewer: most buckets
/// are then found at the first look, and hardly any pair of lines fills up before the table does (docs/design.md has the figures).
const ROOMY: usize = SLOTS - 1;

/// How many lines around are searched for a bucket to give way, when the key's own lines have a vacant slot that may not be occupied.
const REACH: usize = 8;

/// How many are searched while nothing at all is found, as only a hash that leaves most lines empty can bring about.
const FAR: usize = 64;

/// What the slots of one line hold.
#[derive(Default)]
struct Survey<'a> {
    occupied: usize,
    /// A slot that never held a bucket.
    vacant: Option<Seat<'a>>,
    /// A slot that held a bucket and may hold another: dead, or full the longest.
    idle: Option<Seat<'a>>,
    /// The bucket that owes least.
    owing: Option<Seat<'a>>,
}

impl Table {
    /// Finds a slot for a key that has none, and reserves it.
    ///
    /// A vacant slot comes first, while there may be more occupied ones: the key of a full bucket may well be back soon. Then one without a
    /// debt, and last the one that owes least. The work is bounded: two lines, at the cap [`REACH`] more, or [`FAR`] if these are empty.
    pub(super) fn place(&self, key: Key, ask: &Ask<'_>, ledger: &impl Ledger) -> Place<'_> {
        for _ in 0..PATIENCE {
            let lines = self.lines(key);
            let [first, second] = lines.map(|line| self.survey(line, ask.now));
            let roomier = if first.occupied < ROOMY || first.occupied <= second.occupied { &first } else { &second };
            let vacant = roomier.vacant.or(second.vacant);
            if let Some(vacant) = vacant.filter(|_| self.occupy()) {
                return self.move_in(vacant);
            }

            let (idle, owing) = (least([first.idle, second.idle]), least([first.owing, second.owing]));
            let seat = match (idle, vacant) {
                (None, Some(_)) => self.look_around(lines[0], ask.now, owing),
                _ => idle.or(owing),
            };
            // None: all of them are in transition.
            let Some(seat) = seat else {
                spin_loop();
                continue;
            };
            let here = lines.contains(&seat.slot.line());
            // Made by another thread since this one looked. (Elsewhere, the same fingerprint is another key's.)
            if here && seat.word.tat().is_some() && seat.tag.is_of(key.fingerprint()) {
                return Place::Lost;
            }
            return match (self.give_way(seat, ask, ledger), vacant) {
                (Place::Reserved(slot, tag), Some(vacant)) if !here => {
                    slot.vacate(tag);
                    self.move_in(vacant)
                }
                (place, _) => place,
            };
        }
        Place::NoRoom { debt: 0 }
    }

    fn survey(&self, line: usize, now: u64) -> Survey<'_> {
        let mut survey = Survey { occupied: SLOTS, ..Survey::default() };
        for slot in self.slots(line) {
            let (tag, word) = slot.content();
            let seat = Some(Seat { slot, tag, word });
            match word.kind() {
                Kind::Live(_) if tag.is_vacant() => {
                    survey.occupied -= 1;
                    survey.vacant = survey.vacant.or(seat);
                }
                Kind::Live(tat) if tat > now => survey.owing = least([survey.owing, seat]),
                Kind::Live(_) | Kind::Dead => survey.idle = least([survey.idle, seat]),
                Kind::Claimed | Kind::Reserved => {}
            }
        }
        survey
    }

    /// Counts one more occupied slot, if there may be one.
    fn occupy(&self) -> bool {
        // Relaxed: a count, on which no other memory depends.
        self.occupied
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |occupied| (occupied < self.max_keys).then_some(occupied + 1))
            .is_ok()
    }

    /// Reserves a vacant slot that is already counted.
    fn move_in<'a>(&self, vacant: Seat<'a>) -> Place<'a> {
        if let Some(tag) = vacant.slot.reserve(vacant.word) {
            return Place::Reserved(vacant.slot, tag);
        }
        // Relaxed: as in `occupy`.
        self.occupied.fetch_sub(1, Ordering::Relaxed);
        Place::Lost
    }

    /// An idle seat in the lines behind `line`, or else the one that owes least, there or among those already found.
    fn look_around<'a>(&'a self, line: usize, now: u64, mut owing: Option<Seat<'a>>) -> Option<Seat<'a>> {
        let count = self.lines.count();
        for distance in 1..count.min(FAR) {
            if distance > REACH && owing.is_some() {
                break;
            }
            let survey = self.survey((line + distance) % count, now);
            if survey.idle.is_some() {
                return survey.idle;
            }
            owing = least([owing, survey.owing]);
        }
        owing
    }

    /// Reserves an occupied slot: one without a debt, or one with, if the policy says so.
    fn give_way<'a>(&self, seat: Seat<'a>, ask: &Ask<'_>, ledger: &impl Ledger) -> Place<'a> {
        let Seat { slot, word, .. } = seat;
        let tat = word.tat();
        let in_debt = tat > Some(ask.now);
        if in_debt && self.overflow == Overflow::DenyNew {
            return Place::NoRoom { debt: word.debt(ask.now) };
        }
        if let Some(full) = tat.filter(|_| !in_debt) {
            self.raise_mark(full);
        }
        let Some(tag) = slot.reserve(word) else { return Place::Lost };
        match tat {
            Some(_) if in_debt => ledger.evicted_in_debt(),
            Some(_) => ledger.evicted_full(),
            None => {}
        }
        Place::Reserved(slot, tag)
    }

    /// Before a full bucket goes: whoever makes its key a new one must find it as full as this one was, and no fuller.
    fn raise_mark(&self, tat: u64) {
        // Relaxed, both: published by the reservation that follows. Partner: `Table::fresh`.
        if self.mark.load(Ordering::Relaxed) < tat {
            self.mark.fetch_max(tat, Ordering::Relaxed);
        }
    }
}

/// The seat whose bucket owes least, or has been full the longest; a dead one before all.
fn least(seats: [Option<Seat<'_>>; 2]) -> Option<Seat<'_>> {
    seats.into_iter().flatten().min_by_key(|seat| seat.word.tat())
}
