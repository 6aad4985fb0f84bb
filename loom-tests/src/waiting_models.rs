use loom::sync::Arc;
use loom::thread;

use super::Model;
use super::account::{Account, SIDE_WORDS, Terms};
use super::clock::Instant;
use super::decision::{Act, Allowed, Call, Denied};
use super::lease::Lease;
use super::several::check_all;
use super::sync::{AtomicU64, Ordering};
use super::ticks::Ticks;
use super::token_bucket::{Sealed, TokenBucket};

pub const MODELS: [Model; 12] = [
    model("booking: two meet a cancellation", None, two_bookings_meet_a_cancellation),
    model("booking: each is told its own wait", Some(3), each_booking_is_told_its_own_wait),
    model("charge: it meets two admissions", Some(3), a_charge_meets_two_admissions),
    model("refund: it meets an admission", None, a_refund_meets_an_admission),
    model("refund: it gives back what is still owed", Some(3), a_refund_gives_back_what_is_still_owed),
    model("refund: two meet a charge", Some(3), two_refunds_meet_a_charge),
    model("lease: it meets a taker", None, a_lease_meets_a_taker),
    model("lease: it meets another", None, a_lease_meets_another),
    model("several: the first meets a taker", None, the_first_meets_a_taker),
    model("several: the last meets a taker", None, the_last_meets_a_taker),
    model("several: two meet in one order", None, two_meet_in_one_order),
    model("several: two meet in opposite orders", None, two_meet_in_opposite_orders),
];

const fn model(name: &'static str, preemptions: Option<usize>, case: fn()) -> Model {
    Model { name, preemptions, case }
}

/// A bucket at a time that the model says: as [`Bucket`](crate::Bucket) is made of an account and a clock.
struct Limit {
    account: Account,
    now: u64,
}

impl Limit {
    /// One token per nanosecond, so that a token, a tick and a nanosecond are one. It owes so many tokens, charged at the origin.
    fn new(burst: u64, owed: u64, now: u64) -> Self {
        let terms = Terms { ticks: Ticks::fit(1, 1, burst).expect("fits"), label: [1, 1] };
        let [first, second] = [Account::opening(&terms), [0; SIDE_WORDS]].map(|numbers| numbers.map(AtomicU64::new));
        let account = Account::of(AtomicU64::new(0), first, second);
        account.decide(Call { act: Act::Charge, n: owed, elapsed: 0 });
        Self { account, now }
    }

    /// Does that at the limit's time.
    fn act_now(&self, act: Act, n: u64) -> Result<Allowed, Denied> {
        self.act(act, n, self.now())
    }

    /// How many of so many tokens were taken: all or none.
    fn taken(&self, n: u64) -> u64 {
        self.act_now(Act::Take, n).map_or(0, |_| n)
    }

    fn burst(&self) -> u64 {
        self.account.read().1.ticks.burst()
    }

    /// The tokens owed.
    fn owed(&self) -> u64 {
        self.account.read().0.debt(self.now)
    }
}

impl TokenBucket for Limit {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
}

impl Sealed for Limit {
    fn look(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        let (word, terms) = self.account.read();
        let (ask, answer) = word.look(terms.ticks, Call { act, n, elapsed: now.as_nanos() });
        ask.result(answer)
    }

    fn act(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        let (ask, answer) = self.account.decide(Call { act, n, elapsed: now.as_nanos() });
        ask.result(answer)
    }
}

/// Buckets, and what makes loom explore every order in which threads begin (see `models`).
struct Case<const N: usize> {
    limits: [Limit; N],
    begun: AtomicU64,
}

impl<const N: usize> Case<N> {
    fn begin(&self) -> &[Limit; N] {
        self.begun.fetch_add(1, Ordering::Relaxed);
        &self.limits
    }
}

fn case<const N: usize>(limits: [Limit; N]) -> Arc<Case<N>> {
    Arc::new(Case { limits, begun: AtomicU64::new(0) })
}

