//! Shedding load. How many are under way is up to the application, which waits until it is let.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate::Quota;
use tollgate::http::{Everyone, Policy, RateLimitLayer, ShedLayer};

use crate::app::{CALL, PARTS, SLOW, STREAM};
use crate::client::{Outcome, Version, call};
use crate::servers::{Guard, Server};
use crate::{limiter, on_every_server, until};

const MINUTE: Duration = Duration::from_secs(60);

async fn counts(layer: &ShedLayer, in_flight: usize, waiting: usize) {
    until("as many as should are under way and queue", || (layer.in_flight(), layer.waiting()) == (in_flight, waiting)).await;
}

async fn is_under_way(server: &Server, count: usize) {
    until("they came through", || server.app.served() == count).await;
}

#[tokio::test]
async fn beyond_the_queue_the_answer_is_503() {
    on_every_server(async |setup| {
        let layer = ShedLayer::new(2).queue(2, MINUTE).retry_after(Duration::from_millis(1_500));
        let server = Arc::new(setup.start(&layer).await);
        let mut requests = Vec::new();
        for (number, id) in (1..).zip(["1", "2", "3", "4"]) {
            requests.push(server.spawn(call(SLOW).id(id)));
            let under_way = number.min(2);
            counts(&layer, under_way, number - under_way).await;
            is_under_way(&server, under_way).await;
        }
        assert_eq!((layer.queued(), layer.shed()), (2, 0));

        let answer = server.call().await;
        assert_eq!(answer.outcome(), Outcome::Overloaded);
        assert_eq!(answer.fields(), [("retry-after", "2")]);
        if answer.is_grpc() {
            assert_eq!(answer.field("grpc-message"), Some("the server is overloaded"));
        } else {
            assert_eq!(answer.field("content-type"), Some("application/problem+json"));
            let problem = json!({
                "title": "Service Unavailable",
                "status": 503,
                "detail": "the server has more requests or clients than it can do with; this says nothing about the client's own quota",
            });
            assert_eq!(answer.json(), problem);
        }
        assert_eq!((layer.in_flight(), layer.waiting(), layer.queued(), layer.shed()), (2, 2, 2, 1));

        // First come, first served.
        server.app.let_pass(1);
        is_under_way(&server, 3).await;
        server.app.let_pass(3);
        for request in requests {
            assert_eq!(request.await.expect("no panic").outcome(), Outcome::Served);
        }
        assert_eq!(server.app.order(), ["1", "2", "3", "4"]);
        counts(&layer, 0, 0).await;
        assert!(server.call().await.is_served());
        assert_eq!((layer.queued(), layer.shed()), (2, 1));
    })
    .await;
}

#[tokio::test]
async fn who_queues_too_long_is_shed() {
    on_every_server(async |setup| {
        let layer = ShedLayer::new(1).queue(5, Duration::from_millis(30));
        let server = Arc::new(setup.start(&layer).await);
        let first = server.spawn(call(SLOW));
        is_under_way(&server, 1).await;
        let answer = server.call().await;
        assert_eq!((answer.outcome(), answer.fields()), (Outcome::Overloaded, vec![]));
        assert_eq!((layer.in_flight(), layer.waiting(), layer.queued(), layer.shed()), (1, 0, 1, 1));
        server.app.let_pass(1);
        assert!(first.await.expect("no panic").is_served());
        assert!(server.call().await.is_served());
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    on_every_server(async |setup| {
        let layer = ShedLayer::new(1).queue(2, MINUTE);
        let server = Arc::new(setup.start(&layer).await);
        let first = server.spawn(call(SLOW).id("first"));
        counts(&layer, 1, 0).await;
        is_under_way(&server, 1).await;
        let leaves = server.spawn(call(SLOW).id("leaves"));
        counts(&layer, 1, 1).await;
        let stays = server.spawn(call(SLOW).id("stays"));
        counts(&layer, 1, 2).await;
        leaves.abort();
        counts(&layer, 1, 1).await;
        let comes = server.spawn(call(SLOW).id("comes"));
        counts(&layer, 1, 2).await;
        if setup.version == Version::Http2 {
            // One stream of a connection that stays does so too.
            stays.abort();
            counts(&layer, 1, 1).await;
            let mut connection = server.connect().await;
            let waits = tokio::time::timeout(Duration::from_millis(50), connection.send(&server, call(SLOW)));
            assert!(waits.await.is_err());
            counts(&layer, 1, 1).await;
        }
        // So does one that is under way.
        first.abort();
        is_under_way(&server, 2).await;
        server.app.let_pass(2);
        assert!(comes.await.expect("no panic").is_served());
        counts(&layer, 0, 0).await;
        let last = if setup.version == Version::Http2 { vec!["first", "comes"] } else { vec!["first", "stays", "comes"] };
        assert_eq!(server.app.order(), last);
        assert_eq!(layer.shed(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_request_is_under_way_until_its_answers_head_is_there() {
    on_every_server(async |setup| {
        let layer = ShedLayer::new(1);
        let server = Arc::new(setup.start(&layer).await);
        let mut connection = server.connect().await;
        let response = connection.open(&server, call(STREAM)).await;
        counts(&layer, 0, 0).await;
        assert!(server.call().await.is_served(), "while the body goes on");
        server.app.let_pass(PARTS.len());
        drop(response);
    })
    .await;
}

#[tokio::test]
async fn over_its_quota_and_overloaded_are_different_answers() {
    on_every_server(async |setup| {
        let (_, limiter) = limiter(Quota::per_minute(2));
        let shed = ShedLayer::new(1).retry_after(Duration::from_secs(3));
        let limit = RateLimitLayer::new(Policy::new("default", limiter.clone(), Everyone));
        let server = Arc::new(setup.start(Guard::ShedAndLimit(shed.clone(), limit)).await);
        let first = server.spawn(call(SLOW));
        is_under_way(&server, 1).await;
        // Shed first: nothing is charged.
        let overloaded = server.send(call(CALL)).await;
        assert_eq!((overloaded.outcome(), overloaded.fields()), (Outcome::Overloaded, vec![("retry-after", "3")]));
        assert_eq!(limiter.peek(&()).remaining(), 1);
        server.app.let_pass(1);
        assert!(first.await.expect("no panic").is_served());
        assert!(server.call().await.is_served());
        let spent = server.call().await;
        assert_eq!((spent.outcome(), spent.field("retry-after")), (Outcome::OverQuota, Some("30")));
        if spent.is_grpc() {
            assert_ne!(spent.field("grpc-message"), overloaded.field("grpc-message"));
        } else {
            let (spent, overloaded) = (spent.json(), overloaded.json());
            assert!(["type", "violated-policies"].iter().all(|member| spent.get(member).is_some() && overloaded.get(member).is_none()));
        }
        assert_eq!(shed.shed(), 1);
    })
    .await;
}
