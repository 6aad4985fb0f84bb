//! What operators see: counts, buckets, fingerprints; and a limiter held by one thread.

#[path = "common/hash.rs"]
mod hash;

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{Clock, Limiter, ManualClock, MonotonicClock, Overflow, Pinned, Quota};

use hash::Seeded;

const QUOTA: Quota = Quota::per_second(10);

fn limiter(max_keys: usize, overflow: Overflow) -> (ManualClock, Limiter<ManualClock, Seeded>) {
    let clock = ManualClock::new();
    (clock.clone(), Limiter::builder(QUOTA).max_keys(max_keys).overflow(overflow).clock(clock).hasher(Seeded(1)).build())
}

#[test]
fn stats_count_what_happened_and_how_it_stands() {
    let (clock, limiter) = limiter(1_000, Overflow::EvictLeastDebt);
    let empty = limiter.stats();
    assert_eq!((empty.allowed, empty.denied, empty.live, empty.full, empty.in_debt, empty.capacity), (0, 0, 0, 0, 0, 1_000));
    assert_eq!((empty.grown, empty.shrunk, empty.evicted_full, empty.evicted_in_debt), (0, 0, 0, 0));
    assert_eq!(empty.memory, limiter.memory());
    assert!(empty.load().abs() < f64::EPSILON);

    // 600 that owe a token, 300 that owe two, and 150 calls that are denied.
    for key in 0..900 {
        assert!(limiter.check_n(&key, 1 + u64::from(key % 3 == 0)).is_ok());
    }
    for key in 0..150 {
        assert!(limiter.check_n(&key, 10).is_err());
    }
    let all = limiter.stats();
    assert_eq!((all.allowed, all.denied, all.live, all.full, all.in_debt), (900, 150, 900, 0, 900));
    assert_eq!((all.live, all.capacity), (limiter.len(), limiter.capacity()));
    assert_eq!(all.grown * 4, (all.slots - empty.slots) as u64);
    let slots = f64::from(u32::try_from(all.slots).expect("a small table"));
    assert!((all.load() * slots - 900.0).abs() < 1e-6, "{}", all.load());
    assert!(all.load() <= 1.0);
    assert!(all.memory > empty.memory && all.memory == limiter.memory());

    // A token comes every tenth of a second.
    clock.advance(Duration::from_millis(100));
    let later = limiter.stats();
    assert_eq!((later.full, later.in_debt), (600, 300));
    limiter.shrink();
    let shrunk = limiter.stats();
    assert_eq!((shrunk.live, shrunk.full, shrunk.in_debt, shrunk.evicted_full, shrunk.evicted_in_debt), (300, 0, 300, 600, 0));
    assert!(shrunk.shrunk > 0);
    assert_eq!((all.slots - shrunk.slots) as u64, 4 * shrunk.shrunk, "{shrunk:?}");

    // Beyond the cap.
    (1_000..2_000).for_each(|key| _ = limiter.check_n(&key, 5));
    let over = limiter.stats();
    assert_eq!((over.live, over.evicted_in_debt), (1_000, 300));
}

#[test]
fn an_estimate_of_the_full_ones_is_close() {
    let (clock, limiter) = limiter(1 << 20, Overflow::DenyNew);
    for key in 0..60_000 {
        assert!(limiter.check_n(&key, if key % 4 == 0 { 2 } else { 1 }).is_ok());
    }
    clock.advance(Duration::from_millis(100));
    let stats = limiter.stats();
    assert!(stats.slots > 4 * 16_384, "no estimate, so small is it: {stats:?}");
    assert_eq!(stats.full + stats.in_debt, 60_000);
    // A sample of about 9,000: three standard deviations are 1.4 in a hundred.
    assert!((43_800..46_200).contains(&stats.full), "{stats:?}");
}

