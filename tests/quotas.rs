//! Quotas that differ by key, and change at run time: what is owed stays owed.

#[path = "common/hash.rs"]
mod hash;

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{ChangeError, Clock, Limiter, MOST_OWN_QUOTAS, ManualClock, Overflow, Quota, Reason};

use hash::Seeded;

const SECOND: Duration = Duration::from_secs(1);

type Keyed = Limiter<ManualClock, Seeded>;

fn limiter(quota: Quota) -> (ManualClock, Keyed) {
    limiter_for(quota, 10_000)
}

fn limiter_for(quota: Quota, max_keys: usize) -> (ManualClock, Keyed) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(quota).max_keys(max_keys).overflow(Overflow::DenyNew).clock(clock.clone()).hasher(Seeded(1)).build();
    (clock, limiter)
}

/// Quotas of all kinds: exact ticks and others, slow and fast, small bursts and large.
fn kinds() -> [Quota; 10] {
    [
        Quota::per_second(10),
        Quota::per_second(10).burst(1_000),
        Quota::per_second(100).burst(20),
        Quota::per_second(7_919).burst(30),
        Quota::per_second(7_919).burst(1 << 32),
        Quota::per_second(3_000_000_000).burst(1_000),
        Quota::per_day(1).burst(50),
        Quota::per_day(1).burst(1),
        Quota::per_minute(7).burst(1 << 20),
        Quota::new(999_999_937, Duration::from_secs(7)).expect("ordinary").burst(15),
    ]
}

/// Ways to change what a key is counted under.
const WAYS: [fn(&Keyed, &str, Quota); 2] = [
    |limiter, key, quota| limiter.set_quota(key, quota).expect("room"),
    |limiter, _, quota| limiter.set_default_quota(quota).expect("room"),
];

#[test]
fn whole_tokens_owed_stay_owed_and_never_more_than_the_new_burst() {
    for change in WAYS {
        for from in kinds() {
            for to in kinds() {
                for owed in [0, 1, from.capacity() / 2, from.capacity()] {
                    let (clock, limiter) = limiter(from);
                    clock.advance(SECOND);
                    assert!(limiter.check_n("key", owed).is_ok());
                    change(&limiter, "key", to);
                    let peek = limiter.peek("key");
                    let left = to.capacity() - owed.min(to.capacity());
                    assert_eq!((peek.remaining(), peek.limit()), (left, to.capacity()), "{owed} owed under {from}, now {to}");
                    assert_eq!(peek.is_full(), owed == 0);
                    assert_eq!(limiter.quota("key"), to);
                    // Just as many can be had, no more.
                    assert!(limiter.check_n("key", left).is_ok());
                    assert_eq!(limiter.check("key").expect_err("drained").reason(), Reason::OverQuota);
                }
            }
        }
    }
}

