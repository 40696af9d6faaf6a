//! The ledger: which write of each block the target should hold.
//!
//! It takes 4 bytes for each block, 1 MiB for a GiB of 4 KiB blocks, and at most 1 GiB in all
//! ([`BLOCKS_MAX`]). It can be saved and read again, so that a check may come after a power cut;
//! such a check is meant for writes that were durable when they completed (`dsync` or `commit`):
//! data that was only in the target's cache may rightly be lost.

use std::sync::atomic::{AtomicU32, Ordering};

use seatrial_gauge::Operation;

use crate::address::{Grid, greatest_divisor};
use crate::spec::CellSpec;

/// Most blocks that a ledger keeps: 1 GiB of memory, a TiB of 4 KiB blocks.
pub const BLOCKS_MAX: u64 = 1 << 28;

/// Generations go from 1 to this and then start again at 1; 0 is a block that was never written.
const GENERATION_MAX: u32 = (1 << 30) - 1;
/// A request on the block is in flight.
const CLAIMED: u32 = 1 << 30;
/// A write after the generation's began, and did not end well or not yet.
const UNCERTAIN: u32 = 1 << 31;

const MAGIC: [u8; 8] = *b"SEATLEDG";
const VERSION: u32 = 1;
/// Magic, version, then seed, start, block length and blocks.
const HEAD_BYTES: usize = 8 + 4 + 4 * 8;
const CHECKSUM_BYTES: usize = 4;

/// Why a ledger cannot be kept or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// It would need too much memory.
    #[error(
        "a ledger of {blocks} blocks would take more than 1 GiB of memory; verify a shorter range, \
         or larger blocks"
    )]
    TooLarge {
        /// Blocks of the range.
        blocks: u64,
    },
    /// The range has no block, or blocks have no sectors.
    #[error("a ledger needs blocks of whole 512-byte sectors and room for one of them")]
    Empty,
    /// Something else, or only the beginning of a ledger.
    #[error("this is not a whole ledger; give the file that the writing run saved")]
    NotALedger,
    /// From another version of Seatrial.
    #[error("the ledger has version {found}, but this program reads version {VERSION} only")]
    Version {
        /// The version that it has.
        found: u32,
    },
    /// Its checksum does not fit.
    #[error("the ledger is damaged (its checksum does not fit), so it proves nothing")]
    Damaged,
    /// A cell would write less than one of its blocks.
    #[error(
        "writes of {write_bytes} bytes cannot be kept in a ledger of {block_bytes}-byte blocks; \
         start again with a separate ledger"
    )]
    Unsuitable {
        /// The size or alignment of the writes.
        write_bytes: u64,
        /// The ledger's block.
        block_bytes: u64,
    },
}

/// The expected content of a block, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedContent {
    /// The last write that ended well; 0 when there was none.
    pub generation: u32,
    /// Whether the write after it began, so that the block may hold either, or parts of both.
    pub uncertain: bool,
}

impl ExpectedContent {
    /// Whether nothing is known, as no write ever ended well.
    #[inline]
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.generation == 0
    }

    /// Whether a sector of the write of `generation` may be there.
    #[inline]
    #[must_use]
    pub fn accepts(&self, generation: u32) -> bool {
        generation == self.generation
            || (self.uncertain && generation == following(self.generation))
    }

    /// Whether `generation` came before what is expected.
    #[must_use]
    pub fn is_newer_than(&self, generation: u32) -> bool {
        let ahead = (self.generation + GENERATION_MAX).saturating_sub(generation) % GENERATION_MAX;
        ahead > 0 && ahead < GENERATION_MAX / 2
    }
}

/// Returns the generation of the write after that of `generation`.
#[inline]
fn following(generation: u32) -> u32 {
    generation % GENERATION_MAX + 1
}

/// The generations of all blocks of a target, shared by the workers that read and write them.
///
/// A request goes through it in this order: [`Ledger::claim`]; for a write also
/// [`Ledger::mark_uncertain`] before it leaves and, only when it ended well, [`Ledger::confirm`];
/// at last [`Ledger::release`]. A write that failed or never ended thus leaves its blocks
/// uncertain, until the next one that ends well.
#[derive(Debug)]
pub struct Ledger {
    seed: u64,
    start_bytes: u64,
    block_bytes: u64,
    words: Box<[AtomicU32]>,
}

