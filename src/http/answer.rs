//! What a client is told that is not served.

use core::fmt::Write;
use core::mem;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use super::fields::{add_missing, retry_after};

/// Makes the answer to a request that is not served.
pub(super) type Answer = Arc<dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync>;

/// A request that is not served, and why.
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'a> {
    kind: Kind,
    /// Those that denied.
    violated: &'a [&'a str],
    retry_after: Option<Duration>,
    asked: Asked,
}

/// What the answer depends on in the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// It is a call of gRPC.
    grpc: bool,
    /// It is a `HEAD`, and its answer has no content.
    head: bool,
}

impl Asked {
    pub(super) fn by(method: &Method, headers: &HeaderMap) -> Self {
        Self { grpc: is_grpc(headers), head: method == Method::HEAD }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    OverQuota,
    NoKey(StatusCode),
    Overloaded,
}

impl<'a> Rejection<'a> {
    pub(super) const fn new(kind: Kind, violated: &'a [&'a str], retry_after: Option<Duration>, asked: Asked) -> Self {
        Self { kind, violated, retry_after, asked }
    }

    /// Whether the request is a call of gRPC, which expects its answer in trailers.
    pub const fn is_grpc(&self) -> bool {
        self.asked.grpc
    }

    /// 429 over a quota; 503 when shed, or when a limiter has no room for another key; or as
    /// [`MissingKey::Reject`](super::MissingKey::Reject) says.
    pub const fn status(&self) -> StatusCode {
        match self.kind {
            Kind::OverQuota => StatusCode::TOO_MANY_REQUESTS,
            Kind::NoKey(status) => status,
            Kind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The names of the policies that denied, or that found no key.
    pub const fn violated(&self) -> &'a [&'a str] {
        self.violated
    }

    /// The longest wait that any of them asks for. `None`: no wait helps, or it is not known which.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    const fn summary(&self) -> &'static str {
        match self.kind {
            Kind::OverQuota => "the request quota is spent",
            Kind::NoKey(_) => "the request does not say whose it is",
            Kind::Overloaded => "the server is overloaded",
        }
    }

    const fn detail(&self) -> &'static str {
        match (self.kind, self.retry_after) {
            (Kind::OverQuota, Some(_)) => "retry when Retry-After has passed",
            (Kind::OverQuota, None) => "the request asks for more than the limit ever allows: no wait helps",
            (Kind::NoKey(_), _) => "the request has no key that limits could be counted by",
            (Kind::Overloaded, _) => {
                "the server has more requests or clients than it can do with; this says nothing about the client's own quota"
            }
        }
    }

    /// What the client is told: by the application's own function, if there is one. The fields that every such answer bears are added.
    pub(super) fn response(&self, answer: Option<&Answer>) -> Response<Bytes> {
        let mut response = match answer {
            Some(answer) => answer(self),
            None if self.asked.grpc => self.grpc(),
            None => self.problem(),
        };
        let mut fields = HeaderMap::new();
        retry_after(&mut fields, self.retry_after);
        if self.status() == StatusCode::TOO_MANY_REQUESTS {
            fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        if self.asked.head {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(mem::take(response.body_mut()).len()));
        }
        add_missing(response.headers_mut(), fields);
        response
    }

    /// The answer as a problem document (RFC 9457).
    fn problem(&self) -> Response<Bytes> {
        let mut body = String::from("{");
        let title = if self.kind == Kind::OverQuota {
            body.push_str(r#""type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#);
            "Request quota exceeded"
        } else {
            // A problem without a type is titled as its status is (RFC 9457, section 4.2.1).
            self.status().canonical_reason().unwrap_or("Rejected")
        };
        _ = write!(body, r#""title":"{title}","status":{},"detail":"{}""#, self.status().as_u16(), self.detail());
        if self.kind == Kind::OverQuota {
            // Names are printable ASCII.
            let names: Vec<_> =
                self.violated.iter().map(|name| format!("\"{}\"", name.replace('\\', r"\\").replace('"', r#"\""#))).collect();
            _ = write!(body, r#","violated-policies":[{}]"#, names.join(","));
        }
        body.push('}');
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }

    /// The answer to a call of gRPC: a response of trailers alone, with `google.rpc.RetryInfo` in its details, which is what the client
    /// libraries read.
    fn grpc(&self) -> Response<Bytes> {
        // RESOURCE_EXHAUSTED, UNAVAILABLE; INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED.
        let code = match self.kind {
            Kind::OverQuota => 8,
            Kind::Overloaded => 14,
            Kind::NoKey(StatusCode::BAD_REQUEST) => 3,
            Kind::NoKey(StatusCode::FORBIDDEN) => 7,
            Kind::NoKey(_) => 16,
        };
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(code));
        headers.insert(HeaderName::from_static("grpc-message"), HeaderValue::from_static(self.summary()));
        if let Some(wait) = self.retry_after {
            let details = STANDARD_NO_PAD.encode(status_details(code, self.summary(), wait));
            if let Ok(details) = HeaderValue::from_str(&details) {
                headers.insert(HeaderName::from_static("grpc-status-details-bin"), details);
            }
        }
        response
    }
}

/// Whether a request is a call of gRPC: `application/grpc`, or with a suffix such as `+proto`; but not `application/grpc-web`, which is
/// answered otherwise.
fn is_grpc(headers: &HeaderMap) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().split_at_checked(TYPE.len()));
    value.is_some_and(|(start, rest)| start.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// A `google.rpc.Status` with one detail, a `google.rpc.RetryInfo`, in protobuf's wire format.
fn status_details(code: u64, message: &str, wait: Duration) -> Vec<u8> {
    let mut time = Vec::new();
    number(&mut time, 1, wait.as_secs().min(i64::MAX.unsigned_abs()));
    number(&mut time, 2, wait.subsec_nanos().into());
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &time);
    let mut any = Vec::new();
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, code);
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// A field of wire type 0.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    message.push(field << 3);
    varint(message, value);
}

/// A field of wire type 2.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits")]
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    message.push(value as u8);
}
