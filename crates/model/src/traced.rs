//! The outcome of each access.

use crate::accesses::Accesses;
use crate::policy::{Outcome, Policy};

/// The block was not in the cache.
pub const MISS: u8 = 1;
/// A dirty block was evicted for it.
pub const WRITE_BACK: u8 = 2;

/// Makes all accesses and returns the outcome of each: `MISS`, `WRITE_BACK`, both or neither.
///
/// `changes` has for each access whether it dirties its block; empty when none does. A dirty
/// block is written when it is evicted.
pub fn outcomes(cache: &mut dyn Policy, accesses: &Accesses, changes: &[bool]) -> Vec<u8> {
    let mut changed = vec![false; accesses.different as usize];
    let mut outcomes = Vec::with_capacity(accesses.len());
    for index in 0..accesses.len() {
        let access = accesses.access(index);
        let mut outcome = 0;
        if let Outcome::Miss { evicted } = cache.access(access) {
            outcome |= MISS;
            let is_changed = |block: u32| std::mem::take(&mut changed[block as usize]);
            if evicted.is_some_and(is_changed) {
                outcome |= WRITE_BACK;
            }
        }
        if changes.get(index).copied().unwrap_or(false) {
            changed[access.block as usize] = true;
        }
        outcomes.push(outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Kind;

    #[test]
    fn misses_are_those_that_are_counted_and_only_changed_blocks_are_written() {
        let blocks = [1, 2, 3, 1, 2, 1, 3];
        let accesses = Accesses::new(&blocks).expect("few blocks");
        let changes = [true, false, false, false, false, false, false];
        let mut cache = Kind::Lru.cache(2, &accesses, 8192);
        let outcomes = outcomes(cache.as_mut(), &accesses, &changes);
        // Block 1 leaves for block 3, and was changed; when it leaves again it was not.
        assert_eq!(outcomes, [MISS, MISS, MISS | WRITE_BACK, MISS, MISS, 0, MISS]);
        let hits = Kind::Lru.cache(2, &accesses, 8192).hits_of(&accesses);
        let misses = outcomes.iter().filter(|&&outcome| outcome & MISS != 0).count() as u64;
        assert_eq!(hits + misses, blocks.len() as u64);
    }

    #[test]
    fn a_block_that_never_leaves_is_never_written() {
        let accesses = Accesses::new(&[1, 2, 1, 2]).expect("few blocks");
        let mut cache = Kind::ClockSweep.cache(2, &accesses, 8192);
        let outcomes = outcomes(cache.as_mut(), &accesses, &[true; 4]);
        assert_eq!(outcomes, [MISS, MISS, 0, 0]);
    }
}
