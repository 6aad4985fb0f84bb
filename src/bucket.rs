//! One bucket: an account and a clock.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use crate::account::{Account, SIDE_WORDS, Terms};
use crate::clock::{Clock, Instant, MonotonicClock};
use crate::decision::{Act, Allowed, Call, Denied, Peek};
use crate::quota::Quota;
use crate::sync::AtomicU64;
use crate::ticks::LEEWAY_NS;
use crate::token_bucket::{Sealed, TokenBucket};

/// One token bucket, shared by reference between any number of threads.
///
/// What it owes is one atomic word: the theoretical arrival time of GCRA (the generic cell rate algorithm of ATM's traffic management,
/// ITU-T I.371), which is the moment at which the bucket will be full again. A new bucket is full.
///
/// No check allocates or blocks, except that the process's first reading of [`MonotonicClock`] calibrates it. A check is lock-free: it retries
/// only when another thread's check succeeded in between, or a change of the quota, and a denial writes nothing.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Bucket, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let bucket = Bucket::with_clock(Quota::per_second(100).burst(2), clock.clone());
/// assert_eq!(bucket.check()?.remaining(), 1);
/// assert_eq!(bucket.check()?.remaining(), 0);
///
/// let denied = bucket.check().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(10)));
/// clock.advance(Duration::from_millis(10));
/// assert!(bucket.check().is_ok());
/// # Ok::<(), tollgate::Denied>(())
/// ```
///
/// It can live in a `static`:
///
/// ```
/// use tollgate::{Bucket, Quota};
///
/// static OUTGOING: Bucket = Bucket::new(Quota::per_second(50));
/// assert!(OUTGOING.check().is_ok());
/// ```
pub struct Bucket<C = MonotonicClock> {
    account: Account,
    /// Ticks count from here.
    origin: u64,
    clock: C,
    /// How many changes of the quota there have been. Who changes it holds this.
    changes: Mutex<u64>,
}

impl Bucket {
    /// A full bucket on [`MonotonicClock`].
    pub const fn new(quota: Quota) -> Self {
        Self { account: account(quota), origin: 0, clock: MonotonicClock::new(), changes: Mutex::new(0) }
    }
}

impl<C: Clock> Bucket<C> {
    /// A full bucket on a clock of your own. Reads the clock once, for the origin of its count (see [`Clock`]).
    pub fn with_clock(quota: Quota, clock: C) -> Self {
        let origin = origin(&clock);
        Self { account: account(quota), origin, clock, changes: Mutex::new(0) }
    }

    /// Takes one token, or says why not.
    ///
    /// # Errors
    /// [`Denied`] when no whole token is there. Nothing is charged then.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens at once, or says why not. `n` may count anything, bytes too. With `n = 0` always allowed, and nothing changes.
    ///
    /// # Errors
    /// [`Denied`] when fewer than `n` tokens are there, or `n` is more than the burst. Nothing is charged then.
    #[inline]
    pub fn check_n(&self, n: u64) -> Result<Allowed, Denied> {
        self.check_at(n, self.clock.now())
    }

    /// [`check_n`](Self::check_n) at a time already read from the bucket's clock: one reading can serve many checks.
    ///
    /// # Errors
    /// As for [`check_n`](Self::check_n).
    #[inline]
    pub fn check_at(&self, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.decide(Act::Take, n, now)
    }

    #[expect(clippy::inline_always, reason = "what a call does is known where it is made, and then costs nothing to be told apart")]
    #[inline(always)]
    fn decide(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        let (ask, answer) = self.account.decide(Call { act, n, elapsed: elapsed(now, self.origin) });
        ask.result(answer)
    }

    /// The bucket's state now. Charges nothing.
    pub fn peek(&self) -> Peek {
        let elapsed = elapsed(self.clock.now(), self.origin);
        let (word, terms) = self.account.read();
        Peek::at(terms.ticks, elapsed, word.tat().unwrap_or(0))
    }

