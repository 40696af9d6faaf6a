//! What is wrong with a block, once it is known that something is.

use super::corruption::{Corruption, ForeignContent};
use super::sector::{Header, LENGTH_BYTES, Sector, is_sealed, sectors};
use crate::ledger::{ExpectedContent, Ledger};

/// A sector with fewer wrong bits than this is still ours. Bits of anything else are wrong one time
/// in two: 2048 of 4096, and by chance never (16 standard deviations) so few as this.
const WRONG_BITS_MAX: u32 = 1536;

/// The state of one sector.
enum SectorState {
    /// As it should be, or not known.
    Right(Option<Header>),
    /// From an earlier write.
    Older(Header),
    /// From a later write than any known.
    Newer(Header),
    /// From another address.
    Elsewhere(Header),
    /// Damaged.
    Flipped { first_bit: usize, bits: u32 },
    /// Not ours.
    Foreign(ForeignContent),
}

/// Names what is wrong with the sector at `wrong_bytes` of `block`, which was read at
/// `offset_bytes`.
#[cold]
pub(super) fn of(block: &[u8], offset_bytes: u64, wrong_bytes: u64, ledger: &Ledger) -> Corruption {
    let read = BlockRead { block, offset_bytes, ledger };
    let expected = ledger.expected(wrong_bytes);
    let findings: Vec<(u64, SectorState)> =
        sectors(block, offset_bytes).map(|(at, sector)| (at, read.inspect(sector, at))).collect();
    let wrong = findings.iter().find(|(at_bytes, _)| *at_bytes == wrong_bytes);
    let offset_bytes = wrong_bytes;
    match wrong.map(|(_, finding)| finding) {
        Some(SectorState::Flipped { first_bit, bits }) => Corruption::FlippedBit {
            offset_bytes,
            byte: (first_bit / 8) as u16,
            bit: (first_bit % 8) as u8,
            bits: *bits,
        },
        Some(SectorState::Elsewhere(header)) => {
            Corruption::Misplaced { offset_bytes, belongs_at_bytes: header.offset_bytes }
        }
        Some(SectorState::Newer(header)) => Corruption::Newer {
            offset_bytes,
            expected: expected.generation,
            found: header.generation,
        },
        Some(SectorState::Older(header)) => {
            torn(&findings, offset_bytes, header.generation, ledger).unwrap_or(Corruption::Stale {
                offset_bytes,
                expected: expected.generation,
                found: header.generation,
            })
        }
        Some(SectorState::Foreign(content)) => {
            // Before the first write there was nothing of ours that could be old.
            let first_write = expected.generation == 1;
            let torn = if first_write { torn(&findings, offset_bytes, 0, ledger) } else { None };
            torn.unwrap_or(Corruption::Foreign { offset_bytes, content: *content })
        }
        Some(SectorState::Right(_)) | None => {
            Corruption::Foreign { offset_bytes, content: ForeignContent::Unknown }
        }
    }
}

/// Returns the torn write of which the sector at `offset_bytes` is the old part: there is one when
/// another sector is of the newest write, and that reached over this sector too.
fn torn(
    findings: &[(u64, SectorState)],
    offset_bytes: u64,
    old_generation: u32,
    ledger: &Ledger,
) -> Option<Corruption> {
    let written = findings.iter().find_map(|(_, finding)| match finding {
        SectorState::Right(Some(header)) if header.block_covers(offset_bytes) => Some(header),
        _ => None,
    })?;
    let (mut old_sectors, mut new_sectors) = (0, 0);
    for (at_bytes, finding) in findings {
        match finding {
            _ if !written.block_covers(*at_bytes) => {}
            SectorState::Right(_) => new_sectors += 1,
            SectorState::Older(_) | SectorState::Foreign(_) => old_sectors += 1,
            SectorState::Newer(_) | SectorState::Elsewhere(_) | SectorState::Flipped { .. } => {}
        }
    }
    Some(Corruption::TornWrite {
        offset_bytes,
        old_sectors,
        new_sectors,
        old_generation,
        new_generation: ledger.expected(offset_bytes).generation,
    })
}

/// A block as it was read.
struct BlockRead<'a> {
    block: &'a [u8],
    offset_bytes: u64,
    ledger: &'a Ledger,
}

