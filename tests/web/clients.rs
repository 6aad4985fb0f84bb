//! Whose request it is: what clients cannot forge, and what proxies say.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderName, StatusCode};
use tollgate::Quota;
use tollgate::http::{ClientIp, ForwardedHeader, Header, MissingKey, Policy};

use crate::app::CALL;
use crate::client::{Outcome, call};
use crate::servers::{Server, Setup};
use crate::{Limits, limiter, on_every_server};

/// One request per client.
async fn start(setup: Setup, client: ClientIp) -> (Limits, Server) {
    let (_, limiter) = limiter(Quota::per_hour(1));
    let server = setup.start(Policy::new("client", limiter.clone(), setup.finds_peer(client))).await;
    (limiter, server)
}

fn is_spent(limiter: &Limits, client: &str) -> bool {
    limiter.peek(&client.parse::<IpAddr>().expect("an address")).remaining() == 0
}

#[tokio::test]
async fn the_peer_is_the_client_whatever_it_says() {
    on_every_server(async |setup| {
        let (limiter, server) = start(setup, ClientIp::peer()).await;
        assert!(server.call().await.is_served());
        for forged in 0..50 {
            let request = call(CALL).forwarded_for(format!("10.0.0.{forged}")).header("forwarded", format!("for=10.0.1.{forged}"));
            assert!(!server.send(request).await.is_served());
        }
        assert!(is_spent(&limiter, "127.0.0.1"));
        assert_eq!(limiter.len(), 1);
        // All of 127.0.0.0/8 is this host's, where systems say so.
        if cfg!(target_os = "linux") {
            assert!(server.send(call(CALL).from(Ipv4Addr::new(127, 0, 0, 2))).await.is_served());
        }
    })
    .await;
}

#[tokio::test]
async fn a_rotating_entry_left_of_the_proxies_opens_no_new_bucket() {
    on_every_server(async |setup| {
        for (proxies, entries) in [(1, "203.0.113.7"), (2, "203.0.113.7, 10.0.0.1"), (3, "203.0.113.7,10.0.0.2 , 10.0.0.1")] {
            let (limiter, server) = start(setup, ClientIp::behind(proxies)).await;
            let mut passed = 0;
            for forged in 0..20 {
                let request = call(CALL).forwarded_for(format!("198.51.100.{forged}, {entries}"));
                passed += u32::from(server.send(request).await.is_served());
            }
            assert_eq!((passed, limiter.len()), (1, 1), "{proxies} proxies");
            assert!(is_spent(&limiter, "203.0.113.7"));
            // Another client behind the same proxies.
            let other = entries.replace("113.7", "113.8");
            assert!(server.serves("x-forwarded-for", other).await);
        }
    })
    .await;
}

#[tokio::test]
async fn the_client_is_the_first_from_the_right_in_no_trusted_network() {
    on_every_server(async |setup| {
        let networks = ["127.0.0.0/8", "10.0.0.0/8", "2001:db8:aaaa::/48"].map(|network| network.parse().expect("a network"));
        let (limiter, server) = start(setup, ClientIp::behind_networks(networks)).await;
        assert!(server.serves("x-forwarded-for", "198.51.100.1, 203.0.113.7, 10.0.0.2, 2001:db8:aaaa::1, 10.0.0.1").await);
        assert!(is_spent(&limiter, "203.0.113.7"));
        for forged in 2..20 {
            assert!(!server.serves("x-forwarded-for", format!("198.51.100.{forged}, 203.0.113.7, 10.0.0.1")).await);
        }
        assert!(!server.serves("x-forwarded-for", "203.0.113.7").await);
        // Nobody but proxies: the peer.
        assert!(server.serves("x-forwarded-for", "10.0.0.2, 10.0.0.1").await);
        assert!(is_spent(&limiter, "127.0.0.1"));

        // A peer that is no trusted proxy speaks for itself alone.
        let networks = ["10.0.0.0/8".parse().expect("a network")];
        let (limiter, server) = start(setup, ClientIp::behind_networks(networks)).await;
        assert!(server.serves("x-forwarded-for", "203.0.113.7").await);
        assert!(!server.serves("x-forwarded-for", "203.0.113.8").await);
        assert!(is_spent(&limiter, "127.0.0.1"));
    })
    .await;
}

