//! Where a bucket goes: which slot is free, and what gives way when none is.

use super::geometry::View;
use super::slot::{Held, Slot};
use super::travel::Stuck;
use super::{Key, Ledger, Overflow, Table};
use crate::decision::Ask;
use crate::sync::{Ordering, PATIENCE, spin_loop};
use crate::ticks::NEVER;
use crate::word::Word;

/// What came of looking for a place.
pub(super) enum Place<'a> {
    /// This slot, the caller's alone.
    Reserved(Slot<'a>),
    /// Another thread was faster: look for the key again.
    Lost,
    /// There is none before a bucket is full that would owe so many ticks under the caller's quota.
    NoRoom { debt: u64 },
}

/// A slot with a bucket, and when that is full: nanoseconds from the origin.
#[derive(Clone, Copy)]
pub(super) struct Seat<'a> {
    slot: Slot<'a>,
    held: Held,
    full_at: u64,
}

impl<'a> Seat<'a> {
    pub(super) const fn new(slot: Slot<'a>, held: Held, full_at: u64) -> Self {
        Self { slot, held, full_at }
    }

    /// How long its bucket has been full, in nanoseconds; `None` if it owes.
    pub(super) const fn full_for(self, elapsed: u64) -> Option<u64> {
        if self.full_at == NEVER { None } else { elapsed.checked_sub(self.full_at) }
    }
}

/// Buckets that move, one to make room for the next, before a new key is said to find no room: at most 8 lines are looked at for the last
/// of one, 32 for the last of two.
const DISPLACEMENTS: usize = 2;

/// How many lines around that hold buckets are searched for one to give way, when the key's own lines have a free slot that may not be taken;
/// in a table of twice as many, all are.
const REACH: usize = 8;

/// How many are searched at most, with those that are empty: the sweep leaves runs of them.
const FAR: usize = 64;

/// The buckets of one line.
#[derive(Default)]
struct Survey<'a> {
    /// The one that has been full the longest.
    idle: Option<Seat<'a>>,
    /// The one that owes least: it is full soonest.
    owing: Option<Seat<'a>>,
}

