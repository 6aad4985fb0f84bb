//! What answers say about limits: the header fields, all with one rule for rounding.

use core::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use crate::decision::{Allowed, Denied};

/// Which version of the IETF's draft on rate limit fields to speak; the draft still moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy: "day";q=100;w=86400` and `RateLimit: "day";r=50;t=30`.
    #[default]
    Draft10,
    /// Draft 7, which knows one limit and no name: `RateLimit-Policy: 100;w=86400` and `RateLimit: limit=100, remaining=50, reset=30`. Here
    /// too, reset is the time to additional quota.
    Draft07,
}

/// What `X-RateLimit-Reset` says: servers differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds until the bucket is full.
    Delay,
    /// Seconds since 1970 at which it is, by the system's clock.
    Time,
}

/// Which header fields answers bear. By default `Retry-After` and [`Dialect::Draft10`], on denials alone.
///
/// Seconds are rounded up, tokens down. A field that the application set itself is left as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    dialect: Option<Dialect>,
    customary: Option<Reset>,
    on_allowed: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self { dialect: Some(Dialect::default()), customary: None, on_allowed: false }
    }
}

impl Fields {
    /// `Retry-After` alone.
    pub const fn none() -> Self {
        Self { dialect: None, customary: None, on_allowed: false }
    }

    /// `RateLimit-Policy` and `RateLimit`.
    #[must_use]
    pub const fn dialect(self, dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), ..self }
    }

    /// `X-RateLimit-Limit` (the burst), `X-RateLimit-Remaining` and `X-RateLimit-Reset`: of the limit that denied, or that has the least
    /// left.
    #[must_use]
    pub const fn customary(self, reset: Reset) -> Self {
        Self { customary: Some(reset), ..self }
    }

    /// On allowed answers too. Each then costs some allocations.
    #[must_use]
    pub const fn on_allowed(self) -> Self {
        Self { on_allowed: true, ..self }
    }

    pub(super) const fn are_on_allowed(self) -> bool {
        self.on_allowed && (self.dialect.is_some() || self.customary.is_some())
    }

    /// The fields for these limits, in the order of policies.
    pub(super) fn of(self, standings: &[Standing<'_>]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        let Some(first) = standings.iter().max_by_key(|standing| standing.urgency()) else { return fields };
        match self.dialect {
            Some(Dialect::Draft10) => {
                insert(&mut fields, POLICY, &list(standings, Standing::policy));
                insert(&mut fields, LIMIT, &list(standings, Standing::limit));
            }
            Some(Dialect::Draft07) => {
                insert(&mut fields, POLICY, &format!("{};w={}", first.burst(), first.window()));
                let (burst, remaining, reset) = (first.burst(), first.remaining(), seconds(first.next_after()));
                insert(&mut fields, LIMIT, &format!("limit={burst}, remaining={remaining}, reset={reset}"));
            }
            None => {}
        }
        if let Some(reset) = self.customary {
            let delay = seconds(first.reset_after());
            let reset = match reset {
                Reset::Delay => delay,
                Reset::Time => delay.saturating_add(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, seconds)),
            };
            for (name, number) in [(X_LIMIT, first.burst()), (X_REMAINING, first.remaining()), (X_RESET, reset.min(LARGEST))] {
                fields.insert(name, HeaderValue::from(number));
            }
        }
        fields
    }
}

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const LARGEST: u64 = 999_999_999_999_999;

/// How one policy decided.
pub(super) struct Standing<'a> {
    /// Printable ASCII.
    pub(super) name: &'a str,
    pub(super) answer: Result<Allowed, Denied>,
}

impl Standing<'_> {
    fn burst(&self) -> u64 {
        self.answer.map_or_else(|denied| denied.limit(), |allowed| allowed.limit()).min(LARGEST)
    }

    fn remaining(&self) -> u64 {
        self.answer.map_or_else(|denied| denied.remaining(), |allowed| allowed.remaining()).min(LARGEST)
    }

    fn reset_after(&self) -> Duration {
        self.answer.map_or_else(|denied| denied.reset_after(), |allowed| allowed.reset_after())
    }

    fn next_after(&self) -> Duration {
        self.answer.map_or_else(|denied| denied.next_after(), |allowed| allowed.next_after())
    }

    /// The seconds in which an empty bucket fills, at least 1: so no faster rate is told than the real one.
    fn window(&self) -> u64 {
        seconds(self.answer.map_or_else(|denied| denied.fills_in(), |allowed| allowed.fills_in())).max(1)
    }

    /// The limit to speak of where there is room for one: the one that denied, for the longest; else the one with the least left.
    fn urgency(&self) -> impl Ord + use<> {
        let wait = self.answer.err().map(|denied| (denied.retry_after().is_none(), denied.retry_after()));
        (wait, core::cmp::Reverse(self.remaining()))
    }

    fn policy(&self, list: &mut String) {
        _ = write!(list, "{};q={};w={}", Quoted(self.name), self.burst(), self.window());
    }

    fn limit(&self, list: &mut String) {
        _ = write!(list, "{};r={}", Quoted(self.name), self.remaining());
        if !self.next_after().is_zero() {
            _ = write!(list, ";t={}", seconds(self.next_after()));
        }
    }
}

