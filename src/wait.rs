//! Waiting for tokens: a booking in the bucket's one word, and a timer.
//!
//! A booking is a charge that the bucket cannot pay yet. Who books later is due later, so the word is the queue: first come, first served,
//! without a list or a lock, and nobody looks again while waiting.

mod acquire;
mod reservation;
mod sleep;
mod waiters;

pub use acquire::Acquire;
pub use reservation::Reservation;
pub use sleep::Sleep;
#[cfg(feature = "tokio")]
pub use sleep::TokioSleep;
#[cfg(feature = "tower")]
pub(crate) use waiters::Place;
pub use waiters::{MaxWait, Waiters};
