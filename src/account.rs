//! A bucket whose quota can change: its word, and the terms that the word is counted in.
//!
//! There are two *sides*, each with room for one set of terms: ticks, a label, and a pad. Bit 63 of the word names the side whose terms hold;
//! the other 63 are the arrival time, counted in those ticks and stored under that pad. A change writes the new terms to the side that the word
//! does not name, and then exchanges the word for one that names it, the arrival time converted.
//!
//! - **The exchange is the change.** What is owed and what it is counted in become others in one step. Before it, nothing has changed; after it,
//!   all has. No state lies between, for a check to wait in or to help out of; a setter that stalls holds up other setters only.
//! - **A side is written only while the word names the other one.** So a word and its terms belong together if the word has stood while
//!   they were read. A check finds out as it exchanges the word or, where it denies, by looking again.
//! - **No word means two things.** Each set of terms stores the arrival time under a pad of its own, which leaves a chance of one in
//!   2<sup>63</sup> (see [`Pad`]). So a thread that slept through two changes, with terms that have been written over, fails to exchange the
//!   word. Under one set of terms a word may come again, when tokens are given back: then the bucket owes again what it owed.

use crate::decision::{Answer, Ask, Call};
use crate::sync::{AtomicU64, Ordering};
use crate::ticks::{TICKS_WORDS, Ticks};
use crate::word::{Pad, Verdict, Word};

/// Numbers of a side. A power of two: sides are found with a shift.
pub(crate) const SIDE_WORDS: usize = 8;

const PAD: usize = 0;
const TICKS: usize = 1;
const LABEL: usize = TICKS + TICKS_WORDS;

/// Set in a word on the second side, and in that side's pad: so the exclusive or of the two is the arrival time alone.
const SECOND: u64 = 1 << 63;

/// What ticks were made from, for who wants to show it.
pub(crate) type Label = [u64; 2];

/// What a bucket's word is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) ticks: Ticks,
    pub(crate) label: Label,
}

/// The terms on one side, and the pad.
struct Side([AtomicU64; SIDE_WORDS]);

impl Side {
    #[inline]
    fn pad(&self) -> Pad {
        // Acquire: the numbers read next are of this pad's change or a later one. Partner: the last store in `write`.
        Pad::from_bits(self.0[PAD].load(Ordering::Acquire))
    }

    #[inline]
    fn ticks(&self) -> Ticks {
        // Acquire: whoever reads a later change's number sees that the word has left this side in between. Partners: the stores in `write`.
        Ticks::from_words(core::array::from_fn(|word| self.0[TICKS + word].load(Ordering::Acquire)))
    }

    fn label(&self) -> Label {
        // Acquire: as in `ticks`.
        core::array::from_fn(|word| self.0[LABEL + word].load(Ordering::Acquire))
    }

    /// Called by one thread at a time, while the word names the other side.
    fn write(&self, terms: &Terms, pad: Pad) {
        // Release, all: who sees one of the numbers sees the word that left this side. Partners: the loads in `ticks` and `label`.
        for (word, number) in self.0[TICKS..].iter().zip(terms.ticks.to_words().into_iter().chain(terms.label)) {
            word.store(number, Ordering::Release);
        }
        // Last, and release: who sees the pad sees all numbers. Partner: `pad`.
        self.0[PAD].store(pad.bits(), Ordering::Release);
    }
}

/// One bucket, and what it allows.
pub(crate) struct Account {
    /// `[ side:1 | TAT xor pad:63 ]`.
    word: AtomicU64,
    sides: [Side; 2],
}

impl Account {
    /// A full bucket, from a zero, the numbers of its [`opening`](Self::opening), and as many zeros.
    pub(crate) const fn of(word: AtomicU64, first: [AtomicU64; SIDE_WORDS], second: [AtomicU64; SIDE_WORDS]) -> Self {
        Self { word, sides: [Side(first), Side(second)] }
    }

    /// The numbers of the terms that a bucket begins with. Change 0: its pad is zero, and so a word of zero reads as full.
    pub(crate) const fn opening(terms: &Terms) -> [u64; SIDE_WORDS] {
        let ([mul, unit, span, shift], [tokens, period]) = (terms.ticks.to_words(), terms.label);
        [Pad::of(0).bits(), mul, unit, span, shift, tokens, period, 0]
    }

