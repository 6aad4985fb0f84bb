//! No check allocates or frees, whatever it decides.

#![allow(unsafe_code)]

#[cfg(feature = "tower")]
mod http;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tollgate::{
    Bucket, Clock, CoarseClock, Instant, Limiter, Limits, ManualClock, MaxWait, MonotonicClock, Overflow, Quota, Reason, Waiters, check_all,
};

/// The system's allocator, counting what the current thread asks of it.
struct Counting;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Calls {
    allocated: u64,
    freed: u64,
}

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments to the system's allocator unchanged, and returns what that returns. Counting does not allocate: the
// counts are constant-initialised thread-locals without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: as the caller promised this method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        FREED.set(FREED.get() + 1);
        // SAFETY: as the caller promised this method.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: as the caller promised this method.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: as the caller promised this method.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// A timer that has no memory but its own.
struct Until<'a>(&'a ManualClock, Instant);

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.now() < self.1 { Poll::Pending } else { Poll::Ready(()) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` returns, and what it asked of the allocator.
fn counted<T>(work: impl FnOnce() -> T) -> (T, Calls) {
    let (allocated, freed) = (ALLOCATED.get(), FREED.get());
    let result = work();
    (result, Calls { allocated: ALLOCATED.get() - allocated, freed: FREED.get() - freed })
}

/// What `work` returns, which must neither allocate nor free.
#[track_caller]
fn without_allocating<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (result, calls) = counted(work);
    assert_eq!(calls, Calls { allocated: 0, freed: 0 }, "{what}");
    result
}

fn quota() -> Quota {
    Quota::per_second(10)
}

fn limiter(overflow: Overflow) -> (ManualClock, Limiter<ManualClock>) {
    let clock = ManualClock::new();
    (clock.clone(), Limiter::builder(quota()).max_keys(4).overflow(overflow).clock(clock).build())
}

/// Gives the current thread its place among a limiter's counts, as its first check of any limiter would.
fn warm_up() {
    let (_, limiter) = limiter(Overflow::DenyNew);
    assert!(limiter.check("warm-up").is_ok());
}

#[test]
fn the_count_counts() {
    let ((), calls) = counted(|| drop(black_box(Box::new(1))));
    assert_eq!(calls, Calls { allocated: 1, freed: 1 });
}

#[test]
fn no_check_of_a_bucket_allocates() {
    let clock = ManualClock::new();
    let bucket = without_allocating("a new bucket", || Bucket::with_clock(quota(), clock.clone()));
    assert!(without_allocating("allowed", || bucket.check()).is_ok());
    assert!(without_allocating("allowed, the rest", || bucket.check_n(9)).is_ok());
    assert!(without_allocating("denied", || bucket.check()).is_err());
    assert!(without_allocating("over burst", || bucket.check_n(11)).is_err());
    assert!(without_allocating("nothing asked for", || bucket.check_n(0)).is_ok());
    assert!(!without_allocating("peek", || bucket.peek()).is_full());
    without_allocating("the clock", || clock.advance(Duration::from_secs(1)));
    assert!(without_allocating("allowed again", || bucket.check()).is_ok());
}

#[test]
fn no_answer_allocates_to_say_more() {
    let bucket = Bucket::with_clock(quota(), ManualClock::new());
    without_allocating("getters", || {
        let allowed = bucket.check_n(10).expect("starts full");
        let denied = bucket.check().expect_err("drained");
        let peek = bucket.peek();
        black_box((allowed.remaining(), allowed.limit(), allowed.reset_after()));
        black_box((denied.remaining(), denied.limit(), denied.requested(), denied.reason(), denied.reset_after(), denied.retry_after()));
        black_box((peek.remaining(), peek.limit(), peek.reset_after(), peek.is_full(), peek.full_for()));
    });
}

#[test]
fn no_check_of_a_key_allocates() {
    warm_up();
    let (_, limiter) = limiter(Overflow::EvictLeastDebt);
    let key = String::from("key");
    assert!(without_allocating("new key, allowed", || limiter.check(&key)).is_ok());
    assert!(without_allocating("known key, allowed", || limiter.check_n(&key, 9)).is_ok());
    assert!(without_allocating("known key, denied", || limiter.check(&key)).is_err());
    assert!(without_allocating("known key, over burst", || limiter.check_n(&key, 11)).is_err());
    assert!(without_allocating("new key, over burst", || limiter.check_n("new", 11)).is_err());
    assert!(without_allocating("known key, nothing asked for", || limiter.check_n(&key, 0)).is_ok());
    assert!(without_allocating("new key, nothing asked for", || limiter.check_n("new", 0)).is_ok());
    assert!(!without_allocating("peek at a known key", || limiter.peek(&key)).is_full());
    assert!(without_allocating("peek at a new key", || limiter.peek("new")).is_full());
    let stats = without_allocating("stats", || limiter.stats());
    assert_eq!((stats.allowed, stats.denied), (4, 3));
    assert_eq!(without_allocating("len", || (limiter.len(), limiter.is_empty(), limiter.capacity())), (1, false, 4));
}

#[test]
fn no_eviction_of_a_full_bucket_allocates() {
    warm_up();
    let (clock, limiter) = limiter(Overflow::DenyNew);
    for round in 0..100 {
        for key in 0..4 {
            assert!(without_allocating("new key", || limiter.check(&(round, key))).is_ok());
        }
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(limiter.stats().evicted_full, 99 * 4);
}

#[test]
fn no_eviction_of_a_bucket_in_debt_allocates() {
    warm_up();
    let (_, limiter) = limiter(Overflow::EvictLeastDebt);
    for key in 0..100 {
        assert!(without_allocating("new key", || limiter.check(&key)).is_ok());
    }
    assert_eq!(limiter.stats().evicted_in_debt, 96);
}

#[test]
fn no_denial_for_want_of_room_allocates() {
    warm_up();
    let (_, limiter) = limiter(Overflow::DenyNew);
    for key in 0..100 {
        match without_allocating("new key", || limiter.check(&key)) {
            Ok(_) => assert!(key < 4),
            Err(denied) => assert_eq!(denied.reason(), Reason::NoRoom),
        }
    }
    assert_eq!(limiter.stats().denied, 96);
}

#[test]
fn no_check_on_a_real_clock_allocates() {
    warm_up();
    let bucket = Bucket::new(quota());
    let limiter = Limiter::builder(quota()).max_keys(4).build();
    // The first reading of all starts the clock.
    assert!(bucket.check().is_ok());
    assert!(without_allocating("monotonic", || (bucket.check(), limiter.check("key"))).0.is_ok());

    let clock = CoarseClock::new(Duration::from_millis(1)).expect("a thread can be had");
    let bucket = Bucket::with_clock(quota(), clock);
    assert!(without_allocating("coarse", || bucket.check()).is_ok());
}

/// It may free: a thread takes its place among a limiter's counts from a tree of those that were given back.
#[test]
fn not_even_the_first_check_of_a_thread_allocates() {
    const THREADS: usize = 60;
    let limiter = Limiter::builder(quota()).max_keys(100).build();
    // More threads at a time than there were before, and then as many that count where those did.
    for _ in 0..2 {
        let all = Barrier::new(THREADS);
        thread::scope(|scope| {
            for key in 0..THREADS {
                let (limiter, all) = (&limiter, &all);
                scope.spawn(move || {
                    all.wait();
                    let (answer, calls) = counted(|| limiter.check(&key));
                    all.wait();
                    assert!(answer.is_ok());
                    assert_eq!(calls.allocated, 0);
                });
            }
        });
    }
}

#[test]
fn a_static_bucket_needs_no_memory() {
    static BUCKET: Bucket<MonotonicClock> = Bucket::new(Quota::per_second(10));
    // The first reading of all starts the clock.
    assert!(BUCKET.check().is_ok());
    assert!(without_allocating("static", || BUCKET.check()).is_ok());
}

/// Each of many keys takes the table through growth, and its buckets through moves.
#[test]
fn no_check_that_makes_the_table_grow_allocates() {
    const KEYS: u32 = 20_000;
    warm_up();
    for max_keys in [KEYS as usize, 1 << 20] {
        let limiter = Limiter::builder(quota()).max_keys(max_keys).clock(ManualClock::new()).build();
        for key in 0..KEYS {
            assert!(without_allocating("new key", || limiter.check(&key)).is_ok());
        }
        let stats = without_allocating("stats", || limiter.stats());
        assert!(stats.grown > 4_000, "{stats:?}");
        assert_eq!(without_allocating("buckets", || limiter.buckets().count()), KEYS as usize);
    }
}

/// The second look at the same table: it has grown, and shrinks in passing.
#[test]
fn no_check_that_tends_the_table_allocates() {
    warm_up();
    let clock = ManualClock::new();
    let limiter = Limiter::builder(quota()).max_keys(1 << 20).clock(clock.clone()).build();
    (0..10_000).for_each(|key| assert!(limiter.check(&key).is_ok()));
    clock.advance(Duration::from_secs(20));
    let most = limiter.memory();
    let mut calls = 0;
    while limiter.stats().shrunk < 4_000 {
        for _ in 0..10_000 {
            without_allocating("a hot key", || _ = black_box(limiter.check("hot")));
        }
        calls += 10_000;
        assert!(calls < 2_000_000, "{:?}", limiter.stats());
    }
    if cfg!(target_os = "linux") {
        assert!(limiter.memory() < most / 2, "{} bytes of {most}", limiter.memory());
    }
    // What it gave back it takes again.
    (0..10_000).for_each(|key| assert!(without_allocating("grown again", || limiter.check(&key)).is_ok()));
    clock.advance(Duration::from_secs(20));
    without_allocating("shrink", || limiter.shrink());
    assert_eq!(limiter.len(), 0);
}

#[test]
fn no_check_of_a_key_with_its_own_quota_allocates() {
    warm_up();
    let (clock, limiter) = limiter(Overflow::DenyNew);
    limiter.set_quota("key", Quota::per_second(7_919).burst(5)).expect("room");
    // The first look into the map of a thread takes its place there.
    assert_eq!(limiter.quota("key").capacity(), 5);
    for _ in 0..3 {
        assert!(without_allocating("new bucket", || limiter.check("key")).is_ok());
        assert!(without_allocating("allowed", || limiter.check_n("key", 4)).is_ok());
        assert!(without_allocating("denied", || limiter.check("key")).is_err());
        assert!(!without_allocating("peek", || limiter.peek("key")).is_full());
        assert_eq!(without_allocating("quota", || limiter.quota("key")).capacity(), 5);
        assert_eq!(without_allocating("own quotas", || limiter.own_quotas()), 1);
        clock.advance(Duration::from_secs(1));
        without_allocating("shrink", || limiter.shrink());
    }
    // Under a default that is replaced.
    assert!(limiter.check("other").is_ok());
    limiter.set_default_quota(Quota::per_second(20)).expect("room");
    assert_eq!(without_allocating("changed", || limiter.check("other")).expect("plenty").remaining(), 18);
    limiter.clear_quota("key").expect("room");
    assert_eq!(without_allocating("cleared", || limiter.check("key")).expect("full").remaining(), 19);
}

/// The map of own quotas keeps a place for each thread, in blocks: only a look into a new block allocates, and a thread looks there once.
#[test]
fn only_the_first_look_of_a_thread_at_own_quotas_may_allocate() {
    const THREADS: usize = 60;
    let limiter = Limiter::builder(quota()).max_keys(200).build();
    limiter.set_quota(&0, Quota::per_second(20).burst(100)).expect("room");
    let all = Barrier::new(THREADS);
    let work = |thread: usize| {
        all.wait();
        let (first, calls) = counted(|| limiter.check(&(1 + thread)));
        let (second, later) = counted(|| (limiter.check(&0), limiter.check(&(1_000 + thread))));
        all.wait();
        assert!(first.is_ok() && second.0.is_ok() && second.1.is_ok());
        (calls.allocated, later.allocated)
    };
    let allocated: Vec<(u64, u64)> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(allocated.iter().all(|&(first, later)| first <= 1 && later == 0), "{allocated:?}");
}

#[test]
fn no_check_through_a_pinned_limiter_allocates() {
    warm_up();
    let (_, limiter) = limiter(Overflow::DenyNew);
    let pinned = without_allocating("pin", || limiter.pin());
    assert!(without_allocating("new key", || pinned.check("key")).is_ok());
    assert!(without_allocating("known key", || pinned.check_n("key", 9)).is_ok());
    assert!(without_allocating("denied", || pinned.check("key")).is_err());
}

/// The same for a bucket's handle and for a key's.
macro_rules! without_waiting_for_memory {
    ($clock:expr, $bucket:expr) => {{
        let (clock, bucket): (&ManualClock, _) = ($clock, $bucket);
        let (second, waiters) = (Duration::from_secs(1), Waiters::new(2));
        let max_wait = without_allocating("a bound", || MaxWait::new(second).among(&waiters));

        let there = without_allocating("reserve, there", || bucket.reserve(10, &max_wait)).expect("full");
        let waits = without_allocating("reserve, waiting", || bucket.reserve(1, &max_wait)).expect("within a second");
        let behind = without_allocating("reserve, behind", || bucket.reserve(1, &max_wait)).expect("within a second");
        let denied = without_allocating("reserve, too many", || bucket.reserve(1, &max_wait).map(|_| ())).expect_err("two wait");
        assert_eq!(denied.reason(), Reason::TooManyWaiters);
        assert!(without_allocating("reserve, too long", || bucket.reserve(10, second / 2).is_err()));
        assert!(without_allocating("reserve, over burst", || bucket.reserve(11, second).is_err()));
        without_allocating("cancel", || waits.cancel());
        without_allocating("drop, early", || drop(behind));
        without_allocating("keep", || _ = there.keep());

        let context = &mut Context::from_waker(Waker::noop());
        let sleep = |time| Until(clock, clock.now() + time);
        {
            let mut acquire = pin!(without_allocating("acquire", || bucket.acquire_with(1, &max_wait, sleep)));
            assert!(without_allocating("poll, booking", || acquire.as_mut().poll(context)).is_pending());
            assert!(without_allocating("poll, asleep", || acquire.as_mut().poll(context)).is_pending());
            clock.advance(second);
            assert!(done(&without_allocating("poll, due", || acquire.as_mut().poll(context)), true));
        }
        without_allocating("acquire, at once, denied, and dropped", || {
            assert!(done(&pin!(bucket.acquire_with(9, &max_wait, sleep)).poll(context), true));
            assert!(done(&pin!(bucket.acquire_with(10, second / 2, sleep)).poll(context), false));
            assert!(pin!(bucket.acquire_with(5, second, sleep)).poll(context).is_pending());
        });
        assert_eq!(without_allocating("waiting", || waiters.waiting()), 0);
        assert!(without_allocating("acquire in this thread", || bucket.acquire_blocking(5, Duration::ZERO)).is_err());

        clock.advance(2 * second);
        let (less, more) = without_allocating("estimate", || (bucket.estimate(4), bucket.estimate(4)));
        assert!(without_allocating("settle below", || less.expect("full").settle(1)).is_ok());
        assert!(without_allocating("settle above", || more.expect("full").settle(40)).is_ok());
        assert!(without_allocating("estimate, denied", || bucket.estimate(1).is_err()));
        assert!(without_allocating("charge", || bucket.charge(1_000)).is_ok());
        clock.advance(1_000 * second);
        let refund = without_allocating("estimate again", || bucket.estimate(4)).expect("full");
        without_allocating("refund", || refund.refund());

        let lease = without_allocating("lease", || bucket.lease(4));
        assert!(without_allocating("lease, a batch", || lease.check()).is_ok());
        assert!(without_allocating("lease, from the handle", || lease.check()).is_ok());
        assert!(without_allocating("lease, denied", || lease.check_n(20)).is_err());
        without_allocating("rest", || lease.rest());
        assert!(without_allocating("lease, again", || lease.check()).is_ok());
        without_allocating("lease, dropped", || drop(lease));
        clock.advance(1_000 * second);

        let other = Bucket::with_clock(quota(), clock.clone());
        assert!(without_allocating("several", || check_all([(&bucket, 10), (&other, 1)])).is_ok());
        assert!(without_allocating("several, denied", || check_all([(&other, 1), (&bucket, 1)])).is_err());
        clock.advance(1_000 * second);
        assert!(without_allocating("several, given back", || check_all([(&other, 1), (&bucket, 6), (&bucket, 6)])).is_err());
    }};
}

/// Whether a future is done, and what it returned is an answer of that kind.
fn done<T, E>(polled: &Poll<Result<T, E>>, allowed: bool) -> bool {
    matches!(polled, Poll::Ready(answer) if answer.is_ok() == allowed)
}

#[test]
fn nothing_that_waits_for_a_bucket_or_pays_afterwards_allocates() {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(quota(), clock.clone());
    without_waiting_for_memory!(&clock, &bucket);
}

#[test]
fn nothing_that_waits_for_a_key_or_pays_afterwards_allocates() {
    warm_up();
    let (clock, limiter) = limiter(Overflow::DenyNew);
    let key = without_allocating("a key's bucket", || limiter.bucket("key"));
    without_waiting_for_memory!(&clock, key);
    // The same for one that has no bucket yet.
    let new = without_allocating("another's", || limiter.bucket("new"));
    assert!(without_allocating("charge", || new.charge(1)).is_ok());
    assert!(without_allocating("reserve", || limiter.bucket("third").reserve(1, Duration::ZERO).is_ok()));
}

#[test]
fn no_check_of_several_quotas_allocates() {
    warm_up();
    let clock = ManualClock::new();
    let limits = Limits::builder([quota(), Quota::per_hour(20), Quota::per_second(7_919)]).max_keys(4).clock(clock.clone()).build();
    for round in 0..2 {
        assert!(without_allocating("new buckets or known ones", || limits.check("key")).is_ok(), "round {round}");
    }
    assert_eq!(without_allocating("the first denies", || limits.check_n("key", 9)).expect_err("eight are left").index(), 0);
    assert!(without_allocating("allowed", || limits.check_n("key", 8)).is_ok());
    clock.advance(Duration::from_secs(1));
    assert!(without_allocating("allowed", || limits.check_n("key", 10)).is_ok());
    assert_eq!(without_allocating("the second denies", || limits.check("key")).expect_err("drained").index(), 1);
    assert!(!without_allocating("buckets", || limits.buckets("key"))[0].peek().is_full());
}