impl Table {
    /// Finds a slot for a key that has none, or whose bucket is on its way, and reserves it.
    ///
    /// A free slot comes first, while there may be more taken ones: the key of a full bucket may well be back soon. Then a full bucket gives
    /// way. Then one that owes moves to its other line. And last, the one that owes least gives way. The work is bounded: two lines, the others
    /// that their buckets may have, at the cap [`REACH`] more, or [`FAR`] if these are empty.
    pub(super) fn place(&self, key: Key, view: &View, ask: &Ask, moving: bool, ledger: &impl Ledger) -> Place<'_> {
        for _ in 0..PATIENCE {
            if !self.still_holds(view, key) {
                return Place::Lost;
            }
            let free = self.free_slot(view);
            if let Some((slot, held)) = free.filter(|_| moving || self.take_room(self.max_keys)) {
                return self.move_in(slot, held, !moving);
            }

            let (mut idle, mut owing) = (None, None);
            for &line in view.now() {
                let survey = self.survey(line, ask.call.elapsed);
                idle = least([idle, survey.idle]);
                owing = least([owing, survey.owing]);
            }
            let seat = match (idle, free) {
                (None, Some(_)) => self.look_around(view, ask.call.elapsed, owing),
                (None, None) if self.make_room(view, ask.call.elapsed, ledger) => continue,
                _ => idle.or(owing),
            };
            // None: all of them are in transition.
            let Some(seat) = seat else {
                spin_loop();
                continue;
            };
            // Made by another thread since this one looked.
            if seat.held.is_of(key) {
                return Place::Lost;
            }
            let place = self.give_way(seat, ask, ledger);
            if moving && matches!(place, Place::Reserved(_)) {
                // The bucket that gave way was counted; the one on its way is.
                self.leave();
            }
            return match (place, free) {
                (Place::Reserved(slot), Some((free, held))) if !view.now().contains(&slot.line()) => {
                    slot.give_back();
                    self.move_in(free, held, !moving)
                }
                (place, _) => place,
            };
        }
        Place::NoRoom { debt: 0 }
    }

    /// Whether a new key would be denied for want of room, and if so, how many nanoseconds after the origin a bucket in the way is full.
    /// Reserves and moves nothing, and so hopes where one bucket might make room for another.
    pub(super) fn no_room(&self, key: Key, elapsed: u64) -> Option<u64> {
        if self.overflow != Overflow::DenyNew || self.taken() < self.max_keys {
            return None;
        }
        let view = self.view(key);
        let (mut idle, mut owing) = (None, None);
        for &line in view.now() {
            let survey = self.survey(line, elapsed);
            idle = least([idle, survey.idle]);
            owing = least([owing, survey.owing]);
        }
        let seat = if idle.is_none() && self.free_slot(&view).is_some() { self.look_around(&view, elapsed, owing) } else { idle.or(owing) };
        seat.filter(|seat| seat.full_for(elapsed).is_none()).map(|seat| seat.full_at)
    }

    /// A free slot in a key's lines: in the first, if it has one.
    fn free_slot(&self, view: &View) -> Option<(Slot<'_>, Held)> {
        view.now().iter().find_map(|&line| self.free_slot_in(line, view.turn()))
    }

    pub(super) fn free_slot_in(&self, line: usize, turn: u64) -> Option<(Slot<'_>, Held)> {
        self.slots(line).find_map(|slot| Some((slot, slot.free(turn)?)))
    }

    /// Looks at the buckets in a line.
    fn survey(&self, line: usize, elapsed: u64) -> Survey<'_> {
        let mut survey = Survey::default();
        for slot in self.slots(line) {
            let held = slot.content();
            let Some(tat) = held.word.tat() else { continue };
            // None: the bucket is gone, with its plan.
            let Some(terms) = self.plans.read(held.tag.plan()) else { continue };
            let seat = Seat::new(slot, held, terms.ticks.moment(tat));
            let kind = if seat.full_for(elapsed).is_none() { &mut survey.owing } else { &mut survey.idle };
            *kind = least([*kind, Some(seat)]);
        }
        survey
    }

    /// Counts one more slot as taken, if there are fewer than `most`.
    pub(super) fn take_room(&self, most: u64) -> bool {
        // Relaxed: a count, on which no other memory depends. Whoever passes `most` here takes it back, and nothing comes of it.
        if self.taken() >= most {
            return false;
        }
        let taken = self.taken.0.fetch_add(1, Ordering::Relaxed) < most;
        if !taken {
            self.leave();
        }
        taken
    }

    /// Reserves a free slot, which may be counted already.
    fn move_in<'a>(&self, slot: Slot<'a>, free: Held, counted: bool) -> Place<'a> {
        if slot.reserve(free) {
            return Place::Reserved(slot);
        }
        if counted {
            self.leave();
        }
        Place::Lost
    }

    /// Moves one of the buckets in these lines, which all owe, to the other line that it may have; and if none of those has a free slot, first
    /// one of theirs, and so on (cuckoo hashing, to a depth of [`DISPLACEMENTS`]).
    pub(super) fn make_room(&self, view: &View, elapsed: u64, ledger: &impl Ledger) -> bool {
        self.taken() < self.max_keys
            && (1..=DISPLACEMENTS).any(|depth| view.now().iter().any(|&line| self.make_room_in(line, depth, elapsed, ledger)))
    }

    fn make_room_in(&self, line: usize, depth: usize, elapsed: u64, ledger: &impl Ledger) -> bool {
        self.slots(line).any(|slot| {
            let held = slot.content();
            let view = self.view(held.tag.key());
            let Some(elsewhere) = view.now().iter().copied().find(|&other| other != line) else { return false };
            held.word.tat().is_some()
                && (depth == 1 || self.make_room_in(elsewhere, depth - 1, elapsed, ledger))
                && self.travel(slot, held, &view, &[elsewhere], elapsed, ledger) == Ok(())
        })
    }

    /// A full bucket in the lines behind a key's first, or else the one that owes least, there or among those already found.
    fn look_around<'a>(&'a self, view: &View, elapsed: u64, mut owing: Option<Seat<'a>>) -> Option<Seat<'a>> {
        let count = self.shape.load().lines();
        let mut looked_at = 0;
        for distance in 1..count.min(FAR) {
            if looked_at == REACH && count > 2 * REACH && owing.is_some() {
                break;
            }
            let survey = self.survey((view.now()[0] + distance) % count, elapsed);
            if survey.idle.is_some() {
                return survey.idle;
            }
            // An empty line does not tell whether any bucket is full.
            looked_at += usize::from(survey.owing.is_some());
            owing = least([owing, survey.owing]);
        }
        owing
    }

    /// Reserves the slot of a full bucket, or of one that owes, if the policy says so.
    fn give_way<'a>(&self, seat: Seat<'a>, ask: &Ask, ledger: &impl Ledger) -> Place<'a> {
        let Seat { slot, held, full_at } = seat;
        if seat.full_for(ask.call.elapsed).is_some() {
            return if self.drop_full(seat, Word::RESERVED, ledger) { Place::Reserved(slot) } else { Place::Lost };
        }
        if self.overflow == Overflow::DenyNew {
            return Place::NoRoom { debt: ask.ticks().at(full_at).saturating_sub(ask.now) };
        }
        if !slot.reserve(held) {
            return Place::Lost;
        }
        ledger.evicted_in_debt();
        Place::Reserved(slot)
    }

    /// Drops a bucket that is full, and leaves `instead`. Fails if it was charged since.
    pub(super) fn drop_full(&self, seat: Seat<'_>, instead: Word, ledger: &impl Ledger) -> bool {
        // Before it goes: whoever makes its key a new one must find it as full as this one was, and no fuller.
        // Relaxed, both: published by what follows. Partner: `Table::fresh`.
        if self.mark.0.load(Ordering::Relaxed) < seat.full_at {
            self.mark.0.fetch_max(seat.full_at, Ordering::Relaxed);
        }
        let dropped = seat.slot.take(seat.held, instead);
        if dropped {
            ledger.evicted_full();
        }
        dropped
    }

    /// A slot without a debt in one of these lines, for a bucket on its way: reserved, and not counted, since the bucket is.
    pub(super) fn seat_for(&self, lines: &[usize], turn: u64, elapsed: u64, ledger: &impl Ledger) -> Result<Slot<'_>, Stuck> {
        if let Some((slot, free)) = lines.iter().find_map(|&line| self.free_slot_in(line, turn)) {
            return if slot.reserve(free) { Ok(slot) } else { Err(Stuck::Changed) };
        }
        let Some(idle) = lines.iter().find_map(|&line| self.survey(line, elapsed).idle) else { return Err(Stuck::NoRoom) };
        if !self.drop_full(idle, Word::RESERVED, ledger) {
            return Err(Stuck::Changed);
        }
        self.leave();
        Ok(idle.slot)
    }
}

/// The seat whose bucket owes least, or has been full the longest.
fn least(seats: [Option<Seat<'_>>; 2]) -> Option<Seat<'_>> {
    seats.into_iter().flatten().min_by_key(|seat| seat.full_at)
}
