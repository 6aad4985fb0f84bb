//! Everything at once, on real threads: ever new keys, growth, shrinking, changes of quotas, a clock that moves; and a few keys that are watched
//! all the while.
//!
//! Calls are bounded, not time. `CHURN_TIMES` multiplies them.

mod common;
#[path = "common/hash.rs"]
mod hash;
#[path = "common/random.rs"]
mod random;
#[path = "common/time.rs"]
mod time;

use std::collections::HashSet;
use std::env;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{ChangeError, Limiter, ManualClock, Overflow, Quota, Reason};

use common::{Admission, excess};
use hash::Seeded;
use random::Random;
use time::{gather, stamp};

/// The default, in two ways: with the same rate and burst, so that a change is none to its keys.
const DEFAULTS: [Quota; 2] = [Quota::per_second(1_000).burst(50), Quota::per_minute(60_000).burst(50)];
const FIXED: Quota = Quota::per_second(7_919).burst(80);
const BURSTS: [Quota; 2] = [Quota::per_second(1_000).burst(50), Quota::per_second(1_000).burst(30)];
const RATES: [Quota; 2] = [Quota::per_second(1_000).burst(50), Quota::per_second(300).burst(50)];

/// What becomes of a watched key's quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It is the default, which is put in other words now and then.
    Default,
    /// It is its own, for good.
    Fixed,
    /// It is now its own, now the default: the same quota.
    Comes,
    /// Its burst changes.
    Burst,
    /// Its rate changes.
    Rate,
}

const FATES: [Fate; 5] = [Fate::Default, Fate::Fixed, Fate::Comes, Fate::Burst, Fate::Rate];
/// Watched keys of each fate.
const EACH: usize = 3;
const WATCHED: usize = FATES.len() * EACH;

fn fate(key: usize) -> Fate {
    FATES[key % FATES.len()]
}

impl Fate {
    /// The largest that it has.
    fn quota(self) -> Quota {
        match self {
            Self::Default | Self::Comes => DEFAULTS[0],
            Self::Fixed => FIXED,
            Self::Burst => BURSTS[0],
            Self::Rate => RATES[0],
        }
    }

    /// Tokens that a change may let a key off.
    ///
    /// Where the burst falls, a debt above the new one is cut to it. Where the rate rises, what was admitted under the old one to calls stamped
    /// after the moment of the change is paid at the new rate from that moment on; so by their time too much of it is paid, at most a burst.
    fn forgiven(self) -> u64 {
        match self {
            Self::Default | Self::Fixed | Self::Comes => 0,
            Self::Burst => BURSTS[0].capacity() - BURSTS[1].capacity(),
            Self::Rate => RATES[0].capacity(),
        }
    }
}

struct Churn {
    clock: ManualClock,
    limiter: Limiter<ManualClock, Seeded>,
    times: usize,
    /// Threads that still have calls to make.
    at_work: AtomicUsize,
    calls: AtomicU64,
    /// Changes to the second quota, by key.
    changes: [AtomicU64; WATCHED],
    /// Calls admitted, by key.
    admitted: [AtomicU64; WATCHED],
    /// Whether no thread changes quotas.
    quotas_stay: bool,
    no_room: AtomicU64,
    stuck: AtomicU64,
    defaults: AtomicU64,
}

const WATCHERS: usize = 2;
const FLOODERS: usize = 2;
/// The others: one shrinks the table, one changes quotas.
const THREADS: usize = WATCHERS + FLOODERS + 2;

type Keyed = (usize, Admission);

impl Churn {
    fn new(max_keys: usize, seed: u64, times: usize, quotas_stay: bool) -> Self {
        let clock = ManualClock::new();
        let limiter =
            Limiter::builder(DEFAULTS[0]).max_keys(max_keys).overflow(Overflow::DenyNew).clock(clock.clone()).hasher(Seeded(seed)).build();
        for key in (0..WATCHED).filter(|&key| fate(key) == Fate::Fixed) {
            limiter.set_quota(&key, FIXED).expect("nothing is there");
        }
        let zero = || AtomicU64::new(0);
        Self {
            clock,
            limiter,
            times,
            at_work: AtomicUsize::new(WATCHERS + FLOODERS),
            calls: zero(),
            changes: [(); WATCHED].map(|()| zero()),
            admitted: [(); WATCHED].map(|()| zero()),
            quotas_stay,
            no_room: zero(),
            stuck: zero(),
            defaults: zero(),
        }
    }

