//! Where a new bucket goes: which slot is free, and what gives way when none is.

use super::slot::{Content, SLOTS, Slot, Tag};
use super::{CHOICES, Key, Ledger, Overflow, Table};
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

/// The first line is preferred while it has fewer takers than this, and while the second has no fewer.
const ROOMY: usize = 2;

/// What the slots of one line hold.
#[derive(Default)]
struct Survey<'a> {
    /// Slots in debt or in transition.
    taken: usize,
    /// A slot that held a bucket and may hold another: dead, or full the longest.
    idle: Option<Seat<'a>>,
    /// A slot that never held a bucket.
    vacant: Option<Seat<'a>>,
    /// The bucket that owes least.
    owing: Option<Seat<'a>>,
}

impl Table {
    /// Finds a slot for a key that has none, and reserves it.
    ///
    /// A slot used before is better than a fresh one: it costs no memory. Past `max_keys` there are no fresh ones.
    pub(super) fn place(&self, key: &Key, ask: &Ask, ledger: &impl Ledger) -> Place<'_> {
        for _ in 0..PATIENCE {
            let surveys = key.lines.map(|line| self.survey(line, ask.now));
            let preferred = usize::from(surveys[0].taken >= ROOMY && surveys[1].taken < surveys[0].taken);
            let order: [&Survey<'_>; CHOICES] = [&surveys[preferred], &surveys[1 - preferred]];

            if let Some(roomy) = order.into_iter().find(|line| line.taken < SLOTS) {
                if let Some(idle) = roomy.idle {
                    return self.reuse(idle, ask, ledger);
                }
                if let Some(vacant) = roomy.vacant.filter(|_| self.occupy()) {
                    return self.move_in(vacant);
                }
            }
            // Past the cap, or with no free slot at all.
            if let Some(idle) = order.into_iter().find_map(|line| line.idle) {
                return self.reuse(idle, ask, ledger);
            }
            if let Some(owing) = least(order.into_iter().filter_map(|line| line.owing)) {
                return self.evict(owing, ask, ledger);
            }
            if let Some(vacant) = order.into_iter().find_map(|line| line.vacant) {
                match self.make_room(key, ask, ledger) {
                    Some(Place::Reserved(elsewhere, tag)) => {
                        elsewhere.vacate(tag);
                        return self.move_in(vacant);
                    }
                    Some(other) => return other,
                    None => {}
                }
            }
            // All there is, is in transition.
            spin_loop();
        }
        Place::NoRoom { debt: 0 }
    }

    fn survey(&self, line: usize, now: u64) -> Survey<'_> {
        let mut survey = Survey::default();
        for slot in self.line_slots(line) {
            let content @ Content { word, .. } = slot.content();
            let seat = Seat { slot, word };
            match word.kind() {
                Kind::Live(_) if content.is_vacant() => survey.vacant = survey.vacant.or(Some(seat)),
                Kind::Live(tat) if tat > now => {
                    survey.taken += 1;
                    survey.owing = least(survey.owing.into_iter().chain([seat]));
                }
                Kind::Live(_) | Kind::Dead => survey.idle = least(survey.idle.into_iter().chain([seat])),
                Kind::Claimed | Kind::Reserved => survey.taken += 1,
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
    fn reuse<'a>(&self, idle: Seat<'a>, ask: &Ask, ledger: &impl Ledger) -> Place<'a> {
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
    fn evict<'a>(&self, owing: Seat<'a>, ask: &Ask, ledger: &impl Ledger) -> Place<'a> {
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
    fn make_room(&self, key: &Key, ask: &Ask, ledger: &impl Ledger) -> Option<Place<'_>> {
        let count = self.lines.count();
        (1..count).map(|distance| (key.lines[0] + distance) % count).find_map(|line| {
            let survey = self.survey(line, ask.now);
            match (survey.idle, survey.owing) {
                (Some(idle), _) => Some(self.reuse(idle, ask, ledger)),
                (None, Some(owing)) => Some(self.evict(owing, ask, ledger)),
                (None, None) => None,
            }
        })
    }
}

/// The seat whose bucket owes least, or has been full the longest.
fn least<'a>(seats: impl IntoIterator<Item = Seat<'a>>) -> Option<Seat<'a>> {
    seats.into_iter().min_by_key(|seat| seat.word.tat())
}
