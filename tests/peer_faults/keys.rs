//! Many keys in bounded memory.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Overflow, Quota, Reason};

use crate::nanos;

/// Places keys alike in every run.
type SameHash = BuildHasherDefault<DefaultHasher>;

fn limiter(quota: Quota, max_keys: usize, overflow: Overflow) -> (ManualClock, Limiter<ManualClock, SameHash>) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).max_keys(max_keys).overflow(overflow);
    (clock.clone(), builder.clock(clock).hasher(SameHash::default()).build())
}

#[test]
fn a_flood_of_keys_used_once_stays_within_the_cap_and_forgets_no_limited_key() {
    const MAX_KEYS: usize = 10_000;
    let (clock, limiter) = limiter(Quota::per_minute(10), MAX_KEYS, Overflow::EvictLeastDebt);
    let is_limited = |name| limiter.check(&("limited", name)).is_err();
    for name in 0..100 {
        assert!(limiter.check_n(&("limited", name), 10).is_ok());
    }
    for key in 0..100_000 {
        clock.advance(nanos(1));
        let _ = limiter.check(&key);
        assert!(limiter.len() <= MAX_KEYS, "{} after {key}", limiter.len());
    }
    assert_eq!(limiter.len(), MAX_KEYS);
    assert_eq!((0..100).filter(|&name| is_limited(name)).count(), 100);
}

#[test]
fn a_flood_forgets_no_limited_key_in_a_table_of_any_size() {
    for max_keys in [2, 3, 8, 9, 64, 100, 300] {
        for limited in 0..10 {
            let (_, limiter) = limiter(Quota::per_minute(10), max_keys, Overflow::EvictLeastDebt);
            assert!(limiter.check_n(&("limited", limited), 10).is_ok());
            for key in 0..20 * max_keys {
                let _ = limiter.check(&key);
            }
            assert!(limiter.check(&("limited", limited)).is_err(), "{max_keys} keys at the most, limited key {limited}");
        }
    }
}

#[test]
fn without_forgetting_a_flood_is_denied_at_the_cap() {
    for max_keys in [1, 2, 8, 100, 10_000] {
        let (_, limiter) = limiter(Quota::per_minute(10), max_keys, Overflow::DenyNew);
        let admitted = (0..3 * max_keys).filter(|key| limiter.check(key).is_ok()).count();
        assert_eq!((admitted, limiter.len()), (max_keys, max_keys));
        assert_eq!(limiter.stats().evicted_in_debt, 0);
        let denied = limiter.check("new").expect_err("no room");
        assert_eq!((denied.reason(), denied.remaining(), denied.retry_after()), (Reason::NoRoom, 0, Some(Duration::from_secs(6))));
    }
}

/// Were the table searched for each key, this would be 10^10 looks at a slot, and would hardly end.
#[test]
fn a_flood_through_a_full_table_does_not_look_at_all_of_it() {
    const MAX_KEYS: usize = 50_000;
    for overflow in [Overflow::EvictLeastDebt, Overflow::DenyNew] {
        let (_, limiter) = limiter(Quota::per_minute(10), MAX_KEYS, overflow);
        for key in 0..2 * MAX_KEYS {
            let _ = limiter.check(&key);
        }
        assert_eq!(limiter.len(), MAX_KEYS);
    }
}

#[test]
fn a_full_bucket_gives_way_at_once_and_not_before() {
    const MAX_KEYS: u64 = 64;
    for quota in [Quota::per_second(10), Quota::per_second(3), Quota::per_second(7_919).burst(2)] {
        let (clock, limiter) = limiter(quota, 64, Overflow::DenyNew);
        for key in 0..MAX_KEYS {
            assert!(limiter.check_n(&key, quota.capacity()).is_ok());
        }
        let full = limiter.peek(&0_u64).reset_after();
        clock.set(full.saturating_sub(nanos(1)));
        let denied = limiter.check("new").expect_err("all are in debt");
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::NoRoom, Some(nanos(1))));
        clock.set(full);
        for key in MAX_KEYS..MAX_KEYS + MAX_KEYS / 2 {
            assert!(limiter.check_n(&key, quota.capacity()).is_ok(), "{quota}: a place is free for {key}");
        }
        assert_eq!((limiter.stats().evicted_full, limiter.len()), (MAX_KEYS / 2, 64));
    }
}

#[test]
fn full_buckets_give_way_before_any_in_debt() {
    for max_keys in [4, 8, 64, 1_000] {
        for overflow in [Overflow::EvictLeastDebt, Overflow::DenyNew] {
            let (clock, limiter) = limiter(Quota::per_second(10), max_keys, overflow);
            for key in 0..2 * max_keys {
                let _ = limiter.check(&("early", key));
            }
            assert_eq!(limiter.len(), max_keys);
            clock.set(Duration::from_secs(10));
            let before = limiter.stats();
            // The search for a full one is bounded: a quarter in debt does not hide the others.
            for key in 0..max_keys / 4 {
                let _ = limiter.check(&("late", key));
            }
            let after = limiter.stats();
            let lost = (after.denied - before.denied, after.evicted_in_debt - before.evicted_in_debt);
            assert_eq!(lost, (0, 0), "{max_keys} keys at the most, {overflow:?}");
        }
    }
}

#[test]
fn what_a_peek_says_of_an_unknown_key_is_what_a_check_does() {
    let (clock, limiter) = limiter(Quota::per_second(1), 1, Overflow::EvictLeastDebt);
    clock.set(Duration::from_secs(10));
    assert!(limiter.check("gone").is_ok());
    clock.set(Duration::from_secs(20));
    assert!(limiter.check("other").is_ok());
    // Back to when "gone" was in debt, which any key without a bucket may have been.
    clock.set(Duration::from_secs(5));
    let peek = limiter.peek("gone");
    assert_eq!((peek.remaining(), peek.is_full(), peek.full_for()), (0, false, None));
    let denied = limiter.check("gone").expect_err("in debt at this time");
    assert_eq!((peek.remaining(), peek.reset_after()), (denied.remaining(), denied.reset_after()));

    clock.set(Duration::from_secs(30));
    let peek = limiter.peek("never seen");
    assert_eq!((peek.remaining(), peek.is_full(), peek.full_for()), (1, true, None));
}
