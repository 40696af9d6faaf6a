use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// The JSON of a cell on the null target with these accesses (joined by commas) and this range.
pub(crate) fn spec_json(accesses: &str, range: &str, threads: u32, data: &str) -> String {
    format!(
        r#"{{"seed": 7, "target": {{"kind": "null"}}, "range": {range}, "threads": {threads},
            "accesses": [{accesses}], "data": {{"kind": "{data}"}},
            "limit": {{"duration_s": 1}}}}"#
    )
}

pub(crate) fn spec_with(accesses: &str, range: &str, threads: u32, data: &str) -> CellSpec {
    CellSpec::parse(&spec_json(accesses, range, threads, data)).unwrap()
}

const BLOCK_BYTES: u64 = 4096;
const HOT: &str = r#"{"kind": "hot_cold", "hot_share": 0.1, "hot_access_share": 0.9}"#;

/// A cell of one access with 4 KiB blocks over the given number of them.
struct Trial {
    address: &'static str,
    blocks: u64,
    threads: u32,
    data: &'static str,
}

impl Trial {
    fn new(address: &'static str, blocks: u64) -> Self {
        Self { address, blocks, threads: 1, data: "random" }
    }

    fn plan(&self) -> AddressPlan {
        let access = access(self.address, &[BLOCK_BYTES], BLOCK_BYTES);
        let length_bytes = self.blocks * BLOCK_BYTES;
        let range = format!(r#"{{"start_bytes": 1048576, "length_bytes": {length_bytes}}}"#);
        AddressPlan::new(&spec_with(&access, &range, self.threads, self.data)).unwrap()
    }

    /// How often each block was drawn in the given number of draws by one worker.
    fn counts(&self, worker: u32, draws: u64) -> Vec<u64> {
        let mut cursor = self.plan().cursors(worker).remove(0);
        let mut counts = vec![0; self.blocks as usize];
        for _ in 0..draws {
            let inside = cursor.next(BLOCK_BYTES).unwrap() - 1_048_576;
            assert_eq!(inside % BLOCK_BYTES, 0);
            counts[(inside / BLOCK_BYTES) as usize] += 1;
        }
        counts
    }
}

fn access(address: &str, sizes_bytes: &[u64], align_bytes: u64) -> String {
    let sizes: Vec<String> =
        sizes_bytes.iter().map(|bytes| format!(r#"{{"bytes": {bytes}}}"#)).collect();
    format!(
        r#"{{"operation": "write", "sizes": [{}], "align_bytes": {align_bytes},
            "address": {address}}}"#,
        sizes.join(", ")
    )
}

/// Pearson's statistic of counts that were expected to be as in `expected`.
fn chi_square(counts: &[u64], expected: impl Fn(usize) -> f64) -> f64 {
    let terms = counts.iter().enumerate();
    terms.map(|(index, &count)| (count as f64 - expected(index)).powi(2) / expected(index)).sum()
}

/// A bound that chance passes once in about a billion (six standard deviations).
fn chi_square_max(degrees: f64) -> f64 {
    degrees + 6.0 * (2.0 * degrees).sqrt() + 20.0
}

#[test]
fn random_is_uniform() {
    let counts = Trial::new(r#"{"kind": "random"}"#, 1000).counts(0, 200_000);
    let statistic = chi_square(&counts, |_| 200.0);
    assert!(statistic < chi_square_max(999.0), "{statistic}");
    // One position left out would hide in the bound above.
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

#[test]
fn workers_and_accesses_draw_streams_of_their_own() {
    let random = access(r#"{"kind": "random"}"#, &[BLOCK_BYTES], BLOCK_BYTES);
    let range = r#"{"start_bytes": 0, "length_bytes": 1099511627776}"#;
    let spec = spec_with(&format!("{random}, {random}"), range, 4, "random");
    let plan = AddressPlan::new(&spec).unwrap();
    let mut seen = HashSet::new();
    for worker in 0..4 {
        for mut cursor in plan.cursors(worker) {
            let first: Vec<u64> = (0..4).map(|_| cursor.next(BLOCK_BYTES).unwrap()).collect();
            assert!(seen.insert(first));
        }
    }
    let mut again = plan.cursors(3).remove(1);
    let first: Vec<u64> = (0..4).map(|_| again.next(BLOCK_BYTES).unwrap()).collect();
    assert!(seen.contains(&first), "the same seed must draw the same addresses");
}

#[test]
fn sequential_threads_cover_every_block_once_a_lap() {
    const BLOCKS: u64 = 10_007;
    const LAPS: u64 = 3;
    for address in [r#"{"kind": "sequential"}"#, r#"{"kind": "strided", "stride_bytes": 40960}"#] {
        let plan = Trial { threads: 4, ..Trial::new(address, BLOCKS) }.plan();
        let start = std::sync::Barrier::new(4);
        let left = std::sync::atomic::AtomicU64::new(BLOCKS * LAPS);
        let taken: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let mut cursor = plan.cursors(worker).remove(0);
                    let (start, left) = (&start, &left);
                    scope.spawn(move || {
                        use std::sync::atomic::Ordering::Relaxed;
                        start.wait();
                        let claim = |count: u64| count.checked_sub(1);
                        let more = || left.fetch_update(Relaxed, Relaxed, claim).is_ok();
                        std::iter::from_fn(|| more().then(|| cursor.next(BLOCK_BYTES).unwrap()))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        let mut counts = HashMap::new();
        for offset in taken {
            *counts.entry(offset).or_insert(0) += 1;
        }
        assert_eq!(counts.len() as u64, BLOCKS, "{address}");
        assert!(counts.values().all(|&count| count == LAPS), "{address}");
    }
}

#[test]
fn sequential_and_strided_go_in_order() {
    let offsets = |address, count| {
        let mut cursor = Trial::new(address, 5).plan().cursors(0).remove(0);
        (0..count)
            .map(|_| (cursor.next(BLOCK_BYTES).unwrap() - 1_048_576) / BLOCK_BYTES)
            .collect::<Vec<u64>>()
    };
    assert_eq!(offsets(r#"{"kind": "sequential"}"#, 7), [0, 1, 2, 3, 4, 0, 1]);
    let strided = r#"{"kind": "strided", "stride_bytes": 8192}"#;
    assert_eq!(offsets(strided, 7), [0, 2, 4, 1, 3, 0, 2]);
    let strided = r#"{"kind": "strided", "stride_bytes": 16384}"#;
    assert_eq!(offsets(strided, 7), [0, 4, 1, 2, 3, 0, 4]);
    let strided = r#"{"kind": "strided", "stride_bytes": 20480}"#;
    assert_eq!(offsets(strided, 7), [0, 1, 2, 3, 4, 0, 1]);
}

/// The shares of the requests that the ranks get, hottest first.
fn zipf_shares(theta: f64, blocks: u64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=blocks).map(|rank| (rank as f64).powf(-theta)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[test]
fn zipf_frequencies_follow_theory() {
    const DRAWS: u64 = 400_000;
    for (address, theta) in [
        (r#"{"kind": "zipf", "theta": 0}"#, 0.0),
        (r#"{"kind": "zipf", "theta": 0.5}"#, 0.5),
        (r#"{"kind": "zipf", "theta": 0.99}"#, 0.99),
        (r#"{"kind": "zipf", "theta": 0.9999999999}"#, 1.0),
        (r#"{"kind": "zipf", "theta": 1}"#, 1.0),
        (r#"{"kind": "zipf", "theta": 1.5}"#, 1.5),
    ] {
        let blocks = if theta > 1.0 { 40 } else { 500 };
        let trial = Trial::new(address, blocks);
        let scatter = Permutation::new(blocks, 7);
        let counts = trial.counts(0, DRAWS);
        let by_rank: Vec<u64> = (0..blocks).map(|rank| counts[scatter.at(rank) as usize]).collect();
        let shares = zipf_shares(theta, blocks);
        let statistic = chi_square(&by_rank, |rank| shares[rank] * DRAWS as f64);
        assert!(statistic < chi_square_max(blocks as f64), "theta {theta}: {statistic}");
    }
}

#[test]
fn a_steep_zipf_stays_in_range() {
    let counts = Trial::new(r#"{"kind": "zipf", "theta": 3}"#, 1000).counts(0, 100_000);
    let hottest = *counts.iter().max().unwrap();
    // The first rank gets 1 / zeta(3) = 83.2 % of the requests.
    assert!((82_500..83_900).contains(&hottest), "{hottest}");
}

#[test]
fn the_hot_set_gets_its_share_and_both_parts_are_uniform() {
    const DRAWS: u64 = 500_000;
    let counts = Trial::new(HOT, 1000).counts(0, DRAWS);
    let scatter = Permutation::new(1000, 7);
    let by_rank: Vec<u64> = (0..1000).map(|rank| counts[scatter.at(rank) as usize]).collect();
    let (hot, cold) = by_rank.split_at(100);
    let hot_share = hot.iter().sum::<u64>() as f64 / DRAWS as f64;
    assert!((hot_share - 0.9).abs() < 0.003, "{hot_share}");
    assert!(chi_square(hot, |_| 4500.0) < chi_square_max(99.0));
    assert!(chi_square(cold, |_| 500_000.0 * 0.1 / 900.0) < chi_square_max(899.0));
}

#[test]
fn extreme_hot_shares_stay_in_range() {
    for address in [
        r#"{"kind": "hot_cold", "hot_share": 1, "hot_access_share": 0}"#,
        r#"{"kind": "hot_cold", "hot_share": 0.5, "hot_access_share": 1}"#,
        r#"{"kind": "hot_cold", "hot_share": 1e-9, "hot_access_share": 0.5}"#,
        r#"{"kind": "hot_cold", "hot_share": 0.5, "hot_access_share": 0}"#,
    ] {
        assert_eq!(Trial::new(address, 10).counts(0, 1000).iter().sum::<u64>(), 1000);
        assert_eq!(Trial::new(address, 1).counts(0, 10), [10]);
    }
    let all_hot = r#"{"kind": "hot_cold", "hot_share": 0.5, "hot_access_share": 1}"#;
    let touched = Trial::new(all_hot, 10).counts(0, 1000).iter().filter(|&&n| n > 0).count();
    assert_eq!(touched, 5);
}

/// The blocks that get at least `count_min` of the draws.
fn hot_blocks(counts: &[u64], count_min: u64) -> HashSet<usize> {
    (0..counts.len()).filter(|&block| counts[block] >= count_min).collect()
}

#[test]
fn all_threads_and_accesses_agree_on_what_is_hot() {
    let trial = Trial { threads: 4, ..Trial::new(HOT, 1000) };
    let hot = hot_blocks(&trial.counts(0, 200_000), 500);
    assert_eq!(hot.len(), 100);
    assert_eq!(hot, hot_blocks(&trial.counts(3, 200_000), 500));
    // One access of two sizes, another of one: a hot request never leaves the hot set.
    let range = r#"{"start_bytes": 0, "length_bytes": 16384000}"#;
    let both = format!("{}, {}", access(HOT, &[4096, 16384], 4096), access(HOT, &[8192], 8192));
    let plan = AddressPlan::new(&spec_with(&both, range, 1, "random")).unwrap();
    let mut cursors = plan.cursors(0);
    let mut counts = [vec![0; 1000], vec![0; 1000]];
    for _ in 0..200_000 {
        for (access, length_bytes) in [(0, 4096), (1, 8192)] {
            let offset = cursors[access].next(length_bytes).unwrap();
            assert_eq!(offset / 16384, (offset + length_bytes - 1) / 16384);
            counts[access][(offset / 16384) as usize] += 1;
        }
    }
    assert_eq!(hot_blocks(&counts[0], 500).len(), 100);
    assert_eq!(hot_blocks(&counts[0], 500), hot_blocks(&counts[1], 500));
}

#[test]
fn verifiable_workers_keep_to_their_own_and_leave_nothing_out() {
    for address in [
        r#"{"kind": "random"}"#,
        r#"{"kind": "sequential"}"#,
        r#"{"kind": "strided", "stride_bytes": 12288}"#,
        r#"{"kind": "zipf", "theta": 0}"#,
    ] {
        let trial = Trial { threads: 3, data: "verifiable", ..Trial::new(address, 101) };
        let mut touched = HashSet::new();
        for worker in 0..3 {
            let own = hot_blocks(&trial.counts(worker, 5000), 1);
            assert!(own.iter().all(|block| block % 3 == worker as usize), "{address}");
            touched.extend(own);
        }
        // Ranks are counted in what every worker has: 33 grains each.
        let expected = if address.contains("zipf") { 99 } else { 101 };
        assert_eq!(touched.len(), expected, "{address}");
    }
}

#[test]
fn more_threads_than_blocks_are_refused_where_each_needs_its_own() {
    let random = access(r#"{"kind": "random"}"#, &[BLOCK_BYTES], BLOCK_BYTES);
    let range = r#"{"start_bytes": 0, "length_bytes": 16384}"#;
    let mut spec = spec_with(&random, range, 4, "verifiable");
    assert!(AddressPlan::new(&spec).is_ok());
    // As the engine does when depth becomes threads.
    spec.threads = 5;
    let sentence = AddressPlan::new(&spec).unwrap_err().to_string();
    assert!(sentence.contains("has room for 4 blocks of 4096 bytes"), "{sentence}");
}

#[test]
fn verifiable_sequential_covers_every_block_once_a_lap() {
    let address = r#"{"kind": "sequential"}"#;
    let trial = Trial { threads: 3, data: "verifiable", ..Trial::new(address, 101) };
    let mut all = vec![0; 101];
    for (worker, own) in [(0, 34), (1, 34), (2, 33)] {
        for (block, count) in trial.counts(worker, own).into_iter().enumerate() {
            all[block] += count;
        }
    }
    assert!(all.iter().all(|&count| count == 1), "{all:?}");
}

#[test]
fn verifiable_sequential_of_two_sizes_never_goes_back_within_a_lap() {
    let access = access(r#"{"kind": "sequential"}"#, &[4096, 16384], 4096);
    let range = r#"{"start_bytes": 0, "length_bytes": 1638400}"#;
    let plan = AddressPlan::new(&spec_with(&access, range, 2, "verifiable")).unwrap();
    let mut cursor = plan.cursors(1).remove(0);
    // The worker has 50 grains of 16 KiB; a short and a long block take two of them.
    let mut end_bytes = 0;
    for length_bytes in [4096, 16384].repeat(25) {
        let offset = cursor.next(length_bytes).unwrap();
        assert!(offset >= end_bytes, "{offset} overlaps what ended at {end_bytes}");
        end_bytes = offset + length_bytes;
    }
}

#[test]
fn the_hot_set_of_verifiable_workers_has_its_size() {
    let trial = Trial { threads: 4, data: "verifiable", ..Trial::new(HOT, 4000) };
    let mut hot = HashSet::new();
    for worker in 0..4 {
        hot.extend(hot_blocks(&trial.counts(worker, 200_000), 500));
    }
    assert_eq!(hot.len(), 400);
}

fn any_address() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"kind": "random"}"#.to_owned()),
        Just(r#"{"kind": "sequential"}"#.to_owned()),
        (1_u64..64).prop_map(|blocks| {
            format!(r#"{{"kind": "strided", "stride_bytes": {}}}"#, blocks * 8192)
        }),
        (0.0..=3.0).prop_map(|theta| format!(r#"{{"kind": "zipf", "theta": {theta}}}"#)),
        (0.01..=1.0, 0.0..=1.0).prop_map(|(hot, share)| {
            format!(r#"{{"kind": "hot_cold", "hot_share": {hot}, "hot_access_share": {share}}}"#)
        }),
    ]
}

proptest! {
    #[test]
    fn requests_are_aligned_and_never_leave_the_range(
        address in any_address(), start in 0_u64..100_000, blocks in 64_u64..4096,
        units in prop::collection::vec(1_u64..8, 1..4), align_shift in 0_u32..2,
        threads in 1_u32..6, verifiable in any::<bool>(),
    ) {
        let align_bytes = 4096_u64 << align_shift;
        let sizes_bytes: Vec<u64> = units.iter().map(|count| count * align_bytes).collect();
        let length_bytes = blocks * 8192 + 3;
        let access = access(&address, &sizes_bytes, align_bytes);
        let range = format!(r#"{{"start_bytes": {start}, "length_bytes": {length_bytes}}}"#);
        let data = if verifiable { "verifiable" } else { "random" };
        let plan = AddressPlan::new(&spec_with(&access, &range, threads, data)).unwrap();
        for worker in 0..threads {
            let mut cursor = plan.cursors(worker).remove(0);
            for round in 0..200 {
                let size_bytes = sizes_bytes[round % sizes_bytes.len()];
                let offset = cursor.next(size_bytes).unwrap();
                prop_assert!(offset >= start && offset + size_bytes <= start + length_bytes);
                prop_assert!(offset % align_bytes == 0 || address.contains("sequential"));
            }
        }
    }
}

/// The offset that most of many requests go to.
fn hottest_bytes(seed: u64, hot_seed: Option<u64>) -> u64 {
    let zipf = access(r#"{"kind": "zipf", "theta": 1.5}"#, &[BLOCK_BYTES], BLOCK_BYTES);
    let range = r#"{"start_bytes": 0, "length_bytes": 4194304}"#;
    let spec = CellSpec { seed, hot_seed, ..spec_with(&zipf, range, 1, "random") };
    let mut cursor = AddressPlan::new(&spec).unwrap().cursors(0).remove(0);
    let mut counts = std::collections::HashMap::new();
    for _ in 0..5_000 {
        *counts.entry(cursor.next(BLOCK_BYTES).unwrap()).or_insert(0u64) += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map_or(0, |(offset_bytes, _)| offset_bytes)
}

#[test]
fn cells_with_one_hot_seed_agree_on_what_is_hot() {
    assert_eq!(hottest_bytes(1, Some(9)), hottest_bytes(2, Some(9)));
    assert_ne!(hottest_bytes(1, None), hottest_bytes(2, None));
}
