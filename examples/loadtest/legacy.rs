//! The limiter the load test holds tollgate against: a counter per tenant that starts anew at each second's edge.
//!
//! Its fault: a tenant may spend one window's count just before an edge and the next one's just after it, twice the
//! quota in next to no time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::gate::Gate;

/// A fixed-window counter. The windows are the whole seconds after `started`, so whoever knows it knows the edges.
pub(crate) struct LegacyWindow {
    limit: u32,
    started: Instant,
    windows: Mutex<HashMap<String, Window>>,
}

#[derive(Default)]
struct Window {
    second: u64,
    admitted: u32,
}

impl LegacyWindow {
    pub(crate) fn new(limit: u32, started: Instant) -> Self {
        Self { limit, started, windows: Mutex::default() }
    }

    /// The decision for a request that arrives `at` this long after the start.
    fn admit_at(&self, tenant: &str, at: Duration) -> Result<(), Duration> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry(tenant.to_owned()).or_default();
        // A thread that read its clock before an edge and got here after another had crossed it counts to the new window.
        if at.as_secs() > window.second {
            *window = Window { second: at.as_secs(), admitted: 0 };
        }
        if window.admitted < self.limit {
            window.admitted += 1;
            Ok(())
        } else {
            Err(Duration::from_secs(window.second + 1).saturating_sub(at))
        }
    }
}

impl Gate for LegacyWindow {
    fn admit(&self, tenant: &str) -> Result<(), Duration> {
        self.admit_at(tenant, self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn admitted(counter: &LegacyWindow, tenant: &str, requests: u32, at: Duration) -> usize {
        (0..requests).filter(|_| counter.admit_at(tenant, at).is_ok()).count()
    }

    #[test]
    fn a_window_admits_its_limit_and_the_next_one_starts_anew() {
        let counter = LegacyWindow::new(100, Instant::now());
        assert_eq!(admitted(&counter, "a", 120, Duration::ZERO), 100);
        assert_eq!(admitted(&counter, "a", 120, 999 * MS), 0);
        assert_eq!(admitted(&counter, "a", 120, 1_000 * MS), 100);
    }

    #[test]
    fn twice_the_limit_passes_around_an_edge() {
        let counter = LegacyWindow::new(100, Instant::now());
        let around = admitted(&counter, "a", 120, 999 * MS) + admitted(&counter, "a", 120, 1_000 * MS);
        assert_eq!(around, 200);
    }

    #[test]
    fn a_denial_says_how_far_the_edge_is() {
        let counter = LegacyWindow::new(1, Instant::now());
        assert_eq!(counter.admit_at("a", 2_250 * MS), Ok(()));
        assert_eq!(counter.admit_at("a", 2_250 * MS), Err(750 * MS));
    }

    #[test]
    fn tenants_are_counted_apart() {
        let counter = LegacyWindow::new(100, Instant::now());
        assert_eq!(admitted(&counter, "a", 120, Duration::ZERO), 100);
        assert_eq!(admitted(&counter, "b", 120, Duration::ZERO), 100);
    }

    #[test]
    fn a_late_reading_does_not_open_an_old_window_again() {
        let counter = LegacyWindow::new(1, Instant::now());
        assert_eq!(counter.admit_at("a", 1_000 * MS), Ok(()));
        assert_eq!(counter.admit_at("a", 999 * MS), Err(1_001 * MS));
        assert_eq!(counter.admit_at("a", 1_000 * MS), Err(1_000 * MS));
    }
}
