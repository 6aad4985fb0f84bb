//! What the server asks, and the two limiters that can answer.

use std::time::{Duration, Instant};

use tollgate::{Limiter, Quota};

use crate::legacy::LegacyWindow;

/// Tokens a second, and the burst, of either limiter for each tenant.
pub(crate) const QUOTA: u32 = 100;

/// A rate limiter as the server sees it.
pub(crate) trait Gate: Send + Sync {
    /// Admits one request of `tenant`, or says how long it has to wait.
    fn admit(&self, tenant: &str) -> Result<(), Duration>;
}

/// Which limiter stands at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Legacy,
    Tollgate,
}

/// What a limiter goes by. `None`: it is the target's own, and not known here.
pub(crate) fn name(limiter: Option<Kind>) -> &'static str {
    match limiter {
        Some(Kind::Legacy) => "legacy",
        Some(Kind::Tollgate) => "tollgate",
        None => "target",
    }
}

impl Kind {
    /// A new gate for a run that begins at `started`.
    pub(crate) fn gate(self, started: Instant) -> Box<dyn Gate> {
        match self {
            Self::Legacy => Box::new(LegacyWindow::new(QUOTA, started)),
            Self::Tollgate => Box::new(Tollgate(Limiter::new(Quota::per_second(QUOTA.into())))),
        }
    }
}

struct Tollgate(Limiter);

impl Gate for Tollgate {
    fn admit(&self, tenant: &str) -> Result<(), Duration> {
        match self.0.check(tenant) {
            Ok(_) => Ok(()),
            // Always some: a single token is never more than the burst.
            Err(denied) => Err(denied.retry_after().unwrap_or_default()),
        }
    }
}
