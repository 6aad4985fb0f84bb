use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;

use super::Model;
use super::decision::{Answer, Ask, Reason};
use super::sync::{AtomicU64, Ordering};
use super::table::{Key, Ledger, Overflow, Table};
use super::ticks::Ticks;
use super::word::WordCell;

pub const MODELS: [Model; 13] = [
    model("word: three threads share a burst", None, three_threads_share_a_burst),
    model("word: a denial writes nothing", None, a_denial_writes_nothing),
    model("table: two threads make one bucket", Some(3), two_threads_make_one_bucket),
    model("table: one bucket while a slot is vacated", Some(2), one_bucket_while_a_slot_is_vacated),
    model("table: a claim has its own stamp", Some(3), a_claim_has_its_own_stamp),
    model("table: a word goes with its tag", Some(4), a_word_goes_with_its_tag),
    model("table: a new key inherits no debt", Some(3), a_new_key_inherits_no_debt),
    model("table: a stale call finds a forgotten debt", Some(3), a_stale_call_finds_a_forgotten_debt),
    model("table: a stalled call finds a forgotten debt", Some(1), a_stalled_call_finds_a_forgotten_debt),
    model("table: two keys never share a slot", Some(4), two_keys_never_share_a_slot),
    model("table: the cap holds", Some(4), the_cap_holds),
    model("table: a charge outlives an eviction", Some(4), a_charge_outlives_an_eviction),
    model("table: an eviction in debt loses nothing else", Some(4), an_eviction_in_debt_loses_nothing_else),
];

const fn model(name: &'static str, preemptions: Option<usize>, case: fn()) -> Model {
    Model { name, preemptions, case }
}

/// One token per nanosecond, so that a token, a tick and a nanosecond are one.
fn ticks(burst: u64) -> Ticks {
    Ticks::fit(1, 1, burst).expect("fits")
}

/// In a table of two lines, all keys share both; the first two prefer the one, the third the other. In one of four, `K` has lines 0 and 2,
/// `OTHER` has 0 and 1, and the last two have their first line in their names.
const K: Key = Key::new(1);
const OTHER: Key = Key::new(2);
const LAST: Key = Key::new(u64::MAX);
const IN_LINE_1: Key = Key::new(1 << 62 | 3);
const IN_LINE_2: Key = Key::new(2 << 62 | 4);

/// One thread's part: stamps that no other thread has, and what it evicted.
struct Part {
    stamp: Cell<u64>,
    evicted_in_debt: Cell<u64>,
}

impl Part {
    fn new(thread: u64) -> Self {
        Self { stamp: Cell::new(thread << 32), evicted_in_debt: Cell::new(0) }
    }

    fn check(&self, table: &Table, key: Key, burst: u64, at: u64) -> Answer {
        let ticks = ticks(burst);
        table.check(key, || Ask::new(&ticks, at, 1), self).1
    }
}

impl Ledger for &Part {
    fn stamp(&self) -> u64 {
        self.stamp.replace(self.stamp.get() + 1)
    }

    fn evicted_full(&self) {}

    fn evicted_in_debt(&self) {
        self.evicted_in_debt.set(self.evicted_in_debt.get() + 1);
    }
}

fn allowed(answer: Answer) -> u64 {
    u64::from(answer.denied.is_none())
}

/// A table, and what makes loom explore every order in which threads begin to work on it.
///
/// Loom remembers only the last access to a location, and so does not see that one thread's read and another's write are in conflict where
/// the other read the location in between, as every exchange here does. Which thread is first, it then leaves as it is. Read-modify-writes of
/// one location always conflict; from each order of these, the reads of whoever comes later are moved ahead of the writes.
struct Case {
    table: Table,
    begun: AtomicU64,
}

fn case(max_keys: usize, overflow: Overflow) -> Arc<Case> {
    Arc::new(Case { table: Table::new(max_keys, overflow).expect("small"), begun: AtomicU64::new(0) })
}

