//! Quotas as text: `TOKENS/[COUNT]UNIT [burst BURST]`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{Quota, QuotaError};

/// The units of a period, longest first, by the name that is printed, with the other names that are read.
const UNITS: [(&str, u64, &[&str]); 7] = [
    ("day", 86_400_000_000_000, &["d", "days"]),
    ("h", 3_600_000_000_000, &["hr", "hour", "hours"]),
    ("m", 60_000_000_000, &["min", "minute", "minutes"]),
    ("s", 1_000_000_000, &["sec", "second", "seconds"]),
    ("ms", 1_000_000, &["millisecond", "milliseconds"]),
    ("us", 1_000, &["microsecond", "microseconds"]),
    ("ns", 1, &["nanosecond", "nanoseconds"]),
];

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Why a text is no quota.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseQuotaError {
    /// The text does not have the form `100/s`, `5/30m` or `2500/h burst 1`.
    Syntax {
        /// The part that could not be read.
        unread: Box<str>,
        /// What would have been accepted there.
        expected: &'static str,
    },
    /// The text has the form, but names a quota that cannot be built.
    Quota(QuotaError),
}

impl fmt::Display for ParseQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { unread, expected } => {
                write!(f, "{unread:?} where a quota needs {expected}; quotas look like \"100/s\", \"5/30m\" or \"2500/h burst 1\"")
            }
            Self::Quota(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ParseQuotaError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Syntax { .. } => None,
            Self::Quota(error) => Some(error),
        }
    }
}

impl From<QuotaError> for ParseQuotaError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

/// `100/s burst 200`: the period in the longest unit that divides it, the burst where it differs from the tokens.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, nanos, _) = UNITS[UNITS.iter().position(|unit| self.period_ns.is_multiple_of(unit.1)).unwrap_or(UNITS.len() - 1)];
        write!(f, "{}/", self.tokens())?;
        match self.period_ns / nanos {
            1 => f.write_str(name)?,
            count => write!(f, "{count}{name}")?,
        }
        if self.capacity() != self.tokens() {
            write!(f, " burst {}", self.capacity())?;
        }
        Ok(())
    }
}

/// Reads what `Display` prints, with spaces around the parts, and the usual other names of the units: `7 / 30 minutes burst 10`.
impl FromStr for Quota {
    type Err = ParseQuotaError;

    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        let (rate, burst) = match text.split_once("burst") {
            Some((rate, burst)) => (rate, Some(burst)),
            None => (text, None),
        };
        let Some((tokens, period)) = rate.split_once('/') else {
            return Err(unread(rate, "tokens, a slash and a period"));
        };
        let tokens = number(tokens, "a number of tokens")?;
        let quota = Self::new(tokens, period_from(period)?)?;
        match burst {
            Some(burst) => Ok(quota.with_burst(number(burst, "a number after \"burst\"")?)?),
            None => Ok(quota),
        }
    }
}

fn period_from(text: &str) -> Result<Duration, ParseQuotaError> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, name) = text.split_at(unit_at);
    let count = if count.is_empty() { 1 } else { number(count, "a number of units")? };
    let name = name.trim();
    let Some((_, nanos, _)) = UNITS.iter().find(|(printed, _, others)| *printed == name || others.contains(&name)) else {
        return Err(unread(name, "a unit: day, h, m, s, ms, us or ns"));
    };
    // Saturated, such a period is still too long for a quota, which says so.
    let total = u128::from(count) * u128::from(*nanos);
    let seconds = u64::try_from(total / NANOS_PER_SECOND).unwrap_or(u64::MAX);
    Ok(Duration::new(seconds, (total % NANOS_PER_SECOND) as u32))
}

fn number(text: &str, expected: &'static str) -> Result<u64, ParseQuotaError> {
    // `u64::from_str` would take a sign.
    let digits = text.trim();
    if digits.starts_with('+') {
        return Err(unread(digits, expected));
    }
    digits.parse().map_err(|_| unread(digits, expected))
}

fn unread(text: &str, expected: &'static str) -> ParseQuotaError {
    ParseQuotaError::Syntax { unread: text.trim().into(), expected }
}

#[cfg(feature = "serde")]
mod serde_impls {
    use serde::de::{self, Deserialize, Deserializer, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::{Quota, fmt};

    impl Serialize for Quota {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Quota {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Text;

            impl Visitor<'_> for Text {
                type Value = Quota;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a quota such as \"100/s burst 200\"")
                }

                fn visit_str<E: de::Error>(self, text: &str) -> Result<Quota, E> {
                    text.parse().map_err(E::custom)
                }
            }

            deserializer.deserialize_str(Text)
        }
    }
}
