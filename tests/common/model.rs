//! A bucket in exact rational arithmetic, in nanoseconds.

use std::fmt;
use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate::{Allowed, Denied, Quota};

/// The exact bucket: the moment at which it is full again, and what a token costs.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Nanoseconds per token.
    token: BigRational,
    pub(crate) burst: u64,
    pub(crate) full_at: BigRational,
    /// Zero where ticks are exact.
    tick: BigRational,
}

/// What a bucket answered, in plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) remaining: u64,
    /// Zero when allowed, `None` when no wait helps.
    pub(crate) retry_after: Option<u128>,
    pub(crate) reset_after: u128,
}

impl From<Result<Allowed, Denied>> for Answer {
    fn from(answer: Result<Allowed, Denied>) -> Self {
        let (remaining, retry_after, reset_after) = match &answer {
            Ok(allowed) => (allowed.remaining(), Some(0), allowed.reset_after()),
            Err(denied) => (denied.remaining(), denied.retry_after().map(|wait| wait.as_nanos()), denied.reset_after()),
        };
        Self { allowed: answer.is_ok(), remaining, retry_after, reset_after: reset_after.as_nanos() }
    }
}

/// An answer that differs from the model's by more than it may.
#[derive(Debug)]
pub(crate) struct Disagreement(pub(crate) String);

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Model {
    pub(crate) fn new(quota: Quota) -> Self {
        let token = BigRational::new(quota.period().as_nanos().into(), quota.tokens().into());
        let tick = if quota.is_exact() { 0.0 } else { quota.tick_nanos() };
        let tick = BigRational::from_float(tick).expect("a tick is a finite number");
        Self { token, burst: quota.capacity(), full_at: nanos(0), tick }
    }

    pub(crate) fn cost(&self, n: u64) -> BigRational {
        &self.token * BigInt::from(n)
    }

    pub(crate) fn debt(&self, now: u64) -> BigRational {
        (&self.full_at - nanos(now)).max(nanos(0))
    }

    /// How long after `now` until no more than `debt` is owed.
    fn until(&self, now: u64, debt: &BigRational) -> BigRational {
        (self.debt(now) - debt).max(nanos(0))
    }

    /// The wait of a call for `n` tokens, zero if it is allowed; `None` if no wait helps.
    pub(crate) fn wait(&self, now: u64, n: u64) -> Option<BigRational> {
        match n {
            0 => Some(nanos(0)),
            n if n > self.burst => None,
            n => Some(self.until(now, &self.cost(self.burst - n))),
        }
    }

    /// The call is admitted.
    pub(crate) fn charge(&mut self, now: u64, n: u64) {
        if n > 0 {
            self.full_at = nanos(now) + self.debt(now) + self.cost(n);
        }
    }

    /// How far a bucket may be off at a time: a tick, and by then a little of one, as its rate is rounded to 63 bits, or to one part in 2^63 of a
    /// tick per nanosecond.
    pub(crate) fn off(&self, time: BigRational) -> BigRational {
        if self.tick == nanos(0) {
            return nanos(0);
        }
        &self.tick + (&self.tick + nanos(1)) * time / BigRational::from_integer(BigInt::from(1_u64 << 63))
    }

    pub(crate) fn tokens_at_debt(&self, debt: &BigRational) -> BigInt {
        ((self.cost(self.burst) - debt) / &self.token).floor().to_integer().max(BigInt::ZERO)
    }

    /// Holds the answer to a call against the model's, and goes on from what was answered.
    ///
    /// Where the quota's ticks are not exact, a duration may be a tick off, and a call that is less than that from its moment may have been
    /// decided either way.
    pub(crate) fn follow(&mut self, now: u64, n: u64, answer: Answer) -> Result<(), Disagreement> {
        let (wait, off) = (self.wait(now, n), self.off(nanos(now)));
        let close = match &wait {
            Some(wait) if answer.allowed => *wait <= off,
            Some(wait) if *wait == nanos(0) => answer.retry_after.is_some_and(|after| self.is_near(now, after, &nanos(0))),
            _ => !answer.allowed,
        };
        self.expect(close, "the decision", now, n, answer)?;

        if answer.allowed {
            self.charge(now, n);
        }
        let retry = match (answer.retry_after, &wait) {
            (Some(0), _) if answer.allowed => true,
            // Past all that is counted, which is twenty years at least, nothing is refilled.
            (Some(after), Some(wait)) if after == Duration::MAX.as_nanos() => nanos(now) + wait >= nanos(20 * 366 * 86_400 * 1_000_000_000),
            (Some(after), Some(wait)) => after > 0 && self.is_near(now, after, wait),
            (after, wait) => after.is_none() && wait.is_none(),
        };
        self.expect(retry, "retry_after", now, n, answer)?;
        self.expect(self.is_near(now, answer.reset_after, &self.until(now, &nanos(0))), "reset_after", now, n, answer)?;

        let debt = self.debt(now);
        let most = self.tokens_at_debt(&(&debt - &off).max(nanos(0)));
        let least = self.tokens_at_debt(&(debt + off));
        let remaining = BigInt::from(answer.remaining);
        self.expect(least <= remaining && remaining <= most, "remaining", now, n, answer)
    }

    /// Whether `got` whole nanoseconds are what `exact` rounds up to, for some exact wait no further away than a bucket may be off at its end.
    /// Waits longer than a `Duration` count as the longest.
    pub(crate) fn is_near(&self, now: u64, got: u128, exact: &BigRational) -> bool {
        let (got, off) = (BigInt::from(got), self.off(nanos(now) + exact));
        let longest = BigInt::from(Duration::MAX.as_nanos());
        let earliest = (exact - &off).max(nanos(0)).ceil().to_integer().min(longest);
        let latest = (exact + off).ceil().to_integer();
        earliest <= got && got <= latest
    }

    fn expect(&self, holds: bool, what: &str, now: u64, n: u64, answer: Answer) -> Result<(), Disagreement> {
        if holds {
            return Ok(());
        }
        let text = format!("{what} of n = {n} at {now} ns: {answer:?}; the model then: full at {} ns", self.full_at);
        Err(Disagreement(text))
    }
}

pub(crate) fn nanos(count: u64) -> BigRational {
    BigRational::from_integer(count.into())
}
