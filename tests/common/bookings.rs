//! What else becomes of tokens in the exact bucket: booked, given back, used before they are there.

use num_bigint::BigInt;
use tollgate::{Denied, Peek};

use crate::exact::{Disagreement, Model, nanos};

/// A claim about the model and an answer.
fn expect(holds: bool, text: impl FnOnce() -> String) -> Result<(), Disagreement> {
    if holds { Ok(()) } else { Err(Disagreement(text())) }
}

impl Model {
    /// The shortest wait, in whole nanoseconds, of a booking of `n` tokens; `None` if no wait helps.
    pub(crate) fn whole_wait(&self, now: u64, n: u64) -> Option<u128> {
        let wait = self.wait(now, n)?.ceil().to_integer();
        Some(wait.try_into().expect("less than 2^128 ns"))
    }

    /// Holds the answer to a booking of `n` tokens within so many nanoseconds against the model's, and goes on from what was answered. A wait
    /// that ends after `horizon` may be denied, whatever was offered.
    pub(crate) fn follow_booking(
        &mut self,
        now: u64,
        n: u64,
        within: u64,
        horizon: u64,
        answer: Result<u128, Denied>,
    ) -> Result<(), Disagreement> {
        let holds = self.is_booked_rightly(now, n, within, horizon, answer);
        expect(holds, || {
            format!("a booking of {n} within {within} ns at {now} ns: {answer:?}; the model then: full at {} ns", self.full_at)
        })?;
        match answer {
            Ok(_) => {
                self.charge(now, n);
                Ok(())
            }
            Err(denied) => self.stands_at(now, denied.remaining(), denied.reset_after().as_nanos()),
        }
    }

    fn is_booked_rightly(&self, now: u64, n: u64, within: u64, horizon: u64, answer: Result<u128, Denied>) -> bool {
        let Some(wait) = self.wait(now, n) else { return answer.is_err_and(|denied| denied.retry_after().is_none()) };
        let (off, end) = (self.off(nanos(now) + &wait), nanos(now) + &wait);
        match answer {
            Ok(got) => got <= within.into() && wait <= nanos(within) + off && self.is_near(now, got, &wait),
            Err(denied) => denied.retry_after().map(|after| after.as_nanos()).filter(|&after| after > 0).is_some_and(|after| {
                end > nanos(horizon) || &wait + off > nanos(within) && self.is_near(now, after + u128::from(within), &wait)
            }),
        }
    }

    /// The bucket is lifted by `n` tokens, but not above full.
    pub(crate) fn give_back(&mut self, now: u64, n: u64) {
        if self.full_at > nanos(now) {
            self.full_at = (&self.full_at - self.cost(n)).max(nanos(now));
        }
    }

    /// Whether the bucket would be full at `end` or before, after so many tokens more.
    pub(crate) fn can_owe(&self, now: u64, n: u64, end: u64) -> bool {
        nanos(now) + self.debt(now) + self.cost(n) <= nanos(end) + self.cost(self.burst)
    }

    /// Holds what remains, and how long it takes to a full bucket, against the model's.
    pub(crate) fn stands_at(&self, now: u64, remaining: u64, reset_after: u128) -> Result<(), Disagreement> {
        let (debt, off) = (self.debt(now), self.off(nanos(now)));
        let most = self.tokens_at_debt(&(&debt - &off).max(nanos(0)));
        let least = self.tokens_at_debt(&(&debt + off));
        let left = BigInt::from(remaining);
        let near = self.is_near(now, reset_after, &debt);
        expect(near && least <= left && left <= most, || {
            format!("{remaining} left and {reset_after} ns to a full bucket at {now} ns; the model: full at {} ns", self.full_at)
        })
    }

    /// Holds a bucket's state against the model's.
    pub(crate) fn stands_as(&self, now: u64, peek: Peek) -> Result<(), Disagreement> {
        self.stands_at(now, peek.remaining(), peek.reset_after().as_nanos())?;
        expect(peek.is_full() == peek.reset_after().is_zero(), || format!("{peek:?}"))
    }
}
