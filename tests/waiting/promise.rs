//! The promise, where tokens come back: within any window, those admitted less those given back are at most `burst + rate * time`.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{Bucket, KeyBucket, Limiter, ManualClock, Quota, Receipt, Reservation, TokenBucket};

use crate::random::Random;

/// Tokens that were admitted at a time, or with a minus given back.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: u64,
    tokens: i64,
}

/// The most that any window has beyond `extra` tokens and what is refilled in it: in parts of a token, of which it has a period's nanoseconds.
/// Those of one moment come in the order in which they happened.
fn worst(quota: Quota, changes: &[Change]) -> i128 {
    let (rate, period) = (i128::from(quota.tokens()), quota.period().as_nanos().cast_signed());
    let (mut sum, mut least, mut worst) = (0, i128::MAX, 0);
    for change in changes {
        let refill = rate * i128::from(change.at);
        least = least.min(sum - refill);
        sum += i128::from(change.tokens) * period;
        worst = worst.max(sum - refill - least);
    }
    // A tick more, where that is not exact: it is less than a nanosecond under these quotas.
    let slack = if quota.is_exact() { 0 } else { rate };
    worst - slack
}

fn tokens(quota: Quota, n: u64) -> i128 {
    i128::from(n) * quota.period().as_nanos().cast_signed()
}

fn quotas() -> impl Strategy<Value = Quota> {
    let rates = [Quota::per_second(1_000_000), Quota::per_second(3), Quota::per_second(7_919), Quota::per_second(600_000_000)];
    assert!(rates.iter().all(|quota| quota.tick_nanos() <= 1.0));
    (select(rates.to_vec()), 1..=20_u64).prop_map(|(quota, burst)| quota.burst(burst))
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Check(u64),
    Estimate(u64),
    Settle(usize, u64),
    Reserve(u64, u64),
    Cancel(usize),
    Keep(usize),
    /// So many 64ths of a token's time.
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..=20_u64).prop_map(Op::Check),
        3 => (1..=20_u64).prop_map(Op::Estimate),
        3 => (any::<usize>(), 0..=20_u64).prop_map(|(number, used)| Op::Settle(number, used)),
        3 => (1..=20_u64, 0..=640_u64).prop_map(|(n, wait)| Op::Reserve(n, wait)),
        3 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Keep),
        3 => (0..=200_u64).prop_map(Op::Wait),
    ]
}

fn any_of<T>(things: &mut Vec<T>, number: usize) -> Option<T> {
    if things.is_empty() { None } else { Some(things.swap_remove(number % things.len())) }
}

/// So many 64ths of a token's time.
fn parts(quota: Quota, count: u64) -> Duration {
    let nanos = quota.period().as_nanos() * u128::from(count) / (64 * u128::from(quota.tokens()));
    Duration::from_nanos(u64::try_from(nanos).expect("short"))
}

/// What happened on a bucket, in order: the changes by the time they were made, those kept by the time they are due, and all that was given back.
#[derive(Default, Debug)]
struct History {
    made: Vec<Change>,
    due: Vec<Change>,
    given_back: u64,
    longest: Duration,
}

