use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The document of docs/engine.md, so that the page and the reader cannot part.
fn documented() -> Value {
    let page = include_str!("../../../../docs/engine.md");
    let begin = page.find("```json").unwrap() + "```json".len();
    let end = begin + page[begin..].find("```").unwrap();
    serde_json::from_str(&page[begin..end]).unwrap()
}

/// The documented cell with the value at `pointer` (RFC 6901) set to `value`.
fn changed(pointer: &str, value: Value) -> Value {
    let mut document = documented();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match parent {
        Value::Object(map) => map.insert(key.to_owned(), value),
        Value::Array(list) => {
            Some(std::mem::replace(&mut list[key.parse::<usize>().unwrap()], value))
        }
        _ => panic!("{pointer} leads nowhere"),
    };
    document
}

fn parse(document: &Value) -> Result<CellSpec, SpecError> {
    CellSpec::parse(&document.to_string())
}

/// The sentence with which the documented cell is refused once `pointer` holds `value`.
fn refusal(pointer: &str, value: Value) -> String {
    match parse(&changed(pointer, value)) {
        Ok(_) => panic!("{pointer} was taken"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_refused(pointer: &str, value: Value, key: &str, words: &str) {
    let sentence = refusal(pointer, value);
    assert!(sentence.starts_with(&format!("{key} ")), "{sentence}");
    assert!(sentence.contains(words), "{sentence}");
}

#[test]
fn the_documented_cell_is_read() {
    let spec = parse(&documented()).unwrap();
    assert_eq!((spec.seed, spec.threads, spec.depth), (7, 10, 1));
    assert_eq!(spec.target.path.as_deref(), Some(std::path::Path::new("/mnt/ssd/trial.dat")));
    assert_eq!(spec.range, RangeSpec { start_bytes: 0, length_bytes: 1 << 30 });
    assert_eq!(spec.accesses.len(), 2);
    assert_eq!(spec.accesses[0].operation, Operation::Read);
    assert_eq!(spec.accesses[0].sizes, [SizeSpec { bytes: 8192, weight: 1.0 }]);
    assert_eq!(spec.accesses[1].operation, Operation::Write);
    assert_eq!(spec.accesses[1].address, AddressSpec::Zipf { theta: 0.99 });
    assert_eq!(spec.limit, LimitSpec { duration_s: 0.5, bytes: None, operations: None });
    assert!(!spec.is_verifiable());
}

#[test]
fn what_is_left_out_is_as_documented() {
    let mut short = documented();
    let keys = ["engine", "arrival", "sync_every", "sync_kind", "data", "verify", "slice_ms"];
    for key in keys.into_iter().chain(["stall_threshold_ms", "iopoll", "depth"]) {
        short.as_object_mut().unwrap().remove(key).unwrap();
    }
    for key in ["direct", "dsync", "copy_to", "create"] {
        short["target"].as_object_mut().unwrap().remove(key).unwrap();
    }
    short["limit"] = json!({"duration_s": 0.5});
    assert_eq!(parse(&short).unwrap(), parse(&documented()).unwrap());
}

#[test]
fn every_documented_value_is_taken() {
    let takes = |pointer, value: Value| {
        parse(&changed(pointer, value.clone())).unwrap_or_else(|error| panic!("{value}: {error}"));
    };
    for address in [
        json!({"kind": "random"}),
        json!({"kind": "sequential"}),
        json!({"kind": "strided", "stride_bytes": 65536}),
        json!({"kind": "zipf", "theta": 0}),
        json!({"kind": "zipf", "theta": 3}),
        json!({"kind": "hot_cold", "hot_share": 0.1, "hot_access_share": 0.9}),
    ] {
        takes("/accesses/0/address", address);
    }
    for arrival in [
        json!({"kind": "closed"}),
        json!({"kind": "fixed", "rate_per_s": 1000}),
        json!({"kind": "poisson", "rate_per_s": 0.5}),
        json!({"kind": "bursts", "rate_per_s": 1000, "burst": 32}),
        json!({"kind": "batches", "rate_per_s": 1000, "burst": 32}),
    ] {
        takes("/arrival", arrival);
    }
    for data in [json!({"kind": "compressible", "share": 0.5}), json!({"kind": "verifiable"})] {
        takes("/data", data);
    }
    for operation in ["read", "write", "commit"] {
        takes("/accesses/0/operation", json!(operation));
    }
    for engine in ["auto", "io_uring", "psync"] {
        takes("/engine", json!(engine));
    }
    for sync_kind in ["fdatasync", "fsync"] {
        takes("/sync_kind", json!(sync_kind));
    }
}

#[test]
fn unknown_keys_and_values_are_refused() {
    for (pointer, value) in [
        ("/thread", json!(1)),
        ("/target/kind", json!("tape")),
        ("/target/siez_bytes", json!(1)),
        ("/range/end", json!(1)),
        ("/accesses/0/op", json!("read")),
        ("/accesses/0/operation", json!("sync")),
        ("/accesses/0/sizes/0/size", json!(1)),
        ("/accesses/0/address", json!({"kind": "random", "theta": 1})),
        ("/accesses/0/address", json!({"kind": "zipf"})),
        ("/arrival", json!({"kind": "closed", "rate_per_s": 1})),
        ("/data", json!({"kind": "random", "share": 1})),
        ("/limit/seconds", json!(1)),
        ("/threads", json!(-1)),
        ("/seed", Value::Null),
    ] {
        let sentence = refusal(pointer, value);
        assert!(sentence.starts_with("the cell's specification cannot be read: "), "{sentence}");
        assert!(sentence.ends_with("docs/engine.md shows every key"), "{sentence}");
    }
    assert!(refusal("/accesses/0/operation", json!("erase")).contains("`read`, `write`, `commit`"));
    assert!(CellSpec::parse("").is_err());
}

#[test]
fn counts_and_limits_are_checked() {
    let bounds =
        [("threads", 1024), ("depth", 4096), ("slice_ms", 60_000), ("stall_threshold_ms", 60_000)];
    for (key, max) in bounds {
        for value in [0, max + 1] {
            assert_refused(&format!("/{key}"), json!(value), key, &format!("1 to {max}"));
        }
    }
    assert_refused("/accesses", json!([]), "accesses", "at least one");
    for value in [0.0, -1.0, 1e9] {
        assert_refused("/limit/duration_s", json!(value), "limit.duration_s", "above 0 s");
    }
    assert_refused("/limit/bytes", json!(0), "limit.bytes", "before it began");
    assert_refused("/limit/operations", json!(0), "limit.operations", "before it began");
}

#[test]
fn rates_are_checked() {
    for kind in ["fixed", "poisson"] {
        for rate in [0.0, -3.0, 1e10] {
            let arrival = json!({"kind": kind, "rate_per_s": rate});
            assert_refused("/arrival", arrival, "arrival.rate_per_s", "requests per second");
        }
    }
    let arrival = json!({"kind": "bursts", "rate_per_s": 10, "burst": 0});
    assert_refused("/arrival", arrival, "arrival.burst", "at least 1");
    let mut long = changed("/limit/duration_s", json!(5));
    for (kind, is_read) in [("poisson", false), ("batches", false), ("fixed", true)] {
        long["arrival"] = json!({"kind": kind, "rate_per_s": 1e9});
        if kind == "batches" {
            long["arrival"]["burst"] = json!(8);
        }
        assert_eq!(parse(&long).is_ok(), is_read, "{kind}: 5e8 of each of ten threads");
    }
}

/// The documented cell, of two accesses and ten threads, with streams.
fn with_streams(streams: &Value) -> Value {
    let mut document = changed("/arrival", json!({"kind": "streams"}));
    document["sync_every"] = json!(0);
    document["depth"] = json!(8);
    document["accesses"][1]["stream"] = json!(1);
    document["streams"] = streams.clone();
    document
}

#[test]
fn streams_have_their_workers() {
    let think = json!({"kind": "think", "pause_s": 0.001});
    let batches = json!({"kind": "batches", "rate_per_s": 100, "burst": 9});
    let spec = parse(&with_streams(&json!([
        {"threads": 3, "arrival": think, "sync_every": 1},
        {"threads": 7, "depth": 8, "arrival": batches},
    ])))
    .unwrap();
    let places: Vec<_> = (0..10).map(|worker| spec.place_of(worker)).collect();
    assert_eq!(places[..4], [(0, 0), (0, 1), (0, 2), (1, 0)]);
    assert_eq!(places[9], (1, 6));
    assert_eq!(parse(&documented()).unwrap().place_of(4), (0, 4));
}

#[test]
fn streams_are_checked() {
    let think = || json!({"threads": 3, "arrival": {"kind": "think", "pause_s": 0.001}});
    let closed = |threads: u32| json!({"threads": threads, "arrival": {"kind": "closed"}});
    let with = |key: &str, value: Value| {
        let mut stream = think();
        stream[key] = value;
        stream
    };
    for (streams, words) in [
        (json!([think(), closed(6)]), "9 threads together, but the cell has 10"),
        (json!([closed(10)]), "accesses[1].stream is 1; the cell has 1 streams"),
        (json!([think(), closed(3), closed(4)]), "streams[2] has no access"),
        (json!([with("depth", json!(2)), closed(7)]), "at most 1 are in flight"),
        (json!([with("depth", json!(9)), closed(7)]), "1 to the depth of the cell, 8"),
        (json!([with("arrival", json!({"kind": "streams"})), closed(7)]), "of a stream alone"),
        (
            json!([with("arrival", json!({"kind": "think", "pause_s": -1})), closed(7)]),
            "streams[0].arrival.pause_s is -1",
        ),
        (
            json!([with("arrival", json!({"kind": "think", "pause_s": 1, "burst": 0})), closed(7)]),
            "streams[0].arrival.burst is 0",
        ),
    ] {
        let sentence = parse(&with_streams(&streams)).unwrap_err().to_string();
        assert!(sentence.contains(words), "{sentence}");
    }
    assert_refused("/arrival", json!({"kind": "streams"}), "arrival", "the cell has none");
    assert_refused("/arrival", json!({"kind": "think", "pause_s": 1}), "arrival", "of a stream");
    assert_refused("/accesses/1/stream", json!(1), "accesses", "the cell has none");
}

#[test]
fn targets_are_checked() {
    assert_refused("/target/path", Value::Null, "target.path", "is missing");
    assert_refused("/target/kind", json!("simulated"), "target.model", "is missing");
    assert_refused("/accesses/0/operation", json!("copy"), "target.copy_to", "is missing");
    let mut simulated = changed("/target/kind", json!("simulated"));
    simulated["target"]["model"] = json!({"latency": {"mean_ns": 5}});
    let spec = parse(&simulated).unwrap();
    assert_eq!(spec.target.model, Some(json!({"latency": {"mean_ns": 5}})));
}

#[test]
fn the_null_target_takes_any_range() {
    let mut null = documented();
    null["target"] = json!({"kind": "null"});
    null["accesses"][0]["operation"] = json!("copy");
    let spec = parse(&null).unwrap();
    assert_eq!(spec.target.kind, TargetKind::Null);
    null["range"]["start_bytes"] = json!(u64::MAX);
    assert!(parse(&null).unwrap_err().to_string().contains("past any target"));
}

#[test]
fn ranges_are_checked() {
    assert_refused("/range/start_bytes", json!(4096), "range", "ends at byte 1073745920");
    assert_refused("/range/length_bytes", json!(0), "accesses[0].sizes", "does not fit");
    assert_refused("/range/length_bytes", json!(8191), "accesses[0].sizes", "does not fit");
    let range = json!({"start_bytes": 1, "length_bytes": 16382});
    assert_refused("/range", range, "accesses[0].sizes", "at a multiple of 8192");
    let range = json!({"start_bytes": 1, "length_bytes": 16383});
    parse(&changed("/range", range)).unwrap();
}

#[test]
fn accesses_are_checked() {
    for weight in [0.0, -1.0] {
        assert_refused("/accesses/1/weight", json!(weight), "accesses[1].weight", "above 0");
        let key = "accesses[0].sizes[0].weight";
        assert_refused("/accesses/0/sizes/0/weight", json!(weight), key, "above 0");
    }
    assert_refused("/accesses/0/sizes", json!([]), "accesses[0].sizes", "at least one");
    assert_refused("/accesses/0/align_bytes", json!(0), "accesses[0].align_bytes", "is 0");
    let key = "accesses[0].sizes[0].bytes";
    assert_refused("/accesses/0/sizes/0/bytes", json!(0), key, "1 to 1073741824");
    assert_refused("/accesses/0/sizes/0/bytes", json!(1_u64 << 31), key, "1 to 1073741824");
    assert_refused("/accesses/0/sizes/0/bytes", json!(8704), key, "multiple of align_bytes (8192)");
    let mut sequential = changed("/accesses/0/sizes/0/bytes", json!(8704));
    sequential["accesses"][0]["address"] = json!({"kind": "sequential"});
    parse(&sequential).unwrap();
}

#[test]
fn addresses_are_checked() {
    let pointer = "/accesses/0/address";
    for theta in [-0.1, 3.1] {
        let address = json!({"kind": "zipf", "theta": theta});
        assert_refused(pointer, address, "accesses[0].address.theta", "0 (uniform) to 3");
    }
    for stride_bytes in [0, 4096, (1_u64 << 30) + 8192] {
        let address = json!({"kind": "strided", "stride_bytes": stride_bytes});
        let key = "accesses[0].address.stride_bytes";
        assert_refused(pointer, address, key, "multiple of align_bytes (8192)");
    }
    for (hot_share, access_share, key) in
        [(0.0, 0.5, "hot_share"), (1.1, 0.5, "hot_share"), (0.5, 1.1, "hot_access_share")]
    {
        let address = json!({
            "kind": "hot_cold", "hot_share": hot_share, "hot_access_share": access_share
        });
        assert_refused(pointer, address, &format!("accesses[0].address.{key}"), "must be");
    }
}

#[test]
fn data_is_checked() {
    for share in [-0.1, 1.1] {
        let data = json!({"kind": "compressible", "share": share});
        assert_refused("/data", data, "data.share", "0 to 1");
    }
    assert_refused("/verify", json!(true), "verify", "data.kind to \"verifiable\"");
}

#[test]
fn verifiable_data_needs_sectors_and_a_block_for_each_thread() {
    let verifiable = |pointer: &str, value: Value| {
        let mut document = changed(pointer, value);
        document["data"] = json!({"kind": "verifiable"});
        document["verify"] = json!(true);
        parse(&document).map(drop).map_err(|error| error.to_string())
    };
    verifiable("/depth", json!(4)).unwrap();
    let align = verifiable("/accesses/0/align_bytes", json!(64)).unwrap_err();
    assert!(align.starts_with("accesses[0].align_bytes is 64; verifiable"), "{align}");
    let access = json!({"operation": "write", "sizes": [{"bytes": 700}], "align_bytes": 512,
                        "address": {"kind": "sequential"}});
    let size = verifiable("/accesses/0", access).unwrap_err();
    assert!(size.contains("has 700; verifiable data needs multiples of 512"), "{size}");
    let access = json!({"operation": "write", "sizes": [{"bytes": 1024}], "align_bytes": 4096,
                        "address": {"kind": "sequential"}});
    let size = verifiable("/accesses/0", access).unwrap_err();
    assert!(size.contains("has 1024; verifiable data needs multiples of align_bytes"), "{size}");
    let short = verifiable("/range/length_bytes", json!(9 * 8192)).unwrap_err();
    assert!(short.contains("room for 9 blocks of 8192 bytes"), "{short}");
    verifiable("/range/length_bytes", json!(10 * 8192)).unwrap();
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = CellSpec::parse(&text);
    }

    #[test]
    fn no_numbers_make_the_checks_panic(
        start in any::<u64>(), length in any::<u64>(), size in any::<u64>(),
        align in any::<u64>(), stride in any::<u64>(), target in any::<u64>(),
    ) {
        let mut document = documented();
        document["target"]["size_bytes"] = json!(target);
        document["range"] = json!({"start_bytes": start, "length_bytes": length});
        document["data"] = json!({"kind": "verifiable"});
        document["accesses"][0]["sizes"][0]["bytes"] = json!(size);
        document["accesses"][0]["align_bytes"] = json!(align);
        document["accesses"][0]["address"] = json!({"kind": "strided", "stride_bytes": stride});
        let _ = parse(&document);
    }
}

#[test]
fn a_one_pass_fill_stands_alone_and_writes_blocks_that_never_overlap() {
    let access = |operation: &str, sizes_bytes: &[u64], share: f64| {
        let sizes: Vec<Value> = sizes_bytes.iter().map(|bytes| json!({"bytes": bytes})).collect();
        json!({"operation": operation, "sizes": sizes, "align_bytes": 8192,
               "address": {"kind": "one_pass", "over_provisioning_share": share}})
    };
    let alone = |access: Value| json!([access]);
    parse(&changed("/accesses", alone(access("write", &[8192], 0.5)))).unwrap();
    let share_key = "accesses[0].address.over_provisioning_share";
    for share in [0.0, -0.1, 0.51] {
        let accesses = alone(access("write", &[8192], share));
        assert_refused("/accesses", accesses, share_key, "above 0 and at most 0.5");
    }
    let two = json!([access("write", &[8192], 0.1), access("write", &[8192], 0.1)]);
    assert_refused("/accesses", two, "accesses[0]", "a separate cell");
    let reading = alone(access("read", &[8192], 0.1));
    assert_refused("/accesses", reading, "accesses[0].operation", "does not write");
    for sizes_bytes in [&[8192, 16384][..], &[16384][..]] {
        let accesses = alone(access("write", sizes_bytes, 0.1));
        assert_refused("/accesses", accesses, "accesses[0].sizes", "must be one size");
    }
    let mut verifiable = changed("/accesses", alone(access("write", &[8192], 0.1)));
    verifiable["data"] = json!({"kind": "verifiable"});
    let sentence = parse(&verifiable).unwrap_err().to_string();
    assert!(sentence.starts_with("data is verifiable"), "{sentence}");
}
