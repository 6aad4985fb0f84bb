use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;

use super::Model;
use super::decision::{Act, Answer, Ask, Call, Reason};
use super::plans::{Plan, Plans};
use super::sync::{AtomicU64, Ordering};
use super::table::{Key, Ledger, Overflow, Table};
use super::ticks::Ticks;
use super::word::{Pad, WordCell};

pub const MODELS: [Model; 32] = [
    model("word: three threads share a burst", None, three_threads_share_a_burst),
    model("word: a denial writes nothing", None, a_denial_writes_nothing),
    model("table: two threads make one bucket", Some(3), two_threads_make_one_bucket),
    model("table: one bucket while a slot is vacated", Some(2), one_bucket_while_a_slot_is_vacated),
    model("table: a claim has its own stamp", Some(1), a_claim_has_its_own_stamp),
    model("table: a word goes with its tag", Some(4), a_word_goes_with_its_tag),
    model("table: a new key inherits no debt", Some(3), a_new_key_inherits_no_debt),
    model("table: a stale call finds a forgotten debt", Some(3), a_stale_call_finds_a_forgotten_debt),
    model("table: a stalled call finds a forgotten debt", Some(1), a_stalled_call_finds_a_forgotten_debt),
    model("table: two keys never share a slot", Some(4), two_keys_never_share_a_slot),
    model("table: the cap holds", Some(4), the_cap_holds),
    model("table: a charge outlives an eviction", Some(4), a_charge_outlives_an_eviction),
    model("table: an eviction in debt loses nothing else", Some(4), an_eviction_in_debt_loses_nothing_else),
    model("table: a stalled call charges no other key", Some(3), a_stalled_call_charges_no_other_key),
    model("table: two charges make one bucket", Some(2), two_charges_make_one_bucket),
    model("table: a refund lets a bucket give way", Some(4), a_refund_lets_a_bucket_give_way),
    model("table: a refund comes late", Some(4), a_refund_comes_late),
    model("growth: a bucket is charged while it moves", Some(2), a_bucket_is_charged_while_it_moves),
    model("growth: a refund and a charge meet a move", Some(1), a_refund_and_a_charge_meet_a_move),
    model("growth: a refund meets a step", Some(2), a_refund_meets_a_step),
    model("growth: two threads make one bucket", Some(1), two_threads_make_one_bucket_while_the_table_grows),
    model("growth: a claim sees the step, or the step the claim", Some(1), a_claim_sees_the_step_or_the_step_the_claim),
    model("growth: two threads carry one debt", Some(0), two_threads_carry_one_debt),
    model("growth: a bucket makes room for another", Some(0), a_bucket_makes_room_for_another),
    model("growth: a bucket goes home under a charge", Some(2), a_bucket_goes_home_under_a_charge),
    model("shrinking: a bucket is charged while its line goes", Some(1), a_bucket_is_charged_while_its_line_goes),
    model("shrinking: a bucket is made while its line goes", Some(0), a_bucket_is_made_while_its_line_goes),
    model("shrinking: memory goes back in nobody's hands", Some(0), memory_goes_back_in_nobodys_hands),
    model("quotas: a default changes under a charge", Some(1), a_default_changes_under_a_charge),
    model("quotas: a refund and a charge meet a change", Some(1), a_refund_and_a_charge_meet_a_change),
    model("quotas: a default's number comes back", Some(0), a_defaults_number_comes_back),
    model("quotas: a bucket is made while its quota changes", Some(3), a_bucket_is_made_while_its_quota_changes),
];

const fn model(name: &'static str, preemptions: Option<usize>, case: fn()) -> Model {
    Model { name, preemptions, case }
}

/// One token per nanosecond, so that a token, a tick and a nanosecond are one.
fn ticks(burst: u64) -> Ticks {
    Ticks::fit(1, 1, burst).expect("fits")
}