fn live<B: TokenBucket + Copy>(bucket: B, clock: &ManualClock, quota: Quota, waits: bool, steps: &[Op]) -> History {
    let (mut history, mut estimates, mut booked) = (History::default(), Vec::new(), Vec::new());
    let signed = |n: u64| i64::try_from(n).expect("a few");
    for &op in steps {
        let at = bucket.now().as_nanos();
        match op {
            Op::Check(n) => {
                if bucket.check_at(n, bucket.now()).is_ok() {
                    history.made.push(Change { at, tokens: signed(n) });
                    history.due.push(Change { at, tokens: signed(n) });
                }
            }
            Op::Estimate(n) => {
                if let Ok(receipt) = Receipt::take(bucket, n) {
                    history.made.push(Change { at, tokens: signed(n) });
                    history.due.push(Change { at, tokens: signed(n) });
                    estimates.push(receipt);
                }
            }
            Op::Settle(number, used) => {
                let Some(receipt) = any_of(&mut estimates, number) else { continue };
                // What is charged afterwards is not admitted.
                let unused = receipt.tokens().saturating_sub(used);
                history.made.push(Change { at, tokens: -signed(unused) });
                history.given_back += unused;
                assert!(receipt.settle(used).is_ok());
            }
            Op::Reserve(n, wait) => {
                let wait = parts(quota, if waits { wait } else { 0 });
                history.longest = history.longest.max(wait);
                if let Ok(reservation) = Reservation::book(bucket, n, wait) {
                    history.made.push(Change { at, tokens: signed(n) });
                    booked.push(reservation);
                }
            }
            Op::Cancel(number) => {
                let Some(reservation) = any_of(&mut booked, number) else { continue };
                history.made.push(Change { at, tokens: -signed(reservation.tokens()) });
                history.given_back += reservation.tokens();
                reservation.cancel();
            }
            Op::Keep(number) => {
                let Some(reservation) = any_of(&mut booked, number) else { continue };
                history.due.push(Change { at: reservation.due().as_nanos(), tokens: signed(reservation.tokens()) });
                _ = reservation.keep();
            }
            Op::Wait(time) => clock.advance(parts(quota, time)),
        }
    }
    for reservation in booked {
        history.due.push(Change { at: reservation.due().as_nanos(), tokens: signed(reservation.tokens()) });
        _ = reservation.keep();
    }
    history.due.sort_by_key(|change| change.at);
    history
}

/// The histories of a bucket and of a key.
fn histories(quota: Quota, waits: bool, steps: &[Op]) -> [History; 2] {
    let (clock, keys_clock) = (ManualClock::new(), ManualClock::new());
    let bucket = Bucket::with_clock(quota, clock.clone());
    let limiter = Limiter::builder(quota).max_keys(8).clock(keys_clock.clone()).build();
    let key: KeyBucket<&Limiter<_>> = limiter.bucket("key");
    [live(&bucket, &clock, quota, waits, steps), live(key, &keys_clock, quota, waits, steps)]
}

proptest! {
    // What fails here is to become a test with a name.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_taken_less_what_is_given_back_keeps_the_promise(quota in quotas(), steps in proptest::collection::vec(ops(), 1..100)) {
        for history in histories(quota, false, &steps) {
            prop_assert!(worst(quota, &history.made) <= tokens(quota, quota.capacity()), "{:?}: {:?}", quota, history);
        }
    }

    /// A wait is a tolerance: so much earlier is a token booked than it is there.
    #[test]
    fn what_is_booked_is_ahead_of_the_promise_by_the_longest_wait(quota in quotas(), steps in proptest::collection::vec(ops(), 1..100)) {
        for history in histories(quota, true, &steps) {
            let ahead = i128::from(quota.tokens()) * history.longest.as_nanos().cast_signed();
            prop_assert!(worst(quota, &history.made) <= tokens(quota, quota.capacity()) + ahead, "{:?}: {:?}", quota, history);
        }
    }

    /// Whoever was booked behind what is given back is due when told, and whoever comes next the sooner: so by as much, and no more, can those
    /// that are due in a window pass the promise.
    #[test]
    fn what_is_due_keeps_the_promise_but_for_what_was_given_back(quota in quotas(), steps in proptest::collection::vec(ops(), 1..100)) {
        for history in histories(quota, true, &steps) {
            let most = tokens(quota, quota.capacity() + history.given_back);
            // Each is due at a whole nanosecond, rounded up.
            let rounding = i128::from(quota.tokens());
            prop_assert!(worst(quota, &history.due) <= most + rounding, "{:?}: {:?}", quota, history);
        }
    }
}

