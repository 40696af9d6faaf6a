//! Verifiable data: every sector contains its address and the number of its write.
//!
//! [`stamp`] marks a block to be written, [`check`] judges one that was read. Thus a disk, a
//! controller or a file system that loses, mixes up, misplaces or damages data is caught, and the
//! kind of corruption is named.

mod corruption;
mod diagnosis;
mod sector;

pub use self::corruption::{Corruption, ForeignContent};
pub use self::sector::SECTOR_BYTES;
use self::sector::{Header, Sector, is_sealed, sectors};
use crate::ledger::{ExpectedContent, Ledger};

/// Fills `block`, which is about to be written at `offset_bytes`, with the content that its next
/// write is to leave there. Its length is a multiple of [`SECTOR_BYTES`].
pub fn stamp(block: &mut [u8], offset_bytes: u64, ledger: &Ledger) {
    debug_assert_eq!(block.len() as u64 % SECTOR_BYTES, 0);
    let block_bytes = u32::try_from(block.len()).unwrap_or(u32::MAX);
    let sectors = block.chunks_exact_mut(SECTOR_BYTES as usize);
    for (at_bytes, sector) in (offset_bytes..).step_by(SECTOR_BYTES as usize).zip(sectors) {
        let header = Header {
            seed: ledger.seed(),
            offset_bytes: at_bytes,
            block_start_bytes: offset_bytes,
            block_bytes,
            generation: ledger.next_generation(at_bytes),
        };
        if let Some(sector) = sector.first_chunk_mut() {
            header.write_sector(sector);
        }
    }
}

/// Checks a `block` that was read at `offset_bytes`. Sectors of which the ledger knows nothing,
/// because no write of them ended well, are not judged.
///
/// # Errors
///
/// The [`Corruption`] of the first sector that is not as it should be.
pub fn check(block: &[u8], offset_bytes: u64, ledger: &Ledger) -> Result<(), Corruption> {
    for (at_bytes, sector) in sectors(block, offset_bytes) {
        let expected = ledger.expected(at_bytes);
        if !is_as(sector, at_bytes, ledger.seed(), expected) {
            return Err(diagnosis::of(block, offset_bytes, at_bytes, ledger));
        }
    }
    Ok(())
}

#[inline]
fn is_as(sector: &Sector, at_bytes: u64, seed: u64, expected: ExpectedContent) -> bool {
    let header = Header::read(sector);
    expected.is_unknown()
        || (header.offset_bytes == at_bytes
            && header.seed == seed
            && expected.accepts(header.generation)
            && is_sealed(sector))
}

#[cfg(test)]
mod tests;
