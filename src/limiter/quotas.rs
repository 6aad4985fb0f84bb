//! Quotas that differ by key, and change while checks go on.

use core::fmt;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::{MutexGuard, PoisonError};

use super::Limiter;
use crate::clock::Clock;
use crate::plans::{DEFAULTS, MOST_PLANS, Plan};
use crate::quota::Quota;
use crate::table::{Key, Stuck};

/// The most quotas that keys can have of their own at a time, beside the default; as many keys as you like can share one.
pub const MOST_OWN_QUOTAS: usize = MOST_PLANS - DEFAULTS;

/// Why a quota was not changed, or not everywhere at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// The limiter's keys have [`MOST_OWN_QUOTAS`] different quotas of their own, and this would be one more. Nothing has changed.
    TooManyQuotas,
    /// The change is made, and holds for every bucket from its next start on; but one or more of the present buckets are still counted under the
    /// old quota, because every slot that they might have holds a debt. A bucket of a replaced default quota will change as soon as there is
    /// room; for a key's own quota, call again.
    NoRoom,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyQuotas => {
                write!(f, "keys have {MOST_OWN_QUOTAS} different quotas of their own, the most there can be: clear some, or share some")
            }
            Self::NoRoom => f.write_str(
                "the new quota is set, but a bucket stays under the old one while all slots that it could move to are in debt; try again later",
            ),
        }
    }
}

impl core::error::Error for ChangeError {}

/// Which quota has which number. Only those who change quotas look here, one at a time.
pub(super) struct Assignments {
    own: HashMap<Quota, Own>,
    /// By number, from [`DEFAULTS`] on.
    quotas: Vec<Option<Quota>>,
    /// Numbers given out before that no key has now.
    free: Vec<Plan>,
    /// Which defaults have buckets that could not be moved.
    stuck: [bool; DEFAULTS],
}

/// A quota that keys have of their own.
struct Own {
    plan: Plan,
    /// How many.
    keys: usize,
}

impl Assignments {
    pub(super) fn new() -> Self {
        Self { own: HashMap::new(), quotas: Vec::new(), free: Vec::new(), stuck: [false; DEFAULTS] }
    }

    /// The number of a quota, for one more key; and whether it has to be written.
    fn give(&mut self, quota: Quota) -> Result<(Plan, bool), ChangeError> {
        if let Some(own) = self.own.get_mut(&quota) {
            own.keys += 1;
            return Ok((own.plan, false));
        }
        let plan = match self.free.pop() {
            Some(plan) => plan,
            None if self.quotas.len() < MOST_OWN_QUOTAS => {
                self.quotas.push(None);
                Plan::new(DEFAULTS + self.quotas.len() - 1)
            }
            None => return Err(ChangeError::TooManyQuotas),
        };
        self.quotas[plan.number() - DEFAULTS] = Some(quota);
        self.own.insert(quota, Own { plan, keys: 1 });
        Ok((plan, true))
    }

    /// One key less has that number.
    fn take_back(&mut self, plan: Plan) {
        let Some(quota) = plan.number().checked_sub(DEFAULTS).and_then(|own| self.quotas[own]) else { return };
        let Some(own) = self.own.get_mut(&quota) else { return };
        own.keys -= 1;
        if own.keys == 0 {
            self.own.remove(&quota);
            self.quotas[plan.number() - DEFAULTS] = None;
            self.free.push(plan);
        }
    }

    /// A number for the next default.
    fn next_default(&self, standing: Plan) -> Option<Plan> {
        (0..DEFAULTS).map(Plan::new).find(|&plan| plan != standing && !self.stuck[plan.number()])
    }
}

