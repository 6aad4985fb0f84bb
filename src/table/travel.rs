//! How a bucket gets from one slot to another, and under another quota: always in the same way.
//!
//! A slot is reserved for it. The bucket is taken out of its old one, and its debt stands with the table's moves. A claim for its key is
//! published in the new slot; whoever settles it puts the debt in; and the old slot is free. Should the thread stop anywhere, the next one that
//! has the key goes on.

use super::geometry::View;
use super::slot::{Held, Slot, Tag};
use super::{Key, Ledger, Table};
use crate::plans::Plan;
use crate::sync::{Ordering, PATIENCE, fence};
use crate::ticks::Ticks;
use crate::word::Kind;

/// Why a bucket did not move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// Every slot that it may have holds a debt, or is in another thread's hands.
    NoRoom,
    /// The bucket was charged or dropped meanwhile, or another thread was faster: look again.
    Changed,
}

impl Table {
    /// Moves a live bucket into one of these lines of its key's, to be counted under the plan its key has now.
    ///
    /// If that is another plan, it owes as many tokens as it owed under the old one: when the default changed, if that is what changed, or at
    /// `elapsed`. If it was charged since, when it was charged last; if it looks as if that were yet to come, then tokens are booked, or more were
    /// charged than the burst, and they are counted at `elapsed`.
    pub(super) fn travel(
        &self,
        from: Slot<'_>,
        held: Held,
        view: &View,
        lines: &[usize],
        elapsed: u64,
        ledger: &impl Ledger,
    ) -> Result<(), Stuck> {
        let key = held.tag.key();
        let plan = self.plan_of(key, ledger);
        let replaced = self.is_replaced(held.tag.plan()) && plan.is_default();
        let since = if replaced { self.plans.read(plan).ok_or(Stuck::Changed)?.since } else { elapsed };
        let old = self.plans.read(held.tag.plan()).ok_or(Stuck::Changed)?.ticks;
        let as_of = |tat: u64| since.max(old.moment(tat.saturating_sub(old.span())).min(elapsed));
        let to = self.seat_for(lines, view.turn(), elapsed, ledger)?;
        // While the bucket is live here, no other move of its can begin; so when this one has begun, it is the only one.
        self.end_earlier_moves(key, from, view);
        let stamp = ledger.stamp();
        let Some(moving) = self.moves.begin(from, held, stamp, ledger.lane(), as_of) else {
            to.give_back();
            return Err(Stuck::Changed);
        };
        let claim = Self::claim(to, Tag::new(plan, key), false, stamp);
        let found = self.scan(key, to, claim, view, ledger);
        if !found.is_some_and(|found| self.make_live(to, claim, found.word, &found)) {
            // The bucket is wherever another thread has put it; or nowhere yet, and if there is no room, the key's next call will see to it,
            // or whoever comes by.
            self.finish(key, from, moving, elapsed, ledger);
        }
        Ok(())
    }

    /// Sees to it that a move ends. False if there is no room for the bucket at present; then it stays under way.
    pub(super) fn finish(&self, key: Key, from: Slot<'_>, moving: Held, elapsed: u64, ledger: &impl Ledger) -> bool {
        for _ in 0..PATIENCE {
            if !from.still(moving) {
                return true;
            }
            let view = self.view(key);
            let elsewhere = self
                .look(key, &view, |slot, held| Some((slot, held)).filter(|_| slot != from && !matches!(held.word.kind(), Kind::Moving(_))));
            match elsewhere {
                Some((_, held)) if held.word.tat().is_some() => {
                    // It was made live after the move began, or there would have been two; and so with this debt.
                    self.moves.end(from, moving);
                    return true;
                }
                Some((slot, claim)) => {
                    if let Some(found) = self.scan(key, slot, claim, &view, ledger) {
                        self.make_live(slot, claim, found.word, &found);
                    }
                }
                None => match self.seat_for(view.now(), view.turn(), elapsed, ledger) {
                    Ok(slot) => _ = Self::claim(slot, Tag::new(self.plan_of(key, ledger), key), false, ledger.stamp()),
                    Err(Stuck::Changed) => {}
                    Err(Stuck::NoRoom) => return false,
                },
            }
        }
        false
    }

