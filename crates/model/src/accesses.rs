//! Accesses in order, with consecutive block numbers.

use rustc_hash::FxHashMap;

/// One access to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The block.
    pub block: u32,
    /// Whether it is part of a scan for which a database uses a ring of buffers.
    pub is_scan: bool,
}

/// More different blocks than a simulation holds.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there are more than {} different blocks", u32::MAX - 1)]
pub struct TooManyBlocks;

/// Accesses to blocks that are numbered from 0 in the order of their first access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accesses {
    /// The blocks that are accessed, in order.
    pub blocks: Vec<u32>,
    /// Whether each access is part of a scan; empty when none is.
    pub scans: Vec<bool>,
    /// Whether each access is a write, which is no hit and no miss; empty when none is.
    pub writes: Vec<bool>,
    /// Length of each access's sequential stream including it (bytes); empty if there are none.
    pub streams_bytes: Vec<u32>,
    /// How many different blocks there are.
    pub different: u32,
    /// The original address of each block.
    pub block_addresses: Vec<u64>,
}

impl Accesses {
    /// Numbers blocks of any numbers.
    ///
    /// Uses a table by address if these are dense, else a hash table.
    pub fn new(blocks: &[u64]) -> Result<Accesses, TooManyBlocks> {
        let lowest = blocks.iter().copied().min().unwrap_or(0);
        let highest = blocks.iter().copied().max().unwrap_or(0);
        let span = usize::try_from(highest - lowest).unwrap_or(usize::MAX);
        let mut numbered = BlockNumbering::default();
        if span <= 2 * blocks.len() + (1 << 16) {
            let mut table = vec![u32::MAX; span + 1];
            for &block in blocks {
                numbered.add(block, &mut table[(block - lowest) as usize])?;
            }
        } else {
            let mut table = FxHashMap::default();
            for &block in blocks {
                numbered.add(block, table.entry(block).or_insert(u32::MAX))?;
            }
        }
        let BlockNumbering { blocks, block_addresses } = numbered;
        Ok(Accesses {
            blocks,
            different: block_addresses.len() as u32,
            block_addresses,
            ..Accesses::default()
        })
    }

    /// Returns how many accesses there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> u64 {
        (self.len() - self.writes.iter().filter(|&&is_write| is_write).count()) as u64
    }

    /// Returns whether an access is a write, by its index.
    #[inline]
    pub fn is_write(&self, index: usize) -> bool {
        self.writes.get(index).copied().unwrap_or(false)
    }

    /// Returns the length of an access's sequential stream including it (bytes), by its index.
    #[inline]
    pub fn stream_bytes(&self, index: usize) -> u32 {
        self.streams_bytes.get(index).copied().unwrap_or(0)
    }

    /// Returns one access, by its index.
    #[inline]
    pub fn access(&self, index: usize) -> Access {
        let is_scan = self.scans.get(index).copied().unwrap_or(false);
        Access { block: self.blocks[index], is_scan }
    }

    /// Returns the accesses, in order.
    pub fn iter(&self) -> impl Iterator<Item = Access> + '_ {
        (0..self.len()).map(|index| self.access(index))
    }

    /// Returns for each access the index of the next one to the same block; `u32::MAX` of the last.
    pub fn next_uses(&self) -> Vec<u32> {
        let mut next = vec![u32::MAX; self.blocks.len()];
        let mut following = vec![u32::MAX; self.different as usize];
        for (index, &block) in self.blocks.iter().enumerate().rev() {
            next[index] = following[block as usize];
            following[block as usize] = index as u32;
        }
        next
    }
}

#[derive(Default)]
struct BlockNumbering {
    blocks: Vec<u32>,
    block_addresses: Vec<u64>,
}

impl BlockNumbering {
    #[inline]
    fn add(&mut self, block: u64, number: &mut u32) -> Result<(), TooManyBlocks> {
        if *number == u32::MAX {
            if self.block_addresses.len() == (u32::MAX - 1) as usize {
                return Err(TooManyBlocks);
            }
            *number = self.block_addresses.len() as u32;
            self.block_addresses.push(block);
        }
        self.blocks.push(*number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbered_by_their_first_access_close_together_or_not() {
        let close = Accesses::new(&[12, 10, 12, 11]);
        let apart = Accesses::new(&[12 << 40, 0, 12 << 40, 1 << 63]);
        let blocks = vec![0, 1, 0, 2];
        let mut expected = Accesses { blocks, different: 3, ..Accesses::default() };
        expected.block_addresses = vec![12 << 40, 0, 1 << 63];
        assert_eq!(apart.as_ref(), Ok(&expected));
        expected.block_addresses = vec![12, 10, 11];
        assert_eq!(close.as_ref(), Ok(&expected));
        assert_eq!(expected.next_uses(), [2, u32::MAX, u32::MAX, u32::MAX]);
    }
}
