//! Rate limiting for servers that count nanoseconds: exact token buckets, one atomic word each, inline in a lock-free table of keys.
//!
//! ```
//! use tollgate::{Limiter, Quota};
//!
//! let limiter = Limiter::new(Quota::per_second(100));
//! match limiter.check("tenant-42") {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // "rate limited: 1 asked for, 0 of 100 left; retry after 10ms"
//! }
//! ```
//!
//! # What there is
//!
//! - [`Quota`]: tokens per period, and a burst; `const`, or from text such as `"100/s burst 200"`.
//! - [`Bucket`]: one bucket, which fits in a `static`; its quota can change while it is used.
//! - [`Limiter`]: a bucket per key, for any number of keys over time, in memory that grows and shrinks with them up to a bound; with quotas of
//!   single keys, and changes of any quota, while checks go on.
//! - [`Allowed`], [`Denied`], [`Peek`]: the answers, small plain data.
//! - [`Reservation`], [`Acquire`]: tokens that are due after a wait, first come, first served, with bounds on the wait and on [`Waiters`].
//! - [`Receipt`]: an estimate to be settled afterwards; `charge`, for what was used already.
//! - [`Limits`], [`check_all`]: several limits as one decision.
//! - [`Lease`]: a thread's own handle to a hot bucket.
//! - [`Clock`]: [`MonotonicClock`] by default, [`CoarseClock`] for a cheaper reading, [`ManualClock`] for tests.
//!
//! # What it promises
//!
//! For any interleaving of any number of threads, the calls stamped within `[s, t]` are admitted at most `burst + rate * (t - s)` tokens.
//! Where a quota's ticks are not exact ([`Quota::is_exact`]), `t - s` counts up to one tick longer.
//!
//! Only a caller's explicit choice weakens that: a [`Limiter`] whose `max_keys` are all in debt lets one key off its debt to make room for
//! another, unless told to deny new keys instead ([`Overflow`]); it counts how often ([`Stats::evicted_in_debt`]).
//!
//! Tokens that are given back, by a cancelled booking, a settled estimate or a lease, count as not taken from then on: what is taken less what is
//! given back keeps the bound ([waiting] says exactly how, with the proof, and what it leaves open).
//!
//! Over a change of quota each stretch of time has its own rate, and what was owed beyond a new, lower burst is forgiven
//! ([`Bucket::set_quota`]).
//!
//! - A denial writes nothing and delays nobody.
//! - No check allocates or blocks (once the clock is calibrated: see [`MonotonicClock`]). Checks are lock-free: one is held up only by others that
//!   succeed.
//! - There is one file with unsafe code: it gives memory back to the operating system, on Linux.
//!
//! # Memory ordering
//!
//! A check orders nothing but itself: that a call was admitted says nothing about other memory. Programs that need such an order must make it.
//!
//! # Further reading
//!
//! The documents of the repository are here too: [why it is built so](design), [the table's protocol](table_protocol),
//! [waiting, paying afterwards, several limits and leases](waiting), the web layer (with the feature `tower`), and
//! [the benchmarks](benchmarks).
//!
//! # Features
//!
//! - `quanta` (default): time from the processor's time-stamp counter. Without it, from the operating system.
//! - `serde`: `Serialize` and `Deserialize` for [`Quota`], as text.
//! - `tower`: `http`, the web layer; `axum` beside it finds the peer's address where axum puts it.
//! - `metrics`, `tracing`: what the web layer decides, reported to those crates.
//! - `tokio`: `acquire`, which waits on Tokio's timer. Without it, [`acquire_with`](Bucket::acquire_with) takes any runtime's.

mod account;
mod bucket;
mod clock;
mod decision;
#[cfg(feature = "tower")]
pub mod http;
mod indices;
mod lease;
mod limiter;
mod limits;
mod plans;
mod quota;
mod receipt;
mod register;
mod several;
mod sync;
mod table;
mod ticks;
mod token_bucket;
mod verbs;
mod wait;
mod word;

pub use bucket::Bucket;
pub use clock::{Clock, CoarseClock, Instant, ManualClock, MonotonicClock};
pub use decision::{Allowed, Denied, Peek, Reason};
pub use lease::Lease;
pub use limiter::{
    BucketState, BuildError, ChangeError, DEFAULT_MAX_KEYS, KeyBucket, KeyHasher, Limiter, LimiterBuilder, MOST_MAX_KEYS, MOST_OWN_QUOTAS,
    Pinned, Stats,
};
pub use limits::{Limits, LimitsBuilder};
pub use quota::{ParseQuotaError, Quota, QuotaError};
pub use receipt::Receipt;
pub use several::{DeniedBy, check_all};
pub use table::Overflow;
pub use token_bucket::TokenBucket;
#[cfg(feature = "tokio")]
pub use wait::TokioSleep;
pub use wait::{Acquire, MaxWait, Reservation, Sleep, Waiters};

// The documents' own link targets are files; these come first, and so are the ones used here.
#[doc = "[benchmarks]: crate::benchmarks\n[the table's protocol]: crate::table_protocol\n[waiting]: crate::waiting\n\n"]
#[doc = include_str!("../docs/design.md")]
pub mod design {}

#[doc = include_str!("../docs/table-protocol.md")]
pub mod table_protocol {}

#[doc = "[the table's protocol]: crate::table_protocol\n\n"]
#[doc = include_str!("../docs/waiting.md")]
pub mod waiting {}

#[cfg(feature = "tower")]
#[doc = "[benchmarks]: crate::benchmarks\n[several limits]: crate::waiting\n\n"]
#[doc = include_str!("../docs/web.md")]
pub mod web {}

#[cfg_attr(feature = "tower", doc = "[bodies]: crate::web#bodies\n\n")]
#[doc = include_str!("../docs/benchmarks.md")]
pub mod benchmarks {}

/// The README's code is compiled and run.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
mod readme {}