impl Ledger {
    /// Returns an empty ledger for data of `seed` in the blocks of `block_bytes` that the
    /// `length_bytes` from `start_bytes` on have room for.
    ///
    /// # Errors
    ///
    /// [`LedgerError::TooLarge`] or [`LedgerError::Empty`].
    pub fn new(
        seed: u64,
        start_bytes: u64,
        length_bytes: u64,
        block_bytes: u64,
    ) -> Result<Self, LedgerError> {
        let blocks = length_bytes.checked_div(block_bytes).unwrap_or(0);
        if blocks == 0 || block_bytes % 512 != 0 {
            return Err(LedgerError::Empty);
        }
        if blocks > BLOCKS_MAX {
            return Err(LedgerError::TooLarge { blocks });
        }
        let words = (0..blocks).map(|_| AtomicU32::new(0)).collect();
        Ok(Self { seed, start_bytes, block_bytes, words })
    }

    /// Returns an empty ledger for `spec`. Its blocks are as long as all sizes and alignments
    /// allow; with a single size as alignment, that size.
    ///
    /// # Errors
    ///
    /// [`LedgerError::TooLarge`], or [`LedgerError::Empty`] when the data is not verifiable.
    pub fn for_spec(spec: &CellSpec) -> Result<Self, LedgerError> {
        let grid = Grid::of(spec).ok().flatten().ok_or(LedgerError::Empty)?;
        let accesses = spec.accesses.iter();
        let block_bytes = accesses.fold(0, |divisor, access| {
            let sizes = access.sizes.iter().map(|size| size.bytes);
            sizes.fold(greatest_divisor(divisor, access.align_bytes), greatest_divisor)
        });
        Self::new(spec.seed, grid.start_bytes, grid.grains * grid.grain_bytes, block_bytes)
    }

    /// Checks that this ledger, of an earlier cell, can be carried on by `spec`: reads may have any
    /// size, but what is written must be whole blocks of the ledger.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Unsuitable`] with the first size or alignment that is not.
    pub fn suits(&self, spec: &CellSpec) -> Result<(), LedgerError> {
        let block_bytes = self.block_bytes;
        let writes = spec
            .accesses
            .iter()
            .filter(|access| matches!(access.operation, Operation::Write | Operation::Commit));
        for access in writes {
            let sizes = access.sizes.iter().map(|size| size.bytes);
            let mut lengths = sizes.chain([access.align_bytes, self.start_bytes]);
            if let Some(write_bytes) = lengths.find(|bytes| bytes % block_bytes != 0) {
                return Err(LedgerError::Unsuitable { write_bytes, block_bytes });
            }
        }
        Ok(())
    }

    /// Returns the seed of the data that was written.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Claims the blocks from `offset_bytes` on for one request; false, and nothing is claimed,
    /// when a request on one of them is in flight.
    #[must_use]
    pub fn claim(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        let words = self.words_of(offset_bytes, length_bytes);
        let is_free = |word: &AtomicU32| word.fetch_or(CLAIMED, Ordering::AcqRel) & CLAIMED == 0;
        match words.iter().position(|word| !is_free(word)) {
            None => true,
            Some(taken) => {
                clear(&words[..taken], CLAIMED);
                false
            }
        }
    }

    /// Releases the claimed blocks, once the request has ended and was checked.
    pub fn release(&self, offset_bytes: u64, length_bytes: u64) {
        clear(self.words_of(offset_bytes, length_bytes), CLAIMED);
    }

    /// Notes that a write of the claimed blocks is about to leave.
    pub fn mark_uncertain(&self, offset_bytes: u64, length_bytes: u64) {
        for word in self.words_of(offset_bytes, length_bytes) {
            word.fetch_or(UNCERTAIN, Ordering::AcqRel);
        }
    }

