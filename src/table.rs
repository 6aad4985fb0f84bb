//! The table: buckets by hash, inline in cache lines, without a lock, growing and shrinking by a few lines at a time.
//!
//! A key's hash gives two candidate lines of four slots. Its bucket is in at most one of those eight slots. Nothing is chained, so no set of keys
//! makes the check of a known key look further.
//!
//! `docs/table-protocol.md` has the whole argument. In short, a slot's word says what may be done with the slot:
//!
//! ```text
//!        ┌── dropped: full, evicted ──┐
//!        │                            │
//!   free ┴─ reserve ─▶ reserved ── publish ─▶ claimed ── settle ─▶ live
//!    ▲                 (one thread)          (anyone)               │
//!    │                                          │                 begin
//!    ├───────────────── dropped ────────────────┘                   ▼
//!    └──────────── end, once it is live elsewhere ────────────── moving
//! ```
//!
//! The tag changes only while the slot is reserved, by the one thread that reserved it. A bucket moves in one way only: it is taken out of its
//! slot, leaving its debt with the table's moves, and whoever settles a claim for its key puts that debt into the new bucket. So it moves when
//! the table grows or shrinks, to make room for another, to its key's first line, and to be counted under another quota.

mod geometry;
mod moves;
mod place;
mod resize;
mod slot;
mod travel;

use core::fmt;

use crate::decision::{Act, Answer, Ask, Call, Reason};
use crate::plans::{Label, Plan, Plans, Standing};
use crate::sync::{AtomicU64, FEWEST_LINES, Line, Lines, Ordering, Pair, STEP_LINES, fence, spin_loop};
use crate::ticks::Ticks;
use crate::word::{Kind, Verdict, Word};

use geometry::{CHOICES, Shape, View};
use moves::Moves;
use place::Place;
use slot::{Held, SLOTS, Slot, Tag};

pub(crate) use travel::Stuck;

/// The table grows when more than so many of its slots are taken, in parts of `FILL.1`.
const FILL: (u64, u64) = (9, 16);

/// What to do with a new key when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// Evict the bucket that owes least among those that could make room, and count it: least is soonest full. A flood of keys used once cannot
    /// wash away the debt of a key that is being limited: it owes more than they do.
    #[default]
    EvictLeastDebt,
    /// Deny the new key ([`Reason::NoRoom`]), until a bucket is full again. No debt is ever forgotten.
    DenyNew,
}

/// What a table tells about itself while it works, and asks for.
pub(crate) trait Ledger: Copy {
    /// A number that this table's claims and moves have not had.
    fn stamp(&self) -> u64;
    /// A number that few other threads have at the same time.
    fn lane(&self) -> usize;
    /// The plan that a key has of its own.
    fn own_plan(&self, key: Key) -> Option<Plan>;
    /// A full bucket was dropped.
    fn evicted_full(&self);
    /// A bucket that owed tokens gave way.
    fn evicted_in_debt(&self);
    /// Lines were added.
    fn grown(&self);
    /// Lines were taken away.
    fn shrunk(&self);
}

/// A key, as a table knows it: 52 bits of its hash, which say where its bucket can be, and tell it from others. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) const BITS: u32 = 52;

    #[inline]
    pub(crate) const fn new(hash: u64) -> Self {
        let bits = hash & (u64::MAX >> (64 - Self::BITS));
        // The highest, so that the first home is the hash's own low bits, and need not wait for this.
        Self(if bits == 0 { 1 << (Self::BITS - 1) } else { bits })
    }

    /// The bits, for who wants to tell keys apart.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    const fn homes(self) -> [u64; CHOICES] {
        // As many bits as number the lines. The factor: odd, so that it loses nothing; 2^64 divided by the golden ratio, so that it mixes well (Knuth,
        // TAOCP 3, section 6.4).
        [self.0 & u32::MAX as u64, self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16]
    }
}

