//! The promise: calls stamped within `[s, t]` are admitted at most `burst + rate * (t - s)` tokens.

use tollgate::Quota;

/// Tokens admitted to a call stamped so many nanoseconds after the clock's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) at: u64,
    pub(crate) tokens: u64,
}

/// The tokens, rounded up, by which the worst of all windows passed the promise: zero if it was kept.
///
/// Exact integers: the unit is a token's worth of one nanosecond, of which a token has `period`. Where a quota's ticks are not exact, a window
/// counts one tick longer.
pub(crate) fn excess(quota: Quota, admitted: &mut [Admission]) -> i128 {
    let (rate, period) = (i128::from(quota.tokens()), quota.period().as_nanos().cast_signed());
    admitted.sort_unstable_by_key(|admission| admission.at);
    let mut sum = 0;
    let mut least_before = i128::MAX;
    let mut worst = 0;
    for admission in admitted {
        let refill = rate * i128::from(admission.at);
        least_before = least_before.min(sum - refill);
        sum += i128::from(admission.tokens) * period;
        worst = worst.max(sum - refill - least_before);
    }
    let allowance = i128::from(quota.capacity()) * period + rate * slack(quota);
    let over = (worst - allowance).max(0);
    (over + period - 1) / period
}

#[expect(clippy::cast_possible_truncation, reason = "a tick is short")]
fn slack(quota: Quota) -> i128 {
    if quota.is_exact() { 0 } else { quota.tick_nanos().ceil() as i128 }
}
