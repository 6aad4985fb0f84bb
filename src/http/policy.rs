//! One limit: whose requests, how many, at what cost.

use core::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use http::StatusCode;

use super::head::{Head, OfHead};
use super::key::KeyExtractor;
use super::observe::{Outcome, Subject};
use crate::clock::{Clock, Instant};
use crate::decision::{Act, Allowed, Denied};
use crate::limiter::Limiter;
use crate::table::Key;
use crate::token_bucket::{Sealed, TokenBucket};

/// A limit that requests are held to: a limiter, whose request it is, and what it costs.
///
/// Clones share the limiter; so do policies in several layers, and whatever else holds the limiter.
#[derive(Clone)]
pub struct Policy {
    subject: Subject,
    gate: Arc<dyn Gate>,
    cost: Option<OfHead<u64>>,
    applies: Option<OfHead<bool>>,
    missing: MissingKey,
}

/// What becomes of a request that has no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MissingKey {
    /// All of them share one bucket, under the default quota.
    #[default]
    CountTogether,
    /// The policy does not apply.
    Allow,
    /// It is answered with this status.
    Reject(StatusCode),
}

/// What a policy makes of a request.
pub(super) enum Found {
    Charge { key: Key, n: u64 },
    DoesNotApply,
    Reject(StatusCode),
}

/// What came of taking the tokens that a request costs.
pub(super) enum Taken {
    Allowed,
    Denied { key: Key, n: u64, now: Instant, denied: Denied },
    DoesNotApply,
    Reject(StatusCode),
}

impl Policy {
    /// Holds the requests of each key to the limiter's quotas; a request costs one token.
    ///
    /// The name is for header fields and metrics. What of it is not printable ASCII is shown as `?`.
    pub fn new<C, S, E>(name: &str, limiter: Arc<Limiter<C, S>>, extractor: E) -> Self
    where
        C: Clock + Send + Sync + 'static,
        S: BuildHasher + Send + Sync + 'static,
        E: KeyExtractor + 'static,
    {
        let name = name.chars().map(|char| if matches!(char, ' '..='~') { char } else { '?' }).collect();
        Self {
            subject: Subject::new(name),
            gate: Arc::new(ByKey { limiter, extractor }),
            cost: None,
            applies: None,
            missing: MissingKey::default(),
        }
    }

    /// What a request costs, in tokens: by route, method or content length, say. 0: allowed, and nothing is charged.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Arc::new(cost)), ..self }
    }

    /// Which requests this policy applies to; all if not called.
    #[must_use]
    pub fn only(self, applies: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { applies: Some(Arc::new(applies)), ..self }
    }

    /// What becomes of a request without a key; [`MissingKey::CountTogether`] if not called.
    ///
    /// # Panics
    /// If it is to be rejected with a status that is no error: 4xx and 5xx are.
    #[must_use]
    pub fn missing_key(self, missing: MissingKey) -> Self {
        if let MissingKey::Reject(status) = missing {
            assert!(
                status.is_client_error() || status.is_server_error(),
                "{status} is no status to reject a request with: 4xx and 5xx are"
            );
        }
        Self { missing, ..self }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.subject.name()
    }

    pub(super) fn decided(&self, outcome: Outcome) {
        self.subject.decided(outcome);
    }

    pub(super) fn find(&self, head: &Head<'_>) -> Found {
        self.find_by(&*self.gate, head)
    }

    /// Finds out what the request costs, and takes it: one call of a gate whose type is not known, where the steps are three.
    pub(super) fn take(&self, head: &Head<'_>) -> Taken {
        self.gate.take(self, head)
    }

    #[inline]
    fn find_by(&self, gate: &(impl Gate + ?Sized), head: &Head<'_>) -> Found {
        if self.applies.as_ref().is_some_and(|applies| !applies(head)) {
            return Found::DoesNotApply;
        }
        let key = match (gate.key(head), self.missing) {
            (Some(key), _) => key,
            (None, MissingKey::CountTogether) => gate.nobody(),
            (None, MissingKey::Allow) => return Found::DoesNotApply,
            (None, MissingKey::Reject(status)) => return Found::Reject(status),
        };
        Found::Charge { key, n: self.cost.as_ref().map_or(1, |cost| cost(head)) }
    }

    pub(super) fn bucket(&self, key: Key) -> PolicyBucket<'_> {
        PolicyBucket { gate: &*self.gate, key }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name()).field("missing_key", &self.missing).finish_non_exhaustive()
    }
}

/// A limiter and what it is keyed by, whatever their types.
trait Gate: Send + Sync {
    fn key(&self, head: &Head<'_>) -> Option<Key>;
    /// The key of those who have none.
    fn nobody(&self) -> Key;
    fn now(&self) -> Instant;
    /// Takes what the request costs under its policy.
    fn take(&self, policy: &Policy, head: &Head<'_>) -> Taken;
    fn look(&self, key: Key, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied>;
    fn act(&self, key: Key, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied>;
}

struct ByKey<C, S, E> {
    limiter: Arc<Limiter<C, S>>,
    extractor: E,
}

/// Hashes as no key does that a request could have.
struct Nobody;

impl Hash for Nobody {
    fn hash<H: Hasher>(&self, state: &mut H) {
        "a request without a key".hash(state);
        state.write_u128(0x8f0e_55d1_6c1b_49b5_93f4_7a0d_e0a3_b1c7);
    }
}

impl<C, S, E> Gate for ByKey<C, S, E>
where
    C: Clock + Send + Sync,
    S: BuildHasher + Send + Sync,
    E: KeyExtractor,
{
    fn key(&self, head: &Head<'_>) -> Option<Key> {
        Some(self.limiter.bucket(&self.extractor.key(head)?).key())
    }

    fn nobody(&self) -> Key {
        self.limiter.bucket(&Nobody).key()
    }

    fn now(&self) -> Instant {
        self.limiter.now()
    }

    fn take(&self, policy: &Policy, head: &Head<'_>) -> Taken {
        match policy.find_by(self, head) {
            Found::Charge { key, n } => {
                let now = self.limiter.now();
                match self.limiter.bucket_of(key).check_at(n, now) {
                    Ok(_) => Taken::Allowed,
                    Err(denied) => Taken::Denied { key, n, now, denied },
                }
            }
            Found::DoesNotApply => Taken::DoesNotApply,
            Found::Reject(status) => Taken::Reject(status),
        }
    }

    fn look(&self, key: Key, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.limiter.bucket_of(key).look(act, n, now)
    }

    fn act(&self, key: Key, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.limiter.bucket_of(key).act(act, n, now)
    }
}

/// A key's bucket under a policy.
pub(super) struct PolicyBucket<'a> {
    gate: &'a dyn Gate,
    key: Key,
}

impl TokenBucket for PolicyBucket<'_> {
    fn now(&self) -> Instant {
        self.gate.now()
    }
}

impl Sealed for PolicyBucket<'_> {
    fn look(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.gate.look(self.key, act, n, now)
    }

    fn act(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.gate.act(self.key, act, n, now)
    }
}