/// A bucket's state under its quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) ticks: Ticks,
    pub(crate) label: Label,
    /// The tick at which it is full again.
    pub(crate) tat: u64,
}

/// A number on cache lines of its own: every thread that makes a bucket writes or reads it.
#[repr(align(128))]
struct Alone(AtomicU64);

/// Numbers that are written less often.
#[repr(align(128))]
struct Counts {
    /// How many lines there have been at most, since memory was given back.
    reached: AtomicU64,
    /// The line to be tended next, and not before this many nanoseconds from the origin.
    tended: [AtomicU64; 2],
}

pub(crate) struct Table {
    lines: Lines,
    shape: Shape,
    plans: Plans,
    overflow: Overflow,
    max_keys: u64,
    /// The fewest lines there are.
    fewest: usize,
    moves: Moves,
    /// Buckets, and claims to new ones.
    taken: Alone,
    /// Nanoseconds from the origin: no bucket was dropped as full that was not full by then. A new bucket is full as of the mark, so that a call
    /// stamped earlier finds the debt that its key may have had.
    mark: Alone,
    counts: Counts,
}

impl Table {
    /// A table for `max_keys` keys, at least 1, under the default of these plans; `None` if there is no address space for it.
    pub(crate) fn new(max_keys: usize, overflow: Overflow, plans: Plans) -> Option<Self> {
        let max_keys = max_keys as u64;
        let slots = usize::try_from(max_keys.checked_mul(FILL.1)?.div_ceil(FILL.0)).ok()?;
        let most = slots.div_ceil(SLOTS).max(FEWEST_LINES / 4).checked_next_multiple_of(STEP_LINES)?;
        Self::with_lines(FEWEST_LINES.min(most), most, max_keys, overflow, plans)
    }

    /// The same with so many lines at first, and at most.
    pub(crate) fn with_lines(fewest: usize, most: usize, max_keys: u64, overflow: Overflow, plans: Plans) -> Option<Self> {
        let zero = || AtomicU64::new(0);
        let tended = [zero(), zero()];
        let counts = Counts { reached: AtomicU64::new(fewest as u64), tended };
        Some(Self {
            lines: Lines::zeroed(most)?,
            shape: Shape::new(fewest),
            plans,
            overflow,
            max_keys,
            fewest,
            moves: Moves::new(),
            taken: Alone(zero()),
            mark: Alone(zero()),
            counts,
        })
    }

