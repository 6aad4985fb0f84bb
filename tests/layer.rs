//! The web layer called as a service, without sockets: what hangs on the request or on the moment.
#![cfg(feature = "tower")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use tollgate::http::{AnyBodyLayer, Everyone, Fields, Head, Header, MissingKey, Policy, RateLimit, RateLimitLayer, Reset, ShedLayer};
use tollgate::{Limiter, ManualClock, Overflow, Quota};
use tower::{Layer, Service};

type Answer = Response<Full<Bytes>>;

/// Answers 200 at once.
#[derive(Clone, Copy, Debug)]
struct Inner;

impl Service<Request<()>> for Inner {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::default())))
    }
}

fn limiter(quota: Quota) -> (ManualClock, Arc<Limiter<ManualClock>>) {
    let clock = ManualClock::new();
    (clock.clone(), Arc::new(Limiter::builder(quota).max_keys(100).clock(clock).build()))
}

fn by_tenant(limiter: &Arc<Limiter<ManualClock>>) -> Policy {
    Policy::new("tenant", Arc::clone(limiter), |head: &Head<'_>| head.header("x-tenant").map(str::to_owned))
}

fn request(method: Method, content_type: &str) -> Request<()> {
    Request::builder().method(method).header("x-tenant", "a").header(CONTENT_TYPE, content_type).body(()).expect("a request")
}

fn get() -> Request<()> {
    request(Method::GET, "text/plain")
}

async fn call<S>(service: &mut S, request: Request<()>) -> Answer
where
    S: Service<Request<()>, Response = Answer, Error = Infallible>,
{
    let Ok(answer) = service.call(request).await;
    answer
}

fn field(answer: &Answer, name: &str) -> Option<String> {
    answer.headers().get(name).map(|value| value.to_str().expect("ASCII").to_owned())
}

async fn text(answer: Answer) -> String {
    let Ok(body) = answer.into_body().collect().await;
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

/// Runs on Tokio's own clock, which stands still, and jumps when all wait for it.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime").block_on(test);
}

#[test]
fn the_answer_to_a_head_has_a_length_and_no_content() {
    run(async {
        let (_, limits) = limiter(Quota::per_day(1));
        let mut service = RateLimitLayer::new(by_tenant(&limits).cost(|_| 2)).layer(Inner);
        let whole = call(&mut service, get()).await;
        assert_eq!(whole.status(), StatusCode::TOO_MANY_REQUESTS);
        let whole = text(whole).await;
        let answer = call(&mut service, request(Method::HEAD, "text/plain")).await;
        assert_eq!(field(&answer, CONTENT_LENGTH.as_str()), Some(whole.len().to_string()));
        assert_eq!((answer.status(), text(answer).await), (StatusCode::TOO_MANY_REQUESTS, String::new()));

        let mut shed = ShedLayer::new(0).layer(Inner);
        let answer = call(&mut shed, request(Method::HEAD, "text/plain")).await;
        assert_eq!((answer.status(), text(answer).await), (StatusCode::SERVICE_UNAVAILABLE, String::new()));
    });
}

#[test]
fn a_call_of_grpc_is_told_by_its_content_type() {
    run(async {
        let (_, limits) = limiter(Quota::per_day(1));
        let mut service = RateLimitLayer::new(by_tenant(&limits).cost(|_| 2)).layer(Inner);
        for (content_type, grpc) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/gRPC", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpcish", false),
            ("application/grp", false),
        ] {
            let answer = call(&mut service, request(Method::POST, content_type)).await;
            assert_eq!(answer.headers().contains_key("grpc-status"), grpc, "{content_type}");
            assert_eq!(answer.status() == StatusCode::OK, grpc, "{content_type}");
        }
    });
}

