//! The kinds of corruption, each with its sentence.

/// The corruption of a block that was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// The right sector, but not in all of its bits.
    #[error("{}", flipped_sentence(*.offset_bytes, *.byte, *.bit, *.bits))]
    FlippedBit {
        /// Where the sector begins on the target.
        offset_bytes: u64,
        /// The first wrong byte in the sector, 0 to 511.
        byte: u16,
        /// The first wrong bit in that byte; 0 is the lowest.
        bit: u8,
        /// All wrong bits of the sector.
        bits: u32,
    },
    /// A write of which only a part arrived.
    #[error(
        "{old_sectors} of {} sectors at byte {offset_bytes} and behind hold generation \
         {old_generation}, the others {new_generation}: the write was torn, and was reported as \
         done",
        old_sectors + new_sectors
    )]
    TornWrite {
        /// The first sector that the write did not reach.
        offset_bytes: u64,
        /// Sectors of the block, as far as it was read, that hold what was there before.
        old_sectors: u32,
        /// Sectors of the block, as far as it was read, that hold what was written.
        new_sectors: u32,
        /// The generation of the first old sector; 0 where nothing of ours was there before.
        old_generation: u32,
        /// The generation that was written.
        new_generation: u32,
    },
    /// An earlier write: a later one was lost, though it was reported as done.
    #[error(
        "the sector at byte {offset_bytes} holds generation {found}, but {expected} was written \
         and reported as done: the later write was lost"
    )]
    Stale {
        /// The first such sector.
        offset_bytes: u64,
        /// The generation that was written.
        expected: u32,
        /// The generation that is there.
        found: u32,
    },
    /// A later write than the ledger knows.
    #[error(
        "the sector at byte {offset_bytes} holds generation {found}, but only {expected} is known: \
         it was written after this ledger was saved, or by a concurrent run"
    )]
    Newer {
        /// The first such sector.
        offset_bytes: u64,
        /// The generation that was written.
        expected: u32,
        /// The generation that is there.
        found: u32,
    },
    /// A sector of ours that belongs elsewhere.
    #[error(
        "the sector at byte {offset_bytes} holds what belongs at byte {belongs_at_bytes}: a write \
         or a read went to the wrong place"
    )]
    Misplaced {
        /// The first such sector.
        offset_bytes: u64,
        /// Where its content belongs.
        belongs_at_bytes: u64,
    },
    /// Not what we wrote at all.
    #[error("the sector at byte {offset_bytes} is not ours: {content}")]
    Foreign {
        /// The first such sector.
        offset_bytes: u64,
        /// What it looks like.
        content: ForeignContent,
    },
}

/// The content of a sector that the load did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignContent {
    /// As if it had never been written, or been discarded.
    #[error("it holds zeros, as if it had been discarded or never written")]
    Zeros,
    /// As erased flash does.
    #[error("every bit is set, as in erased flash")]
    Ones,
    /// As data of Seatrial that another cell wrote.
    #[error("it was written by a run with seed {seed}")]
    AnotherRun {
        /// The seed of that data.
        seed: u64,
    },
    /// Like nothing that is known.
    #[error("it holds bytes that no run of Seatrial wrote")]
    Unknown,
}

impl Corruption {
    /// Returns the kind's word in results.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::FlippedBit { .. } => "flipped_bit",
            Self::TornWrite { .. } => "torn_write",
            Self::Stale { .. } => "stale",
            Self::Newer { .. } => "newer",
            Self::Misplaced { .. } => "misplaced",
            Self::Foreign { .. } => "foreign",
        }
    }

    /// Returns where the first wrong sector begins on the target.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        match *self {
            Self::FlippedBit { offset_bytes, .. }
            | Self::TornWrite { offset_bytes, .. }
            | Self::Stale { offset_bytes, .. }
            | Self::Newer { offset_bytes, .. }
            | Self::Misplaced { offset_bytes, .. }
            | Self::Foreign { offset_bytes, .. } => offset_bytes,
        }
    }
}

fn flipped_sentence(offset_bytes: u64, byte: u16, bit: u8, bits: u32) -> String {
    let at_bytes = offset_bytes + u64::from(byte);
    match bits {
        1 => format!("bit {bit} of byte {at_bytes} is flipped; the rest of its sector is right"),
        _ => format!(
            "{bits} bits of the sector at byte {offset_bytes} are wrong, the first of them bit \
             {bit} of byte {at_bytes}"
        ),
    }
}
