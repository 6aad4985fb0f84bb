//! The service: its routes, the layers before them, and how it ends.

use std::{
    error::Error,
    future::{self, Future, IntoFuture},
    io,
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderName, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
    serve::ListenerExt,
};
use metrics::counter;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    net::TcpListener,
    sync::oneshot,
    time::{sleep, timeout},
};
use tollgate::http::{ClientIp, Fields, Header, MissingKey, Policy, RateLimitLayer, ShedLayer};

use crate::{
    figures,
    limits::Limits,
    reload::{Watched, keep_looking},
};

/// The header that names the tenant.
const TENANT: HeaderName = HeaderName::from_static("x-tenant");
/// How long a request may queue.
const LONGEST_QUEUE: Duration = Duration::from_millis(100);
/// What those are told that are shed: overload of this kind is over in about that time.
const AFTER_OVERLOAD: Duration = Duration::from_secs(1);
/// How long an event may take to come in. It is under way meanwhile, so a client that sends nothing must not keep its place.
const LONGEST_BODY: Duration = Duration::from_secs(10);
/// How long requests under way may take when the service is to end. Longer than an event may take; then only those are left that have
/// not even sent their head.
const LONGEST_END: Duration = Duration::from_secs(15);

/// What the service is told when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    /// The file of quotas.
    pub(crate) config: PathBuf,
    pub(crate) in_flight: usize,
    pub(crate) queue: usize,
    /// How many proxies are in front.
    pub(crate) proxies: usize,
    /// How often to look at the file.
    pub(crate) look_every: Duration,
}

/// A service that listens.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    routes: Router,
    watched: Watched,
    look_every: Duration,
}

impl Server {
    pub(crate) async fn bind(settings: Settings, figures: PrometheusHandle) -> Result<Self, Box<dyn Error>> {
        let Settings { listen, config, in_flight, queue, proxies, look_every } = settings;
        let watched = Watched::open(config)?;
        let cannot = |error| io::Error::other(format!("cannot listen on {listen}: {error}"));
        let listener = TcpListener::bind(listen).await.map_err(cannot)?;
        let address = listener.local_addr()?;
        let shed = ShedLayer::new(in_flight).queue(queue, LONGEST_QUEUE).retry_after(AFTER_OVERLOAD);
        let routes = routes(watched.in_force().limits(), shed, ClientIp::behind(proxies), figures);
        Ok(Self { address, listener, routes, watched, look_every })
    }

    /// Serves until it is to stop; then answers what is under way, and ends.
    pub(crate) async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let Self { listener, routes, watched, look_every, .. } = self;
        // Answers are small: without this the kernel may hold one back to send it with the next. Where it cannot be set, they are
        // slower and just as right.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let (stopping, told) = oneshot::channel();
        let stop = async move {
            stop.await;
            eprintln!("ingest: stopping");
            // Nobody listens any more when serving has ended by itself.
            let _ = stopping.send(());
        };
        let service = routes.into_make_service_with_connect_info::<SocketAddr>();
        let serving = axum::serve(listener, service).with_graceful_shutdown(stop);
        let too_long = async {
            match told.await {
                Ok(()) => sleep(LONGEST_END).await,
                Err(_) => future::pending().await,
            }
        };
        tokio::select! {
            ended = serving.into_future() => ended,
            () = too_long => Err(io::Error::other(format!("requests were still under way after {LONGEST_END:?}, and were cut off"))),
            () = keep_looking(watched, look_every) => Err(io::Error::other("the quotas cannot be changed any more")),
        }
    }
}

fn routes(limits: Limits, shed: ShedLayer, client: ClientIp, figures: PrometheusHandle) -> Router {
    let Limits { tenants, addresses } = limits.clone();
    // A layer of its own, and not a second policy beside the tenant's, where a request is charged under both or under none: what an
    // address sends is to count also when its tenant has no quota left. A flood from one address then ends here, and drains no
    // tenant's bucket, whomever it claims to send for.
    let by_address = RateLimitLayer::new(Policy::new("address", addresses, client));
    // Trusts that a proxy in front has made sure of the tenant. Without one, anybody spends anybody's quota.
    let by_tenant = Policy::new("tenant", tenants, Header(TENANT)).missing_key(MissingKey::Reject(StatusCode::BAD_REQUEST));
    let by_tenant = RateLimitLayer::new(by_tenant).fields(Fields::default().on_allowed());

    let figures = move || async move { figures::render(&figures, [("address", &limits.addresses), ("tenant", &limits.tenants)]) };
    figures::describe();
    // The last layer is the outermost: what is too much for the service costs it nothing more.
    let limited = Router::new().route("/ingest", post(ingest).layer(by_tenant)).layer(by_address).layer(shed);
    // Who asks whether the service is alive is not to be told that it is busy.
    limited.route("/healthz", get(|| async { "ok\n" })).route("/metrics", get(figures))
}

async fn ingest(request: Request) -> Response {
    match timeout(LONGEST_BODY, Bytes::from_request(request, &())).await {
        Ok(Ok(event)) => {
            // Here it would go on to whoever keeps it.
            counter!("ingest_events_total").increment(1);
            counter!("ingest_event_bytes_total").increment(event.len() as u64);
            StatusCode::ACCEPTED.into_response()
        }
        Ok(Err(rejection)) => rejection.into_response(),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, format!("the event was not there after {LONGEST_BODY:?}\n")).into_response(),
    }
}
