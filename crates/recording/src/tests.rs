//! What goes in comes out; what was cut off or damaged is reported.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use seatrial_columnar::names::{end_of, part_of};
use seatrial_watch::layout::{FLAG_SYNC, GroupKey, Record, UNKNOWN_NS};
use tempfile::TempDir;

use crate::about::{KnownFields, Lost};
use crate::columns::Columns;
use crate::schema::ROWS_MAX;
use crate::watched::WatchedWriter;
use crate::{
    About, Operation, RecordingError, RecordingReader, RecordingWriter, Request, file_name,
};

const LARGE_BYTES: u64 = 1 << 30;

fn about() -> About {
    let knows = KnownFields {
        arrival: true,
        sync: true,
        queue: true,
        device: true,
        ..KnownFields::default()
    };
    About::new(1_800_000_000_000_000_000, "tests", knows)
}

fn begun(path: &Path, rotate_bytes: u64) -> RecordingWriter {
    let mut writer = RecordingWriter::create(path, about(), rotate_bytes).unwrap();
    assert_eq!((writer.device("sda", Some(1 << 40)), writer.device("sdb", None)), (0, 1));
    assert_eq!((writer.device("sda", None), writer.process("postgres (1)")), (0, 0));
    assert_eq!((writer.relation("orders"), writer.relation("WAL")), (0, 1));
    writer
}

/// A request of which much depends on the number.
fn numbered(number: u64) -> Request {
    let known = |value: u64| (!number.is_multiple_of(7)).then_some(value);
    Request {
        arrived_ns: number * 1000,
        device: (number % 2) as u32,
        operation: Operation::ALL[(number % 5) as usize],
        is_sync: known(0).map(|_| number.is_multiple_of(3)),
        has_failed: number.is_multiple_of(11),
        offset_bytes: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 << 9,
        length_bytes: 4096 << (number % 3),
        queue_ns: known(number % 977),
        device_ns: known(80_000 + number % 7919),
        process: known(0).map(|_| 0),
        relation: known(number % 2).map(|relation| relation as u32),
    }
}

fn all(reader: &mut RecordingReader) -> Result<Vec<Request>, RecordingError> {
    let mut requests = Vec::new();
    while let Some(columns) = reader.next_columns()? {
        requests.extend((0..columns.len()).map_while(|place| columns.request(place)));
    }
    Ok(requests)
}

fn read(path: &Path) -> Vec<Request> {
    all(&mut RecordingReader::open(path).unwrap()).unwrap()
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let times = (0..i64::MAX as u64, 0..i64::MAX as u64);
    let optional = || prop::option::of(0..i64::MAX as u64);
    let request = (times, any::<u32>(), (optional(), optional()), any::<[bool; 6]>(), 0..5u8);
    let made =
        request.prop_map(|(times, length_bytes, (queue_ns, device_ns), bits, operation)| Request {
            arrived_ns: times.0,
            device: u32::from(bits[0]),
            operation: Operation::of_number(operation).unwrap(),
            is_sync: bits[1].then_some(bits[2]),
            has_failed: bits[3],
            offset_bytes: times.1,
            length_bytes,
            queue_ns,
            device_ns,
            process: bits[4].then_some(0),
            relation: bits[5].then_some(u32::from(bits[2])),
        });
    prop::collection::vec(made, 0..200)
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_by_arrival(mut requests in requests()) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("r");
        let mut writer = begun(&path, LARGE_BYTES);
        for (place, &request) in requests.iter().enumerate() {
            writer.add(request).unwrap();
            if place % 50 == 0 {
                writer.checkpoint(1, Lost::default()).unwrap();
            }
        }
        let lost = Lost { unrecorded: 3, ..Lost::default() };
        writer.finish(77, lost).unwrap();
        let mut reader = RecordingReader::open(&path).unwrap();
        let found = all(&mut reader).unwrap();
        requests.sort_by_key(|request| request.arrived_ns);
        let arrivals = |requests: &[Request]| {
            requests.iter().map(|request| request.arrived_ns).collect::<Vec<_>>()
        };
        prop_assert_eq!(arrivals(&found), arrivals(&requests));
        // Checkpoints sort what came until then, so that requests of one time may change places.
        let key = |request: &Request| (request.arrived_ns, request.offset_bytes);
        let mut found = found;
        found.sort_by_key(key);
        requests.sort_by_key(key);
        prop_assert_eq!(found, requests);
        let about = reader.about();
        prop_assert_eq!((about.length_ns, about.lost, about.is_complete), (77, lost, true));
        prop_assert_eq!(about.devices[0].size_bytes, Some(1 << 40));
        prop_assert_eq!(&about.relations, &["orders", "WAL"]);
    }

    /// Any byte of a file may be another one: that is an error or another value, never a panic.
    #[test]
    fn damage_is_reported(place in 0.0..1.0f64, byte in any::<u8>(), cut in any::<bool>()) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("r");
        let mut writer = begun(&path, LARGE_BYTES);
        (0..300).for_each(|number| writer.add(numbered(number)).unwrap());
        writer.finish(1, Lost::default()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let place = (place * bytes.len() as f64) as usize;
        if cut {
            bytes.truncate(place);
        } else {
            bytes[place] = byte;
        }
        fs::write(&path, bytes).unwrap();
        let read = RecordingReader::open(&path).and_then(|mut reader| all(&mut reader));
        if let Err(error) = &read {
            prop_assert!(!error.explained().next_step.is_empty());
        }
        prop_assert!(!cut || read.is_err());
    }
}

