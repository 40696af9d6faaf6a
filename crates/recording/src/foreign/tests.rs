//! One trace in several formats reads alike; what is wrong is found; no bytes make a reader panic.

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::{ForeignError, ForeignTrace, Format, TraceInfo};
use crate::request::{Operation, Request};

/// Seconds, operation, sector, sectors, response in µs.
const TRACE: [(u64, char, u64, u64, u64); 6] = [
    (0, 'W', 800, 8, 150),
    (1, 'R', 16, 16, 90),
    (1, 'R', 32, 16, 95),
    (2, 'W', 808, 8, 2000),
    (5, 'R', 4_000_000_000, 1, 11),
    (5, 'R', 16, 16, 12),
];
const BEGAN_S: u64 = 1_538_323_200;

fn file(folder: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn taken(path: &Path, format: Option<Format>) -> Result<(TraceInfo, Vec<Request>), ForeignError> {
    let mut requests = Vec::new();
    let mut foreign = ForeignTrace::open(path, format)?;
    foreign.requests(&mut |request| {
        requests.push(request);
        ControlFlow::Continue(())
    })?;
    Ok((foreign.info, requests))
}

fn lines(line: impl Fn(usize, (u64, char, u64, u64, u64)) -> String) -> Vec<u8> {
    let lines: Vec<String> =
        TRACE.into_iter().enumerate().map(|(number, each)| line(number, each)).collect();
    format!("{}\n", lines.join("\n")).into_bytes()
}

fn records(record: impl Fn((u64, char, u64, u64, u64)) -> Vec<u8>) -> Vec<u8> {
    TRACE.into_iter().flat_map(record).collect()
}

fn one<T>(read: T, write: T, operation: char) -> T {
    if operation == 'R' { read } else { write }
}

/// The trace in a format, as its users write it.
fn trace_in(format: Format) -> Vec<u8> {
    match format {
        Format::Msr => lines(|_, (s, op, sector, sectors, us)| {
            let at = (BEGAN_S + s + 11_644_473_600) * 10_000_000;
            let op = one("Read", "Write", op);
            format!("{at},hm,0,{op},{},{},{}", sector * 512, sectors * 512, us * 10)
        }),
        Format::Alibaba => lines(|_, (s, op, sector, sectors, _)| {
            format!("3,{op},{},{},{}", sector * 512, sectors * 512, (BEGAN_S + s) * 1_000_000)
        }),
        Format::Tencent => lines(|_, (s, op, sector, sectors, _)| {
            format!("{},{sector},{sectors},{},1063", BEGAN_S + s, one(0, 1, op))
        }),
        Format::Spc => lines(|_, (s, op, sector, sectors, _)| {
            format!("0,{sector},{},{op},{s}.000000", sectors * 512)
        }),
        Format::VscsiText => {
            let rest = lines(|_, (s, op, sector, sectors, _)| {
                format!("1,{},{},{},{sector}", s + 9, one("28", "2a", op), sectors * 512)
            });
            [b"version,time,op,size,lbn\n".to_vec(), rest].concat()
        }
        Format::Vscsi => records(|(s, op, sector, sectors, us)| {
            let mut record = Vec::new();
            record.extend(one(0x28_u16, 0x2a, op).to_le_bytes());
            record.extend(0x0200_u16.to_le_bytes());
            for field in [7, sectors as u32 * 512, 1] {
                record.extend(field.to_le_bytes());
            }
            for field in [sector, s * 1_000_000, us] {
                record.extend(field.to_le_bytes());
            }
            record
        }),
        Format::FioIolog => {
            let rest = lines(|_, (s, op, sector, sectors, _)| {
                let action = one("read", "write", op);
                format!("{} /dev/sdb {action} {} {}", s * 1_000_000, sector * 512, sectors * 512)
            });
            [b"fio version 3 iolog\n0 /dev/sdb add\n1 /dev/sdb open\n".to_vec(), rest].concat()
        }
        Format::Blktrace => {
            let mut events = Vec::new();
            for (s, op, sector, sectors, us) in TRACE {
                let category = one(1, 2, op);
                let at = 5_000_000_000 + s * 1_000_000_000;
                events.push((at, sector, sectors, 1 | (16 | category) << 16));
                events.push((at + 3000, sector, sectors, 7 | (64 | category) << 16));
                events.push((at + 3000 + us * 1000, sector, sectors, 8 | (128 | category) << 16));
            }
            let note = blk_record(0, 0, 0, 1024 << 16, 8);
            let name = b"fio\0\0\0\0\0".to_vec();
            let rest = events.into_iter().flat_map(|(at, sector, sectors, action)| {
                blk_record(at, sector, sectors, action, 0)
            });
            [note, name].concat().into_iter().chain(rest).collect()
        }
        Format::Arc => {
            lines(|number, (_, _, sector, sectors, _)| format!("{sector} {sectors} 0 {number}"))
        }
        Format::OracleGeneral => records(|(s, _, sector, sectors, _)| {
            let mut record = (s as u32).to_le_bytes().to_vec();
            record.extend(sector.to_le_bytes());
            record.extend((sectors as u32 * 512).to_le_bytes());
            record.extend((-1_i64).to_le_bytes());
            record
        }),
    }
}

fn blk_record(at_ns: u64, sector: u64, sectors: u64, action: u32, follow: u16) -> Vec<u8> {
    let mut record = 0x6561_7407_u32.to_le_bytes().to_vec();
    record.extend(1_u32.to_le_bytes());
    record.extend(at_ns.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for field in [sectors as u32 * 512, action, 4711, 7 << 20 | 3, 0] {
        record.extend(field.to_le_bytes());
    }
    record.extend(0_u16.to_le_bytes());
    record.extend(follow.to_le_bytes());
    record
}

#[test]
fn one_trace_reads_alike_in_every_format_that_knows_it_all() {
    let folder = TempDir::new().unwrap();
    let wanted: Vec<_> = TRACE
        .iter()
        .map(|&(s, op, sector, sectors, _)| {
            let operation = one(Operation::Read, Operation::Write, op);
            (s * 1_000_000_000, 0, operation, sector * 512, sectors as u32 * 512)
        })
        .collect();
    for format in Format::ALL {
        let path = file(&folder, format.name(), &trace_in(format));
        let (info, mut requests) = taken(&path, None).unwrap();
        assert_eq!(info.format, format);
        assert_eq!((info.requests, info.devices.len()), (6, 1), "{}", format.name());
        requests.sort_by_key(|request| request.arrived_ns);
        let knows = info.knows;
        if knows.time && knows.offset {
            let found: Vec<_> = requests
                .iter()
                .map(|r| (r.arrived_ns, r.device, r.operation, r.offset_bytes, r.length_bytes))
                .collect();
            assert_eq!(found, wanted, "{}", format.name());
        }
        assert_eq!(requests.iter().any(|r| r.is_sync.is_some()), knows.sync);
        assert_eq!(requests.iter().any(|r| r.process.is_some()), knows.process);
        assert_eq!(requests.iter().any(|r| r.queue_ns.is_some()), knows.queue);
        assert_eq!(requests.iter().any(|r| r.device_ns.is_some()), knows.device);
    }
}

#[test]
fn a_format_of_times_knows_when_it_began_and_how_long_requests_took() {
    let folder = TempDir::new().unwrap();
    for format in [Format::Msr, Format::Alibaba, Format::Tencent] {
        let (info, _) = taken(&file(&folder, "trace", &trace_in(format)), None).unwrap();
        assert_eq!(info.began_unix_ns, Some(BEGAN_S * 1_000_000_000));
    }
    let (info, requests) = taken(&file(&folder, "msr", &trace_in(Format::Msr)), None).unwrap();
    assert_eq!(requests[3].device_ns, Some(2_000_000));
    assert_eq!(info.devices, ["hm.0"]);
    let path = file(&folder, "blktrace", &trace_in(Format::Blktrace));
    let (info, requests) = taken(&path, None).unwrap();
    assert_eq!((requests[3].queue_ns, requests[3].device_ns), (Some(3000), Some(2_000_000)));
    assert_eq!(info.processes, ["fio (4711)"]);
    assert_eq!(info.devices, ["7:3"]);
}

#[test]
fn vscsi_of_version_2_has_its_response_times_and_other_commands_are_counted() {
    let folder = TempDir::new().unwrap();
    let mut content = trace_in(Format::Vscsi);
    let mut inquiry = content[..40].to_vec();
    inquiry[0] = 0x12;
    content.extend(inquiry);
    let (info, requests) = taken(&file(&folder, "vscsi", &content), None).unwrap();
    assert_eq!(requests.len(), 6);
    assert_eq!(requests[0].device_ns, Some(150_000));
    assert_eq!(info.left_out, [("commands that transfer nothing".to_string(), 1)]);
}

#[test]
fn the_first_arrival_is_0_though_the_first_line_is_later() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "spc", b"0,0,512,r,5.5\n0,8,512,r,5.25\n");
    let (info, requests) = taken(&path, None).unwrap();
    assert_eq!(requests[0].arrived_ns, 250_000_000);
    assert_eq!(requests[1].arrived_ns, 0);
    assert_eq!(info.length_ns, 250_000_000);
}

