//! Lock-free rate limiting.

#![forbid(unsafe_code)]

mod bucket;
mod clock;
mod decision;
mod limiter;
mod quota;
mod register;
mod sync;
mod table;
mod ticks;
mod word;

pub use bucket::Bucket;
pub use clock::{Clock, CoarseClock, Instant, ManualClock, MonotonicClock};
pub use decision::{Allowed, Denied, Peek, Reason};
pub use limiter::{BuildError, DEFAULT_MAX_KEYS, KeyHasher, Limiter, LimiterBuilder, MOST_MAX_KEYS, Stats};
pub use quota::{ParseQuotaError, Quota, QuotaError};
pub use table::Overflow;
