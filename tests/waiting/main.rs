//! Tokens that are booked, waited for, charged afterwards, leased, or taken of several limits at once.

#[path = "../common/both.rs"]
mod both;
mod bounds;
mod futures;
#[path = "../common/hash.rs"]
mod hash;
mod leases;
mod promise;
mod quota_changes;
#[path = "../common/random.rs"]
mod random;
#[path = "../common/rounds.rs"]
mod rounds;
mod several;
mod threads;
#[path = "../common/timers.rs"]
mod timers;

use std::time::Duration;

use tollgate::Quota;

const QUOTA: Quota = Quota::per_second(100).burst(1);
const TOKEN: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3_600);
