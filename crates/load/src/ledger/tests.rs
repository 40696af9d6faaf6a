use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::address::tests::spec_with;

const BLOCK_BYTES: u64 = 4096;

fn ledger() -> Ledger {
    Ledger::new(7, 8192, 100 * BLOCK_BYTES, BLOCK_BYTES).unwrap()
}

/// A whole write of the blocks, which ends well or not.
fn write(ledger: &Ledger, offset_bytes: u64, length_bytes: u64, well: bool) {
    assert!(ledger.claim(offset_bytes, length_bytes));
    ledger.mark_uncertain(offset_bytes, length_bytes);
    if well {
        ledger.confirm(offset_bytes, length_bytes);
    }
    ledger.release(offset_bytes, length_bytes);
}

fn expected(generation: u32, uncertain: bool) -> ExpectedContent {
    ExpectedContent { generation, uncertain }
}

#[test]
fn a_write_that_ends_well_is_expected_from_then_on() {
    let ledger = ledger();
    assert!(ledger.expected(8192).is_unknown());
    assert_eq!(ledger.next_generation(8192), 1);
    write(&ledger, 8192, 2 * BLOCK_BYTES, true);
    write(&ledger, 8192 + BLOCK_BYTES, BLOCK_BYTES, true);
    assert_eq!(ledger.expected(8192), expected(1, false));
    assert_eq!(ledger.expected(8192 + BLOCK_BYTES), expected(2, false));
    assert_eq!(ledger.expected(8192 + 2 * BLOCK_BYTES - 1), expected(2, false));
    assert!(ledger.expected(8192 + 2 * BLOCK_BYTES).is_unknown());
}

#[test]
fn a_write_that_fails_leaves_the_block_uncertain_until_one_ends_well() {
    let ledger = ledger();
    write(&ledger, 8192, BLOCK_BYTES, true);
    write(&ledger, 8192, BLOCK_BYTES, false);
    let state = ledger.expected(8192);
    assert_eq!(state, expected(1, true));
    assert!(state.accepts(1) && state.accepts(2) && !state.accepts(3) && !state.accepts(0));
    assert_eq!(ledger.next_generation(8192), 2, "the write is done again, not another one");
    write(&ledger, 8192, BLOCK_BYTES, true);
    let state = ledger.expected(8192);
    assert_eq!(state, expected(2, false));
    assert!(state.accepts(2) && !state.accepts(1) && !state.accepts(3));
}

#[test]
fn requests_in_flight_exclude_each_other() {
    let ledger = ledger();
    assert!(ledger.claim(8192 + BLOCK_BYTES, BLOCK_BYTES));
    assert!(!ledger.claim(8192, 3 * BLOCK_BYTES));
    assert!(!ledger.claim(8192 + BLOCK_BYTES + 512, 512), "a part of a block is the block");
    assert!(ledger.claim(8192, BLOCK_BYTES), "the failed claim must leave nothing behind");
    ledger.release(8192 + BLOCK_BYTES, BLOCK_BYTES);
    assert!(ledger.claim(8192 + BLOCK_BYTES, 2 * BLOCK_BYTES));
}

#[test]
fn a_block_is_never_claimed_twice_by_many_threads() {
    let ledger = ledger();
    let holders: Vec<AtomicU64> = (0..100).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (ledger, holders) = (&ledger, &holders);
            scope.spawn(move || {
                for round in 0..20_000_u64 {
                    let block = (round * (thread + 3)) % 98;
                    let offset_bytes = 8192 + block * BLOCK_BYTES;
                    if ledger.claim(offset_bytes, 2 * BLOCK_BYTES) {
                        for holder in &holders[block as usize..block as usize + 2] {
                            assert_eq!(holder.fetch_add(1, Ordering::AcqRel), 0);
                        }
                        ledger.mark_uncertain(offset_bytes, 2 * BLOCK_BYTES);
                        ledger.confirm(offset_bytes, 2 * BLOCK_BYTES);
                        for holder in &holders[block as usize..block as usize + 2] {
                            holder.fetch_sub(1, Ordering::AcqRel);
                        }
                        ledger.release(offset_bytes, 2 * BLOCK_BYTES);
                    }
                }
            });
        }
    });
    assert!(ledger.claim(8192, 100 * BLOCK_BYTES), "nothing is left claimed");
}

#[test]
fn what_lies_outside_is_unknown_and_harmless() {
    let ledger = ledger();
    for offset_bytes in [0, 4096, 8192 + 100 * BLOCK_BYTES, u64::MAX - 5] {
        write(&ledger, offset_bytes, 4096, true);
        assert!(ledger.expected(offset_bytes).is_unknown());
    }
    write(&ledger, 8192 + 99 * BLOCK_BYTES, 2 * BLOCK_BYTES, true);
    assert_eq!(ledger.expected(8192 + 99 * BLOCK_BYTES), expected(1, false));
}

