//! Which keys have a quota of their own.

use std::sync::OnceLock;

use papaya::{HashMap, ResizeMode};

use super::hash::KeyHasher;
use crate::plans::Plan;
use crate::table::Key;

/// From a key to its plan. Reading takes no lock; writing is for one thread at a time.
pub(super) struct Directory {
    /// Made with the first entry: most limiters have none.
    plans: OnceLock<HashMap<Key, Plan, KeyHasher>>,
}

impl Directory {
    pub(super) const fn new() -> Self {
        Self { plans: OnceLock::new() }
    }

    /// The plan of a key.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<Plan> {
        self.plans.get().and_then(|plans| Self::look_up(plans, key))
    }

    /// Apart, so that [`get`](Self::get) is a load and a branch where no key has a quota of its own.
    #[inline(never)]
    fn look_up(plans: &HashMap<Key, Plan, KeyHasher>, key: Key) -> Option<Plan> {
        plans.pin().get(&key).copied()
    }

    /// Gives a key a plan, and says which it had.
    pub(super) fn insert(&self, key: Key, plan: Plan) -> Option<Plan> {
        // Blocking: a map that is then only read would be left half moved by the incremental mode, and its reads many times as slow. Only
        // writers wait for one another.
        let map = self.plans.get_or_init(|| HashMap::builder().hasher(KeyHasher::new()).resize_mode(ResizeMode::Blocking).build());
        map.pin().insert(key, plan).copied()
    }

    /// Takes a key's plan away, and says which it was.
    pub(super) fn remove(&self, key: Key) -> Option<Plan> {
        self.plans.get()?.pin().remove(&key).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.plans.get().map_or(0, HashMap::len)
    }
}
