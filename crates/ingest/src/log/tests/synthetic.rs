//! Logs made by chance: what was written is read, whatever the blocks and workers; and no bytes
//! make a reader panic.

use proptest::prelude::*;

use super::super::assemble::Assembler;
use super::super::prefix::Prefix;
use super::super::record::{BlockContent, LogReader};
use super::super::stderr::Stderr;
use super::super::{csv::Csv, json::Json};
use super::*;

const PREFIX: &str = "%m [%p] %q%u@%d %a %c %l %v %e ";
const NOON_US: i64 = 1_795_262_400_000_000;

/// A statement as a client sent it.
#[derive(Debug, Clone)]
struct SentStatement {
    session: u32,
    sql: Vec<u8>,
    parameters: Vec<Option<Vec<u8>>>,
    is_extended: bool,
    duration_us: Option<u64>,
}

/// Texts with all that formats treat apart. A text ends in no CR, as a line may.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-z ]{1,8}".prop_map(String::into_bytes),
        1 => prop::sample::select(vec![
            "\n", "\t", "\"", "\"\"", "'", "\\", ",", ";", "\r\n", "é", "LOG:  ", "...", "{", "}",
            "\n2026-11-21 12:00:00.000 UTC [7] ", "$1 = '", "\u{1}",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => Just(vec![0xff, 0xe9]),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| {
        let mut text = pieces.concat();
        text.push(b'x');
        text
    })
}

fn sent() -> impl Strategy<Value = SentStatement> {
    let parameters = proptest::collection::vec(proptest::option::of(text()), 0..4);
    (0..3u32, text(), parameters, any::<bool>(), proptest::option::of(0..90_000u64)).prop_map(
        |(session, sql, parameters, is_extended, duration_us)| {
            let parameters = if is_extended { parameters } else { Vec::new() };
            SentStatement { session, sql, parameters, is_extended, duration_us }
        },
    )
}

fn replaced(text: &[u8], from: u8, to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::new();
    for &byte in text {
        if byte == from { replaced.extend_from_slice(to) } else { replaced.push(byte) }
    }
    replaced
}

/// What PostgreSQL would say: message and DETAIL.
fn kind(sent: &SentStatement) -> (Vec<u8>, Vec<u8>) {
    let mut message = Vec::new();
    if let Some(us) = sent.duration_us {
        message.extend(format!("duration: {}.{:03} ms  ", us / 1_000, us % 1_000).into_bytes());
    }
    let lead: &[u8] = if sent.is_extended { b"execute S_1/C_1: " } else { b"statement: " };
    message.extend_from_slice(lead);
    message.extend_from_slice(&sent.sql);
    let mut detail = Vec::new();
    for (index, value) in sent.parameters.iter().enumerate() {
        let lead = if index == 0 { "Parameters: $1 = " } else { &format!(", ${} = ", index + 1) };
        detail.extend_from_slice(lead.as_bytes());
        match value {
            None => detail.extend_from_slice(b"NULL"),
            Some(value) => {
                detail.push(b'\'');
                detail.extend(replaced(value, b'\'', b"''"));
                detail.push(b'\'');
            }
        }
    }
    (message, detail)
}

fn stamp(index: usize) -> String {
    format!("2026-11-21 12:{:02}:{:02}.000 UTC", index / 60, index % 60)
}

fn stderr(all: &[SentStatement]) -> Vec<u8> {
    let mut log = Vec::new();
    for (index, sent) in all.iter().enumerate() {
        let (message, detail) = kind(sent);
        for (label, text) in [("LOG:  ", message), ("DETAIL:  ", detail)] {
            if !text.is_empty() {
                let (stamp, id) = (stamp(index), sent.session + 7);
                let lead = format!("{stamp} [{id}] u@d my app 6b01e826.{id:x} {index} 3/0 00000 ");
                log.extend_from_slice(lead.as_bytes());
                log.extend_from_slice(label.as_bytes());
                log.extend(replaced(&text, b'\n', b"\n\t"));
                log.push(b'\n');
            }
        }
    }
    log
}

fn csv(all: &[SentStatement]) -> Vec<u8> {
    let mut log = Vec::new();
    for (index, sent) in all.iter().enumerate() {
        let (message, detail) = kind(sent);
        let (stamp, id) = (stamp(index), sent.session + 7);
        let head = format!(
            "{stamp},\"u\",\"d\",{id},\"[local]\",6b01e826.{id:x},{index},\"SELECT\",{stamp},3/0,0,\
             LOG,00000,"
        );
        log.extend_from_slice(head.as_bytes());
        for text in [message, detail] {
            log.push(b'"');
            log.extend(replaced(&text, b'"', b"\"\""));
            log.extend_from_slice(b"\",");
        }
        log.extend_from_slice(b",,,,,,,\"my app\",\"client backend\",,0\n");
    }
    log
}

fn json(all: &[SentStatement]) -> Vec<u8> {
    let mut log = Vec::new();
    for (index, sent) in all.iter().enumerate() {
        let (message, detail) = kind(sent);
        let (stamp, id) = (stamp(index), sent.session + 7);
        let head = format!(
            "{{\"timestamp\":\"{stamp}\",\"user\":\"u\",\"dbname\":\"d\",\"pid\":{id},\
             \"session_id\":\"6b01e826.{id:x}\",\"line_num\":{index},\
             \"vxid\":\"3/0\",\"error_severity\":\"LOG\""
        );
        log.extend_from_slice(head.as_bytes());
        for (key, text) in [("message", message), ("detail", detail)] {
            log.extend(format!(",\"{key}\":\"").into_bytes());
            for byte in text {
                match byte {
                    b'"' | b'\\' => log.extend_from_slice(&[b'\\', byte]),
                    b'\n' => log.extend_from_slice(b"\\n"),
                    0..32 => log.extend(format!("\\u{byte:04x}").into_bytes()),
                    _ => log.push(byte),
                }
            }
            log.push(b'"');
        }
        log.extend_from_slice(b",\"application_name\":\"my app\"}\n");
    }
    log
}

