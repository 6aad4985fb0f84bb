//! Shedding load: a bound on the requests under way, a bounded queue before it, and 503 beyond.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::{Answer, Asked, Kind, Rejection};
use super::observe::{self, Present};
use crate::register::Register;
use crate::wait::{Place, Waiters};

/// Serves so many requests at a time, queues so many more for so long, and answers the others with 503: overload is another answer than a
/// spent quota.
///
/// A request is under way until its answer's head is there, also while a handler waits for a slow body: let that have a time limit of its
/// own. Who queues is served in the order of coming. Clones, and the services of one layer, count together. A request that need not queue
/// allocates nothing. Of the service's bodies it asks what [`RateLimitLayer`](super::RateLimitLayer#bodies) does.
///
/// ```
/// use std::time::Duration;
/// use tollgate::http::ShedLayer;
///
/// let layer = ShedLayer::new(500).queue(100, Duration::from_millis(200)).retry_after(Duration::from_secs(2));
/// assert_eq!((layer.in_flight(), layer.waiting(), layer.shed()), (0, 0, 0));
/// ```
#[derive(Clone)]
pub struct ShedLayer {
    gate: Arc<Gate>,
    /// How long a request may queue.
    longest: Duration,
    retry_after: Option<Duration>,
    answer: Option<Answer>,
}

struct Gate {
    most: usize,
    permits: Arc<Semaphore>,
    queue: Waiters,
    queued: Register,
    shed: Register,
}

impl ShedLayer {
    /// At most so many requests under way, and no queue.
    pub fn new(in_flight: usize) -> Self {
        let most = in_flight.min(Semaphore::MAX_PERMITS);
        Self { gate: Arc::new(Gate::new(most, 0)), longest: Duration::ZERO, retry_after: None, answer: None }
    }

    /// Lets so many more wait, each so long at most, by Tokio's timer. Counts anew: call it before the layer is used or cloned.
    #[must_use]
    pub fn queue(self, depth: usize, longest: Duration) -> Self {
        Self { gate: Arc::new(Gate::new(self.gate.most, depth)), longest, ..self }
    }

    /// What to tell those who are shed; nothing if not called. It says nothing that the server knows: choose about as long as overload
    /// lasts.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Makes the answers to those who are shed, in place of a problem document (RFC 9457) or an answer of gRPC.
    #[must_use]
    pub fn answer(self, answer: impl Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        Self { answer: Some(Arc::new(answer)), ..self }
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        self.gate.most - self.gate.permits.available_permits()
    }

    /// Requests that queue.
    pub fn waiting(&self) -> usize {
        self.gate.queue.waiting()
    }

    /// Requests that had to queue, so far.
    pub fn queued(&self) -> u64 {
        self.gate.queued.get()
    }

    /// Requests that were answered with 503, so far.
    pub fn shed(&self) -> u64 {
        self.gate.shed.get()
    }
}

/// A request's permit to be under way.
struct Permit {
    _permit: OwnedSemaphorePermit,
    _present: Present,
}

impl Permit {
    fn of(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit, _present: Present::in_flight() }
    }
}

impl Gate {
    fn new(most: usize, depth: usize) -> Self {
        let permits = Arc::new(Semaphore::new(most));
        Self { most, permits, queue: Waiters::new(depth), queued: Register::new(0), shed: Register::new(0) }
    }
}

impl<S> Layer<S> for ShedLayer {
    type Service = Shed<S>;

    fn layer(&self, inner: S) -> Shed<S> {
        Shed { inner, layer: self.clone() }
    }
}

impl fmt::Debug for ShedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ShedLayer");
        debug.field("in_flight", &self.in_flight()).field("waiting", &self.waiting()).field("shed", &self.shed()).finish_non_exhaustive()
    }
}

/// A service that sheds load: see [`ShedLayer`].
#[derive(Clone, Debug)]
pub struct Shed<S> {
    inner: S,
    layer: ShedLayer,
}

impl<S, B, R> Service<Request<B>> for Shed<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ShedFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gate = &self.layer.gate;
        if let Ok(permit) = Arc::clone(&gate.permits).try_acquire_owned() {
            return ShedFuture { stage: Stage::Serving { future: self.inner.call(request), permit: Some(Permit::of(permit)) } };
        }
        // It is not called now: this lets go of what it may hold since it was ready, such as a permit.
        self.inner = self.inner.clone();
        let refusal = Refusal { layer: self.layer.clone(), asked: Asked::by(request.method(), request.headers()) };
        let Some(place) = gate.queue.enter() else { return ShedFuture { stage: Stage::Shed { refusal } } };
        gate.queued.add(1);
        let permit = Box::pin(Arc::clone(&gate.permits).acquire_owned());
        let timer = tokio::time::sleep(self.layer.longest);
        let queued = Queued { permit, held: Some((self.inner.clone(), request)), refusal, _place: place, _present: Present::queued() };
        ShedFuture { stage: Stage::Queued { queued, timer } }
    }
}

/// What a request is told that is shed.
#[derive(Clone)]
struct Refusal {
    layer: ShedLayer,
    asked: Asked,
}

impl Refusal {
    /// It is shed.
    fn response(&self) -> Response<Bytes> {
        let ShedLayer { gate, retry_after, answer, .. } = &self.layer;
        gate.shed.add(1);
        observe::shed();
        Rejection::new(Kind::Overloaded, &[], *retry_after, self.asked).response(answer.as_ref())
    }
}

/// Boxed, as it has no name; only who queues makes one.
type NextPermit = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A request in the queue.
struct Queued<S, B> {
    permit: NextPermit,
    held: Option<(S, Request<B>)>,
    refusal: Refusal,
    _place: Place,
    _present: Present,
}

pin_project! {
    /// The answer to a request: the service's, or 503. Dropped in the queue, it leaves its place.
    pub struct ShedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S, S::Future, B>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, F, B> {
        Queued { queued: Queued<S, B>, #[pin] timer: Sleep },
        Admitted { held: Option<(S, Request<B>, Permit)> },
        Serving { #[pin] future: F, permit: Option<Permit> },
        Shed { refusal: Refusal },
    }
}

impl<S, B, R> Future for ShedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageProjection::Queued { queued, timer } => match queued.permit.as_mut().poll(context) {
                    Poll::Ready(Ok(permit)) => {
                        let (service, request) = queued.held.take().expect("polled after it was done");
                        Stage::Admitted { held: Some((service, request, Permit::of(permit))) }
                    }
                    Poll::Ready(Err(_)) => Stage::Shed { refusal: queued.refusal.clone() },
                    Poll::Pending => {
                        ready!(timer.poll(context));
                        Stage::Shed { refusal: queued.refusal.clone() }
                    }
                },
                StageProjection::Admitted { held } => {
                    let (service, ..) = held.as_mut().expect("polled after it was done");
                    ready!(service.poll_ready(context))?;
                    let (mut service, request, permit) = held.take().expect("it was there");
                    Stage::Serving { future: service.call(request), permit: Some(permit) }
                }
                StageProjection::Serving { future, permit } => {
                    let response = ready!(future.poll(context));
                    drop(permit.take());
                    return Poll::Ready(response);
                }
                StageProjection::Shed { refusal } => return Poll::Ready(Ok(refusal.response().map(R::from))),
            };
            this.stage.set(next);
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ShedFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShedFuture").finish_non_exhaustive()
    }
}
