use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn accesses() -> impl Strategy<Value = Accesses> {
    // Some blocks are used far more often than others, and some scans touch many once.
    let block = prop_oneof![0u64..8, 0u64..64, 0u64..400];
    proptest::collection::vec(block, 1..1500).prop_map(|blocks| {
        let mut found = Accesses::new(&blocks).unwrap_or_default();
        found.scans = blocks.iter().map(|&block| block >= 200).collect();
        found
    })
}

/// A cache of a plain vector, oldest first, which moves a block that is hit if it is LRU.
fn plain_misses(accesses: &Accesses, room: usize, is_lru: bool) -> usize {
    let (mut held, mut misses) = (Vec::new(), 0);
    for &block in &accesses.blocks {
        match held.iter().position(|&other| other == block) {
            Some(index) if is_lru => {
                held.remove(index);
                held.push(block);
            }
            Some(_) => {}
            None => {
                misses += 1;
                if held.len() == room {
                    held.remove(0);
                }
                held.push(block);
            }
        }
    }
    misses
}

/// SIEVE as its paper writes it: a list with the newest first, a hand, visited bits.
fn plain_sieve_misses(accesses: &Accesses, room: usize) -> usize {
    let mut queue: Vec<(u32, bool)> = Vec::new();
    let (mut hand, mut misses): (Option<usize>, usize) = (None, 0);
    for &block in &accesses.blocks {
        if let Some(own) = queue.iter_mut().find(|(other, _)| *other == block) {
            own.1 = true;
            continue;
        }
        misses += 1;
        if queue.len() == room {
            let mut index = hand.unwrap_or(queue.len() - 1);
            while queue[index].1 {
                queue[index].1 = false;
                index = index.checked_sub(1).unwrap_or(queue.len() - 1);
            }
            queue.remove(index);
            hand = index.checked_sub(1);
        }
        queue.insert(0, (block, false));
        hand = hand.map(|index| index + 1);
    }
    misses
}

fn misses(kind: Kind, accesses: &Accesses, room: usize) -> usize {
    accesses.len() - kind.cache(room, accesses, 8192).hits_of(accesses) as usize
}

proptest! {
    #[test]
    fn a_cache_holds_what_came_and_did_not_leave(
        accesses in accesses(), room in 1usize..60, number in 0..Kind::ALL.len()
    ) {
        let kind = Kind::ALL[number];
        let mut cache = kind.cache(room, &accesses, 8192);
        let mut held = HashSet::new();
        for access in accesses.iter() {
            let was_held = held.contains(&access.block);
            match cache.access(access) {
                Outcome::Hit => prop_assert!(was_held, "{}", kind.name()),
                Outcome::Miss { evicted } => {
                    prop_assert!(!was_held, "{}", kind.name());
                    held.insert(access.block);
                    if let Some(evicted) = evicted {
                        prop_assert!(held.remove(&evicted), "{}", kind.name());
                    }
                }
            }
            prop_assert_eq!(cache.len(), held.len(), "{}", kind.name());
            prop_assert!(held.len() <= room, "{}", kind.name());
        }
        for block in 0..accesses.different {
            prop_assert_eq!(cache.holds(block), held.contains(&block), "{}", kind.name());
        }
        for block in cache.leaving(5).into_iter().chain(cache.newest(5)) {
            prop_assert!(held.contains(&block), "{}", kind.name());
        }
    }

    #[test]
    fn lru_fifo_and_sieve_are_what_plain_lists_are(
        accesses in accesses(), room in 1usize..60
    ) {
        let found = [Kind::Lru, Kind::Fifo, Kind::Sieve].map(|kind| misses(kind, &accesses, room));
        let lru = plain_misses(&accesses, room, true);
        let fifo = plain_misses(&accesses, room, false);
        prop_assert_eq!(found, [lru, fifo, plain_sieve_misses(&accesses, room)]);
    }

    #[test]
    fn no_cache_is_better_than_the_best_possible(accesses in accesses(), room in 1usize..60) {
        let least = misses(Kind::Belady, &accesses, room);
        for &kind in Kind::ALL {
            prop_assert!(misses(kind, &accesses, room) >= least, "{}", kind.name());
        }
    }

    #[test]
    fn a_cache_with_room_for_all_misses_each_block_once(mut accesses in accesses()) {
        // A scan takes its own ring, however much room there is.
        accesses.scans.clear();
        for &kind in Kind::ALL {
            // Some policies keep blocks of a kind within a share of the cache.
            let room = 120 * accesses.different as usize;
            let different = accesses.different as usize;
            prop_assert_eq!(misses(kind, &accesses, room), different, "{}", kind.name());
        }
    }
}

