//! What a bucket is allowed: tokens per period, and a burst.

mod text;

use core::fmt;
use core::time::Duration;

use crate::ticks::Ticks;

pub use text::ParseQuotaError;

/// A limit: `tokens` per `period`, and a `burst`, which is the bucket's capacity.
///
/// The rate is the exact fraction `tokens / period`; it is never rounded to whole nanoseconds per token. Time is counted in *ticks* that
/// divide a token evenly: see [`is_exact`](Self::is_exact) and [`tick_nanos`](Self::tick_nanos).
///
/// Any rate from one token per century to 14 per nanosecond, and any burst up to 2<sup>32</sup> (most rates: far more), can be represented;
/// the rest is refused when the quota is built, never answered wrongly later.
///
/// A quota is text too: [`Display`](fmt::Display) prints what [`FromStr`](core::str::FromStr) reads, `"100/s burst 200"`.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// const PER_TENANT: Quota = Quota::per_second(100).burst(200);
/// let from_config = Quota::new(7_919, Duration::from_secs(60))?.with_burst(10_000)?;
/// let from_text: Quota = "100/s burst 200".parse()?;
/// assert_eq!(from_text, PER_TENANT);
/// assert_eq!(from_config.to_string(), "7919/m burst 10000");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    tokens: u64,
    period_ns: u64,
    ticks: Ticks,
}

/// Why a quota cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QuotaError {
    /// `tokens` is 0: such a quota would allow nothing, ever.
    ZeroTokens,
    /// `period` is zero: such a quota would limit nothing.
    ZeroPeriod,
    /// `burst` is 0: no call could ever conform.
    ZeroBurst,
    /// `period` is longer than 2<sup>64</sup> - 1 nanoseconds (about 584 years).
    PeriodTooLong {
        /// The period given.
        period: Duration,
    },
    /// The rate does not fit the 63 bits of an arrival time for twenty years; `most` tokens in this period would.
    RateTooHigh {
        /// The tokens given.
        tokens: u64,
        /// The period given.
        period: Duration,
        /// The most tokens in this period that can be represented.
        most: u64,
    },
    /// The burst does not fit beside this rate; `most` would.
    BurstTooLarge {
        /// The burst given.
        burst: u64,
        /// The largest burst that can be represented at this rate.
        most: u64,
    },
}

const SECOND: u64 = 1_000_000_000;

impl Quota {
    /// `tokens` per second, with a burst of as many.
    ///
    /// # Panics
    /// On 0, and on more than can be represented; 14,000,000,000 can. [`Quota::new`] returns an error instead.
    pub const fn per_second(tokens: u64) -> Self {
        unwrap(Self::build(tokens, SECOND, tokens))
    }

    /// `tokens` per minute, with a burst of as many.
    ///
    /// # Panics
    /// On 0, and on more than can be represented; 840,000,000,000 can. [`Quota::new`] returns an error instead.
    pub const fn per_minute(tokens: u64) -> Self {
        unwrap(Self::build(tokens, 60 * SECOND, tokens))
    }

    /// `tokens` per hour, with a burst of as many.
    ///
    /// # Panics
    /// On 0, and on more than can be represented; 50,400,000,000,000 can. [`Quota::new`] returns an error instead.
    pub const fn per_hour(tokens: u64) -> Self {
        unwrap(Self::build(tokens, 3_600 * SECOND, tokens))
    }

    /// `tokens` per day (86,400 seconds), with a burst of as many.
    ///
    /// # Panics
    /// On 0, and on more than can be represented; 1,209,600,000,000,000 can. [`Quota::new`] returns an error instead.
    pub const fn per_day(tokens: u64) -> Self {
        unwrap(Self::build(tokens, 86_400 * SECOND, tokens))
    }

    /// `tokens` per `period`, with a burst of as many: for values that come from outside.
    ///
    /// # Errors
    /// When `tokens` or `period` is 0, or when the pair cannot be represented.
    pub const fn new(tokens: u64, period: Duration) -> Result<Self, QuotaError> {
        let nanos = period.as_nanos();
        if nanos > u64::MAX as u128 {
            return Err(QuotaError::PeriodTooLong { period });
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        Self::build(tokens, nanos as u64, tokens)
    }

    /// The same rate with a burst of `burst` tokens.
    ///
    /// # Panics
    /// On 0, and when the burst does not fit beside the rate. [`with_burst`](Self::with_burst) returns an error instead.
    #[must_use]
    pub const fn burst(self, burst: u64) -> Self {
        unwrap(self.with_burst(burst))
    }

    /// The same rate with a burst of `burst` tokens: for values that come from outside.
    ///
    /// # Errors
    /// When `burst` is 0, or does not fit beside the rate.
    pub const fn with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        Self::build(self.tokens, self.period_ns, burst)
    }