    /// Ends the moves that brought a bucket here, if their threads have not come to that yet.
    fn end_earlier_moves(&self, key: Key, here: Slot<'_>, view: &View) {
        self.look(key, view, |slot, held| {
            // Looked at after the move was: it is live here since.
            let live = |held: Held| held.word.tat().is_some();
            if slot != here && !live(held) && here.held_for(key).is_some_and(live) {
                self.moves.end(slot, held);
            }
            None::<()>
        });
    }

    /// The arrival time, under a plan, of a bucket that is on its way. `None` if the move has ended.
    pub(super) fn carried(&self, slot: Slot<'_>, moving: Held, plan: Plan, ticks: &Ticks) -> Option<u64> {
        let debt = self.moves.read(slot, moving)?;
        if moving.tag.plan() == plan {
            return Some(debt.tat);
        }
        let old = self.plans.read(moving.tag.plan())?.ticks;
        let owed = debt.tat.saturating_sub(old.at(debt.as_of));
        Some(ticks.converted(debt.as_of, owed, &old))
    }

    /// Whether a plan is a default that another one has replaced.
    pub(super) fn is_replaced(&self, plan: Plan) -> bool {
        plan.is_default() && plan != self.plans.standing().plan()
    }

    /// Moves a live bucket to any slot that its key may have, under the plan that the key has now; if there is none, after making room.
    pub(super) fn resettle(&self, slot: Slot<'_>, held: Held, elapsed: u64, ledger: &impl Ledger) -> Result<(), Stuck> {
        let view = self.view(held.tag.key());
        match self.travel(slot, held, &view, view.now(), elapsed, ledger) {
            // Not done yet: it is looked at again.
            Err(Stuck::NoRoom) if self.make_room(&view, elapsed, ledger) => Err(Stuck::Changed),
            result => result,
        }
    }

    /// After a key's plan has changed: puts its bucket under the new one. Fails if there is no room for that.
    pub(crate) fn replan(&self, key: Key, elapsed: u64, ledger: impl Ledger) -> Result<(), Stuck> {
        // SeqCst: a claim under the old plan is seen here, or the new plan by its settler. Partner: `Table::scan`.
        fence(Ordering::SeqCst);
        for _ in 0..PATIENCE {
            let view = self.view(key);
            let plan = self.plan_of(key, &ledger);
            let old = self.look(key, &view, |slot, held| Some((slot, held)).filter(|_| held.tag.plan() != plan));
            let Some((slot, held)) = old else { return Ok(()) };
            self.move_on(slot, held, elapsed, &ledger)?;
        }
        Err(Stuck::NoRoom)
    }

    /// After the default has changed: puts every bucket under it that was counted under an earlier one. Fails if there was no room for some of
    /// them; they are moved when their keys are checked.
    pub(crate) fn replan_all(&self, elapsed: u64, ledger: impl Ledger) -> Result<(), Stuck> {
        // SeqCst: as in `replan`.
        fence(Ordering::SeqCst);
        let mut result = Ok(());
        self.for_each_slot(|slot| result = self.replan_slot(slot, elapsed, &ledger).and(result));
        result
    }

    fn replan_slot(&self, slot: Slot<'_>, elapsed: u64, ledger: &impl Ledger) -> Result<(), Stuck> {
        for _ in 0..PATIENCE {
            let held = slot.content();
            if !held.is_of(held.tag.key()) || !self.is_replaced(held.tag.plan()) {
                return Ok(());
            }
            self.move_on(slot, held, elapsed, ledger)?;
        }
        Err(Stuck::NoRoom)
    }

    /// One step in getting a bucket, or what will be one, out of a slot where it does not belong any more. Fails if it cannot go at present.
    pub(super) fn move_on(&self, slot: Slot<'_>, held: Held, elapsed: u64, ledger: &impl Ledger) -> Result<(), Stuck> {
        match held.word.kind() {
            Kind::Claimed => _ = self.drop_claim(slot, held),
            Kind::Moving(_) if !self.finish(held.tag.key(), slot, held, elapsed, ledger) => return Err(Stuck::NoRoom),
            Kind::Live(_) if self.resettle(slot, held, elapsed, ledger) == Err(Stuck::NoRoom) => return Err(Stuck::NoRoom),
            _ => {}
        }
        Ok(())
    }
}