/// Their lines (there is one slot in each), in tables of two, four and five: `K` (0, 1), (0, 3), (0, 3); `OTHER` (0, 1), (0, 1), (4, 1); `LAST`
/// (1, 0), (1, 0), (1, 4). The others are named for their first line in a table of four; `IN_LINE_2` has (0, 0), (2, 0), (2, 4).
const K: Key = Key::new(8);
const OTHER: Key = Key::new(4);
const LAST: Key = Key::new(5);
const IN_LINE_1: Key = Key::new(1);
const IN_LINE_2: Key = Key::new(2);
const IN_LINE_3: Key = Key::new(7);
/// Lives in line 0 of two, and belongs to line 2 alone from three on.
const MOVED: Key = Key::new(6);
/// Two that have no other line in a table of two.
const IN_LINE_1_ALONE: [Key; 2] = [Key::new(3), Key::new(11)];

/// A table, and what makes loom explore every order in which threads begin to work on it.
///
/// Loom remembers only the last access to a location, and so does not see that one thread's read and another's write are in conflict where
/// the other read the location in between, as every exchange here does. Which thread is first, it then leaves as it is. Read-modify-writes of
/// one location always conflict; from each order of these, the reads of whoever comes later are moved ahead of the writes.
struct Case {
    table: Table,
    begun: AtomicU64,
    /// The number of the plan that `K` and `MOVED` have of their own, or 0; `None`: no key ever has one.
    own: Option<AtomicU64>,
}

/// A table with so many lines at first and at most, under the plain quota of that burst.
fn table(lines: [usize; 2], max_keys: u64, overflow: Overflow, burst: u64) -> Table {
    Table::with_lines(lines[0], lines[1], max_keys, overflow, Plans::new(ticks(burst), [0; 2])).expect("small")
}

fn case(table: Table) -> Arc<Case> {
    Arc::new(Case { table, begun: AtomicU64::new(0), own: None })
}

impl Case {
    /// Called by each thread first. Relaxed, so that it orders nothing else.
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }
}

/// One thread's part: stamps that no other thread has, and what it evicted.
struct Part<'a> {
    case: &'a Case,
    stamp: Cell<u64>,
    evicted_in_debt: Cell<u64>,
}

impl<'a> Part<'a> {
    fn new(case: &'a Case, thread: u64) -> Self {
        Self { case, stamp: Cell::new(thread << 32), evicted_in_debt: Cell::new(0) }
    }

    fn check(&self, key: Key, at: u64) -> Answer {
        self.act(key, Act::Take, 1, at)
    }

    /// As a limiter does it: first where nearly all buckets are.
    fn act(&self, key: Key, act: Act, n: u64, at: u64) -> Answer {
        let table = &self.case.table;
        let (ask, answer) = table.check_first(key, act, n, || at);
        answer.unwrap_or_else(|| table.check(key, ask.call, self).1)
    }

    /// The tick at which the key's bucket is full; 0 if it has none.
    fn tat(&self, key: Key) -> u64 {
        self.case.table.peek(key, u64::MAX, self).tat
    }
}

impl Ledger for &Part<'_> {
    fn stamp(&self) -> u64 {
        self.stamp.replace(self.stamp.get() + 1)
    }

    fn lane(&self) -> usize {
        0
    }

    fn own_plan(&self, key: Key) -> Option<Plan> {
        let own = self.case.own.as_ref().filter(|_| [K, MOVED].contains(&key))?;
        // Acquire, as a map would.
        Some(own.load(Ordering::Acquire)).filter(|&number| number != 0).map(|number| Plan::new(number as usize))
    }

    fn evicted_full(&self) {}

    fn evicted_in_debt(&self) {
        self.evicted_in_debt.set(self.evicted_in_debt.get() + 1);
    }

    fn grown(&self) {}

    fn shrunk(&self) {}
}

fn allowed(answer: Answer) -> u64 {
    u64::from(answer.denied.is_none())
}

/// Starts a thread that checks a key once.
fn spawn(case: &Arc<Case>, thread: u64, key: Key, at: u64) -> thread::JoinHandle<(Answer, u64)> {
    let case = Arc::clone(case);
    thread::spawn(move || {
        case.begin();
        let part = Part::new(&case, thread);
        (part.check(key, at), part.evicted_in_debt.get())
    })
}