#[test]
fn generations_start_again_without_passing_the_unwritten() {
    assert_eq!((following(0), following(1)), (1, 2));
    assert_eq!(following(GENERATION_MAX - 1), GENERATION_MAX);
    assert_eq!(following(GENERATION_MAX), 1);
    assert!(expected(3, false).is_newer_than(2) && expected(3, false).is_newer_than(1));
    assert!(!expected(3, false).is_newer_than(3) && !expected(3, false).is_newer_than(4));
    assert!(expected(1, false).is_newer_than(GENERATION_MAX));
    assert!(!expected(GENERATION_MAX, false).is_newer_than(1));
}

#[test]
fn memory_is_bounded_and_as_stated() {
    assert_eq!(size_of_val(&*ledger().words), 400);
    let blocks = BLOCKS_MAX + 1;
    let error = Ledger::new(7, 0, blocks * 4096, 4096).unwrap_err();
    assert_eq!(error, LedgerError::TooLarge { blocks });
    assert_eq!(Ledger::new(7, 0, 4095, 4096).unwrap_err(), LedgerError::Empty);
    assert_eq!(Ledger::new(7, 0, 4096, 0).unwrap_err(), LedgerError::Empty);
    assert_eq!(Ledger::new(7, 0, 4096, 100).unwrap_err(), LedgerError::Empty);
}

const RANGE: &str = r#"{"start_bytes": 512, "length_bytes": 1048576}"#;

fn access(operation: &str, size_bytes: u64, align_bytes: u64) -> String {
    format!(
        r#"{{"operation": "{operation}", "sizes": [{{"bytes": {size_bytes}}}],
            "align_bytes": {align_bytes}, "address": {{"kind": "random"}}}}"#
    )
}

#[test]
fn a_ledger_for_a_cell_has_its_largest_common_block() {
    let one = spec_with(&access("write", 8192, 8192), RANGE, 1, "verifiable");
    let ledger = Ledger::for_spec(&one).unwrap();
    assert_eq!((ledger.seed, ledger.start_bytes, ledger.block_bytes), (7, 8192, 8192));
    assert_eq!(ledger.words.len(), 127);
    let both = format!("{}, {}", access("write", 12288, 4096), access("read", 8192, 2048));
    let both = spec_with(&both, RANGE, 1, "verifiable");
    assert_eq!(Ledger::for_spec(&both).unwrap().block_bytes, 2048);
    let random = spec_with(&access("write", 8192, 8192), RANGE, 1, "random");
    assert_eq!(Ledger::for_spec(&random).unwrap_err(), LedgerError::Empty);
}

#[test]
fn a_ledger_is_carried_on_only_by_writes_of_whole_blocks() {
    let ledger = ledger();
    let spec = |access: &str| spec_with(access, RANGE, 1, "verifiable");
    ledger.suits(&spec(&access("write", 8192, 4096))).unwrap();
    ledger.suits(&spec(&access("read", 512, 512))).unwrap();
    let error = ledger.suits(&spec(&access("write", 2048, 2048))).unwrap_err();
    assert_eq!(error, LedgerError::Unsuitable { write_bytes: 2048, block_bytes: 4096 });
    assert!(ledger.suits(&spec(&access("write", 4096, 2048))).is_err());
}

#[test]
fn a_saved_ledger_comes_back_without_what_was_in_flight() {
    let ledger = ledger();
    write(&ledger, 8192, BLOCK_BYTES, true);
    write(&ledger, 12288, BLOCK_BYTES, false);
    assert!(ledger.claim(16384, BLOCK_BYTES), "a read in flight");
    assert!(ledger.claim(20480, BLOCK_BYTES), "a write in flight");
    ledger.mark_uncertain(20480, BLOCK_BYTES);
    let read = Ledger::from_bytes(&ledger.to_bytes()).unwrap();
    assert_eq!(read.seed(), 7);
    for offset_bytes in (8192..8192 + 100 * BLOCK_BYTES).step_by(512) {
        assert_eq!(read.expected(offset_bytes), ledger.expected(offset_bytes));
    }
    assert!(read.claim(8192, 100 * BLOCK_BYTES), "nothing is in flight any more");
}

#[test]
fn what_is_not_a_ledger_is_named() {
    let bytes = ledger().to_bytes();
    assert_eq!(Ledger::from_bytes(b"").unwrap_err(), LedgerError::NotALedger);
    assert_eq!(Ledger::from_bytes(b"SQLite format 3").unwrap_err(), LedgerError::NotALedger);
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(Ledger::from_bytes(&newer).unwrap_err(), LedgerError::Version { found: 2 });
    for length in 0..bytes.len() {
        assert!(Ledger::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    for byte in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[byte] ^= 0x10;
        assert!(Ledger::from_bytes(&damaged).is_err(), "byte {byte}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = Ledger::from_bytes(&tail);
        let head = [&MAGIC[..], &VERSION.to_le_bytes(), &tail].concat();
        let _ = Ledger::from_bytes(&head);
    }
}
