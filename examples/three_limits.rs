//! Limits per tenant and one in all, as one decision: `cargo run --release --example three_limits`.
//!
//! A tenant may make 10 requests a second and 1,000 an hour, and read 50,000 rows a day; all tenants together may make 5,000 requests a second. A
//! request is charged to all of them or to none, and a denial names the one that has to be waited for the longest. The clock moves when told to, so
//! that the output is the same each time.

use std::time::Duration;

use tollgate::{Allowed, Bucket, Clock, DeniedBy, Limits, ManualClock, Quota, check_all};

const NAMES: [&str; 4] = ["requests a second", "requests an hour", "rows a day", "requests a second in all"];

struct Api {
    clock: ManualClock,
    per_tenant: Limits<3, ManualClock>,
    in_all: Bucket<ManualClock>,
}

impl Api {
    fn new() -> Self {
        let clock = ManualClock::new();
        let quotas = [Quota::per_second(10), Quota::per_hour(1_000), Quota::per_day(50_000)];
        Self {
            per_tenant: Limits::builder(quotas).max_keys(10_000).clock(clock.clone()).build(),
            in_all: Bucket::with_clock(Quota::per_second(5_000), clock.clone()),
            clock,
        }
    }

    /// One request, which reads so many rows.
    fn request(&self, tenant: &str, rows: u64) -> Result<[Allowed; 4], DeniedBy> {
        let [second, hour, day] = self.per_tenant.buckets(tenant);
        check_all([(&second, 1), (&hour, 1), (&day, rows), (&self.in_all, 1)])
    }

    /// Requests, each as soon as it may, until a limit other than the first one denies: how many were made, and that denial.
    fn paced(&self, tenant: &str, rows: u64) -> (u32, DeniedBy) {
        let mut made = 0;
        loop {
            match self.request(tenant, rows) {
                Ok(_) => made += 1,
                Err(by) if by.index() == 0 => self.clock.advance(by.retry_after().unwrap_or_default()),
                Err(by) => return (made, by),
            }
        }
    }

    fn since_start(&self) -> Duration {
        Duration::from_nanos(self.clock.now().as_nanos())
    }
}

fn main() {
    let api = Api::new();

    println!("tenant-1, at once:");
    let mut made = 0;
    let by = loop {
        match api.request("tenant-1", 1) {
            Ok(_) => made += 1,
            Err(by) => break by,
        }
    };
    denied(made, &by);

    println!("tenant-1, each as soon as it may:");
    let (made, by) = api.paced("tenant-1", 1);
    denied(made, &by);
    println!("  by then {:?} had passed", api.since_start());

    println!("tenant-2, 2,500 rows each, each as soon as it may:");
    let (made, by) = api.paced("tenant-2", 2_500);
    denied(made, &by);

    api.clock.advance(Duration::from_secs(1));
    println!("1,000 other tenants, 10 requests each, at once:");
    let tenants: Vec<_> = (1_001..=2_000).map(|number| format!("tenant-{number}")).collect();
    let answers: Vec<_> = tenants.iter().flat_map(|tenant| (0..10).map(|_| api.request(tenant, 1))).collect();
    let denials: Vec<_> = answers.iter().filter_map(|answer| answer.err()).collect();
    if let (Some(by), Some(last)) = (denials.last(), tenants.last()) {
        denied(answers.len() - denials.len(), by);
        let left = api.per_tenant.buckets(last).map(|bucket| bucket.peek().remaining());
        println!("  none was charged for what another limit denied: {last} has {left:?} left");
    }
}

fn denied(made: impl std::fmt::Display, by: &DeniedBy) {
    println!("  {made} made, then denied by \"{}\": {}", NAMES[by.index()], by.denied());
}
