//! How a quota counts time: exact integer arithmetic, no clock, no atomics.
//!
//! A quota of `tokens` per `period_ns` counts time in *ticks*, chosen so that one token costs a whole number of them (`unit`) and time turns
//! into ticks with one multiplication and a shift: `ticks(ns) = floor(ns * mul / 2^shift)`.
//!
//! - Where it fits, a tick is `1/p` ns with `p/q = tokens/period_ns` in lowest terms: `mul = p`, `shift = 0`, `unit = q`. Nothing is rounded.
//! - Elsewhere `unit` is the largest power of two that fits, and `mul` is the rate rounded down by less than one part in `2^shift`. A decision
//!   is then that of exact arithmetic on a clock rounded down to whole ticks; since ticks are always taken of the absolute time, nothing drifts.
//!
//! "Fits" means that a full horizon of time and a whole burst together stay within the 63 bits that a word gives to its arrival time.

/// The largest tick count a word can hold.
pub(crate) const MAX_TICKS: u64 = (1 << 63) - 1;

const DAY_NS: u64 = 86_400 * 1_000_000_000;

/// Every quota counts at least this far from a limiter's origin: twenty years, and the [`LEEWAY_NS`] that an origin lies before the first
/// reading.
const HORIZON_NS: u64 = 20 * 366 * DAY_NS + LEEWAY_NS;

/// How far behind the first reading of its clock a limiter puts its origin, so that a clock stepping back is taken as it is.
pub(crate) const LEEWAY_NS: u64 = 30 * DAY_NS;

/// With fewer significant bits than this in `mul`, waits would be wrong by more than one part in 2^24.
const MIN_MUL_BITS: u32 = 24;

/// No moment.
pub(crate) const NEVER: u64 = u64::MAX;

/// Words in [`Ticks::to_words`].
pub(crate) const TICKS_WORDS: usize = 4;

/// The tick arithmetic of one quota.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ticks {
    /// Ticks per `2^shift` nanoseconds.
    mul: u64,
    /// Ticks that one token costs.
    unit: u64,
    /// Ticks that the whole burst costs.
    span: u64,
    /// At most 63.
    shift: u32,
}

impl Ticks {
    /// The ticks of `tokens` per `period_ns` with a burst of `burst`, all at least 1; `None` if they do not fit.
    pub(crate) const fn fit(tokens: u64, period_ns: u64, burst: u64) -> Option<Self> {
        match Self::exact(tokens, period_ns, burst) {
            Some(ticks) => Some(ticks),
            None => Self::scaled(tokens, period_ns, burst),
        }
    }

