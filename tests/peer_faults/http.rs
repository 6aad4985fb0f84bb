//! The web layer, called as a service.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use tollgate::http::{ClientIp, Everyone, Head, PeerAddr, Policy, RateLimit, RateLimitLayer, ShedLayer};
use tollgate::{Limiter, ManualClock, Quota};
use tower::util::BoxCloneService;
use tower::{Layer, Service};

use crate::nanos;

type Limits = Arc<Limiter<ManualClock>>;

fn limits(quota: Quota) -> (ManualClock, Limits) {
    let clock = ManualClock::new();
    (clock.clone(), Arc::new(Limiter::builder(quota).max_keys(1_000).clock(clock).build()))
}

/// Answers 200 at once.
#[derive(Clone, Copy, Debug)]
struct Inner;

impl Service<Request<()>> for Inner {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::default())))
    }
}

const PEER: &str = "198.51.100.9:4711";

fn request() -> Request<()> {
    forwarded_for(&[])
}

/// With these lines of `X-Forwarded-For`.
fn forwarded_for(lines: &[&str]) -> Request<()> {
    from(PEER, lines)
}

fn from(peer: &str, lines: &[&str]) -> Request<()> {
    let request = lines.iter().fold(Request::get("/"), |request, &line| request.header("x-forwarded-for", line.as_bytes()));
    request.extension(PeerAddr(peer.parse::<SocketAddr>().expect("an address"))).body(()).expect("a request")
}

fn answer<S>(service: &mut S, request: Request<()>) -> Response<Full<Bytes>>
where
    S: Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready());
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// Each client has one request.
fn per_client(client: ClientIp) -> (Limits, RateLimit<Inner>) {
    let (_, limits) = limits(Quota::per_day(1));
    (limits.clone(), RateLimitLayer::new(Policy::new("client", limits, client)).layer(Inner))
}

fn is_served(service: &mut RateLimit<Inner>, request: Request<()>) -> bool {
    match answer(service, request).status() {
        StatusCode::OK => true,
        StatusCode::TOO_MANY_REQUESTS => false,
        other => panic!("{other}"),
    }
}

