use proptest::prelude::*;

use super::*;

const BLOCK_BYTES: usize = 4096;
const SECTORS: usize = BLOCK_BYTES / 512;
const BLOCKS: usize = 32;
const START_BYTES: u64 = 1 << 20;

/// A target in memory, and the ledger of what was written to it.
struct Medium {
    bytes: Vec<u8>,
    ledger: Ledger,
}

impl Medium {
    fn new() -> Self {
        let length_bytes = BLOCKS * BLOCK_BYTES;
        let ledger = Ledger::new(7, START_BYTES, length_bytes as u64, BLOCK_BYTES as u64).unwrap();
        Self { bytes: vec![0; length_bytes], ledger }
    }

    /// A medium of which every block was written the given number of times.
    fn written(times: usize) -> Self {
        let mut medium = Self::new();
        for block in 0..BLOCKS * times {
            medium.write(block % BLOCKS, 1);
        }
        medium
    }

    fn offset_bytes(block: usize) -> u64 {
        START_BYTES + (block * BLOCK_BYTES) as u64
    }

    /// Makes what the next write of these blocks leaves behind, without writing it.
    fn next(&self, block: usize, blocks: usize) -> Vec<u8> {
        let mut content = vec![0; blocks * BLOCK_BYTES];
        stamp(&mut content, Self::offset_bytes(block), &self.ledger);
        content
    }

    /// Books the next write of these blocks, without doing it.
    fn book(&self, block: usize, blocks: usize, well: bool) {
        let (offset_bytes, length_bytes) =
            (Self::offset_bytes(block), (blocks * BLOCK_BYTES) as u64);
        assert!(self.ledger.claim(offset_bytes, length_bytes));
        self.ledger.mark_uncertain(offset_bytes, length_bytes);
        if well {
            self.ledger.confirm(offset_bytes, length_bytes);
        }
        self.ledger.release(offset_bytes, length_bytes);
    }

    fn write(&mut self, block: usize, blocks: usize) {
        let content = self.next(block, blocks);
        self.block_mut(block, blocks).copy_from_slice(&content);
        self.book(block, blocks, true);
    }

    fn block_mut(&mut self, block: usize, blocks: usize) -> &mut [u8] {
        &mut self.bytes[block * BLOCK_BYTES..(block + blocks) * BLOCK_BYTES]
    }

    fn check(&self, block: usize, blocks: usize) -> Result<(), Corruption> {
        let read = &self.bytes[block * BLOCK_BYTES..(block + blocks) * BLOCK_BYTES];
        check(read, Self::offset_bytes(block), &self.ledger)
    }

    /// What is wrong with a block that must be.
    #[track_caller]
    fn wrong(&self, block: usize) -> Corruption {
        self.check(block, 1).unwrap_err()
    }
}

#[test]
fn what_was_written_is_right_in_every_part() {
    let medium = Medium::written(3);
    medium.check(0, BLOCKS).unwrap();
    for sector in 0..BLOCKS * SECTORS {
        let at = sector * 512;
        check(&medium.bytes[at..at + 512], START_BYTES + at as u64, &medium.ledger).unwrap();
    }
}

#[test]
fn what_was_never_written_is_not_judged() {
    let mut medium = Medium::new();
    medium.check(0, BLOCKS).unwrap();
    medium.write(3, 1);
    medium.bytes[0] = 17;
    medium.check(0, BLOCKS).unwrap();
    medium.book(5, 1, false);
    medium.check(0, BLOCKS).unwrap();
}

#[test]
fn every_flipped_bit_is_found_at_its_place() {
    let mut medium = Medium::written(2);
    // All bits of one sector, and some of every other one.
    let all = (0..4096_usize).map(|bit| 3 * BLOCK_BYTES * 8 + bit);
    for bit in all.chain((0..BLOCKS * BLOCK_BYTES * 8).step_by(8191)) {
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        medium.bytes[at] ^= mask;
        let found = medium.wrong(at / BLOCK_BYTES);
        medium.bytes[at] ^= mask;
        let expected = Corruption::FlippedBit {
            offset_bytes: START_BYTES + (at / 512 * 512) as u64,
            byte: (at % 512) as u16,
            bit: (bit % 8) as u8,
            bits: 1,
        };
        assert_eq!(found, expected);
    }
    medium.check(0, BLOCKS).unwrap();
}

