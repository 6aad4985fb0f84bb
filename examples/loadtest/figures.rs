//! What a run's samples and admissions come to.

use std::{collections::BTreeMap, time::Duration};

use crate::{client::Answer, driver::Sample, server::Admission};

/// The width of a bar of the plot.
pub(crate) const SLOT: Duration = Duration::from_millis(100);

/// Requests by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) success: usize,
    pub(crate) rate_limited: usize,
    pub(crate) errors: usize,
}

/// One run in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) tally: Tally,
    /// Of the requests that were answered; `None` when none was.
    pub(crate) mean_latency: Option<Duration>,
    pub(crate) p99_latency: Option<Duration>,
    /// The most admitted of one tenant within any one second, wherever that second begins.
    pub(crate) worst_second: usize,
    /// The most admitted of one tenant, over any stretch of time, beyond what the rate alone gives in it.
    pub(crate) largest_burst: f64,
}

impl Tally {
    pub(crate) fn of(samples: &[Sample]) -> Self {
        samples.iter().fold(Self::default(), |mut tally, sample| {
            match sample.answer {
                Ok(Answer::Admitted) => tally.success += 1,
                Ok(Answer::Limited) => tally.rate_limited += 1,
                Err(_) => tally.errors += 1,
            }
            tally
        })
    }

    pub(crate) fn sent(self) -> usize {
        self.success + self.rate_limited + self.errors
    }
}

impl Figures {
    /// `rate` is the tokens a second that `largest_burst` is measured against.
    pub(crate) fn of(samples: &[Sample], admissions: &[Admission], rate: u32) -> Self {
        let mut latencies: Vec<Duration> = samples.iter().filter(|sample| sample.answer.is_ok()).map(|sample| sample.latency).collect();
        latencies.sort_unstable();
        let times = times_by_tenant(admissions);
        Self {
            tally: Tally::of(samples),
            mean_latency: mean(&latencies),
            p99_latency: percentile(&latencies, 99),
            worst_second: times.values().map(|times| worst_second(times)).max().unwrap_or(0),
            largest_burst: times.values().map(|times| largest_burst(times, rate)).fold(0.0, f64::max),
        }
    }
}

/// Each tenant's admission times, sorted: the server logs them as its threads come by.
fn times_by_tenant(admissions: &[Admission]) -> BTreeMap<&str, Vec<Duration>> {
    let mut tenants: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for admission in admissions {
        tenants.entry(&admission.tenant).or_default().push(admission.at);
    }
    for times in tenants.values_mut() {
        times.sort_unstable();
    }
    tenants
}

fn mean(latencies: &[Duration]) -> Option<Duration> {
    let count = u32::try_from(latencies.len()).ok()?;
    latencies.iter().sum::<Duration>().checked_div(count)
}

/// By nearest rank: the smallest value that at least `percent` of all are no larger than.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// The most of `sorted` within one second, its end not included.
fn worst_second(sorted: &[Duration]) -> usize {
    let mut first = 0;
    let mut worst = 0;
    for (index, time) in sorted.iter().enumerate() {
        while time.saturating_sub(sorted[first]) >= Duration::from_secs(1) {
            first += 1;
        }
        worst = worst.max(index + 1 - first);
    }
    worst
}

/// The highest level of a bucket that each of `sorted` fills by one and that leaks `rate` a second.
fn largest_burst(sorted: &[Duration], rate: u32) -> f64 {
    let mut level = 0.0_f64;
    let mut highest = 0.0_f64;
    let mut before = Duration::ZERO;
    for time in sorted {
        let leaked = time.saturating_sub(before).as_secs_f64() * f64::from(rate);
        level = (level - leaked).max(0.0) + 1.0;
        highest = highest.max(level);
        before = *time;
    }
    highest
}

/// How many of `times` fall into each slot from 0 on.
pub(crate) fn per_slot(times: impl IntoIterator<Item = Duration>) -> Vec<usize> {
    let mut slots = Vec::new();
    for time in times {
        let slot = usize::try_from(time.as_nanos() / SLOT.as_nanos()).unwrap_or(usize::MAX);
        if slot >= slots.len() {
            slots.resize(slot + 1, 0);
        }
        slots[slot] += 1;
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Failure;

    fn millis(values: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        values.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn a_percentile_is_the_value_at_the_nearest_rank() {
        let to_hundred = millis(1..=100);
        assert_eq!(percentile(&to_hundred, 99), Some(Duration::from_millis(99)));
        assert_eq!(percentile(&to_hundred, 50), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&to_hundred, 100), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&millis(1..=1_200), 99), Some(Duration::from_millis(1_188)));
        assert_eq!(percentile(&millis([7]), 99), Some(Duration::from_millis(7)));
        assert_eq!(percentile(&[], 99), None);
    }

    #[test]
    fn the_mean_of_nothing_is_nothing() {
        assert_eq!(mean(&millis([1, 2, 6])), Some(Duration::from_millis(3)));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn the_worst_second_may_begin_anywhere() {
        assert_eq!(worst_second(&[]), 0);
        assert_eq!(worst_second(&millis([5])), 1);
        assert_eq!(worst_second(&millis([0, 900, 1_100, 1_500, 1_899, 1_900, 5_000])), 4);
    }

    #[test]
    fn a_second_does_not_include_its_end() {
        assert_eq!(worst_second(&millis([0, 1_000])), 1);
        assert_eq!(worst_second(&millis([0, 999])), 2);
    }

    #[test]
    fn a_burst_is_what_the_rate_does_not_explain() {
        let at_once = millis([500; 40]);
        assert!((largest_burst(&at_once, 100) - 40.0).abs() < 1e-9);
        let at_the_rate = millis((0..500).map(|index| index * 10));
        assert!((largest_burst(&at_the_rate, 100) - 1.0).abs() < 1e-9);
        let twice_within_100_ms = millis([1_000; 40].into_iter().chain([1_100; 40]));
        assert!((largest_burst(&twice_within_100_ms, 100) - 70.0).abs() < 1e-9);
    }

    #[test]
    fn slots_are_a_tenth_of_a_second() {
        assert_eq!(per_slot(millis([0, 99, 100, 350, 399])), [2, 1, 0, 2]);
        assert_eq!(per_slot([]), [0; 0]);
    }

    #[test]
    fn figures_look_at_tenants_apart_and_at_times_in_order() {
        let admission = |tenant: &str, ms| Admission { tenant: tenant.to_owned(), at: Duration::from_millis(ms) };
        let admissions = [admission("a", 1_200), admission("b", 300), admission("a", 300), admission("a", 250)];
        let sample = |ms, answer| Sample { tenant: 0, due: Duration::ZERO, latency: Duration::from_millis(ms), answer };
        let samples = [sample(1, Ok(Answer::Admitted)), sample(3, Ok(Answer::Limited)), sample(5_000, Err(Failure::TooLate))];
        let figures = Figures::of(&samples, &admissions, 100);
        assert_eq!(figures.tally, Tally { success: 1, rate_limited: 1, errors: 1 });
        assert_eq!(figures.tally.sent(), 3);
        assert_eq!(figures.worst_second, 3);
        assert_eq!(figures.mean_latency, Some(Duration::from_millis(2)));
        assert_eq!(figures.p99_latency, Some(Duration::from_millis(3)));
    }
}
