//! No argument makes a public function panic or overflow, but for what its docs name.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tollgate::{
    Allowed, Bucket, BuildError, Clock, CoarseClock, Denied, Instant, KeyHasher, Limiter, MOST_MAX_KEYS, ManualClock, MonotonicClock,
    Overflow, ParseQuotaError, Peek, Quota, QuotaError, Reason, Stats,
};

const NUMBERS: [u64; 15] =
    [0, 1, 2, 3, 101, 1_000, 1 << 31, 1 << 32, (1 << 53) + 1, 14_000_000_000, 1 << 61, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];

fn durations() -> Vec<Duration> {
    let nanos = NUMBERS.into_iter().map(Duration::from_nanos);
    nanos.chain(NUMBERS.into_iter().map(Duration::from_secs)).chain([Duration::MAX]).collect()
}

/// All quotas that can be made of extreme numbers.
fn quotas() -> Vec<Quota> {
    let mut quotas = Vec::new();
    for tokens in NUMBERS {
        for period in durations() {
            let quota = Quota::new(tokens, period);
            look_at(&quota);
            let Ok(quota) = quota else { continue };
            for burst in NUMBERS {
                let with_burst = quota.with_burst(burst);
                look_at(&with_burst);
                let Ok(with_burst) = with_burst else { continue };
                assert_eq!((with_burst.tokens(), with_burst.period(), with_burst.capacity()), (tokens, period, burst));
                quotas.push(with_burst);
            }
        }
    }
    let mut seen = HashSet::new();
    quotas.retain(|quota| seen.insert(quota.to_string()));
    quotas
}

fn look_at(thing: &impl Debug) {
    black_box(format!("{thing:?} {thing:#?}"));
}

fn use_quota(quota: Quota) {
    assert!(quota.tokens() > 0 && !quota.period().is_zero() && quota.capacity() > 0);
    assert!(quota.tick_nanos() > 0.0 && quota.tick_nanos().is_finite());
    black_box((quota.is_exact(), quota.to_string()));
}

fn use_answer(answer: Result<Allowed, Denied>) {
    look_at(&answer);
    match answer {
        Ok(allowed) => {
            assert!(allowed.remaining() <= allowed.limit());
            black_box(allowed.reset_after());
        }
        Err(denied) => {
            assert!(denied.remaining() <= denied.limit());
            black_box((denied.to_string(), denied.reset_after(), denied.retry_after(), denied.requested()));
            assert_eq!(denied.reason() == Reason::OverBurst, denied.retry_after().is_none());
            assert_ne!(denied.retry_after(), Some(Duration::ZERO), "{denied:?}");
        }
    }
}

fn use_peek(peek: Peek) {
    look_at(&peek);
    assert!(peek.remaining() <= peek.limit());
    assert_eq!(peek.is_full(), peek.reset_after().is_zero());
    black_box(peek.full_for());
}

#[test]
fn quotas_of_any_numbers() {
    let quotas = quotas();
    assert!(quotas.len() > 1_000, "{}", quotas.len());
    quotas.into_iter().for_each(use_quota);
}

#[test]
fn texts_that_are_quotas() {
    const SECOND: u64 = 1_000_000_000;
    let texts = [
        ("100/s burst 200", 100, SECOND, 200),
        ("5/30m", 5, 1_800 * SECOND, 5),
        ("1/day", 1, 86_400 * SECOND, 1),
        ("2500/h burst 1", 2_500, 3_600 * SECOND, 1),
        ("  7 / 30 minutes   burst   10 ", 7, 1_800 * SECOND, 10),
        ("3/2d", 3, 2 * 86_400 * SECOND, 3),
        ("1/250ms", 1, SECOND / 4, 1),
        ("1/2us", 1, 2_000, 1),
        ("1/ns", 1, 1, 1),
        ("18/1sec", 18, SECOND, 18),
        ("18/hr", 18, 3_600 * SECOND, 18),
    ];
    for (text, tokens, period, burst) in texts {
        let quota: Quota = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!((quota.tokens(), quota.period(), quota.capacity()), (tokens, Duration::from_nanos(period), burst), "{text:?}");
    }
}