/// A string of a structured field.
struct Quoted<'a>(&'a str);

impl core::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            if matches!(char, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(char)?;
        }
        f.write_char('"')
    }
}

fn list<'a>(standings: &[Standing<'a>], item: fn(&Standing<'a>, &mut String)) -> String {
    let mut list = String::new();
    for standing in standings {
        if !list.is_empty() {
            list.push_str(", ");
        }
        item(standing, &mut list);
    }
    list
}

fn insert(fields: &mut HeaderMap, name: HeaderName, value: &str) {
    // Names are printable ASCII, and so is all else.
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
}

/// `Retry-After`: whole seconds, rounded up, at least 1.
pub(super) fn retry_after(fields: &mut HeaderMap, wait: Option<Duration>) {
    if let Some(wait) = wait {
        fields.insert(RETRY_AFTER, HeaderValue::from(seconds(wait).max(1)));
    }
}

/// Adds what is not there yet.
pub(super) fn add_missing(to: &mut HeaderMap, fields: HeaderMap) {
    for (name, value) in fields {
        if let Some(name) = name
            && !to.contains_key(&name)
        {
            to.insert(name, value);
        }
    }
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).min(LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bucket, Clock, ManualClock, Quota};

    #[test]
    fn seconds_are_rounded_up() {
        for (nanos, whole) in [(0, 0), (100_000, 1), (900_000_000, 1), (1_000_000_000, 1), (1_000_000_001, 2), (3_500_000_000, 4)] {
            assert_eq!(seconds(Duration::from_nanos(nanos)), whole, "{nanos} ns");
        }
        assert_eq!(seconds(Duration::MAX), LARGEST);
    }

    fn standing(name: &str, quota: Quota, n: u64) -> Standing<'_> {
        let clock = ManualClock::new();
        let bucket = Bucket::with_clock(quota, clock.clone());
        Standing { name, answer: bucket.check_at(n, clock.now()) }
    }

    fn lines(fields: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII"))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_fields_of_draft_10_name_each_policy() {
        let fields = Fields::default().of(&[standing("default", Quota::per_minute(10), 1)]);
        assert_eq!(lines(&fields), [r#"ratelimit-policy: "default";q=10;w=60"#, r#"ratelimit: "default";r=9;t=6"#]);
        let fields = Fields::default().of(&[standing(r#"a"\"#, Quota::per_second(1_000).burst(5), 0), standing("b", Quota::per_day(1), 2)]);
        let expected = [r#"ratelimit-policy: "a\"\\";q=5;w=1, "b";q=1;w=86400"#, r#"ratelimit: "a\"\\";r=5, "b";r=1"#];
        assert_eq!(lines(&fields), expected);
    }

    #[test]
    fn where_there_is_room_for_one_limit_it_is_the_one_that_denied() {
        let fields = Fields::none().dialect(Dialect::Draft07).customary(Reset::Delay);
        let standings = [standing("low", Quota::per_hour(100).burst(2), 2), standing("denied", Quota::per_second(10), 11)];
        let expected = [
            "ratelimit-policy: 10;w=1",
            "ratelimit: limit=10, remaining=10, reset=0",
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 10",
            "x-ratelimit-reset: 0",
        ];
        assert_eq!(lines(&fields.of(&standings)), expected);
        let standings = [standing("high", Quota::per_second(10), 1), standing("low", Quota::per_hour(100).burst(2), 2)];
        assert!(lines(&fields.of(&standings)).contains(&"x-ratelimit-reset: 72".to_owned()));
    }

    #[test]
    fn integers_have_at_most_fifteen_digits() {
        let fields = Fields::default().of(&[standing("much", Quota::per_day(1_209_600_000_000_000), 1)]);
        let expected = [format!(r#"ratelimit-policy: "much";q={LARGEST};w=86400"#), format!(r#"ratelimit: "much";r={LARGEST};t=1"#)];
        assert_eq!(lines(&fields), expected);
    }
}