/// The whole of a rejection's body.
fn text(answer: Response<Full<Bytes>>) -> String {
    match pin!(answer.into_body()).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_v4_address_in_either_form_is_one_client() {
    for (first, second) in [("192.0.2.1", "::ffff:192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("192.0.2.1", "::ffff:c000:201")] {
        let peer = |ip: &str| SocketAddr::new(ip.parse().expect("an address"), 80).to_string();
        let (_, mut service) = per_client(ClientIp::peer());
        assert!(is_served(&mut service, from(&peer(first), &[])));
        assert!(!is_served(&mut service, from(&peer(second), &[])));

        let (limits, mut service) = per_client(ClientIp::behind(1));
        assert!(is_served(&mut service, forwarded_for(&[first])));
        assert!(!is_served(&mut service, forwarded_for(&[second])));
        assert_eq!(limits.len(), 1);
    }
}

#[test]
fn one_v6_network_of_64_bits_is_one_client_by_default() {
    let (limits, mut service) = per_client(ClientIp::peer());
    let served = (0..1_000_u32).filter(|host| is_served(&mut service, from(&format!("[2001:db8:0:7:{host:x}::{host:x}]:80"), &[])));
    assert_eq!(served.count(), 1);
    assert_eq!(limits.len(), 1);
    assert!(is_served(&mut service, from("[2001:db8:0:8::]:80", &[])));

    let client = ClientIp::peer();
    let key = |address: &str| client.key_of(address.parse().expect("an address")).to_string();
    assert_eq!(key("2001:db8:0:7:ffff:ffff:ffff:ffff"), "2001:db8:0:7::");
    assert_eq!((key("::ffff:192.0.2.1"), key("192.0.2.1")), ("192.0.2.1".to_owned(), "192.0.2.1".to_owned()));
}

#[test]
fn retry_after_is_rounded_up_to_whole_seconds_and_never_0() {
    let (clock, limits) = limits(Quota::new(1, Duration::from_secs(10)).expect("fits"));
    let cost = |head: &Head<'_>| head.headers.len() as u64 + 1;
    let mut service = RateLimitLayer::new(Policy::new("slow", limits, Everyone).cost(cost)).layer(Inner);
    assert_eq!(answer(&mut service, request()).status(), StatusCode::OK);
    for (wait, told) in [(1, "1"), (100_000, "1"), (900_000_000, "1"), (1_000_000_000, "1"), (1_000_000_001, "2"), (3_500_000_000, "4")] {
        clock.set(nanos(10_000_000_000 - wait));
        let answer = answer(&mut service, request());
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answer.headers()["retry-after"], told, "{wait} ns");
    }
    clock.set(Duration::from_secs(10));
    assert_eq!(answer(&mut service, request()).status(), StatusCode::OK);
}

#[test]
fn no_retry_after_where_no_wait_helps() {
    let (_, limits) = limits(Quota::per_second(5));
    let (_, other) = self::limits(Quota::per_hour(1));
    for n in [6, u64::MAX] {
        let never = Policy::new("never", limits.clone(), Everyone).cost(move |_| n);
        let layer = RateLimitLayer::new(never).and(Policy::new("later", other.clone(), Everyone));
        // With a longer wait of another limit too.
        for layer in [layer.clone(), layer.clone().wait(Duration::MAX)] {
            let answer = answer(&mut layer.layer(Inner), request());
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            assert!(!answer.headers().contains_key("retry-after"));
        }
        let _ = other.check(&());
    }
}

#[test]
fn a_rotating_forged_entry_opens_a_bucket_per_request_only_if_so_many_proxies_are_trusted() {
    let behind_known = ClientIp::behind_networks(["198.51.100.0/24".parse().expect("a network")]);
    let rotate = |client: ClientIp, real: &str| {
        let (limits, mut service) = per_client(client);
        let served = (0..100).filter(|forged| is_served(&mut service, forwarded_for(&[&format!("10.0.0.{forged}{real}")])));
        (served.count(), limits.len())
    };
    assert_eq!(rotate(ClientIp::peer(), ""), (1, 1));
    assert_eq!(rotate(ClientIp::peer(), ", 203.0.113.7"), (1, 1));
    assert_eq!(rotate(ClientIp::behind(1), ", 203.0.113.7"), (1, 1));
    assert_eq!(rotate(ClientIp::behind(2), ", 203.0.113.7, 198.51.100.1"), (1, 1));
    assert_eq!(rotate(behind_known, ", 203.0.113.7, 198.51.100.1"), (1, 1));
    // What was asked for: two trusted proxies where there is one.
    assert_eq!(rotate(ClientIp::behind(2), ", 203.0.113.7"), (100, 100));
}

#[test]
fn entries_with_ports_and_brackets_are_read() {
    for (entry, address) in [
        ("1.2.3.4:4711", "1.2.3.4"),
        ("1.2.3.4", "1.2.3.4"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
    ] {
        for line in [entry.to_owned(), format!(" {entry} "), format!("6.6.6.6:1,{entry}")] {
            let found = ClientIp::behind(1).address(&Head::of(&forwarded_for(&[&line])));
            assert_eq!(found, Some(address.parse::<IpAddr>().expect("an address")), "{line}");
        }
    }
}

#[test]
fn garbage_falls_back_to_the_peer_and_is_never_answered_500() {
    let garbage = ["", ",", ",,,,", "unknown", "_x", "1.2.3", "1.2.3.4:", "1.2.3.4:99999", "[1.2.3.4]", "[::1", "::1]:80", "\"", "\t"];
    for client in [ClientIp::behind(1), ClientIp::behind_networks(["198.51.100.0/24".parse().expect("a network")])] {
        let (limits, mut service) = per_client(client);
        assert!(is_served(&mut service, request()));
        for garbage in garbage {
            assert!(!is_served(&mut service, forwarded_for(&[garbage])), "{garbage}");
            assert!(!is_served(&mut service, forwarded_for(&["6.6.6.6", garbage])), "{garbage}");
        }
        assert!(!is_served(&mut service, forwarded_for(&["\u{ff}\u{fe}"])));
        assert_eq!(limits.len(), 1);
    }
    // Not even the peer is known: all such requests are counted together.
    let (_, mut service) = per_client(ClientIp::behind(1));
    let stranger = || Request::new(());
    assert!(is_served(&mut service, stranger()));
    assert!(!is_served(&mut service, stranger()));
}

#[test]
fn clones_per_connection_and_layers_per_route_share_one_state() {
    let (_, limits) = limits(Quota::per_day(10));
    let layer = RateLimitLayer::new(Policy::new("default", limits, Everyone));
    let service = layer.layer(Inner);
    let mut served = 0;
    for _ in 0..10 {
        // Layers in the making share the limiter, too.
        let mut services = [service.clone(), layer.layer(Inner), layer.clone().layer(Inner), layer.clone().skip(|_| false).layer(Inner)];
        served += services.iter_mut().map(|service| usize::from(is_served(service, request()))).sum::<usize>();
        let mut boxed = BoxCloneService::new(service.clone()).clone();
        served += usize::from(answer(&mut boxed, request()).status() == StatusCode::OK);
    }
    assert_eq!(served, 10);

    let shed = ShedLayer::new(1);
    let mut first = shed.layer(tower::service_fn(|_: Request<()>| core::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()));
    let under_way = first.call(request());
    assert_eq!(answer(&mut shed.clone().layer(Inner), request()).status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(under_way);
    assert_eq!(answer(&mut shed.layer(Inner), request()).status(), StatusCode::OK);
    assert_eq!(shed.shed(), 1);
}

#[test]
fn over_its_quota_is_429_and_overloaded_is_503() {
    let (_, limits) = limits(Quota::per_day(1));
    let limit = RateLimitLayer::new(Policy::new("default", limits.clone(), Everyone));
    let mut limited = limit.layer(Inner);
    assert!(is_served(&mut limited, request()));
    let spent = answer(&mut limited, request());
    let overloaded = answer(&mut ShedLayer::new(0).retry_after(nanos(1)).layer(Inner), request());
    assert_eq!((spent.status(), overloaded.status()), (StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!((&spent.headers()["retry-after"], &overloaded.headers()["retry-after"]), (&"86400".parse().unwrap(), &"1".parse().unwrap()));
    assert!(!overloaded.headers().contains_key("ratelimit"));
    let (spent, overloaded) = (text(spent), text(overloaded));
    assert!(spent.contains("quota-exceeded") && spent.contains(r#""violated-policies":["default"]"#), "{spent}");
    assert!(!overloaded.contains("quota-exceeded") && !overloaded.contains("violated"), "{overloaded}");
}
