//! When each request is due: absolute times, fixed before the first one is sent.

use std::time::Duration;

/// How a tenant spreads its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Evenly.
    Steady,
    /// In a burst just before an edge between two seconds and a burst as large just after it.
    Herd,
}

/// What is sent: `clients` tenants, each at `rps` requests a second on average, for `seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) rps: u32,
    pub(crate) seconds: u32,
    pub(crate) clients: u32,
    pub(crate) pattern: Pattern,
}

/// One request to send: by which tenant, and how long after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shot {
    pub(crate) tenant: usize,
    pub(crate) due: Duration,
}

/// Strikes are this far apart. A herd leaves one edge between two of them out: a counter whose window was spent just
/// after an edge has nothing left just before the next. It also makes `2 * rps` requests a strike `rps` a second.
const STRIKES_EVERY: u32 = 2;
/// How long a herd's burst lasts.
const BURST: Duration = Duration::from_millis(20);
/// How long before the edge the first of the two bursts begins. Well more than it lasts, so that a busy machine still
/// answers it before the edge.
const LEAD: Duration = Duration::from_millis(50);

impl Load {
    /// Every request, by time.
    pub(crate) fn shots(self) -> Box<dyn Iterator<Item = Shot> + Send> {
        match self.pattern {
            Pattern::Steady => Box::new(self.spread(self.rps * self.seconds, Duration::ZERO, self.duration())),
            Pattern::Herd => {
                Box::new(self.edges().flat_map(move |edge| {
                    self.spread(self.rps, edge.saturating_sub(LEAD), BURST).chain(self.spread(self.rps, edge, BURST))
                }))
            }
        }
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// The edges a herd strikes around: 1 s, 3 s, 5 s, ... as long as the burst after it is still within the run.
    fn edges(self) -> impl Iterator<Item = Duration> {
        (1..self.seconds).step_by(STRIKES_EVERY as usize).map(|second| Duration::from_secs(second.into()))
    }

    /// `each` requests by each tenant, the tenants in turn, evenly over `span` from `begin` on.
    fn spread(self, each: u32, begin: Duration, span: Duration) -> impl Iterator<Item = Shot> {
        let total = u64::from(each) * u64::from(self.clients);
        let mut tenants = (0..self.clients as usize).cycle();
        (0..total).map_while(move |index| {
            let offset = span.as_nanos() * u128::from(index) / u128::from(total);
            let due = begin + Duration::from_nanos(u64::try_from(offset).ok()?);
            Some(Shot { tenant: tenants.next()?, due })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(pattern: Pattern) -> Load {
        Load { rps: 120, seconds: 10, clients: 1, pattern }
    }

    fn within(load: Load, from_ms: u64, to_ms: u64) -> usize {
        let range = Duration::from_millis(from_ms)..Duration::from_millis(to_ms);
        load.shots().filter(|shot| range.contains(&shot.due)).count()
    }

    #[test]
    fn steady_is_even() {
        assert_eq!(load(Pattern::Steady).shots().count(), 1_200);
        for begin in (0..10_000).step_by(100) {
            assert_eq!(within(load(Pattern::Steady), begin, begin + 100), 12);
        }
    }

    #[test]
    fn a_herd_strikes_on_both_sides_of_every_second_edge() {
        assert_eq!(load(Pattern::Herd).shots().count(), 1_200);
        for edge in [1_000, 3_000, 5_000, 7_000, 9_000] {
            assert_eq!(within(load(Pattern::Herd), edge - 50, edge - 30), 120);
            assert_eq!(within(load(Pattern::Herd), edge, edge + 20), 120);
        }
    }

    #[test]
    fn a_herd_stays_within_the_run() {
        let three_seconds = Load { seconds: 3, ..load(Pattern::Herd) };
        assert_eq!(three_seconds.shots().count(), 240);
        assert!(three_seconds.shots().all(|shot| shot.due < three_seconds.duration()));
    }

    #[test]
    fn tenants_send_alike_and_take_turns() {
        for pattern in [Pattern::Steady, Pattern::Herd] {
            let shots: Vec<Shot> = Load { clients: 3, ..load(pattern) }.shots().collect();
            assert_eq!(shots.len(), 3_600);
            assert!(shots.iter().enumerate().all(|(index, shot)| shot.tenant == index % 3));
            assert!(shots.is_sorted_by_key(|shot| shot.due));
        }
    }
}
