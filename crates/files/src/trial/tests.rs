use std::time::Duration;

use super::*;

/// A workload of two kinds of thread over one set, as Python passes it.
fn spec(folder: &std::path::Path, change: impl FnOnce(&mut serde_json::Value)) -> FilesSpec {
    let mut json = serde_json::json!({
        "seed": 1, "set_seed": 1, "folder": folder, "make": true,
        "duration_s": 30.0, "limit_bytes": 1u64 << 40, "growth_bytes": 1 << 20,
        "end": "all_done", "slice_ms": 100, "stall_threshold_ms": 50,
        "sets": [{
            "name": "set", "entries": 40, "width_mean": 10.0, "size": 4096.0, "made_share": 0.5,
        }],
        "kinds": [
            {"name": "create", "verb": "createfile"},
            {"name": "write", "verb": "writewholefile"},
            {"name": "close", "verb": "closefile"},
            {"name": "delete", "verb": "deletefile"},
            {"name": "enough", "verb": "finishoncount"},
        ],
        "threads": [{
            "name": "worker", "instances": 3, "slots": 128,
            "steps": [
                {"kind": 0, "verb": "createfile", "set": 0, "slot": 1},
                {"repeat": 2, "steps": [{
                    "kind": 1, "verb": "writewholefile", "slot": 1, "io_bytes": 1024,
                }]},
                {"kind": 2, "verb": "closefile", "slot": 1},
                {"kind": 3, "verb": "deletefile", "set": 0},
                {"kind": 4, "verb": "finishoncount", "value": 50, "targets": [0]},
            ],
        }],
    });
    change(&mut json);
    FilesSpec::parse(&json.to_string()).unwrap()
}

fn measured(spec: FilesSpec) -> (Sample, FilesPart) {
    let trial = start(spec).unwrap();
    assert!(trial.wait(Duration::from_secs(60)), "it hangs");
    trial.take_result().unwrap().unwrap()
}

#[test]
fn counts_are_those_of_the_loops_and_files_are_what_they_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, part) = measured(spec(folder.path(), |_| ()));
    let completed: Vec<u64> = sample.kinds.iter().map(|kind| kind.completed).collect();
    assert_eq!(completed, [150, 300, 150, 150, 0]);
    assert_eq!((sample.outcome.completed, sample.outcome.failed), (750, 0));
    assert_eq!(sample.kinds[1].transferred_bytes, 300 * 4096);
    // The last loop of each thread ends with the flowop that ends it.
    assert_eq!(part.loops, [("worker".to_owned(), 147)]);
    assert_eq!((part.made.files, part.made.bytes, part.ended), (20, 20 * 4096, EndReason::Time));
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path().join("set")).unwrap() {
        files += std::fs::read_dir(entry.unwrap().path()).unwrap().count();
    }
    assert_eq!(files, 20, "each loop creates one and deletes one");
}

#[test]
fn a_thread_that_is_out_of_files_ends_the_sample_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, part) = measured(spec(folder.path(), |json| {
        json["end"] = "timeout".into();
        json["threads"][0]["steps"] =
            serde_json::json!([{"kind": 3, "verb": "deletefile", "set": 0}]);
    }));
    assert_eq!((sample.kinds[3].completed, part.ended), (20, EndReason::OutOfFiles));
}

#[test]
fn a_sample_ends_at_its_limit_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, part) = measured(spec(folder.path(), |json| json["limit_bytes"] = 40_960.into()));
    assert_eq!(part.ended, EndReason::Limit);
    assert!((40_960..60_000).contains(&sample.kinds[1].transferred_bytes));
}

#[test]
fn a_wait_that_nobody_ends_is_over_with_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, part) = measured(spec(folder.path(), |json| {
        json["duration_s"] = 0.1.into();
        json["kinds"][4]["verb"] = "block".into();
        json["threads"][0]["steps"] = serde_json::json!([{"kind": 4, "verb": "block"}]);
    }));
    assert_eq!((sample.outcome.offered, part.waited[0].count), (0, 3));
    assert!(sample.duration_ns < 5_000_000_000);
}

#[test]
fn events_keep_their_rate_over_all_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, part) = measured(spec(folder.path(), |json| {
        json["duration_s"] = 1.0.into();
        json["events_per_s"] = 200.0.into();
        json["kinds"][4]["verb"] = "eventlimit".into();
        json["threads"][0]["steps"] = serde_json::json!([
            {"kind": 0, "verb": "createfile", "set": 0, "slot": 1},
            {"kind": 2, "verb": "closefile", "slot": 1},
            {"kind": 3, "verb": "deletefile", "set": 0},
            {"kind": 4, "verb": "eventlimit"},
        ]);
    }));
    let (taken, due) = part.events.unwrap();
    assert!(taken <= due, "{taken} of {due}");
    // Each thread has one loop without an event at its end.
    let loops = sample.kinds[3].completed;
    assert!(loops <= taken + 3 && loops >= taken, "{loops} loops for {taken} events");
}

#[test]
fn asynchronous_writes_are_waited_for_and_all_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, _) = measured(spec(folder.path(), |json| {
        json["kinds"] = serde_json::json!([
            {"name": "write", "verb": "aiowrite"},
            {"name": "settle", "verb": "aiowait"},
            {"name": "enough", "verb": "finishoncount"},
        ]);
        json["threads"][0]["steps"] = serde_json::json!([
            {"kind": 0, "verb": "aiowrite", "set": 0, "slot": 128, "rotates": 5, "iters": 200,
             "io_bytes": 512, "random": true, "dsync": true},
            {"kind": 1, "verb": "aiowait"},
            {"kind": 2, "verb": "finishoncount", "value": 400, "targets": [0]},
        ]);
        json["threads"][0]["slots"] = 200.into();
    }));
    assert_eq!((sample.kinds[0].completed, sample.outcome.in_flight_at_end), (1200, 0));
    assert_eq!(sample.kinds[0].transferred_bytes, 1200 * 512);
}

#[test]
fn what_does_not_fit_together_fails_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, _) = measured(spec(folder.path(), |json| {
        json["threads"][0]["steps"] = serde_json::json!([
            {"kind": 2, "verb": "closefile", "slot": 1},
        ]);
    }));
    // Each thread gives up after a hundred failures in a row.
    assert_eq!((sample.outcome.failed, sample.outcome.completed), (300, 0));
    assert_eq!(sample.errors[0].name(), "EBADF");
}

#[test]
fn references_that_lead_nowhere_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let json = r#"{"seed":1,"set_seed":1,"folder":"/tmp","make":true,"duration_s":1.0,
        "limit_bytes":1,"growth_bytes":1,"slice_ms":1,"stall_threshold_ms":1,"sets":[],
        "kinds":[{"name":"a","verb":"read"}],"threads":[{"name":"t","instances":1,"slots":1,
        "steps":[{"kind":0,"verb":"read","set":3}]}]}"#;
    let refused = SpecError::Missing { what: "the set", number: 3 };
    assert_eq!(FilesSpec::parse(json).unwrap_err(), refused);
    drop(folder);
}
