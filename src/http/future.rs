use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use super::fields::add_missing;
use super::rules::Booked;

pin_project! {
    /// The answer to a request: the service's, or a rejection. Dropped while it waits, it gives its tokens back.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S, S::Future, B>,
        fields: Option<Box<HeaderMap>>,
    }
}

pin_project! {
    /// All boxed but what most requests come to: servers move futures about, and allocate for the largest.
    #[project = StageProjection]
    enum Stage<S, F, B> {
        Waiting { timer: Pin<Box<Sleep>>, held: Option<Box<(Booked, S, Request<B>)>> },
        Serving { #[pin] future: F },
        Rejected { response: Option<Box<Response<Bytes>>> },
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    pub(super) const fn serve(future: S::Future, fields: Option<Box<HeaderMap>>) -> Self {
        Self { stage: Stage::Serving { future }, fields }
    }

    pub(super) fn wait(booked: Booked, service: S, request: Request<B>) -> Self {
        let timer = Box::pin(tokio::time::sleep(booked.wait));
        Self { stage: Stage::Waiting { timer, held: Some(Box::new((booked, service, request))) }, fields: None }
    }

    pub(super) fn reject(response: Box<Response<Bytes>>) -> Self {
        Self { stage: Stage::Rejected { response: Some(response) }, fields: None }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // What nearly all come to: the service's answer as it is, not moved.
        if let (StageProjection::Serving { future }, None) = (this.stage.as_mut().project(), &this.fields) {
            return future.poll(context);
        }
        loop {
            let future = match this.stage.as_mut().project() {
                StageProjection::Waiting { timer, held } => {
                    ready!(timer.as_mut().poll(context));
                    let (_, service, _) = &mut **held.as_mut().expect("polled after it was done");
                    ready!(service.poll_ready(context))?;
                    let (booked, mut service, request) = *held.take().expect("it was there");
                    *this.fields = booked.keep();
                    service.call(request)
                }
                StageProjection::Serving { future } => {
                    let mut response = ready!(future.poll(context))?;
                    if let Some(fields) = this.fields.take() {
                        add_missing(response.headers_mut(), *fields);
                    }
                    return Poll::Ready(Ok(response));
                }
                StageProjection::Rejected { response } => {
                    let response = response.take().expect("polled after it was done");
                    return Poll::Ready(Ok(response.map(R::from)));
                }
            };
            this.stage.set(Stage::Serving { future });
        }
    }
}

impl<S: Service<Request<B>>, B> core::fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
