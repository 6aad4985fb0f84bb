//! What buckets on their way from one slot to another owe.

use super::slot::{Held, Slot};
use crate::sync::{AtomicU64, Ordering};
use crate::word::{Kind, MOST_MOVES, Word};

/// A debt that a bucket had when it was taken out of its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    /// The arrival time, in ticks of the plan in the slot's tag.
    pub(super) tat: u64,
    /// Nanoseconds from the origin to when the tokens owed are counted, if the quota is another one from now on.
    pub(super) as_of: u64,
}

/// The moves under way. Each has a number, which its slot's word bears, and its debt stands here under that number until the slot is free: so
/// whoever finds the word can finish the move.
pub(super) struct Moves([Move; MOST_MOVES]);

/// A move's place, on a cache line of its own.
#[repr(align(64))]
struct Move {
    /// 1 while it is taken.
    taken: AtomicU64,
    tat: AtomicU64,
    as_of: AtomicU64,
}

impl Moves {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self(std::array::from_fn(|_| Move { taken: zero(), tat: zero(), as_of: zero() }))
    }

    /// Takes a number, from `first` on.
    fn take(&self, first: usize) -> Option<usize> {
        let numbers = (0..MOST_MOVES).map(|step| first.wrapping_add(step) % MOST_MOVES);
        // Acquire: the last move under this number has ended before this one writes. Partner: `give_back`. Relaxed on failure: nothing is read.
        numbers.into_iter().find(|&number| self.0[number].taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok())
    }

    fn give_back(&self, number: usize) {
        // Release: partner in `take`.
        self.0[number].taken.store(0, Ordering::Release);
    }

    /// Takes the bucket out of a slot and says what word it left; `None` if it is not there any more, or too many others are on their way. The
    /// number is looked for from `lane` on. `as_of` says when the tokens are counted that a bucket of that arrival time owes.
    pub(super) fn begin(&self, slot: Slot<'_>, mut held: Held, stamp: u64, lane: usize, as_of: impl Fn(u64) -> u64) -> Option<Held> {
        let number = self.take(lane)?;
        let moving = Word::moving(stamp, number);
        while let Kind::Live(tat) = held.word.kind() {
            // Release, both: who reads a later move's debt here sees that this move has ended. Partner: `read`.
            self.0[number].tat.store(tat, Ordering::Release);
            self.0[number].as_of.store(as_of(tat), Ordering::Release);
            if slot.take(held, moving) {
                return Some(Held { word: moving, ..held });
            }
            let now = slot.content();
            if now.tag != held.tag {
                break;
            }
            held = now;
        }
        self.give_back(number);
        None
    }

    /// What the bucket owes that left this word; `None` if the move has ended.
    pub(super) fn read(&self, slot: Slot<'_>, held: Held) -> Option<Debt> {
        let Kind::Moving(number) = held.word.kind() else { return None };
        // Acquire, both: if a later move has written, the slot is found changed next. Partner: `begin`.
        let tat = self.0[number].tat.load(Ordering::Acquire);
        let as_of = self.0[number].as_of.load(Ordering::Acquire);
        slot.still(held).then_some(Debt { tat, as_of })
    }

    /// Ends a move whose bucket is live in its new slot, if it has not ended yet.
    pub(super) fn end(&self, slot: Slot<'_>, held: Held) {
        if let Kind::Moving(number) = held.word.kind()
            && slot.take(held, Word::DEAD)
        {
            self.give_back(number);
        }
    }
}
