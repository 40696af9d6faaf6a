use proptest::prelude::*;

use super::*;

/// For each write of a pass, whether it is the last one to its block; asserts that the pass is a
/// cover and that it ends.
fn last_writes(pass: &OnePassPlan, blocks: u64) -> Vec<bool> {
    let taken: Vec<u64> = (0..pass.writes).map(|write| pass.block(write).unwrap()).collect();
    assert_eq!(pass.block(pass.writes), None);
    assert_eq!(pass.block(u64::MAX), None);
    let mut seen = vec![false; blocks as usize];
    let mut last: Vec<bool> = taken
        .iter()
        .rev()
        .map(|&block| !std::mem::replace(&mut seen[block as usize], true))
        .collect();
    assert!(seen.into_iter().all(|is_seen| is_seen), "a block was left out");
    last.reverse();
    last
}

#[test]
fn the_root_is_the_one_below_1() {
    for (share, amplification) in [(0.07, 7.817), (0.28, 2.481), (1.0, 1.255)] {
        let valid = victim_valid_share(share);
        assert!((valid - (-(1.0 + share) * (1.0 - valid)).exp()).abs() < 1e-12);
        assert!((1.0 / (1.0 - valid) - amplification).abs() < 0.001, "{share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_block_is_written_whatever_the_size(
        blocks in 1_u64..20_000, share in 0.001_f64..=0.5, seed in any::<u64>(),
    ) {
        let pass = OnePassPlan::new(blocks, share, seed);
        let last = last_writes(&pass, blocks);
        prop_assert_eq!(last.iter().filter(|&&is_last| is_last).count() as u64, blocks);
        prop_assert_eq!(one_pass_writes(blocks, share), pass.writes);
        prop_assert!(pass.writes <= (blocks as f64 * (1.0 + share)) as u64 + REGIONS_MAX);
    }

    #[test]
    fn a_block_is_written_again_in_a_later_region_only(
        blocks in 1_000_u64..20_000, share in 0.01_f64..=0.5,
    ) {
        let pass = OnePassPlan::new(blocks, share, 5);
        let mut region_of_first = vec![None; blocks as usize];
        let mut times = vec![0; blocks as usize];
        for write in 0..pass.writes {
            let block = pass.block(write).unwrap() as usize;
            let region = (write / pass.region_writes).min(pass.regions.len() as u64 - 1);
            times[block] += 1;
            match region_of_first[block] {
                None => region_of_first[block] = Some(region),
                Some(first) => prop_assert!(first < region && times[block] == 2),
            }
        }
    }
}

/// The share of each tenth of the pass that is left valid, against the law that it was made for.
#[test]
fn what_is_left_of_each_part_follows_the_law() {
    const BLOCKS: u64 = 200_000;
    for share in [0.07, 0.15, 0.28, 0.5] {
        let pass = OnePassPlan::new(BLOCKS, share, 1);
        let writes = pass.writes as f64;
        assert!((writes / BLOCKS as f64 / (1.0 + share) - 1.0).abs() < 0.005, "{share}: {writes}");
        let exponent = (1.0 + share) * (1.0 - victim_valid_share(share));
        let last = last_writes(&pass, BLOCKS);
        for (tenth, part) in last.chunks(last.len().div_ceil(10)).enumerate() {
            let valid = part.iter().filter(|&&is_last| is_last).count() as f64 / part.len() as f64;
            let older = |ends: usize| (-exponent * (10 - ends) as f64 / 10.0).exp();
            let mean = (older(tenth + 1) - older(tenth)) / (exponent / 10.0);
            assert!((valid - mean).abs() < 0.005, "{share}, tenth {tenth}: {valid}, not {mean}");
        }
    }
}

/// Within a region new blocks and repetitions are mixed: no erase block is of one sort.
#[test]
fn a_region_is_mixed() {
    let pass = OnePassPlan::new(200_000, 0.28, 1);
    let last = last_writes(&pass, 200_000);
    let first_region = &last[..pass.region_writes as usize];
    let shares: Vec<f64> = first_region
        .chunks_exact(128)
        .map(|part| part.iter().filter(|&&is_last| is_last).count() as f64 / 128.0)
        .collect();
    let valid = victim_valid_share(0.28);
    // Six standard deviations of 128 draws.
    assert!(shares.iter().all(|share| (share - valid).abs() < 0.27), "{shares:?}");
    assert!(shares.iter().any(|share| (share - valid).abs() > 0.01), "{shares:?}");
}

#[test]
fn neighbours_in_time_are_none_in_place_and_the_seed_decides() {
    let blocks = |seed| -> Vec<u64> {
        let pass = OnePassPlan::new(1 << 18, 0.07, seed);
        (0..10_000).map(|write| pass.block(write).unwrap()).collect()
    };
    let near = blocks(1).windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 64).count();
    assert!(near < 30, "{near}");
    assert_eq!(blocks(1), blocks(1));
    assert_ne!(blocks(1), blocks(2));
}

/// However the workers share the pass, each write of it is made once.
#[test]
fn threads_together_make_each_write_once() {
    const BLOCKS: u64 = 50_000;
    let access = r#"{"operation": "write", "sizes": [{"bytes": 4096}], "align_bytes": 4096,
                     "address": {"kind": "one_pass", "over_provisioning_share": 0.07}}"#;
    let range = format!(r#"{{"start_bytes": 8192, "length_bytes": {}}}"#, BLOCKS * 4096 + 512);
    let spec = crate::address::tests::spec_with(access, &range, 4, "random");
    let plan = crate::address::AddressPlan::new(&spec).unwrap();
    let mut taken: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let mut cursor = plan.cursors(worker).remove(0);
                scope.spawn(move || std::iter::from_fn(|| cursor.next(4096)).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(taken.len() as u64, one_pass_writes(BLOCKS, 0.07));
    taken.sort_unstable();
    taken.dedup();
    assert!(taken.into_iter().eq((0..BLOCKS).map(|block| 8192 + block * 4096)));
}
