use std::sync::OnceLock;

use super::{Clock, Instant};

/// The default clock: nanoseconds since the process first asked.
///
/// With the default feature `quanta`, a read of the processor's time-stamp counter, scaled; where the counter is not invariant, and without
/// the feature, the operating system's monotonic clock. What it does in a suspend or a migration, and why a limiter bears it: see [`Clock`].
///
/// The first reading in a process calibrates the counter, which can take a few hundred milliseconds. A [`Limiter`](crate::Limiter) takes it
/// when it is built; a `static` [`Bucket`](crate::Bucket) at its first check, unless something called [`now`](Clock::now) before.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock(());

impl MonotonicClock {
    /// The clock of this process: all values are the same clock.
    pub const fn new() -> Self {
        Self(())
    }
}

static START: OnceLock<Start> = OnceLock::new();

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(START.get_or_init(Start::now).elapsed_nanos())
    }
}

/// When the process first asked.
#[cfg(feature = "quanta")]
struct Start {
    counter: quanta::Clock,
    reading: u64,
    scale: Scale,
}

#[cfg(feature = "quanta")]
impl Start {
    fn now() -> Self {
        let counter = quanta::Clock::new();
        let reading = counter.raw();
        let scale = Scale::of(|counts| counter.delta_as_nanos(0, counts));
        Self { counter, reading, scale }
    }

    /// Zero on a core whose counter is behind the one that started.
    #[inline]
    fn elapsed_nanos(&self) -> u64 {
        // Before the counter: what a decision waits for is all that comes after it.
        let Self { counter, reading, scale } = self;
        let (reading, scale) = (*reading, *scale);
        let now = counter.raw();
        scale.nanos(now.saturating_sub(reading)).unwrap_or_else(|| self.elapsed_nanos_by_quanta(now))
    }

    #[cold]
    fn elapsed_nanos_by_quanta(&self, now: u64) -> u64 {
        self.counter.delta_as_nanos(self.reading, now)
    }
}

/// Nanoseconds per count, in parts of 2<sup>64</sup>; or 0, where a count is a nanosecond or more.
///
/// quanta scales by a factor and a shift that both vary; where the factor is a fraction, one multiplication does, which is sooner done.
#[cfg(feature = "quanta")]
#[derive(Clone, Copy)]
struct Scale(u64);

#[cfg(feature = "quanta")]
impl Scale {
    /// Of a counter whose counts are so many nanoseconds, modulo 2<sup>64</sup>.
    fn of(nanos: impl Fn(u64) -> u64) -> Self {
        // Asked of so many counts, that what is rounded off is less than a nanosecond in 2^58. A slow counter's answer would not fit 64 bits
        // there: so it is asked first of fewer.
        const COUNTS: u32 = 60;
        let is_fraction = nanos(1 << 32) < 1 << 32 && nanos(1 << COUNTS) < 1 << COUNTS;
        Self(if is_fraction { nanos(1 << COUNTS) << (u64::BITS - COUNTS) } else { 0 })
    }

    #[inline]
    fn nanos(self, counts: u64) -> Option<u64> {
        // The upper half of 128 bits.
        let nanos = ((u128::from(counts) * u128::from(self.0)) >> u64::BITS) as u64;
        (self.0 != 0).then_some(nanos)
    }
}

/// When the process first asked.
#[cfg(not(feature = "quanta"))]
struct Start(std::time::Instant);

#[cfg(not(feature = "quanta"))]
impl Start {
    fn now() -> Self {
        Self(std::time::Instant::now())
    }

    #[inline]
    fn elapsed_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(all(test, feature = "quanta"))]
mod tests {
    use super::Scale;

    #[test]
    fn scales_as_quanta_does() {
        let counter = quanta::Clock::new();
        let scale = Scale::of(|counts| counter.delta_as_nanos(0, counts));
        for bits in 0..63 {
            for counts in [1 << bits, (1 << bits) + 12_345, (2 << bits) - 1] {
                let theirs = counter.delta_as_nanos(0, counts);
                // Where a count is a nanosecond or more, quanta does it.
                let ours = scale.nanos(counts).unwrap_or(theirs);
                assert!(ours.abs_diff(theirs) <= 1 + (theirs >> 57), "{counts} counts: {ours} ns, and by quanta {theirs}");
            }
        }
        assert_eq!(Scale(0).nanos(1), None);
        assert_eq!(Scale(u64::MAX).nanos(1 << 40), Some((1 << 40) - 1));
        assert_eq!(Scale(1 << 63).nanos(7), Some(3));
    }

    #[test]
    fn leaves_slow_counters_to_quanta() {
        // As quanta scales, 64 bits of the product: (factor, shift) for counts of 1, 16, 32, 41.7, 48 and 52 ns, and a little more.
        for (nanos, rest) in [(1_u64, 0_u64), (1, 1), (16, 0), (16, 9), (32, 0), (32, 9), (41, 700_000), (48, 77), (52, 0)] {
            let factor = (nanos << 40) + (rest << 20);
            for factor in [factor, factor + 12_345] {
                #[expect(clippy::cast_possible_truncation, reason = "as quanta does")]
                let scale = Scale::of(|counts| ((u128::from(counts) * u128::from(factor)) >> 40) as u64);
                assert_eq!(scale.0, 0, "{nanos} ns");
            }
        }
        let third = Scale::of(|counts| counts / 3);
        assert_eq!(third.nanos(3_000_000_000), Some(999_999_999));
    }
}
