//! Several limits as one decision.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Bucket, BuildError, Clock, Denied, Limiter, Limits, ManualClock, Overflow, Quota, Reason, TokenBucket, check_all};

use crate::both::on_both;
use crate::hash::Seeded;
use crate::rounds::Rounds;
use crate::{HOUR, QUOTA, TOKEN};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn all_are_charged_as_much_as_is_due_to_each() {
    on_both!(QUOTA.burst(10), |clock, bucket| {
        let shared = std::sync::Arc::new(Bucket::with_clock(QUOTA.burst(20), clock.clone()));
        let other = Bucket::with_clock(Quota::per_day(5), ManualClock::new());
        let answers = check_all([(&bucket, 1), (&shared, 10), (&other, 0)]).expect("plenty");
        assert_eq!(answers.map(|allowed| allowed.remaining()), [9, 10, 5]);
        assert_eq!((bucket.peek().remaining(), shared.peek().remaining(), other.peek().is_full()), (9, 10, true));
        let none: [_; 0] = check_all([]).expect("no limit");
        assert!(none.is_empty());
    });
}

#[test]
fn a_denial_charges_none_and_names_the_limit_to_be_waited_for_the_longest() {
    on_both!(QUOTA, |clock, quick| {
        let slow = Bucket::with_clock(Quota::per_second(1), clock.clone());
        let wide = Bucket::with_clock(Quota::per_second(1_000), clock.clone());
        let also_slow = Bucket::with_clock(Quota::per_second(1), clock.clone());
        assert!(check_all([(&quick, 1), (&slow, 1), (&wide, 1), (&also_slow, 1)]).is_ok());
        let levels = || (quick.peek(), slow.peek(), wide.peek(), also_slow.peek());
        let before = levels();
        let denied = |limits: [(&dyn TokenBucket, u64); 4]| {
            let by = check_all(limits).expect_err("drained");
            assert_eq!(by.retry_after(), by.denied().retry_after());
            (by.index(), by.retry_after())
        };
        assert_eq!(denied([(&quick, 1), (&slow, 1), (&wide, 1), (&also_slow, 1)]), (1, Some(SECOND)), "the first of two that are alike");
        assert_eq!(denied([(&slow, 1), (&wide, 1), (&quick, 1), (&wide, 1)]), (0, Some(SECOND)));
        assert_eq!(denied([(&wide, 1), (&wide, 1), (&wide, 1), (&quick, 1)]), (3, Some(TOKEN)));
        assert_eq!(denied([(&slow, 1), (&wide, 1_001), (&wide, 1), (&slow, 1)]), (1, None), "no wait is longer than any");
        assert_eq!(denied([(&slow, 1), (&wide, 1), (&wide, 1), (&slow, 2)]), (3, None));
        assert_eq!(levels(), before);

        let all = || check_all([(&quick, 1), (&slow, 1), (&wide, 1)]);
        clock.advance(SECOND.saturating_sub(Duration::from_nanos(1)));
        assert_eq!(all().expect_err("a nanosecond early").retry_after(), Some(Duration::from_nanos(1)));
        clock.advance(Duration::from_nanos(1));
        assert!(all().is_ok());
    });
}

#[test]
fn a_wait_without_an_end_is_longer_than_the_longest() {
    // A bucket that will not refill as long as time is counted, and one that never can have so many.
    let stopped = Bucket::with_clock(QUOTA, ManualClock::new());
    assert!(stopped.charge(u64::MAX).is_ok());
    let clock = ManualClock::new();
    let still = Bucket::with_clock(Quota::per_day(1), clock.clone());
    clock.set(Duration::MAX);
    assert!(still.check().is_ok());
    assert_eq!(still.check().expect_err("for ever").retry_after(), Some(Duration::MAX));
    let small = Bucket::with_clock(QUOTA, ManualClock::new());
    let by = check_all([(&stopped, 1), (&still, 1), (&small, 2)]).expect_err("all deny");
    assert_eq!((by.index(), by.retry_after()), (2, None));
    let by = check_all([(&stopped, 1), (&still, 1)]).expect_err("both deny");
    assert_eq!((by.index(), by.retry_after()), (0, Some(Duration::MAX)), "both wait for ever");
    assert!(small.peek().is_full());
}

