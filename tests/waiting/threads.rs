//! Bookings, give-backs and cancellations on real threads, which leave exactly what was kept.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tollgate::{Acquire, Bucket, Clock, Limiter, ManualClock, Overflow, Quota, Receipt, Reservation, TokenBucket};

use crate::HOUR;
use crate::random::Random;
use crate::rounds::Rounds;
use crate::timers::{Timers, poll_once};

const THREADS: usize = 4;
const ROUNDS: usize = 150;
const CALLS: usize = 40;
/// Tokens in one booking, and bookings in one hand, at most.
const MOST: u64 = 3;
const HELD: usize = 12;
/// Far more than all hands hold: so no give-back ever meets a full bucket, and each lifts it by just what was taken.
const BURST: u64 = 1_000;

/// How often each thing happened.
#[derive(Default, Debug)]
struct Happened {
    kept: AtomicUsize,
    cancelled: AtomicUsize,
    dropped_early: AtomicUsize,
    dropped_late: AtomicUsize,
    dropped_asleep: AtomicUsize,
    dropped_fired: AtomicUsize,
    served: AtomicUsize,
    settled: AtomicUsize,
    denied: AtomicUsize,
}

impl Happened {
    fn all(&self) -> [usize; 9] {
        let Self { kept, cancelled, dropped_early, dropped_late, dropped_asleep, dropped_fired, served, settled, denied } = self;
        [kept, cancelled, dropped_early, dropped_late, dropped_asleep, dropped_fired, served, settled, denied]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

fn count(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::Relaxed);
}

type Waiting<B> = Pin<Box<Acquire<B, Timers>>>;

/// What a thread has booked.
struct Hand<'a, B: TokenBucket + Copy> {
    bucket: B,
    clock: &'a ManualClock,
    happened: &'a Happened,
    random: Random,
    /// Tokens that were kept.
    kept: u64,
    reservations: Vec<Reservation<B>>,
    futures: Vec<(u64, Waiting<B>)>,
    estimates: Vec<Receipt<B>>,
}

impl<B: TokenBucket + Copy> Hand<'_, B> {
    /// One of so many.
    fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).expect("a few")
    }

    fn call(&mut self) {
        let n = self.random.below(MOST) + 1;
        let longest = if self.random.below(8) == 0 { Duration::ZERO } else { HOUR };
        match self.random.below(9) {
            0 | 1 if self.reservations.len() < HELD => match Reservation::book(self.bucket, n, longest) {
                Ok(booked) => self.reservations.push(booked),
                Err(_) => count(&self.happened.denied),
            },
            2 | 3 if self.futures.len() < HELD => {
                let mut acquire = Box::pin(Acquire::new(self.bucket, n, longest, Timers::new(self.clock)));
                match poll_once(acquire.as_mut()) {
                    Poll::Ready(Ok(_)) => self.kept += n,
                    Poll::Ready(Err(_)) => count(&self.happened.denied),
                    Poll::Pending => self.futures.push((n, acquire)),
                }
            }
            4 if self.estimates.len() < HELD => match Receipt::take(self.bucket, n) {
                Ok(receipt) => self.estimates.push(receipt),
                Err(_) => count(&self.happened.denied),
            },
            5 | 6 if !self.reservations.is_empty() => self.settle_reservation(),
            7 if !self.futures.is_empty() => self.settle_future(),
            8 if !self.estimates.is_empty() => {
                let at = self.any(self.estimates.len());
                let used = self.random.below(2 * MOST);
                if self.estimates.swap_remove(at).settle(used).is_ok() {
                    self.kept += used;
                    count(&self.happened.settled);
                }
            }
            _ => {}
        }
    }

    fn settle_reservation(&mut self) {
        let at = self.any(self.reservations.len());
        let booked = self.reservations.swap_remove(at);
        let n = booked.tokens();
        match self.random.below(4) {
            0 => {
                booked.cancel();
                count(&self.happened.cancelled);
            }
            1 => {
                _ = booked.keep();
                self.kept += n;
                count(&self.happened.kept);
            }
            // The clock stands still meanwhile.
            _ if booked.wait().is_zero() || self.clock.now() >= booked.due() => {
                let waited = !booked.wait().is_zero();
                drop(booked);
                self.kept += n;
                self.happened.dropped_late.fetch_add(usize::from(waited), Ordering::Relaxed);
            }
            _ => {
                drop(booked);
                count(&self.happened.dropped_early);
            }
        }
    }

    fn settle_future(&mut self) {
        let at = self.any(self.futures.len());
        let (n, mut acquire) = self.futures.swap_remove(at);
        if self.random.below(4) == 0 {
            drop(acquire);
            return count(&self.happened.dropped_asleep);
        }
        match poll_once(acquire.as_mut()) {
            Poll::Ready(answer) => {
                assert!(answer.is_ok());
                self.kept += n;
                count(&self.happened.served);
            }
            Poll::Pending => self.futures.push((n, acquire)),
        }
    }

    /// Gives back all that is held, and says what was kept.
    fn finish(mut self) -> u64 {
        for booked in self.reservations.drain(..) {
            booked.cancel();
        }
        for receipt in self.estimates.drain(..) {
            receipt.refund();
        }
        // All timers have fired, and nobody was told.
        for (_, acquire) in self.futures.drain(..) {
            drop(acquire);
            count(&self.happened.dropped_fired);
        }
        self.kept
    }
}