#[test]
fn what_is_due_keeps_the_promise_where_nothing_is_given_back() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let burst = 1 + random.below(10);
        let quota = Quota::per_second(1_000).burst(burst);
        let step = |_| match random.below(4) {
            0 => Op::Check(1 + random.below(burst)),
            1 | 2 => Op::Reserve(1 + random.below(burst), random.below(6_400)),
            _ => Op::Wait(random.below(200)),
        };
        let steps: Vec<_> = (0..200).map(step).collect();
        for history in histories(quota, true, &steps) {
            assert!(history.due.len() > 10, "too little was admitted: {history:?}");
            assert!(worst(quota, &history.due) <= tokens(quota, quota.capacity()), "{quota}: {history:?}");
        }
    }
}

#[test]
fn who_comes_next_is_due_the_sooner_for_what_was_given_back_and_nobody_else() {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(Quota::per_second(100).burst(1), clock.clone());
    let book = || bucket.reserve(1, Duration::MAX).expect("any wait");
    let [_there, first, second, third] = [(); 4].map(|()| book());
    let millis = |reservation: &Reservation<_>| reservation.due().as_nanos() / 1_000_000;
    assert_eq!([&first, &second, &third].map(millis), [10, 20, 30]);
    first.cancel();
    // Not at ten, which would be before the two, nor at forty, which would be later by what nobody has.
    let (fourth, fifth) = (book(), book());
    assert_eq!([&second, &third, &fourth, &fifth].map(millis), [20, 30, 30, 40]);
    second.cancel();
    third.cancel();
    assert_eq!([book(), book(), book()].each_ref().map(millis), [30, 40, 50], "a place is filled at the end");
}

fn keeps_it_among_threads<B: TokenBucket + Copy + Send + Sync>(bucket: B, clock: &ManualClock, quota: Quota) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 300;
    let round = Barrier::new(THREADS);
    let work = |thread: usize| {
        let mut random = Random::new(thread);
        let (mut changes, mut estimates, mut kept) = (Vec::new(), Vec::new(), 0);
        for number in 0..ROUNDS {
            // The clock stands still within a round: what is given back then is given back at that time.
            if round.wait().is_leader() {
                clock.advance(parts(quota, 1 + (number as u64 * 37) % 150));
            }
            round.wait();
            let mut sum = 0;
            for _ in 0..20 {
                let n = 1 + random.below(5);
                if random.below(2) == 0 && !estimates.is_empty() {
                    let at = usize::try_from(random.below(estimates.len() as u64)).expect("a few");
                    let receipt: Receipt<B> = estimates.swap_remove(at);
                    sum -= i64::try_from(receipt.tokens()).expect("a few");
                    receipt.refund();
                } else if let Ok(receipt) = Receipt::take(bucket, n) {
                    sum += i64::try_from(n).expect("a few");
                    kept += 1;
                    estimates.push(receipt);
                }
            }
            changes.push(Change { at: bucket.now().as_nanos(), tokens: sum });
        }
        assert!(kept > 0);
        changes
    };
    let each: Vec<Vec<Change>> = thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    // All of a round as one change.
    let sum = |round: usize| Change { at: each[0][round].at, tokens: each.iter().map(|changes| changes[round].tokens).sum() };
    let changes: Vec<_> = (0..ROUNDS).map(sum).collect();
    assert!(changes.iter().any(|change| change.tokens > 0) && changes.iter().any(|change| change.tokens < 0));
    assert!(worst(quota, &changes) <= tokens(quota, quota.capacity()), "{quota}");
}

#[test]
fn threads_that_take_and_give_back_keep_the_promise() {
    for quota in [Quota::per_second(1_000).burst(20), Quota::per_second(7_919).burst(20)] {
        let clock = ManualClock::new();
        keeps_it_among_threads(&Bucket::with_clock(quota, clock.clone()), &clock, quota);
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).max_keys(8).clock(clock.clone()).build();
        keeps_it_among_threads(limiter.bucket("key"), &clock, quota);
    }
}