/// What is owed in nanoseconds of the new rate, to within two ticks of either quota, after some time under the old one.
#[test]
fn parts_of_tokens_owed_stay_owed() {
    for change in WAYS {
        for from in kinds() {
            for to in kinds() {
                let owed = from.capacity().min(to.capacity());
                let (clock, limiter) = limiter(from);
                clock.advance(7 * SECOND);
                assert!(limiter.check_n("key", owed).is_ok());
                let before = limiter.peek("key").reset_after();
                // 5 parts in 13 of it are paid.
                let passed = before * 5 / 13;
                clock.advance(passed);
                let rest = before.as_nanos() - passed.as_nanos();
                change(&limiter, "key", to);
                let got = limiter.peek("key").reset_after().as_nanos();

                // rest * from.rate tokens are owed, which take that by to.rate; in nanoseconds.
                let (num, den) = (u128::from(from.tokens()) * to.period().as_nanos(), from.period().as_nanos() * u128::from(to.tokens()));
                let [exact, ceiling] = [rest.saturating_sub(1) * num / den, (rest + 1) * num / den + 1];
                let slack = slack(from) * num / den + slack(to) + 1;
                assert!(
                    exact <= got + slack && got <= ceiling + slack,
                    "{rest} ns owed under {from}; {got} ns under {to}, {exact} to {ceiling} expected, give or take {slack}"
                );
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a tick is short")]
fn slack(quota: Quota) -> u128 {
    2 * quota.tick_nanos().ceil() as u128
}

#[test]
fn a_key_without_its_own_quota_again_keeps_its_debt() {
    let (clock, limiter) = limiter(Quota::per_second(10));
    limiter.set_quota("key", Quota::per_second(100).burst(40)).expect("room");
    assert!(limiter.check_n("key", 40).is_ok());
    clock.advance(SECOND / 10);
    // It owes 30, of which the default's burst allows 10.
    limiter.clear_quota("key").expect("room");
    assert_eq!((limiter.peek("key").remaining(), limiter.peek("key").reset_after()), (0, SECOND));
    assert_eq!((limiter.quota("key"), limiter.own_quotas()), (Quota::per_second(10), 0));
    clock.advance(SECOND / 2);
    assert_eq!(limiter.peek("key").remaining(), 5);
    limiter.set_quota("key", Quota::per_second(100).burst(40)).expect("room");
    assert_eq!(limiter.peek("key").remaining(), 35);
    // A key that never had one.
    limiter.clear_quota("other").expect("nothing to do");
    assert_eq!(limiter.peek("other").remaining(), 10);
}

/// A day's wait under the old default does not live on, nor is it shortened by time that passed under it.
#[test]
fn a_raised_default_helps_at_once_also_a_key_that_is_back_later() {
    let (clock, limiter) = limiter(Quota::per_day(1).burst(10));
    for key in 0..1_000 {
        assert!(limiter.check_n(&key, 10).is_ok());
    }
    clock.advance(SECOND);
    limiter.set_default_quota(Quota::per_second(1).burst(10)).expect("room");
    // Each owes 10 less a part of a second's worth; the rest is paid at one per second from now on.
    clock.advance(4 * SECOND);
    for key in 0..500 {
        assert_eq!(limiter.peek(&key).remaining(), 4, "key {key}");
        assert!(limiter.check_n(&key, 5).is_err());
        assert!(limiter.check_n(&key, 4).is_ok());
    }
    // And lowered: what was paid until now is paid at the old rate, and from now on at the new one.
    limiter.set_default_quota(Quota::per_day(1).burst(10)).expect("room");
    clock.advance(4 * SECOND);
    for key in 500..1_000 {
        assert_eq!(limiter.peek(&key).remaining(), 4, "key {key}");
    }
}

#[test]
fn an_own_quota_outlives_the_bucket_and_the_default() {
    let own = Quota::per_second(5).burst(50);
    let (clock, limiter) = limiter(Quota::per_second(10));
    limiter.set_quota("key", own).expect("room");
    for round in 0..10 {
        assert_eq!(limiter.check_n("key", 50).expect("starts full").remaining(), 0);
        assert!(limiter.check("key").is_err());
        clock.advance(10 * SECOND);
        limiter.shrink();
        assert_eq!((limiter.len(), limiter.own_quotas(), limiter.quota("key")), (0, 1, own));
        assert_eq!(limiter.peek("key").limit(), 50);
        limiter.set_default_quota(Quota::per_minute(round + 1)).expect("room");
        assert_eq!(limiter.default_quota(), Quota::per_minute(round + 1));
    }
    // A quota can be set before the key is ever seen.
    limiter.set_quota("early", Quota::per_second(3)).expect("room");
    assert!(limiter.check_n("early", 4).is_err());
    assert_eq!(limiter.check_n("early", 3).expect("starts full").limit(), 3);
}

#[test]
fn a_change_of_the_default_leaves_own_quotas_alone() {
    let own = Quota::per_second(5).burst(50);
    let (_, limiter) = limiter(Quota::per_second(10));
    limiter.set_quota("key", own).expect("room");
    assert!(limiter.check_n("key", 20).is_ok());
    for default in kinds() {
        limiter.set_default_quota(default).expect("room");
        assert_eq!((limiter.quota("key"), limiter.peek("key").remaining()), (own, 30));
        assert_eq!((limiter.quota("other"), limiter.peek("other").remaining()), (default, default.capacity()));
    }
}

#[test]
fn waits_are_exact_under_own_quotas() {
    for quota in kinds() {
        let (clock, limiter) = limiter(Quota::per_second(10));
        limiter.set_quota("key", quota).expect("room");
        clock.advance(3 * SECOND);
        assert!(limiter.check_n("key", quota.capacity()).is_ok());
        for n in [1, quota.capacity().div_ceil(3), quota.capacity()] {
            let wait = limiter.check_n("key", n).expect_err("drained").retry_after().expect("a wait helps");
            let then = clock.now() + wait;
            let early = limiter.check_at("key", n, then - Duration::from_nanos(1)).expect_err("a nanosecond early");
            assert_eq!(early.retry_after(), Some(Duration::from_nanos(1)), "{quota}, {n}");
            clock.advance(wait);
            assert!(limiter.check_n("key", n).is_ok(), "{quota}, {n} after {wait:?}");
        }
    }
}

/// Different from each other and from those of other numbers.
fn numbered(number: usize) -> Quota {
    Quota::per_second(1_000).burst(number as u64 + 1)
}

#[test]
fn thousands_of_quotas_and_then_one_too_many() {
    let (_, limiter) = limiter(Quota::per_second(10));
    for number in 0..MOST_OWN_QUOTAS {
        limiter.set_quota(&number, numbered(number)).expect("not too many");
    }
    assert!(limiter.check_n(&7_usize, 3).is_ok());
    let one_more = |key: usize| limiter.set_quota(&key, numbered(MOST_OWN_QUOTAS));
    assert!(limiter.check_n(&MOST_OWN_QUOTAS, 4).is_ok());
    assert_eq!(one_more(MOST_OWN_QUOTAS), Err(ChangeError::TooManyQuotas));
    assert!(ChangeError::TooManyQuotas.to_string().contains(&MOST_OWN_QUOTAS.to_string()));

    // Nothing has changed.
    assert_eq!(limiter.own_quotas(), MOST_OWN_QUOTAS);
    assert_eq!((limiter.quota(&MOST_OWN_QUOTAS), limiter.peek(&MOST_OWN_QUOTAS).remaining()), (Quota::per_second(10), 6));
    assert_eq!((limiter.quota(&7_usize), limiter.peek(&7_usize).remaining()), (numbered(7), 5));
    for number in 0..MOST_OWN_QUOTAS {
        assert_eq!((limiter.quota(&number), limiter.peek(&number).limit()), (numbered(number), number as u64 + 1));
    }
    // One that keys have already can be had by more.
    limiter.set_quota("another", numbered(7)).expect("shared");
    limiter.clear_quota(&7_usize).expect("room");
    assert_eq!(one_more(MOST_OWN_QUOTAS), Err(ChangeError::TooManyQuotas), "the other still has it");
    limiter.clear_quota("another").expect("room");
    one_more(MOST_OWN_QUOTAS).expect("one was cleared");
    assert_eq!(limiter.peek(&MOST_OWN_QUOTAS).remaining(), MOST_OWN_QUOTAS as u64 + 1 - 4);
    assert_eq!(limiter.own_quotas(), MOST_OWN_QUOTAS);
}

#[test]
fn numbers_of_quotas_are_used_again() {
    let (_, limiter) = limiter(Quota::per_second(10));
    // By replacing one, by clearing it, and by setting the same again.
    for number in 0..3 * MOST_OWN_QUOTAS {
        let key = number % 3;
        limiter.set_quota(&key, numbered(number)).expect("three at a time");
        limiter.set_quota(&key, numbered(number)).expect("the same again");
        assert!(limiter.check_n(&key, 1).is_ok() || number < 100 || limiter.peek(&key).remaining() == 0);
        assert_eq!(limiter.peek(&key).limit(), number as u64 + 1);
        if number % 5 == 0 {
            limiter.clear_quota(&key).expect("room");
        }
    }
    assert!(limiter.own_quotas() <= 3);
}

#[test]
fn a_key_can_change_the_only_quota_of_its_kind_when_there_are_no_more() {
    let (_, limiter) = limiter(Quota::per_second(10));
    for number in 0..MOST_OWN_QUOTAS - 1 {
        limiter.set_quota(&number, numbered(number)).expect("not too many");
    }
    // One number is left, and changes go through it.
    for number in 0..100 {
        limiter.set_quota(&0_usize, numbered(MOST_OWN_QUOTAS + number)).expect("not too many");
        assert_eq!(limiter.peek(&0_usize).limit(), (MOST_OWN_QUOTAS + number + 1) as u64);
    }
}

#[test]
fn thousands_of_defaults_in_a_row() {
    let (clock, limiter) = limiter(Quota::per_second(1).burst(100));
    for key in 0..100 {
        assert!(limiter.check_n(&key, key).is_ok());
    }
    // The same rate in two ways, and a burst that changes but holds every debt.
    for change in 0..3_000 {
        let quota = if change % 2 == 0 { Quota::per_minute(60) } else { Quota::per_second(1) }.burst(100 + change % 7);
        limiter.set_default_quota(quota).expect("room");
        assert_eq!(limiter.default_quota(), quota);
        let key = change % 100;
        assert_eq!(limiter.peek(&key).reset_after(), Duration::from_secs(key), "change {change}");
    }
    clock.advance(10 * SECOND);
    for key in 0..100_u64 {
        assert_eq!(limiter.peek(&key).reset_after(), Duration::from_secs(key.saturating_sub(10)));
    }
}

/// Two lines of slots, and four keys that can only be in one of them, so that it is full. (With other hashes, other keys: any four will do.)
fn four_keys_of_one_line(limiter: &Keyed) -> Vec<u64> {
    let in_first_line = |key: &u64| {
        let print = limiter.fingerprint(key);
        [print, print.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16].iter().all(|home| home.is_multiple_of(2))
    };
    (0..).filter(in_first_line).take(4).collect()
}

/// A bucket that could not be moved was charged under the old quota, and later converted as of the time of the change: what it owed by then was
/// more than a burst at that time, and was cut.
#[test]
fn a_bucket_that_was_stuck_when_the_default_changed_keeps_what_it_owes() {
    let (clock, limiter) = limiter_for(Quota::per_second(1).burst(10), 4);
    let keys = four_keys_of_one_line(&limiter);
    assert!(limiter.check_n(&keys[0], 8).is_ok());
    for key in &keys[1..] {
        assert!(limiter.check_n(key, 10).is_ok());
    }
    // The same, in other words.
    let same = Quota::per_minute(60).burst(10);
    if limiter.set_default_quota(same) == Err(ChangeError::NoRoom) {
        assert_eq!(limiter.default_quota(), same);
    }
    clock.advance(5 * SECOND);
    assert_eq!(limiter.check_n(&keys[0], 7).expect("it owed 3").remaining(), 0);
    clock.advance(5 * SECOND);
    // The others are full now and give way.
    let peek = limiter.check_n(&keys[0], 0).expect("a peek");
    assert_eq!((peek.remaining(), peek.reset_after()), (5, 5 * SECOND));
    assert!(limiter.check_n(&keys[0], 6).is_err());
}

/// As a thread's that reads the clock after the one that changes the quota, and is faster. Such a debt is more than a burst as of the change, and
/// was cut to that: so a full burst came twice at one instant.
#[test]
fn a_change_forgives_nothing_to_calls_that_are_stamped_later() {
    let same = Quota::per_minute(600).burst(10);
    for change in WAYS {
        let (clock, limiter) = limiter(Quota::per_second(10));
        let later = clock.now() + SECOND;
        assert!(limiter.check_at("key", 10, later).is_ok());
        change(&limiter, "key", same);
        let denied = limiter.check_at("key", 1, later).expect_err("drained at that instant");
        assert_eq!(denied.retry_after(), Some(SECOND / 10));
    }
}

/// One key's, in exact arithmetic: ticks of an exact quota are the fractions of a nanosecond in which everything is whole.
#[derive(Clone, Copy, Debug)]
struct Model {
    quota: Quota,
    /// Owed at `at`, in ticks.
    debt: u128,
    /// Nanoseconds.
    at: u128,
}

impl Model {
    /// Ticks per nanosecond, and per token.
    fn scale(quota: Quota) -> (u128, u128) {
        let (tokens, period) = (u128::from(quota.tokens()), quota.period().as_nanos());
        let (mut a, mut b) = (tokens, period);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (tokens / a, period / a)
    }

    fn pay(&mut self, now: u128) {
        self.debt = self.debt.saturating_sub((now - self.at) * Self::scale(self.quota).0);
        self.at = now;
    }

    fn change(&mut self, quota: Quota, now: u128) {
        self.pay(now);
        let (old, new) = (Self::scale(self.quota).1, Self::scale(quota).1);
        self.debt = (self.debt * new).div_ceil(old).min(u128::from(quota.capacity()) * new);
        self.quota = quota;
    }

    /// Nanoseconds until so many ticks are paid.
    fn wait(&self, ticks: u128) -> Duration {
        let nanos = ticks.div_ceil(Self::scale(self.quota).0);
        Duration::from_nanos(u64::try_from(nanos).expect("a short wait"))
    }

    /// Tokens left, and the time until it is full.
    fn state(&self) -> (u64, Duration) {
        let token = Self::scale(self.quota).1;
        let left = (u128::from(self.quota.capacity()) * token - self.debt) / token;
        (u64::try_from(left).expect("at most the burst"), self.wait(self.debt))
    }

    /// Whether a call is allowed, or how long to wait.
    fn check(&mut self, n: u64) -> Result<(), Option<Duration>> {
        if n > self.quota.capacity() {
            return Err(None);
        }
        let token = Self::scale(self.quota).1;
        let room = u128::from(self.quota.capacity() - n) * token;
        if self.debt > room && n > 0 {
            return Err(Some(self.wait(self.debt - room)));
        }
        self.debt += u128::from(n) * token;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Check {
        key: usize,
        n: u64,
    },
    SetQuota {
        key: usize,
        quota: Quota,
    },
    ClearQuota {
        key: usize,
    },
    SetDefault {
        quota: Quota,
    },
    Advance {
        nanos: u64,
    },
    Shrink,
    /// Calls on so many keys that were not seen before.
    Flood {
        keys: u32,
    },
}

const KEYS: usize = 5;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let quota = || {
        select(vec![
            Quota::per_second(10),
            Quota::per_second(3).burst(7),
            Quota::per_second(1_000_000_000).burst(40),
            Quota::per_minute(7).burst(2),
            Quota::per_day(1).burst(5),
            Quota::per_second(1).burst(1),
            Quota::per_second(600_000_000).burst(50),
            Quota::new(7, Duration::from_nanos(999)).expect("ordinary").burst(9),
        ])
    };
    let nanos = prop_oneof![0..10_u64, 0..10_000_u64, 0..2_000_000_000_u64, 0..100_000_000_000_u64];
    let step = prop_oneof![
        8 => (0..KEYS, 0..12_u64).prop_map(|(key, n)| Step::Check { key, n }),
        2 => (0..KEYS, quota()).prop_map(|(key, quota)| Step::SetQuota { key, quota }),
        1 => (0..KEYS).prop_map(|key| Step::ClearQuota { key }),
        1 => quota().prop_map(|quota| Step::SetDefault { quota }),
        3 => nanos.prop_map(|nanos| Step::Advance { nanos }),
        1 => Just(Step::Shrink),
        1 => (1..300_u32).prop_map(|keys| Step::Flood { keys }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_of_quotas_are_as_in_exact_arithmetic(steps in steps(), seed in 0..1_000_u64) {
        let first = Quota::per_second(10);
        let clock = ManualClock::new();
        let limiter = Limiter::builder(first).max_keys(20_000).overflow(Overflow::DenyNew).clock(clock.clone()).hasher(Seeded(seed)).build();
        let (mut default, mut now, mut flooded) = (first, 0_u128, 0_u32);
        let mut own = [None; KEYS];
        let mut models = [Model { quota: first, debt: 0, at: 0 }; KEYS];
        for step in steps {
            match step {
                Step::Check { key, n } => {
                    let answer = limiter.check_n(&key, n);
                    let expected = models[key].check(n);
                    prop_assert_eq!(answer.map(|_| ()).map_err(|denied| denied.retry_after()), expected, "{:?}", step);
                    if let Ok(allowed) = answer {
                        prop_assert_eq!((allowed.remaining(), allowed.reset_after()), models[key].state(), "{:?}", step);
                    }
                }
                Step::SetQuota { key, quota } => {
                    prop_assert_eq!(limiter.set_quota(&key, quota), Ok(()));
                    own[key] = Some(quota);
                    models[key].change(quota, now);
                }
                Step::ClearQuota { key } => {
                    prop_assert_eq!(limiter.clear_quota(&key), Ok(()));
                    if own[key].take().is_some() {
                        models[key].change(default, now);
                    }
                }
                Step::SetDefault { quota } => {
                    prop_assert_eq!(limiter.set_default_quota(quota), Ok(()));
                    default = quota;
                    for (model, own) in models.iter_mut().zip(own) {
                        if own.is_none() {
                            model.change(quota, now);
                        }
                    }
                }
                Step::Advance { nanos } => {
                    clock.advance(Duration::from_nanos(nanos));
                    now += u128::from(nanos);
                    for model in &mut models {
                        model.pay(now);
                    }
                }
                Step::Shrink => limiter.shrink(),
                Step::Flood { keys } => {
                    for key in flooded..flooded + keys {
                        prop_assert!(limiter.check(&("flood", key)).is_ok());
                    }
                    flooded += keys;
                }
            }
            prop_assert_eq!((limiter.default_quota(), limiter.own_quotas()), (default, own.iter().flatten().count()));
            for (key, model) in models.iter().enumerate() {
                let peek = limiter.peek(&key);
                prop_assert_eq!((peek.remaining(), peek.reset_after()), model.state(), "key {} after {:?}: {:?}", key, step, model);
                prop_assert_eq!(peek.limit(), model.quota.capacity());
                prop_assert_eq!(limiter.quota(&key), model.quota);
            }
        }
    }
}
