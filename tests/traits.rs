//! What the types promise to code that is generic over them.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use tollgate::{
    Acquire, Allowed, Bucket, BuildError, Clock, CoarseClock, Denied, DeniedBy, Instant, KeyBucket, KeyHasher, Lease, Limiter,
    LimiterBuilder, Limits, LimitsBuilder, ManualClock, MaxWait, MonotonicClock, Overflow, ParseQuotaError, Peek, Quota, QuotaError,
    Reason, Receipt, Reservation, Stats, TokenBucket, Waiters, check_all,
};

const QUOTA: Quota = Quota::per_minute(2).burst(3);
const CAPACITY: u64 = QUOTA.capacity();
static BUCKET: Bucket = Bucket::new(QUOTA);

fn shareable<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static>() {}
fn plain<T: Copy + Eq + Debug + Send + Sync + Unpin + 'static>() {}
fn error<T: Error + Display + Clone + Eq + Send + Sync + 'static>() {}
fn clock<T: Clock + Clone + Debug + Send + Sync + 'static>() {}
fn ordered<T: Copy + Ord + Hash + Default>() {}
fn shared<T: Send + Sync + Unpin + Debug + 'static>() {}
fn sent<T: Send + Debug + 'static>() {}
fn spawned<T: Future<Output = Result<Allowed, Denied>> + Send + Debug + 'static>() {}

#[test]
fn types_have_the_traits_that_are_promised() {
    shareable::<Bucket>();
    shareable::<Bucket<ManualClock>>();
    shareable::<Bucket<CoarseClock>>();
    shareable::<Limiter>();
    shareable::<Limiter<ManualClock>>();
    shareable::<Limiter<Arc<MonotonicClock>, std::hash::RandomState>>();
    shareable::<LimiterBuilder>();
    shareable::<KeyHasher>();
    shareable::<ParseQuotaError>();
    plain::<Allowed>();
    plain::<Denied>();
    plain::<Peek>();
    plain::<Quota>();
    plain::<Stats>();
    plain::<Reason>();
    plain::<Overflow>();
    plain::<Instant>();
    plain::<QuotaError>();
    plain::<BuildError>();
    error::<Denied>();
    error::<QuotaError>();
    error::<BuildError>();
    error::<ParseQuotaError>();
    clock::<ManualClock>();
    clock::<MonotonicClock>();
    clock::<CoarseClock>();
    ordered::<Instant>();
}

type Own = Arc<Bucket>;
type Keyed = KeyBucket<Arc<Limiter>>;
type Timer = fn(Duration) -> std::future::Ready<()>;

#[test]
fn what_waits_or_settles_can_be_shared_and_sent_as_its_bucket_can() {
    shared::<Reservation<Own>>();
    shared::<Reservation<Keyed>>();
    shared::<Reservation<&'static Bucket>>();
    shared::<Receipt<Own>>();
    shared::<Receipt<Keyed>>();
    shared::<MaxWait>();
    shared::<Waiters>();
    shared::<Keyed>();
    shared::<Limits<3>>();
    shared::<LimitsBuilder<3>>();
    // One thread's at a time.
    sent::<Lease<Own>>();
    sent::<Lease<Keyed>>();
    spawned::<Acquire<Own, Timer>>();
    spawned::<Acquire<Keyed, Timer>>();
    shared::<KeyBucket<&'static Limiter>>();
    plain::<DeniedBy>();
    error::<DeniedBy>();
}

#[cfg(feature = "tokio")]
#[test]
fn what_waits_on_tokio_can_be_spawned() {
    spawned::<Acquire<Own, tollgate::TokioSleep>>();
    spawned::<Acquire<Keyed, tollgate::TokioSleep>>();
    spawned::<Acquire<Arc<dyn TokenBucket + Send + Sync>, tollgate::TokioSleep>>();
}

/// Whether a type is `Sync`: the inherent constant stands before the trait's, where there is one.
struct Is<T>(T);

trait Otherwise {
    const SYNC: bool = false;
}

impl<T> Otherwise for Is<T> {}

impl<T: Sync> Is<T> {
    const SYNC: bool = true;
}

#[test]
fn a_lease_is_one_threads() {
    const { assert!(Is::<Own>::SYNC && Is::<Reservation<Own>>::SYNC) };
    const { assert!(!Is::<Lease<Own>>::SYNC) };
}

#[test]
fn a_bucket_of_any_kind_is_one_to_what_takes_from_it() {
    let clock = ManualClock::new();
    let bucket = Arc::new(Bucket::with_clock(QUOTA, clock.clone()));
    let limiter = Arc::new(Limiter::builder(QUOTA).clock(clock.clone()).build());
    let kinds: [Arc<dyn TokenBucket + Send + Sync>; 3] = [bucket.clone(), Arc::new(limiter.bucket_owned("key")), Arc::new(bucket.clone())];
    for kind in &kinds {
        assert!(kind.check_at(0, kind.now()).is_ok() && kind.look_at(1, kind.now()).is_ok());
    }
    assert_eq!(check_all([(&kinds[0], 1), (&kinds[1], 2), (&kinds[2], 1)]).map(|all| all.map(|one| one.remaining())), Ok([2, 1, 1]));
    Reservation::book(&*kinds[0], 1, Duration::ZERO).expect("one is left").cancel();
    Receipt::take(Arc::clone(&kinds[1]), 1).expect("one is left").refund();
    assert_eq!((bucket.peek().remaining(), limiter.peek("key").remaining()), (1, 1));
    assert_eq!(limiter.bucket("key").quota(), QUOTA);
}

