//! What a client of gRPC makes of the answers.

use std::sync::Arc;
use std::time::Duration;

use tollgate::Quota;
use tollgate::http::{Everyone, Head, Policy, RateLimitLayer, ShedLayer};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::app::{CALL, SERVED, SLOW, Text};
use crate::client::{Version, call};
use crate::servers::{Kind, Server, Setup, path};
use crate::{limiter, until};

const TONIC: Setup = Setup { server: Kind::Tonic, version: Version::Http2 };

async fn client(server: &Server) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).expect("an address");
    Grpc::new(endpoint.connect().await.expect("listens"))
}

async fn unary(client: &mut Grpc<Channel>, name: &str, cost: &'static str) -> Result<String, Status> {
    client.ready().await.expect("open");
    let mut request = Request::new("hello".to_owned());
    request.metadata_mut().insert("x-cost", cost.parse().expect("ASCII"));
    let path = path(name).parse().expect("a path");
    client.unary(request, path, Text).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_spent_quota_is_resource_exhausted_with_retry_info() {
    let (clock, limiter) = limiter(Quota::per_minute(2));
    let cost = |head: &Head<'_>| head.header("x-cost").map_or(1, |cost| cost.parse().expect("the test's own"));
    let server = TONIC.start(RateLimitLayer::new(Policy::new("default", limiter, Everyone).cost(cost))).await;
    let mut client = client(&server).await;
    for _ in 0..2 {
        assert_eq!(unary(&mut client, CALL, "1").await.expect("in quota"), SERVED);
    }
    for (wait, after) in [(30_000_000_000, 0), (28_765_432_109, 1_234_567_891), (200, 29_999_999_800), (1, 29_999_999_999_u64)] {
        clock.set(Duration::from_nanos(after));
        let status = unary(&mut client, CALL, "1").await.expect_err("over quota");
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "the request quota is spent"));
        let details = status.get_error_details();
        let retry = details.retry_info().expect("it is told when");
        assert_eq!(retry.retry_delay, Some(Duration::from_nanos(wait)));
        assert_eq!(status.get_error_details_vec().len(), 1);
        let metadata = status.metadata();
        assert_eq!(metadata.get("ratelimit-policy").map(tonic::metadata::MetadataValue::as_bytes), Some(&br#""default";q=2;w=60"#[..]));
    }
    clock.set(Duration::from_secs(30));
    assert!(unary(&mut client, CALL, "1").await.is_ok());

    let status = unary(&mut client, CALL, "3").await.expect_err("more than the burst");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_retry_info().is_none(), "no wait helps");
}

#[tokio::test]
async fn a_long_wait_is_told_in_full() {
    let (_, limiter) = limiter(Quota::new(1, Duration::from_secs(500_000_000)).expect("fits"));
    let server = TONIC.start(Policy::new("default", limiter, Everyone)).await;
    let mut client = client(&server).await;
    assert!(unary(&mut client, CALL, "1").await.is_ok());
    let status = unary(&mut client, CALL, "1").await.expect_err("over quota");
    let wait = status.get_details_retry_info().expect("it is told when").retry_delay;
    assert_eq!(wait, Some(Duration::from_secs(500_000_000)));
}

#[tokio::test]
async fn an_overloaded_server_is_unavailable() {
    for retry_after in [None, Some(Duration::from_millis(1_500))] {
        let layer = ShedLayer::new(1);
        let layer = retry_after.map_or(layer.clone(), |wait| layer.retry_after(wait));
        let server = Arc::new(TONIC.start(&layer).await);
        let slow = server.spawn(call(SLOW));
        until("one is under way", || server.app.served() == 1).await;
        let mut client = client(&server).await;
        let status = unary(&mut client, CALL, "1").await.expect_err("overloaded");
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "the server is overloaded"));
        assert_eq!(status.get_details_retry_info().and_then(|info| info.retry_delay), retry_after);
        server.app.let_pass(1);
        assert!(slow.await.expect("no panic").is_served());
        assert_eq!(unary(&mut client, CALL, "1").await.expect("free again"), SERVED);
    }
}