    fn work(&self, thread: usize) -> Vec<Keyed> {
        let mut random = Random::new(thread + 1);
        match thread {
            0 => self.shrink(),
            1 => self.change(&mut random),
            _ => {
                let admitted = if thread < 2 + WATCHERS { self.watch(&mut random) } else { self.flood(thread, &mut random) };
                self.at_work.fetch_sub(1, Ordering::Relaxed);
                return admitted;
            }
        }
        Vec::new()
    }

    /// Whether all has gone on that is to be tested together. Asked now and then: the figures are added up.
    fn is_enough(&self) -> bool {
        let stats = self.limiter.stats();
        let changed = self.quotas_stay || self.defaults.load(Ordering::Relaxed) > 3;
        let admitted = self.admitted.iter().all(|admitted| admitted.load(Ordering::Relaxed) > 0);
        stats.grown > 64 && stats.shrunk > 64 && stats.evicted_full > 100 && changed && admitted
    }

    /// The numbers of a thread's calls: so many, and more, if not enough has gone on by then, up to a bound that only a scheduler which never
    /// runs one of the threads would let it reach.
    fn numbers(&self) -> impl Iterator<Item = usize> {
        let least = 20_000 * self.times;
        (0..1_000 * least).take_while(move |&number| {
            let over = number >= least;
            if over {
                thread::yield_now();
            }
            !over || number % 1_000 != 0 || !self.is_enough()
        })
    }

    fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) > 0
    }

    fn shrink(&self) {
        while self.is_at_work() {
            self.limiter.shrink();
            thread::yield_now();
        }
    }

    fn change(&self, random: &mut Random) {
        while self.is_at_work() {
            let to = usize::from(random.below(2) == 0);
            let key = usize::try_from(random.below(WATCHED as u64)).expect("a few keys");
            let result = match fate(key) {
                Fate::Default => {
                    self.defaults.fetch_add(1, Ordering::Relaxed);
                    self.limiter.set_default_quota(DEFAULTS[to])
                }
                Fate::Fixed => self.limiter.set_quota(&key, FIXED),
                Fate::Comes if to == 0 => self.limiter.clear_quota(&key),
                Fate::Comes => self.limiter.set_quota(&key, DEFAULTS[0]),
                Fate::Burst => self.limiter.set_quota(&key, BURSTS[to]),
                Fate::Rate => self.limiter.set_quota(&key, RATES[to]),
            };
            self.changes[key].fetch_add(1, Ordering::Relaxed);
            match result {
                Ok(()) => {}
                Err(ChangeError::NoRoom) => _ = self.stuck.fetch_add(1, Ordering::Relaxed),
                Err(error) => panic!("{error}"),
            }
            if random.below(8) == 0 {
                thread::yield_now();
            }
        }
    }

    fn watch(&self, random: &mut Random) -> Vec<Keyed> {
        let mut admitted = Vec::new();
        for _ in self.numbers() {
            let key = usize::try_from(random.below(WATCHED as u64)).expect("a few keys");
            let tokens = if random.below(8) == 0 { random.below(30) + 1 } else { 1 };
            let at = stamp(&self.clock, DEFAULTS[0], random);
            match self.limiter.check_at(&key, tokens, at) {
                Ok(_) => {
                    self.admitted[key].fetch_add(1, Ordering::Relaxed);
                    admitted.push((key, Admission { at: at.as_nanos(), tokens }));
                }
                Err(denied) if denied.reason() == Reason::NoRoom => _ = self.no_room.fetch_add(1, Ordering::Relaxed),
                Err(_) => {}
            }
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// New keys in waves: each is called a few times, and then never again.
    fn flood(&self, thread: usize, random: &mut Random) -> Vec<Keyed> {
        let pinned = self.limiter.pin();
        for number in self.numbers() {
            let key = ("flood", thread, number - usize::try_from(random.below(4)).expect("small").min(number));
            let tokens = random.below(50) + 1;
            _ = if number % 2 == 0 { pinned.check_n(&key, tokens) } else { self.limiter.check_n(&key, tokens) };
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        Vec::new()
    }

    /// What is left when all threads have come to an end.
    fn finish(self, least: usize) {
        let Self { clock, limiter, .. } = self;
        let stats = limiter.stats();
        assert_eq!(stats.evicted_in_debt, 0);
        assert_eq!(stats.allowed + stats.denied, self.calls.into_inner());
        let mut seen = HashSet::new();
        for bucket in limiter.buckets() {
            assert!(seen.insert(bucket.fingerprint), "{bucket:?} is there twice");
        }
        assert_eq!(limiter.len(), seen.len(), "slots that are taken, and buckets: {stats:?}");
        clock.advance(Duration::from_secs(3_600));
        limiter.shrink();
        assert_eq!((limiter.len(), limiter.stats().slots), (0, least), "all are full and dropped: {:?}", limiter.stats());
        assert!(limiter.buckets().next().is_none());
    }
}

#[test]
fn watched_keys_keep_the_promise_whatever_goes_on_around_them() {
    let times = env::var("CHURN_TIMES").map_or(1, |times| times.parse().expect("a number"));
    for (max_keys, seed) in [(1 << 16, 1), (1_000, 2)] {
        let churn = Churn::new(max_keys, seed, times, false);
        let least = churn.limiter.stats().slots;
        let admitted = gather(THREADS, &churn.clock, DEFAULTS[0], |thread| churn.work(thread));
        let mut each = vec![Vec::new(); WATCHED];
        for (key, admission) in admitted {
            each[key].push(admission);
        }
        let stats = churn.limiter.stats();
        println!("{stats:?}, {:?}, no room {:?}, stuck {:?}", churn.changes, churn.no_room, churn.stuck);
        assert!(stats.grown > 64 && stats.shrunk > 64 && stats.evicted_full > 100, "too little went on: {stats:?}");
        let defaults = churn.defaults.load(Ordering::Relaxed);
        assert!(defaults > 3, "{defaults} changes of the default");
        for (key, mut admitted) in each.into_iter().enumerate() {
            let (fate, changes) = (fate(key), churn.changes[key].load(Ordering::Relaxed));
            assert!(!admitted.is_empty());
            let beyond = excess(fate.quota(), &mut admitted);
            let forgiven = i128::from(fate.forgiven()) * i128::from(changes);
            assert!(beyond <= forgiven, "key {key}, {fate:?}, {changes} changes: {beyond} tokens beyond the promise, {forgiven} forgiven");
        }
        churn.finish(least);
    }
}

/// The same without a change of any quota: nothing at all is forgiven.
#[test]
fn no_debt_is_lost_while_the_table_grows_and_shrinks() {
    let times: usize = env::var("CHURN_TIMES").map_or(1, |times| times.parse().expect("a number"));
    for seed in 3..5 {
        let churn = Churn::new(1 << 16, seed, times, true);
        let least = churn.limiter.stats().slots;
        let admitted = gather(THREADS, &churn.clock, DEFAULTS[0], |thread| if thread == 1 { Vec::new() } else { churn.work(thread) });
        let mut each = vec![Vec::new(); WATCHED];
        for (key, admission) in admitted {
            each[key].push(admission);
        }
        let stats = churn.limiter.stats();
        println!("{stats:?}, no room {:?}", churn.no_room);
        assert!(stats.grown > 64 && stats.shrunk > 64 && stats.evicted_full > 100, "too little went on: {stats:?}");
        for (key, mut admitted) in each.into_iter().enumerate() {
            let quota = if fate(key) == Fate::Fixed { FIXED } else { DEFAULTS[0] };
            assert_eq!(excess(quota, &mut admitted), 0, "key {key}: tokens beyond the promise");
        }
        churn.finish(least);
    }
}