#[test]
fn a_scan_by_a_ring_leaves_shared_buffers_to_others() {
    let often: Vec<u64> = (0..50).cycle().take(500).collect();
    let scan: Vec<u64> = (1000..9000).collect();
    let mut accesses = Accesses::new(&[often.clone(), scan, often].concat()).unwrap_or_default();
    accesses.scans = (0..accesses.len()).map(|index| (500..8500).contains(&index)).collect();
    let with_ring = misses(Kind::ClockSweep, &accesses, 100);
    accesses.scans = Vec::new();
    assert_eq!(with_ring, 50 + 8000);
    assert_eq!(misses(Kind::ClockSweep, &accesses, 100), 50 + 8000 + 50);
}

#[test]
fn a_page_that_comes_back_soon_is_active_at_once() {
    // 40 pages are used in turn by a cache of 30: LRU has no hit, shadows keep a part.
    let blocks: Vec<u64> = (0..40).cycle().take(40 * 50).collect();
    let accesses = Accesses::new(&blocks).unwrap_or_default();
    assert_eq!(misses(Kind::Lru, &accesses, 30), accesses.len());
    assert_eq!(misses(Kind::TwoLists, &accesses, 30), accesses.len());
    // With others that are used twice, the active list has a length by which shadows are judged.
    let blocks: Vec<u64> =
        (0..40u64).cycle().take(40 * 50).flat_map(|block| [block, 100 + block % 15]).collect();
    let accesses = Accesses::new(&blocks).unwrap_or_default();
    assert!(misses(Kind::TwoLists, &accesses, 30) < misses(Kind::Fifo, &accesses, 30));
}

#[test]
fn names_are_those_of_one_policy_each() {
    for &kind in Kind::ALL {
        assert_eq!(Kind::of_name(kind.name()), Some(kind));
        assert!(kind.text().ends_with('.'));
    }
    assert_eq!(Kind::of_name("mru"), None);
}

/// 40,000 accesses of a skewed load with scans, from a linear congruential generator.
fn skewed_with_scans() -> Accesses {
    let mut state = 7u64;
    let mut block = |index: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let uniform = (state >> 11) as f64 / (1u64 << 53) as f64;
        let is_scan = (6000..7000).contains(&(index % 8000));
        if is_scan { 10_000 + index } else { (uniform.powi(3) * 5000.0) as u64 }
    };
    let blocks: Vec<u64> = (0..40_000).map(&mut block).collect();
    Accesses::new(&blocks).unwrap_or_default()
}

#[test]
fn misses_are_those_that_libcachesim_counts() {
    // By its wheel 0.3.5, of caches of 100, 500 and 2,000 blocks.
    let counted = [
        (Kind::Lru, [34_959, 28_981, 20_020]),
        (Kind::Fifo, [35_540, 29_947, 21_183]),
        (Kind::Clock, [34_721, 28_696, 19_555]),
        (Kind::Arc, [32_000, 26_306, 17_303]),
        (Kind::Sieve, [32_359, 26_411, 17_223]),
        (Kind::S3Fifo, [31_689, 25_794, 17_101]),
    ];
    let accesses = skewed_with_scans();
    for (kind, expected) in counted {
        let found = [100, 500, 2000].map(|room| misses(kind, &accesses, room));
        assert_eq!(found, expected, "{}", kind.name());
    }
}
