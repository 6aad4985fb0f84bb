//! The quotas a table counts by, each under a number: a *plan*.
//!
//! A slot's tag names its bucket's plan, so that a check needs no look at anything but the slot and the plan. The numbers below
//! [`DEFAULTS`] are for the quota of all keys that have none of their own: one of them *stands*, and a change puts another in its place.
//!
//! A number may be given to another quota once no bucket is counted under it. Readers may be late: so each plan has an edition, and what was read
//! of a plan holds while its edition stands.

use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering, Record, records};
use crate::ticks::{TICKS_WORDS, Ticks};

const NUMBER_BITS: u32 = 12;

/// Plans there can be at a time.
pub(crate) const MOST_PLANS: usize = 1 << NUMBER_BITS;

/// The numbers that default quotas take turns in: the one that stands, the one before it, and room for one whose last buckets are stuck.
pub(crate) const DEFAULTS: usize = 4;

/// The number of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan(u16);

impl Plan {
    /// # Panics
    /// If there is no such number.
    pub(crate) fn new(number: usize) -> Self {
        assert!(number < MOST_PLANS);
        #[expect(clippy::cast_possible_truncation, reason = "below 2^12")]
        Self(number as u16)
    }

    #[inline]
    pub(crate) const fn number(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn is_default(self) -> bool {
        self.number() < DEFAULTS
    }
}

/// Which default stands: `[ change:52 | number:12 ]`. No two changes are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Standing(u64);

impl Standing {
    #[inline]
    pub(crate) const fn plan(self) -> Plan {
        #[expect(clippy::cast_possible_truncation, reason = "masked to 12 bits")]
        Plan((self.0 % MOST_PLANS as u64) as u16)
    }

    const fn next(self, plan: Plan) -> Self {
        let change = (self.0 >> NUMBER_BITS).wrapping_add(1);
        Self(change << NUMBER_BITS | plan.0 as u64)
    }
}

/// What a plan said when it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ticks: Ticks,
    /// Nanoseconds from the origin to when the plan was made.
    pub(crate) since: u64,
    /// What the ticks were made from, for who wants to show it.
    pub(crate) label: Label,
    edition: u64,
}

/// A quota's tokens and period.
pub(crate) type Label = [u64; 2];

/// A plan's numbers: an edition, odd while they are written; those of its ticks; since when; and the label.
#[derive(Clone, Copy)]
struct Entry<'a>(&'a Record);

const EDITION: usize = 0;
const TICKS: usize = 1;
const SINCE: usize = TICKS + TICKS_WORDS;
const LABEL: usize = SINCE + 1;

impl Entry<'_> {
    #[inline]
    fn ticks(self) -> Ticks {
        // Acquire: whoever reads a later edition's number sees that the edition has changed, and for a default, that it stands no more.
        // Partners: the stores in `write`.
        Ticks::from_words(std::array::from_fn(|word| self.0[TICKS + word].load(Ordering::Acquire)))
    }

    fn edition(self) -> u64 {
        // Acquire: the numbers are of this edition or a later one. Partner: the last store in `write`.
        self.0[EDITION].load(Ordering::Acquire)
    }

    /// `None` while it is written.
    fn read(self) -> Option<Terms> {
        let edition = self.edition();
        let ticks = self.ticks();
        // Acquire: as in `ticks`.
        let [since, tokens, period] = [SINCE, LABEL, LABEL + 1].map(|word| self.0[word].load(Ordering::Acquire));
        let terms = Terms { ticks, since, label: [tokens, period], edition };
        (edition.is_multiple_of(2) && edition == self.edition()).then_some(terms)
    }

    /// Called by one thread at a time.
    fn write(self, ticks: Ticks, label: Label, since: u64) {
        // Relaxed: only this thread writes.
        let edition = self.0[EDITION].load(Ordering::Relaxed);
        self.0[EDITION].store(edition + 1, Ordering::Relaxed);
        // Release, all: who sees one of the new numbers sees the odd edition, and all that came before. Partners: the loads in `read`.
        for (word, number) in self.0[TICKS..].iter().zip(ticks.to_words().into_iter().chain([since]).chain(label)) {
            word.store(number, Ordering::Release);
        }
        self.0[EDITION].store(edition + 2, Ordering::Release);
    }
}

pub(crate) struct Plans {
    standing: AtomicU64,
    defaults: [Record; DEFAULTS],
    /// Those with the other numbers; allocated with the first of them.
    own: OnceLock<Box<[Record]>>,
}

impl Plans {
    /// With a default that has stood since the origin.
    pub(crate) fn new(default: Ticks, label: Label) -> Self {
        let defaults = std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        let plans = Self { standing: AtomicU64::new(0), defaults, own: OnceLock::new() };
        plans.write(Plan(0), default, label, 0);
        plans
    }

    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        // Acquire: its numbers are there to be read. Partner: `change`.
        Standing(self.standing.load(Ordering::Acquire))
    }

    /// Whether that default still stands, where a word was read before, with acquire.
    #[inline]
    pub(crate) fn stands(&self, standing: Standing) -> bool {
        // Acquire: what is read after it, is read after it.
        self.standing.load(Ordering::Acquire) == standing.0
    }

    /// The ticks of a default that stands, or stood: to be asked again, by [`stands`](Self::stands), after the word has been read.
    #[inline]
    pub(crate) fn default_ticks(&self, standing: Standing) -> Ticks {
        Entry(&self.defaults[standing.plan().number() % DEFAULTS]).ticks()
    }

    /// What a plan says. `None`: it is no plan any more, or is being written.
    pub(crate) fn read(&self, plan: Plan) -> Option<Terms> {
        self.entry(plan)?.read()
    }

    /// Whether a plan still says what was read, where a word was read before, with acquire.
    pub(crate) fn holds(&self, plan: Plan, terms: &Terms) -> bool {
        self.entry(plan).is_some_and(|entry| entry.edition() == terms.edition)
    }

    fn entry(&self, plan: Plan) -> Option<Entry<'_>> {
        let record = match plan.number().checked_sub(DEFAULTS) {
            None => &self.defaults[plan.number()],
            Some(own) => &self.own.get()?[own],
        };
        Some(Entry(record))
    }

    /// Gives a number another quota. Called by one thread at a time, for a number under which no bucket is counted.
    ///
    /// # Panics
    /// When the allocator has no 256 KiB of address space for the first plan that is not a default.
    pub(crate) fn write(&self, plan: Plan, ticks: Ticks, label: Label, since: u64) {
        if !plan.is_default() {
            self.own.get_or_init(|| records(MOST_PLANS - DEFAULTS).expect("256 KiB of address space"));
        }
        if let Some(entry) = self.entry(plan) {
            entry.write(ticks, label, since);
        }
    }

    /// Puts another default in the place of the one that stands. Called by one thread at a time.
    pub(crate) fn change(&self, plan: Plan) {
        let next = self.standing().next(plan);
        // Release: its numbers were written before. Partner: `standing`.
        self.standing.store(next.0, Ordering::Release);
    }

    /// Bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + self.own.get().map_or(0, |own| size_of_val(&**own))
    }
}