#[test]
fn row_groups_of_many_requests_come_out() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let mut writer = begun(&path, LARGE_BYTES);
    let count = ROWS_MAX as u64 * 2 + 5;
    for number in 0..count {
        writer.add(numbered(number)).unwrap();
        if number.is_multiple_of(30_000) {
            writer.checkpoint(number, Lost::default()).unwrap();
        }
    }
    let written = writer.finish(count, Lost::default()).unwrap();
    assert_eq!((written.requests, written.files), (count, 1));
    let found = read(&path);
    assert_eq!(found, (0..count).map(numbered).collect::<Vec<_>>());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_cut_off_is_read_up_to_its_checkpoint() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let mut writer = begun(&path, LARGE_BYTES);
    let in_use = RecordingReader::open(&path).map(drop).unwrap_err();
    assert!(matches!(in_use, RecordingError::InUse { .. }), "{in_use}");
    (0..1000).for_each(|number| writer.add(numbered(number)).unwrap());
    writer.checkpoint(5, Lost { missed: 2, ..Lost::default() }).unwrap();
    (1000..1500).for_each(|number| writer.add(numbered(number)).unwrap());
    drop(writer);
    let again = RecordingWriter::create(&path, about(), LARGE_BYTES).map(drop).unwrap_err();
    assert!(matches!(again, RecordingError::CutOff { .. }), "{again}");
    let mut reader = RecordingReader::open(&path).unwrap();
    assert_eq!(all(&mut reader).unwrap(), (0..1000).map(numbered).collect::<Vec<_>>());
    let about = reader.about();
    assert_eq!((about.length_ns, about.lost.missed, about.is_complete), (5, 2, false));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn files_of_one_recording_are_read_as_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let mut writer = begun(&path, 1 << 16);
    let count = ROWS_MAX as u64 * 5;
    (0..count).for_each(|number| writer.add(numbered(number)).unwrap());
    writer.process("late (2)");
    writer.add(Request { process: Some(1), ..numbered(count) }).unwrap();
    writer.checkpoint(9, Lost::default()).unwrap();
    drop(writer);
    let mut reader = RecordingReader::open(&path).unwrap();
    assert!(reader.files() > 1, "{} files", reader.files());
    assert_eq!(reader.requests(), count + 1);
    let found = all(&mut reader).unwrap();
    assert_eq!(found[..count as usize], (0..count).map(numbered).collect::<Vec<_>>());
    assert_eq!(reader.about().processes, ["postgres (1)", "late (2)"]);
    let last = file_name(&path, reader.files() as u32 - 1);
    let part = RecordingReader::open(&last).map(drop).unwrap_err().to_string();
    assert!(part.contains("name the first one"), "{part}");
    // A file of another recording, or none, is not part of this one.
    let other = folder.path().join("other");
    let another = About { began_at_ns: 7, ..about() };
    RecordingWriter::create(&other, another, 1).unwrap().finish(1, Lost::default()).unwrap();
    fs::remove_file(&last).unwrap();
    let missing = RecordingReader::open(&path).map(drop).unwrap_err();
    assert!(matches!(&missing, RecordingError::Io { path, .. } if *path == last), "{missing}");
}