    /// Notes that the write of the claimed blocks ended well: each is a generation further.
    pub fn confirm(&self, offset_bytes: u64, length_bytes: u64) {
        for word in self.words_of(offset_bytes, length_bytes) {
            // Only the request that claimed the block changes it, so load and store suffice.
            let now = word.load(Ordering::Acquire);
            let claimed = now & CLAIMED;
            word.store(following(now & GENERATION_MAX) | claimed, Ordering::Release);
        }
    }

    /// Returns the expected content of the sector at `offset_bytes`; unknown outside the ledger.
    #[inline]
    #[must_use]
    pub fn expected(&self, offset_bytes: u64) -> ExpectedContent {
        let word = self.words_of(offset_bytes, 1).first();
        let word = word.map_or(0, |word| word.load(Ordering::Acquire));
        ExpectedContent { generation: word & GENERATION_MAX, uncertain: word & UNCERTAIN != 0 }
    }

    /// Returns the generation that the next write of the sector at `offset_bytes` has. It is the
    /// same again after a write that failed: whichever of the two arrived, it is right.
    #[inline]
    #[must_use]
    pub fn next_generation(&self, offset_bytes: u64) -> u32 {
        following(self.expected(offset_bytes).generation)
    }

    /// The blocks that the bytes overlap; none outside the ledger.
    #[inline]
    fn words_of(&self, offset_bytes: u64, length_bytes: u64) -> &[AtomicU32] {
        let Some(inside_bytes) = offset_bytes.checked_sub(self.start_bytes) else { return &[] };
        let first = inside_bytes / self.block_bytes;
        let end = inside_bytes.saturating_add(length_bytes).div_ceil(self.block_bytes);
        let end = (end as usize).min(self.words.len());
        self.words.get(first as usize..end).unwrap_or(&[])
    }

    /// Returns the ledger as bytes to be saved. Requests that are in flight meanwhile are kept as
    /// uncertain where they write, and forgotten where they read.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let blocks = self.words.len();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 4 * blocks + CHECKSUM_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        for field in [self.seed, self.start_bytes, self.block_bytes, blocks as u64] {
            bytes.extend(field.to_le_bytes());
        }
        for word in &self.words {
            bytes.extend((word.load(Ordering::Acquire) & !CLAIMED).to_le_bytes());
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the output of [`Ledger::to_bytes`].
    ///
    /// # Errors
    ///
    /// [`LedgerError`] when it is not that, of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LedgerError> {
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or(LedgerError::NotALedger)?;
        let found = u32::from_le_bytes(taken(&mut rest)?);
        if found != VERSION {
            return Err(LedgerError::Version { found });
        }
        let (body, checksum) = bytes.split_last_chunk().ok_or(LedgerError::NotALedger)?;
        let mut fields = [0; 4];
        for field in &mut fields {
            *field = u64::from_le_bytes(taken(&mut rest)?);
        }
        let [seed, start_bytes, block_bytes, blocks] = fields;
        let words = rest.strip_suffix(checksum).ok_or(LedgerError::NotALedger)?;
        if blocks.checked_mul(4) != Some(words.len() as u64) {
            return Err(LedgerError::NotALedger);
        }
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(LedgerError::Damaged);
        }
        let length_bytes = blocks.checked_mul(block_bytes).ok_or(LedgerError::Damaged)?;
        let ledger = Self::new(seed, start_bytes, length_bytes, block_bytes)?;
        for (word, mut saved) in ledger.words.iter().zip(words.chunks_exact(4)) {
            word.store(u32::from_le_bytes(taken(&mut saved)?), Ordering::Release);
        }
        Ok(ledger)
    }
}

fn clear(words: &[AtomicU32], flag: u32) {
    for word in words {
        word.fetch_and(!flag, Ordering::AcqRel);
    }
}

/// Takes the first bytes off `rest`.
fn taken<const COUNT: usize>(rest: &mut &[u8]) -> Result<[u8; COUNT], LedgerError> {
    let (first, others) = rest.split_first_chunk().ok_or(LedgerError::NotALedger)?;
    *rest = others;
    Ok(*first)
}

#[cfg(test)]
mod tests;
