//! What a check answers: plain data, worked out further only when asked.

use core::fmt;
use core::time::Duration;

use crate::ticks::Ticks;

/// What is to become of a call's tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// They are taken if they are there.
    Take,
    /// They are taken if they will be there within so many nanoseconds.
    Book { within: u64 },
    /// They were used already, and are taken whether they are there or not.
    Charge,
    /// They were taken and not used, and come back: as many as are still owed.
    GiveBack,
}

impl Act {
    /// Whether it counts as a call that is allowed or denied.
    #[inline]
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Take | Self::Book { .. })
    }
}

/// One call: what becomes of `n` tokens, so many nanoseconds after the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) act: Act,
    pub(crate) n: u64,
    pub(crate) elapsed: u64,
}

/// A call to decide under one quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    ticks: Ticks,
    pub(crate) call: Call,
    /// When it is, in ticks.
    pub(crate) now: u64,
    /// What the tokens cost in ticks; `None` if that is more than the burst.
    pub(crate) cost: Option<u64>,
}

/// What a check decided, in two registers: it becomes an [`Allowed`] or a [`Denied`] where the caller looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// What the bucket owes now, in ticks. For [`Reason::NoRoom`], what the bucket in the way owes.
    pub(crate) debt: u64,
    pub(crate) denied: Option<Reason>,
}

impl Answer {
    #[inline]
    pub(crate) const fn allowed(debt: u64) -> Self {
        Self { debt, denied: None }
    }

    #[inline]
    pub(crate) const fn denied(debt: u64, reason: Reason) -> Self {
        Self { debt, denied: Some(reason) }
    }
}

impl Ask {
    #[inline]
    pub(crate) const fn new(ticks: Ticks, call: Call) -> Self {
        Self { ticks, call, now: ticks.at(call.elapsed), cost: ticks.cost(call.n) }
    }

    /// How ticks are counted under its quota.
    pub(crate) const fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// The most that may be owed after the call, if it is to be allowed: the whole burst, and what is refilled before it must be there.
    #[inline]
    pub(crate) const fn most(&self) -> u64 {
        match self.call.act {
            Act::Book { within } => self.ticks.at(self.call.elapsed.saturating_add(within)) - self.now + self.ticks.span(),
            _ => self.ticks.span(),
        }
    }

    /// What the tokens cost in ticks, more than the burst or not.
    pub(crate) const fn price(&self) -> u64 {
        self.ticks.price(self.call.n)
    }

    #[inline]
    pub(crate) const fn result(&self, answer: Answer) -> Result<Allowed, Denied> {
        let level = Level { ticks: self.ticks, elapsed: self.call.elapsed, debt: answer.debt };
        let within = match self.call.act {
            Act::Book { within } => within,
            _ => 0,
        };
        match answer.denied {
            None => Ok(Allowed { level }),
            Some(reason) => Err(Denied { level, n: self.call.n, within, reason }),
        }
    }
}

/// What a bucket owes at one time, under one quota.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    ticks: Ticks,
    elapsed: u64,
    debt: u64,
}

impl Level {
    const fn remaining(&self) -> u64 {
        self.ticks.remaining(self.debt)
    }

    /// How long until the debt has shrunk by `ticks`.
    const fn wait(&self, ticks: u64) -> Duration {
        duration(self.ticks.wait(self.elapsed, ticks))
    }

    const fn reset_after(&self) -> Duration {
        if self.debt == 0 { Duration::ZERO } else { self.wait(self.debt) }
    }

    /// How long until there is one whole token more.
    const fn next_after(&self) -> Duration {
        if self.debt == 0 {
            return Duration::ZERO;
        }
        match self.wait_for(self.remaining() + 1) {
            Some(wait) => wait,
            None => self.reset_after(),
        }
    }

    /// How long an empty bucket takes to fill.
    const fn fills_in(&self) -> Duration {
        duration(self.ticks.wait(0, self.ticks.span()))
    }

    /// How long until no more is owed than `tokens` leave of the burst. `None`: never, the burst has not so many.
    const fn wait_for(&self, tokens: u64) -> Option<Duration> {
        match self.ticks.cost(tokens) {
            Some(cost) => {
                let missing = (self.debt + cost).saturating_sub(self.ticks.span());
                // Past all that is counted, nothing is refilled.
                Some(if self.ticks.is_counted(self.elapsed, missing) { self.wait(missing) } else { Duration::MAX })
            }
            None => None,
        }
    }
}

