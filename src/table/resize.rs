//! Growing and shrinking, by a few lines at a time, in the course of ordinary calls.
//!
//! A step adds the lines after the last, or takes the last ones away, and moves the buckets that belong elsewhere then: of as many lines. Anyone
//! can take a step up, or finish it. No call waits for one: until it is done, buckets are looked for in both places.

use core::hint::black_box;

use super::geometry::{Geometry, Phase};
use super::place::Seat;
use super::slot::{SLOTS, Slot};
use super::{FILL, Ledger, Table};
use crate::sync::{Ordering, PATIENCE, STEP_LINES, fence};
use crate::word::{Kind, Word};

/// A step that another thread has begun is left to it while no more than one in so many slots is taken beyond [`FILL`].
const SLACK: u64 = 16;

/// How long a bucket has been full before it is dropped in passing, and how long the table rests after each round of that: ten seconds. Whoever
/// is back sooner finds its bucket; dropping it later costs memory, sooner a new bucket each time.
const REST_NS: u64 = 10_000_000_000;

/// Lines that are looked at in passing, each time.
const TENDED_LINES: usize = 4;

/// The table shrinks in passing while it could be half as large.
const SPARSE: u64 = 2;

/// Memory goes back when so many lines are not in use, 64 KiB, and as many as are in use.
const SPARE_LINES: usize = 1 << 10;

impl Table {
    /// How many slots may be taken before a table of so many lines grows.
    const fn room(lines: usize) -> u64 {
        (lines * SLOTS) as u64 * FILL.0 / FILL.1
    }

    pub(super) fn taken(&self) -> u64 {
        // Relaxed: a count, at some moment.
        self.taken.0.load(Ordering::Relaxed)
    }

    /// After a new key: adds lines if the table has become too full. One step makes room for many keys.
    pub(super) fn grow_if_crowded(&self, elapsed: u64, ledger: &impl Ledger) {
        let (now, taken) = (self.shape.load(), self.taken());
        let room = Self::room(now.lines());
        if taken <= room {
            return;
        }
        match now.phase() {
            Phase::Moving if now.grows() && taken <= room + room / SLACK => {}
            Phase::Moving if now.grows() => _ = self.help(now, elapsed, ledger),
            // Also lines that are being taken away: they are wanted again.
            Phase::Settled | Phase::Moving => self.grow(now, elapsed, ledger),
            Phase::Releasing => {}
        }
    }

    /// Adds lines, or takes back those that are being taken away.
    fn grow(&self, now: Geometry, elapsed: u64, ledger: &impl Ledger) {
        let next = now.growing();
        if next.lines() > self.lines.count() {
            return;
        }
        for line in [now.lines(), next.lines() - 1] {
            self.slots(line).for_each(Slot::touch);
        }
        if self.shape.advance(now, next) {
            // Relaxed: see `release`.
            self.counts.reached.fetch_max(next.lines() as u64, Ordering::Relaxed);
            ledger.grown();
            self.help(next, elapsed, ledger);
        }
    }

    /// Takes the last lines away, if all their buckets can go elsewhere.
    fn reduce(&self, now: Geometry, elapsed: u64, ledger: &impl Ledger) -> bool {
        let next = now.shrinking();
        if !self.shape.advance(now, next) {
            return false;
        }
        ledger.shrunk();
        let done = self.help(next, elapsed, ledger);
        if !done {
            // Some bucket has nowhere else to go. The lines are taken back, so that the table settles.
            self.grow(next, elapsed, ledger);
        }
        done
    }

    /// Does what is left to do of a step. False if not all buckets could be moved; then the next one that comes by will try.
    fn help(&self, step: Geometry, elapsed: u64, ledger: &impl Ledger) -> bool {
        // SeqCst: a claim made by the geometry before is seen here, or the step by its settler. Partner: `Table::scan`.
        fence(Ordering::SeqCst);
        let mut all = true;
        if step.grows() {
            let mut leaving = self.leaving(step);
            while leaving != 0 {
                let number = leaving.trailing_zeros() as usize;
                leaving &= leaving - 1;
                all &= self.clear(self.slot(step.sources().start * SLOTS + number), elapsed, ledger);
            }
        } else {
            for slot in self.source_slots(step) {
                all &= self.close(slot, step.turn(), elapsed, ledger);
            }
        }
        if all {
            self.shape.advance(step, step.settled());
        }
        all
    }

