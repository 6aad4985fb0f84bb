//! The same limits for both.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use governor::middleware::NoOpMiddleware;
use tollgate::http::{KeyExtractor, Policy};
use tollgate::{Limiter, Quota};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

#[derive(Clone, Copy)]
pub(crate) enum Amount {
    /// Refills faster than requests come: every one is allowed.
    Ample,
    /// One a day: the first is allowed, and no other.
    Spent,
}

pub(crate) type Governor = GovernorLayer<PeerIpKeyExtractor, NoOpMiddleware, Body>;

pub(crate) fn policy(name: &str, amount: Amount, key: impl KeyExtractor + 'static) -> Policy {
    let quota = match amount {
        Amount::Ample => Quota::per_second(1_000_000_000),
        Amount::Spent => Quota::per_day(1),
    };
    Policy::new(name, Arc::new(Limiter::new(quota)), key)
}

/// By the peer's address, which is its default.
pub(crate) fn governor(amount: Amount) -> Governor {
    let config = match amount {
        Amount::Ample => GovernorConfigBuilder::default().const_per_nanosecond(1).const_burst_size(1_000_000_000).finish(),
        Amount::Spent => GovernorConfigBuilder::default().const_period(Duration::from_secs(86_400)).const_burst_size(1).finish(),
    };
    GovernorLayer::new(config.expect("neither is zero"))
}