impl BlockRead<'_> {
    fn inspect(&self, sector: &Sector, at_bytes: u64) -> SectorState {
        let (header, expected) = (Header::read(sector), self.ledger.expected(at_bytes));
        if expected.is_unknown() {
            return SectorState::Right(None);
        }
        if !is_sealed(sector) {
            return self.damage(sector, at_bytes, expected);
        }
        if header.seed != self.ledger.seed() {
            SectorState::Foreign(ForeignContent::AnotherRun { seed: header.seed })
        } else if header.offset_bytes != at_bytes {
            SectorState::Elsewhere(header)
        } else if expected.accepts(header.generation) {
            SectorState::Right(Some(header))
        } else if expected.is_newer_than(header.generation) {
            SectorState::Older(header)
        } else {
            SectorState::Newer(header)
        }
    }

    /// Tells a sector of ours that was damaged from what is none.
    fn damage(&self, sector: &Sector, at_bytes: u64, expected: ExpectedContent) -> SectorState {
        if sector.iter().all(|&byte| byte == 0) {
            return SectorState::Foreign(ForeignContent::Zeros);
        }
        if sector.iter().all(|&byte| byte == 0xff) {
            return SectorState::Foreign(ForeignContent::Ones);
        }
        if let Some(first_bit) = single_flip(sector) {
            return SectorState::Flipped { first_bit, bits: 1 };
        }
        let originals = self.originals(&Header::read(sector), at_bytes, expected);
        let differences = originals.iter().map(|original| difference(sector, original));
        match differences.min_by_key(|&(bits, _)| bits) {
            Some((bits, first_bit)) if bits < WRONG_BITS_MAX => {
                SectorState::Flipped { first_bit, bits }
            }
            _ => SectorState::Foreign(ForeignContent::Unknown),
        }
    }

    /// All that a damaged sector can have been. Parts of its header may be wrong, so each is taken
    /// as it reads and as it should be; for the block that it was written with, which nobody else
    /// knows, also what the sound sectors around it say, and what was read.
    fn originals(&self, read: &Header, at_bytes: u64, expected: ExpectedContent) -> Vec<Header> {
        let mut blocks = vec![(read.block_start_bytes, read.block_bytes)];
        let read_bytes = u32::try_from(self.block.len()).unwrap_or(u32::MAX);
        blocks.push((self.offset_bytes, read_bytes));
        for (_, sector) in sectors(self.block, self.offset_bytes) {
            let header = Header::read(sector);
            if is_sealed(sector) && header.block_covers(at_bytes) {
                blocks.push((header.block_start_bytes, header.block_bytes));
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        let generations =
            [expected.generation, self.ledger.next_generation(at_bytes), read.generation];
        let mut originals = Vec::new();
        for (block_start_bytes, block_bytes) in blocks {
            for generation in generations {
                for offset_bytes in [at_bytes, read.offset_bytes] {
                    let seed = self.ledger.seed();
                    originals.push(Header {
                        seed,
                        offset_bytes,
                        block_start_bytes,
                        block_bytes,
                        generation,
                    });
                }
            }
        }
        originals
    }
}

/// Returns the bit of `sector` that makes it sound when turned; `None` when no single one does.
fn single_flip(sector: &Sector) -> Option<usize> {
    let mut turned = *sector;
    (0..LENGTH_BYTES * 8).find(|bit| {
        turned[bit / 8] ^= 1 << (bit % 8);
        let sound = is_sealed(&turned);
        turned[bit / 8] ^= 1 << (bit % 8);
        sound
    })
}

/// Returns in how many bits `sector` differs from the one with the header `original`, and the first
/// of them.
fn difference(sector: &Sector, original: &Header) -> (u32, usize) {
    let mut sound = [0; LENGTH_BYTES];
    original.write_sector(&mut sound);
    let wrong = sector.iter().zip(&sound).map(|(seen, right)| seen ^ right);
    let bits = wrong.clone().map(u8::count_ones).sum();
    let first = wrong.enumerate().find(|&(_, byte)| byte != 0);
    (bits, first.map_or(0, |(byte, wrong)| byte * 8 + wrong.trailing_zeros() as usize))
}
