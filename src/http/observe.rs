//! What the web layer reports to `metrics` and `tracing`; nothing, and at no cost, without these features.

use std::sync::Arc;
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

/// A policy's name, and what its decisions are reported under, made once: a report allocates nothing here.
///
/// No label names the key: there may be millions, and a client makes them up.
#[derive(Clone)]
pub(super) struct Subject {
    name: Arc<str>,
    #[cfg(feature = "metrics")]
    keys: Arc<Keys>,
}

impl Subject {
    pub(super) fn new(name: String) -> Self {
        let name: Arc<str> = name.into();
        Self {
            #[cfg(feature = "metrics")]
            keys: Arc::new(Keys::of(&name)),
            name,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The policy decided.
    #[cfg_attr(
        not(any(feature = "metrics", feature = "tracing")),
        expect(unused_variables, clippy::unused_self, reason = "nobody is told")
    )]
    pub(super) fn decided(&self, outcome: Outcome) {
        #[cfg(feature = "metrics")]
        self.keys.count(outcome);
        #[cfg(feature = "tracing")]
        match outcome {
            Outcome::Allowed => tracing::trace!(policy = self.name(), "allowed"),
            Outcome::Waited(wait) => tracing::debug!(policy = self.name(), ?wait, "waits"),
            Outcome::Rejected => tracing::debug!(policy = self.name(), "rejected"),
            Outcome::WouldReject => tracing::debug!(policy = self.name(), "would be rejected"),
        }
    }
}

/// Under what the recorder knows a policy's metrics.
#[cfg(feature = "metrics")]
struct Keys {
    allowed: metrics::Key,
    waited: metrics::Key,
    rejected: metrics::Key,
    would_reject: metrics::Key,
    wait: metrics::Key,
}

#[cfg(feature = "metrics")]
impl Keys {
    fn of(name: &Arc<str>) -> Self {
        let policy = || metrics::Label::new("policy", Arc::clone(name));
        let decisions = |outcome: &'static str| {
            metrics::Key::from_parts("tollgate_decisions_total", vec![policy(), metrics::Label::new("outcome", outcome)])
        };
        Self {
            allowed: decisions("allowed"),
            waited: decisions("waited"),
            rejected: decisions("rejected"),
            would_reject: decisions("would_reject"),
            wait: metrics::Key::from_parts("tollgate_wait_seconds", vec![policy()]),
        }
    }

    fn count(&self, outcome: Outcome) {
        static METADATA: metrics::Metadata<'static> = metrics::Metadata::new(module_path!(), metrics::Level::INFO, Some(module_path!()));
        let key = match outcome {
            Outcome::Allowed => &self.allowed,
            Outcome::Waited(_) => &self.waited,
            Outcome::Rejected => &self.rejected,
            Outcome::WouldReject => &self.would_reject,
        };
        metrics::with_recorder(|recorder| {
            recorder.register_counter(key, &METADATA).increment(1);
            if let Outcome::Waited(wait) = outcome {
                recorder.register_histogram(&self.wait, &METADATA).record(wait);
            }
        });
    }
}

/// One request more under way or in the queue, until this is dropped.
pub(super) struct Present {
    #[cfg(feature = "metrics")]
    gauge: metrics::Gauge,
}

impl Present {
    pub(super) fn in_flight() -> Self {
        #[cfg(feature = "metrics")]
        return Self::counted(metrics::gauge!("tollgate_in_flight"));
        #[cfg(not(feature = "metrics"))]
        Self {}
    }

    pub(super) fn queued() -> Self {
        #[cfg(feature = "metrics")]
        return Self::counted(metrics::gauge!("tollgate_queued"));
        #[cfg(not(feature = "metrics"))]
        Self {}
    }

    #[cfg(feature = "metrics")]
    fn counted(gauge: metrics::Gauge) -> Self {
        gauge.increment(1.0);
        Self { gauge }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Present {
    fn drop(&mut self) {
        self.gauge.decrement(1.0);
    }
}

/// A request was shed.
pub(super) fn shed() {
    #[cfg(feature = "metrics")]
    metrics::counter!("tollgate_shed_total").increment(1);
    #[cfg(feature = "tracing")]
    tracing::debug!("shed");
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use std::sync::Mutex;

    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;

    /// What was asked for, as text.
    #[derive(Default)]
    struct Asked(Mutex<Vec<String>>);

    impl Asked {
        fn note(&self, kind: &str, key: &Key) {
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            self.0.lock().expect("no panic").push(format!("{kind} {} {}", key.name(), labels.join(" ")));
        }
    }

    impl Recorder for Asked {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            self.note("counter", key);
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            self.note("gauge", key);
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            self.note("histogram", key);
            Histogram::noop()
        }
    }

    #[test]
    fn decisions_are_recorded_by_policy_and_outcome() {
        let asked = Asked::default();
        metrics::with_local_recorder(&asked, || {
            let subject = Subject::new("day".to_owned());
            for outcome in [Outcome::Allowed, Outcome::Waited(Duration::from_secs(1)), Outcome::Rejected, Outcome::WouldReject] {
                subject.decided(outcome);
            }
        });
        let expected = [
            "counter tollgate_decisions_total policy=day outcome=allowed",
            "counter tollgate_decisions_total policy=day outcome=waited",
            "histogram tollgate_wait_seconds policy=day",
            "counter tollgate_decisions_total policy=day outcome=rejected",
            "counter tollgate_decisions_total policy=day outcome=would_reject",
        ];
        assert_eq!(*asked.0.lock().expect("no panic"), expected);
    }
}
