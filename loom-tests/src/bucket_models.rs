use loom::sync::Arc;
use loom::thread;

use super::Model;
use super::account::{Account, SIDE_WORDS, Terms};
use super::decision::{Act, Answer, Ask, Call};
use super::sync::{AtomicU64, Ordering};
use super::ticks::Ticks;

pub const MODELS: [Model; 8] = [
    model("bucket: a charge meets a change", None, a_charge_meets_a_change),
    model("bucket: a charge meets two changes", None, a_charge_meets_two_changes),
    model("bucket: a denial meets two changes", None, a_denial_meets_two_changes),
    model("bucket: a reading meets two changes", Some(3), a_reading_meets_two_changes),
    model("bucket: two charges meet a change", None, two_charges_meet_a_change),
    model("bucket: a refund meets a change", Some(3), a_refund_meets_a_change),
    model("bucket: a charge stalls until its word comes again", Some(3), a_charge_stalls_until_its_word_comes_again),
    model("bucket: a denial stalls until its word comes again", Some(3), a_denial_stalls_until_its_word_comes_again),
];

const fn model(name: &'static str, preemptions: Option<usize>, case: fn()) -> Model {
    Model { name, preemptions, case }
}

/// A token costs so many ticks, of a nanosecond each.
fn terms(unit: u64, burst: u64) -> Terms {
    Terms { ticks: Ticks::fit(1, unit, burst).expect("fits"), label: [unit, burst] }
}

/// An account, and what makes loom explore every order in which threads begin (see `models`).
struct Case {
    account: Account,
    begun: AtomicU64,
}

impl Case {
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }
}

/// A bucket that owes so many tokens, at no time.
fn case(terms: &Terms, owed: u64) -> Arc<Case> {
    let [first, second] = [Account::opening(terms), [0; SIDE_WORDS]].map(|numbers| numbers.map(AtomicU64::new));
    let account = Account::of(AtomicU64::new(0), first, second);
    let (_, answer) = account.decide(at_no_time(Act::Take, owed));
    assert_eq!(answer.denied, None);
    Arc::new(Case { account, begun: AtomicU64::new(0) })
}

const fn at_no_time(act: Act, n: u64) -> Call {
    Call { act, n, elapsed: 0 }
}

/// Starts a thread that asks for a token, once, at no time.
fn spawn(case: &Arc<Case>) -> thread::JoinHandle<(Ask, Answer)> {
    spawn_act(case, Act::Take)
}

/// Starts a thread that does that with a token.
fn spawn_act(case: &Arc<Case>, act: Act) -> thread::JoinHandle<(Ask, Answer)> {
    let case = Arc::clone(case);
    thread::spawn(move || {
        case.begin();
        case.account.decide(at_no_time(act, 1))
    })
}

fn change(case: &Case, number: u64, to: &Terms) {
    case.account.change(to, number, || 0);
}

/// The tokens owed, if whole, under whole terms.
fn owed(debt: u64, unit: u64) -> u64 {
    assert_eq!(debt % unit, 0, "ticks beside whole tokens of {unit}");
    debt / unit
}

/// What an answer says is owed, under one of these terms.
fn told((ask, answer): &(Ask, Answer), all: &[&Terms]) -> u64 {
    let terms = all.iter().find(|terms| terms.ticks == *ask.ticks()).expect("terms that there were");
    owed(answer.debt, terms.label[0])
}

