//! The web layer behind the servers it is for: the same cases over axum, hyper and tonic, with real clients on real sockets.
//!
//! Limiters read clocks that are set by hand. Only where something waits does time pass.

mod app;
mod bodies;
mod client;
mod clients;
mod curl;
mod grpc;
mod limits;
mod queues;
mod servers;
mod tower_layers;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota};

use crate::servers::{SETUPS, Setup};

/// Runs a case under each setup: server, version of HTTP, and place of the layer.
async fn on_every_server(case: impl AsyncFn(Setup)) {
    for setup in SETUPS {
        // Shown if the case fails.
        println!("{setup:?}");
        tokio::time::timeout(Duration::from_secs(60), case(setup)).await.expect("a case takes moments");
    }
}

type Limits = Arc<Limiter<ManualClock>>;

fn limiter(quota: Quota) -> (ManualClock, Limits) {
    let clock = ManualClock::new();
    (clock.clone(), Arc::new(Limiter::builder(quota).max_keys(10_000).clock(clock).build()))
}

/// Waits until something has happened on the server's side.
async fn until(what: &str, happened: impl Fn() -> bool) {
    let wait = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "{what}");
}
