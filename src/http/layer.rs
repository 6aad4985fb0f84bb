use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tower_layer::Layer;

use super::answer::Rejection;
use super::fields::Fields;
use super::head::Head;
use super::policy::Policy;
use super::rules::{MOST_POLICIES, Rules};
use super::service::RateLimit;
use crate::wait::MaxWait;

/// Holds the requests of a service to [policies](Policy): see [the module](super).
///
/// Cloned, or applied to several routes, it goes on counting together: the limiters are shared.
///
/// # Bodies
/// Answers keep the service's type of body, and a rejection makes one from `Bytes`, as axum's `Body` and http-body-util's `Full` can be made.
/// Where the service is tonic's, or has a `BoxBody`, put an [`AnyBodyLayer`](super::AnyBodyLayer) after this one.
///
/// # What it costs
/// A request that is admitted at once allocates nothing, unless [`Fields::on_allowed`] is asked for. Nothing blocks.
#[derive(Clone)]
pub struct RateLimitLayer {
    rules: Arc<Rules>,
}

impl RateLimitLayer {
    /// One policy; a request over its quota is rejected with 429.
    pub fn new(policy: Policy) -> Self {
        Self { rules: Arc::new(Rules::new(policy)) }
    }

    /// One policy more: a request is charged under all that apply to it, or under none. Each has a limiter of its own.
    ///
    /// # Panics
    /// If it is the ninth.
    #[must_use]
    pub fn and(self, policy: Policy) -> Self {
        assert!(self.rules.policies.len() < MOST_POLICIES, "a layer has at most {MOST_POLICIES} policies");
        self.with(|rules| rules.policies.push(policy))
    }

    /// Lets requests wait, up to a bound, and rejects only those that would wait longer. They wait in the order in which they came. A
    /// client that goes away meanwhile gives its place and its tokens back, as soon as the server drops the request. Needs Tokio's timer.
    #[must_use]
    pub fn wait(self, max_wait: impl Into<MaxWait>) -> Self {
        let max_wait = max_wait.into();
        self.with(|rules| rules.max_wait = Some(max_wait))
    }

    /// Passes some requests through uncounted: a health check, say.
    #[must_use]
    pub fn skip(self, skip: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.skip = Some(Arc::new(skip)))
    }

    /// Only reports: those that would be rejected pass, uncharged, and those that would wait pass at once, charged. For `metrics` and
    /// `tracing` to tell what the policies would do.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        self.with(|rules| rules.dry_run = dry_run)
    }

    /// Which header fields answers bear.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        self.with(|rules| rules.fields = fields)
    }

    /// Makes the rejections, in place of a problem document (RFC 9457) or an answer of gRPC. The header fields are added, where they are
    /// not set.
    #[must_use]
    pub fn answer(self, answer: impl Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.answer = Some(Arc::new(answer)))
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.rules))
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { policies, max_wait, dry_run, fields, .. } = &*self.rules;
        let mut debug = f.debug_struct("RateLimitLayer");
        debug.field("policies", policies).field("max_wait", max_wait).field("dry_run", dry_run).field("fields", fields);
        debug.finish_non_exhaustive()
    }
}