#[test]
fn a_compressed_trace_is_unpacked() {
    let folder = TempDir::new().unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&trace_in(Format::Msr)).unwrap();
    let path = file(&folder, "msr.csv.gz", &packer.finish().unwrap());
    assert_eq!(taken(&path, None).unwrap().0.requests, 6);
}

#[test]
fn a_bad_record_is_named_by_its_line_or_byte() {
    let folder = TempDir::new().unwrap();
    let seen = |content: &[u8], format| {
        let error = taken(&file(&folder, "bad", content), format).unwrap_err();
        error.explained().seen
    };
    let mut msr = trace_in(Format::Msr);
    msr.extend(b"\n12,hm,0,Reed,0,512,1\n");
    assert!(seen(&msr, None).ends_with("line 8: the operation is \"Reed\", not Read or Write"));
    assert!(seen(b"1,2,3\n", Some(Format::Alibaba)).ends_with("line 1: 3 fields, not 5"));
    let vscsi = &trace_in(Format::Vscsi)[..100];
    assert!(seen(vscsi, None).ends_with("byte 80: the file ends within the record"));
    let mut blktrace = trace_in(Format::Blktrace);
    blktrace[56] = 0;
    assert!(seen(&blktrace, None).contains("byte 56: the record is of version 0, not 7"));
    let far = format!("0,{},512,r,0.0\n", u64::MAX);
    assert!(seen(far.as_bytes(), Some(Format::Spc)).contains("line 1: the sector"));
    let long = vec![b'7'; 10_000];
    assert!(seen(&long, Some(Format::Spc)).ends_with("line 1: the line is longer than 4096 bytes"));
}

