//! How full a limiter gets before keys are in each other's way, and whether chosen keys make it worse: `cargo bench --bench crowding`.
//!
//! Not a timing: so many distinct keys take a token each at one instant, so that all of them are in debt, and the limiter says how many it had
//! to let off their debt to make room.

use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate::{Limiter, ManualClock, Quota};

const MAX_KEYS: u64 = 1_000_000;

fn main() {
    // `cargo test --benches` passes this.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!("max_keys {MAX_KEYS}; keys in debt at one time, and those let off to make room:");
    for percent in [50, 75, 90, 95, 100] {
        report(&format!("{percent} % of max_keys"), MAX_KEYS * percent / 100, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    println!("the same at 100 %, for keys that somebody chose:");
    report("consecutive numbers", MAX_KEYS, |n| n);
    report("multiples of 2^44", MAX_KEYS, |n| n << 44);
    report("numbers with few bits apart", MAX_KEYS, |n| n ^ n >> 1);
    report("\"tenant-N\"", MAX_KEYS, |n| format!("tenant-{n}"));
    report("long strings that differ in front", MAX_KEYS, |n| format!("{n:07}{}", "x".repeat(100)));
    report("addresses of one IPv4 /12", MAX_KEYS, |n| Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(n).expect("below 2^32")));
    report("addresses of one IPv6 /64", MAX_KEYS, |n| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n)));
    report("IPv6 /64 networks of one /44", MAX_KEYS, |n| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 64));
}

fn report<K: Hash>(name: &str, keys: u64, key: impl Fn(u64) -> K) {
    let max_keys = usize::try_from(MAX_KEYS).expect("fits");
    let evicted: Vec<u64> = (0..5)
        .map(|_| {
            let limiter = Limiter::builder(Quota::per_hour(10)).max_keys(max_keys).clock(ManualClock::new()).build();
            (0..keys).for_each(|n| _ = limiter.check(&key(n)));
            limiter.stats().evicted_in_debt
        })
        .collect();
    println!("  {name:36} {keys:>9} keys, let off in five limiters: {evicted:?}");
}
