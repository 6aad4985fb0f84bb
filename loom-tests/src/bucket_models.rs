use loom::sync::Arc;
use loom::thread;

use super::Model;
use super::account::{Account, SIDE_WORDS, Terms};
use super::decision::{Answer, Ask};
use super::sync::{AtomicU64, Ordering};
use super::ticks::Ticks;

pub const MODELS: [Model; 5] = [
    model("bucket: a charge meets a change", None, a_charge_meets_a_change),
    model("bucket: a charge meets two changes", None, a_charge_meets_two_changes),
    model("bucket: a denial meets two changes", None, a_denial_meets_two_changes),
    model("bucket: a reading meets two changes", Some(3), a_reading_meets_two_changes),
    model("bucket: two charges meet a change", None, two_charges_meet_a_change),
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
    let (_, answer) = account.charge(0, owed);
    assert_eq!(answer.denied, None);
    Arc::new(Case { account, begun: AtomicU64::new(0) })
}

/// Starts a thread that asks for a token, once, at no time.
fn spawn(case: &Arc<Case>) -> thread::JoinHandle<(Ask, Answer)> {
    let case = Arc::clone(case);
    thread::spawn(move || {
        case.begin();
        case.account.charge(0, 1)
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
