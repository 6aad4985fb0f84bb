use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// Something to be found out of a request's head.
pub(super) type OfHead<T> = Arc<dyn Fn(&Head<'_>) -> T + Send + Sync>;

/// What of a request policies see: all but its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target.
    pub uri: &'a Uri,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// What the server and the layers further out have attached.
    pub extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    /// The head of a request.
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self { method: request.method(), uri: request.uri(), headers: request.headers(), extensions: request.extensions() }
    }

    /// A header field's first value, if it is visible ASCII.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok()
    }
}
