//! What Prometheus is told: what the layers report by themselves, and how their tables stand.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tollgate::{Limiter, Stats};

/// The version of the format, as Prometheus wants it named.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Records what is reported from here on, in the whole process.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new().install_recorder()
}

pub(crate) fn describe() {
    describe_counter!("tollgate_decisions_total", "requests decided on, by policy and outcome");
    describe_counter!("tollgate_shed_total", "requests answered with 503, as too many were under way");
    describe_counter!("tollgate_evicted_total", "buckets dropped, by policy and by whether they owed tokens");
    describe_gauge!("tollgate_in_flight", "requests under way");
    describe_gauge!("tollgate_queued", "requests that wait to be under way");
    describe_gauge!("tollgate_keys", "buckets held, by policy");
    describe_gauge!("tollgate_keys_in_debt", "buckets held that owe tokens, by policy; an estimate");
    describe_gauge!("tollgate_keys_most", "the most buckets that can be held, by policy");
    describe_gauge!("tollgate_memory_bytes", "memory of the table, by policy");
    describe_counter!("ingest_events_total", "events taken in");
    describe_counter!("ingest_event_bytes_total", "their bytes");
}

/// All figures as they stand now.
pub(crate) fn render(handle: &PrometheusHandle, limiters: [(&'static str, &Limiter); 2]) -> impl IntoResponse + use<> {
    // There from the start, so that the first one is seen as an increase.
    gauge!("tollgate_in_flight").increment(0.0);
    gauge!("tollgate_queued").increment(0.0);
    counter!("tollgate_shed_total").increment(0);
    for (policy, limiter) in limiters {
        let Stats { live, in_debt, capacity, memory, evicted_full, evicted_in_debt, .. } = limiter.stats();
        gauge!("tollgate_keys", "policy" => policy).set(live as f64);
        gauge!("tollgate_keys_in_debt", "policy" => policy).set(in_debt as f64);
        gauge!("tollgate_keys_most", "policy" => policy).set(capacity as f64);
        gauge!("tollgate_memory_bytes", "policy" => policy).set(memory as f64);
        counter!("tollgate_evicted_total", "policy" => policy, "state" => "full").absolute(evicted_full);
        counter!("tollgate_evicted_total", "policy" => policy, "state" => "in_debt").absolute(evicted_in_debt);
    }
    ([(CONTENT_TYPE, FORMAT)], handle.render())
}