impl<C: Clock, S: BuildHasher> Limiter<C, S> {
    /// Gives a key a quota of its own, which it keeps until it is cleared, also while it has no bucket.
    ///
    /// What its bucket owes at this moment it goes on owing, in tokens, as after [`Bucket::set_quota`](crate::Bucket::set_quota): up to the new
    /// burst, and what was booked or charged beyond the old one. From here on it refills at the new rate. Calls that run meanwhile are decided under the old quota or the new one, never under a mixture. When this returns, the old one is gone.
    ///
    /// Checks are not held up. Those who change quotas wait for one another (a mutex), and may allocate. A check on a key with a quota of its own
    /// takes three times the instructions of one under the default (`benches/instructions`). While any key has one, a check that makes a bucket looks into a map (without a
    /// lock); a thread's first look may allocate its place there, and a look may free what changes of quotas have left.
    ///
    /// Calls that were stamped after this one's reading of the clock and decided before it took effect are charged as if at the new rate.
    ///
    /// # Errors
    /// See [`ChangeError`].
    ///
    /// ```
    /// use tollgate::{Limiter, ManualClock, Quota};
    ///
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(ManualClock::new()).build();
    /// assert!(limiter.check_n("tenant-42", 5).is_ok());
    /// limiter.set_quota("tenant-42", Quota::per_second(100))?;
    /// assert_eq!(limiter.peek("tenant-42").remaining(), 95);
    /// assert_eq!(limiter.peek("tenant-43").remaining(), 10);
    /// # Ok::<(), tollgate::ChangeError>(())
    /// ```
    pub fn set_quota<K: Hash + ?Sized>(&self, key: &K, quota: Quota) -> Result<(), ChangeError> {
        let key = self.key(key);
        let mut assignments = self.assignments();
        let (plan, new) = assignments.give(quota)?;
        let now = self.elapsed();
        if new {
            self.table.plans().write(plan, *quota.ticks(), quota.label(), now);
        }
        let old = self.books.directory.insert(key, plan);
        self.replan(key, old, now, &mut assignments)
    }

    /// Takes a key's own quota away: the default holds for it again. What it owes it goes on owing, as in [`set_quota`](Self::set_quota). Does
    /// nothing if the key has none.
    ///
    /// # Errors
    /// [`ChangeError::NoRoom`].
    pub fn clear_quota<K: Hash + ?Sized>(&self, key: &K) -> Result<(), ChangeError> {
        let key = self.key(key);
        let mut assignments = self.assignments();
        let old = self.books.directory.remove(key);
        self.replan(key, old, self.elapsed(), &mut assignments)
    }

    /// What a key is allowed: its own quota, or the default. One look into a map, if any key has a quota of its own.
    pub fn quota<K: Hash + ?Sized>(&self, key: &K) -> Quota {
        self.quota_of(self.key(key))
    }
}

impl<C: Clock, S> Limiter<C, S> {
    pub(super) fn quota_of(&self, key: Key) -> Quota {
        loop {
            let Some(plan) = self.books.directory.get(key) else { return self.default_quota() };
            // None: it was changed at this moment.
            if let Some(terms) = self.table.plans().read(plan) {
                return Quota::of(terms.ticks, terms.label);
            }
        }
    }

    /// How many keys have quotas of their own.
    pub fn own_quotas(&self) -> usize {
        self.books.directory.len()
    }

    /// Changes the quota of every key that has none of its own.
    ///
    /// What their buckets owe at this moment they go on owing, as in [`set_quota`](Self::set_quota); from here on they refill at the new rate. The new
    /// quota holds at once: a bucket still counted under the old one is changed by the next check that meets it. This call goes through the
    /// table and changes the rest, bucket by bucket, which takes time in proportion to the size of the table but holds up no check.
    ///
    /// # Errors
    /// [`ChangeError::NoRoom`].
    pub fn set_default_quota(&self, quota: Quota) -> Result<(), ChangeError> {
        let mut assignments = self.assignments();
        let plans = self.table.plans();
        let old = plans.standing().plan();
        let now = self.elapsed();
        let Some(plan) = assignments.next_default(old) else {
            // Three defaults have buckets that are stuck. Try once more.
            self.table.replan_all(now, &self.books).map_err(|_| ChangeError::NoRoom)?;
            assignments.stuck = [false; DEFAULTS];
            drop(assignments);
            return self.set_default_quota(quota);
        };
        plans.write(plan, *quota.ticks(), quota.label(), now);
        plans.change(plan);
        let result = self.table.replan_all(now, &self.books).map_err(|_| ChangeError::NoRoom);
        match result {
            Ok(()) => assignments.stuck = [false; DEFAULTS],
            Err(_) => assignments.stuck[old.number()] = true,
        }
        result
    }

    fn assignments(&self) -> MutexGuard<'_, Assignments> {
        // Nothing panics between two changes that belong together.
        self.assignments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a key's bucket under the plan it has now, and takes the old one back.
    fn replan(&self, key: Key, old: Option<Plan>, now: u64, assignments: &mut Assignments) -> Result<(), ChangeError> {
        match self.table.replan(key, now, &self.books) {
            Ok(()) => {
                if let Some(old) = old {
                    assignments.take_back(old);
                }
                Ok(())
            }
            // The number is not given to another quota then: a bucket is still counted under it.
            Err(Stuck::NoRoom | Stuck::Changed) => Err(ChangeError::NoRoom),
        }
    }
}
