//! The web layer: rate limits and load shedding for any tower service, such as a server of axum, hyper or tonic.
//!
//! [`RateLimitLayer`] holds requests to policies: a limiter, whose request it is, and what it costs. Over its quota, a request is answered
//! with 429, or waits first. [`ShedLayer`] apart from that answers with 503 when more requests are under way than the server wants. Answers
//! keep the service's type of body, which is to be `From<Bytes>`; for others there is [`AnyBodyLayer`].

mod answer;
mod body;
mod client;
mod fields;
mod forwarded;
mod future;
mod head;
mod key;
mod layer;
mod observe;
mod policy;
mod rules;
mod service;
mod shed;

pub use answer::Rejection;
pub use body::{AnyBody, AnyBodyFuture, AnyBodyLayer, ResponseBody};
pub use client::{ClientIp, PeerAddr};
pub use fields::{Dialect, Fields, Reset};
pub use forwarded::ForwardedHeader;
pub use future::ResponseFuture;
pub use head::Head;
pub use key::{Everyone, Header, KeyExtractor};
pub use layer::RateLimitLayer;
pub use policy::{MissingKey, Policy};
pub use service::RateLimit;
pub use shed::{Shed, ShedFuture, ShedLayer};