    /// What this bucket allows: the quota in force.
    pub fn quota(&self) -> Quota {
        let (_, terms) = self.account.read();
        Quota::of(terms.ticks, terms.label)
    }

    /// Gives the bucket another quota, while other threads check it.
    ///
    /// What it owes at this moment it goes on owing, in tokens (rounded up to a tick of the new quota), up to the new burst: what was taken beyond
    /// that is forgiven. What was owed beyond the old burst, because it was booked or charged afterwards, stays owed. From here on it refills at the
    /// new rate. So a raised limit helps at once, and no wait under the old rate lives on, except for those who were told it: a reservation is due
    /// when it said. A full bucket stays full.
    ///
    /// Calls that run meanwhile are decided under the old quota or the new one, never under a mixture. When this returns, the old one is gone.
    ///
    /// No check is held up: the change is one step, and there is nothing to wait for. Those who change a bucket's quota wait for one another (a
    /// mutex), and one tries again, and reads the clock again, when a check has succeeded in the meantime.
    ///
    /// # What is promised over a change
    /// The calls stamped within `[s, t]` are admitted at most the last burst, what was refilled in that time, each part of it at the rate in
    /// force, and what was forgiven.
    ///
    /// That is for calls stamped on the side of a change on which they are decided. A call that stalls over a change after it has read the
    /// clock, or that is given another time than now, is held to the quota it is decided under: by so much time as its stamp is off, it may be
    /// admitted what the one rate refills more than the other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Bucket, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let bucket = Bucket::with_clock(Quota::per_second(10), clock.clone());
    /// assert_eq!(bucket.check_n(10)?.remaining(), 0);
    ///
    /// bucket.set_quota(Quota::per_second(1_000));
    /// assert_eq!(bucket.peek().remaining(), 990);
    /// assert_eq!(bucket.peek().reset_after(), Duration::from_millis(10));
    ///
    /// bucket.set_quota(Quota::per_second(1).burst(4));
    /// assert_eq!(bucket.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<(), tollgate::Denied>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) {
        // A clock that panicked has left all as it was.
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        *changes += 1;
        self.account.change(&terms(quota), *changes, || elapsed(self.clock.now(), self.origin));
    }
}

impl<C: Clock> TokenBucket for Bucket<C> {
    fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl<C: Clock> Sealed for Bucket<C> {
    fn look(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        let (word, terms) = self.account.read();
        let (ask, answer) = word.look(terms.ticks, Call { act, n, elapsed: elapsed(now, self.origin) });
        ask.result(answer)
    }

    fn act(&self, act: Act, n: u64, now: Instant) -> Result<Allowed, Denied> {
        self.decide(act, n, now)
    }
}

impl<C: Clock> fmt::Debug for Bucket<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("quota", &self.quota()).field("state", &self.peek()).finish_non_exhaustive()
    }
}

const fn terms(quota: Quota) -> Terms {
    Terms { ticks: *quota.ticks(), label: quota.label() }
}

const fn account(quota: Quota) -> Account {
    Account::of(AtomicU64::new(0), atomics(Account::opening(&terms(quota))), atomics([0; SIDE_WORDS]))
}

const fn atomics(numbers: [u64; SIDE_WORDS]) -> [AtomicU64; SIDE_WORDS] {
    let mut atomics = [const { AtomicU64::new(0) }; SIDE_WORDS];
    let mut word = 0;
    while word < SIDE_WORDS {
        atomics[word] = AtomicU64::new(numbers[word]);
        word += 1;
    }
    atomics
}

/// Where the count of a bucket on this clock begins.
pub(crate) fn origin(clock: &impl Clock) -> u64 {
    clock.now().as_nanos().saturating_sub(LEEWAY_NS)
}

#[inline]
pub(crate) fn elapsed(now: Instant, origin: u64) -> u64 {
    now.as_nanos().saturating_sub(origin)
}