    /// Slots that are taken.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a count, at some moment. A call that takes a bucket on its way for a new one may pass the cap for that moment.
        usize::try_from(self.taken.0.load(Ordering::Relaxed).min(self.max_keys)).unwrap_or(usize::MAX)
    }

    pub(crate) fn max_keys(&self) -> usize {
        usize::try_from(self.max_keys).unwrap_or(usize::MAX)
    }

    /// Slots there are at present.
    pub(crate) fn slots_in_use(&self) -> usize {
        self.shape.load().extent() * SLOTS
    }

    /// Bytes of memory in use, to within a page.
    pub(crate) fn memory(&self) -> usize {
        // Relaxed: a figure, at some moment.
        let lines = usize::try_from(self.counts.reached.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        size_of::<Self>() - size_of::<Plans>() + self.plans.memory() + lines.saturating_mul(size_of::<Line>())
    }

    pub(crate) fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Decides a call on a key's bucket, if it is where nearly all are: in its lines, under the default. Otherwise, nothing but the time was
    /// found out; see [`check`](Self::check).
    ///
    /// The lines are read before `elapsed` is called, since that may read a clock: a time-stamp counter is not read before older
    /// instructions are done nor much ahead of younger ones, so the cache miss and the reading had better be under way together. The default's
    /// numbers are read after it: before, they would wait for it in memory.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    pub(crate) fn check_first(&self, key: Key, act: Act, n: u64, elapsed: impl FnOnce() -> u64) -> (Ask, Option<Answer>) {
        let (standing, tag, found) = self.find_first(key);
        let elapsed = elapsed();
        let ask = Ask::new(self.plans.default_ticks(standing), Call { act, n, elapsed });
        let answer = found.and_then(|pair| slot::word_of(pair, tag).charge(&ask, || self.is_default(pair, tag, standing)));
        (ask, answer)
    }

    /// What [`check_first`](Self::check_first) would answer. Writes nothing.
    pub(crate) fn look_first(&self, key: Key, call: Call) -> Option<(Ask, Answer)> {
        let (standing, tag, found) = self.find_first(key);
        let (pair, ask) = (found?, Ask::new(self.plans.default_ticks(standing), call));
        let answer = slot::word_of(pair, tag).look(&ask, || self.is_default(pair, tag, standing))?;
        Some((ask, answer))
    }

    /// Where nearly all buckets are: in the key's lines, under the default that stands, with this tag.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    fn find_first(&self, key: Key) -> (Standing, Tag, Option<&Pair>) {
        let standing = self.plans.standing();
        let tag = Tag::new(standing.plan(), key);
        let shape = self.shape.load();
        let [first, second] = key.homes();
        let found = self.find(shape.line(first), tag).or_else(|| self.find(shape.line(second), tag));
        (standing, tag, found)
    }

    /// Decides a call on a key's bucket, which is made if there is none.
    pub(crate) fn check(&self, key: Key, call: Call, ledger: impl Ledger) -> (Ask, Answer) {
        loop {
            if let Some(decided) = self.try_check(key, call, &ledger) {
                return decided;
            }
            // Another thread was faster.
            spin_loop();
        }
    }

    /// `None`: start over.
    fn try_check(&self, key: Key, call: Call, ledger: &impl Ledger) -> Option<(Ask, Answer)> {
        let view = self.view(key);
        let mut moving = false;
        // One on its way may be live elsewhere by now: its old slot is freed last.
        let found = self.look(key, &view, |slot, held| {
            let here = !matches!(held.word.kind(), Kind::Moving(_));
            moving |= !here;
            here.then_some((slot, held))
        });
        match found {
            Some((slot, held)) if held.word.tat().is_some() => self.charge(slot, held, call, ledger),
            Some((slot, claim)) => self.settle(key, slot, claim, &view, call, ledger),
            None => self.enter(key, &view, moving, call, ledger),
        }
    }

    /// Reads the tags of a line and compares them with one: all four before any branch, since none could predict which of them it is. What is
    /// found is the first; a later one can only be live if that is not.
    #[expect(clippy::inline_always, reason = "see `Limiter::decide`")]
    #[inline(always)]
    fn find(&self, line: usize, tag: Tag) -> Option<&Pair> {
        let pairs = self.lines.line(line);
        let mut found = SLOTS;
        for (index, pair) in pairs.iter().enumerate().rev() {
            if slot::tag_of(pair) == tag {
                found = index;
            }
        }
        pairs.get(found)
    }

    /// Whether a pair's word, read before, is the bucket's with this tag, under a default that stands.
    #[inline]
    fn is_default(&self, pair: &Pair, tag: Tag, standing: Standing) -> bool {
        slot::tag_of(pair) == tag && self.plans.stands(standing)
    }

    fn view(&self, key: Key) -> View {
        self.shape.load().view(key.homes())
    }

    /// Whether these are the key's lines still, or again after steps that did not concern it.
    #[inline]
    fn still_holds(&self, view: &View, key: Key) -> bool {
        view.holds_in(self.shape.load(), key.homes())
    }

    /// The slot of that number.
    #[inline]
    fn slot(&self, number: usize) -> Slot<'_> {
        Slot::new(&self.lines.line(number / SLOTS)[number % SLOTS], number)
    }

    #[inline]
    fn slots(&self, line: usize) -> impl Iterator<Item = Slot<'_>> {
        self.lines.line(line).iter().enumerate().map(move |(index, pair)| Slot::new(pair, line * SLOTS + index))
    }

    /// The first of a key's slots for which `look` finds something.
    #[inline]
    fn look<'a, T>(&'a self, key: Key, view: &View, mut look: impl FnMut(Slot<'a>, Held) -> Option<T>) -> Option<T> {
        for &line in view.all() {
            for slot in self.slots(line) {
                if let Some(held) = slot.held_for(key)
                    && let Some(found) = look(slot, held)
                {
                    return Some(found);
                }
            }
        }
        None
    }

    /// What a key is counted under.
    fn plan_of(&self, key: Key, ledger: &impl Ledger) -> Plan {
        ledger.own_plan(key).unwrap_or_else(|| self.plans.standing().plan())
    }

    /// Decides a call on a bucket that is not where most are, or not under the plan that most have. `None`: start over.
    fn charge(&self, slot: Slot<'_>, held: Held, call: Call, ledger: &impl Ledger) -> Option<(Ask, Answer)> {
        let plan = held.tag.plan();
        let terms = self.plans.read(plan)?;
        if self.is_replaced(plan) && self.resettle(slot, held, call.elapsed, ledger) != Err(Stuck::NoRoom) {
            return None;
        }
        let ask = Ask::new(terms.ticks, call);
        let stands = || slot.has(held.tag) && self.plans.holds(plan, &terms);
        let answer = slot.word(held.tag).charge(&ask, stands)?;
        Some((ask, answer))
    }

    /// Makes a bucket for a key that was not found, or was found on its way, and decides the call on it. `None`: start over.
    #[cold]
    fn enter(&self, key: Key, view: &View, moving: bool, call: Call, ledger: &impl Ledger) -> Option<(Ask, Answer)> {
        let plan = self.plan_of(key, ledger);
        let terms = self.plans.read(plan)?;
        let ask = Ask::new(terms.ticks, call);
        if !moving && let Verdict::Final(answer) = self.fresh(&terms.ticks).decide(&ask) {
            // No claim will be settled, which would find a bucket that moved from where it was looked for last to where it was looked for first, or
            // to a line that was not the key's before.
            let missing = self.look(key, view, |_, _| Some(())).is_none() && self.still_holds(view, key);
            return missing.then_some((ask, answer));
        }
        let decided = match self.place(key, view, &ask, moving, ledger) {
            Place::Reserved(slot) => {
                let claim = Self::claim(slot, Tag::new(plan, key), !moving, ledger.stamp());
                self.settle(key, slot, claim, view, call, ledger)
            }
            Place::Lost => None,
            Place::NoRoom { debt } => Some((ask, Answer::denied(debt, Reason::NoRoom))),
        };
        self.grow_if_crowded(call.elapsed, ledger);
        decided
    }

    /// Publishes a claim in a reserved slot, which is counted as taken or, for a bucket on its way, is not.
    fn claim(slot: Slot<'_>, tag: Tag, counted: bool, stamp: u64) -> Held {
        let word = Word::claimed(stamp, counted);
        slot.publish(tag, word);
        Held { tag, word }
    }

    /// A new bucket: full as of the mark.
    fn fresh(&self, ticks: &Ticks) -> Word {
        // Relaxed: what must have raised the mark was read with acquire, or came before in the order of fences. See `scan`.
        Word::live(ticks.at(self.mark.0.load(Ordering::Relaxed)))
    }

    /// Turns a claim into a bucket and decides the call on it, or drops the claim because the key has a bucket, or a better claim to one.
    /// Any thread that has the key may do it. `None`: start over.
    #[cold]
    fn settle(&self, key: Key, mine: Slot<'_>, claim: Held, view: &View, call: Call, ledger: &impl Ledger) -> Option<(Ask, Answer)> {
        let found = self.scan(key, mine, claim, view, ledger)?;
        let ask = Ask::new(found.ticks, call);
        let (word, answer) = match found.word.decide(&ask) {
            Verdict::Change { debt, word } => (word, Answer::allowed(debt)),
            // No bucket is needed to say so, unless there is a debt to be kept. If the claim was ended by another thread, that one may have found
            // a bucket on its way, which this one looked for too late: what is given back must not be lost to that.
            Verdict::Final(answer) if found.moving.is_none() => return self.drop_claim(mine, claim).then_some((ask, answer)),
            Verdict::Final(answer) => (found.word, answer),
        };
        self.make_live(mine, claim, word, &found).then_some((ask, answer))
    }

    /// Makes a claim the bucket that its settler found it to be. False if the claim does not stand any more.
    fn make_live(&self, mine: Slot<'_>, claim: Held, word: Word, found: &Found<'_>) -> bool {
        // Relaxed: the tag was published with the claim, and this exchange continues that release sequence.
        let made = mine.word(claim.tag).exchange(claim.word, word, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if made {
            // One bucket, one count: it may have been taken for a new one and been on its way, or the other way round.
            match (claim.word.is_counted(), found.moving.is_some()) {
                (true, true) => self.leave(),
                (false, false) => _ = self.take_room(u64::MAX),
                _ => {}
            }
            if let Some((slot, held)) = found.moving {
                self.moves.end(slot, held);
            }
        }
        made
    }

    /// Looks at the key's other slots on behalf of a claim: what the bucket is to start with. `None`: the claim is dropped, because the key has a
    /// bucket or a better claim, or because its place or its plan is not here any more.
    fn scan<'a>(&'a self, key: Key, mine: Slot<'_>, claim: Held, view: &View, ledger: &impl Ledger) -> Option<Found<'a>> {
        // SeqCst: of two claims for one key, each published (or read) before this fence and looked for behind it, at least one is seen by the
        // other's settler. Partner: this fence, in that settler. And of a claim and a change of geometry or plan, either the claim is seen by
        // whoever moves buckets accordingly, or the change here. Partners: the fences in `resize` and `travel`.
        fence(Ordering::SeqCst);
        let found = self.found(key, mine, claim, view, ledger);
        if found.is_none() {
            self.drop_claim(mine, claim);
        }
        found
    }

    fn found<'a>(&'a self, key: Key, mine: Slot<'_>, claim: Held, view: &View, ledger: &impl Ledger) -> Option<Found<'a>> {
        let plan = claim.tag.plan();
        if !self.still_holds(view, key) || !view.now().contains(&mine.line()) || self.plan_of(key, ledger) != plan {
            return None;
        }
        let ticks = self.plans.read(plan)?.ticks;
        let mut moving = None;
        let better = self.look(key, view, |other, mut held| {
            if other.number == mine.number {
                return None;
            }
            loop {
                match held.word.kind() {
                    Kind::Moving(_) => {
                        moving = self.carried(other, held, plan, &ticks).map(|tat| (other, held, tat));
                        if moving.is_some() {
                            return None;
                        }
                    }
                    // One that cannot be where it is now goes first.
                    Kind::Claimed if other.number < mine.number && view.now().contains(&other.line()) => return Some(()),
                    Kind::Claimed if self.drop_claim(other, held) => return None,
                    Kind::Claimed => {}
                    _ => return Some(()),
                }
                // It is not that any more. It may have become a bucket: look again.
                held = other.held_for(key)?;
            }
        });
        if better.is_some() {
            return None;
        }
        // Read only here: a bucket of this key that came and went while this thread stood still has raised the mark. It was found gone above
        // (acquire), or it would have found this claim and ended it.
        let fresh = self.fresh(&ticks);
        Some(match moving {
            Some((slot, held, tat)) => Found { ticks, word: Word::live(tat).or_later(fresh), moving: Some((slot, held)) },
            None => Found { ticks, word: fresh, moving: None },
        })
    }

    /// Ends a claim. Fails if the claim does not stand any more.
    fn drop_claim(&self, slot: Slot<'_>, claim: Held) -> bool {
        let dropped = slot.take(claim, Word::DEAD);
        if dropped && claim.word.is_counted() {
            self.leave();
        }
        dropped
    }

    /// Counts one slot less.
    fn leave(&self) {
        // Relaxed: a count, on which no other memory depends. Not below zero: should a thread be suspended between making a bucket live and
        // ending its move for so long that the bucket is dropped and made anew, then that is taken for one bucket more on its way, and the
        // count is too low by one.
        let _ = self.taken.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken.saturating_sub(1)));
    }

    /// What [`check`](Self::check) would answer. Writes nothing.
    pub(crate) fn look_at(&self, key: Key, call: Call, ledger: impl Ledger) -> (Ask, Answer) {
        let (state, found) = self.state(key, call.elapsed, &ledger);
        let (ask, answer) = Word::live(state.tat).look(state.ticks, call);
        // A call that is denied anyway, or changes nothing, needs no room.
        let makes_one = !found && answer.denied.is_none() && call.n > 0 && call.act != Act::GiveBack;
        if makes_one && let Some(full_at) = self.no_room(key, call.elapsed) {
            return (ask, Answer::denied(state.ticks.at(full_at).saturating_sub(ask.now), Reason::NoRoom));
        }
        (ask, answer)
    }

    /// The state of a key's bucket, or of the one it would be given; that is as if never used, if it is full.
    pub(crate) fn peek(&self, key: Key, elapsed: u64, ledger: impl Ledger) -> State {
        self.state(key, elapsed, &ledger).0
    }

    /// The same, and whether there is such a bucket.
    fn state(&self, key: Key, elapsed: u64, ledger: &impl Ledger) -> (State, bool) {
        loop {
            let look = || {
                let mut moving = None;
                let live = self.look(key, &self.view(key), |slot, held| {
                    let found = |tat| (held.tag.plan(), tat);
                    moving = self.moves.read(slot, held).map(|debt| found(debt.tat)).or(moving);
                    held.word.tat().map(found)
                });
                live.or(moving)
            };
            // Twice: it may have moved from where it was looked for last to where it was looked for first.
            let (plan, tat) = look().or_else(look).unzip();
            let plan = plan.unwrap_or_else(|| self.plan_of(key, ledger));
            if let Some(terms) = self.plans.read(plan) {
                let fresh = || self.fresh(&terms.ticks).tat().filter(|&tat| tat > terms.ticks.at(elapsed));
                return (State { ticks: terms.ticks, label: terms.label, tat: tat.or_else(fresh).unwrap_or(0) }, tat.is_some());
            }
        }
    }
}