/// Works on a bucket with many threads, the clock standing still within a round: what was kept, together.
///
/// `owed` says how long the bucket needs to be full.
fn work<B: TokenBucket + Copy + Send + Sync>(
    bucket: B,
    clock: &ManualClock,
    happened: &Happened,
    owed: impl Fn() -> Duration + Sync,
) -> u64 {
    let (kept, rounds) = (AtomicU64::new(0), Rounds::new(THREADS));
    let floor = owed() / 2;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (kept, rounds, owed) = (&kept, &rounds, &owed);
            scope.spawn(move || {
                let (random, round) = (Random::new(thread + 1), rounds.join());
                let mut hand =
                    Hand { bucket, clock, happened, random, kept: 0, reservations: Vec::new(), futures: Vec::new(), estimates: Vec::new() };
                for number in 0..ROUNDS {
                    if round.wait() {
                        // To and fro around the burst, so that some must wait and some need not; and never below half of it.
                        let above = owed().saturating_sub(2 * floor);
                        clock.advance(if number % 3 == 0 { above + floor / 50 } else { above / 3 });
                        assert!(owed() > floor, "near to full");
                    }
                    round.wait();
                    (0..CALLS).for_each(|_| hand.call());
                }
                if round.wait() {
                    // Past all that is due, while more is owed than all hold.
                    clock.advance(owed().saturating_sub(2 * floor));
                }
                round.wait();
                kept.fetch_add(hand.kept, Ordering::Relaxed);
                hand.kept = 0;
                kept.fetch_add(hand.finish(), Ordering::Relaxed);
            });
        }
    });
    kept.into_inner()
}

fn quotas() -> [Quota; 2] {
    let quotas = [Quota::per_second(100).burst(BURST), Quota::per_second(7_919).burst(BURST)];
    assert!(quotas[0].is_exact() && !quotas[1].is_exact());
    quotas
}

/// A bucket that was charged the same in one call, at the start.
fn charged(quota: Quota, tokens: u64, clock: &ManualClock) -> Bucket<ManualClock> {
    let now = clock.now();
    clock.set(Duration::ZERO);
    let bucket = Bucket::with_clock(quota, clock.clone());
    assert!(bucket.charge(tokens).is_ok());
    clock.set(Duration::from_nanos(now.as_nanos()));
    bucket
}

#[test]
fn a_bucket_owes_exactly_what_was_kept() {
    for quota in quotas() {
        let (clock, happened) = (ManualClock::new(), Happened::default());
        let bucket = Bucket::with_clock(quota, clock.clone());
        assert!(bucket.check_n(BURST).is_ok());
        let kept = work(&bucket, &clock, &happened, || bucket.peek().reset_after());
        assert!(happened.all().iter().all(|&count| count > 20), "too little went on: {happened:?}");
        assert_eq!(bucket.peek(), charged(quota, BURST + kept, &clock).peek(), "{quota}: {kept} kept");
        if quota.is_exact() {
            let exact = u128::from(BURST + kept) * 10_000_000 - u128::from(clock.now().as_nanos());
            assert_eq!(bucket.peek().reset_after().as_nanos(), exact);
        }
    }
}