    /// The side that a word names.
    #[inline]
    fn side(&self, stored: u64) -> &Side {
        &self.sides[usize::from(stored >= SECOND)]
    }

    /// Decides, and changes the word. Lock-free: an exchange is lost only to another thread's success.
    ///
    /// A denial writes nothing.
    #[expect(clippy::inline_always, reason = "see `Bucket::decide`")]
    #[inline(always)]
    pub(crate) fn decide(&self, call: Call) -> (Ask, Answer) {
        // Acquire: the terms are those of this word, or of a later change. Partner: the exchange in `change`, whose release sequence the
        // exchange below goes on.
        let mut stored = self.word.load(Ordering::Acquire);
        loop {
            let side = self.side(stored);
            let pad = side.pad();
            // If a change has been at these numbers, they may not fit together: then nothing comes of what is worked out from them.
            let ask = Ask::new(side.ticks(), call);
            stored = match Word::unpadded(stored, pad).decide(&ask) {
                Verdict::Change { debt, word } => {
                    // Relaxed: the word's own modification order decides. If a number read above was of a later change, this comes after
                    // the exchange that left the side, and fails, as that word is not seen again.
                    // Acquire on failure: as above.
                    match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {
                        Ok(_) => return (ask, Answer::allowed(debt)),
                        Err(now) => now,
                    }
                }
                Verdict::Final(answer) => {
                    // If a number read above was of a later change, this sees the word that left the side, or a later one. Acquire: as above.
                    let again = self.word.load(Ordering::Acquire);
                    if again == stored {
                        return (ask, answer);
                    }
                    again
                }
            };
        }
    }

    /// The word and its terms. Goes on while a change is made in the meantime, whatever is charged.
    pub(crate) fn read(&self) -> (Word, Terms) {
        loop {
            // Relaxed: a guess at the side.
            let side = self.side(self.word.load(Ordering::Relaxed));
            let pad = side.pad();
            let terms = Terms { ticks: side.ticks(), label: side.label() };
            // Acquire: if the word is of a later change to this side than the pad read above, the pad is found changed next. If it is of an
            // earlier one, it is not on this side: who read the pad or a number sees the word that had left the side. Partner: `change`.
            let stored = self.word.load(Ordering::Acquire);
            if core::ptr::eq(self.side(stored), side) && side.pad() == pad {
                return (Word::unpadded(stored, pad), terms);
            }
        }
    }

    /// Puts the bucket under other terms. What it owes when `elapsed` says it goes on owing, in tokens, up to the new burst. Lock-free, as
    /// [`decide`](Self::decide) is.
    ///
    /// Called by one thread at a time, and never twice with a number, nor with 0.
    pub(crate) fn change(&self, to: &Terms, number: u64, elapsed: impl Fn() -> u64) {
        // Relaxed, here and on failure: no other thread changes sides or terms meanwhile.
        let mut stored = self.word.load(Ordering::Relaxed);
        let (from, to_side) = (self.side(stored), self.side(stored ^ SECOND));
        let (old, old_pad) = (from.ticks(), from.pad());
        let pad = Pad::from_bits(Pad::of(number).bits() | !stored & SECOND);
        to_side.write(to, pad);
        loop {
            // The word is read first, then the clock: if the word still stands after that, whoever was charged under the old terms had read the
            // clock before. (If it stands again, after a charge that was given back, those two come to nothing.)
            let tat = converted(Word::unpadded(stored, old_pad), &old, &to.ticks, elapsed());
            // Release: the terms were written before. Partners: the loads of the word in `decide` and `read`.
            match self.word.compare_exchange(stored, tat.padded(pad), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => stored = now,
            }
        }
    }
}

/// The word that owes as much in other ticks; or that is as long full.
fn converted(word: Word, from: &Ticks, to: &Ticks, elapsed: u64) -> Word {
    let full_at = word.tat().unwrap_or(0);
    Word::live(match full_at.saturating_sub(from.at(elapsed)) {
        0 => to.at(from.moment(full_at)),
        debt => to.converted(elapsed, debt, from),
    })
}
