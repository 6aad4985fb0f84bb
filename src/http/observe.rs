//! What the web layer reports to `metrics` and `tracing`; nothing, and at no cost, without these features.

use std::time::Duration;

/// How a policy decided on a request.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(any(feature = "metrics", feature = "tracing")), expect(dead_code, reason = "nobody is told"))]
pub(super) enum Outcome {
    Allowed,
    Waited(Duration),
    Rejected,
    /// It would have been rejected, but the layer only reports.
    WouldReject,
}

/// A policy decided. No label names the key: there may be millions, and a client makes them up.
#[cfg_attr(not(any(feature = "metrics", feature = "tracing")), expect(unused_variables, reason = "nobody is told"))]
pub(super) fn decided(policy: &str, outcome: Outcome) {
    #[cfg(feature = "metrics")]
    {
        let label = match outcome {
            Outcome::Allowed => "allowed",
            Outcome::Waited(_) => "waited",
            Outcome::Rejected => "rejected",
            Outcome::WouldReject => "would_reject",
        };
        metrics::counter!("tollgate_decisions_total", "policy" => policy.to_owned(), "outcome" => label).increment(1);
        if let Outcome::Waited(wait) = outcome {
            metrics::histogram!("tollgate_wait_seconds", "policy" => policy.to_owned()).record(wait);
        }
    }
    #[cfg(feature = "tracing")]
    match outcome {
        Outcome::Allowed => tracing::trace!(policy, "allowed"),
        Outcome::Waited(wait) => tracing::debug!(policy, ?wait, "waits"),
        Outcome::Rejected => tracing::debug!(policy, "rejected"),
        Outcome::WouldReject => tracing::debug!(policy, "would be rejected"),
    }
}

/// How many requests are under way, and how many wait to be.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "nobody is told"))]
pub(super) fn under_way(in_flight: usize, waiting: usize) {
    #[cfg(feature = "metrics")]
    {
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let (in_flight, waiting) = (in_flight as f64, waiting as f64);
        metrics::gauge!("tollgate_in_flight").set(in_flight);
        metrics::gauge!("tollgate_queued").set(waiting);
    }
}

/// A request was shed.
pub(super) fn shed() {
    #[cfg(feature = "metrics")]
    metrics::counter!("tollgate_shed_total").increment(1);
    #[cfg(feature = "tracing")]
    tracing::debug!("shed");
}