impl Table {
    /// The buckets there are, also those on their way, line by line.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (Key, State)> {
        (0..self.shape.load().extent()).flat_map(|line| self.buckets_in(line))
    }

    /// Those in so many lines, evenly spread over the table, or in all if there are no more.
    pub(crate) fn sample(&self, lines: usize) -> impl Iterator<Item = State> {
        let extent = self.shape.load().extent();
        (0..extent).step_by(extent.div_ceil(lines)).flat_map(|line| self.buckets_in(line)).map(|(_, state)| state)
    }

    fn buckets_in(&self, line: usize) -> impl Iterator<Item = (Key, State)> {
        self.slots(line).filter_map(|slot| {
            let held = slot.content();
            let tat = held.word.tat().or_else(|| self.moves.read(slot, held).map(|debt| debt.tat))?;
            let terms = self.plans.read(held.tag.plan())?;
            Some((held.tag.key(), State { ticks: terms.ticks, label: terms.label, tat }))
        })
    }
}

/// What a settler found.
struct Found<'a> {
    ticks: Ticks,
    /// What the bucket starts with.
    word: Word,
    /// The move whose debt that is. A key has no more than one: see `travel`.
    moving: Option<(Slot<'a>, Held)>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len()).field("max_keys", &self.max_keys).finish_non_exhaustive()
    }
}
