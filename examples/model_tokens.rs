//! A language model's tokens, which are known only when the answer is there: `cargo run --release --example model_tokens`.
//!
//! A tenant has 60,000 tokens a minute, 8,000 of them at once. Each request is charged an estimate before it goes out, and what it really used
//! afterwards. The clock moves when told to, so that the output is the same each time.

use std::time::Duration;

use tollgate::{KeyBucket, Limiter, ManualClock, Quota, Receipt};

type Tenant<'a> = KeyBucket<&'a Limiter<ManualClock>>;

/// How long the model takes to answer.
const ANSWER: Duration = Duration::from_millis(500);

fn main() {
    let clock = ManualClock::new();
    let quota = Quota::per_minute(60_000).burst(8_000);
    let limiter = Limiter::builder(quota).clock(clock.clone()).build();
    let tenant = limiter.bucket("tenant-42");
    println!("{quota}");

    println!("an estimate too high:");
    request(&tenant, &clock, 2_000, 700);
    println!("an estimate too low:");
    request(&tenant, &clock, 1_000, 4_500);
    println!("one much too low:");
    request(&tenant, &clock, 1_000, 9_000);
    println!("what later ones wait for it, one behind the other:");
    let queue: Vec<_> = (0..3).map_while(|_| tenant.reserve(1_000, Duration::from_secs(60)).ok()).collect();
    for booked in &queue {
        println!("  {} tokens in {:?}", booked.tokens(), booked.wait());
    }
    drop(queue);
    show(&tenant, "given back");
    println!("one that does wait:");
    request(&tenant, &clock, 1_000, 1_000);
    println!("a model that failed, and used nothing:");
    if let Some(receipt) = admitted(&tenant, &clock, 200) {
        receipt.refund();
        show(&tenant, "refunded");
    }
}

/// A request that is said to use `estimate` tokens, and uses `used`.
fn request(tenant: &Tenant<'_>, clock: &ManualClock, estimate: u64, used: u64) {
    let Some(receipt) = admitted(tenant, clock, estimate) else { return };
    clock.advance(ANSWER);
    show(tenant, &format!("the answer took {ANSWER:?}"));
    match receipt.settle(used) {
        Ok(_) => show(tenant, &format!("settled, {used} used")),
        Err(denied) => println!("  {denied}"),
    }
}

/// Charges the estimate, and waits its turn if it must.
fn admitted<'a>(tenant: &Tenant<'a>, clock: &ManualClock, estimate: u64) -> Option<Receipt<Tenant<'a>>> {
    match tenant.reserve(estimate, Duration::from_secs(60)) {
        Ok(booked) => {
            if !booked.wait().is_zero() {
                println!("  waits {:?}", booked.wait());
                clock.advance(booked.wait());
            }
            show(tenant, &format!("estimated {estimate}"));
            Some(booked.into_receipt())
        }
        Err(denied) => {
            println!("  {denied}");
            None
        }
    }
}

/// The level: what there is, or how far below zero it is.
fn show(tenant: &Tenant<'_>, what: &str) {
    let state = tenant.peek();
    let level = i128::from(state.limit()) - i128::from(state.owed());
    println!("  {what:24} level {level:>6}, full again in {:?}", state.reset_after());
}