/// Ends when the others have.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_key_owes_exactly_what_was_kept_while_others_come_and_go() {
    for quota in quotas() {
        let (clock, happened) = (ManualClock::new(), Happened::default());
        let limiter = Limiter::builder(quota).max_keys(1 << 16).overflow(Overflow::DenyNew).clock(clock.clone()).build();
        let key = limiter.bucket("key");
        assert!(key.check_n(BURST).is_ok());
        let done = AtomicBool::new(false);
        let kept = thread::scope(|scope| {
            let _end = EndOnDrop(&done);
            let (limiter, done) = (&limiter, &done);
            scope.spawn(move || {
                // In waves: the table grows with each and shrinks after it.
                for wave in 0_u64.. {
                    for number in 0..4_000_u64 {
                        _ = limiter.check(&(wave % 8, number));
                    }
                    limiter.shrink();
                    if done.load(Ordering::Relaxed) && limiter.stats().shrunk > 64 {
                        return;
                    }
                }
            });
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    limiter.shrink();
                    thread::yield_now();
                }
            });
            work(key, &clock, &happened, || key.peek().reset_after())
        });
        let stats = limiter.stats();
        assert!(stats.grown > 64 && stats.shrunk > 64, "too little came and went: {stats:?}");
        assert!(happened.all().iter().all(|&count| count > 20), "too little went on: {happened:?}");
        assert_eq!(key.peek(), charged(quota, BURST + kept, &clock).peek(), "{quota}: {kept} kept");
    }
}

/// A booking, between two moments of an order that all threads share.
#[derive(Clone, Copy, Debug)]
struct Booked {
    asked: usize,
    told: usize,
    due: u64,
}

fn books_in_order<B: TokenBucket + Copy + Send + Sync>(bucket: B, clock: &ManualClock, token: u64) {
    const EACH: usize = 2_000;
    let (moment, start, booked) = (AtomicUsize::new(0), Barrier::new(THREADS), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (moment, start, booked) = (&moment, &start, &booked);
            scope.spawn(move || {
                start.wait();
                let mine: Vec<_> = (0..EACH)
                    .map(|number| {
                        // Time goes on meanwhile: no wait becomes another for it.
                        if thread == 0 && number % 50 == 0 {
                            clock.advance(Duration::from_nanos(token / 3));
                        }
                        let asked = moment.fetch_add(1, Ordering::SeqCst);
                        let reservation = Reservation::book(bucket, 1, HOUR).expect("within an hour");
                        let told = moment.fetch_add(1, Ordering::SeqCst);
                        let due = reservation.due().as_nanos();
                        _ = reservation.keep();
                        Booked { asked, told, due }
                    })
                    .collect();
                booked.lock().expect("no panic").extend(mine);
            });
        }
    });
    let mut booked = booked.into_inner().expect("no panic");
    booked.sort_unstable_by_key(|booking| booking.due);
    for pair in booked.windows(2) {
        assert_eq!(pair[1].due - pair[0].due, token, "each waits for one token more: {pair:?}");
    }
    // In the order of dues, nobody was told before one who is due earlier asked.
    let mut last_asked = 0;
    for booking in &booked {
        assert!(booking.told > last_asked, "{booking:?} was overtaken");
        last_asked = last_asked.max(booking.asked);
    }
}

#[test]
fn nobody_overtakes_an_earlier_booking() {
    let (quota, token) = (Quota::per_second(100).burst(1), 10_000_000);
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(quota, clock.clone());
    assert!(bucket.check().is_ok());
    books_in_order(&bucket, &clock, token);

    let clock = ManualClock::new();
    let limiter = Limiter::builder(quota).max_keys(8).clock(clock.clone()).build();
    assert!(limiter.check("key").is_ok());
    books_in_order(limiter.bucket("key"), &clock, token);
}
