//! What a million keys take.

use tollgate::DEFAULT_MAX_KEYS;

use crate::LIMITERS;
use crate::common::spread;
use crate::process::{ask, mib, resident};
use crate::statistics::float;
use crate::subject::{Says, Subject};

pub(crate) const NAME: &str = "memory";

const KEYS: u64 = 1_000_000;

pub(crate) fn report() {
    println!("memory of a process before a limiter is built, and when {KEYS} keys in debt were inserted");
    println!("{:16}{:>14}{:>14}{:>10}{:>14}{:>15}", "", "before", "after", "let off", "keys held", "for each");
    for subject in LIMITERS {
        let [before, after, keys, let_off] = ask(NAME, subject);
        let each = (after - before) * 1024.0 / keys;
        let each = if each.is_nan() { mib(each) } else { format!("{each:.1} bytes") };
        println!("{subject:16}{:>14}{:>14}{let_off:>10}{keys:>14}{each:>15}", mib(before), mib(after));
    }
    println!();
}

/// Memory before and after, keys, and keys let off.
pub(crate) fn measure<S: Subject>() -> [f64; 4] {
    // Code, the clock's calibration and the reading of memory are in memory by then.
    let warm = S::build(1_000);
    warm.check(0);
    resident();

    let before = resident();
    let limiter = S::build(DEFAULT_MAX_KEYS);
    (0..KEYS).map(spread).for_each(|key| _ = limiter.check(key));
    let after = resident();
    let Says { keys, let_off } = limiter.says();
    [before, after, float(keys), float(usize::try_from(let_off).expect("at most the keys"))]
}