impl Case {
    /// Called by each thread first. Relaxed, so that it orders nothing else.
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts a thread that checks a key once.
fn spawn(case: &Arc<Case>, thread: u64, key: Key, burst: u64, at: u64) -> thread::JoinHandle<(Answer, u64)> {
    let case = Arc::clone(case);
    thread::spawn(move || {
        case.begin();
        let part = Part::new(thread);
        (part.check(&case.table, key, burst, at), part.evicted_in_debt.get())
    })
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

// The word

fn take(word: &AtomicU64, ticks: &Ticks, at: u64, n: u64) -> Answer {
    let cell = WordCell::new(word);
    let ask = Ask::new(ticks, at, n);
    cell.charge(cell.load(Ordering::Relaxed), &ask, || true).expect("live")
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
    let case = case(2, Overflow::DenyNew);
    let other = spawn(&case, 1, K, 1, 0);
    case.begin();
    let mine = Part::new(0).check(&case.table, K, 1, 0);
    let (other, _) = join(other);
    assert_eq!(allowed(mine) + allowed(other), 1, "of burst 1");
    assert_eq!(case.table.peek(K), Some(1), "where the bucket is");
}

/// The key's first slot is taken by a full bucket, which gives way while two threads bring the key.
fn one_bucket_while_a_slot_is_vacated() {
    let case = case(1, Overflow::DenyNew);
    assert_eq!(allowed(Part::new(3).check(&case.table, OTHER, 1, 0)), 1);
    let others = [1, 2].map(|thread| spawn(&case, thread, K, 2, 1));
    case.begin();
    let mine = Part::new(0).check(&case.table, OTHER, 1, 1);
    let admitted = others.map(join).into_iter().map(|(answer, _)| allowed(answer)).sum::<u64>();
    // Whoever has the place keeps the others out; but the key's own two calls meet in one bucket.
    let owed = case.table.peek(K).map_or(0, |tat| tat - 1);
    assert!(owed == admitted, "{admitted} admitted, {owed} owed");
    assert!(admitted == 0 || allowed(mine) == 0, "both keys in a table of one");
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
}

// A slot changes hands

/// `K` is full at 1 and gives way to `LAST`, while a call for `K` is between reading its tag and its word.
fn a_word_goes_with_its_tag() {
    let case = case(1, Overflow::EvictLeastDebt);
    assert_eq!(allowed(Part::new(2).check(&case.table, K, 1, 0)), 1);
    let other = spawn(&case, 1, LAST, 1, 1);
    case.begin();
    let mine = Part::new(0).check(&case.table, K, 1, 1);
    let (other, _) = join(other);
    let no_room = [mine, other].into_iter().filter(|answer| answer.denied == Some(Reason::NoRoom)).count() as u64;
    // Both keys are full at 1: neither is denied for the other's debt.
    assert_eq!(allowed(mine) + allowed(other) + no_room, 2, "{mine:?}, {other:?}");
}

/// Two calls bring `LAST`, whose slot is that of `K`, which owes five. Neither is denied for it.
fn a_new_key_inherits_no_debt() {
    let case = case(1, Overflow::EvictLeastDebt);
    assert_eq!(allowed(Part::new(2).check(&case.table, K, 1, 4)), 1);
    let other = spawn(&case, 1, LAST, 2, 0);
    case.begin();
    let mine = Part::new(0).check(&case.table, LAST, 2, 0);
    let (other, _) = join(other);
    for answer in [mine, other] {
        assert_ne!(answer.denied, Some(Reason::OverQuota), "of burst 2");
    }
}

/// `K`, spent at 0, is full at 1 and gives way to `OTHER`. A call for `K` that is stamped 0 must not find a fresh bucket then.
fn a_stale_call_finds_a_forgotten_debt() {
    let case = case(2, Overflow::EvictLeastDebt);
    let before = Part::new(2);
    assert_eq!(allowed(before.check(&case.table, K, 1, 0)), 1);
    assert_eq!(allowed(before.check(&case.table, IN_LINE_1, 1, 5)), 1);
    let stale = spawn(&case, 1, K, 1, 0);
    case.begin();
    Part::new(0).check(&case.table, OTHER, 1, 1);
    let (stale, _) = join(stale);
    assert_eq!(allowed(stale), 0, "a second call stamped 0, of burst 1");
}

/// The same, when `K` comes and goes while the call stands still between finding nothing and making a bucket.
fn a_stalled_call_finds_a_forgotten_debt() {
    let case = case(2, Overflow::EvictLeastDebt);
    assert_eq!(allowed(Part::new(2).check(&case.table, IN_LINE_1, 1, 5)), 1);
    let stalled = spawn(&case, 1, K, 1, 0);
    case.begin();
    let part = Part::new(0);
    let first = part.check(&case.table, K, 1, 0);
    part.check(&case.table, OTHER, 1, 1);
    let (stalled, _) = join(stalled);
    // `IN_LINE_1` may be evicted in debt, and `OTHER`; `K` is not, because no call finds another key without a place while it owes.
    assert!(allowed(first) + allowed(stalled) <= 1, "two calls stamped 0, of burst 1: {first:?}, {stalled:?}");
}

/// Two claims for `K`; the one in line 2 is ended, and the slot claimed for another key, while its first owner is about to make it a bucket.
fn a_claim_has_its_own_stamp() {
    let case = case(2, Overflow::DenyNew);
    let other = spawn(&case, 1, K, 1, 0);
    case.begin();
    let part = Part::new(0);
    let mine = part.check(&case.table, K, 1, 0);
    part.check(&case.table, IN_LINE_2, 1, 0);
    let (other, _) = join(other);
    assert_eq!(allowed(mine) + allowed(other), 1, "of burst 1");
}

fn two_keys_never_share_a_slot() {
    let case = case(1, Overflow::DenyNew);
    let other = spawn(&case, 1, OTHER, 1, 0);
    case.begin();
    let mine = Part::new(0).check(&case.table, K, 1, 0);
    let (other, _) = join(other);
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
    assert!(allowed(mine) + allowed(other) <= 1, "two keys in a table of one");
    for (key, answer) in [(K, mine), (OTHER, other)] {
        assert_eq!(case.table.peek(key).unwrap_or(0), allowed(answer), "a key owes what it was allowed");
    }
}

/// Two keys that prefer different slots, where there may be only one bucket.
fn the_cap_holds() {
    let case = case(1, Overflow::DenyNew);
    let other = spawn(&case, 1, LAST, 1, 0);
    case.begin();
    let mine = Part::new(0).check(&case.table, K, 1, 0);
    let (other, _) = join(other);
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
    assert!(allowed(mine) + allowed(other) <= 1, "two keys in a table of one");
}

/// `K` is full at 1. A new key may drop it, or a call may charge it; if both, the charge is not lost.
fn a_charge_outlives_an_eviction() {
    let case = case(1, Overflow::DenyNew);
    assert_eq!(allowed(Part::new(2).check(&case.table, K, 1, 0)), 1);
    let other = spawn(&case, 1, OTHER, 1, 1);
    case.begin();
    let mine = Part::new(0).check(&case.table, K, 1, 1);
    let (other, _) = join(other);
    for (key, answer) in [(K, mine), (OTHER, other)] {
        let owed = case.table.peek(key).map_or(0, |tat| tat.saturating_sub(1));
        assert_eq!(owed, allowed(answer), "a key owes what it was allowed");
    }
}

/// `K` owes and is evicted for `OTHER`, while `K` is charged again: what is let off is counted, and nothing else is lost.
fn an_eviction_in_debt_loses_nothing_else() {
    let case = case(1, Overflow::EvictLeastDebt);
    assert_eq!(allowed(Part::new(2).check(&case.table, K, 1, 0)), 1);
    let other = spawn(&case, 1, OTHER, 1, 0);
    case.begin();
    let part = Part::new(0);
    let mine = part.check(&case.table, K, 1, 0);
    let (_, evicted) = join(other);
    let evicted = evicted + part.evicted_in_debt.get();
    assert!(allowed(mine) <= evicted, "{} more of burst 1, and {evicted} evicted", allowed(mine));
    assert!(case.table.len() <= 1, "{} of at most 1", case.table.len());
}