#[test]
fn a_file_of_no_format_and_one_without_requests_are_refused() {
    let folder = TempDir::new().unwrap();
    let unknown = taken(&file(&folder, "a", b"hello\n"), None).unwrap_err();
    assert!(matches!(unknown, ForeignError::UnknownFormat { .. }));
    let empty = taken(&file(&folder, "b", b"fio version 3 iolog\n0 f add\n"), None).unwrap_err();
    assert!(matches!(empty, ForeignError::Empty { .. }));
    let missing = taken(&folder.path().join("c"), None).unwrap_err();
    assert!(matches!(missing, ForeignError::Io { .. }));
}

#[test]
fn the_files_of_all_processors_are_one_blktrace() {
    let folder = TempDir::new().unwrap();
    let whole = trace_in(Format::Blktrace);
    let middle = 56 + 48 * 8; // within the third request
    let first = file(&folder, "sda.blktrace.0", &whole[..middle]);
    file(&folder, "sda.blktrace.10", &whole[middle..]);
    file(&folder, "sdb.blktrace.0", b"another one");
    let (info, _) = taken(&first, None).unwrap();
    assert_eq!((info.requests, info.files), (6, 2));
}

#[test]
fn merged_bios_are_one_request_and_parts_of_a_completion_too() {
    let folder = TempDir::new().unwrap();
    let content = [
        blk_record(0, 108, 8, 1 | (16 | 2) << 16, 0), // Q at 108
        blk_record(10, 116, 8, 1 | (16 | 2) << 16, 0), // Q behind it
        blk_record(11, 116, 8, 2 | (16 | 2) << 16, 0), // back merge
        blk_record(20, 100, 8, 1 | (16 | 2) << 16, 0), // Q in front of it
        blk_record(21, 100, 8, 3 | (16 | 2) << 16, 0), // front merge
        blk_record(100, 100, 24, 7 | (64 | 2) << 16, 0), // D of all three
        blk_record(300, 100, 16, 8 | (128 | 2) << 16, 0), // C of the first two thirds
        blk_record(400, 116, 8, 8 | (128 | 2) << 16, 0), // C of the rest
        blk_record(500, 900, 8, 8 | (128 | 2) << 16, 0), // C of an unknown one
        blk_record(600, 950, 8, 7 | (64 | 1) << 16, 0), // D that does not end
    ]
    .concat();
    let (info, requests) = taken(&file(&folder, "trace", &content), None).unwrap();
    assert_eq!(requests.len(), 1);
    let only = requests[0];
    assert_eq!((only.offset_bytes, only.length_bytes), (100 * 512, 24 * 512));
    assert_eq!((only.queue_ns, only.device_ns), (Some(100), Some(300)));
    assert_eq!(info.left_out.iter().map(|(_, count)| count).sum::<u64>(), 2);
}