/// Starts a thread that does that with so many tokens of a key at 0.
fn spawn_act(case: &Arc<Case>, thread: u64, key: Key, act: Act, n: u64) -> thread::JoinHandle<Answer> {
    let case = Arc::clone(case);
    thread::spawn(move || {
        case.begin();
        Part::new(&case, thread).act(key, act, n, 0)
    })
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

// The word

fn take(word: &AtomicU64, ticks: &Ticks, at: u64, n: u64) -> Answer {
    WordCell::new(word, Pad::of(0)).charge(&Ask::new(*ticks, Call { act: Act::Take, n, elapsed: at }), || true).expect("live")
}

fn three_threads_share_a_burst() {
    let word = Arc::new(AtomicU64::new(0));
    let threads = [(0, 1), (0, 2), (1, 1)].map(|(at, n)| {
        let word = Arc::clone(&word);
        thread::spawn(move || (n, take(&word, &ticks(2), at, n)))
    });
    let admitted: u64 = threads.map(join).into_iter().map(|(n, answer)| n * allowed(answer)).sum();
    // The promise: stamped within [0, 1] at most burst + 1. And what is charged is what was admitted.
    assert!(admitted <= 3, "{admitted} admitted");
    let tat = word.load(Ordering::Relaxed);
    assert!(admitted <= tat && tat <= admitted + 1, "{admitted} admitted, and the word says {tat}");
}

fn a_denial_writes_nothing() {
    let word = Arc::new(AtomicU64::new(0));
    let other = {
        let word = Arc::clone(&word);
        thread::spawn(move || take(&word, &ticks(2), 0, 2))
    };
    let mine = take(&word, &ticks(2), 0, 2);
    let admitted = allowed(mine) + allowed(join(other));
    assert_eq!(admitted, 1, "calls admitted");
    assert_eq!(word.load(Ordering::Relaxed), 2, "the word after one call of 2");
}

// One bucket per key

fn two_threads_make_one_bucket() {
    let case = case(table([2, 2], 2, Overflow::DenyNew, 1));
    let other = spawn(&case, 1, K, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    let (other, _) = join(other);
    assert_eq!(allowed(mine) + allowed(other), 1, "of burst 1");
    assert_eq!(part.tat(K), 1, "where the bucket is");
}

/// The key's first slot is taken by a full bucket, which gives way while two threads bring the key.
fn one_bucket_while_a_slot_is_vacated() {
    let case = case(table([2, 2], 1, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 3).check(OTHER, 0)), 1);
    let others = [1, 2].map(|thread| spawn(&case, thread, K, 1));
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(OTHER, 1);
    let admitted = others.map(join).into_iter().map(|(answer, _)| allowed(answer)).sum::<u64>();
    // Whoever has the place keeps the others out; but the key's own two calls meet in one bucket.
    let owed = part.tat(K).saturating_sub(1);
    assert!(owed == admitted, "{admitted} admitted, {owed} owed");
    assert!(admitted == 0 || allowed(mine) == 0, "both keys in a table of one");
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
}

// A slot changes hands

/// `K` is full at 1 and gives way to `LAST`, while a call for `K` is between reading its tag and its word.
fn a_word_goes_with_its_tag() {
    let case = case(table([2, 2], 1, Overflow::EvictLeastDebt, 1));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let other = spawn(&case, 1, LAST, 1);
    case.begin();
    let mine = Part::new(&case, 0).check(K, 1);
    let (other, _) = join(other);
    let no_room = [mine, other].into_iter().filter(|answer| answer.denied == Some(Reason::NoRoom)).count() as u64;
    // Both keys are full at 1: neither is denied for the other's debt.
    assert_eq!(allowed(mine) + allowed(other) + no_room, 2, "{mine:?}, {other:?}");
}

/// Two calls bring `LAST`, whose slot is that of `K`, which owes much. Neither is denied for it.
fn a_new_key_inherits_no_debt() {
    let case = case(table([2, 2], 1, Overflow::EvictLeastDebt, 2));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 4)), 1);
    let other = spawn(&case, 1, LAST, 0);
    case.begin();
    let mine = Part::new(&case, 0).check(LAST, 0);
    let (other, _) = join(other);
    for answer in [mine, other] {
        assert_ne!(answer.denied, Some(Reason::OverQuota), "of burst 2");
    }
}

