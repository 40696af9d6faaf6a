//! Maps whose keys are hashes already, or small numbers.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds hashers that return a key of 64 bits as it is.
pub type HashBuilder = BuildHasherDefault<IdentityHasher>;

/// Returns a key of 64 bits as it is, and spreads one of 32 over all bits.
#[derive(Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.0 = u64::from(value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