    const fn build(tokens: u64, period_ns: u64, burst: u64) -> Result<Self, QuotaError> {
        if tokens == 0 {
            return Err(QuotaError::ZeroTokens);
        }
        if period_ns == 0 {
            return Err(QuotaError::ZeroPeriod);
        }
        if burst == 0 {
            return Err(QuotaError::ZeroBurst);
        }
        match Ticks::fit(tokens, period_ns, burst) {
            Some(ticks) => Ok(Self { tokens, period_ns, ticks }),
            None => Err(misfit(tokens, period_ns, burst)),
        }
    }

    /// The tokens of the rate.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The period of the rate.
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// The burst, in tokens: what a full bucket holds.
    pub const fn capacity(&self) -> u64 {
        self.ticks.burst()
    }

    /// Whether decisions are those of exact arithmetic on nanoseconds.
    ///
    /// They are where the rate, in lowest terms, is at most 14 tokens per so many nanoseconds: 100 per second is one per 10,000,000 ns. Other
    /// quotas decide as exact arithmetic does on a clock rounded down to whole ticks of [`tick_nanos`](Self::tick_nanos).
    pub const fn is_exact(&self) -> bool {
        self.ticks.is_exact()
    }

    /// The length of one tick in nanoseconds: what time is counted in.
    pub fn tick_nanos(&self) -> f64 {
        self.ticks.tick_ns()
    }

    #[inline]
    pub(crate) const fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// Tokens and period: with the ticks, all there is.
    pub(crate) const fn label(&self) -> [u64; 2] {
        [self.tokens, self.period_ns]
    }

    /// The quota of these ticks and that label.
    pub(crate) const fn of(ticks: Ticks, [tokens, period_ns]: [u64; 2]) -> Self {
        Self { tokens, period_ns, ticks }
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}

/// Which bound was broken, and the nearest value within it.
const fn misfit(tokens: u64, period_ns: u64, burst: u64) -> QuotaError {
    // A quota begins with a burst of as many tokens. Any other is asked for beside a rate that fits.
    if burst != tokens {
        return QuotaError::BurstTooLarge { burst, most: largest_burst(Some(tokens), period_ns, burst) };
    }
    let most = largest_burst(None, period_ns, burst);
    QuotaError::RateTooHigh { tokens, period: Duration::from_nanos(period_ns), most }
}

/// The largest burst below `too_large` that fits, by bisection, beside a rate of `tokens`, or else of as many tokens as the burst; 1 does.
const fn largest_burst(tokens: Option<u64>, period_ns: u64, mut too_large: u64) -> u64 {
    let mut fits = 1;
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        let tokens = match tokens {
            Some(tokens) => tokens,
            None => middle,
        };
        if Ticks::fit(tokens, period_ns, middle).is_some() {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    fits
}

const fn unwrap(built: Result<Quota, QuotaError>) -> Quota {
    match built {
        Ok(quota) => quota,
        Err(QuotaError::ZeroTokens) => panic!("a quota needs at least 1 token per period"),
        Err(QuotaError::ZeroPeriod) => panic!("a quota needs a period of at least 1 ns"),
        Err(QuotaError::ZeroBurst) => panic!("a quota needs a burst of at least 1"),
        Err(QuotaError::PeriodTooLong { .. }) => panic!("a quota's period is at most 2^64 - 1 ns"),
        Err(QuotaError::RateTooHigh { .. }) => panic!("a quota's rate is at most 14 tokens per nanosecond"),
        Err(QuotaError::BurstTooLarge { .. }) => panic!("this burst does not fit beside this rate: try a smaller one"),
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroTokens => f.write_str("0 tokens per period: a quota needs at least 1"),
            Self::ZeroPeriod => f.write_str("a period of 0: a quota needs at least 1 ns"),
            Self::ZeroBurst => f.write_str("a burst of 0: a quota needs at least 1"),
            Self::PeriodTooLong { period } => {
                write!(f, "a period of {} s: at most 2^64 - 1 ns, about 584 years, can be represented", period.as_secs())
            }
            Self::RateTooHigh { tokens, period, most } => {
                write!(f, "{tokens} tokens per {period:?}: at most {most} in this period can be represented")
            }
            Self::BurstTooLarge { burst, most } => {
                write!(f, "a burst of {burst}: at most {most} can be represented at this rate")
            }
        }
    }
}

impl core::error::Error for QuotaError {}
