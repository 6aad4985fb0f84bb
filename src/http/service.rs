use core::fmt;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use super::future::ResponseFuture;
use super::head::Head;
use super::rules::{Rules, Verdict};

/// A service behind [policies](super::Policy): see [`RateLimitLayer`](super::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> RateLimit<S> {
    pub(super) const fn new(inner: S, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }
}

impl<S: Clone> RateLimit<S> {
    /// Lets go of what the inner service may hold since it was ready, such as a permit: it is not called now.
    fn let_go(&mut self) {
        self.inner = self.inner.clone();
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.rules.decide(&Head::of(&request)) {
            Verdict::Serve(fields) => ResponseFuture::serve(self.inner.call(request), fields),
            Verdict::Wait(booked) => {
                self.let_go();
                ResponseFuture::wait(*booked, self.inner.clone(), request)
            }
            Verdict::Reject(response) => {
                self.let_go();
                ResponseFuture::reject(response)
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
