//! What becomes of a request.

use core::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Response, StatusCode};

use super::answer::{Answer, Asked, Kind, Rejection};
use super::fields::{Fields, Standing, add_missing};
use super::head::{Head, OfHead};
use super::observe::Outcome;
use super::policy::{Found, Policy, Taken};
use crate::clock::Instant;
use crate::decision::{Act, Allowed, Denied, Reason};
use crate::several::{DeniedBy, act_on_all};
use crate::table::Key;
use crate::token_bucket::{Sealed, TokenBucket};
use crate::wait::{MaxWait, Place, Waiters};

/// The most policies of one layer.
pub(super) const MOST_POLICIES: usize = 8;

/// What a layer was told.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) policies: Vec<Policy>,
    pub(super) max_wait: Option<MaxWait>,
    pub(super) skip: Option<OfHead<bool>>,
    pub(super) dry_run: bool,
    pub(super) fields: Fields,
    pub(super) answer: Option<Answer>,
}

/// What becomes of a request.
pub(super) enum Verdict {
    /// It is served, and the answer bears these fields.
    Serve(Option<Box<HeaderMap>>),
    /// It is served when these tokens are due.
    Wait(Box<Booked>),
    Reject(Box<Response<Bytes>>),
}

/// A charge under a policy.
#[derive(Clone, Copy)]
struct Charge {
    policy: usize,
    key: Key,
    n: u64,
    now: Instant,
}

/// The charges of one request, in the order of policies: first those there are, and then none.
#[derive(Clone, Copy)]
struct Charges {
    list: [Option<Charge>; MOST_POLICIES],
    count: usize,
}

impl Charges {
    const NONE: Self = Self { list: [None; MOST_POLICIES], count: 0 };

    fn push(&mut self, charge: Charge) {
        if let Some(free) = self.list.get_mut(self.count) {
            *free = Some(charge);
            self.count += 1;
        }
    }

    /// Looks at no more than there are: mostly one.
    fn iter(&self) -> impl Iterator<Item = &Charge> + Clone {
        self.list[..self.count].iter().flatten()
    }
}

type Answers = [Option<Result<Allowed, Denied>>; MOST_POLICIES];

