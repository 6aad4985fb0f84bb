//! Clients that speak HTTP as it is, and read the answers of all servers alike.

use core::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use crate::app::{CALL, ID, message};
use crate::servers::{Kind, Server, path};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// A request in the making.
#[derive(Debug)]
pub(crate) struct Call {
    name: &'static str,
    headers: Vec<(String, HeaderValue)>,
    body: Option<BoxBody<Bytes, Infallible>>,
    from: Ipv4Addr,
}

/// A request for what the application does under this name.
pub(crate) fn call(name: &'static str) -> Call {
    Call { name, headers: Vec::new(), body: None, from: Ipv4Addr::LOCALHOST }
}

impl Call {
    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), HeaderValue::from_bytes(value.as_ref()).expect("a value")));
        self
    }

    pub(crate) fn forwarded_for(self, entries: impl AsRef<[u8]>) -> Self {
        self.header("x-forwarded-for", entries)
    }

    pub(crate) fn id(self, id: &str) -> Self {
        self.header(ID, id)
    }

    pub(crate) fn body(mut self, body: BoxBody<Bytes, Infallible>) -> Self {
        self.body = Some(body);
        self
    }

    /// From another address of this host.
    pub(crate) fn from(mut self, address: Ipv4Addr) -> Self {
        self.from = address;
        self
    }

    fn request(self, server: &Server) -> Request<BoxBody<Bytes, Infallible>> {
        let path = path(self.name);
        let uri = match server.setup.version {
            Version::Http1 => path,
            Version::Http2 => format!("http://{}{path}", server.address),
        };
        let mut request = Request::new(Empty::new().boxed());
        *request.uri_mut() = uri.parse().expect("a target");
        let headers = request.headers_mut();
        headers.insert("host", HeaderValue::from_static("localhost"));
        if server.setup.server == Kind::Tonic {
            headers.insert("content-type", HeaderValue::from_static("application/grpc"));
            headers.insert("te", HeaderValue::from_static("trailers"));
            *request.method_mut() = Method::POST;
            *request.body_mut() = Full::from(message("")).boxed();
        }
        for (name, value) in self.headers {
            request.headers_mut().append(http::HeaderName::try_from(name).expect("a name"), value);
        }
        if let Some(body) = self.body {
            *request.method_mut() = Method::POST;
            *request.body_mut() = body;
        }
        request
    }
}

/// A connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    task: JoinHandle<()>,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<BoxBody<Bytes, Infallible>>),
    Http2(http2::SendRequest<BoxBody<Bytes, Infallible>>),
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn connect(&self) -> Connection {
        self.connect_from(Ipv4Addr::LOCALHOST).await
    }

    async fn connect_from(&self, address: Ipv4Addr) -> Connection {
        let socket = TcpSocket::new_v4().expect("a socket");
        if address != Ipv4Addr::LOCALHOST {
            socket.bind(SocketAddr::new(IpAddr::V4(address), 0)).expect("this host's");
        }
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.address.port());
        let io = TokioIo::new(socket.connect(to).await.expect("listens"));
        match self.setup.version {
            Version::Http1 => {
                let (sender, connection) = http1::handshake(io).await.expect("speaks HTTP/1.1");
                let task = tokio::spawn(async { _ = connection.await });
                Connection { sender: Sender::Http1(sender), task }
            }
            Version::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("speaks HTTP/2");
                let task = tokio::spawn(async { _ = connection.await });
                Connection { sender: Sender::Http2(sender), task }
            }
        }
    }

    /// The answer to a request over a connection of its own.
    pub(crate) async fn send(&self, call: Call) -> Answer {
        self.connect_from(call.from).await.send(self, call).await
    }

    /// The answer to the plainest request.
    pub(crate) async fn call(&self) -> Answer {
        self.send(call(CALL)).await
    }

    /// Whether the plainest request is served, with one header field.
    pub(crate) async fn serves(&self, name: &str, value: impl AsRef<[u8]>) -> bool {
        self.send(call(CALL).header(name, value)).await.is_served()
    }

    /// Sends a request in the background.
    pub(crate) fn spawn(self: &std::sync::Arc<Self>, call: Call) -> JoinHandle<Answer> {
        let server = std::sync::Arc::clone(self);
        tokio::spawn(async move { server.send(call).await })
    }
}

impl Connection {
    /// The answer, its body to be read.
    pub(crate) async fn open(&mut self, server: &Server, call: Call) -> Response<Incoming> {
        let request = call.request(server);
        match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.expect("open");
                sender.send_request(request).await.expect("an answer")
            }
            Sender::Http2(sender) => {
                sender.ready().await.expect("open");
                sender.send_request(request).await.expect("an answer")
            }
        }
    }

    pub(crate) async fn send(&mut self, server: &Server, call: Call) -> Answer {
        let (head, body) = self.open(server, call).await.into_parts();
        let body = body.collect().await.expect("whole");
        let trailers = body.trailers().cloned().unwrap_or_default();
        Answer { status: head.status, headers: head.headers, body: body.to_bytes(), trailers }
    }
}

/// What a request led to, in whatever protocol it was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Served,
    OverQuota,
    NoKey,
    Overloaded,
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    pub(crate) fn is_grpc(&self) -> bool {
        self.field("content-type") == Some("application/grpc")
    }

    pub(crate) fn outcome(&self) -> Outcome {
        if self.is_grpc() {
            assert_eq!(self.status, StatusCode::OK, "gRPC says it in its own way");
            let status = self.headers.get("grpc-status").or_else(|| self.trailers.get("grpc-status"));
            return match status.map(HeaderValue::as_bytes) {
                Some(b"0") => Outcome::Served,
                Some(b"8") => Outcome::OverQuota,
                Some(b"14") => Outcome::Overloaded,
                Some(b"16") => Outcome::NoKey,
                _ => Outcome::Other,
            };
        }
        match self.status {
            StatusCode::OK => Outcome::Served,
            StatusCode::TOO_MANY_REQUESTS => Outcome::OverQuota,
            StatusCode::UNAUTHORIZED => Outcome::NoKey,
            StatusCode::SERVICE_UNAVAILABLE => Outcome::Overloaded,
            _ => Outcome::Other,
        }
    }

    #[track_caller]
    pub(crate) fn is_served(&self) -> bool {
        let outcome = self.outcome();
        assert!(matches!(outcome, Outcome::Served | Outcome::OverQuota), "{self:?}");
        outcome == Outcome::Served
    }

    /// A header field's value; there is one at most.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} is there twice: {self:?}");
        Some(value.to_str().expect("ASCII"))
    }

    /// Those of these fields that are there.
    pub(crate) fn fields(&self) -> Vec<(&str, &str)> {
        LIMIT_FIELDS.iter().filter_map(|&name| Some((name, self.field(name)?))).collect()
    }

    pub(crate) fn text(&self) -> &str {
        let text = str::from_utf8(&self.body).expect("text");
        if self.is_grpc() && !text.is_empty() { &text[5..] } else { text }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// All fields that the layer may add to an answer of HTTP.
const LIMIT_FIELDS: [&str; 7] =
    ["cache-control", "ratelimit", "ratelimit-policy", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
