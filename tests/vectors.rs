//! The conformance vectors: worked cases of exact arithmetic, on a bucket and on a limiter's key.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use tollgate::{Allowed, Bucket, Clock, Denied, Limiter, ManualClock, Quota};

const VECTORS: &str = include_str!("conformance/vectors.json");

struct Case {
    id: String,
    quota: Quota,
    steps: Vec<Step>,
}

struct Step {
    at: u64,
    n: u64,
    expected: Answer,
}

/// The four numbers of an answer, in tokens and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answer {
    allowed: bool,
    remaining: u64,
    /// Zero when allowed, `None` when no wait helps.
    retry_after: Option<u128>,
    reset_after: u128,
}

impl From<Result<Allowed, Denied>> for Answer {
    fn from(answer: Result<Allowed, Denied>) -> Self {
        match answer {
            Ok(allowed) => {
                Self { allowed: true, remaining: allowed.remaining(), retry_after: Some(0), reset_after: allowed.reset_after().as_nanos() }
            }
            Err(denied) => Self {
                allowed: false,
                remaining: denied.remaining(),
                retry_after: denied.retry_after().map(|wait| wait.as_nanos()),
                reset_after: denied.reset_after().as_nanos(),
            },
        }
    }
}

fn cases() -> Vec<Case> {
    let file: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    file.as_array().expect("the vectors are a list").iter().map(case).collect()
}

fn case(value: &Value) -> Case {
    let period = Duration::from_nanos(number(value, "period_ns"));
    let quota = Quota::new(number(value, "tokens"), period).and_then(|quota| quota.with_burst(number(value, "burst")));
    Case {
        id: value["id"].as_str().expect("a case has an id").to_owned(),
        quota: quota.expect("a case has a quota"),
        steps: value["steps"].as_array().expect("a case has steps").iter().map(step).collect(),
    }
}

fn step(value: &Value) -> Step {
    let expected = Answer {
        allowed: value["allowed"].as_bool().expect("allowed or not"),
        remaining: number(value, "remaining"),
        retry_after: if value["retry_after_ns"].is_null() { None } else { Some(number(value, "retry_after_ns").into()) },
        reset_after: number(value, "reset_after_ns").into(),
    };
    Step { at: number(value, "at_ns"), n: number(value, "n"), expected }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {value}"))
}

/// The longest a duration may be off: a tick, rounded up to whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ticks are short and positive")]
fn tolerance(quota: Quota) -> u128 {
    if quota.is_exact() { 0 } else { quota.tick_nanos().ceil() as u128 }
}

/// Whether the answers agree as far as the quota's ticks let them. `None`: they decided a call within a tick of its moment differently, so that
/// later steps do not compare.
fn agree(quota: Quota, got: Answer, expected: Answer) -> Option<bool> {
    let within = tolerance(quota);
    let near = |a: u128, b: u128| a.abs_diff(b) <= within;
    if got.allowed != expected.allowed {
        let wait = if got.allowed { expected.retry_after } else { got.retry_after };
        return if wait.is_some_and(|wait| wait <= within) { None } else { Some(false) };
    }
    let retry = match (got.retry_after, expected.retry_after) {
        (Some(got), Some(expected)) => near(got, expected),
        (got, expected) => got == expected,
    };
    Some(got.remaining == expected.remaining && retry && near(got.reset_after, expected.reset_after))
}

/// Runs a case on whatever `check` checks at a time: the time of the clock that it was given.
fn run(on: &str, case: &Case, clock: &ManualClock, check: impl Fn(u64) -> Result<Allowed, Denied>) {
    for (number, step) in case.steps.iter().enumerate() {
        clock.set(Duration::from_nanos(step.at));
        let got = Answer::from(check(step.n));
        match agree(case.quota, got, step.expected) {
            Some(true) => {}
            Some(false) => {
                panic!("{} on {on}, step {number} (n = {} at {} ns): {got:?}, not {:?}", case.id, step.n, step.at, step.expected)
            }
            None => return,
        }
    }
}

/// Clocks that read zero, and the time of the first step, when the bucket is built.
fn clocks(case: &Case) -> [ManualClock; 2] {
    let late = ManualClock::new();
    late.set(Duration::from_nanos(case.steps[0].at));
    [ManualClock::new(), late]
}

#[test]
fn every_case_on_a_bucket() {
    for case in cases() {
        for clock in clocks(&case) {
            let bucket = Bucket::with_clock(case.quota, clock.clone());
            run("a bucket", &case, &clock, |n| bucket.check_n(n));
        }
    }
}

#[test]
fn every_case_on_a_key() {
    for case in cases() {
        for clock in clocks(&case) {
            let limiter = Limiter::builder(case.quota).max_keys(8).clock(clock.clone()).build();
            run("a key", &case, &clock, |n| limiter.check_n("tenant-42", n));
        }
    }
}

#[test]
fn every_case_at_times_already_read() {
    for case in cases() {
        let clock = ManualClock::new();
        let bucket = Bucket::with_clock(case.quota, ManualClock::new());
        let limiter = Limiter::builder(case.quota).max_keys(8).clock(ManualClock::new()).build();
        run("a bucket, check_at", &case, &clock, |n| bucket.check_at(n, clock.now()));
        run("a key, check_at", &case, &clock, |n| limiter.check_at(&42, n, clock.now()));
    }
}

#[test]
fn there_are_cases_and_each_has_its_own_id_and_steps() {
    let cases = cases();
    assert!(!cases.is_empty(), "no cases");
    let mut ids = HashSet::new();
    for case in &cases {
        assert!(ids.insert(&case.id), "{} is there twice", case.id);
        assert!(!case.steps.is_empty(), "{} has no steps", case.id);
    }
}
