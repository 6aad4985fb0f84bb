//! A limiter's memory is not touched before a key needs it, and goes back when keys do not need it any more.

#![cfg(target_os = "linux")]

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Overflow, Quota};

const MIB: u64 = 1 << 20;

/// Resident bytes of this process: its pages, by the second number of `statm`, at 4 KiB at least.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4_096
}

/// One test at a time measures.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn an_empty_limiter_touches_no_slots() {
    let _turn = alone();
    let before = resident();
    let limiter = Limiter::builder(Quota::per_second(10)).max_keys(1 << 24).clock(ManualClock::new()).build();
    let built = resident();
    assert!(built - before < 8 * MIB, "{} bytes for 456 MiB of slots", built - before);

    // A thousand keys have a table of their size: some ten pages.
    (0..1_000_u32).for_each(|key| _ = limiter.check(&key));
    let used = resident();
    assert!(used - before < 8 * MIB, "{} bytes for a thousand keys", used - before);
    // Enough to be seen.
    (0..100_000_u32).for_each(|key| _ = limiter.check(&key));
    assert!(resident() >= used + MIB, "a hundred thousand keys touched nothing: this test sees no memory");
}

/// A limiter with 150,000 keys, each in debt for less than a second; and what was resident before.
fn flooded() -> (ManualClock, Limiter<ManualClock>, u64) {
    let before = resident();
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(10)).max_keys(1 << 20).overflow(Overflow::DenyNew).clock(clock.clone()).build();
    (0..150_000_u32).for_each(|key| assert!(limiter.check(&key).is_ok()));
    assert!(resident() >= before + 3 * MIB, "150,000 keys touched {} bytes", resident() - before);
    (clock, limiter, before)
}

#[test]
fn shrinking_gives_memory_back_and_growing_takes_it_again() {
    let _turn = alone();
    let (clock, limiter, before) = flooded();
    for _ in 0..2 {
        clock.advance(Duration::from_secs(1));
        limiter.shrink();
        assert!(resident() < before + MIB, "{} bytes more than at first", resident() - before);
        assert!(limiter.memory() < usize::try_from(MIB).expect("small"));
        (0..150_000_u32).for_each(|key| assert!(limiter.check(&key).is_ok()));
        assert!(resident() >= before + 3 * MIB, "{} bytes", resident() - before);
    }
}

#[test]
fn a_flood_keeps_memory_flat() {
    let _turn = alone();
    let before = resident();
    let limiter = Limiter::builder(Quota::per_second(10)).max_keys(40_000).clock(ManualClock::new()).build();
    (0..60_000_u32).for_each(|key| _ = limiter.check(&key));
    let full = resident();
    assert!(full >= before + MIB / 2, "{} bytes for 40,000 keys", full - before);
    (100_000..250_000_u32).for_each(|key| _ = limiter.check(&key));
    assert!(resident() < full + MIB / 2, "{} bytes more", resident() - full);
}