/// An admitted call.
///
/// Small, `Copy`, and lazy: the getters divide, the check does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    level: Level,
}

impl Allowed {
    /// Whole tokens left after this call: as many one-token checks would succeed at this moment.
    pub const fn remaining(&self) -> u64 {
        self.level.remaining()
    }

    /// The burst, in tokens.
    pub const fn limit(&self) -> u64 {
        self.level.ticks.burst()
    }

    /// How long until the bucket is full again, if nothing more is taken. Whole nanoseconds, rounded up.
    pub const fn reset_after(&self) -> Duration {
        self.level.reset_after()
    }

    /// How long until one whole token more is there, if nothing more is taken; zero when the bucket is full. Whole nanoseconds, rounded up.
    pub const fn next_after(&self) -> Duration {
        self.level.next_after()
    }

    /// How long an empty bucket takes to fill: the burst at the quota's rate. Whole nanoseconds, rounded up.
    pub const fn fills_in(&self) -> Duration {
        self.level.fills_in()
    }

    /// How long until what was taken is there.
    pub(crate) const fn wait(&self) -> Duration {
        match self.level.debt.saturating_sub(self.level.ticks.span()) {
            0 => Duration::ZERO,
            missing => self.level.wait(missing),
        }
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed")
            .field("remaining", &self.remaining())
            .field("limit", &self.limit())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}

/// Why a call was denied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The bucket holds fewer tokens than asked for, nor will it hold them within the wait that was offered, if one was. A wait of
    /// [`retry_after`](Denied::retry_after) helps.
    OverQuota,
    /// More tokens than the burst were asked for. No wait helps.
    OverBurst,
    /// The limiter has no room for another key, and its [`Overflow`](crate::Overflow) policy is to deny. A wait helps: after
    /// [`retry_after`](Denied::retry_after) a bucket that occupies the place will be full, if nothing more is taken from it.
    ///
    /// Under either policy also where, for that moment, other threads are setting up every slot that the key could have; then the call may be
    /// tried again at once. In a limiter of a few keys that happens now and then, in a larger one hardly ever.
    NoRoom,
    /// The tokens are not there, and as many wait for some already as [may](crate::Waiters). After [`retry_after`](Denied::retry_after) no wait is
    /// needed.
    TooManyWaiters,
}

/// A denied call. Nothing was charged, and nobody after it is delayed by it.
///
/// Small, `Copy`, and lazy: the getters divide, the check does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Denied {
    level: Level,
    n: u64,
    /// Nanoseconds that the caller would have waited.
    within: u64,
    reason: Reason,
}

impl Denied {
    /// Whole tokens there are: as many one-token checks would succeed at this moment.
    pub const fn remaining(&self) -> u64 {
        match self.reason {
            Reason::NoRoom => 0,
            _ => self.level.remaining(),
        }
    }

    /// The same for so many tokens more than there are.
    pub(crate) const fn of(self, n: u64) -> Self {
        let reason = match (self.reason, self.level.ticks.cost(n)) {
            (Reason::NoRoom, _) => Reason::NoRoom,
            (_, Some(_)) => Reason::OverQuota,
            (_, None) => Reason::OverBurst,
        };
        Self { n, reason, ..self }
    }