#[test]
fn one_bucket_may_come_twice() {
    on_both!(QUOTA.burst(3), |_clock, bucket| {
        let wide = Bucket::with_clock(QUOTA.burst(100), ManualClock::new());
        let twice = || check_all([(&wide, 1), (&bucket, 1), (&bucket, 1)]);
        assert_eq!(twice().expect("three").map(|allowed| allowed.remaining()), [99, 2, 1]);
        // Either alone would be allowed.
        let before = (wide.peek().remaining(), bucket.peek());
        let by = twice().expect_err("one is left");
        assert_eq!((by.index(), by.retry_after()), (2, Some(TOKEN)));
        assert_eq!((wide.peek().remaining(), bucket.peek()), before, "the first was given back");
        assert!(bucket.check().is_ok());
    });
}

#[test]
fn a_denial_says_which_limit_and_why() {
    let bucket = Bucket::with_clock(QUOTA, ManualClock::new());
    assert!(bucket.check().is_ok());
    let by = check_all([(&bucket, 0), (&bucket, 1)]).expect_err("drained");
    assert_eq!(by.to_string(), "limit 1: rate limited: 1 asked for, 0 of 1 left; retry after 10ms");
    assert_eq!(by.source().and_then(<dyn Error>::downcast_ref::<Denied>), Some(&by.denied()));
    assert_eq!((by.denied().reason(), by.denied().requested()), (Reason::OverQuota, 1));
}

/// Each round has a token of the narrow limit, and many that want it together with tokens of the wide ones.
fn one_wins_each_round<B: TokenBucket + Copy + Send + Sync>(narrow: B, clock: &ManualClock) {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 3_000;
    let wide = Bucket::with_clock(Quota::per_hour(1).burst(1_000_000), clock.clone());
    let limiter = Limiter::builder(Quota::per_hour(1).burst(1_000_000)).max_keys(8).clock(clock.clone()).build();
    let key = limiter.bucket("key");
    let start = clock.clone();
    let (rounds, all, alone) = (Rounds::new(THREADS), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rounds, wide, all, alone, start) = (&rounds, &wide, &all, &alone, &start);
            scope.spawn(move || {
                let round = rounds.join();
                for number in 1..=ROUNDS {
                    if round.wait() {
                        start.advance(TOKEN);
                    }
                    round.wait();
                    // One takes from the narrow limit alone, and the others in any order.
                    let won = match thread {
                        0 => {
                            let won = narrow.check_at(1, narrow.now()).is_ok();
                            alone.fetch_add(u64::from(won), Ordering::Relaxed);
                            won
                        }
                        1 => check_all([(wide, 2), (&key, 3), (&narrow, 1)]).is_ok(),
                        2 => check_all([(&key, 3), (&narrow, 1), (wide, 2)]).is_ok(),
                        _ => check_all([(wide, 2), (&narrow, 1), (&key, 3)]).is_ok(),
                    };
                    all.fetch_add(u64::from(won), Ordering::Relaxed);
                    round.wait();
                    assert_eq!(all.load(Ordering::Relaxed), number, "a token, and one who has it");
                    assert!(narrow.check_at(1, narrow.now()).is_err());
                }
            });
        }
    });
    let together = ROUNDS - alone.into_inner();
    assert!(together > 0);
    // In as many hundredths of a second, the wide ones are refilled a part of a token only.
    assert_eq!((wide.peek().remaining(), key.peek().remaining()), (1_000_000 - 2 * together, 1_000_000 - 3 * together));
}

#[test]
fn who_loses_one_limit_to_another_thread_leaves_the_others_as_they_were() {
    let clock = ManualClock::new();
    let bucket = Bucket::with_clock(QUOTA, clock.clone());
    assert!(bucket.check().is_ok());
    one_wins_each_round(&bucket, &clock);

    let clock = ManualClock::new();
    let limiter = Limiter::builder(QUOTA).max_keys(8).clock(clock.clone()).build();
    assert!(limiter.check("key").is_ok());
    one_wins_each_round(limiter.bucket("key"), &clock);
}

fn limits(clock: &ManualClock) -> Limits<3, ManualClock> {
    Limits::builder([Quota::per_second(10), Quota::per_hour(30), Quota::per_day(1_000)]).max_keys(100).clock(clock.clone()).build()
}