/// Starts a thread that works on the buckets.
fn spawn<const N: usize, T: 'static>(case: &Arc<Case<N>>, work: impl FnOnce(&[Limit; N]) -> T + 'static) -> thread::JoinHandle<T> {
    let case = Arc::clone(case);
    thread::spawn(move || work(case.begin()))
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

/// Tokens that a bucket owes after a call.
fn told(answer: &Result<Allowed, Denied>) -> u64 {
    let owed = answer.as_ref().map_or_else(Denied::reset_after, Allowed::reset_after);
    u64::try_from(owed.as_nanos()).expect("a small number")
}

// Bookings

const WITHIN_ONE: Act = Act::Book { within: 1 };

/// One is taken and one booked, of burst 1, and no more can be booked within a nanosecond. One of two more bookings gets the place that is cancelled.
fn two_bookings_meet_a_cancellation() {
    let case = case([Limit::new(1, 2, 0)]);
    let booking = |[limit]: &[Limit; 1]| limit.act_now(WITHIN_ONE, 1);
    let other = spawn(&case, booking);
    let cancellation = spawn(&case, |[limit]| limit.act_now(Act::GiveBack, 1));
    let mine = booking(case.begin());
    let bookings = [mine, join(other)];
    let left = told(&join(cancellation));
    assert_eq!(left, 1, "owed after the cancellation: nobody can have booked before");
    let booked = bookings.iter().flatten().count() as u64;
    assert!(booked <= 1, "{booked} bookings in one place");
    assert!(bookings.iter().all(|booking| told(booking) == 2), "{bookings:?}");
    assert_eq!(case.limits[0].owed(), 1 + booked, "owed in the end");
}

/// Another is cancelled meanwhile: each is told the wait of its place among those that still stand.
fn each_booking_is_told_its_own_wait() {
    let case = case([Limit::new(1, 2, 0)]);
    let booking = |[limit]: &[Limit; 1]| limit.act_now(Act::Book { within: 9 }, 1).expect("within 9").wait().as_nanos();
    let other = spawn(&case, booking);
    let cancellation = spawn(&case, |[limit]| told(&limit.act_now(Act::GiveBack, 1)));
    let mine = booking(case.begin());
    let mut waits = [mine, join(other)];
    waits.sort_unstable();
    let order = match join(cancellation) {
        1 => [1, 2],
        2 => [2, 2],
        _ => [2, 3],
    };
    assert_eq!(waits, order, "as by one after the other");
    assert_eq!(case.limits[0].owed(), 3, "owed in the end");
}

// Charges and refunds

/// Of burst 2, one is owed.
fn a_charge_meets_two_admissions() {
    let case = case([Limit::new(2, 1, 0)]);
    let takers = [0; 2].map(|_| spawn(&case, |[limit]| limit.taken(1)));
    let [limit] = case.begin();
    let charge = limit.act_now(Act::Charge, 3);
    let taken = takers.map(join).into_iter().sum::<u64>();
    assert!(charge.is_ok() && taken <= 1, "{taken} more of burst 2: {charge:?}");
    assert!((4..=4 + taken).contains(&told(&charge)), "owed after the charge: {charge:?}");
    assert_eq!(limit.owed(), 4 + taken, "owed in the end, below zero");
}

/// Of burst 2, two are owed and come back.
fn a_refund_meets_an_admission() {
    let case = case([Limit::new(2, 2, 0)]);
    let takers = [1, 2].map(|n| spawn(&case, move |[limit]| limit.taken(n)));
    let [limit] = case.begin();
    let refund = limit.act_now(Act::GiveBack, 2);
    let taken = takers.map(join).into_iter().sum::<u64>();
    assert!(taken <= 2, "{taken} of burst 2");
    assert_eq!((told(&refund), limit.owed()), (0, taken), "owed after the refund, and in the end");
}

/// Two were taken at 0, and one of them is refilled by 1. Two come back then: one more than is owed, unless a charge has come before.
fn a_refund_gives_back_what_is_still_owed() {
    let case = case([Limit::new(2, 2, 1)]);
    let taker = spawn(&case, |[limit]| limit.taken(2));
    let charge = spawn(&case, |[limit]| told(&limit.act_now(Act::Charge, 1)));
    let [limit] = case.begin();
    let refund = told(&limit.act_now(Act::GiveBack, 2));
    let (taken, charge) = (join(taker), join(charge));
    // Of all that may come before the refund, a charge alone changes what it leaves: two are owed then, and all come back.
    assert_eq!(refund, 0, "owed after the refund");
    let lost = u64::from(charge == 2);
    assert_eq!(limit.owed(), 1 - lost + taken, "owed in the end");
    assert_eq!(limit.taken(3 - limit.owed()), 0, "above full");
}

fn two_refunds_meet_a_charge() {
    let case = case([Limit::new(2, 2, 0)]);
    let refunds = [0; 2].map(|_| spawn(&case, |[limit]| told(&limit.act_now(Act::GiveBack, 1))));
    let [limit] = case.begin();
    let charge = told(&limit.act_now(Act::Charge, 3));
    let refunds = refunds.map(join);
    assert!((3..=5).contains(&charge) && refunds.iter().all(|owed| *owed <= 4), "{charge}, {refunds:?}");
    assert_eq!(limit.owed(), 3, "owed in the end");
}

// Leases

/// Takes so many tokens, one call after the other, and says how many were there. What lies in the handle is charged.
fn serve(lease: &Lease<&Limit>, limit: &Limit, calls: &[u64]) -> u64 {
    let mut served = 0;
    for &n in calls {
        served += lease.check_n(n).map_or(0, |()| n);
        assert!((served + lease.unused()..=limit.burst()).contains(&limit.owed()), "{served} served, {} unused", lease.unused());
    }
    served
}

fn a_lease_meets_a_taker() {
    let case = case([Limit::new(4, 0, 0)]);
    let taker = spawn(&case, |[limit]| limit.taken(1) + limit.taken(1));
    let [limit] = case.begin();
    let lease = Lease::new(limit, 2);
    let served = serve(&lease, limit, &[1, 2]);
    lease.rest();
    drop(lease);
    let taken = join(taker);
    assert_eq!(limit.owed(), served + taken, "owed in the end");
    assert!(served + taken >= 3, "{served} served and {taken} taken of 4");
}

fn a_lease_meets_another() {
    let case = case([Limit::new(3, 0, 0)]);
    let lease_two = |[limit]: &[Limit; 1]| serve(&Lease::new(limit, 2), limit, &[1]);
    let other = spawn(&case, lease_two);
    let mine = lease_two(case.begin());
    let served = mine + join(other);
    assert_eq!((served, case.limits[0].owed()), (2, 2), "served, and owed in the end");
}

// Several limits

/// Takes so many from two limits, in that order.
fn from_both(limits: [(&Limit, u64); 2]) -> Result<(), (usize, u64)> {
    let answers = check_all(limits.map(|(limit, n)| (limit as &dyn TokenBucket, n)));
    answers.map(drop).map_err(|by| (by.index(), by.denied().requested()))
}

/// Another thread takes from the first while it is looked at and charged.
fn the_first_meets_a_taker() {
    let case = case([Limit::new(2, 0, 0), Limit::new(1, 0, 0)]);
    let taker = spawn(&case, |[first, _]| first.taken(1));
    let [first, last] = case.begin();
    let all = from_both([(first, 2), (last, 1)]);
    let taken = join(taker);
    assert_eq!(all, if taken == 0 { Ok(()) } else { Err((0, 2)) }, "one of them has the tokens of the first");
    let charged = all.map_or([0, 0], |()| [2, 1]);
    assert_eq!([first.owed(), last.owed()], [charged[0] + taken, charged[1]], "owed in the end");
}

/// Another thread takes from the last while the first is charged already.
fn the_last_meets_a_taker() {
    let case = case([Limit::new(3, 1, 0), Limit::new(1, 0, 0)]);
    let taker = spawn(&case, |[_, last]| last.taken(1));
    let [first, last] = case.begin();
    let all = from_both([(first, 2), (last, 1)]);
    let taken = join(taker);
    assert_eq!(all, if taken == 0 { Ok(()) } else { Err((1, 1)) }, "one of them has the token of the last");
    let charged = all.map_or([0, 0], |()| [2, 1]);
    assert_eq!([first.owed(), last.owed()], [1 + charged[0], charged[1] + taken], "owed in the end");
}

fn two_meet_in_one_order() {
    let case = case([Limit::new(1, 0, 0), Limit::new(2, 0, 0)]);
    let both = |[a, b]: &[Limit; 2]| u64::from(from_both([(a, 1), (b, 2)]).is_ok());
    let other = spawn(&case, both);
    let mine = both(case.begin());
    let admitted = mine + join(other);
    let [a, b] = &case.limits;
    assert_eq!((admitted, a.owed(), b.owed()), (1, 1, 2), "admitted, and owed in the end");
}

/// Each may hold what the other needs; then both are denied, and nothing is charged.
fn two_meet_in_opposite_orders() {
    let case = case([Limit::new(1, 0, 0), Limit::new(2, 0, 0)]);
    let other = spawn(&case, |[a, b]| u64::from(from_both([(b, 2), (a, 1)]).is_ok()));
    let [a, b] = case.begin();
    let mine = u64::from(from_both([(a, 1), (b, 2)]).is_ok());
    let admitted = mine + join(other);
    assert!(admitted <= 1, "{admitted} admitted of one");
    assert_eq!((a.owed(), b.owed()), (admitted, 2 * admitted), "owed in the end");
}
