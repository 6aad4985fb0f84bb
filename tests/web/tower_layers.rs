//! Behind tower's own layers, and before them.

use core::future::{Ready, ready};
use core::task::{Context, Poll};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tollgate::Quota;
use tollgate::http::{Everyone, Policy, RateLimitLayer, ShedLayer};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt};

use crate::app::{CALL, SERVED, SLOW};
use crate::client::{Outcome, call};
use crate::servers::Guard;
use crate::{limiter, on_every_server, until};

#[tokio::test]
async fn it_works_behind_and_before_a_buffer_and_a_concurrency_limit() {
    on_every_server(async |setup| {
        for guard in [Guard::Behind, Guard::Before] {
            let (_, limiter) = limiter(Quota::per_hour(20));
            let server = Arc::new(setup.start(guard(RateLimitLayer::new(Policy::new("default", limiter, Everyone)))).await);
            // As many as tower lets through together.
            let slow: Vec<_> = (0..4).map(|_| server.spawn(call(SLOW))).collect();
            until("four are under way", || server.app.served() == 4).await;
            let more: Vec<_> = (0..6).map(|_| server.spawn(call(CALL))).collect();
            server.app.let_pass(4);
            for request in slow.into_iter().chain(more) {
                let answer = request.await.expect("no panic");
                assert_eq!((answer.outcome(), answer.text()), (Outcome::Served, SERVED));
            }
            for number in 10..40 {
                assert_eq!(server.call().await.is_served(), number < 20, "{number}");
            }
            assert_eq!(server.app.served(), 20);
        }
    })
    .await;
}

/// Answers at once.
#[derive(Clone, Debug)]
struct Inner;

impl Service<Request<()>> for Inner {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Bytes>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Bytes::new())))
    }
}

#[tokio::test]
async fn who_is_rejected_or_waits_keeps_no_permit_of_an_inner_limit() {
    let (_, limiter) = limiter(Quota::per_hour(1));
    let policy = Policy::new("default", limiter, Everyone);
    let one_at_a_time = ConcurrencyLimitLayer::new(1).layer(Inner);
    let plain = RateLimitLayer::new(policy.clone());
    let mut free = one_at_a_time.clone();
    let is_free = async |free: &mut tower::limit::ConcurrencyLimit<Inner>| {
        let ready = tokio::time::timeout(Duration::from_secs(10), free.ready()).await;
        ready.expect("the permit is free").expect("no error").call(Request::new(())).await.expect("no error");
    };

    let mut service = plain.layer(one_at_a_time.clone());
    for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        let response = service.ready().await.expect("no error").call(Request::new(())).await.expect("no error");
        assert_eq!(response.status(), status);
        // The service lives on, as one of a connection does.
        is_free(&mut free).await;
    }

    let mut service = plain.wait(Duration::from_secs(36_000)).layer(one_at_a_time.clone());
    let mut waits = Box::pin(service.ready().await.expect("no error").call(Request::new(())));
    assert!(tokio::time::timeout(Duration::from_millis(5), &mut waits).await.is_err());
    is_free(&mut free).await;

    let layer = ShedLayer::new(1).queue(1, Duration::from_secs(600));
    let mut service = layer.layer(one_at_a_time);
    let mut slow = layer.layer(tower::service_fn(|_: Request<()>| core::future::pending::<Result<Response<Bytes>, Infallible>>()));
    let _under_way = slow.call(Request::new(()));
    let mut queues = Box::pin(service.ready().await.expect("no error").call(Request::new(())));
    assert!(tokio::time::timeout(Duration::from_millis(5), &mut queues).await.is_err());
    is_free(&mut free).await;
    let sheds = service.ready().await.expect("no error").call(Request::new(())).await.expect("no error");
    assert_eq!(sheds.status(), StatusCode::SERVICE_UNAVAILABLE);
    is_free(&mut free).await;
}