#[test]
fn each_key_has_a_bucket_of_each_quota() {
    let clock = ManualClock::new();
    let limits = limits(&clock);
    assert_eq!(limits.check("a").map(|answers| answers.map(|allowed| allowed.remaining())), Ok([9, 29, 999]));
    assert_eq!(limits.check_n("a", 9).map(|answers| answers.map(|allowed| allowed.remaining())), Ok([0, 20, 990]));
    let by = limits.check("a").expect_err("ten a second");
    assert_eq!((by.index(), by.retry_after()), (0, Some(SECOND / 10)));
    assert_eq!(limits.check_n("a", 21).expect_err("more than the first burst").retry_after(), None);
    assert_eq!(limits.check_n("b", 10).map(|answers| answers.map(|allowed| allowed.remaining())), Ok([0, 20, 990]), "another key");
    for _ in 0..2 {
        clock.advance(SECOND);
        assert!(limits.check_n("a", 10).is_ok());
    }
    clock.advance(SECOND);
    let by = limits.check("a").expect_err("thirty an hour");
    assert_eq!((by.index(), by.denied().limit()), (1, 30));
    let states = limits.buckets("a").map(|bucket| bucket.peek().remaining());
    assert_eq!(states, [10, 0, 970], "and none of the others was charged");
    for index in 0..3 {
        let limiter = limits.limiter(index);
        // Four of `a` and one of `b`.
        assert_eq!((limiter.len(), limiter.stats().allowed, limiter.capacity()), (2, 5, 100), "{index}");
    }
}

#[test]
fn one_of_several_quotas_may_be_a_keys_own() {
    let clock = ManualClock::new();
    let limits = limits(&clock);
    limits.limiter(0).set_quota("big", Quota::per_second(25)).expect("room");
    assert_eq!(limits.check_n("big", 25).map(|answers| answers.map(|allowed| allowed.remaining())), Ok([0, 5, 975]));
    assert_eq!(limits.check_n("small", 25).expect_err("the default").index(), 0);
    limits.limiter(1).set_default_quota(Quota::per_hour(100)).expect("room");
    clock.advance(SECOND);
    assert_eq!(limits.check_n("big", 25).map(|answers| answers[1].remaining()), Ok(50));
}

#[test]
fn limits_are_built_alike() {
    let clock = ManualClock::new();
    let quotas = [QUOTA, Quota::per_hour(10)];
    let builder = Limits::builder(quotas).max_keys(1).overflow(Overflow::DenyNew).clock(clock.clone()).hasher(Seeded(1));
    let limits = builder.clone().build();
    assert_eq!([0, 1].map(|index| limits.limiter(index).default_quota()), quotas);
    assert!(limits.check("only").is_ok());
    let by = limits.check("other").expect_err("no room");
    assert_eq!(by.denied().reason(), Reason::NoRoom);
    clock.advance(HOUR / 10);
    assert!(limits.check("other").is_ok());
    assert_eq!(builder.max_keys(0).try_build().map(|_| ()).expect_err("no keys"), BuildError::ZeroKeys);
    assert!(format!("{limits:?}").starts_with("[Limiter { default_quota: Quota(100/s burst 1)"), "{limits:?}");
    assert!(Limits::new([QUOTA]).check(&7).is_ok());
}

#[test]
fn a_limiter_without_room_is_foreseen() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder(Quota::per_hour(10)).clock(clock.clone());
    let full = builder().max_keys(8).overflow(Overflow::DenyNew).build();
    for key in 0..200 {
        _ = full.check(&key);
    }
    assert_eq!(full.len(), 8);
    let first = builder().max_keys(1).build();
    assert!(first.check_n("victim", 10).is_ok());
    for _ in 0..100 {
        let by = check_all([(&first.bucket("new"), 1), (&full.bucket("new"), 1)]).expect_err("no room for another key");
        assert_eq!((by.index(), by.denied().reason()), (1, Reason::NoRoom));
        assert_eq!(by.retry_after(), full.check("new").expect_err("no room").retry_after());
    }
    assert_eq!((first.peek("victim").remaining(), first.stats().evicted_in_debt, first.stats().allowed), (0, 0, 1));
    // A look at nothing, and what is denied anyway, need no room.
    assert!(full.bucket("new").look_at(0, clock.now()).is_ok());
    let denied = full.bucket("new").look_at(11, clock.now()).expect_err("more than the burst");
    assert_eq!(denied.reason(), Reason::OverBurst);
}
