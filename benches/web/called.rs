//! The layer as a tower service, without a server.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, Request, Response};
use tollgate::http::{ClientIp, Everyone, Header, RateLimitLayer, ShedLayer};
use tower_layer::Layer;
use tower_service::Service;

use crate::quotas::{Amount, governor, policy};
use crate::statistics::median;

const CALLS: u32 = 20_000;
const ROUNDS: usize = 61;
const TENANT: HeaderName = HeaderName::from_static("x-tenant");

/// Does nothing, and leaves the request where the next call finds it, so that none is built in between.
#[derive(Clone)]
struct Nothing(Rc<Cell<Option<Request<()>>>>);

impl Service<Request<()>> for Nothing {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        self.0.set(Some(request));
        ready(Ok(Response::new(Body::empty())))
    }
}

fn request() -> Request<()> {
    let request = Request::get("/").header("x-forwarded-for", "198.51.100.7, 192.0.2.44").header(TENANT, "tenant-42");
    request.extension(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 40_000)))).body(()).expect("a request")
}

/// The time of a call, in nanoseconds. A request that is denied is gone: the next one is built anew, and the time counts.
fn time<S, B>(service: &mut S, requests: &Cell<Option<Request<()>>>) -> f64
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..CALLS {
        let request = requests.take().unwrap_or_else(request);
        assert!(service.poll_ready(&mut context).is_ready());
        let answer = pin!(service.call(request)).poll(&mut context);
        assert!(black_box(answer).is_ready());
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// Measures once.
type Measure = Box<dyn FnMut() -> f64>;

/// A service under measurement, whatever its type.
fn subject<S, B>(layer: impl Layer<Nothing, Service = S>) -> Measure
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + 'static,
{
    let requests = Rc::new(Cell::new(None));
    let mut service = layer.layer(Nothing(Rc::clone(&requests)));
    Box::new(move || time(&mut service, &requests))
}

/// The time to build a request and drop it: what a denial costs this bench and no server.
fn building() -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        drop(black_box(request()));
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// No layer.
struct Bare;

impl<S> Layer<S> for Bare {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        inner
    }
}

pub(crate) fn compare() {
    use Amount::{Ample, Spent};
    let by_peer = |amount| policy("address", amount, ClientIp::peer());
    let by_tenant = || policy("tenant", Ample, Header(TENANT));
    // Each with what its time is measured from: 0 is nothing at all, 1 is the building of a request.
    let mut subjects: Vec<(&str, usize, Measure)> = vec![
        ("", 0, subject(Bare)),
        ("", 0, Box::new(building)),
        ("1 policy: peer", 0, subject(RateLimitLayer::new(by_peer(Ample)))),
        ("1 policy: X-Forwarded-For", 0, subject(RateLimitLayer::new(policy("address", Ample, ClientIp::behind(1))))),
        ("1 policy: a header", 0, subject(RateLimitLayer::new(by_tenant()))),
        (
            "3 policies: peer, header, everyone",
            0,
            subject(RateLimitLayer::new(by_peer(Ample)).and(by_tenant()).and(policy("all", Ample, Everyone))),
        ),
        ("1 policy: peer, denied", 1, subject(RateLimitLayer::new(by_peer(Spent)))),
        ("tower_governor: peer", 0, subject(governor(Ample))),
        ("tower_governor: peer, denied", 1, subject(governor(Spent))),
        ("ShedLayer", 0, subject(ShedLayer::new(100))),
    ];
    let mut times = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for ((.., measure), times) in subjects.iter_mut().zip(&mut times) {
            times.push(measure());
        }
    }
    println!("{:36} {:>9}", "called", "adds");
    for ((name, from, _), measured) in subjects.iter().zip(&times).skip(2) {
        let added = measured.iter().zip(&times[*from]).map(|(with, without)| with - without).collect();
        println!("{name:36} {:>6.0} ns", median(added));
    }
}
