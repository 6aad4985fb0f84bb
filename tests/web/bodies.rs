//! Bodies that come slowly, are never read, or never end; and clients that do not speak as they should.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate::Quota;
use tollgate::http::{ClientIp, Everyone, Fields, Policy, RateLimitLayer};

use crate::app::{CALL, PARTS, STREAM, UNREAD, message};
use crate::client::{Outcome, Version, call};
use crate::servers::{Server, path};
use crate::{limiter, on_every_server};

fn everyone(tokens: u64) -> RateLimitLayer {
    RateLimitLayer::new(Policy::new("default", limiter(Quota::per_hour(tokens)).1, Everyone))
}

#[tokio::test]
async fn streams_pass_as_they_come() {
    on_every_server(async |setup| {
        let server = setup.start(everyone(1).fields(Fields::default().on_allowed())).await;
        let mut connection = server.connect().await;
        let response = connection.open(&server, call(STREAM)).await;
        assert_eq!(response.headers()["ratelimit"], r#""default";r=0;t=3600"#);
        let is_grpc = response.headers().get("content-type").is_some();
        let mut body = response.into_body();
        for part in PARTS {
            // Each comes before the next one is let.
            server.app.let_pass(1);
            let frame = body.frame().await.expect("a part").expect("whole").into_data().expect("data");
            assert_eq!(frame, if is_grpc { message(part) } else { Bytes::from(part) });
        }
        // Over HTTP/1.1, trailers are sent to who asks for them.
        if setup.version == Version::Http2 {
            let trailers = body.frame().await.expect("trailers").expect("whole").into_trailers().expect("trailers");
            let (name, value) = if is_grpc { ("grpc-status", "0") } else { ("x-trailer", "here") };
            assert_eq!((trailers.len(), trailers[name].as_bytes()), (1, value.as_bytes()));
        }
        assert!(body.frame().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_body_that_comes_slowly_holds_up_nobody_else() {
    on_every_server(async |setup| {
        let server = Arc::new(setup.start(everyone(3)).await);
        let (mut sender, body) = Channel::new(1);
        let slow = server.spawn(call(CALL).body(body.boxed()));
        let whole = if server.setup.version == Version::Http2 { message("slow") } else { Bytes::from("slow!") };
        sender.send_data(whole.slice(..2)).await.expect("read");
        assert!(server.call().await.is_served());
        sender.send_data(whole.slice(2..)).await.expect("read");
        assert!(!slow.is_finished());
        assert!(server.call().await.is_served());
        drop(sender);
        assert!(slow.await.expect("no panic").is_served());
        assert!(!server.call().await.is_served());
    })
    .await;
}

#[tokio::test]
async fn an_answer_does_not_need_the_requests_body() {
    on_every_server(async |setup| {
        let server = setup.start(everyone(1)).await;
        for outcome in [Outcome::Served, Outcome::OverQuota] {
            let (mut sender, body) = Channel::new(1);
            sender.send_data(Bytes::from_static(&[0; 5])).await.expect("room");
            let answer = server.send(call(UNREAD).body(body.boxed())).await;
            assert_eq!(answer.outcome(), outcome);
            drop(sender);
        }
    })
    .await;
}

/// What a server of HTTP/1.1 answers to these bytes, until it has nothing more to say.
async fn speak(server: &Server, parts: &[&[u8]]) -> String {
    let mut connection = TcpStream::connect(server.address).await.expect("listens");
    for part in parts {
        connection.write_all(part).await.expect("open");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("closed");
    String::from_utf8(answer).expect("text")
}

fn statuses(answer: &str) -> Vec<&str> {
    answer.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).map(|line| &line[..3]).collect()
}

#[tokio::test]
async fn a_head_that_comes_slowly_is_counted_when_it_is_whole() {
    on_every_server(async |setup| {
        if setup.version == Version::Http2 {
            return;
        }
        let server = setup.start(everyone(1)).await;
        let head = format!("GET {} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", path(CALL));
        let mut slow = TcpStream::connect(server.address).await.expect("listens");
        slow.write_all(&head.as_bytes()[..30]).await.expect("open");
        assert!(server.call().await.is_served());
        for byte in &head.as_bytes()[30..] {
            slow.write_all(&[*byte]).await.expect("open");
        }
        let mut answer = String::new();
        slow.read_to_string(&mut answer).await.expect("closed");
        assert_eq!(statuses(&answer), ["429"]);
    })
    .await;
}

#[tokio::test]
async fn no_request_is_answered_500_for_what_it_says() {
    on_every_server(async |setup| {
        if setup.version == Version::Http2 {
            return;
        }
        let (_, limiter) = limiter(Quota::per_hour(1));
        let policy = Policy::new("client", limiter, ClientIp::behind(1));
        let server = setup.start(RateLimitLayer::new(policy.clone()).and(policy)).await;
        for (number, lines) in [
            // A line break in a value is the end of the field: two fields then, of which the last counts.
            &b"x-forwarded-for: 6.6.6.6\r\nx-forwarded-for: 203.0.113.1\r\n"[..],
            b"x-forwarded-for: \xff\xfe\x80\r\n",
            b"x-forwarded-for:\r\n",
            b"x-forwarded-for: 1.2.3.4\rset-cookie: a\r\n",
            b"x-forwarded-for: 1.2.3.4\0\r\n",
            b"x-forwarded-for: 1.2.3.4\n\r\n",
            b"x-forwarded-for : 1.2.3.4\r\n",
            b"x-forwarded-for: %0d%0aset-cookie: a\r\n",
            b"x-forwarded-for: [[[[[[,]]]]]]:::::::::::\r\n",
            b"x-forwarded-for: \"\\\"\\\"\r\n",
            b"content-type: application/grpc\xff\r\n",
            b"content-type: application/grpc\r\n",
        ]
        .into_iter()
        .enumerate()
        {
            let head = format!("GET {} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n", path(CALL));
            let answer = speak(&server, &[head.as_bytes(), lines, b"\r\n"]).await;
            let statuses = statuses(&answer);
            assert!(statuses.iter().all(|status| ["200", "400", "429"].contains(status)), "{number}: {answer}");
            assert!(!statuses.is_empty() && !answer.contains("set-cookie"), "{number}: {answer}");
        }
    })
    .await;
}