#[test]
fn texts_that_are_no_quotas() {
    let malformed =
        ["", " ", "1", "1/", "/s", "s", "+1/s", "-1/s", "1/+1s", "1.5/s", "1/x", "1/s/s", "1 s", "1/s 2", "1/s burst", "1/s burst x"];
    let outsized = ["0/s", "1/0s", "1/s burst 0", "1/18446744073709551615day", "1/s burst 18446744073709551615", "18446744073709551615/ns"];
    let beyond = ["18446744073709551616/s", "1/18446744073709551616s", "1/s burst 18446744073709551616"];
    for text in malformed.into_iter().chain(beyond) {
        let Err(error @ ParseQuotaError::Syntax { .. }) = text.parse::<Quota>() else { panic!("{text:?} is read") };
        assert!(error.to_string().contains("quotas look like"), "{error}");
    }
    for text in outsized {
        assert!(matches!(text.parse::<Quota>(), Err(ParseQuotaError::Quota(_))), "{text:?}");
    }
}

#[test]
fn calls_of_any_numbers_at_any_time() {
    for quota in quotas() {
        for first in [0, 1 << 55, u64::MAX] {
            let clock = ManualClock::new();
            clock.set(Duration::from_nanos(first));
            let bucket = Bucket::with_clock(quota, clock.clone());
            let limiter = Limiter::builder(quota).max_keys(2).clock(clock.clone()).build();
            for at in [first, u64::MAX, 0, 1 << 62, 1 << 32] {
                clock.set(Duration::from_nanos(at));
                for n in [0, 1, quota.capacity(), quota.capacity().saturating_add(1), u64::MAX] {
                    use_answer(bucket.check_n(n));
                    use_answer(bucket.check_at(n, Instant::from_nanos(at ^ n)));
                    use_answer(limiter.check_n(&n, n));
                    use_answer(limiter.check_at("key", n, Instant::from_nanos(at ^ n)));
                }
                use_answer(bucket.check());
                use_answer(limiter.check("key"));
                use_peek(bucket.peek());
                use_peek(limiter.peek("key"));
                use_peek(limiter.peek("unknown"));
            }
            assert_eq!((bucket.quota(), limiter.default_quota()), (quota, quota));
            look_at(&bucket);
            look_at(&limiter);
        }
    }
}

#[test]
fn where_time_has_stopped_no_wait_is_short() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    for quota in [Quota::per_second(13_000_000_000), Quota::per_second(7_919).burst(1 << 40), Quota::new(1, 270 * YEAR).expect("slow")] {
        let clock = ManualClock::new();
        let bucket = Bucket::with_clock(quota, clock.clone());
        clock.set(580 * YEAR);
        assert!(bucket.check_n(quota.capacity()).is_ok());
        let denied = bucket.check().expect_err("drained for ever");
        assert_eq!((denied.retry_after(), denied.reset_after()), (Some(Duration::MAX), Duration::MAX), "{quota}");
        assert_eq!((bucket.peek().is_full(), bucket.peek().reset_after()), (false, Duration::MAX), "{quota}");
    }
}

#[test]
fn clocks_and_instants_of_any_duration() {
    for by in durations() {
        for from in durations() {
            let clock = ManualClock::new();
            clock.set(from);
            let start = clock.now();
            clock.advance(by);
            assert_eq!(clock.now(), start + by);
            assert!(start - by <= start && start <= start + by);
            let passed = (start + by).saturating_duration_since(start);
            assert!(passed <= by || by.is_zero());
            assert_eq!(start.saturating_duration_since(start + by), Duration::ZERO);
            look_at(&(clock, start));
        }
    }
    assert_eq!(Instant::from_nanos(u64::MAX) + Duration::MAX, Instant::from_nanos(u64::MAX));
    assert_eq!(Instant::from_nanos(u64::MAX) - Duration::MAX, Instant::ORIGIN);
}

