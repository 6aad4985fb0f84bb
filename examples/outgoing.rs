//! Calls to a provider that allows so many a second, from tasks that may wait: `cargo run --release --features tokio --example outgoing`.
//!
//! Two kinds of callers share the one limit, and differ only in how long they will wait. A batch job can wait a second, but no more than 40 of them
//! at a time; a person waits 150 ms. Who would have to wait longer is told so at once.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate::{Bucket, Clock, Denied, MaxWait, MonotonicClock, Quota, Waiters};

static PROVIDER: Bucket = Bucket::new(Quota::per_second(50).burst(10));

const JOBS: u32 = 80;
const PEOPLE: u32 = 100;
/// A person comes so often.
const EVERY: Duration = Duration::from_millis(15);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Caller {
    Job,
    Person,
}

/// When the call went out, since the start, or why it did not.
struct Outcome {
    caller: Caller,
    went: Result<Duration, Denied>,
}

#[tokio::main]
async fn main() {
    // The first reading calibrates the clock, a few hundred milliseconds.
    _ = MonotonicClock::new().now();
    let jobs_waiting = Waiters::new(40);
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..JOBS {
        calls.spawn(call(Caller::Job, MaxWait::new(Duration::from_secs(1)).among(&jobs_waiting), start));
    }
    for number in 0..PEOPLE {
        calls.spawn(async move {
            sleep(EVERY * number).await;
            call(Caller::Person, Duration::from_millis(150).into(), start).await
        });
    }
    report(&calls.join_all().await);
}

async fn call(caller: Caller, max_wait: MaxWait, start: Instant) -> Outcome {
    let admitted = PROVIDER.acquire(1, max_wait).await;
    // Here the call would go out.
    Outcome { caller, went: admitted.map(|_| start.elapsed()) }
}

fn report(outcomes: &[Outcome]) {
    let mut went: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome.went.ok()?, outcome.caller))).collect();
    went.sort_unstable();
    println!("calls that went out, by tenths of a second (j: a job's, p: a person's):");
    let mut tenths = BTreeMap::<_, String>::new();
    for (at, caller) in &went {
        tenths.entry(at.as_millis() / 100).or_default().push(if *caller == Caller::Job { 'j' } else { 'p' });
    }
    for (tenth, calls) in tenths {
        println!("  {:>4} ms  {calls}", tenth * 100);
    }

    println!("calls that were shed, and the first one's denial:");
    let mut shed = BTreeMap::<_, Vec<Denied>>::new();
    for Outcome { caller, went } in outcomes {
        if let Err(denied) = went {
            shed.entry((*caller, format!("{:?}", denied.reason()))).or_default().push(*denied);
        }
    }
    for ((caller, reason), denials) in shed {
        println!("  {:>2} {caller:?} {reason}: {}", denials.len(), denials[0]);
    }

    let (Some((first, _)), Some((last, _))) = (went.first(), went.last()) else { return };
    let (burst, took) = (PROVIDER.quota().capacity(), last.saturating_sub(*first));
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let rate = (went.len() as f64 - burst as f64) / took.as_secs_f64();
    println!("{} went out in {took:.2?}: after a burst of {burst}, {rate:.1} a second", went.len());
}
