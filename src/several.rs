//! Several limits as one decision: all are charged, or none is.

use core::fmt;
use std::time::Duration;

use crate::clock::Instant;
use crate::decision::{Act, Allowed, Denied};
use crate::token_bucket::TokenBucket;

/// A denial by one of several limits. None was charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeniedBy {
    index: usize,
    denied: Denied,
}

impl DeniedBy {
    /// Which limit denied, in the order given, from 0. If several did, the one that has to be waited for the longest.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Its denial.
    pub const fn denied(&self) -> Denied {
        self.denied
    }

    /// The shortest wait after which all of them allow the call, if nothing else happens. `None` when no wait helps.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.denied.retry_after()
    }

    /// The one to be waited for longer.
    fn or_longer(self, other: Self) -> Self {
        let wait = |by: Self| by.retry_after().unwrap_or(Duration::MAX);
        // Without an end is longer than the longest.
        let never = |by: Self| by.retry_after().is_none();
        if (never(other), wait(other)) > (never(self), wait(self)) { other } else { self }
    }
}

impl fmt::Display for DeniedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}: {}", self.index, self.denied)
    }
}

impl core::error::Error for DeniedBy {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.denied)
    }
}

/// Takes so many tokens from each of several buckets, or from none.
///
/// The buckets may be of different kinds, limiters and keys, and count different things. If one denies, none is charged: all but the first
/// are looked at before, which writes nothing. Should another thread take the tokens between the look and the charge, what was charged is
/// given back exactly; for that moment others find it taken. The same happens where one bucket is named twice and has too few for both. A
/// denial found by looking counts in no limiter's [`Stats`](crate::Stats). Reads each bucket's clock once. Lock-free, and does not
/// allocate.
///
/// # Errors
/// [`DeniedBy`]: which one, and the longest wait of all.
///
/// ```
/// use tollgate::{Bucket, Limiter, Quota, check_all};
///
/// static IN_ALL: Bucket = Bucket::new(Quota::per_second(5_000));
/// let per_tenant = Limiter::new(Quota::per_second(10).burst(2));
/// let check = |tenant: &str| check_all([(&per_tenant.bucket(tenant), 1), (&IN_ALL, 1)]);
/// assert_eq!(check("a")?.map(|allowed| allowed.remaining())[0], 1);
/// check("a")?;
/// assert_eq!(check("a").unwrap_err().index(), 0);
/// # Ok::<(), tollgate::DeniedBy>(())
/// ```
pub fn check_all<const N: usize>(limits: [(&dyn TokenBucket, u64); N]) -> Result<[Allowed; N], DeniedBy> {
    check_each(limits.map(|(bucket, n)| (bucket, n, bucket.now())))
}

/// The same at times read before.
pub(crate) fn check_each<const N: usize>(limits: [(&dyn TokenBucket, u64, Instant); N]) -> Result<[Allowed; N], DeniedBy> {
    let mut answers = [None; N];
    match act_on_all(Act::Take, limits.iter().copied(), &mut answers) {
        Some(by) => Err(by),
        None => Ok(answers.map(|answer| answer.expect("all are decided").expect("none denied"))),
    }
}

/// Takes or books so many tokens from each of several buckets, or from none. Leaves each one's answer, as many as there are limits, and
/// says which denied.
pub(crate) fn act_on_all<B: TokenBucket>(
    act: Act,
    limits: impl Iterator<Item = (B, u64, Instant)> + Clone,
    answers: &mut [Option<Result<Allowed, Denied>>],
) -> Option<DeniedBy> {
    // The first one is not looked at unless another denies: if it denies itself, nothing has been charged.
    for ((bucket, n, now), answer) in limits.clone().zip(&mut *answers).skip(1) {
        *answer = Some(bucket.look(act, n, now));
    }
    if answers.iter().flatten().any(Result::is_err) {
        if let Some((bucket, n, now)) = limits.clone().next() {
            answers[0] = Some(bucket.look(act, n, now));
        }
        return longest(answers);
    }
    for (index, (bucket, n, now)) in limits.clone().enumerate() {
        let answer = bucket.act(act, n, now);
        answers[index] = Some(answer);
        if answer.is_err() {
            // Another thread was faster than this one since it looked.
            for (bucket, n, now) in limits.take(index) {
                let _ = bucket.act(Act::GiveBack, n, now);
            }
            return longest(answers);
        }
    }
    None
}

/// Of the denials, the one to be waited for the longest.
fn longest(answers: &[Option<Result<Allowed, Denied>>]) -> Option<DeniedBy> {
    let denials = answers.iter().enumerate().filter_map(|(index, answer)| Some(DeniedBy { index, denied: (*answer)?.err()? }));
    denials.reduce(DeniedBy::or_longer)
}