/// `K`, spent at 0, is full at 1 and gives way to `OTHER`. A call for `K` that is stamped 0 must not find a fresh bucket then.
fn a_stale_call_finds_a_forgotten_debt() {
    let case = case(table([4, 4], 2, Overflow::EvictLeastDebt, 1));
    let before = Part::new(&case, 2);
    assert_eq!(allowed(before.check(K, 0)), 1);
    assert_eq!(allowed(before.check(IN_LINE_1, 5)), 1);
    let stale = spawn(&case, 1, K, 0);
    case.begin();
    Part::new(&case, 0).check(OTHER, 1);
    let (stale, _) = join(stale);
    assert_eq!(allowed(stale), 0, "a second call stamped 0, of burst 1");
}

/// The same, when `K` comes and goes while the call stands still between finding nothing and making a bucket.
fn a_stalled_call_finds_a_forgotten_debt() {
    let case = case(table([4, 4], 2, Overflow::EvictLeastDebt, 1));
    assert_eq!(allowed(Part::new(&case, 2).check(IN_LINE_1, 5)), 1);
    let stalled = spawn(&case, 1, K, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let first = part.check(K, 0);
    part.check(OTHER, 1);
    let (stalled, _) = join(stalled);
    // `IN_LINE_1` may be evicted in debt, and `OTHER`; `K` is not, because no call finds another key without a place while it owes.
    assert!(allowed(first) + allowed(stalled) <= 1, "two calls stamped 0, of burst 1: {first:?}, {stalled:?}");
}

/// Two claims for `K`; the one in line 3 is ended, and the slot claimed for another key, while its first owner is about to make it a bucket.
fn a_claim_has_its_own_stamp() {
    let case = case(table([4, 4], 2, Overflow::DenyNew, 1));
    let other = spawn(&case, 1, K, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    part.check(IN_LINE_3, 0);
    let (other, _) = join(other);
    assert_eq!(allowed(mine) + allowed(other), 1, "of burst 1");
}

fn two_keys_never_share_a_slot() {
    let case = case(table([2, 2], 1, Overflow::DenyNew, 1));
    let other = spawn(&case, 1, OTHER, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    let (other, _) = join(other);
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
    assert!(allowed(mine) + allowed(other) <= 1, "two keys in a table of one");
    for (key, answer) in [(K, mine), (OTHER, other)] {
        assert_eq!(part.tat(key), allowed(answer), "a key owes what it was allowed");
    }
}

/// Two keys that prefer different slots, where there may be only one bucket.
fn the_cap_holds() {
    let case = case(table([2, 2], 1, Overflow::DenyNew, 1));
    let other = spawn(&case, 1, LAST, 0);
    case.begin();
    let mine = Part::new(&case, 0).check(K, 0);
    let (other, _) = join(other);
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
    assert!(allowed(mine) + allowed(other) <= 1, "two keys in a table of one");
}

/// `K` is full at 1. A new key may drop it, or a call may charge it; if both, the charge is not lost.
fn a_charge_outlives_an_eviction() {
    let case = case(table([2, 2], 1, Overflow::DenyNew, 1));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let other = spawn(&case, 1, OTHER, 1);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 1);
    let (other, _) = join(other);
    for (key, answer) in [(K, mine), (OTHER, other)] {
        let owed = part.tat(key).saturating_sub(1);
        assert_eq!(owed, allowed(answer), "a key owes what it was allowed");
    }
}

/// `K` owes and is evicted for `OTHER`, while `K` is charged again: what is let off is counted, and nothing else is lost.
fn an_eviction_in_debt_loses_nothing_else() {
    let case = case(table([2, 2], 1, Overflow::EvictLeastDebt, 1));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let other = spawn(&case, 1, OTHER, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    let (_, evicted) = join(other);
    let evicted = evicted + part.evicted_in_debt.get();
    assert!(allowed(mine) <= evicted, "{} more of burst 1, and {evicted} evicted", allowed(mine));
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
}

/// `K` owes one and is evicted for `OTHER`, which then owes one too: the same arrival time in the same slot. A call for `K` that had read it
/// charges its own bucket, or none.
fn a_stalled_call_charges_no_other_key() {
    let case = case(table([2, 2], 1, Overflow::EvictLeastDebt, 2));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let other = spawn(&case, 1, OTHER, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    let (other, _) = join(other);
    let owed = part.tat(OTHER);
    assert!(
        owed <= allowed(other),
        "{owed} owed by a key that was allowed {}, while another was allowed {}",
        allowed(other),
        allowed(mine)
    );
}

/// Both are charged beyond the burst, which finds no bucket to say that it may not.
fn two_charges_make_one_bucket() {
    let case = case(table([2, 2], 2, Overflow::DenyNew, 1));
    let other = spawn_act(&case, 1, K, Act::Charge, 2);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.act(K, Act::Charge, 2, 0);
    let answers = [mine, join(other)];
    assert_eq!(answers.map(allowed), [1, 1], "{answers:?}");
    assert_eq!(part.tat(K), 4, "owed");
}

/// `K` owes two of burst 2, and gets them back. Then it is full, and may give way to `OTHER`; if not, it has its tokens.
fn a_refund_lets_a_bucket_give_way() {
    let case = case(table([2, 2], 1, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 2).act(K, Act::Take, 2, 0)), 1);
    let other = spawn(&case, 1, OTHER, 0);
    case.begin();
    let part = Part::new(&case, 0);
    assert_eq!(part.act(K, Act::GiveBack, 2, 0).debt, 0, "owed after the refund");
    let mine = part.act(K, Act::Take, 2, 0);
    let (other, _) = join(other);
    assert_ne!(mine.denied, Some(Reason::OverQuota), "{mine:?}");
    assert!(allowed(mine) + allowed(other) <= 1, "two keys in a table of one");
    assert_eq!([K, OTHER].map(|key| part.tat(key)), [2 * allowed(mine), allowed(other)], "a key owes what it was allowed");
}

/// `K` is full at 1, and gives way to `OTHER` then, while one of its tokens comes back: there is nothing to give back to, or nothing any more.
fn a_refund_comes_late() {
    let case = case(table([2, 2], 1, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let other = spawn(&case, 1, OTHER, 1);
    case.begin();
    let part = Part::new(&case, 0);
    let refund = part.act(K, Act::GiveBack, 1, 1);
    let (other, _) = join(other);
    assert_eq!((allowed(refund), refund.debt), (1, 0), "{refund:?}");
    assert_eq!((allowed(other), part.tat(OTHER)), (1, 2), "{other:?}");
    assert!(part.tat(K) <= 1, "full at 1");
    assert_eq!(case.table.len(), 1, "a refund makes no bucket");
}

// The table grows

/// `MOVED` owes one of burst 2 and is charged meanwhile.
fn a_bucket_is_charged_while_it_moves() {
    let case = case(table([2, 3], 3, Overflow::DenyNew, 2));
    let part = Part::new(&case, 3);
    assert_eq!(allowed(part.check(MOVED, 0)), 1);
    let other = spawn(&case, 1, LAST, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [part.check(MOVED, 0), part.check(MOVED, 0)];
    let (other, _) = join(other);
    assert_eq!(calls.into_iter().map(allowed).sum::<u64>(), 1, "more calls of burst 2: {calls:?}");
    assert_eq!((part.tat(MOVED), part.tat(LAST)), (2, allowed(other)), "owed");
}

/// `MOVED` owes two of burst 2; meanwhile one comes back, and three more are charged.
fn a_refund_and_a_charge_meet_a_move() {
    let case = case(table([2, 3], 3, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 3).act(MOVED, Act::Take, 2, 0)), 1);
    let other = spawn(&case, 1, LAST, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [(Act::GiveBack, 1), (Act::Charge, 3)].map(|(act, n)| part.act(MOVED, act, n, 0));
    let (other, _) = join(other);
    assert_eq!(calls.map(|answer| (allowed(answer), answer.debt)), [(1, 1), (1, 4)], "{calls:?}");
    assert_eq!((part.tat(MOVED), part.tat(LAST)), (4, allowed(other)), "owed");
}

/// `MOVED` has a quota of its own, and so is looked for in lines that were read before; meanwhile it goes to one that was not there then.
fn a_refund_meets_a_step() {
    let own = Plan::new(super::plans::DEFAULTS);
    let table = table([2, 3], 3, Overflow::DenyNew, 1);
    table.plans().write(own, ticks(2), [0; 2], 0);
    let case = Arc::new(Case { table, begun: AtomicU64::new(0), own: Some(AtomicU64::new(own.number() as u64)) });
    assert_eq!(allowed(Part::new(&case, 3).act(MOVED, Act::Take, 2, 0)), 1);
    let other = spawn(&case, 1, LAST, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let refund = part.act(MOVED, Act::GiveBack, 1, 0);
    let (other, _) = join(other);
    assert_eq!((allowed(refund), refund.debt), (1, 1), "{refund:?}");
    assert_eq!((part.tat(MOVED), part.tat(LAST)), (1, allowed(other)), "owed");
}

/// Each of the two also makes the table grow, and then the bucket belongs to line 1 only.
fn two_threads_make_one_bucket_while_the_table_grows() {
    const MOVED: Key = IN_LINE_1_ALONE[0];
    let case = case(table([1, 2], 2, Overflow::DenyNew, 1));
    let other = spawn(&case, 1, MOVED, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(MOVED, 0);
    let (other, _) = join(other);
    assert!(allowed(mine) + allowed(other) <= 1, "of burst 1");
    assert_eq!(part.tat(MOVED), allowed(mine) + allowed(other), "where the bucket is");
}

/// `MOVED` is claimed in line 0 while another call makes the table grow, for which it finds no room itself, and then brings `MOVED` too.
fn a_claim_sees_the_step_or_the_step_the_claim() {
    let case = case(table([2, 3], 3, Overflow::DenyNew, 1));
    let [there, denied] = IN_LINE_1_ALONE;
    assert_eq!(allowed(Part::new(&case, 3).check(there, 0)), 1);
    let other = spawn(&case, 1, MOVED, 0);
    case.begin();
    let part = Part::new(&case, 0);
    part.check(denied, 0);
    let mine = part.check(MOVED, 0);
    let (other, _) = join(other);
    assert_eq!(allowed(mine) + allowed(other), 1, "of burst 1: {mine:?}, {other:?}");
    assert_eq!(part.tat(MOVED), 1, "where the bucket is");
}

/// `MOVED` owes its burst in line 0. The table grows, and two calls find it on its way.
fn two_threads_carry_one_debt() {
    let case = case(table([2, 3], 3, Overflow::DenyNew, 1));
    assert_eq!(allowed(Part::new(&case, 3).check(MOVED, 0)), 1);
    let grows = spawn(&case, 1, LAST, 0);
    let other = spawn(&case, 2, MOVED, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(MOVED, 0);
    join(grows);
    let (other, _) = join(other);
    assert_eq!(allowed(mine) + allowed(other), 0, "more of burst 1");
    assert_eq!(part.tat(MOVED), 1, "owed");
}

/// `K` and `IN_LINE_1` owe one each in both lines of `OTHER`; one of them moves to its other line, and `K` is charged meanwhile.
fn a_bucket_makes_room_for_another() {
    let case = case(table([4, 4], 4, Overflow::DenyNew, 2));
    let part = Part::new(&case, 3);
    assert_eq!(allowed(part.check(K, 0)), 1);
    assert_eq!(allowed(part.check(IN_LINE_1, 0)), 1);
    let other = spawn(&case, 1, OTHER, 0);
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [part.check(K, 0), part.check(K, 0)];
    let (other, _) = join(other);
    assert_eq!(calls.into_iter().map(allowed).sum::<u64>(), 1, "more calls of burst 2: {calls:?}");
    assert_eq!((part.tat(K), part.tat(OTHER)), (2, allowed(other)), "owed");
}

/// `K` is in line 1, and goes home to line 0, from where `OTHER` is dropped before. It owes a second and more, and is charged meanwhile.
fn a_bucket_goes_home_under_a_charge() {
    const AGES: u64 = 1 << 40;
    let case = case(table([2, 2], 2, Overflow::DenyNew, AGES + 2));
    let part = Part::new(&case, 3);
    assert_eq!(allowed(part.check(OTHER, 0)), 1);
    assert_eq!(allowed(part.act(K, Act::Take, AGES, 0)), 1);
    let later = AGES / 2;
    let tending = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            case.table.tend(later, &Part::new(&case, 1));
        })
    };
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [part.check(K, later), part.check(K, later)];
    join(tending);
    assert_eq!(calls.map(allowed), [1, 1], "{calls:?}");
    assert_eq!((part.tat(K), part.tat(OTHER)), (AGES + 2, 0), "owed");
}

// The table shrinks

/// A table of five lines that can be four, and three buckets that were charged at 0.
fn about_to_shrink(burst: u64) -> Arc<Case> {
    let case = case(table([4, 5], 5, Overflow::DenyNew, burst));
    for key in FULL_AT_9 {
        assert_eq!(allowed(Part::new(&case, 3).check(key, 0)), 1);
    }
    assert_eq!(case.table.slots_in_use(), 5, "lines of one slot");
    case
}

const FULL_AT_9: [Key; 3] = [LAST, IN_LINE_2, IN_LINE_3];

/// Starts a thread that shrinks the table, where all is full that was charged at 0.
fn shrink(case: &Arc<Case>, at: u64) -> thread::JoinHandle<()> {
    let case = Arc::clone(case);
    thread::spawn(move || {
        case.begin();
        case.table.shrink(at, &Part::new(&case, 1));
    })
}

/// `OTHER` owes one in line 4, and is charged while that goes.
fn a_bucket_is_charged_while_its_line_goes() {
    let case = about_to_shrink(2);
    assert_eq!(allowed(Part::new(&case, 2).check(OTHER, 9)), 1);
    let shrinking = shrink(&case, 9);
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [part.check(OTHER, 9), part.check(OTHER, 9)];
    join(shrinking);
    assert_eq!(calls.into_iter().map(allowed).sum::<u64>(), 1, "more calls of burst 2: {calls:?}");
    assert_eq!(part.tat(OTHER), 11, "owed");
}

/// `OTHER` is made in line 4 while that goes, and by another call in what is left.
fn a_bucket_is_made_while_its_line_goes() {
    let case = about_to_shrink(1);
    let shrinking = shrink(&case, 9);
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [part.check(OTHER, 9), part.check(OTHER, 9)];
    join(shrinking);
    assert_eq!(calls.into_iter().map(allowed).sum::<u64>(), 1, "of burst 1: {calls:?}");
    assert_eq!(part.tat(OTHER), 10, "where the bucket is");
}

/// The memory of line 4 goes back and the table grows again, while a call that still knew the line makes a bucket there.
fn memory_goes_back_in_nobodys_hands() {
    let case = about_to_shrink(1);
    let shrinking = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            let part = Part::new(&case, 1);
            case.table.shrink(9, &part);
            for key in FULL_AT_9 {
                part.check(key, 9);
            }
        })
    };
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [part.check(OTHER, 9), part.check(OTHER, 9)];
    join(shrinking);
    assert_eq!(calls.into_iter().map(allowed).sum::<u64>(), 1, "of burst 1: {calls:?}");
    assert_eq!(part.tat(OTHER), 10, "where the bucket is");
}

// Quotas change

/// `K` owes one of burst 2. The default becomes one of burst 3 at 0, while it is charged: what it owes, it goes on owing.
fn a_default_changes_under_a_charge() {
    let case = case(table([2, 2], 2, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let change = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            let plans = case.table.plans();
            // Half a token a nanosecond: two ticks for each token.
            let half = Ticks::fit(1, 2, 3).expect("fits");
            plans.write(Plan::new(1), half, [1, 2], 0);
            plans.change(Plan::new(1));
            case.table.replan_all(0, &Part::new(&case, 1))
        })
    };
    case.begin();
    let part = Part::new(&case, 0);
    let mine = [part.check(K, 0), part.check(K, 0)];
    // Where a call has the key's other slot in its hands, there is no room for the bucket to move to.
    if join(change).is_err() {
        case.table.replan_all(0, &part).expect("there is room");
    }
    let state = case.table.peek(K, 0, &part);
    let admitted = 1 + mine.into_iter().map(allowed).sum::<u64>();
    assert_eq!((state.label, state.tat), ([1, 2], 2 * admitted), "two ticks for each of {admitted}");
}

/// The same while one of two comes back, and two more are charged: what is owed beyond the burst stays owed too.
fn a_refund_and_a_charge_meet_a_change() {
    let case = case(table([2, 2], 2, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 2).act(K, Act::Take, 2, 0)), 1);
    let change = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            let plans = case.table.plans();
            plans.write(Plan::new(1), Ticks::fit(1, 2, 2).expect("fits"), [1, 2], 0);
            plans.change(Plan::new(1));
            case.table.replan_all(0, &Part::new(&case, 1))
        })
    };
    case.begin();
    let part = Part::new(&case, 0);
    let calls = [(Act::GiveBack, 1), (Act::Charge, 2)].map(|(act, n)| part.act(K, act, n, 0));
    if join(change).is_err() {
        case.table.replan_all(0, &part).expect("there is room");
    }
    assert_eq!(calls.map(allowed), [1, 1], "{calls:?}");
    let state = case.table.peek(K, 0, &part);
    assert_eq!((state.label, state.tat), ([1, 2], 2 * 3), "two ticks for each of three: {calls:?}");
}

