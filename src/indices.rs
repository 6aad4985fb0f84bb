//! Small numbers for threads: dense, and given out again.

use crate::sync::{AtomicU64, Ordering};

/// The numbers from 0 on, a bit each: set while taken.
pub(crate) struct Indices<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Indices<WORDS> {
    /// From words of zeros.
    pub(crate) const fn of(words: [AtomicU64; WORDS]) -> Self {
        Self(words)
    }

    /// Takes the lowest number that is free, if one is. Lock-free, and allocates nothing.
    pub(crate) fn take(&self) -> Option<usize> {
        for (word, taken) in self.0.iter().enumerate() {
            // Acquire: what the number's last holder did under it comes before what this one does. Partner: `give_back`.
            // Relaxed on failure: only the bits are looked at.
            let before = taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| (taken != u64::MAX).then(|| taken | (taken + 1)));
            if let Ok(before) = before {
                return Some(word * 64 + before.trailing_ones() as usize);
            }
        }
        None
    }

    /// Frees a number that was taken.
    pub(crate) fn give_back(&self, number: usize) {
        // Release: partner in `take`.
        self.0[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Indices;
    use crate::sync::AtomicU64;

    #[test]
    fn lowest_free_number_first_and_none_twice() {
        let indices = Indices::of([const { AtomicU64::new(0) }; 2]);
        assert_eq!((0..128).map(|_| indices.take()).collect::<Vec<_>>(), (0..128).map(Some).collect::<Vec<_>>());
        assert_eq!(indices.take(), None);
        for number in [127, 64, 63, 0] {
            indices.give_back(number);
        }
        assert_eq!([(); 5].map(|()| indices.take()), [Some(0), Some(63), Some(64), Some(127), None]);
    }
}
