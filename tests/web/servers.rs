//! The servers, each on a socket of its own.

use std::net::SocketAddr;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::routing::any;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tollgate::http::{AnyBodyLayer, ClientIp, Head, PeerAddr, Policy, RateLimitLayer, ShedLayer};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tower::{Layer, ServiceBuilder, service_fn};

use crate::app::{self, App, GrpcApp, SERVICE};
use crate::client::Version;

/// Which server, how it is spoken to, and where in it the layer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setup {
    pub(crate) server: Kind,
    pub(crate) version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A layer around all routes.
    Axum,
    /// A layer on each route.
    AxumRoutes,
    Hyper,
    Tonic,
}

pub(crate) const SETUPS: [Setup; 6] = [
    Setup { server: Kind::Axum, version: Version::Http1 },
    Setup { server: Kind::Axum, version: Version::Http2 },
    Setup { server: Kind::AxumRoutes, version: Version::Http1 },
    Setup { server: Kind::Hyper, version: Version::Http1 },
    Setup { server: Kind::Hyper, version: Version::Http2 },
    Setup { server: Kind::Tonic, version: Version::Http2 },
];

/// What is before the application.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    Limit(RateLimitLayer),
    Shed(ShedLayer),
    ShedAndLimit(ShedLayer, RateLimitLayer),
    /// Behind tower's buffer and limit.
    Behind(RateLimitLayer),
    /// Before them.
    Before(RateLimitLayer),
}

impl From<RateLimitLayer> for Guard {
    fn from(layer: RateLimitLayer) -> Self {
        Self::Limit(layer)
    }
}

impl From<Policy> for Guard {
    fn from(policy: Policy) -> Self {
        Self::Limit(RateLimitLayer::new(policy))
    }
}

impl From<&ShedLayer> for Guard {
    fn from(layer: &ShedLayer) -> Self {
        Self::Shed(layer.clone())
    }
}

/// Does the same with each kind of guard as one layer: they are of different types.
macro_rules! with_layer {
    ($guard:expr, |$layer:ident| $serve:expr) => {
        match $guard {
            Guard::Limit($layer) => $serve,
            Guard::Shed($layer) => $serve,
            Guard::ShedAndLimit(shed, limit) => {
                let $layer = (shed, limit);
                $serve
            }
            Guard::Behind(limit) => {
                let $layer = ServiceBuilder::new().buffer(8).concurrency_limit(4).layer(limit);
                $serve
            }
            Guard::Before(limit) => {
                let $layer = ServiceBuilder::new().layer(limit).buffer(8).concurrency_limit(4);
                $serve
            }
        }
    };
}

/// A running server, until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) setup: Setup,
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Setup {
    pub(crate) async fn start(self, guard: impl Into<Guard>) -> Server {
        self.start_on("127.0.0.1:0", guard).await.expect("a port is free")
    }

    pub(crate) async fn start_on(self, address: &str, guard: impl Into<Guard>) -> std::io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (app, guard) = (App::new(), guard.into());
        let task = match self.server {
            Kind::Axum | Kind::AxumRoutes => {
                let router = self.router(&app, guard).into_make_service_with_connect_info::<SocketAddr>();
                tokio::spawn(async { axum::serve(listener, router).await.expect("never ends") })
            }
            Kind::Hyper => tokio::spawn(hyper(listener, app.clone(), guard)),
            Kind::Tonic => tokio::spawn(tonic(listener, app.clone(), guard)),
        };
        Ok(Server { setup: self, address, app, task })
    }

    fn router(self, app: &App, guard: Guard) -> Router {
        let handler = || {
            let app = app.clone();
            any(move |request: axum::extract::Request| async { app::serve(app, request).await })
        };
        with_layer!(guard, |layer| {
            let layer = ServiceBuilder::new().layer(HandleErrorLayer::new(async |_| StatusCode::INTERNAL_SERVER_ERROR)).layer(layer);
            if self.server == Kind::AxumRoutes {
                [app::CALL, app::OWN, app::SLOW, app::UNREAD, app::STREAM]
                    .into_iter()
                    .fold(Router::new(), |router, name| router.route(&path(name), handler().layer(layer.clone())))
            } else {
                Router::new().route(&path("{name}"), handler()).layer(layer)
            }
        })
    }

    /// Finds the peer's address where this server puts it.
    pub(crate) fn finds_peer(self, client: ClientIp) -> ClientIp {
        if self.server == Kind::Tonic { client.peer_from(peer_in_tonic) } else { client }
    }
}

fn peer_in_tonic(head: &Head<'_>) -> Option<SocketAddr> {
    head.extensions.get::<TcpConnectInfo>()?.remote_addr()
}

pub(crate) fn path(name: &str) -> String {
    format!("/{SERVICE}/{name}")
}

async fn hyper(listener: TcpListener, app: App, guard: Guard) {
    with_layer!(guard, |layer| {
        let service = service_fn(move |request: Request<Incoming>| app::serve(app.clone(), request));
        let service = Layer::layer(&layer, AnyBodyLayer.layer(service));
        loop {
            let (connection, peer) = listener.accept().await.expect("accepts");
            let attach = move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddr(peer));
                request
            };
            let service = TowerToHyperService::new(ServiceBuilder::new().map_request(attach).service(service.clone()));
            tokio::spawn(async move {
                // Clients go away.
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(connection), service).await;
            });
        }
    });
}

async fn tonic(listener: TcpListener, app: App, guard: Guard) {
    with_layer!(guard, |layer| {
        let server = tonic::transport::Server::builder().layer(layer).layer(AnyBodyLayer).add_service(GrpcApp(app));
        server.serve_with_incoming(TcpIncoming::from(listener)).await.expect("never ends");
    });
}
