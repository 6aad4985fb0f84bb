//! Nor does the web layer for a request that is admitted at once.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::net::SocketAddr;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use tollgate::http::{
    AnyBodyLayer, ClientIp, Everyone, ForwardedHeader, Head, Header, KeyExtractor, PeerAddr, Policy, RateLimitLayer, ShedLayer,
};
use tollgate::{Limiter, MaxWait, Quota, Waiters};
use tower::{Layer, Service};

use super::{counted, warm_up, without_allocating};

/// Answers at once with the request itself, so that it is not freed meanwhile.
#[derive(Clone, Copy)]
struct Inner;

impl Service<Request<()>> for Inner {
    type Response = Response<Kept>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Kept { _request: Some(request) })))
    }
}

/// A body that holds the request.
struct Kept {
    _request: Option<Request<()>>,
}

impl From<Bytes> for Kept {
    fn from(_: Bytes) -> Self {
        Self { _request: None }
    }
}

fn request() -> Request<()> {
    let peer: SocketAddr = "[2001:db8::1]:4711".parse().expect("an address");
    let request = Request::get("/").header("x-tenant", "a").header("x-forwarded-for", "6.6.6.6, [2001:db8::2]:80");
    let request = request.header("forwarded", "for=6.6.6.6, for=\"[2001:db8::2]:80\"");
    request.extension(PeerAddr(peer)).body(()).expect("a request")
}

/// One request's way through the service, from the call to the answer's head.
fn answer<S, R>(service: &mut S, request: Request<()>) -> Response<R>
where
    S: Service<Request<()>, Response = Response<R>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready());
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

#[track_caller]
fn serves_without_allocating<S, R>(what: &str, mut service: S)
where
    S: Service<Request<()>, Response = Response<R>, Error = Infallible>,
{
    warm_up();
    for _ in 0..3 {
        let request = request();
        let answer = without_allocating(what, || answer(&mut service, request));
        assert_eq!(answer.status(), StatusCode::OK);
    }
}

fn policy(name: &str, extractor: impl KeyExtractor + 'static) -> Policy {
    Policy::new(name, Arc::new(Limiter::builder(Quota::per_minute(100)).max_keys(100).build()), extractor)
}

fn tenant() -> Policy {
    policy("tenant", Header(HeaderName::from_static("x-tenant")))
}

#[test]
fn no_request_under_one_policy_allocates() {
    let networks = ["2001:db8::/64".parse().expect("a network")];
    for client in [
        ClientIp::peer(),
        ClientIp::behind(1),
        ClientIp::behind(2),
        ClientIp::behind(1).header(ForwardedHeader::Forwarded),
        ClientIp::behind_networks(networks),
    ] {
        let what = format!("{client:?}");
        serves_without_allocating(&what, RateLimitLayer::new(policy("client", client)).layer(Inner));
    }
    serves_without_allocating("a header field", RateLimitLayer::new(tenant()).layer(Inner));
    let missing = policy("none", Header(HeaderName::from_static("x-none")));
    serves_without_allocating("no key", RateLimitLayer::new(missing).layer(Inner));
}

#[test]
fn no_request_under_three_policies_allocates() {
    let cost = |head: &Head<'_>| head.headers.len() as u64;
    let layer = RateLimitLayer::new(policy("client", ClientIp::behind(1)))
        .and(tenant().cost(cost))
        .and(policy("all", Everyone).only(|head| head.uri.path() == "/"))
        .skip(|head| head.uri.path() == "/health");
    serves_without_allocating("three policies", layer.layer(Inner));
    serves_without_allocating("a dry run", layer.clone().dry_run(true).layer(Inner));
    serves_without_allocating("by itself", layer.clone().skip(|_| true).layer(Inner));
    let max_wait = MaxWait::new(Duration::from_secs(1)).among(&Waiters::new(10));
    serves_without_allocating("it need not wait", layer.wait(max_wait).layer(Inner));
}

#[test]
fn no_request_that_need_not_queue_allocates() {
    let shed = ShedLayer::new(1).queue(1, Duration::from_secs(1));
    serves_without_allocating("shedding", shed.layer(Inner));
    let limit = RateLimitLayer::new(tenant());
    serves_without_allocating("both", (shed.clone(), limit.clone()).layer(Inner));
    serves_without_allocating("any body", (limit, AnyBodyLayer).layer(Inner));
    assert_eq!((shed.in_flight(), shed.queued(), shed.shed()), (0, 0, 0));
}

/// What is counted is counted: a rejection is put together from pieces.
#[test]
fn a_rejection_may_allocate() {
    let limiter = Arc::new(Limiter::builder(Quota::per_hour(1)).max_keys(10).build());
    let mut service = RateLimitLayer::new(Policy::new("default", limiter, Everyone)).layer(Inner);
    assert_eq!(answer(&mut service, request()).status(), StatusCode::OK);
    let request = request();
    let (answer, calls) = counted(|| answer(&mut service, request));
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(calls.allocated > 0);
}