#[test]
fn the_fields_of_a_request_that_waited_are_those_of_when_it_is_served() {
    run(async {
        let (clock, limits) = limiter(Quota::per_second(1).burst(1));
        assert!(limits.check("a").is_ok());
        let fields = Fields::default().on_allowed().customary(Reset::Delay);
        let mut service = RateLimitLayer::new(by_tenant(&limits)).wait(Duration::from_secs(10)).fields(fields).layer(Inner);
        let mut waits = Box::pin(service.call(get()));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        clock.advance(Duration::from_secs(1));
        let Ok(answer) = waits.await;
        assert_eq!(field(&answer, "ratelimit"), Some(r#""tenant";r=0;t=1"#.to_owned()));
        assert_eq!(field(&answer, "x-ratelimit-reset"), Some("1".to_owned()));
    });
}

#[test]
fn a_dry_run_charges_what_would_be_charged() {
    run(async {
        let (_, limits) = limiter(Quota::per_second(1).burst(1));
        let waits = RateLimitLayer::new(by_tenant(&limits)).wait(Duration::from_secs(3));
        let mut service = waits.dry_run(true).layer(Inner);
        for _ in 0..6 {
            assert_eq!(call(&mut service, get()).await.status(), StatusCode::OK);
        }
        // One at once, three that would wait; the rest would be rejected.
        assert_eq!(limits.peek("a").owed(), 4);

        let (_, all) = limiter(Quota::per_second(10));
        let (_, limits) = limiter(Quota::per_second(10));
        let keyed = Policy::new("key", limits, |_: &Head<'_>| None::<u64>).missing_key(MissingKey::Reject(StatusCode::BAD_REQUEST));
        let layer = RateLimitLayer::new(Policy::new("all", Arc::clone(&all), Everyone)).and(keyed);
        assert_eq!(call(&mut layer.clone().layer(Inner), get()).await.status(), StatusCode::BAD_REQUEST);
        assert_eq!(call(&mut layer.dry_run(true).layer(Inner), get()).await.status(), StatusCode::OK);
        assert!(all.peek(&()).is_full(), "who is rejected for want of a key is charged nowhere");
    });
}

#[test]
fn no_room_for_a_key_is_overload_and_tells_nothing_of_another_keys_debt() {
    run(async {
        let clock = ManualClock::new();
        let builder = Limiter::builder(Quota::per_day(10)).max_keys(4).overflow(Overflow::DenyNew).clock(clock);
        let limits = Arc::new(builder.build());
        for key in 0..100_u64 {
            _ = limits.check(&key);
        }
        let fields = Fields::default().customary(Reset::Delay);
        let mut service = RateLimitLayer::new(by_tenant(&limits)).fields(fields).layer(Inner);
        let answer = call(&mut service, get()).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers().contains_key(RETRY_AFTER) && !answer.headers().contains_key(CACHE_CONTROL));
        assert!(!answer.headers().keys().any(|name| name.as_str().contains("ratelimit")), "{:?}", answer.headers());
    });
}

#[test]
fn of_several_fields_none_is_the_key() {
    run(async {
        let (_, limits) = limiter(Quota::per_second(10));
        let header = Header(http::HeaderName::from_static("x-tenant"));
        let policy = Policy::new("tenant", Arc::clone(&limits), header).missing_key(MissingKey::Reject(StatusCode::UNAUTHORIZED));
        let mut service: RateLimit<Inner> = RateLimitLayer::new(policy).layer(Inner);
        let mut twice = get();
        twice.headers_mut().append("x-tenant", "b".parse().expect("a value"));
        assert_eq!(call(&mut service, twice).await.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(call(&mut service, get()).await.status(), StatusCode::OK);
        assert_eq!((limits.peek("a").owed(), limits.peek("b").owed()), (1, 0));
    });
}

#[test]
#[should_panic(expected = "no status to reject a request with")]
fn a_request_is_rejected_with_an_error_or_not_at_all() {
    let (_, limits) = limiter(Quota::per_second(10));
    let _ = by_tenant(&limits).missing_key(MissingKey::Reject(StatusCode::CONTINUE));
}

#[test]
fn a_body_that_no_bytes_make_is_wrapped_once_for_all_layers() {
    run(async {
        let (_, limits) = limiter(Quota::per_day(1));
        let limit = RateLimitLayer::new(by_tenant(&limits));
        let inner = tower::service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())));
        let mut service = (ShedLayer::new(1), (limit, AnyBodyLayer)).layer(inner);
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
            let Ok(answer) = service.call(get()).await;
            assert_eq!(answer.status(), status);
            let is_empty = status == StatusCode::OK;
            assert_eq!(answer.body().is_end_stream(), is_empty);
            assert_eq!(answer.body().size_hint().exact() == Some(0), is_empty);
            let Ok(body) = answer.into_body().collect().await;
            assert_eq!(body.to_bytes().is_empty(), is_empty);
        }
        let Ok(answer) = service.call(request(Method::HEAD, "text/plain")).await;
        assert!(answer.status() == StatusCode::TOO_MANY_REQUESTS && answer.body().is_end_stream());
    });
}
