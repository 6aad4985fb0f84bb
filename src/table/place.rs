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
    word: Word,
}

/// The first line is preferred while fewer of its slots than this are occupied, and while those of the second are no fewer.
const ROOMY: usize = 3;

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
    /// A vacant slot comes first, as long as there may be more of them: the key of a full bucket may well be back soon.
    pub(super) fn place(&self, key: Key, ask: &Ask<'_>, ledger: &impl Ledger) -> Place<'_> {
        for _ in 0..PATIENCE {
            let [first, second] = self.lines(key).map(|line| self.survey(line, ask.now));
            let vacant = if first.occupied < ROOMY || first.occupied <= second.occupied { first.vacant } else { second.vacant };

            if let Some(vacant) = vacant.filter(|_| self.occupy()) {
                return self.move_in(vacant);
            }
            if let Some(idle) = least([first.idle, second.idle]) {
                return self.reuse(idle, ask, ledger);
            }
            if let Some(owing) = least([first.owing, second.owing]) {
                return self.evict(owing, ask, ledger);
            }
            if let (Some(vacant), Some(place)) = (first.vacant.or(second.vacant), self.make_room(key, ask, ledger)) {
                let Place::Reserved(elsewhere, tag) = place else { return place };
                elsewhere.vacate(tag);
                return self.move_in(vacant);
            }
            // All there is, is in transition.
            spin_loop();
        }
        Place::NoRoom { debt: 0 }
    }

    fn survey(&self, line: usize, now: u64) -> Survey<'_> {
        let mut survey = Survey { occupied: SLOTS, ..Survey::default() };
        for slot in self.slots(line) {
            let (tag, word) = slot.content();
            let seat = Some(Seat { slot, word });
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

    /// Reserves a slot that is dead, or whose bucket is full at `ask.now`.
    fn reuse<'a>(&self, idle: Seat<'a>, ask: &Ask<'_>, ledger: &impl Ledger) -> Place<'a> {
        let Some(tat) = idle.word.tat() else {
            return idle.slot.reserve(idle.word).map_or(Place::Lost, |tag| Place::Reserved(idle.slot, tag));
        };
        debug_assert!(tat <= ask.now);
        self.raise_mark(tat);
        match idle.slot.reserve(idle.word) {
            Some(tag) => {
                ledger.evicted_full();
                Place::Reserved(idle.slot, tag)
            }
            None => Place::Lost,
        }
    }

    /// Before a full bucket goes: whoever makes its key a new one must find it as full as this one was, and no fuller.
    fn raise_mark(&self, tat: u64) {
        // Relaxed, both: published by the reservation that follows. Partner: `Table::fresh`.
        if self.mark.load(Ordering::Relaxed) < tat {
            self.mark.fetch_max(tat, Ordering::Relaxed);
        }
    }

    /// Reserves the slot of a bucket in debt, if the policy says so.
    fn evict<'a>(&self, owing: Seat<'a>, ask: &Ask<'_>, ledger: &impl Ledger) -> Place<'a> {
        if self.overflow == Overflow::DenyNew {
            return Place::NoRoom { debt: owing.word.debt(ask.now) };
        }
        match owing.slot.reserve(owing.word) {
            Some(tag) => {
                ledger.evicted_in_debt();
                Place::Reserved(owing.slot, tag)
            }
            None => Place::Lost,
        }
    }

    /// Reserves an occupied slot of some other line, nearest first. `None`: all occupied slots are in transition.
    fn make_room(&self, key: Key, ask: &Ask<'_>, ledger: &impl Ledger) -> Option<Place<'_>> {
        let count = self.lines.count();
        (1..count).map(|distance| (self.first_line(key) + distance) % count).find_map(|line| {
            let survey = self.survey(line, ask.now);
            match (survey.idle, survey.owing) {
                (Some(idle), _) => Some(self.reuse(idle, ask, ledger)),
                (None, Some(owing)) => Some(self.evict(owing, ask, ledger)),
                (None, None) => None,
            }
        })
    }
}

/// The seat whose bucket owes least, or has been full the longest; a dead one before all.
fn least(seats: [Option<Seat<'_>>; 2]) -> Option<Seat<'_>> {
    seats.into_iter().flatten().min_by_key(|seat| seat.word.tat())
}
