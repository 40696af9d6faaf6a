//! The measuring proved on devices whose truth is known.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use seatrial_gauge::Operation;
use serde_json::json;

use crate::address::one_pass::one_pass_writes;
use crate::sample::Sample;
use crate::spec::CellSpec;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn run(changes: serde_json::Value) -> Sample {
    let mut spec = json!({
        "seed": 7,
        "target": {"kind": "simulated", "size_bytes": 1u64 << 30, "model": {}},
        "range": {"start_bytes": 0, "length_bytes": 1u64 << 30},
        "accesses": [{"operation": "read", "sizes": [{"bytes": 4096}], "align_bytes": 4096,
                      "address": {"kind": "random"}}],
        "limit": {"duration_s": 10.0},
    });
    merge(&mut spec, changes);
    let spec = CellSpec::parse(&spec.to_string()).unwrap();
    super::measure(&spec, &Arc::new(AtomicBool::new(false))).unwrap()
}

fn merge(into: &mut serde_json::Value, from: serde_json::Value) {
    match (into, from) {
        (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn with_model(model: serde_json::Value) -> serde_json::Value {
    json!({"target": {"model": model}})
}

#[test]
fn an_ideal_device_gives_exactly_its_rate() {
    let sample = run(with_model(json!({"read": {"base_us": 100.0, "per_kib_us": 0.0}})));
    assert_eq!(sample.outcome.completed, 100_000);
    let reads = &sample.kinds[Operation::Read.index()];
    assert_eq!((reads.response.min_ns(), reads.response.max_ns()), (100_000, 100_000));
    assert!(sample.stalls.is_empty());
}

#[test]
fn a_limit_ends_a_sample_with_its_last_request() {
    for limit in [json!({"operations": 16}), json!({"bytes": 16 * 4096})] {
        let model = json!({"read": {"base_us": 100.0, "per_kib_us": 0.0}});
        let sample = run(json!({"target": {"model": model}, "limit": limit}));
        assert_eq!((sample.outcome.completed, sample.duration_ns), (16, 1_600_000));
    }
}

#[test]
fn channels_serve_side_by_side() {
    let model = json!({"channels": 4, "read": {"base_us": 100.0}});
    let sample = run(json!({"target": {"model": model}, "threads": 2, "depth": 8}));
    let reads = &sample.kinds[Operation::Read.index()];
    assert!(sample.outcome.completed.abs_diff(400_000) <= 16);
    assert_eq!(reads.response.percentile_ns(50.0) / 10_000, 40);
}

/// Freezes of 50 ms to 10 s at known times, at several depths: all found, edges within 10 ms.
#[test]
fn every_freeze_is_found_with_its_edges() {
    let freezes = [(1.0, 0.06), (2.5, 0.1), (4.0, 0.5), (6.0, 3.0), (12.0, 10.0), (30.0, 0.055)];
    for (threads, depth) in [(1, 1), (10, 1), (4, 32)] {
        let spans: Vec<_> =
            freezes.map(|(start, length)| json!({"start_s": start, "length_s": length})).to_vec();
        let model = json!({"channels": 4, "noise_share": 0.5, "freezes": spans});
        let sample = run(json!({
            "target": {"model": model}, "threads": threads, "depth": depth,
            "limit": {"duration_s": 40.0},
        }));
        assert_eq!(sample.stalls.len(), freezes.len(), "{threads} x {depth}");
        for ((stall, seen), (start_s, length_s)) in sample.stalls.iter().zip(freezes) {
            let start_ns = sample.start_ns + (start_s * S as f64) as u64;
            let end_ns = start_ns + (length_s * S as f64) as u64;
            assert!(stall.start_ns.abs_diff(start_ns) < 10 * MS, "{stall:?}");
            assert!(stall.end_ns.abs_diff(end_ns) < 10 * MS, "{stall:?}");
            assert_eq!(seen.cause().name(), "device");
            // A batch that was being awaited may hold back up to a tenth of the requests.
            assert!(10 * stall.depth() >= 9 * threads * depth, "{stall:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_freeze_anywhere_is_found(
        start_ms in 0u64..20_000, length_ms in 52u64..10_000, depth in 1u32..40, seed in 0u64..1000,
    ) {
        let freeze = json!({"start_s": start_ms as f64 / 1e3, "length_s": length_ms as f64 / 1e3});
        let model = json!({"channels": 8, "noise_share": 0.3, "freezes": [freeze]});
        let sample = run(json!({
            "seed": seed, "target": {"model": model}, "depth": depth,
            "limit": {"duration_s": 31.0},
        }));
        prop_assert_eq!(sample.stalls.len(), 1);
        let stall = sample.stalls[0].0;
        let start_ns = sample.start_ns + start_ms * MS;
        prop_assert!(stall.start_ns.abs_diff(start_ns) < 10 * MS);
        prop_assert!(stall.end_ns.abs_diff(start_ns + length_ms * MS) < 10 * MS);
    }

    /// Errors at random, a device that goes away, schedules that it cannot keep: it adds up.
    #[test]
    fn the_accounting_holds_under_random_faults(
        error_share in 0.0..1.0f64, vanishes_at_s in 0.1..3.0f64, rate_per_s in 10.0..30_000.0f64,
        depth in 1u32..20, sync_every in 0u64..5, seed in 0u64..1000,
    ) {
        let model = json!({
            "channels": 2, "noise_share": 1.0, "error_share": error_share,
            "vanishes_at_s": vanishes_at_s, "freezes": [{"start_s": 0.5, "length_s": 0.4}],
        });
        let sample = run(json!({
            "seed": seed, "target": {"model": model}, "depth": depth, "sync_every": sync_every,
            "arrival": {"kind": "poisson", "rate_per_s": rate_per_s},
            "accesses": [
                {"operation": "read", "sizes": [{"bytes": 4096}], "align_bytes": 4096,
                 "address": {"kind": "random"}},
                {"operation": "write", "sizes": [{"bytes": 8192}], "align_bytes": 4096,
                 "address": {"kind": "random"}},
            ],
            "limit": {"duration_s": 2.0},
        }));
        prop_assert!(sample.outcome.adds_up());
        prop_assert_eq!(sample.errors_count, sample.outcome.failed);
        let completed: u64 = sample.kinds.iter().map(|kind| kind.response.entries()).sum();
        prop_assert_eq!(completed, sample.outcome.completed);
    }
}

/// An hour of exponential noise at some thousand requests per second: not one false stall.
#[test]
fn an_hour_of_noise_raises_no_false_alarm() {
    let model = json!({"channels": 2, "noise_share": 2.0, "read": {"base_us": 300.0}});
    let sample = run(json!({
        "target": {"model": model}, "depth": 4, "limit": {"duration_s": 3600.0},
    }));
    assert!(sample.outcome.completed > 5_000_000);
    assert!(sample.stalls.is_empty(), "{:?}", sample.stalls);
}

/// The freeze of research/raw-io.md section 6: at 1000 requests per second for 15 s, a device of
/// 100 us that freezes for 3 s. The truth follows from Lindley's recursion.
#[test]
fn fixed_rate_percentiles_under_a_freeze_are_the_computed_truth() {
    let model = json!({
        "read": {"base_us": 100.0, "per_kib_us": 0.0},
        "freezes": [{"start_s": 5.0, "length_s": 3.0}],
    });
    let sample = run(json!({
        "target": {"model": model}, "limit": {"duration_s": 15.0},
        "arrival": {"kind": "fixed", "rate_per_s": 1000.0},
    }));
    let (mut truth_ns, mut free_ns) = (Vec::new(), 0u64);
    for due_ns in (0..15_000u64).map(|index| index * MS) {
        let mut start_ns = due_ns.max(free_ns);
        if (5 * S..8 * S).contains(&start_ns) {
            start_ns = 8 * S;
        }
        free_ns = start_ns + 100_000;
        truth_ns.push(free_ns - due_ns);
    }
    truth_ns.sort_unstable();
    let reads = &sample.kinds[Operation::Read.index()];
    assert_eq!(reads.completed, 15_000);
    for percent in [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
        let rank = (percent / 100.0 * truth_ns.len() as f64).ceil() as usize;
        let exact = truth_ns[rank - 1] as f64;
        let read = reads.response.percentile_ns(percent) as f64;
        assert!((read / exact - 1.0).abs() < 0.01, "p{percent}: {read} for {exact}");
    }
    assert!(reads.response.percentile_ns(99.0) > 2_700 * MS, "the closed loop's 18 us would hide");
    assert!(reads.service.percentile_ns(99.0) < MS, "service time shows the other half");
}

#[test]
fn a_schedule_that_cannot_be_kept_is_accounted() {
    let sample = run(json!({
        "target": {"model": {"read": {"base_us": 1000.0, "per_kib_us": 0.0}}},
        "limit": {"duration_s": 2.0},
        "arrival": {"kind": "fixed", "rate_per_s": 2000.0},
    }));
    assert_eq!((sample.outcome.offered, sample.outcome.completed), (4_000, 2_000));
    assert_eq!(sample.outcome.late_skipped, 2_000);
}

#[test]
fn a_paused_generator_is_not_the_devices_fault() {
    let pause = json!([{"start_s": 2.0, "length_s": 1.0}]);
    let sample = run(with_model(json!({"generator_pauses": pause})));
    assert_eq!(sample.stalls.len(), 1);
    assert_eq!(sample.stalls[0].1.cause().name(), "generator");
}

#[test]
fn a_device_that_vanishes_is_reported_and_given_up() {
    let sample = run(with_model(json!({"vanishes_at_s": 1.0})));
    assert_eq!(sample.errors.len(), 32);
    assert!(sample.errors.iter().all(|error| error.name() == "ENODEV"));
    assert!(sample.counters.contains(&("gave_up_workers", 1.0)));
    assert!(sample.outcome.completed > 0 && sample.outcome.adds_up());
}

#[test]
fn a_write_cache_fills_and_then_shows_its_drain() {
    let model = json!({
        "write_cache": {"size_bytes": 64 << 20, "hit_us": 20.0, "drain_bytes_per_s": 10e6},
    });
    let sample = run(json!({
        "target": {"model": model},
        "accesses": [{"operation": "write", "sizes": [{"bytes": 65536}], "align_bytes": 65536,
                      "address": {"kind": "sequential"}}],
    }));
    let written_bytes = sample.kinds[Operation::Write.index()].transferred_bytes;
    let expected_bytes = (64 << 20) + 100_000_000;
    assert!(written_bytes.abs_diff(expected_bytes) < 1 << 20, "{written_bytes}");
    let first_slice_bytes = sample.slices[0].transferred_bytes;
    let last_slice_bytes = sample.slices[sample.slices.len() - 1].transferred_bytes;
    assert!(first_slice_bytes > 50 * last_slice_bytes);
}

#[test]
fn burst_credit_ends() {
    let model = json!({"burst": {"credit_operations": 5_000.0, "refill_per_s": 100.0}});
    let sample = run(with_model(model));
    assert!(sample.outcome.completed.abs_diff(6_000) < 60, "{:?}", sample.outcome);
}

#[test]
fn a_gap_slows_the_sizes_it_names() {
    let model = json!({"gaps": [{"from_bytes": 4096, "to_bytes": 4096, "slowdown_factor": 10.0}]});
    let slow = run(with_model(model)).outcome.completed;
    let plain = run(json!({})).outcome.completed;
    assert!((plain as f64 / slow as f64 - 10.0).abs() < 0.1);
}

#[test]
fn a_hang_leaves_its_requests_in_flight() {
    let sample = run(json!({
        "target": {"model": {"freezes": [{"start_s": 0.0, "length_s": 500.0}]}},
        "threads": 3, "limit": {"duration_s": 1.0},
    }));
    assert_eq!((sample.outcome.completed, sample.outcome.in_flight_at_end), (0, 3));
    assert!(sample.oldest_in_flight_ns > 4 * S);
    assert_eq!(sample.stalls.len(), 1);
}

#[test]
fn the_same_seed_gives_the_same_sample() {
    let noisy = || run(with_model(json!({"noise_share": 1.0, "error_share": 0.1})));
    let (first, second) = (noisy(), noisy());
    assert_eq!(first.outcome, second.outcome);
    assert_eq!(first.kinds[0].response.encode(), second.kinds[0].response.encode());
}

fn written_bytes(sample: &Sample) -> u64 {
    sample.kinds[Operation::Write.index()].transferred_bytes
}

fn counter(sample: &Sample, name: &str) -> f64 {
    sample.counters.iter().find(|(each, _)| *each == name).unwrap().1
}

fn writes(size_bytes: u64, pattern: &str) -> serde_json::Value {
    json!([{"operation": "write", "sizes": [{"bytes": size_bytes}], "align_bytes": size_bytes,
            "address": {"kind": pattern}}])
}

/// A cache and a credit that one sample spends are spent for the next one; a rest gives them back.
#[test]
fn what_lasts_is_found_again_under_its_key() {
    let cached = |key: &str, lasting: bool, idle_s: f64| {
        let model = json!({
            "lasting": lasting,
            "write_cache": {"size_bytes": 64 << 20, "hit_us": 20.0, "drain_bytes_per_s": 10e6},
        });
        run(json!({
            "target": {"model": model, "state_key": key, "idle_s": idle_s},
            "accesses": writes(65536, "sequential"), "limit": {"duration_s": 2.0},
        }))
    };
    let first_bytes = written_bytes(&cached("cache", true, 0.0));
    assert!(first_bytes > 80 << 20);
    let spent_bytes = written_bytes(&cached("cache", true, 0.0));
    assert!(spent_bytes.abs_diff(20_000_000) < 1 << 20, "only the drain: {spent_bytes}");
    assert_eq!(written_bytes(&cached("cache", true, 100.0)), first_bytes, "a rest empties it");
    assert_eq!(written_bytes(&cached("another cache", true, 0.0)), first_bytes);
    assert_eq!(written_bytes(&cached("forgetful", false, 0.0)), first_bytes);
    assert_eq!(written_bytes(&cached("forgetful", false, 0.0)), first_bytes);
    super::forget("cache");
    assert_eq!(written_bytes(&cached("cache", true, 0.0)), first_bytes, "forgotten is fresh");

    let credited = |idle_s: f64| {
        let burst = json!({"credit_operations": 5_000.0, "refill_per_s": 100.0});
        run(json!({
            "target": {"model": {"lasting": true, "burst": burst}, "state_key": "credit",
                       "idle_s": idle_s},
            "limit": {"duration_s": 2.0},
        }))
        .outcome
        .completed
    };
    assert!(credited(0.0).abs_diff(5_200) < 20);
    assert!(credited(0.0).abs_diff(200) < 20);
    assert!(credited(10.0).abs_diff(1_200) < 20);
}

/// Another model or size under the same key is another device.
#[test]
fn a_replaced_device_is_fresh() {
    let wrote = |size_bytes: u64, program_us: f64| {
        let ftl = json!({"pages_per_block": 64, "program_us": program_us});
        let model = json!({"lasting": true, "ftl": ftl});
        run(json!({
            "target": {"model": model, "state_key": "replaced", "size_bytes": size_bytes},
            "range": {"length_bytes": 16 << 20}, "accesses": writes(4096, "random"),
            "limit": {"duration_s": 100.0, "bytes": 32 << 20},
        }))
    };
    assert_eq!(counter(&wrote(16 << 20, 20.0), "ftl_host_pages"), 8192.0);
    let worn = counter(&wrote(16 << 20, 20.0), "ftl_write_amplification");
    let larger = counter(&wrote(32 << 20, 20.0), "ftl_write_amplification");
    let other = counter(&wrote(16 << 20, 30.0), "ftl_write_amplification");
    assert!(worn > 2.0 && larger == 1.0 && other < 2.0, "{worn} {larger} {other}");
}

/// Fresh, transition and steady state are visible in the rate and in the work of the flash.
#[test]
fn a_drive_slows_down_as_its_flash_fills() {
    let part = |seed: u64| {
        let ftl = json!({"over_provisioning_share": 0.28, "read_us": 10.0, "program_us": 90.0,
                         "erase_us": 0.0});
        let write = json!({"base_us": 0.0, "per_kib_us": 0.0});
        run(json!({
            "seed": seed,
            "target": {"size_bytes": 256u64 << 20, "state_key": "slows",
                       "model": {"channels": 4, "lasting": true, "write": write, "ftl": ftl}},
            "range": {"length_bytes": 256u64 << 20}, "accesses": writes(4096, "random"), "depth": 4,
            "limit": {"duration_s": 86_400.0, "bytes": 128u64 << 20},
        }))
    };
    let samples: Vec<Sample> = (0..12).map(part).collect();
    let iops: Vec<f64> = samples
        .iter()
        .map(|sample| sample.outcome.completed as f64 / (sample.duration_ns as f64 / 1e9))
        .collect();
    let fresh_iops = 4.0 / 90e-6;
    assert!((iops[0] / fresh_iops - 1.0).abs() < 0.01, "{iops:?}");
    // With WA pages programmed for each, WA - 1 of them read before.
    let amplification = counter(&samples[11], "ftl_write_amplification");
    let steady_iops = 4.0 / ((amplification * 100.0 - 10.0) * 1e-6);
    assert!((iops[11] / steady_iops - 1.0).abs() < 0.02, "{iops:?} {steady_iops}");
    assert!((amplification / 2.48 - 1.0).abs() < 0.03, "{amplification}");
    assert!(iops[3] < 0.9 * iops[0] && iops[3] > iops[11], "in between: {iops:?}");
}

/// What is in a cache leaves it through the same flash that garbage is copied in.
#[test]
fn collection_slows_the_drain_of_a_cache() {
    let wrote_bytes = |state_key: &str| {
        let cache = json!({"size_bytes": 1 << 20, "hit_us": 1.0, "drain_bytes_per_s": 100e6});
        let ftl = json!({"pages_per_block": 64});
        let bytes = run(json!({
            "target": {"size_bytes": 64 << 20, "state_key": state_key,
                       "model": {"lasting": true, "write_cache": cache, "ftl": ftl}},
            "range": {"length_bytes": 64 << 20}, "accesses": writes(4096, "random"),
            "limit": {"duration_s": 5.0},
        }));
        written_bytes(&bytes)
    };
    let first_bytes = wrote_bytes("drain");
    let second_bytes = wrote_bytes("drain");
    assert!(second_bytes < first_bytes / 2, "{first_bytes} {second_bytes}");
}

#[test]
fn flash_too_small_for_its_blocks_is_a_sentence() {
    let spec = json!({
        "seed": 7, "target": {"kind": "simulated", "size_bytes": 4096, "model": {"ftl": {}}},
        "range": {"start_bytes": 0, "length_bytes": 4096}, "accesses": writes(4096, "random"),
        "limit": {"duration_s": 1.0},
    });
    let spec = CellSpec::parse(&spec.to_string()).unwrap();
    let error = super::measure(&spec, &Arc::new(AtomicBool::new(false))).unwrap_err().to_string();
    assert!(error.contains("at least 8 blocks"), "{error}");
}

/// The cell ends by itself, and what follows meets the steady state from its first write on, as
/// flash does that was written at random for long.
#[test]
fn a_one_pass_fill_ends_in_the_steady_state() {
    const SIZE_BYTES: u64 = 256 << 20;
    let sample = |seed: u64, share: f64, accesses: serde_json::Value, bytes: u64| {
        let ftl = json!({"over_provisioning_share": share});
        run(json!({
            "seed": seed, "threads": 2, "depth": 3,
            "target": {"size_bytes": SIZE_BYTES, "state_key": format!("one pass {share}"),
                       "model": {"channels": 4, "lasting": true, "ftl": ftl}},
            "range": {"length_bytes": SIZE_BYTES}, "accesses": accesses,
            "limit": {"duration_s": 86_400.0, "bytes": bytes},
        }))
    };
    for share in [0.07, 0.28] {
        let mut fill = writes(4096, "one_pass");
        fill[0]["address"]["over_provisioning_share"] = json!(share);
        let filled = sample(1, share, fill, 100 * SIZE_BYTES);
        let blocks = SIZE_BYTES / 4096;
        assert_eq!(written_bytes(&filled), 4096 * one_pass_writes(blocks, share));
        let copied = counter(&filled, "ftl_write_amplification");
        assert!(copied < 1.02, "the flash is written once: {copied}");
        let rounds: Vec<f64> = (2..60)
            .map(|seed| {
                let round = sample(seed, share, writes(4096, "random"), SIZE_BYTES / 8);
                counter(&round, "ftl_write_amplification")
            })
            .collect();
        let steady = rounds[40..].iter().sum::<f64>() / 18.0;
        for (number, round) in rounds[..16].iter().enumerate() {
            assert!((round / steady - 1.0).abs() < 0.04, "{share}, {number}: {round} {steady}");
        }
        let first = rounds[..8].iter().sum::<f64>() / 8.0;
        assert!((first / steady - 1.0).abs() < 0.015, "{share}: {first} {steady}");
    }
}
