//! A hasher whose hashes are the same in every run, so that what a test finds is found again.

use std::hash::{BuildHasher, Hasher};

/// Hashes by a number: another number, other hashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(pub(crate) u64);

/// The hash under way.
#[derive(Debug)]
pub(crate) struct Mixing(u64);

impl BuildHasher for Seeded {
    type Hasher = Mixing;

    fn build_hasher(&self) -> Mixing {
        Mixing(mixed(self.0))
    }
}

impl Hasher for Mixing {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(self.0 ^ mixed(number.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood, 2014).
fn mixed(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