#[test]
fn a_bucket_lives_in_a_static_and_a_quota_in_a_const() {
    assert_eq!(BUCKET.quota(), QUOTA);
    let allowed = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| BUCKET.check().is_ok()));
        threads.map(|thread| thread.join().expect("no panic")).into_iter().filter(|&allowed| allowed).count()
    });
    assert_eq!(allowed, 3);
    assert_eq!((CAPACITY, QUOTA.tokens(), QUOTA.period()), (3, 2, Duration::from_secs(60)));
}

#[test]
fn errors_go_through_the_question_mark() {
    fn refused(text: &str, max_keys: usize, n: u64) -> Result<u64, Box<dyn Error + Send + Sync>> {
        let quota: Quota = text.parse()?;
        let quota = quota.with_burst(5)?;
        let limiter = Limiter::builder(quota).max_keys(max_keys).clock(ManualClock::new()).try_build()?;
        Ok(limiter.check_n("key", n)?.remaining())
    }
    assert_eq!(refused("1/s", 1, 2).expect("nothing refuses that"), 3);
    let error = |text, max_keys, n| refused(text, max_keys, n).expect_err("to be refused");
    assert!(error("many", 1, 1).downcast_ref::<ParseQuotaError>().is_some_and(|error| error.source().is_none()));
    let zero = error("0/s", 1, 1);
    assert_eq!(zero.source().and_then(<dyn Error>::downcast_ref), Some(&QuotaError::ZeroTokens));
    assert_eq!(error("1/s", 0, 1).downcast_ref(), Some(&BuildError::ZeroKeys));
    assert_eq!(error("1/s", 1, 6).downcast_ref().map(Denied::requested), Some(6));
}

#[test]
fn quotas_are_equal_if_their_numbers_are() {
    assert_eq!(Quota::per_minute(60), Quota::new(60, Duration::from_secs(60)).expect("the same"));
    assert_ne!(Quota::per_minute(60), Quota::per_second(1), "the same rate with another burst");
    assert_ne!(Quota::per_second(1).burst(60), Quota::per_minute(60), "another period");
}

#[test]
fn clones_of_a_manual_clock_share_the_time() {
    let clock = ManualClock::default();
    let clone = clock.clone();
    let shared: Arc<dyn Clock + Send + Sync> = Arc::new(clock.clone());
    assert_eq!(clone.now(), Instant::ORIGIN);
    clock.advance(Duration::from_secs(2));
    assert_eq!((clone.now().as_nanos(), shared.now().as_nanos()), (2_000_000_000, 2_000_000_000));
    clone.set(Duration::from_secs(1));
    assert_eq!((clock.now(), (&&clock).now()), (Instant::ORIGIN + Duration::from_secs(1), clone.now()));
    assert_eq!(ManualClock::new().now(), Instant::ORIGIN, "another clock has its own time");
}

#[test]
fn a_clock_may_be_borrowed_shared_or_of_any_kind() {
    fn drains(clock: impl Clock) {
        let bucket = Bucket::with_clock(Quota::per_second(1), clock);
        assert!(bucket.check().is_ok() && bucket.check().is_err());
    }
    let clock = ManualClock::new();
    drains(&clock);
    drains(Arc::new(clock.clone()));
    drains(Arc::new(clock.clone()) as Arc<dyn Clock>);
    drains(&clock as &dyn Clock);
    drains(clock);
}

/// Waits for what must come, however slowly.
fn eventually(holds: impl Fn() -> bool) -> bool {
    const PATIENCE: Duration = Duration::from_secs(60);
    let start = StdInstant::now();
    while !holds() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Whether the thread that moves coarse clocks runs; `None` where that cannot be seen.
fn clock_thread_runs() -> Option<bool> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    Some(names.into_iter().any(|name| name.trim_end() == "tollgate-clock"))
}

/// The only test here with a coarse clock, as it looks for the thread by name.
#[test]
fn a_coarse_clock_is_never_ahead_moves_on_and_ends_with_its_last_clone() {
    let clock = CoarseClock::new(Duration::from_millis(1)).expect("a thread can be had");
    let start = clock.now();
    for _ in 0..10_000 {
        let coarse = clock.now();
        // Counters of two processors may differ by a little.
        assert!(coarse <= MonotonicClock::new().now() + Duration::from_millis(10));
    }
    assert!(eventually(|| clock.now() > start + Duration::from_millis(5)), "the clock stands still");

    let clone = clock.clone();
    drop(clock);
    let now = clone.now();
    assert!(eventually(|| clone.now() > now), "a clone keeps the clock going");
    drop(clone);
    assert!(eventually(|| clock_thread_runs() != Some(true)), "the thread goes on without a clock");
}

#[test]
fn a_monotonic_clock_is_one_for_the_process() {
    let before = MonotonicClock::new().now();
    let elsewhere = thread::spawn(|| MonotonicClock::default().now()).join().expect("no panic");
    // Counters of two processors may differ by a little.
    let slack = Duration::from_millis(10);
    assert!(before <= elsewhere + slack && elsewhere <= MonotonicClock::new().now() + slack);
    assert!(eventually(|| MonotonicClock::new().now() > before + Duration::from_millis(5)));
}

#[cfg(feature = "serde")]
#[test]
fn a_quota_is_one_string_to_serde() {
    for quota in [QUOTA, Quota::per_day(1), Quota::new(7, Duration::from_nanos(1_500)).expect("ordinary").burst(9)] {
        let json = serde_json::to_string(&quota).expect("a string");
        assert_eq!(json, format!("\"{quota}\""));
        assert_eq!(serde_json::from_str::<Quota>(&json).expect("read back"), quota);
    }
    let refused = serde_json::from_str::<Quota>("\"0/s\"").expect_err("no quota");
    assert!(refused.to_string().contains("0 tokens per period"), "{refused}");
    assert!(serde_json::from_str::<Quota>("5").expect_err("a number").to_string().contains("100/s burst 200"));
}
