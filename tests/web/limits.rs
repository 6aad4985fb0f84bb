//! Who is over a quota is told so, and what of.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderName, Response, StatusCode};
use serde_json::json;
use tollgate::Quota;
use tollgate::http::{Dialect, Everyone, Fields, Head, Header, MissingKey, Policy, RateLimitLayer, Reset};

use crate::app::{CALL, OWN, OWN_FIELDS, SERVED, SLOW, UNREAD};
use crate::client::{Outcome, call};
use crate::{limiter, on_every_server};

const TENANT: HeaderName = HeaderName::from_static("x-tenant");

fn everyone(name: &str, quota: Quota) -> Policy {
    Policy::new(name, limiter(quota).1, Everyone)
}

fn cost(head: &Head<'_>) -> u64 {
    head.header("x-cost").map_or(1, |cost| cost.parse().expect("the test's own"))
}

#[tokio::test]
async fn a_request_under_its_quota_is_served_as_if_there_were_no_layer() {
    on_every_server(async |setup| {
        let server = setup.start(everyone("default", Quota::per_minute(10))).await;
        let answer = server.call().await;
        assert_eq!((answer.outcome(), answer.text(), answer.fields()), (Outcome::Served, SERVED, vec![]));
    })
    .await;
}

#[tokio::test]
async fn a_request_over_its_quota_is_told_when_to_come_again() {
    on_every_server(async |setup| {
        let (clock, limiter) = limiter(Quota::per_minute(10));
        let server = setup.start(Policy::new("default", limiter, Everyone)).await;
        for _ in 0..10 {
            assert!(server.call().await.is_served());
        }
        let answer = server.call().await;
        assert_eq!(answer.outcome(), Outcome::OverQuota);
        let expected = [
            ("cache-control", "no-store"),
            ("ratelimit", r#""default";r=0;t=6"#),
            ("ratelimit-policy", r#""default";q=10;w=60"#),
            ("retry-after", "6"),
        ];
        assert_eq!(answer.fields(), expected);
        if answer.is_grpc() {
            assert_eq!((answer.text(), answer.field("grpc-message")), ("", Some("the request quota is spent")));
        } else {
            assert_eq!(answer.field("content-type"), Some("application/problem+json"));
            let problem = json!({
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Request quota exceeded",
                "status": 429,
                "detail": "retry when Retry-After has passed",
                "violated-policies": ["default"],
            });
            assert_eq!(answer.json(), problem);
        }
        clock.advance(Duration::from_secs(6));
        assert!(server.call().await.is_served());
        assert!(!server.call().await.is_served());
        assert_eq!(server.app.served(), 11);
    })
    .await;
}

#[tokio::test]
async fn retry_after_is_whole_seconds_rounded_up() {
    on_every_server(async |setup| {
        let (clock, limiter) = limiter(Quota::new(1, Duration::from_secs(4)).expect("fits"));
        let server = setup.start(Policy::new("slow", limiter, Everyone).cost(cost)).await;
        assert!(server.call().await.is_served());
        for (wait, told) in
            [(4_000_000_000, "4"), (3_500_000_000, "4"), (1_000_000_001, "2"), (1_000_000_000, "1"), (900_000_000, "1"), (1, "1")]
        {
            clock.set(Duration::from_nanos(4_000_000_000 - wait));
            let answer = server.call().await;
            assert_eq!((answer.outcome(), answer.field("retry-after")), (Outcome::OverQuota, Some(told)), "{wait} ns");
        }
        let never = server.send(call(CALL).header("x-cost", "2")).await;
        assert_eq!((never.outcome(), never.field("retry-after")), (Outcome::OverQuota, None));
        assert_eq!(never.field("grpc-status-details-bin"), None);
        clock.set(Duration::from_secs(4));
        assert!(server.call().await.is_served());
    })
    .await;
}

#[tokio::test]
async fn answers_bear_the_fields_that_were_asked_for() {
    on_every_server(async |setup| {
        let quota = Quota::per_hour(100).burst(2);
        let start = async |fields| setup.start(RateLimitLayer::new(everyone("hour", quota)).fields(fields)).await;

        let server = start(Fields::default().on_allowed()).await;
        let answer = server.call().await;
        assert!(answer.is_served());
        assert_eq!(answer.fields(), [("ratelimit", r#""hour";r=1;t=36"#), ("ratelimit-policy", r#""hour";q=2;w=72"#)]);

        let server = start(Fields::none().dialect(Dialect::Draft07).on_allowed()).await;
        let answer = server.call().await;
        assert_eq!(answer.fields(), [("ratelimit", "limit=2, remaining=1, reset=36"), ("ratelimit-policy", "2;w=72")]);

        let server = start(Fields::none().customary(Reset::Delay).on_allowed()).await;
        for (remaining, reset) in [("1", "36"), ("0", "72")] {
            let expected = [("x-ratelimit-limit", "2"), ("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)];
            assert_eq!(server.call().await.fields(), expected);
        }
        let mut expected = vec![("cache-control", "no-store"), ("retry-after", "36")];
        expected.extend([("x-ratelimit-limit", "2"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "72")]);
        assert_eq!(server.call().await.fields(), expected);

        let server = start(Fields::none().customary(Reset::Time).on_allowed()).await;
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let before = now();
        let reset: u64 = server.call().await.field("x-ratelimit-reset").expect("there").parse().expect("a number");
        assert!((before + 36..=now() + 37).contains(&reset));

        let server = start(Fields::none()).await;
        assert!(server.call().await.is_served() && server.call().await.is_served());
        assert_eq!(server.call().await.fields(), [("cache-control", "no-store"), ("retry-after", "36")]);
    })
    .await;
}

#[tokio::test]
async fn fields_that_the_application_sets_are_left_as_they_are() {
    on_every_server(async |setup| {
        let fields = Fields::default().customary(Reset::Delay).on_allowed();
        let server = setup.start(RateLimitLayer::new(everyone("default", Quota::per_minute(10))).fields(fields)).await;
        let answer = server.send(call(OWN)).await;
        for (name, value) in OWN_FIELDS {
            assert_eq!(answer.field(name), Some(value));
        }
        assert_eq!(answer.field("x-ratelimit-reset"), Some("6"));
        assert_eq!(answer.text(), SERVED);
    })
    .await;
}

#[tokio::test]
async fn rejections_can_be_said_in_other_words() {
    on_every_server(async |setup| {
        let layer = RateLimitLayer::new(everyone("default", Quota::per_minute(1))).answer(|rejection| {
            let text = format!("{} by {:?}, retry after {:?}", rejection.status(), rejection.violated(), rejection.retry_after());
            let mut response = Response::new(Bytes::from(text));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response.headers_mut().insert("retry-after", 3600.into());
            response
        });
        let server = setup.start(layer).await;
        assert!(server.call().await.is_served());
        let answer = server.call().await;
        assert_eq!(answer.status, StatusCode::IM_A_TEAPOT);
        assert_eq!(answer.text(), r#"429 Too Many Requests by ["default"], retry after Some(60s)"#);
        assert_eq!((answer.field("retry-after"), answer.field("cache-control")), (Some("3600"), Some("no-store")));
        assert_eq!(answer.field("ratelimit"), Some(r#""default";r=0;t=60"#));
    })
    .await;
}

#[tokio::test]
async fn a_request_is_charged_under_all_limits_or_under_none() {
    on_every_server(async |setup| {
        let (clock, per_tenant) = limiter(Quota::per_second(1).burst(2));
        let in_all = std::sync::Arc::new(tollgate::Limiter::builder(Quota::per_hour(60).burst(3)).clock(clock.clone()).build());
        let layer = RateLimitLayer::new(Policy::new("tenant", per_tenant.clone(), Header(TENANT))).and(Policy::new(
            "all",
            in_all.clone(),
            Everyone,
        ));
        let server = setup.start(layer).await;
        assert!(server.serves("x-tenant", "a").await && server.serves("x-tenant", "a").await);

        let answer = server.send(call(CALL).header("x-tenant", "a")).await;
        let expected = [
            ("cache-control", "no-store"),
            ("ratelimit", r#""tenant";r=0;t=1, "all";r=1;t=60"#),
            ("ratelimit-policy", r#""tenant";q=2;w=2, "all";q=3;w=180"#),
            ("retry-after", "1"),
        ];
        assert_eq!(answer.fields(), expected);
        assert_eq!(in_all.peek(&()).remaining(), 1, "not charged");

        assert!(server.serves("x-tenant", "b").await);
        let answer = server.send(call(CALL).header("x-tenant", "b")).await;
        assert_eq!((answer.outcome(), answer.field("retry-after")), (Outcome::OverQuota, Some("60")));
        assert_eq!(per_tenant.peek("b").remaining(), 1, "not charged");

        // Both deny: the longer wait counts, and both are named.
        let answer = server.send(call(CALL).header("x-tenant", "a")).await;
        assert_eq!(answer.field("retry-after"), Some("60"));
        if !answer.is_grpc() {
            assert_eq!(answer.json()["violated-policies"], json!(["tenant", "all"]));
        }
        assert_eq!(server.app.served(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_request_costs_what_the_function_says() {
    on_every_server(async |setup| {
        let (_, limiter) = limiter(Quota::per_minute(10));
        let server = setup.start(Policy::new("default", limiter.clone(), Everyone).cost(cost)).await;
        for (cost, left) in [("7", Some(3)), ("4", None), ("3", Some(0)), ("1", None), ("0", Some(0)), ("18446744073709551615", None)] {
            assert_eq!(server.serves("x-cost", cost).await, left.is_some(), "{cost}");
            if let Some(left) = left {
                assert_eq!(limiter.peek(&()).remaining(), left);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn requests_that_are_skipped_or_not_meant_are_not_counted() {
    on_every_server(async |setup| {
        let ends_with = |name: &'static str| move |head: &Head<'_>| head.uri.path().ends_with(name);
        let layer = RateLimitLayer::new(everyone("calls", Quota::per_minute(1)).only(ends_with(CALL)))
            .and(everyone("all", Quota::per_minute(2)))
            .skip(ends_with(UNREAD));
        let server = setup.start(layer).await;
        for _ in 0..5 {
            assert!(server.send(call(UNREAD)).await.is_served());
        }
        assert!(server.call().await.is_served());
        assert_eq!(server.call().await.field("ratelimit"), Some(r#""calls";r=0;t=60, "all";r=1;t=30"#));
        assert!(server.send(call(OWN)).await.is_served());
        // A policy that does not apply is not spoken of.
        assert_eq!(server.send(call(OWN)).await.field("ratelimit"), Some(r#""all";r=0;t=30"#));
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_counts_and_rejects_nobody() {
    on_every_server(async |setup| {
        let (_, limiter) = limiter(Quota::per_minute(2));
        let policy = Policy::new("default", limiter.clone(), Header(TENANT)).missing_key(MissingKey::Reject(StatusCode::UNAUTHORIZED));
        let layer = RateLimitLayer::new(policy).wait(Duration::from_secs(45)).dry_run(true);
        let server = setup.start(layer).await;
        // The third would wait for half a minute, the others for too long.
        for left in [1, 0, 0, 0, 0] {
            let answer = server.send(call(CALL).header("x-tenant", "a")).await;
            assert_eq!((answer.outcome(), answer.fields()), (Outcome::Served, vec![]));
            assert_eq!(limiter.peek("a").remaining(), left);
        }
        assert!(server.call().await.is_served(), "without a key");
        assert_eq!(limiter.stats().denied, 2);
    })
    .await;
}

#[tokio::test]
async fn a_request_without_a_key_is_treated_as_stated() {
    on_every_server(async |setup| {
        let start = async |missing| {
            let policy = |name, quota| Policy::new(name, limiter(quota).1, Header(TENANT)).missing_key(missing);
            setup.start(RateLimitLayer::new(policy("tenant", Quota::per_minute(1))).and(policy("other", Quota::per_minute(2)))).await
        };
        let server = start(MissingKey::CountTogether).await;
        assert!(server.call().await.is_served());
        assert!(!server.serves("x-tenant", "").await, "an empty one is none");
        assert!(!server.serves("x-tenant", b"\xff").await, "nor is one that is no text");
        assert!(!server.call().await.is_served());
        assert!(server.serves("x-tenant", "a").await);

        let server = start(MissingKey::Allow).await;
        for _ in 0..3 {
            assert!(server.call().await.is_served());
        }
        assert!(server.serves("x-tenant", "a").await);
        assert!(!server.serves("x-tenant", "a").await);

        let server = start(MissingKey::Reject(StatusCode::UNAUTHORIZED)).await;
        let answer = server.call().await;
        assert_eq!((answer.outcome(), answer.fields()), (Outcome::NoKey, vec![]));
        if !answer.is_grpc() {
            let problem = json!({
                "title": "Unauthorized",
                "status": 401,
                "detail": "the request has no key that limits could be counted by",
            });
            assert_eq!((answer.field("content-type"), answer.json()), (Some("application/problem+json"), problem));
        }
        assert!(server.serves("x-tenant", "a").await);
        assert_eq!(server.app.served(), 1);
    })
    .await;
}

#[tokio::test]
async fn all_clones_and_routes_and_connections_count_together() {
    on_every_server(async |setup| {
        let policy = everyone("default", Quota::per_minute(10));
        let layer = RateLimitLayer::new(policy.clone());
        let server = setup.start(layer.clone()).await;
        let clone = setup.start(layer).await;
        let another_layer = setup.start(policy).await;
        server.app.let_pass(2);
        let mut connection = server.connect().await;
        for name in [CALL, OWN, SLOW, UNREAD] {
            assert!(connection.send(&server, call(name)).await.is_served());
            assert!(server.send(call(CALL)).await.is_served());
        }
        assert!(clone.call().await.is_served());
        assert!(another_layer.call().await.is_served());
        for server in [&server, &clone, &another_layer] {
            assert!(!server.call().await.is_served());
        }
        assert!(!connection.send(&server, call(OWN)).await.is_served());
    })
    .await;
}

#[tokio::test]
async fn a_policy_cannot_write_into_the_head_by_its_name() {
    on_every_server(async |setup| {
        let layer = RateLimitLayer::new(everyone("a\r\nset-cookie: \"x\\\u{e9}", Quota::per_minute(1)));
        let server = setup.start(layer.fields(Fields::default().on_allowed())).await;
        for _ in 0..2 {
            let answer = server.call().await;
            assert_eq!(answer.field("ratelimit"), Some(r#""a??set-cookie: \"x\\?";r=0;t=60"#));
            assert_eq!(answer.field("set-cookie"), None);
            if !answer.is_served() && !answer.is_grpc() {
                assert_eq!(answer.json()["violated-policies"], json!([r#"a??set-cookie: "x\?"#]));
            }
        }
    })
    .await;
}
