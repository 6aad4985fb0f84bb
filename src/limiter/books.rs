//! What a limiter keeps beside the table: counts, stamps, and which keys have a quota of their own.

use super::directory::Directory;
use super::stripe::{Mine, Stripes};
use crate::plans::Plan;
use crate::table::{Key, Ledger};

pub(super) struct Books {
    pub(super) stripes: Stripes,
    pub(super) directory: Directory,
}

impl Books {
    pub(super) fn new() -> Self {
        Self { stripes: Stripes::new(), directory: Directory::new() }
    }

    /// The books, open at the calling thread's page.
    #[inline]
    pub(super) fn open(&self) -> Page<'_> {
        Page { mine: self.stripes.mine(), directory: &self.directory }
    }
}

/// Where one thread writes.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    mine: Mine<'a>,
    directory: &'a Directory,
}

/// Books that a call writes into: open already, or to be opened for each entry.
pub(super) trait Pages: Ledger {
    fn mine(&self) -> Mine<'_>;
    fn directory(&self) -> &Directory;
}

impl Pages for Page<'_> {
    #[inline]
    fn mine(&self) -> Mine<'_> {
        self.mine
    }

    fn directory(&self) -> &Directory {
        self.directory
    }
}

/// A call makes one entry, most times.
impl Pages for &Books {
    #[inline]
    fn mine(&self) -> Mine<'_> {
        self.stripes.mine()
    }

    fn directory(&self) -> &Directory {
        &self.directory
    }
}

macro_rules! ledger {
    ($($books:ty),+) => {$(
        impl Ledger for $books {
            #[inline]
            fn stamp(&self) -> u64 {
                self.mine().stamp()
            }

            fn lane(&self) -> usize {
                self.mine().lane()
            }

            #[inline]
            fn own_plan(&self, key: Key) -> Option<Plan> {
                self.directory().get(key)
            }

            fn evicted_full(&self) {
                self.mine().evicted_full();
            }

            fn evicted_in_debt(&self) {
                self.mine().evicted_in_debt();
            }

            fn grown(&self) {
                self.mine().grown();
            }

            fn shrunk(&self) {
                self.mine().shrunk();
            }
        }
    )+};
}
ledger!(Page<'_>, &Books);