#[test]
fn coarse_clocks_of_any_age() {
    for age in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX] {
        let clock = CoarseClock::new(age).expect("a thread can be had");
        look_at(&(clock.now(), &clock));
    }
}

#[test]
fn tables_of_any_size() {
    let build = |max_keys| Limiter::builder(Quota::per_second(2)).max_keys(max_keys).clock(ManualClock::new()).try_build();
    assert!(matches!(build(0), Err(BuildError::ZeroKeys)));
    for too_many in [usize::MAX, usize::MAX - 1, usize::MAX / 2, MOST_MAX_KEYS + 1] {
        let Err(error) = build(too_many) else { panic!("{too_many} keys") };
        assert_eq!(error, BuildError::TooManyKeys { max_keys: too_many });
        assert!(error.to_string().contains(&too_many.to_string()), "{error}");
    }
    for max_keys in (1..=17).chain([1_000, 1 << 20, (1 << 20) + 1]) {
        let limiter = build(max_keys).expect("ordinary sizes");
        assert_eq!((limiter.capacity(), limiter.len(), limiter.is_empty()), (max_keys, 0, true));
        for key in 0..100 {
            use_answer(limiter.check(&key));
            assert!(limiter.len() <= limiter.capacity());
        }
        assert_eq!(limiter.len(), max_keys.min(100), "as many as there may be");
    }
}

#[test]
fn a_table_for_one_key_holds_one() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(1)).max_keys(1).overflow(Overflow::DenyNew).clock(clock.clone()).build();
    for round in 0..100 {
        assert!(limiter.check(&round).is_ok());
        assert!(limiter.check(&round).is_err());
        let denied = limiter.check("other").expect_err("no room");
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::NoRoom, Some(Duration::from_secs(1))));
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(limiter.stats().evicted_full, 99);
}

/// A hasher with one hash for all keys.
#[derive(Clone, Debug)]
struct Constant(u64);

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}
}

impl BuildHasher for Constant {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

#[test]
fn keys_that_hash_alike_share_a_bucket() {
    for hash in [0, 1, 1 << 42, 1 << 43, u64::MAX >> 21, u64::MAX << 43, u64::MAX] {
        for max_keys in [1, 2, 3, 1_000] {
            let limiter =
                Limiter::builder(Quota::per_second(10)).max_keys(max_keys).clock(ManualClock::new()).hasher(Constant(hash)).build();
            let allowed = (0..100).filter(|key| limiter.check(key).is_ok()).count();
            assert_eq!((allowed, limiter.len()), (10, 1), "hash {hash:#x}");
        }
    }
}

/// Hashes numbers to themselves, so that keys can be placed: high bits choose the lines.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unimplemented!("only for u64")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[test]
fn keys_that_all_want_the_same_slots() {
    for overflow in [Overflow::EvictLeastDebt, Overflow::DenyNew] {
        for max_keys in [1, 8, 9, 1_000] {
            let limiter = Limiter::builder(Quota::per_second(2)).max_keys(max_keys).overflow(overflow).clock(ManualClock::new());
            let limiter = limiter.hasher(BuildHasherDefault::<Identity>::default()).build();
            // Low bits only: the first line is always the same.
            for key in 0..10_000_u64 {
                use_answer(limiter.check(&key));
                assert!(limiter.len() <= limiter.capacity());
            }
            let stats = limiter.stats();
            assert_eq!(stats.allowed + stats.denied, 10_000);
            assert_eq!(stats.evicted_in_debt > 0, overflow == Overflow::EvictLeastDebt);
        }
    }
}

/// A search for a bucket to give way that met the new key's fingerprint elsewhere took it for the key's own, and began again for ever.
#[test]
fn keys_with_equal_fingerprints_in_different_lines() {
    let limiter = Limiter::builder(Quota::per_second(2)).max_keys(1_000).clock(ManualClock::new());
    let limiter = limiter.hasher(BuildHasherDefault::<Identity>::default()).build();
    for number in 0..20_000_u64 {
        // High bits, which choose the lines, all different; low bits, the fingerprint, one of seven.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 43 << 43;
        use_answer(limiter.check(&(spread | (1 + number % 7))));
        assert!(limiter.len() <= limiter.capacity());
    }
    let stats = limiter.stats();
    assert_eq!(stats.allowed + stats.denied, 20_000);
}

#[test]
fn any_good_hasher_will_do() {
    fn separate<S: BuildHasher>(hasher: S) {
        let limiter = Limiter::builder(Quota::per_second(2)).max_keys(100).clock(ManualClock::new()).hasher(hasher).build();
        assert!((0..50).all(|key| limiter.check_n(&key, 2).is_ok()));
        assert!((0..50).all(|key| limiter.check(&key).is_err()));
    }
    separate(RandomState::new());
    separate(KeyHasher::new());
    separate(KeyHasher::default());
    look_at(&KeyHasher::new());
}

/// A key that panics when it is hashed, if it is told to.
struct Fragile {
    breaks: bool,
}

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(!self.breaks, "a key that cannot be hashed");
        state.write_u8(1);
    }
}