/// A charge meets two changes, so that the default has the number again that it had at first: a call that read what it said then must not go by that.
fn a_defaults_number_comes_back() {
    let case = case(table([2, 2], 2, Overflow::DenyNew, 2));
    assert_eq!(allowed(Part::new(&case, 2).check(K, 0)), 1);
    let change = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            let plans = case.table.plans();
            for (number, period) in [(1, 2), (0, 4)] {
                plans.write(Plan::new(number), Ticks::fit(1, period, 3).expect("fits"), [1, period], 0);
                plans.change(Plan::new(number));
                if case.table.replan_all(0, &Part::new(&case, 1)).is_err() {
                    return;
                }
            }
        })
    };
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    join(change);
    let state = case.table.peek(K, 0, &part);
    let [_, ticks] = state.label;
    assert_eq!(state.tat, ticks * (1 + allowed(mine)), "so many ticks for each token");
}

/// `K` gets a quota of its own, of two ticks a token, while two calls make its bucket.
fn a_bucket_is_made_while_its_quota_changes() {
    let case = Arc::new(Case { table: table([2, 2], 2, Overflow::DenyNew, 2), begun: AtomicU64::new(0), own: Some(AtomicU64::new(0)) });
    let change = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            let own = Plan::new(super::plans::DEFAULTS);
            case.table.plans().write(own, Ticks::fit(1, 2, 3).expect("fits"), [1, 2], 0);
            case.own.as_ref().expect("there").store(own.number() as u64, Ordering::Release);
            case.table.replan(K, 0, &Part::new(&case, 1))
        })
    };
    case.begin();
    let part = Part::new(&case, 0);
    let mine = part.check(K, 0);
    // As above.
    if join(change).is_err() {
        case.table.replan(K, 0, &part).expect("there is room");
    }
    let state = case.table.peek(K, 0, &part);
    assert_eq!((state.label, state.tat), ([1, 2], 2 * allowed(mine)), "two ticks a token");
}
