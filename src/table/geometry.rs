//! Which lines a key can have, while the table grows and shrinks by a few lines at a time (linear hashing: Litwin, VLDB 1980).
//!
//! A table of `n` lines is one of `2^k <= n` lines of which the first `n - 2^k` have been split: a home that falls on a line which is not there
//! yet falls on that line's parent. So one more line takes keys from one line only, its parent; and nothing else moves. A step is of
//! [`STEP_LINES`] lines: fewer steps, and the word that says how many lines there are, which every check reads, stays where it is for longer.

use core::ops::Range;

use crate::sync::{AtomicU64, Ordering, STEP_LINES};

/// `[ turn:30 | phase:2 | lines:32 ]`.
///
/// A turn is a change of direction: while it is even the table grows, while it is odd it shrinks. Within a turn the number of lines only rises, or
/// only falls. So what a geometry said of one key's lines, and says again in the same turn, it has said all the while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry(u64);

/// What is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing: each bucket is in its own lines.
    Settled,
    /// A line was added or taken away, and buckets are moved that belong elsewhere now.
    Moving,
    /// The memory of lines that are not in use goes back. No lines are added or taken away meanwhile.
    Releasing,
}

const PHASE_SHIFT: u32 = 32;
const TURN_SHIFT: u32 = 34;
const TURN_MASK: u64 = u64::MAX >> TURN_SHIFT;

impl Geometry {
    const fn new(turn: u64, phase: Phase, lines: usize) -> Self {
        let phase = match phase {
            Phase::Settled => 0,
            Phase::Moving => 1,
            Phase::Releasing => 2,
        };
        Self((turn & TURN_MASK) << TURN_SHIFT | phase << PHASE_SHIFT | lines as u64)
    }

    /// The lines in use, those that are being filled among them, those that are being emptied not.
    #[inline]
    pub(super) const fn lines(self) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to 32 bits")]
        let lines = self.0 as u32;
        lines as usize
    }

    pub(super) const fn turn(self) -> u64 {
        self.0 >> TURN_SHIFT
    }

    pub(super) const fn phase(self) -> Phase {
        match self.0 >> PHASE_SHIFT & 3 {
            0 => Phase::Settled,
            1 => Phase::Moving,
            _ => Phase::Releasing,
        }
    }

    pub(super) const fn grows(self) -> bool {
        self.turn().is_multiple_of(2)
    }

    /// The lines there were before the step under way.
    const fn lines_before(self) -> usize {
        match (self.phase(), self.grows()) {
            (Phase::Moving, true) => self.lines() - STEP_LINES,
            (Phase::Moving, false) => self.lines() + STEP_LINES,
            _ => self.lines(),
        }
    }

    /// Every line that can hold a bucket.
    pub(super) const fn extent(self) -> usize {
        let (now, before) = (self.lines(), self.lines_before());
        if now > before { now } else { before }
    }

    /// The lines whose buckets the step under way looks at: the parents of the new lines, or the lines that go.
    pub(super) const fn sources(self) -> Range<usize> {
        // The new lines have one top bit, so their parents follow one another as they do.
        let first = if self.grows() { parent(self.lines() - STEP_LINES) } else { self.lines() };
        first..first + STEP_LINES
    }

    /// The step up; from a step down, the lines are taken back.
    pub(super) const fn growing(self) -> Self {
        Self::new(self.turn() + self.turn() % 2, Phase::Moving, self.lines() + STEP_LINES)
    }

    /// The step down.
    pub(super) const fn shrinking(self) -> Self {
        Self::new(self.turn() | 1, Phase::Moving, self.lines() - STEP_LINES)
    }

    pub(super) const fn settled(self) -> Self {
        Self::new(self.turn(), Phase::Settled, self.lines())
    }

    pub(super) const fn releasing(self) -> Self {
        Self::new(self.turn(), Phase::Releasing, self.lines())
    }

    /// The line that a home falls on.
    #[inline]
    pub(super) const fn line(self, home: u64) -> usize {
        fall(home, self.lines())
    }

    /// Whether a line is one of a key's with these homes.
    pub(super) fn is_line_of(self, homes: [u64; CHOICES], line: usize) -> bool {
        homes.into_iter().any(|home| self.line(home) == line)
    }

    /// The lines of a key with these homes.
    #[inline]
    pub(super) fn view(self, homes: [u64; CHOICES]) -> View {
        let mut view = View { of: self, lines: [0; 2 * CHOICES], now: 0, all: 0 };
        for home in homes {
            view.add(self.line(home));
        }
        view.now = view.all;
        if self.phase() == Phase::Moving {
            for home in homes {
                view.add(fall(home, self.lines_before()));
            }
        }
        view
    }
}