    /// The slots of the lines that are split, or go.
    fn source_slots(&self, step: Geometry) -> impl Iterator<Item = Slot<'_>> {
        step.sources().flat_map(|line| self.slots(line))
    }

    /// Which slots of the lines that are split have the tag of a key that has other lines now, or a tag that is left from one: a bit for each.
    ///
    /// A word of each of those other lines is read on the way: so the misses of a cache are under way together, instead of one after the other.
    fn leaving(&self, step: Geometry) -> u64 {
        const { assert!(STEP_LINES * SLOTS <= u64::BITS as usize) };
        let (mut leaving, mut seen) = (0, 0);
        for (number, slot) in self.source_slots(step).enumerate() {
            let lines = slot.tag().key().homes().map(|home| step.line(home));
            if !lines.contains(&slot.line()) {
                leaving |= 1 << number;
                seen ^= lines.into_iter().filter_map(|line| self.slots(line).next()).fold(0, |seen, slot| seen ^ slot.glance());
            }
        }
        black_box(seen);
        leaving
    }

    /// Frees a slot of a line that was split of a bucket that belongs elsewhere now.
    fn clear(&self, slot: Slot<'_>, elapsed: u64, ledger: &impl Ledger) -> bool {
        for _ in 0..PATIENCE {
            let held = slot.content();
            let key = held.tag.key();
            if !held.is_of(key) || self.shape.load().is_line_of(key.homes(), slot.line()) {
                return true;
            }
            if self.move_on(slot, held, elapsed, ledger).is_err() {
                return false;
            }
        }
        false
    }

    /// Frees a slot of a line that goes, for good.
    fn close(&self, slot: Slot<'_>, turn: u64, elapsed: u64, ledger: &impl Ledger) -> bool {
        for _ in 0..PATIENCE {
            let held = slot.content();
            match held.word.kind() {
                Kind::Closed(closed) if closed == turn => return true,
                Kind::Vacant | Kind::Dead | Kind::Closed(_) => _ = slot.take(held, Word::closed(turn)),
                Kind::Reserved => return false,
                Kind::Live(_) if self.drop_if_full(slot, elapsed, 0, ledger) => {}
                _ if self.move_on(slot, held, elapsed, ledger).is_err() => return false,
                _ => {}
            }
        }
        false
    }

    /// Drops a bucket that has been full for `idle` nanoseconds.
    fn drop_if_full(&self, slot: Slot<'_>, elapsed: u64, idle: u64, ledger: &impl Ledger) -> bool {
        let Some(seat) = self.seat(slot).filter(|seat| seat.full_for(elapsed) >= Some(idle)) else { return false };
        let dropped = self.drop_full(seat, Word::DEAD, ledger);
        if dropped {
            self.leave();
        }
        dropped
    }

    /// In passing, now and then: looks after a few lines, and takes a few away if too few slots are taken.
    pub(crate) fn tend(&self, elapsed: u64, ledger: impl Ledger) {
        self.sweep(elapsed, &ledger);
        self.step_down(SPARSE, elapsed, &ledger);
        let lines = self.shape.load().lines();
        self.release(lines + lines / 2, lines.max(SPARE_LINES));
    }

    /// Finishes moves that were left, drops buckets that have been full for long, and brings the others home.
    fn sweep(&self, elapsed: u64, ledger: &impl Ledger) {
        let [line, not_before] = &self.counts.tended;
        let now = self.shape.load();
        // Relaxed, all: a line that is looked at twice, or not in this round, does no harm.
        let mut from = line.load(Ordering::Relaxed);
        if from >= now.lines() as u64 {
            if elapsed < not_before.load(Ordering::Relaxed) {
                return;
            }
            not_before.store(elapsed.saturating_add(REST_NS), Ordering::Relaxed);
            from = 0;
        }
        line.store(from + TENDED_LINES as u64, Ordering::Relaxed);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for line in (from..now.lines()).take(TENDED_LINES) {
            for slot in self.slots(line) {
                self.finish_if_moving(slot, elapsed, ledger);
                if !self.drop_if_full(slot, elapsed, REST_NS, ledger) {
                    self.bring_home(slot, elapsed, ledger);
                }
            }
        }
    }

    /// Moves a bucket to its key's first line, where it is found sooner, if that has a free slot now: it had none when the bucket was made, while
    /// the table was smaller.
    fn bring_home(&self, slot: Slot<'_>, elapsed: u64, ledger: &impl Ledger) {
        let held = slot.content();
        if held.word.tat().is_none() {
            return;
        }
        let view = self.view(held.tag.key());
        let home = view.now()[0];
        if slot.line() != home && self.free_slot_in(home, view.turn()).is_some() {
            // Where another thread is faster, it stays where it is, until the next round.
            let _ = self.travel(slot, held, &view, &[home], elapsed, ledger);
        }
    }

    /// Takes lines away, or finishes doing so, if the slots taken would fill no more than one in `sparse` of what may be.
    fn step_down(&self, sparse: u64, elapsed: u64, ledger: &impl Ledger) -> bool {
        let now = self.shape.load();
        let fewer = now.lines().saturating_sub(STEP_LINES);
        let wanted = fewer >= self.fewest && self.taken() * sparse < Self::room(fewer);
        match now.phase() {
            Phase::Settled => wanted && self.reduce(now, elapsed, ledger),
            Phase::Moving => self.help(now, elapsed, ledger) && wanted,
            Phase::Releasing => false,
        }
    }

    /// Drops every full bucket, takes away every line that is not needed for the others, and gives their memory back.
    pub(crate) fn shrink(&self, elapsed: u64, ledger: impl Ledger) {
        // Buckets on their way first, so that none comes to a line that was looked at.
        self.for_each_slot(|slot| self.finish_if_moving(slot, elapsed, &ledger));
        self.for_each_slot(|slot| _ = self.drop_if_full(slot, elapsed, 0, &ledger));
        // At a fill that the next new key would not change.
        while self.step_down(1, elapsed, &ledger) {}
        self.release(self.shape.load().lines(), 1);
    }

    /// Finishes a move that its thread has left under way for want of room.
    fn finish_if_moving(&self, slot: Slot<'_>, elapsed: u64, ledger: &impl Ledger) {
        let held = slot.content();
        if matches!(held.word.kind(), Kind::Moving(_)) {
            self.finish(held.tag.key(), slot, held, elapsed, ledger);
        }
    }

    /// Looks at every slot, line by line, also in lines that come to be used meanwhile.
    pub(super) fn for_each_slot<'a>(&'a self, mut look: impl FnMut(Slot<'a>)) {
        let mut line = 0;
        while line < self.shape.load().extent() {
            self.slots(line).for_each(&mut look);
            line += 1;
        }
    }

    /// Gives back the memory of the lines from `keep` on, if there are at least so many.
    fn release(&self, keep: usize, worth: usize) {
        // Relaxed: a hint. If it is too low, some memory goes back another time; what goes back is looked at.
        let reached = usize::try_from(self.counts.reached.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let now = self.shape.load();
        if now.phase() != Phase::Settled || keep < now.lines() || reached < keep.saturating_add(worth) {
            return;
        }
        if !self.shape.advance(now, now.releasing()) {
            return;
        }
        // The shape is this thread's alone now. No thread reserves a closed slot before it has seen the table grow again; so what is closed
        // everywhere is in nobody's hands, and stays so.
        let closed = |slot: Slot<'_>| matches!(slot.content().word.kind(), Kind::Closed(_));
        let end = (keep..reached).find(|&line| !self.slots(line).all(closed)).unwrap_or(reached);
        let from = self.lines.release(keep..end);
        // Relaxed: as above.
        self.counts.reached.store(from as u64, Ordering::Relaxed);
        self.shape.advance(now.releasing(), now);
    }

    /// The live bucket in a slot.
    fn seat<'a>(&self, slot: Slot<'a>) -> Option<Seat<'a>> {
        let held = slot.content();
        let ticks = self.plans.read(held.tag.plan())?.ticks;
        Some(Seat::new(slot, held, ticks.moment(held.word.tat()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{REST_NS, TENDED_LINES};
    use crate::decision::{Act, Call};
    use crate::plans::{Plan, Plans};
    use crate::table::{Key, Ledger, Overflow, Table};
    use crate::ticks::Ticks;

    /// Gives out stamps, and keeps no books.
    #[derive(Clone, Copy)]
    struct Stamps<'a>(&'a Cell<u64>);

    impl Ledger for Stamps<'_> {
        fn stamp(&self) -> u64 {
            self.0.replace(self.0.get() + 1)
        }

        fn lane(&self) -> usize {
            0
        }

        fn own_plan(&self, _key: Key) -> Option<Plan> {
            None
        }

        fn evicted_full(&self) {}

        fn evicted_in_debt(&self) {}

        fn grown(&self) {}

        fn shrunk(&self) {}
    }

    /// Buckets beside a free slot of their key's first line, in another line.
    fn away(table: &Table) -> usize {
        let mut away = 0;
        table.for_each_slot(|slot| {
            let held = slot.content();
            let view = table.view(held.tag.key());
            let home = view.now()[0];
            away += usize::from(held.word.tat().is_some() && slot.line() != home && table.free_slot_in(home, view.turn()).is_some());
        });
        away
    }

    #[test]
    fn buckets_go_home_in_passing() {
        let ten_a_day = Ticks::fit(10, 86_400_000_000_000, 10).expect("fits");
        let table = Table::new(2_000, Overflow::DenyNew, Plans::new(ten_a_day, [0; 2])).expect("small");
        let (stamp, call) = (Cell::new(0), |n, elapsed| Call { act: Act::Take, n, elapsed });
        let ledger = Stamps(&stamp);
        let keys = || (1..=2_000_u64).map(|number| Key::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20)));
        for (key, n) in keys().zip((1..=10).cycle()) {
            assert_eq!(table.check(key, call(n, 0), ledger).1.denied, None);
        }
        let tats = || keys().map(|key| table.peek(key, 0, ledger).tat).collect::<Vec<_>>();
        let (tats_before, before) = (tats(), away(&table));
        assert!(before > 100, "{before} of them");
        // One that goes home leaves a slot that may be another's, whose line was looked at already: a few rounds.
        for round in 1..=4 {
            (0..=table.shape.load().lines() / TENDED_LINES).for_each(|_| table.tend(round * REST_NS, ledger));
        }
        assert_eq!((away(&table), tats()), (0, tats_before));
    }
}