/// Start and duration in us, text and parameters of a statement.
type Read = (i64, Option<u64>, Vec<u8>, Vec<Option<Vec<u8>>>);

/// What must come of it, in the order of each session.
fn expected(all: &[SentStatement]) -> Vec<Read> {
    let each = all.iter().enumerate().map(|(index, sent)| {
        let at_us = NOON_US + index as i64 * 1_000_000 - sent.duration_us.unwrap_or(0) as i64;
        (sent.session, (at_us, sent.duration_us, sent.sql.clone(), sent.parameters.clone()))
    });
    let mut each: Vec<_> = each.collect();
    each.sort_by_key(|(session, _)| *session);
    each.into_iter().map(|(_, statement)| statement).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_was_written_is_read(all in proptest::collection::vec(sent(), 1..30)) {
        let logs = [
            Logs::one(stderr(&all)).prefix(PREFIX),
            Logs::one(csv(&all)).format(Format::Csv),
            Logs::one(json(&all)).format(Format::Json),
        ];
        for logs in logs {
            let (kept, reading) = logs.read();
            let mut statements = kept.statements;
            statements.sort_by_key(|one| kept.sessions[one.session as usize].name.clone());
            let statements: Vec<_> = statements
                .into_iter()
                .map(|one| (one.start_us, one.duration_us, one.sql, one.parameters))
                .collect();
            prop_assert_eq!(statements, expected(&all));
            prop_assert_eq!(reading.counted.records, all.len() as u64);
        }
    }

    /// Logs that are torn, mixed up and cut in two files, in any blocks, by any number of workers.
    #[test]
    fn blocks_and_workers_make_no_difference(
        all in proptest::collection::vec(sent(), 1..20),
        cuts in proptest::collection::vec((0usize..6_000, 0usize..120), 0..4),
        two in 0usize..6_000,
        block_bytes in 1usize..700,
        workers in 1usize..5,
    ) {
        let damaged = |mut log: Vec<u8>| {
            // The first record stays, so that the file is one of its format.
            for &(at, length) in &cuts {
                let from = (300 + at).min(log.len());
                log.drain(from..(from + length).min(log.len()));
            }
            log
        };
        let formats =
            [(stderr(&all), Format::Stderr), (csv(&all), Format::Csv), (json(&all), Format::Json)];
        for (log, format) in formats {
            let log = damaged(log);
            let (first, second) = log.split_at((400 + two).min(log.len()));
            for files in [vec![("1", log.as_slice())], vec![("1", first), ("2", second)]] {
                let mut logs = Logs::new(&files).format(format);
                if format == Format::Stderr {
                    logs = logs.prefix(PREFIX);
                }
                let mut kept = RecordedSink::default();
                // The second file may hold no complete record.
                let Ok(whole) = read_in_blocks(&logs.wanted, 1 << 20, &mut kept) else { continue };
                let parts = logs.read_in(block_bytes, workers);
                prop_assert_eq!(&parts.0, &kept);
                prop_assert_eq!(&parts.1, &whole.counted);
            }
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::vec(prop::sample::select(
                b"\"\\\n\t,{}:$' =.0129-ALOG[]{u".to_vec()), 0..300),
        ],
        is_whole in any::<bool>(),
        keep in 0usize..400,
    ) {
        let one = [SentStatement {
            session: 0, sql: b"a\n\"b\" \\".to_vec(), parameters: vec![Some(b"'".to_vec())],
            is_extended: true, duration_us: Some(7),
        }];
        let readers: [(Box<dyn LogReader>, Vec<u8>); 3] = [
            (Box::new(Stderr::new(Prefix::new(PREFIX), false)), stderr(&one)),
            (Box::new(Csv::new(false)), csv(&one)),
            (Box::new(Json), json(&one)),
        ];
        for (reader, log) in readers {
            let mut text = log[..keep.min(log.len())].to_vec();
            text.extend_from_slice(&bytes);
            text.extend_from_slice(&log);
            let mut found = BlockContent::default();
            let _ = reader.first_record(&text);
            let stop = reader.read(&mut text, is_whole, &mut found);
            prop_assert!(stop <= text.len());
            let mut kept = RecordedSink::default();
            let mut assembler = Assembler::new(&mut kept);
            for record in &found.records {
                assembler.take_in(record, &text).unwrap();
            }
            assembler.finish().unwrap();
            assembler.counted.check().unwrap();
        }
        let _ = Logs::one(&bytes).format(Format::Raw).wanted;
    }

    #[test]
    fn no_file_makes_the_reading_panic(
        bytes in proptest::collection::vec(any::<u8>(), 1..400), format in 0usize..5,
    ) {
        let formats = [None, Some(Format::Stderr), Some(Format::Csv), Some(Format::Json),
            Some(Format::Raw)];
        let mut logs = Logs::one(&bytes);
        logs.wanted.format = formats[format];
        let _ = read_in_blocks(&logs.wanted, 64, &mut RecordedSink::default());
    }

    #[test]
    fn any_prefix_reads_any_line(prefix in "[%\\-0-9a-zA-Z \\[\\]]{0,24}", line in ".{0,120}") {
        let mut origin = super::super::record::Origin::default();
        let bytes = line.as_bytes();
        let prefix = Prefix::new(&prefix);
        let _ = prefix.read(bytes, (0, bytes.len()), &mut Zones::default(), &mut origin);
    }
}