/// Candidate lines of a key.
pub(super) const CHOICES: usize = 2;

/// A key's lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    of: Geometry,
    /// Each once; then zeros.
    lines: [usize; 2 * CHOICES],
    now: usize,
    all: usize,
}

impl View {
    pub(super) const fn turn(&self) -> u64 {
        self.of.turn()
    }

    /// Whether a geometry, in the same turn, gives the key with these homes the same lines.
    #[inline]
    pub(super) fn holds_in(&self, geometry: Geometry, homes: [u64; CHOICES]) -> bool {
        // Nearly always it is the very same, and they need not be worked out again.
        geometry == self.of || {
            let view = geometry.view(homes);
            view.turn() == self.turn() && view.now() == self.now() && view.all() == self.all()
        }
    }

    #[inline]
    fn add(&mut self, line: usize) {
        if !self.all().contains(&line) {
            self.lines[self.all] = line;
            self.all += 1;
        }
    }

    /// Those where a bucket of the key may be made.
    #[inline]
    pub(super) fn now(&self) -> &[usize] {
        &self.lines[..self.now]
    }

    /// The same, and then those where one may still be, from before the step under way.
    #[inline]
    pub(super) fn all(&self) -> &[usize] {
        &self.lines[..self.all]
    }
}

/// The line that a home falls on among so many, at least 1.
#[inline]
const fn fall(home: u64, lines: usize) -> usize {
    // The smallest 2^k - 1 that is at least `lines - 1`, and 1.
    let mask = usize::MAX >> ((lines - 1) | 1).leading_zeros();
    #[expect(clippy::cast_possible_truncation, reason = "masked next")]
    let line = home as usize & mask;
    if line < lines { line } else { line & mask >> 1 }
}

/// The line that a line was split from. That of line 0 is itself.
const fn parent(line: usize) -> usize {
    if line == 0 { 0 } else { line - (1 << line.ilog2()) }
}

/// A geometry that threads share.
pub(super) struct Shape(AtomicU64);

impl Shape {
    pub(super) fn new(lines: usize) -> Self {
        Self(AtomicU64::new(Geometry::new(0, Phase::Settled, lines).0))
    }

    #[inline]
    pub(super) fn load(&self) -> Geometry {
        // Acquire: what was moved before a step was done is found where it is now; and see `Table::scan`. Partner: `advance`.
        Geometry(self.0.load(Ordering::Acquire))
    }

    /// Fails if the geometry has changed.
    pub(super) fn advance(&self, from: Geometry, to: Geometry) -> bool {
        // Release: see `load`. Acquire: this step comes after the one before it, also for whoever reads only this one.
        self.0.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Geometry, Phase, fall, parent};

    #[test]
    fn one_more_line_takes_homes_from_its_parent_only() {
        for lines in 1..300 {
            for home in (0..5_000).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let (before, now) = (fall(home, lines), fall(home, lines + 1));
                assert!(before < lines && now <= lines);
                assert!(now == before || now == lines && before == parent(lines), "{home:#x}: from {before} to {now} at {lines} lines");
            }
        }
    }

    #[test]
    fn steps_and_turns() {
        let start = Geometry::new(0, Phase::Settled, 40);
        let grown = start.growing();
        assert_eq!((grown.turn(), grown.phase(), grown.lines(), grown.sources()), (0, Phase::Moving, 48, 8..16));
        assert_eq!(grown.settled().growing().turn(), 0);
        let shrunk = grown.settled().shrinking();
        assert_eq!((shrunk.turn(), shrunk.phase(), shrunk.lines(), shrunk.sources(), shrunk.extent()), (1, Phase::Moving, 40, 40..48, 48));
        let taken_back = shrunk.growing();
        assert_eq!((taken_back.turn(), taken_back.lines(), taken_back.sources()), (2, 48, 8..16));
        assert_eq!(taken_back.settled().releasing().settled(), taken_back.settled());
    }
}