impl Rules {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policies: vec![policy], max_wait: None, skip: None, dry_run: false, fields: Fields::default(), answer: None }
    }

    pub(super) fn decide(self: &Arc<Self>, head: &Head<'_>) -> Verdict {
        if self.skip.as_ref().is_some_and(|skip| skip(head)) {
            return Verdict::Serve(None);
        }
        match &*self.policies {
            [policy] if self.max_wait.is_none() && !self.fields.are_on_allowed() => self.decide_by_one(policy, head),
            _ => self.decide_by_all(head),
        }
    }

    /// What most layers come to, and most requests: one policy, and nothing to be laid out if it allows.
    fn decide_by_one(&self, policy: &Policy, head: &Head<'_>) -> Verdict {
        match policy.take(head) {
            Taken::Allowed => {
                policy.decided(Outcome::Allowed);
                Verdict::Serve(None)
            }
            Taken::Denied { key, n, now, denied } => self.denied_by_one(head, Charge { policy: 0, key, n, now }, denied),
            Taken::DoesNotApply => Verdict::Serve(None),
            Taken::Reject(status) => self.without_key(head, policy, status),
        }
    }

    #[cold]
    fn denied_by_one(&self, head: &Head<'_>, charge: Charge, denied: Denied) -> Verdict {
        let (mut charges, mut answers) = (Charges::NONE, [None; MOST_POLICIES]);
        charges.push(charge);
        answers[0] = Some(Err(denied));
        self.denied(head, denied, &charges, &mut answers)
    }

    /// Out of line, as `without_key` is: what they keep on the stack is much, and the way of most requests is short.
    #[inline(never)]
    fn decide_by_all(self: &Arc<Self>, head: &Head<'_>) -> Verdict {
        let mut charges = Charges::NONE;
        if let Err((policy, status)) = self.find(head, &mut charges) {
            return self.without_key(head, policy, status);
        }
        let mut answers = [None; MOST_POLICIES];
        let place = self.max_wait.as_ref().and_then(MaxWait::waiters).map(Waiters::enter);
        let act = match &self.max_wait {
            Some(max_wait) if !matches!(place, Some(None)) => Act::Book { within: max_wait.nanos() },
            _ => Act::Take,
        };
        if let Some(by) = self.act(act, &charges, &mut answers) {
            return self.denied(head, by.denied(), &charges, &mut answers);
        }
        let mut longest = Duration::ZERO;
        for (charge, answer) in charges.iter().zip(answers.iter().flatten()) {
            // What is taken at once has no wait to be computed, and a look books nothing.
            let wait =
                if act == Act::Take || charge.n == 0 { Duration::ZERO } else { answer.map_or(Duration::ZERO, |allowed| allowed.wait()) };
            self.policies[charge.policy].decided(if wait.is_zero() { Outcome::Allowed } else { Outcome::Waited(wait) });
            longest = longest.max(wait);
        }
        if longest.is_zero() || self.dry_run {
            return Verdict::Serve(self.fields_on_allowed(&charges, &answers));
        }
        Verdict::Wait(Box::new(Booked { rules: Arc::clone(self), charges, wait: longest, _place: place.flatten() }))
    }

    /// What the policies make of a request.
    fn find(&self, head: &Head<'_>, charges: &mut Charges) -> Result<(), (&Policy, StatusCode)> {
        for (number, policy) in self.policies.iter().enumerate() {
            match policy.find(head) {
                Found::DoesNotApply => {}
                Found::Charge { key, n } => charges.push(Charge { policy: number, key, n, now: policy.bucket(key).now() }),
                Found::Reject(status) => return Err((policy, status)),
            }
        }
        Ok(())
    }

    /// What becomes of a request that a policy wants to have a key.
    #[inline(never)]
    fn without_key(&self, head: &Head<'_>, policy: &Policy, status: StatusCode) -> Verdict {
        policy.decided(self.rejected());
        if self.dry_run {
            return Verdict::Serve(None);
        }
        Verdict::Reject(self.reject(&Rejection::new(Kind::NoKey(status), &[policy.name()], None, asked(head)), &[]))
    }

    /// Charges all, or none.
    fn act(&self, act: Act, charges: &Charges, answers: &mut Answers) -> Option<DeniedBy> {
        let limits = charges.iter().map(|charge| (self.policies[charge.policy].bucket(charge.key), charge.n, charge.now));
        act_on_all(act, limits, &mut answers[..charges.count])
    }

    fn denied(&self, head: &Head<'_>, denied: Denied, charges: &Charges, answers: &mut Answers) -> Verdict {
        for (charge, answer) in charges.iter().zip(answers.iter_mut().flatten()) {
            let policy = &self.policies[charge.policy];
            if answer.is_err() {
                policy.decided(self.rejected());
            } else {
                // It allowed the request, but was not charged: what it has left is what it had.
                *answer = policy.bucket(charge.key).look(Act::Take, 0, charge.now);
            }
        }
        if self.dry_run {
            return Verdict::Serve(None);
        }
        let standings = self.standings(charges, answers);
        let violated: Vec<_> = standings.iter().filter(|standing| standing.answer.is_err()).map(|standing| standing.name).collect();
        Verdict::Reject(if denied.reason() == Reason::NoRoom {
            // That is not the client's doing, and what is owed in its place is another's.
            self.reject(&Rejection::new(Kind::Overloaded, &violated, denied.retry_after(), asked(head)), &[])
        } else {
            self.reject(&Rejection::new(Kind::OverQuota, &violated, denied.retry_after(), asked(head)), &standings)
        })
    }

    const fn rejected(&self) -> Outcome {
        if self.dry_run { Outcome::WouldReject } else { Outcome::Rejected }
    }

    fn fields_on_allowed(&self, charges: &Charges, answers: &Answers) -> Option<Box<HeaderMap>> {
        self.fields.are_on_allowed().then(|| Box::new(self.fields.of(&self.standings(charges, answers))))
    }

    fn reject(&self, rejection: &Rejection<'_>, standings: &[Standing<'_>]) -> Box<Response<Bytes>> {
        let mut response = rejection.response(self.answer.as_ref());
        add_missing(response.headers_mut(), self.fields.of(standings));
        Box::new(response)
    }

    fn standings(&self, charges: &Charges, answers: &Answers) -> Vec<Standing<'_>> {
        let both = charges.iter().zip(answers.iter().flatten());
        both.map(|(charge, &answer)| Standing { name: self.policies[charge.policy].name(), answer }).collect()
    }
}

fn asked(head: &Head<'_>) -> Asked {
    Asked::by(head.method, head.headers)
}

/// Tokens that are booked, and come back if this is dropped.
pub(super) struct Booked {
    rules: Arc<Rules>,
    charges: Charges,
    pub(super) wait: Duration,
    /// Among the waiters, if they are counted.
    _place: Option<Place>,
}

impl Booked {
    /// They are used, and the answer bears these fields.
    pub(super) fn keep(mut self) -> Option<Box<HeaderMap>> {
        let charges = mem::replace(&mut self.charges, Charges::NONE);
        if !self.rules.fields.are_on_allowed() {
            return None;
        }
        // As it stands now: the wait has passed.
        let mut answers = [None; MOST_POLICIES];
        for (charge, answer) in charges.iter().zip(&mut answers) {
            let bucket = self.rules.policies[charge.policy].bucket(charge.key);
            *answer = Some(bucket.look(Act::Take, 0, bucket.now()));
        }
        self.rules.fields_on_allowed(&charges, &answers)
    }
}

impl Drop for Booked {
    fn drop(&mut self) {
        for charge in self.charges.iter() {
            let bucket = self.rules.policies[charge.policy].bucket(charge.key);
            let _ = bucket.act(Act::GiveBack, charge.n, bucket.now());
        }
    }
}