#[test]
fn a_device_that_issues_nothing_has_the_sum_alone() {
    let folder = TempDir::new().unwrap();
    let content = [
        blk_record(0, 108, 8, 1 | (16 | 1) << 16, 0),
        blk_record(700, 108, 8, 8 | (128 | 1) << 16, 0),
    ]
    .concat();
    let (_, requests) = taken(&file(&folder, "trace", &content), None).unwrap();
    assert_eq!((requests[0].queue_ns, requests[0].device_ns), (None, Some(700)));
}

#[test]
fn version_2_of_fios_log_has_times_by_its_waits_alone() {
    let folder = TempDir::new().unwrap();
    let without =
        b"fio version 2 iolog\nf add\nf open\nf read 0 4096\nf write 4096 4096\nf close\n";
    let (info, requests) = taken(&file(&folder, "a", without), None).unwrap();
    assert!(!info.knows.time);
    assert_eq!(requests.len(), 2);
    let with = b"fio version 2 iolog\nf wait 50 0\nf read 0 4096\nf wait 70 0\nf sync 0 0\n";
    let (info, requests) = taken(&file(&folder, "b", with), None).unwrap();
    assert!(info.knows.time);
    assert_eq!(requests[1].arrived_ns, 70_000);
    assert_eq!(requests[1].operation, Operation::Flush);
}

#[test]
fn objects_have_a_place_each_and_none_follows_another() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "trace", &trace_in(Format::OracleGeneral));
    let (info, requests) = taken(&path, None).unwrap();
    assert!(!info.knows.offset && !info.knows.operation);
    let places: Vec<u64> = requests.iter().map(|request| request.offset_bytes).collect();
    assert_eq!(places[1], places[5]);
    for pair in requests.windows(2) {
        let end = pair[0].offset_bytes + u64::from(pair[0].length_bytes);
        assert_ne!(pair[1].offset_bytes, end);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(content in prop::collection::vec(any::<u8>(), 0..600)) {
        let folder = TempDir::new().unwrap();
        let path = file(&folder, "any", &content);
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            drop(taken(&path, format));
        }
    }

    #[test]
    fn no_change_of_a_trace_makes_its_reader_panic(
        which in 0..Format::ALL.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        kept in any::<prop::sample::Index>(),
    ) {
        let format = Format::ALL[which];
        let mut content = trace_in(format);
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        content.truncate(kept.index(content.len()) + 1);
        let folder = TempDir::new().unwrap();
        let path = file(&folder, "changed", &content);
        if let Ok((info, requests)) = taken(&path, Some(format)) {
            prop_assert_eq!(info.requests, requests.len() as u64);
        }
    }
}
