//! The application, in two forms: for servers of HTTP, and for tonic.
//!
//! What it does is chosen by the last segment of the path.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, NamedService};
use tower::{Service, service_fn};

/// Reads the request's body, and answers [`SERVED`].
pub(crate) const CALL: &str = "call";
/// The same with [header fields of its own](OWN_FIELDS).
pub(crate) const OWN: &str = "own";
/// The same when it is [let](App::let_pass).
pub(crate) const SLOW: &str = "slow";
/// Answers [`SERVED`] without reading the request's body.
pub(crate) const UNREAD: &str = "unread";
/// Answers with [`PARTS`], each when it is let, and a trailer.
pub(crate) const STREAM: &str = "stream";

pub(crate) const SERVED: &str = "served";
pub(crate) const PARTS: [&str; 3] = ["one", "two", "three"];
pub(crate) const OWN_FIELDS: [(&str, &str); 5] = [
    ("retry-after", "7"),
    ("ratelimit", "mine"),
    ("ratelimit-policy", "also mine"),
    ("x-ratelimit-limit", "1"),
    ("x-ratelimit-remaining", "0"),
];

/// The name of the service, and the first segment of the path.
pub(crate) const SERVICE: &str = "web.Test";
/// Names a request in the [order](App::order) of service.
pub(crate) const ID: &str = "x-id";

/// What a test sees of the application, and steers.
#[derive(Clone, Debug)]
pub(crate) struct App {
    gate: Arc<Semaphore>,
    order: Arc<Mutex<Vec<String>>>,
}

impl App {
    pub(crate) fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), order: Arc::default() }
    }

    /// Lets so many slow requests, or parts of a stream, pass.
    pub(crate) fn let_pass(&self, count: usize) {
        self.gate.add_permits(count);
    }

    /// The requests that came through to the application, in that order.
    pub(crate) fn order(&self) -> Vec<String> {
        self.order.lock().expect("no panic").clone()
    }

    /// How many came through.
    pub(crate) fn served(&self) -> usize {
        self.order.lock().expect("no panic").len()
    }

    fn enters(&self, headers: &HeaderMap) {
        let id = headers.get(ID).map_or("", |id| id.to_str().expect("the test's own"));
        self.order.lock().expect("no panic").push(id.to_owned());
    }

    async fn is_let(&self) {
        self.gate.acquire().await.expect("never closed").forget();
    }

    fn stream(self, frame: fn(&str) -> Bytes, trailer: (&'static str, &'static str)) -> Channel<Bytes, Infallible> {
        let (mut sender, body): (Sender<Bytes, Infallible>, _) = Channel::new(1);
        tokio::spawn(async move {
            for part in PARTS {
                self.is_let().await;
                if sender.send_data(frame(part)).await.is_err() {
                    return;
                }
            }
            let trailers = HeaderMap::from_iter([(trailer.0.parse().expect("a name"), HeaderValue::from_static(trailer.1))]);
            let _ = sender.send_trailers(trailers).await;
        });
        body
    }
}

fn what_of<B>(request: &Request<B>) -> String {
    request.uri().path().rsplit('/').next().unwrap_or_default().to_owned()
}

/// The application of axum and hyper.
pub(crate) async fn serve<B: Body>(app: App, request: Request<B>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    app.enters(request.headers());
    let what = what_of(&request);
    match &*what {
        UNREAD => {}
        STREAM => return Ok(Response::new(app.stream(|part| Bytes::copy_from_slice(part.as_bytes()), ("x-trailer", "here")).boxed())),
        _ => _ = request.into_body().collect().await,
    }
    if what == SLOW {
        app.is_let().await;
    }
    let mut response = Response::new(Full::from(SERVED).boxed());
    if what == OWN {
        response.headers_mut().extend(own_fields());
    }
    Ok(response)
}

/// The application of tonic.
#[derive(Clone, Debug)]
pub(crate) struct GrpcApp(pub(crate) App);

impl NamedService for GrpcApp {
    const NAME: &'static str = SERVICE;
}

impl Service<Request<tonic::body::Body>> for GrpcApp {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let app = self.0.clone();
        Box::pin(async move {
            app.enters(request.headers());
            let what = what_of(&request);
            Ok(match &*what {
                UNREAD => {
                    let unread = |_: tonic::Request<tonic::Streaming<String>>| async { Ok(tonic::Response::new(SERVED.to_owned())) };
                    Grpc::new(Text).client_streaming(service_fn(unread), request).await
                }
                STREAM => {
                    let mut response = Response::new(tonic::body::Body::new(app.stream(message, ("grpc-status", "0"))));
                    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
                    response
                }
                _ => Grpc::new(Text).unary(service_fn(|request| unary(app.clone(), &what, request)), request).await,
            })
        })
    }
}

fn unary(app: App, what: &str, _: tonic::Request<String>) -> impl Future<Output = Result<tonic::Response<String>, Status>> + Send + use<> {
    let (is_slow, has_own) = (what == SLOW, what == OWN);
    async move {
        if is_slow {
            app.is_let().await;
        }
        let mut response = tonic::Response::new(SERVED.to_owned());
        if has_own {
            *response.metadata_mut() = MetadataMap::from_headers(own_fields());
        }
        Ok(response)
    }
}

fn own_fields() -> HeaderMap {
    OWN_FIELDS.into_iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// A message as gRPC frames it.
pub(crate) fn message(text: &str) -> Bytes {
    let length = u32::try_from(text.len()).expect("short");
    [&[0], &length.to_be_bytes()[..], text.as_bytes()].concat().into()
}

/// Messages that are plain text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}