#[test]
fn other_files_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let refused = || RecordingReader::open(&path).map(drop).unwrap_err();
    assert!(matches!(refused(), RecordingError::Io { action: "opened", .. }));
    fs::write(&path, "259,0 1 read").unwrap();
    assert!(matches!(refused(), RecordingError::NotARecording { .. }));
    begun(&path, LARGE_BYTES).finish(1, Lost::default()).unwrap();
    assert!(read(&path).is_empty());
    let mut bytes = fs::read(&path).unwrap();
    let key = crate::schema::VERSION_KEY.as_bytes();
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    let digit = bytes[at..].iter().position(|&byte| byte == b'1').unwrap();
    bytes[at + digit] = b'9';
    fs::write(&path, bytes).unwrap();
    assert!(matches!(refused(), RecordingError::Version { found, .. } if found == "9"));
}

#[test]
fn numbers_that_stand_for_nothing_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let mut writer = begun(&path, LARGE_BYTES);
    let request = numbered(1);
    let wrong = [
        Request { device: 2, ..request },
        Request { process: Some(1), ..request },
        Request { relation: Some(2), ..request },
        Request { offset_bytes: 1 << 63, ..request },
        Request { device_ns: Some(u64::MAX), ..request },
    ];
    for each in wrong {
        assert!(matches!(writer.add(each), Err(RecordingError::Request(_))), "{each:?}");
    }
    writer.finish(1, Lost::default()).unwrap();
    assert!(read(&path).is_empty());
    assert_eq!(Columns::default().request(0), None);
}

#[test]
fn a_recording_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let writer = begun(&path, LARGE_BYTES);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&part_of(&path)), mode(&end_of(&path))), (0o600, 0o600));
    writer.finish(1, Lost::default()).unwrap();
    assert_eq!(mode(&path), 0o600);
}

/// As the kernel hands them over: a flush, and a driver's own command, have a sector of -1.
#[test]
fn requests_of_the_kernel_are_recorded() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("r");
    let writer = RecordingWriter::create(&path, about(), LARGE_BYTES).unwrap();
    let mut watched = WatchedWriter::new(writer, 1_000_000);
    watched.name_device(8, 16, "sdb", Some(1 << 30));
    let key = |operation, flags, failed| GroupKey {
        device: 8 << 20 | 16,
        operation,
        flags,
        octave: 0,
        failed,
        pid: 7,
        command: *b"postgres\0\0\0\0\0\0\0\0",
    };
    let read = Record {
        key: key(0, FLAG_SYNC, 1),
        bytes: 8192,
        sector: 100,
        completed_ns: 1_500_000,
        device_ns: 80_000,
        queue_ns: 20_000,
    };
    let flush = Record { key: key(2, FLAG_SYNC, 0), bytes: 0, sector: u64::MAX, ..read };
    let command = Record { key: key(4, 0, 0), bytes: 20, queue_ns: UNKNOWN_NS, ..flush };
    let begun_before = Record { completed_ns: 1_000_001, ..read };
    for record in [read, flush, command, begun_before] {
        watched.add(&record, None).unwrap();
    }
    watched.writer.finish(1, Lost::default()).unwrap();
    let mut reader = RecordingReader::open(&path).unwrap();
    let found = all(&mut reader).unwrap();
    let expected = Request {
        arrived_ns: 400_000,
        device: 0,
        operation: Operation::Read,
        is_sync: Some(true),
        has_failed: true,
        offset_bytes: 51_200,
        length_bytes: 8192,
        queue_ns: Some(20_000),
        device_ns: Some(80_000),
        process: Some(0),
        relation: None,
    };
    assert_eq!((found[0].arrived_ns, found[1]), (0, expected));
    assert_eq!((found[2].operation, found[2].offset_bytes), (Operation::Flush, 0));
    assert_eq!((found[3].operation, found[3].queue_ns), (Operation::Other, None));
    assert_eq!((found[3].offset_bytes, found[3].is_sync), (0, Some(false)));
    assert_eq!(reader.about().processes, ["postgres (7)"]);
}
