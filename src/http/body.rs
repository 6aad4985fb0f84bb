//! For services whose bodies cannot be made from bytes, as a rejection's must.

use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// Lets a service have any body behind a [`RateLimitLayer`](super::RateLimitLayer) or a [`ShedLayer`](super::ShedLayer), which ask for one
/// that is `From<Bytes>`: it makes the bodies of answers [`ResponseBody`]s.
///
/// axum's `Body` and http-body-util's `Full` are `From<Bytes>` and need none of this; tonic's `Body` is not, nor is a `BoxBody`. In a server
/// of tonic: `.layer(limit).layer(AnyBodyLayer)`. One, innermost, does for any number of layers before it.
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use tollgate::http::{AnyBodyLayer, Everyone, Policy, RateLimitLayer};
/// use tollgate::{Limiter, Quota};
/// use tower::{ServiceBuilder, service_fn};
///
/// let limit = RateLimitLayer::new(Policy::new("all", Arc::new(Limiter::new(Quota::per_second(100))), Everyone));
/// let answer = async |_: Request<()>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()));
/// let service = ServiceBuilder::new().layer(limit).layer(AnyBodyLayer).service(service_fn(answer));
/// # fn is_a_service(_: impl tower::Service<Request<()>>) {}
/// # is_a_service(service);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyBodyLayer;

impl<S> Layer<S> for AnyBodyLayer {
    type Service = AnyBody<S>;

    fn layer(&self, inner: S) -> AnyBody<S> {
        AnyBody { inner }
    }
}

/// A service whose answers have a [`ResponseBody`]: see [`AnyBodyLayer`].
#[derive(Clone, Debug)]
pub struct AnyBody<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for AnyBody<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = AnyBodyFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        AnyBodyFuture { future: self.inner.call(request) }
    }
}

pin_project! {
    /// The answer to a request, with a [`ResponseBody`].
    #[derive(Debug)]
    pub struct AnyBodyFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, R, E> Future for AnyBodyFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(context).map_ok(|response| response.map(ResponseBody::service))
    }
}

pin_project! {
    /// The body of an answer: the service's own, or a rejection's.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = InnerProjection]
    enum Inner<B> {
        Service { #[pin] body: B },
        Rejection { body: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    const fn service(body: B) -> Self {
        Self { inner: Inner::Service { body } }
    }
}

impl<B> From<Bytes> for ResponseBody<B> {
    /// A rejection's.
    fn from(body: Bytes) -> Self {
        Self { inner: Inner::Rejection { body: Some(body).filter(|body| !body.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            InnerProjection::Service { body } => body.poll_frame(context),
            InnerProjection::Rejection { body } => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Service { body } => body.is_end_stream(),
            Inner::Rejection { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Service { body } => body.size_hint(),
            Inner::Rejection { body } => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
        }
    }
}