    const fn exact(tokens: u64, period_ns: u64, burst: u64) -> Option<Self> {
        let divisor = gcd(tokens, period_ns);
        let (mul, unit) = (tokens / divisor, period_ns / divisor);
        let (time, span) = (wide(mul) * wide(HORIZON_NS), wide(burst) * wide(unit));
        // Each may be close to 2^128: they are not added before both are known to be small.
        if time > wide(MAX_TICKS) || span > wide(MAX_TICKS) - time {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_TICKS")]
        let span = span as u64;
        Some(Self { mul, unit, span, shift: 0 })
    }

    const fn scaled(tokens: u64, period_ns: u64, burst: u64) -> Option<Self> {
        // Tokens that a horizon and a burst need room for, rounded up.
        let room = wide(tokens) * wide(HORIZON_NS) / wide(period_ns) + 1 + wide(burst);
        if room > wide(MAX_TICKS) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_TICKS")]
        let unit_bits = (MAX_TICKS / room as u64).ilog2();

        // mul = floor(2^unit_bits * tokens * 2^shift / period_ns), by long division, for the largest shift that leaves it 64 bits.
        let rate = wide(tokens) << unit_bits;
        let mut mul = rate / wide(period_ns);
        let mut rest = rate % wide(period_ns);
        let mut shift = 0;
        while shift < 63 && mul < 1 << 63 {
            rest <<= 1;
            mul <<= 1;
            if rest >= wide(period_ns) {
                rest -= wide(period_ns);
                mul += 1;
            }
            shift += 1;
        }
        if mul < 1 << MIN_MUL_BITS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 2^64: the loop ends at 2^63, and room bounds a rate of over 2^63")]
        let mul = mul as u64;
        Some(Self { mul, unit: 1 << unit_bits, span: burst << unit_bits, shift })
    }

    /// The tick count `elapsed` nanoseconds after the origin. Past the horizon it stands still, one burst below [`MAX_TICKS`].
    #[inline]
    pub(crate) const fn at(&self, elapsed: u64) -> u64 {
        let product = wide(elapsed) * wide(self.mul);
        let last = self.last();
        // The usual case, apart: its branches are foreseen, and no shift has to be waited for.
        #[expect(clippy::cast_possible_truncation, reason = "below last")]
        if self.is_exact() && product < wide(last) {
            return product as u64;
        }
        // The mask says what the compiler cannot know, that the shift is below 64.
        let ticks = product >> (self.shift & 63);
        #[expect(clippy::cast_possible_truncation, reason = "below last")]
        if ticks < wide(last) { ticks as u64 } else { last }
    }

    /// The count that stands still past the horizon.
    const fn last(&self) -> u64 {
        MAX_TICKS - self.span
    }

    /// What `n` tokens cost; `None` if that is more than the burst.
    #[inline]
    pub(crate) const fn cost(&self, n: u64) -> Option<u64> {
        match self.unit.checked_mul(n) {
            Some(cost) if cost <= self.span => Some(cost),
            _ => None,
        }
    }

    /// What `n` tokens cost, up to [`MAX_TICKS`].
    pub(crate) const fn price(&self, n: u64) -> u64 {
        let price = self.unit.saturating_mul(n);
        if price < MAX_TICKS { price } else { MAX_TICKS }
    }

    /// What the whole burst costs: the most a bucket owes that no one waits for.
    #[inline]
    pub(crate) const fn span(&self) -> u64 {
        self.span
    }

    /// The burst, in tokens.
    pub(crate) const fn burst(&self) -> u64 {
        self.span / self.unit
    }

    /// Whole tokens left to a bucket that owes `debt` ticks.
    pub(crate) const fn remaining(&self, debt: u64) -> u64 {
        self.span.saturating_sub(debt) / self.unit
    }

    /// Whether the count gets so many ticks further than it is at `elapsed`.
    pub(crate) const fn is_counted(&self, elapsed: u64, ticks: u64) -> bool {
        ticks == 0 || ticks <= self.last() - self.at(elapsed)
    }

    /// Tokens, rounded up, that a debt of so many ticks is.
    pub(crate) const fn owed(&self, debt: u64) -> u64 {
        debt.div_ceil(self.unit)
    }

    /// The fewest nanoseconds after `elapsed` at which the count is at least `ticks` further.
    ///
    /// The smallest `x` with `floor(x * mul / 2^shift) >= T` is `ceil(T * 2^shift / mul)`. Past the horizon there is none.
    pub(crate) const fn wait(&self, elapsed: u64, ticks: u64) -> u128 {
        let now = self.at(elapsed);
        if now == self.last() && ticks > 0 {
            return u128::MAX;
        }
        let target = wide(now) + wide(ticks);
        (target << self.shift).div_ceil(wide(self.mul)).saturating_sub(wide(elapsed))
    }

    /// The whole nanoseconds in `ticks` that passed until `elapsed`, rounded down.
    pub(crate) const fn passed(&self, elapsed: u64, ticks: u64) -> u128 {
        let target = wide(self.at(elapsed).saturating_sub(ticks));
        wide(elapsed).saturating_sub((target << self.shift).div_ceil(wide(self.mul)))
    }

    /// The first nanosecond after the origin at which the count is at least `tick`; [`NEVER`] past the horizon.
    pub(crate) const fn moment(&self, tick: u64) -> u64 {
        if tick > self.last() {
            return NEVER;
        }
        if self.is_exact() {
            return tick.div_ceil(self.mul);
        }
        let moment = (wide(tick) << self.shift).div_ceil(wide(self.mul));
        #[expect(clippy::cast_possible_truncation, reason = "at most NEVER")]
        if moment > wide(NEVER) { NEVER } else { moment as u64 }
    }

    /// The arrival time here, `elapsed` nanoseconds after the origin, of a bucket that owes `debt` ticks of another quota: it owes as many
    /// tokens, rounded up to a tick.
    ///
    /// What was within the old burst is cut to the new one. What was beyond it, because it was booked or charged afterwards, stays owed: forgiven,
    /// it would be admitted twice.
    pub(crate) const fn converted(&self, elapsed: u64, debt: u64, from: &Self) -> u64 {
        let within = if debt < from.span { debt } else { from.span };
        let (owed, span) = (self.priced(within, from), wide(self.span));
        let tat = wide(self.at(elapsed)) + if owed < span { owed } else { span } + self.priced(debt - within, from);
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_TICKS")]
        if tat < wide(MAX_TICKS) { tat as u64 } else { MAX_TICKS }
    }

    /// So many ticks of another quota, token for token, rounded up.
    const fn priced(&self, ticks: u64, from: &Self) -> u128 {
        (wide(ticks) * wide(self.unit)).div_ceil(wide(from.unit))
    }

    /// The numbers that make it up: for a place where threads share them.
    pub(crate) const fn to_words(self) -> [u64; TICKS_WORDS] {
        [self.mul, self.unit, self.span, self.shift as u64]
    }

    /// What [`to_words`](Self::to_words) gave.
    #[inline]
    pub(crate) const fn from_words([mul, unit, span, shift]: [u64; TICKS_WORDS]) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
        Self { mul, unit, span, shift: shift as u32 }
    }

    /// Whether a tick divides every nanosecond and every token exactly.
    #[inline]
    pub(crate) const fn is_exact(&self) -> bool {
        self.shift == 0
    }

    /// The length of a tick in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn tick_ns(&self) -> f64 {
        (1_u128 << self.shift) as f64 / self.mul as f64
    }
}

const fn wide(x: u64) -> u128 {
    x as u128
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