/// What a reading says is owed.
fn read(case: &Case, all: &[&Terms]) -> u64 {
    let (word, terms) = case.account.read();
    assert!(all.contains(&&terms), "{terms:?} are no terms that there were");
    owed(word.debt(0), terms.label[0])
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

fn a_charge_meets_a_change() {
    let (old, new) = (terms(1, 2), terms(3, 2));
    let case = case(&old, 1);
    let charge = spawn(&case);
    case.begin();
    change(&case, 1, &new);
    let charge = join(charge);
    assert_eq!(told(&charge, &[&old, &new]), 2, "owed after the charge");
    assert_eq!(charge.1.denied, None);
    assert_eq!(read(&case, &[&new]), 2, "owed in the end");
}

/// The third terms stand where the first did, and the arrival time is zero under either.
fn a_charge_meets_two_changes() {
    let all = [&terms(1, 2), &terms(3, 2), &terms(5, 2)];
    let case = case(all[0], 0);
    let charge = spawn(&case);
    case.begin();
    change(&case, 1, all[1]);
    change(&case, 2, all[2]);
    let charge = join(charge);
    assert_eq!(told(&charge, &all), 1, "owed after the charge");
    assert_eq!(charge.1.denied, None);
    assert_eq!(read(&case, &all[2..]), 1, "owed in the end");
}

/// Under the second terms alone there is a token more.
fn a_denial_meets_two_changes() {
    let all = [&terms(1, 1), &terms(3, 2), &terms(5, 1)];
    let case = case(all[0], 1);
    let charge = spawn(&case);
    case.begin();
    change(&case, 1, all[1]);
    change(&case, 2, all[2]);
    let charge = join(charge);
    let admitted = u64::from(charge.1.denied.is_none());
    assert_eq!(told(&charge, &all), 1 + admitted, "owed after the call");
    assert_eq!(admitted == 1, *charge.0.ticks() == all[1].ticks, "admitted under the second terms alone");
    assert_eq!(read(&case, &all[2..]), 1, "owed in the end, up to the burst");
}

fn a_reading_meets_two_changes() {
    let all = [&terms(1, 3), &terms(3, 3), &terms(5, 3)];
    let case = case(all[0], 2);
    let reading = {
        let case = Arc::clone(&case);
        thread::spawn(move || {
            case.begin();
            read(&case, &[&terms(1, 3), &terms(3, 3), &terms(5, 3)])
        })
    };
    case.begin();
    change(&case, 1, all[1]);
    change(&case, 2, all[2]);
    assert_eq!(join(reading), 2, "owed while it was read");
}

fn two_charges_meet_a_change() {
    let (old, new) = (terms(1, 1), terms(3, 2));
    let case = case(&old, 0);
    let charges = [spawn(&case), spawn(&case)];
    case.begin();
    change(&case, 1, &new);
    let charges = charges.map(join);
    let mut admitted = 0;
    for charge in &charges {
        assert!(told(charge, &[&old, &new]) <= 2);
        admitted += u64::from(charge.1.denied.is_none());
    }
    let denied_under_old = charges.iter().any(|(ask, answer)| answer.denied.is_some() && *ask.ticks() == old.ticks);
    assert_eq!(admitted, if denied_under_old { 1 } else { 2 }, "the new burst, unless denied before");
    assert_eq!(read(&case, &[&new]), admitted, "owed in the end");
}

/// Of burst 2, two are owed, of which one comes back; and three are charged, which is beyond the burst and stays owed.
fn a_refund_meets_a_change() {
    let (old, new) = (terms(1, 2), terms(3, 2));
    let case = case(&old, 2);
    let refund = spawn_act(&case, Act::GiveBack);
    let charge = spawn_act(&case, Act::Charge);
    case.begin();
    change(&case, 1, &new);
    let (refund, charge) = (join(refund), join(charge));
    let all = [&old, &new];
    assert!([1, 2].contains(&told(&refund, &all)), "owed after the refund");
    assert!([2, 3].contains(&told(&charge, &all)), "owed after the charge");
    assert_eq!(read(&case, &[&new]), 2, "owed in the end");
}

/// A token is taken and given back: the word is as it was. Then the terms change, and change again on the side that the charge may have read.
fn a_charge_stalls_until_its_word_comes_again() {
    let all = [&terms(1, 2), &terms(3, 2), &terms(5, 2)];
    let case = case(all[0], 0);
    let charge = spawn_act(&case, Act::Charge);
    case.begin();
    for act in [Act::Take, Act::GiveBack] {
        assert_eq!(case.account.decide(at_no_time(act, 1)).1.denied, None);
    }
    change(&case, 1, all[1]);
    change(&case, 2, all[2]);
    let charge = join(charge);
    assert!([1, 2].contains(&told(&charge, &all)), "owed after the charge");
    assert_eq!(read(&case, &all[2..]), 1, "owed in the end");
}

/// All are taken; one comes back, and is taken again. A denial says what is owed under terms that there were, and one of the two has the token.
fn a_denial_stalls_until_its_word_comes_again() {
    let all = [&terms(1, 1), &terms(3, 1), &terms(5, 1)];
    let case = case(all[0], 1);
    let other = spawn(&case);
    case.begin();
    case.account.decide(at_no_time(Act::GiveBack, 1));
    let mine = case.account.decide(at_no_time(Act::Take, 1));
    change(&case, 1, all[1]);
    change(&case, 2, all[2]);
    let calls = [mine, join(other)];
    assert_eq!(calls.iter().filter(|(_, answer)| answer.denied.is_none()).count(), 1, "one token came back");
    assert_eq!(calls.each_ref().map(|call| told(call, &all)), [1, 1], "owed after either call");
    assert_eq!(read(&case, &all[2..]), 1, "owed in the end");
}