#[test]
fn a_flipped_bit_is_placed_without_the_rest_of_its_block() {
    let medium = Medium::written(1);
    for bit in 0..48 * 8 {
        let mut sector = medium.bytes[1024..1536].to_vec();
        sector[bit / 8] ^= 1 << (bit % 8);
        let offset_bytes = START_BYTES + 1024;
        let found = check(&sector, offset_bytes, &medium.ledger).unwrap_err();
        let (byte, bit) = ((bit / 8) as u16, (bit % 8) as u8);
        assert_eq!(found, Corruption::FlippedBit { offset_bytes, byte, bit, bits: 1 });
    }
}

#[test]
fn a_flipped_bit_is_reported_in_a_plain_sentence() {
    let mut medium = Medium::written(1);
    medium.bytes[700] ^= 4;
    let at = START_BYTES + 700;
    let sentence = medium.wrong(0).to_string();
    assert_eq!(sentence, format!("bit 2 of byte {at} is flipped; the rest of its sector is right"));
    medium.bytes[701] ^= 0x81;
    let sentence = medium.wrong(0).to_string();
    assert!(sentence.starts_with("3 bits of the sector at byte 1049088 are wrong"), "{sentence}");
    assert!(sentence.ends_with(&format!("bit 2 of byte {at}")), "{sentence}");
}

#[test]
fn a_lost_write_is_stale() {
    let mut medium = Medium::written(4);
    medium.book(9, 1, true);
    let expected =
        Corruption::Stale { offset_bytes: Medium::offset_bytes(9), expected: 5, found: 4 };
    assert_eq!(medium.wrong(9), expected);
    assert!(expected.to_string().contains("holds generation 4, but 5 was written"));
    // Correct neighbouring blocks, from other writes, do not make it a torn write.
    assert_eq!(medium.check(8, 3), Err(expected));
    medium.write(9, 1);
    medium.check(0, BLOCKS).unwrap();
}

#[test]
fn a_torn_write_is_distinguished_from_a_lost_one() {
    for torn_at in 1..SECTORS {
        let mut medium = Medium::written(2);
        let new = medium.next(4, 1);
        medium.block_mut(4, 1)[..torn_at * 512].copy_from_slice(&new[..torn_at * 512]);
        medium.book(4, 1, true);
        let expected = Corruption::TornWrite {
            offset_bytes: Medium::offset_bytes(4) + torn_at as u64 * 512,
            old_sectors: (SECTORS - torn_at) as u32,
            new_sectors: torn_at as u32,
            old_generation: 2,
            new_generation: 3,
        };
        assert_eq!(medium.wrong(4), expected);
    }
}

#[test]
fn a_torn_first_write_is_distinguished_from_foreign_data() {
    let mut medium = Medium::new();
    let new = medium.next(4, 1);
    medium.block_mut(4, 1)[..1024].copy_from_slice(&new[..1024]);
    medium.book(4, 1, true);
    let torn = Corruption::TornWrite {
        offset_bytes: Medium::offset_bytes(4) + 1024,
        old_sectors: 6,
        new_sectors: 2,
        old_generation: 0,
        new_generation: 1,
    };
    assert_eq!(medium.wrong(4), torn);
    assert!(torn.to_string().starts_with("6 of 8 sectors at byte"), "{torn}");
}

#[test]
fn a_long_write_torn_between_its_blocks_is_torn() {
    let mut medium = Medium::written(2);
    medium.write(8, 2);
    let new = medium.next(8, 2);
    medium.block_mut(8, 1).copy_from_slice(&new[..BLOCK_BYTES]);
    medium.book(8, 2, true);
    let torn = medium.check(8, 2).unwrap_err();
    let expected = Corruption::TornWrite {
        offset_bytes: Medium::offset_bytes(9),
        old_sectors: 8,
        new_sectors: 8,
        old_generation: 3,
        new_generation: 4,
    };
    assert_eq!(torn, expected);
    // Read alone, the second half shows no more than that its write was lost.
    assert_eq!(medium.wrong(9).kind(), "stale");
}

