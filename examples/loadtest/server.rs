//! The ingestion API under load: `POST /ingest`, the tenant in a header, behind a gate.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
    serve::ListenerExt,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::gate::Gate;

/// The header that names the tenant.
pub(crate) const TENANT: &str = "x-tenant";

/// A request let through: whose, and how long after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) tenant: String,
    pub(crate) at: Duration,
}

/// A running server. Its connections end with the clients that opened them.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    admissions: mpsc::Receiver<Admission>,
    accepting: JoinHandle<io::Result<()>>,
}

struct Api {
    gate: Box<dyn Gate>,
    started: Instant,
    // A channel, not a locked list: what is measured should not wait for the measuring.
    admissions: mpsc::Sender<Admission>,
}

impl Server {
    /// Serves on a free port of 127.0.0.1. Admissions are timed from `started` on.
    pub(crate) async fn start(gate: Box<dyn Gate>, started: Instant) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (sender, admissions) = mpsc::channel();
        let api = Arc::new(Api { gate, started, admissions: sender });
        let routes = Router::new().route("/ingest", post(ingest)).with_state(api);
        // Answers are small: without this the kernel may hold one back to send it with the next. Where it cannot be
        // set, the answers are slower and just as right.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let accepting = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { address, admissions, accepting })
    }

    /// Takes no further connection, and hands out every admission so far, in no particular order.
    pub(crate) fn stop(self) -> Vec<Admission> {
        self.accepting.abort();
        self.admissions.try_iter().collect()
    }
}

async fn ingest(State(api): State<Arc<Api>>, headers: HeaderMap, _event: Bytes) -> Response {
    let Some(tenant) = headers.get(TENANT).and_then(|name| name.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, format!("{TENANT} has to name the tenant, in ASCII\n")).into_response();
    };
    let at = api.started.elapsed();
    match api.gate.admit(tenant) {
        Ok(()) => {
            // The receiver is gone only when the run is over, and then nobody asks any more.
            let _ = api.admissions.send(Admission { tenant: tenant.to_owned(), at });
            StatusCode::ACCEPTED.into_response()
        }
        Err(wait) => {
            let seconds = whole_seconds(wait).to_string();
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, seconds)]).into_response()
        }
    }
}

/// `Retry-After` knows whole seconds only: rounded up, so that whoever obeys does not come too early, and at least 1.
fn whole_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_at_least_one_second() {
        let cases = [(0, 1), (100_000, 1), (1_000_000_000, 1), (1_000_000_001, 2), (3_500_000_000, 4)];
        for (nanos, seconds) in cases {
            assert_eq!(whole_seconds(Duration::from_nanos(nanos)), seconds, "{nanos} ns");
        }
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