    /// The same for another reason.
    pub(crate) const fn because(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// The burst, in tokens.
    pub const fn limit(&self) -> u64 {
        self.level.ticks.burst()
    }

    /// The tokens that were asked for.
    pub const fn requested(&self) -> u64 {
        self.n
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// How long until the bucket is full again, if nothing more is taken. Whole nanoseconds, rounded up.
    pub const fn reset_after(&self) -> Duration {
        self.level.reset_after()
    }

    /// How long until one whole token more is there, if nothing more is taken; zero when the bucket is full. Whole nanoseconds, rounded up.
    pub const fn next_after(&self) -> Duration {
        self.level.next_after()
    }

    /// How long an empty bucket takes to fill: the burst at the quota's rate. Whole nanoseconds, rounded up.
    pub const fn fills_in(&self) -> Duration {
        self.level.fills_in()
    }

    /// The shortest wait after which the same call is allowed, if nothing else happens: whole nanoseconds, and one less would be too short.
    /// `None` when no wait helps, because more than the burst was asked for.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.reason {
            Reason::NoRoom => Some(self.level.reset_after()),
            _ => match self.level.wait_for(self.n) {
                // A wait of a `Duration`'s most is longer than anyone offers.
                Some(Duration::MAX) => Some(Duration::MAX),
                Some(wait) => match wait.checked_sub(Duration::from_nanos(self.within)) {
                    Some(left) if !left.is_zero() => Some(left),
                    // As long was offered, and denied: it ends past all that is counted, where time stands still.
                    _ => Some(Duration::MAX),
                },
                None => None,
            },
        }
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denied")
            .field("reason", &self.reason)
            .field("requested", &self.n)
            .field("remaining", &self.remaining())
            .field("limit", &self.limit())
            .field("retry_after", &self.retry_after())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, limit, left) = (self.n, self.limit(), self.remaining());
        match (self.reason, self.retry_after()) {
            (Reason::NoRoom, Some(wait)) => write!(f, "no room for another key; a place may be free in {wait:?}"),
            (Reason::TooManyWaiters, Some(wait)) => {
                write!(f, "rate limited: {n} asked for, {left} of {limit} left, and as many wait as may; retry after {wait:?}")
            }
            (_, Some(wait)) if self.within > 0 => {
                let within = Duration::from_nanos(self.within);
                write!(f, "rate limited: {n} asked for within {within:?}, {left} of {limit} left; retry after {wait:?}")
            }
            (_, Some(wait)) => write!(f, "rate limited: {n} asked for, {left} of {limit} left; retry after {wait:?}"),
            (_, None) => write!(f, "{n} asked for, but the burst is {limit}: no wait will help, ask for at most {limit}"),
        }
    }
}

impl core::error::Error for Denied {}

/// A bucket as it stands, charged nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a peek changes nothing: its answer is all there is"]
pub struct Peek {
    level: Level,
    /// `None`: never used, or forgotten since it was full.
    full_for: Option<u64>,
}

impl Peek {
    /// The state of a bucket whose arrival time is `tat`.
    pub(crate) const fn at(ticks: Ticks, elapsed: u64, tat: u64) -> Self {
        let now = ticks.at(elapsed);
        let level = Level { ticks, elapsed, debt: tat.saturating_sub(now) };
        // A word that was never written has no time at which it became full.
        let full_for = if tat != 0 && level.debt == 0 { Some(now - tat) } else { None };
        Self { level, full_for }
    }

    /// Whole tokens there are: as many one-token checks would succeed at this moment.
    pub const fn remaining(&self) -> u64 {
        self.level.remaining()
    }

    /// The burst, in tokens.
    pub const fn limit(&self) -> u64 {
        self.level.ticks.burst()
    }

    /// How long until the bucket is full again, if nothing more is taken. Whole nanoseconds, rounded up.
    pub const fn reset_after(&self) -> Duration {
        self.level.reset_after()
    }

    /// How long until one whole token more is there, if nothing more is taken; zero when the bucket is full. Whole nanoseconds, rounded up.
    pub const fn next_after(&self) -> Duration {
        self.level.next_after()
    }

    /// How long an empty bucket takes to fill: the burst at the quota's rate. Whole nanoseconds, rounded up.
    pub const fn fills_in(&self) -> Duration {
        self.level.fills_in()
    }

    /// Tokens that are owed, rounded up: what is missing to a full bucket. More than [`limit`](Self::limit) while the level is below zero, because tokens are booked
    /// or were charged afterwards.
    pub const fn owed(&self) -> u64 {
        self.level.ticks.owed(self.level.debt)
    }

    /// Whether the bucket is full.
    pub const fn is_full(&self) -> bool {
        self.level.debt == 0
    }

    /// How long the bucket has been full (others call it idle), in whole nanoseconds, rounded down.
    ///
    /// `None` while it is not full, and where it is not known: a bucket never used, or one that a limiter has forgotten since it was full.
    pub const fn full_for(&self) -> Option<Duration> {
        match self.full_for {
            Some(ticks) => Some(duration(self.level.ticks.passed(self.level.elapsed, ticks))),
            None => None,
        }
    }
}

impl fmt::Debug for Peek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek")
            .field("remaining", &self.remaining())
            .field("limit", &self.limit())
            .field("reset_after", &self.reset_after())
            .field("full_for", &self.full_for())
            .finish()
    }
}

const fn duration(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let seconds = nanos / SECOND;
    if seconds > u64::MAX as u128 {
        return Duration::MAX;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above, and below a billion")]
    Duration::new(seconds as u64, (nanos % SECOND) as u32)
}