#[test]
fn swapped_blocks_are_misplaced() {
    let mut medium = Medium::written(2);
    let (left, right) = (medium.block_mut(2, 1).to_vec(), medium.block_mut(20, 1).to_vec());
    medium.block_mut(2, 1).copy_from_slice(&right);
    medium.block_mut(20, 1).copy_from_slice(&left);
    for (at, from) in [(2, 20), (20, 2)] {
        let expected = Corruption::Misplaced {
            offset_bytes: Medium::offset_bytes(at),
            belongs_at_bytes: Medium::offset_bytes(from),
        };
        assert_eq!(medium.wrong(at), expected);
    }
}

#[test]
fn foreign_data_is_recognised_by_its_content() {
    let mut medium = Medium::written(2);
    let mut rng_bytes = vec![0; 512];
    crate::data::BufferFiller::new(&crate::spec::DataSpec::Random {}, 1, 0).fill(&mut rng_bytes);
    let other = Medium {
        ledger: Ledger::new(8, START_BYTES, 1 << 17, BLOCK_BYTES as u64).unwrap(),
        ..Medium::new()
    };
    // In place and of the expected generation: nothing but the seed gives it away.
    other.book(6, 1, true);
    let other_run = other.next(6, 1)[512..1024].to_vec();
    for (sector, content, words) in [
        (vec![0; 512], ForeignContent::Zeros, "holds zeros"),
        (vec![0xff; 512], ForeignContent::Ones, "erased flash"),
        (rng_bytes, ForeignContent::Unknown, "no run of Seatrial"),
        (b"database".repeat(64), ForeignContent::Unknown, "no run of Seatrial"),
        (other_run, ForeignContent::AnotherRun { seed: 8 }, "seed 8"),
    ] {
        medium.block_mut(6, 1)[512..1024].copy_from_slice(&sector);
        let offset_bytes = Medium::offset_bytes(6) + 512;
        let found = medium.wrong(6);
        assert_eq!(found, Corruption::Foreign { offset_bytes, content });
        assert!(found.to_string().contains(words), "{found}");
    }
}

#[test]
fn a_ledger_of_before_the_last_writes_is_reported() {
    let mut medium = Medium::written(2);
    let saved = Ledger::from_bytes(&medium.ledger.to_bytes()).unwrap();
    medium.write(1, 1);
    medium.ledger = saved;
    let offset_bytes = Medium::offset_bytes(1);
    let found = medium.wrong(1);
    assert_eq!(found, Corruption::Newer { offset_bytes, expected: 2, found: 3 });
    assert_eq!((found.kind(), found.offset_bytes()), ("newer", offset_bytes));
}

#[test]
fn an_uncertain_block_may_hold_either_write_or_a_mix_but_nothing_else() {
    let mut medium = Medium::written(2);
    let new = medium.next(7, 1);
    medium.book(7, 1, false);
    medium.check(7, 1).unwrap();
    medium.block_mut(7, 1)[1536..].copy_from_slice(&new[1536..]);
    medium.check(7, 1).unwrap();
    medium.block_mut(7, 1)[5] ^= 1;
    assert_eq!(medium.wrong(7).kind(), "flipped_bit");
    medium.block_mut(7, 1)[5] ^= 1;
    let stale = {
        let mut earlier = Medium::written(1);
        earlier.block_mut(7, 1)[..512].to_vec()
    };
    medium.block_mut(7, 1)[..512].copy_from_slice(&stale);
    assert_ne!(medium.check(7, 1), Ok(()));
    // The next write that ends well settles it: what was fine before is stale now.
    let before = medium.block_mut(7, 1).to_vec();
    medium.write(7, 1);
    medium.check(7, 1).unwrap();
    medium.block_mut(7, 1)[..512].copy_from_slice(&before[..512]);
    assert_eq!(medium.wrong(7).kind(), "torn_write");
}

#[test]
fn a_saved_ledger_checks_as_the_first_one_did() {
    let mut medium = Medium::written(3);
    medium.book(11, 1, false);
    medium.ledger = Ledger::from_bytes(&medium.ledger.to_bytes()).unwrap();
    medium.check(0, BLOCKS).unwrap();
    medium.bytes[12 * BLOCK_BYTES + 100] ^= 1;
    assert_eq!(medium.wrong(12).kind(), "flipped_bit");
}