#[tokio::test]
async fn ports_and_brackets_are_read() {
    on_every_server(async |setup| {
        let (limiter, server) = start(setup, ClientIp::behind(1)).await;
        for alike in [
            ["1.2.3.4:4711", "1.2.3.4", "1.2.3.4:4712", " 1.2.3.4:80 "],
            ["[2001:db8::1]:443", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80"],
            ["::ffff:192.0.2.1", "192.0.2.1", "[::ffff:192.0.2.1]:80", "[::ffff:c000:201]"],
        ] {
            for (number, entry) in alike.iter().enumerate() {
                assert_eq!(server.serves("x-forwarded-for", format!("6.6.6.{number}, {entry}")).await, number == 0, "{entry}");
            }
        }
        assert!(is_spent(&limiter, "1.2.3.4") && is_spent(&limiter, "2001:db8::") && is_spent(&limiter, "192.0.2.1"));
        assert_eq!(limiter.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn forwarded_is_read_where_it_is_what_the_proxies_write() {
    on_every_server(async |setup| {
        let (limiter, server) = start(setup, ClientIp::behind(1).header(ForwardedHeader::Forwarded)).await;
        for (number, entry) in ["for=192.0.2.60;proto=http;by=203.0.113.43", "proto=https; For=\"192.0.2.60:4711\""].iter().enumerate() {
            let request = call(CALL).header("forwarded", format!("for=6.6.6.{number}, {entry}")).forwarded_for("7.7.7.7");
            assert_eq!(server.send(request).await.is_served(), number == 0, "{entry}");
        }
        for (number, entry) in
            [r#"for="[2001:db8:cafe::17]:4711""#, r#"ext="a,\"b;for=1.1.1.1";for="[2001:db8:cafe::18]""#].iter().enumerate()
        {
            // An open quote of the client's changes nothing.
            let request = call(CALL).header("forwarded", format!("for=\"6.6.6.6, {entry}"));
            assert_eq!(server.send(request).await.is_served(), number == 0, "{entry}");
        }
        assert!(is_spent(&limiter, "192.0.2.60") && is_spent(&limiter, "2001:db8:cafe::"));
        assert_eq!(limiter.len(), 2);
    })
    .await;
}

/// What is at the place where a proxy would have written an address, and is none.
const GARBAGE: [&str; 13] = [
    "",
    " ",
    ",",
    "unknown",
    "_hidden",
    "1.2.3",
    "1.2.3.4:99999",
    "1.2.3.4:",
    "[1.2.3.4]",
    "[2001:db8::1",
    "2001:db8::1]:80",
    "999.1.1.1",
    "\u{1f6a6}",
];

#[tokio::test]
async fn where_no_address_is_the_peer_is_the_client() {
    on_every_server(async |setup| {
        for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
            let (limiter, server) = start(setup, ClientIp::behind(1).header(header)).await;
            let name = if header == ForwardedHeader::Forwarded { "forwarded" } else { "x-forwarded-for" };
            assert!(server.call().await.is_served());
            let quotes = format!("\"{}", "\\\"".repeat(500));
            for garbage in GARBAGE.into_iter().chain([&*quotes]) {
                for line in [garbage.to_owned(), format!("8.8.8.8, {garbage}"), format!("for=8.8.8.8, {garbage}")] {
                    assert!(!server.serves(name, &line).await, "{line}");
                }
            }
            assert!(!server.serves(name, b"\xff\xfe, \xff").await);
            assert_eq!(limiter.len(), 1);
        }
        // Fewer entries than there are proxies.
        let (limiter, server) = start(setup, ClientIp::behind(3)).await;
        assert!(server.serves("x-forwarded-for", "1.1.1.1, 2.2.2.2").await);
        assert!(!server.serves("x-forwarded-for", "3.3.3.3").await);
        assert!(is_spent(&limiter, "127.0.0.1"));
    })
    .await;
}

#[tokio::test]
async fn hundreds_of_entries_in_many_lines_are_one_list() {
    on_every_server(async |setup| {
        let (limiter, server) = start(setup, ClientIp::behind(2)).await;
        let flood = vec!["198.51.100.1"; 500].join(", ");
        assert!(server.serves("x-forwarded-for", format!("{flood}, 203.0.113.7, 10.0.0.1")).await);
        // Each proxy in a line of its own, behind many lines of the client's.
        for lines in [1, 50] {
            let request = (0..lines).fold(call(CALL), |request, line| request.forwarded_for(format!("198.51.100.{line}, 198.51.101.1")));
            assert!(!server.send(request.forwarded_for("203.0.113.7").forwarded_for("10.0.0.1")).await.is_served());
        }
        assert!(is_spent(&limiter, "203.0.113.7"));
        assert_eq!(limiter.len(), 1);
        // From far to the left.
        let (limiter, server) = start(setup, ClientIp::behind(400)).await;
        assert!(server.serves("x-forwarded-for", format!("6.6.6.6, 203.0.113.9, {}", vec!["10.0.0.1"; 399].join(","))).await);
        assert!(is_spent(&limiter, "203.0.113.9"));
    })
    .await;
}

#[tokio::test]
async fn one_v6_network_is_one_client() {
    on_every_server(async |setup| {
        let (limiter, server) = start(setup, ClientIp::behind(1)).await;
        let mut passed = 0;
        for host in 0..50_u32 {
            let entry = format!("2001:db8:0:1:{host:x}:{:x}::{host:x}", host.wrapping_mul(7919) % 65_536);
            passed += u32::from(server.serves("x-forwarded-for", entry).await);
        }
        assert_eq!((passed, limiter.len()), (1, 1));
        assert!(is_spent(&limiter, "2001:db8:0:1::"));
        assert!(server.serves("x-forwarded-for", "2001:db8:0:2::1").await);

        for (bits, alike, other) in [
            (48, "2001:db8:0:ffff::1", "2001:db8:1::1"),
            (128, "2001:db8::1", "2001:db8::2"),
            (0, "fe80::1", "192.0.2.1"),
            (255, "2001:db8::1", "2001:db8::2"),
        ] {
            let (_, server) = start(setup, ClientIp::behind(1).v6_prefix(bits)).await;
            assert!(server.serves("x-forwarded-for", "2001:db8::1").await);
            assert!(!server.serves("x-forwarded-for", alike).await, "{alike}/{bits}");
            assert!(server.serves("x-forwarded-for", other).await, "{other}/{bits}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_v4_peer_on_a_socket_for_both_is_a_v4_client() {
    on_every_server(async |setup| {
        let (_, limiter) = limiter(Quota::per_hour(1));
        let policy = Policy::new("client", limiter.clone(), setup.finds_peer(ClientIp::peer()));
        let Ok(server) = setup.start_on("[::]:0", policy).await else {
            println!("not tested: this host has no IPv6");
            return;
        };
        assert!(server.call().await.is_served());
        assert!(is_spent(&limiter, "127.0.0.1"));
        assert!(!server.call().await.is_served());
    })
    .await;
}

#[tokio::test]
async fn no_value_of_a_tenants_comes_back_in_an_answer() {
    on_every_server(async |setup| {
        let (_, limiter) = limiter(Quota::per_hour(1));
        let tenant = Header(HeaderName::from_static("x-tenant"));
        let policy = Policy::new("tenant", limiter.clone(), tenant).missing_key(MissingKey::Reject(StatusCode::UNAUTHORIZED));
        let server = setup.start(policy).await;
        let values: [&[u8]; 6] = [
            b"mallory\t\"\\;q=9",
            b"mallory%0d%0aset-cookie:%20a=b",
            b"mallory\\r\\nx: y",
            b"mallory, b",
            b"mallory\xff",
            b"mallory\x80\xc3\xa9",
        ];
        for value in values {
            let is_text = value.is_ascii();
            let first = server.send(call(CALL).header("x-tenant", value)).await;
            assert_eq!(first.outcome(), if is_text { Outcome::Served } else { Outcome::NoKey }, "{value:?}");
            let second = server.send(call(CALL).header("x-tenant", value)).await;
            assert_eq!(second.outcome(), if is_text { Outcome::OverQuota } else { Outcome::NoKey }, "{value:?}");
            assert!(!format!("{second:?}").contains("mallory"), "{second:?}");
            assert!(!second.headers.contains_key("set-cookie"));
        }
    })
    .await;
}
