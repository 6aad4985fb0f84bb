//! Quotas, numbers of tokens and times, of all sizes.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{ManualClock, Quota};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const DAY: u64 = 86_400 * SECOND;
pub(crate) const YEAR: u64 = 365 * DAY;
/// What every quota counts to, after its clock's first reading.
pub(crate) const HORIZON: u64 = 20 * YEAR;
/// What a clock may step back, before its first reading.
const LEEWAY: u64 = 30 * DAY;

fn tokens() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..=20_u64,
        1..=100_000_u64,
        select(&[3_u64, 7, 130, 300, 999, 7_919, 1_000_003, 600_000_000, 999_999_937, 2_147_483_647, 3_999_999_979][..]),
        1..=4_000_000_000_u64,
        1..=1_u64 << 45,
    ]
}

fn period() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(SECOND),
        3 => select(&[1_u64, 1_000, 60 * SECOND, 3_600 * SECOND, DAY, 30 * DAY, 100 * YEAR][..]),
        1 => 1..=10 * SECOND,
        1 => 1..=100 * YEAR,
    ]
}

fn burst() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        Just(None),
        Just(Some(1)),
        (1..=100_u64).prop_map(Some),
        (1..=1_u64 << 32).prop_map(Some),
        (1_u64 << 32..=1 << 50).prop_map(Some)
    ]
}

pub(crate) fn quotas() -> impl Strategy<Value = Quota> {
    (tokens(), period(), burst()).prop_filter_map("cannot be represented", |(tokens, period, burst)| {
        let quota = Quota::new(tokens, Duration::from_nanos(period)).ok()?;
        burst.map_or(Some(quota), |burst| quota.with_burst(burst).ok())
    })
}

/// How many tokens to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    Exactly(u64),
    /// So many 256ths of the burst.
    Part(u8),
    /// The burst and so many more.
    Burst(u64),
}

impl Ask {
    pub(crate) fn of(self, burst: u64) -> u64 {
        match self {
            Self::Exactly(n) => n,
            Self::Part(part) => u64::try_from(u128::from(burst) * u128::from(part) / 256).expect("less than the burst"),
            Self::Burst(more) => burst.saturating_add(more),
        }
    }
}

pub(crate) fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        1 => Just(Ask::Exactly(0)),
        4 => Just(Ask::Exactly(1)),
        2 => (2..=10_u64).prop_map(Ask::Exactly),
        1 => Just(Ask::Exactly(u64::MAX)),
        3 => any::<u8>().prop_map(Ask::Part),
        2 => Just(Ask::Burst(0)),
        1 => Just(Ask::Burst(1)),
    ]
}

/// A clock's first reading, and the times it may show.
pub(crate) fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..=60 * YEAR]
}

pub(crate) fn within(start: u64, time: u64) -> u64 {
    time.clamp(start.saturating_sub(LEEWAY), start + HORIZON)
}

pub(crate) fn clock_at(start: u64) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Duration::from_nanos(start));
    clock
}