#[test]
fn buckets_are_those_that_were_charged_under_the_quotas_they_have() {
    let (clock, limiter) = limiter(10_000, Overflow::DenyNew);
    let own = Quota::per_day(7).burst(9);
    let mut expected = HashMap::new();
    for key in 0..2_000_u64 {
        let n = 1 + key % 5;
        if key % 10 == 0 {
            limiter.set_quota(&key, own).expect("room");
        }
        assert!(limiter.check_n(&key, n).is_ok());
        let quota = if key % 10 == 0 { own } else { QUOTA };
        assert!(expected.insert(limiter.fingerprint(&key), (key, quota, n)).is_none(), "no two keys have one fingerprint");
    }
    clock.advance(Duration::from_millis(200));
    let mut seen = 0;
    for bucket in limiter.buckets() {
        let (key, quota, n) = expected[&bucket.fingerprint];
        assert_eq!((bucket.quota, bucket.peek), (quota, limiter.peek(&key)));
        let left = if quota == own { 9 - n } else { 10 - n.saturating_sub(2) };
        assert_eq!((bucket.peek.remaining(), bucket.peek.limit()), (left, quota.capacity()), "key {key}");
        assert!(format!("{bucket:?}").contains(&format!("{:#x}", bucket.fingerprint)));
        seen += 1;
    }
    assert_eq!((seen, limiter.len()), (2_000, 2_000));

    // And after a change they are under the new default.
    limiter.set_default_quota(Quota::per_second(3)).expect("room");
    assert_eq!(limiter.buckets().filter(|bucket| bucket.quota == own).count(), 200);
    let changed = limiter.buckets().filter(|bucket| bucket.quota == Quota::per_second(3)).count();
    // Three in five owed something; the others were full, and may have given way.
    assert!((1_800 * 3 / 5..=1_800).contains(&changed), "{changed} of 1,800");
    assert_eq!(changed + 200, limiter.len());
}

#[test]
fn fingerprints_are_of_the_limiter_and_are_no_hash() {
    let default = || Limiter::builder(QUOTA).max_keys(10).clock(ManualClock::new()).build();
    let (one, other) = (default(), default());
    assert_eq!(one.fingerprint("key"), one.fingerprint(&String::from("key")));
    assert_ne!(one.fingerprint("key"), one.fingerprint("another"));
    assert!((0..100).any(|key| one.fingerprint(&key) != other.fingerprint(&key)), "each limiter has its own hash key");
    assert!((0..1_000).all(|key| one.fingerprint(&key) < 1 << 52 && one.fingerprint(&key) > 0));
}

/// Has a method that is not there unless a type lacks a trait.
macro_rules! assert_not {
    ($type:ty: $bound:path) => {{
        trait Ambiguous<A> {
            fn item() {}
        }
        impl<T: ?Sized> Ambiguous<()> for T {}
        struct Has;
        impl<T: ?Sized + $bound> Ambiguous<Has> for T {}
        // Two candidates, and an error, if the type has the trait.
        <$type as Ambiguous<_>>::item();
    }};
}

#[test]
fn a_pinned_limiter_stays_with_its_thread() {
    assert_not!(Pinned<'static, MonotonicClock, Seeded>: Send);
    assert_not!(Pinned<'static, MonotonicClock, Seeded>: Sync);
}

#[test]
fn a_pinned_limiter_decides_the_same() {
    let ((clock, limiter), (twin_clock, twin)) = (limiter(100, Overflow::DenyNew), limiter(100, Overflow::DenyNew));
    let pinned = limiter.pin();
    assert!(format!("{pinned:?}").starts_with("Pinned { limiter: Limiter { "));
    for both in [&limiter, &twin] {
        both.set_quota(&3, Quota::per_second(7_919).burst(4)).expect("room");
    }
    for call in 0..3_000_u64 {
        // More keys than there is room for.
        let (key, n) = (call * 7 % 150, call % 10);
        let now = clock.now() - Duration::from_millis(call % 3);
        match call % 3 {
            0 => assert_eq!(pinned.check(&key), twin.check(&key)),
            1 => assert_eq!(pinned.check_n(&key, n), twin.check_n(&key, n)),
            _ => assert_eq!(pinned.check_at(&key, n, now), twin.check_at(&key, n, now)),
        }
        assert_eq!(limiter.peek(&key), twin.peek(&key));
        clock.advance(Duration::from_millis(call % 5));
        twin_clock.advance(Duration::from_millis(call % 5));
    }
    let (stats, twin_stats) = (limiter.stats(), twin.stats());
    assert_eq!(stats, twin_stats);
    assert_eq!(stats.allowed + stats.denied, 3_000);
    assert!(stats.denied > 100 && stats.evicted_full > 100, "{stats:?}");
}