#[test]
fn a_key_that_panics_when_hashed_leaves_the_limiter_usable() {
    let limiter = Limiter::builder(Quota::per_second(3)).max_keys(2).clock(ManualClock::new()).build();
    assert!(limiter.check(&Fragile { breaks: false }).is_ok());
    for _ in 0..10 {
        assert!(catch_unwind(AssertUnwindSafe(|| limiter.check(&Fragile { breaks: true }))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| limiter.peek(&Fragile { breaks: true }))).is_err());
    }
    assert_eq!(limiter.check(&Fragile { breaks: false }).map(|allowed| allowed.remaining()), Ok(1));
    assert_eq!((limiter.len(), limiter.stats().allowed, limiter.stats().denied), (1, 2, 0));
}

/// A clock that panics when it is read, if it is told to.
struct Stopped(std::cell::Cell<bool>);

impl Clock for Stopped {
    fn now(&self) -> Instant {
        assert!(!self.0.get(), "a clock that cannot be read");
        Instant::ORIGIN
    }
}

#[test]
fn a_clock_that_panics_leaves_bucket_and_limiter_usable() {
    let stopped = Stopped(std::cell::Cell::new(false));
    let bucket = Bucket::with_clock(Quota::per_second(2), &stopped);
    let limiter = Limiter::builder(Quota::per_second(2)).max_keys(2).clock(&stopped).build();
    stopped.0.set(true);
    assert!(catch_unwind(AssertUnwindSafe(|| bucket.check())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| limiter.check("key"))).is_err());
    stopped.0.set(false);
    assert_eq!(bucket.check().map(|allowed| allowed.remaining()), Ok(1));
    assert_eq!(limiter.check("key").map(|allowed| allowed.remaining()), Ok(1));
}

#[test]
fn keys_of_any_kind() {
    let limiter = Limiter::builder(Quota::per_second(1)).max_keys(100).clock(ManualClock::new()).build();
    assert!(limiter.check("").is_ok());
    assert!(limiter.check(&()).is_ok());
    assert!(limiter.check(&[0_u8; 10_000][..]).is_ok());
    assert!(limiter.check("text").is_ok());
    assert!(limiter.check(&String::from("text")).is_err(), "owned or borrowed, a text is the same key");
    assert!(limiter.check(&("text", 1)).is_ok());
    assert!(limiter.check(&std::net::Ipv4Addr::LOCALHOST).is_ok());
}