#[test]
fn verifiable_data_does_not_compress_much() {
    use std::io::Write;
    let medium = Medium::written(1);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&medium.bytes).unwrap();
    let share = encoder.finish().unwrap().len() as f64 / medium.bytes.len() as f64;
    assert!(share > 0.9, "{share}");
}

/// What may happen to a block of the medium, and is all right.
#[derive(Clone, Debug)]
enum Event {
    Write {
        block: usize,
        blocks: usize,
    },
    /// A write that was reported as failed, of which these sectors arrived all the same.
    Fail {
        block: usize,
        blocks: usize,
        arrived: u64,
    },
    BlockRead {
        sector: usize,
        sectors: usize,
    },
    Save,
}

fn any_event() -> impl Strategy<Value = Event> {
    let blocks = (0..BLOCKS, 1_usize..5);
    let blocks = blocks.prop_map(|(block, blocks)| (block, blocks.min(BLOCKS - block)));
    let sectors = (0..BLOCKS * SECTORS, 1_usize..40);
    prop_oneof![
        4 => blocks.clone().prop_map(|(block, blocks)| Event::Write { block, blocks }),
        2 => (blocks, any::<u64>())
            .prop_map(|((block, blocks), arrived)| Event::Fail { block, blocks, arrived }),
        4 => sectors.prop_map(|(sector, sectors)| {
            Event::BlockRead { sector, sectors: sectors.min(BLOCKS * SECTORS - sector) }
        }),
        1 => Just(Event::Save),
    ]
}

impl Medium {
    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Write { block, blocks } => self.write(block, blocks),
            Event::Fail { block, blocks, arrived } => {
                let new = self.next(block, blocks);
                let old = self.block_mut(block, blocks).chunks_exact_mut(512);
                for (number, (old, new)) in old.zip(new.chunks_exact(512)).enumerate() {
                    if arrived >> number & 1 == 1 {
                        old.copy_from_slice(new);
                    }
                }
                self.book(block, blocks, false);
            }
            Event::BlockRead { sector, sectors } => {
                let (begin, end) = (sector * 512, (sector + sectors) * 512);
                let at_bytes = START_BYTES + begin as u64;
                check(&self.bytes[begin..end], at_bytes, &self.ledger).unwrap();
            }
            Event::Save => self.ledger = Ledger::from_bytes(&self.ledger.to_bytes()).unwrap(),
        }
    }
}

proptest! {
    #[test]
    fn there_is_no_false_alarm(events in prop::collection::vec(any_event(), 1..120)) {
        let mut medium = Medium::new();
        for event in &events {
            medium.happen(event);
        }
        prop_assert_eq!(medium.check(0, BLOCKS), Ok(()));
    }

    #[test]
    fn a_few_flipped_bits_are_counted_and_placed(
        bits in prop::collection::btree_set(0_usize..4096, 1..40), block in 0..BLOCKS,
    ) {
        let mut medium = Medium::written(2);
        for bit in &bits {
            medium.block_mut(block, 1)[1024 + bit / 8] ^= 1 << (bit % 8);
        }
        let first = *bits.first().unwrap();
        prop_assert_eq!(medium.wrong(block), Corruption::FlippedBit {
            offset_bytes: Medium::offset_bytes(block) + 1024,
            byte: (first / 8) as u16,
            bit: (first % 8) as u8,
            bits: bits.len() as u32,
        });
    }

    #[test]
    fn any_bytes_are_judged_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..1600), at in any::<u64>(),
    ) {
        let medium = Medium::written(1);
        let _ = check(&bytes, at, &medium.ledger);
        let judged = check(&bytes, START_BYTES, &medium.ledger);
        prop_assert_eq!(judged.is_err(), bytes.len() >= 512);
    }

    #[test]
    fn a_changed_sector_never_passes(
        block in 0..BLOCKS, begin in 0_usize..4095, noise in prop::collection::vec(1_u8.., 1..600),
    ) {
        let mut medium = Medium::written(2);
        let target = &mut medium.block_mut(block, 1)[begin..];
        target.iter_mut().zip(&noise).for_each(|(byte, noise)| *byte ^= noise);
        prop_assert!(medium.check(block, 1).is_err());
    }
}
