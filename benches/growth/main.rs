//! Limiters that fill: how long their keys wait while they grow, what memory they take, and what a flood of keys used once does to them:
//! `cargo bench --bench growth`.
//!
//! Every key owes a token until the end, so that none may be forgotten. Every limiter is measured in a fresh process of its own, so that none
//! profits from memory that another gave back. Prints:
//!
//! - *growing*: the wall time from an empty limiter to a million keys, two threads inserting half of them each, and percentiles of the
//!   latency of every single check with its clock reading. Beside them what the machine does by itself: "fixed work" is arithmetic in place
//!   of each check, which takes about as long but touches no memory, and "clock alone" is nothing in its place.
//! - *memory*: what a process with a million keys takes more than without, in all and for each key.
//! - *flood*: the memory of a limiter through a flood of ten million keys used once, how many of a hundred keys that were limited before
//!   stayed so, and what a check of a hot key costs, limited as well, by turns with the same in a limiter that is not flooded.

#[expect(dead_code, reason = "sequences of known keys are for the other benches")]
#[path = "../common/mod.rs"]
mod common;

mod flood;
mod growing;
mod memory;
mod process;
mod statistics;
mod subject;

use std::env;
use std::hash::RandomState;

use common::Governor;
use tollgate::{KeyHasher, Limiter};

use subject::{Nothing, Subject};

const TOLLGATE: &str = "tollgate";
const SAME_HASH: &str = "gov., same hash";
const DEFAULT_HASH: &str = "gov., default";
const FIXED_WORK: &str = "fixed work";
const CLOCK_ALONE: &str = "clock alone";

const LIMITERS: [&str; 3] = [TOLLGATE, SAME_HASH, DEFAULT_HASH];

fn main() {
    // `cargo test --benches` passes this.
    if env::args().any(|arg| arg == "--test") {
        return;
    }
    if let Some((section, subject)) = process::asked() {
        return answer(&section, &subject);
    }
    growing::report();
    memory::report();
    flood::report();
}

/// What a process of one measurement does.
fn answer(section: &str, subject: &str) {
    process::answer(&match subject {
        TOLLGATE => measure::<Limiter>(section),
        SAME_HASH => measure::<Governor<KeyHasher>>(section),
        DEFAULT_HASH => measure::<Governor<RandomState>>(section),
        FIXED_WORK => measure::<Nothing<200>>(section),
        CLOCK_ALONE => measure::<Nothing<0>>(section),
        other => panic!("nothing is called {other}"),
    });
}

fn measure<S: Subject>(section: &str) -> Vec<f64> {
    match section {
        growing::NAME => growing::measure::<S>().to_vec(),
        memory::NAME => memory::measure::<S>().to_vec(),
        flood::NAME => flood::measure::<S>(),
        other => panic!("no section is called {other}"),
    }
}