#[test]
fn everything_shows_what_it_is() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(10);
    let builder = Limiter::builder(quota).max_keys(3).overflow(Overflow::DenyNew).clock(clock.clone());
    look_at(&builder);
    let limiter = builder.build();
    assert!(limiter.check("key").is_ok());
    assert_eq!(format!("{quota:?}"), "Quota(10/s)");
    assert!(format!("{limiter:?}").starts_with("Limiter { default_quota: Quota(10/s), len: 1, capacity: 3, memory: "), "{limiter:?}");
    assert!(
        format!("{:?}", limiter.check_n("key", 10)).starts_with("Err(Denied { reason: OverQuota, requested: 10, remaining: 9, limit: 10")
    );
    assert_eq!(format!("{:?}", Instant::from_nanos(1_500_000_000)), "Instant(1.5s)");
    look_at(&(Stats::default(), MonotonicClock::new(), clock, Overflow::default()));
    for error in [QuotaError::ZeroTokens, QuotaError::ZeroPeriod, QuotaError::ZeroBurst] {
        assert!(error.to_string().contains('0'), "{error}");
    }
    let out_of_memory = BuildError::OutOfMemory { max_keys: 7 };
    for error in [BuildError::ZeroKeys, BuildError::TooManyKeys { max_keys: 7 }, out_of_memory] {
        assert!(error.to_string().contains("max_keys is"), "{error}");
    }
}

mod documented_panics {
    use super::{Duration, Limiter, MOST_MAX_KEYS, Quota};

    #[test]
    #[should_panic(expected = "at least 1 token")]
    fn per_second_of_zero() {
        let _ = Quota::per_second(0);
    }

    #[test]
    #[should_panic(expected = "at least 1 token")]
    fn per_minute_of_zero() {
        let _ = Quota::per_minute(0);
    }

    #[test]
    #[should_panic(expected = "at least 1 token")]
    fn per_hour_of_zero() {
        let _ = Quota::per_hour(0);
    }

    #[test]
    #[should_panic(expected = "at least 1 token")]
    fn per_day_of_zero() {
        let _ = Quota::per_day(0);
    }

    #[test]
    #[should_panic(expected = "at most 14 tokens per nanosecond")]
    fn per_second_of_too_many() {
        let _ = Quota::per_second(15_000_000_000);
    }

    #[test]
    #[should_panic(expected = "at most 14 tokens per nanosecond")]
    fn per_minute_of_too_many() {
        let _ = Quota::per_minute(900_000_000_000);
    }

    #[test]
    #[should_panic(expected = "at most 14 tokens per nanosecond")]
    fn per_hour_of_too_many() {
        let _ = Quota::per_hour(54_000_000_000_000);
    }

    #[test]
    #[should_panic(expected = "at most 14 tokens per nanosecond")]
    fn per_day_of_too_many() {
        let _ = Quota::per_day(u64::MAX);
    }

    #[test]
    fn not_of_the_most_that_is_documented() {
        let most = [
            Quota::per_second(14_000_000_000),
            Quota::per_minute(840_000_000_000),
            Quota::per_hour(50_400_000_000_000),
            Quota::per_day(1_209_600_000_000_000),
        ];
        for quota in most {
            // 14 per nanosecond.
            assert_eq!(quota.tokens(), 14 * u64::try_from(quota.period().as_nanos()).expect("at most a day"));
        }
        assert!(Quota::new(1, Duration::from_secs(100 * 365 * 86_400)).and_then(|slow| slow.with_burst(1 << 32)).is_ok());
    }

    #[test]
    #[should_panic(expected = "a burst of at least 1")]
    fn a_burst_of_zero() {
        let _ = Quota::per_second(1).burst(0);
    }

    #[test]
    #[should_panic(expected = "does not fit beside this rate")]
    fn a_burst_that_does_not_fit() {
        let _ = Quota::per_second(1).burst(u64::MAX);
    }

    #[test]
    #[should_panic(expected = "max_keys is 0")]
    fn a_limiter_for_no_keys() {
        let _ = Limiter::builder(Quota::per_second(1)).max_keys(0).build();
    }

    #[test]
    #[should_panic(expected = "can be held")]
    fn a_limiter_for_too_many_keys() {
        let _ = Limiter::builder(Quota::per_second(1)).max_keys(MOST_MAX_KEYS + 1).build();
    }
}
