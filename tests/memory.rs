//! A limiter's memory is not touched before a key needs it.

#![cfg(target_os = "linux")]

use std::fs;

use tollgate::{Limiter, ManualClock, Quota};

/// Resident bytes of this process: its pages, by the second number of `statm`, at 4 KiB at least.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4_096
}

#[test]
fn an_empty_limiter_touches_no_slots() {
    const MIB: u64 = 1 << 20;
    let before = resident();
    let limiter = Limiter::builder(Quota::per_second(10)).max_keys(1 << 24).clock(ManualClock::new()).build();
    let built = resident();
    assert!(built - before < 8 * MIB, "{} bytes for 512 MiB of slots", built - before);

    // A thousand keys touch at most two pages each.
    (0..1_000_u32).for_each(|key| _ = limiter.check(&key));
    let used = resident();
    assert!(used - before < 16 * MIB, "{} bytes for a thousand keys", used - before);
    assert!(used > built, "a thousand keys touched nothing: this test sees no memory");
}
