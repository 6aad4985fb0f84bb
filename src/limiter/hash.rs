//! The default hash: keyed, so that nobody outside can choose keys by where they fall.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use foldhash::{SharedSeed, quality};

/// The default hasher of a [`Limiter`](crate::Limiter): foldhash (its "quality" variant), keyed with two numbers of 64
/// bits, one per process and one per limiter, that derive from the operating system's entropy.
///
/// 52 bits of a key's hash decide which eight slots its bucket may have, and are what it goes by there. Whoever could predict them could make a key
/// that shares a victim's bucket. Without the hash key that is a guess of one in 2<sup>52</sup>, and no answer of a limiter tells more about the
/// hash than whether such a guess was right. No set of keys makes checks of known keys slow: each looks at
/// eight slots, and that is all.
///
/// Where that is not enough, give the builder [`std::hash::RandomState`]: SipHash-1-3, a keyed function made to withstand an adversary who
/// sees its output. `docs/design.md` has what it costs.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    state: quality::SeedableRandomState,
}

impl KeyHasher {
    /// A hasher with a key of its own.
    pub fn new() -> Self {
        static SHARED: OnceLock<SharedSeed> = OnceLock::new();
        let shared = SHARED.get_or_init(|| SharedSeed::from_u64(entropy()));
        Self { state: quality::SeedableRandomState::with_seed(entropy(), shared) }
    }
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for KeyHasher {
    type Hasher = quality::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.state.build_hasher()
    }
}

/// 64 bits that cannot be predicted: a hash under the standard library's key, which comes from the operating system once a thread and is another
/// for each `RandomState`.
fn entropy() -> u64 {
    RandomState::new().hash_one(())
}
