//! One sector of verifiable data.
//!
//! | bytes | content (little-endian) |
//! |---|---|
//! | 0..8 | magic |
//! | 8..16 | seed of the data |
//! | 16..24 | offset of the sector on the target |
//! | 24..32 | offset of the block that it was written with |
//! | 32..36 | length of that block |
//! | 36..40 | generation: which write of it |
//! | 40..44 | version of this layout |
//! | 44..508 | pseudo-random bytes that follow from seed, offset and generation |
//! | 508..512 | CRC-32C of all before |

use crate::rng::{GOLDEN, mix};

/// Length of a sector: the least that any target writes as a whole.
pub const SECTOR_BYTES: u64 = 512;

pub(super) const LENGTH_BYTES: usize = SECTOR_BYTES as usize;
pub(super) type Sector = [u8; LENGTH_BYTES];

const MAGIC: u64 = u64::from_le_bytes(*b"SEATRIAL");
const VERSION: u32 = 1;
const BODY: std::ops::Range<usize> = 44..CHECKSUM;
const CHECKSUM: usize = LENGTH_BYTES - 4;

/// The header of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) seed: u64,
    pub(super) offset_bytes: u64,
    pub(super) block_start_bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) generation: u32,
}

impl Header {
    /// Reads what `sector` says, be it true or not.
    #[inline]
    pub(super) fn read(sector: &Sector) -> Self {
        Self {
            seed: u64::from_le_bytes(bytes_at(sector, 8)),
            offset_bytes: u64::from_le_bytes(bytes_at(sector, 16)),
            block_start_bytes: u64::from_le_bytes(bytes_at(sector, 24)),
            block_bytes: u32::from_le_bytes(bytes_at(sector, 32)),
            generation: u32::from_le_bytes(bytes_at(sector, 36)),
        }
    }

    /// Makes `sector` the one, and only one, that has this header.
    #[inline]
    pub(super) fn write_sector(&self, sector: &mut Sector) {
        sector[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        sector[8..16].copy_from_slice(&self.seed.to_le_bytes());
        sector[16..24].copy_from_slice(&self.offset_bytes.to_le_bytes());
        sector[24..32].copy_from_slice(&self.block_start_bytes.to_le_bytes());
        sector[32..36].copy_from_slice(&self.block_bytes.to_le_bytes());
        sector[36..40].copy_from_slice(&self.generation.to_le_bytes());
        sector[40..44].copy_from_slice(&VERSION.to_le_bytes());
        let mut key = mix(mix(mix(self.seed) ^ self.offset_bytes) ^ u64::from(self.generation));
        for word in sector[BODY].chunks_exact_mut(8) {
            word.copy_from_slice(&mix(key).to_le_bytes());
            key = key.wrapping_add(GOLDEN);
        }
        let checksum = crc32c::crc32c(&sector[..CHECKSUM]);
        sector[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Whether the block that the sector was written with reaches over `offset_bytes`.
    pub(super) fn block_covers(&self, offset_bytes: u64) -> bool {
        let inside_bytes = offset_bytes.checked_sub(self.block_start_bytes);
        inside_bytes.is_some_and(|inside| inside < u64::from(self.block_bytes))
    }
}

/// Whether `sector` is one of ours, in every bit as it was made.
#[inline]
pub(super) fn is_sealed(sector: &Sector) -> bool {
    u64::from_le_bytes(bytes_at(sector, 0)) == MAGIC
        && u32::from_le_bytes(bytes_at(sector, 40)) == VERSION
        && u32::from_le_bytes(bytes_at(sector, CHECKSUM)) == crc32c::crc32c(&sector[..CHECKSUM])
}

/// The whole sectors of `block`, each with its offset on the target.
#[inline]
pub(super) fn sectors(block: &[u8], offset_bytes: u64) -> impl Iterator<Item = (u64, &Sector)> {
    let sectors = block.chunks_exact(LENGTH_BYTES).filter_map(<[u8]>::first_chunk);
    (offset_bytes..).step_by(LENGTH_BYTES).zip(sectors)
}

#[inline]
fn bytes_at<const COUNT: usize>(sector: &Sector, at: usize) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    bytes.copy_from_slice(&sector[at..at + COUNT]);
    bytes
}
