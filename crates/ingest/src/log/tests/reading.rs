//! Records that are torn, strange or long.

use super::super::record::{BlockContent, LogReader};
use super::super::record_counts::Reason;
use super::super::stderr::Stderr;
use super::super::{csv::Csv, json::Json, prefix::Prefix};
use super::*;

fn csv(line: u32, message: &str) -> String {
    let message = message.replace('"', "\"\"");
    format!(
        "2026-11-21 12:00:00.{line:03} UTC,\"u\",\"d\",7,\"[local]\",6b01e826.7,{line},\"SELECT\",\
         2026-11-21 12:00:00 UTC,3/0,0,LOG,00000,\"{message}\",,,,,,,,,\"psql\",\
         \"client backend\",,0\n"
    )
}

fn json(line: u32, message: &str) -> String {
    format!(
        "{{\"timestamp\":\"2026-11-21 12:00:00.{line:03} UTC\",\"pid\":7,\"session_id\":\
         \"6b01e826.7\",\"line_num\":{line},\"error_severity\":\"LOG\",\
         \"message\":\"{message}\"}}\n"
    )
}

fn texts(kept: &RecordedSink) -> Vec<String> {
    kept.statements.iter().map(ReportedStatement::sql).collect()
}

fn count(counted: &RecordCounts, reason: Reason) -> u64 {
    counted.unreadable[reason as usize]
}

#[test]
fn csv_of_every_width_is_read() {
    let whole = csv(1, "statement: a\nb \"c\"");
    for (columns, cut) in [(23, ",\"client backend\",,0"), (24, ",,0"), (26, "")] {
        let line = whole.replace(&format!("{cut}\n"), "\n");
        let (kept, reading) = Logs::one(&line).read();
        assert_eq!(texts(&kept), ["a\nb \"c\""], "{columns} columns");
        assert_eq!(reading.counted.records, 1);
    }
    let (kept, _) = Logs::one(whole.replace(",0\n", ",0,\"new\",1\n")).read();
    assert_eq!(texts(&kept).len(), 1);
}

#[test]
fn a_torn_csv_record_costs_itself_alone() {
    let (first, second, third) =
        (csv(1, "statement: a"), csv(2, "statement: b\n\"b\"\nb"), csv(3, "statement: c"));
    // Behind that, all columns of an older PostgreSQL are there.
    let application = second.find("\"psql\"").unwrap();
    for cut in 110..application {
        let log = format!("{first}{}\n{third}", &second[..cut]);
        let (kept, reading) = Logs::one(&log).read();
        assert_eq!(texts(&kept), ["a", "c"], "cut at {cut}");
        assert_eq!(
            reading.counted.records - 2,
            reading.counted.unreadable.iter().sum::<u64>(),
            "{cut}"
        );
        let log = format!("{first}{}", &second[..cut]);
        let (kept, reading) = Logs::one(&log).read();
        assert_eq!(texts(&kept), ["a"], "ends at {cut}");
        assert!(reading.counted.unreadable.iter().sum::<u64>() > 0);
    }
}

#[test]
fn a_csv_record_in_a_statement_is_part_of_it() {
    let inner = format!("statement: insert into logs values ('\n{}')", csv(9, "statement: x"));
    let (kept, reading) = Logs::one(csv(1, &inner) + &csv(2, "statement: y")).read();
    assert_eq!(texts(&kept), [&inner["statement: ".len()..], "y"]);
    assert_eq!(reading.counted.unreadable, [0; record_counts::REASONS]);
}

#[test]
fn json_texts_are_unescaped() {
    let escaped = r#"statement: \"a\\b\"\n\t\r\b\f\/ \u00e9 \u0001 \ud83d\ude00 \ud83d x"#;
    let (kept, _) = Logs::one(json(1, escaped)).read();
    let text = "\"a\\b\"\n\t\r\u{8}\u{c}/ \u{e9} \u{1} \u{1f600} \u{fffd} x";
    assert_eq!(texts(&kept), [text]);
}

#[test]
fn torn_and_foreign_json_is_counted() {
    let whole = json(2, "statement: b");
    let log =
        [&json(1, "statement: a"), &whole[..90], "\nnoise\n{\"a\":1}\n", &whole, &whole[..60]];
    let (kept, reading) = Logs::one(log.concat()).read();
    assert_eq!(texts(&kept), ["a", "b"]);
    assert_eq!(count(&reading.counted, Reason::Torn), 2);
    assert_eq!(count(&reading.counted, Reason::Malformed), 2);
    let example = &reading.counted.examples[1];
    assert_eq!(
        (example.reason, example.line, example.text.as_slice()),
        (Reason::Malformed, 3, b"noise".as_slice())
    );
}

#[test]
fn lines_of_a_plain_log_that_are_not_its_own_are_counted() {
    let log = "\tend of a statement\n[7] LOG:  statement: a\nfree(): invalid pointer\n\tmore\n\n\
               [7] HINT:  x\n[8] DETAIL:  y\n[7] LOG:  statement: b\n\tb\n";
    let (kept, reading) = Logs::one(log).prefix("[%p] ").read();
    assert_eq!(texts(&kept), ["a", "b\nb"]);
    let counted = &reading.counted;
    assert_eq!(count(counted, Reason::BeginsInside), 1);
    assert_eq!(count(counted, Reason::NoPrefix), 1);
    assert_eq!(count(counted, Reason::Stray), 1);
    let lines: Vec<(Reason, u64, u64)> =
        counted.examples.iter().map(|each| (each.reason, each.line, each.offset_bytes)).collect();
    assert_eq!(
        lines,
        [(Reason::BeginsInside, 1, 0), (Reason::NoPrefix, 3, 43), (Reason::Stray, 7, 87),]
    );
}

#[test]
fn windows_line_ends_are_read() {
    let log = "[7] LOG:  statement: a\r\n[7] LOG:  statement: b\r\n\r\n";
    assert_eq!(texts(&Logs::one(log).prefix("[%p] ").read().0), ["a", "b"]);
    // Windows puts a CR before the line ends of statements, too.
    let log = "[7] LOG:  statement: a\r\n\tb\r\n\t\r\n\tc\r\n[7] LOG:  statement: d\r\n";
    assert_eq!(texts(&Logs::one(log).prefix("[%p] ").read().0), ["a\nb\n\nc", "d"]);
    let log = csv(1, "statement: a\n\"b\"\n").replace('\n', "\r\n");
    assert_eq!(texts(&Logs::one(log).read().0), ["a\n\"b\"\n"]);
    // Elsewhere a CR is what the client sent.
    let log = "[7] LOG:  statement: a\r\n\tb\r\n[7] LOG:  statement: c\n";
    assert_eq!(texts(&Logs::one(log).prefix("[%p] ").read().0), ["a\r\nb\r", "c"]);
    let log = (csv(1, "statement: a") + &csv(2, "statement: b")).replace('\n', "\r\n");
    assert_eq!(texts(&Logs::one(log).read().0), ["a", "b"]);
    let log = (json(1, "statement: a") + &json(2, "statement: b")).replace('\n', "\r\n");
    assert_eq!(texts(&Logs::one(log).read().0), ["a", "b"]);
}

#[test]
fn bytes_of_any_encoding_are_kept() {
    let mut log = b"[7] LOG:  statement: select '\xe9\xff\x00'\n".to_vec();
    log.extend_from_slice(b"[7] LOG:  statement: b\n");
    let (kept, _) = Logs::one(&log).prefix("[%p] ").read();
    assert_eq!(kept.statements[0].sql, b"select '\xe9\xff\x00'");
}

#[test]
fn a_statement_at_a_torn_end_is_cut_off() {
    let (kept, _) =
        Logs::one("[7] LOG:  statement: a\n[7] LOG:  statement: sel").prefix("[%p] ").read();
    let skips: Vec<_> = kept.statements.iter().map(|statement| statement.skip).collect();
    assert_eq!(skips, [None, Some(Skip::CutOff)]);
}

#[test]
fn a_statement_of_16_mib_is_read_in_small_blocks() {
    let long = "x".repeat((16 << 20) / 64 - 1) + "\n";
    let long = long.repeat(64) + "end";
    let log = format!(
        "[7] LOG:  statement: a\n[7] LOG:  statement: {}\n[7] LOG:  statement: b\n",
        long.replace('\n', "\n\t")
    );
    let logs = Logs::one(&log).prefix("[%p] ");
    for workers in [1, 2] {
        let (kept, _) = logs.read_in(64 << 10, workers);
        assert!(kept.statements[1].sql == long.as_bytes());
        assert_eq!(kept.statements[2].sql, b"b");
    }
}

#[test]
fn a_file_of_sql_is_split() {
    let sql = "-- all\nbegin;\nselect ';' ; /* ; */ insert into t\nvalues (1);;\n\\set x 1\n\
               copy t (a) from stdin;\n1;\n2\n\\.\ncommit;\nselect 'end'";
    let expected = [
        "-- all\nbegin;",
        "select ';' ;",
        "/* ; */ insert into t\nvalues (1);",
        "copy t (a) from stdin;",
        "commit;",
        "select 'end'",
    ];
    for block_bytes in [1, 2, 3, 7, 1 << 20] {
        let (kept, counted) = Logs::one(sql).format(Format::Raw).read_in(block_bytes, 1);
        assert_eq!(texts(&kept), expected, "{block_bytes}");
        let transactions: Vec<u64> =
            kept.statements.iter().map(|statement| statement.transaction).collect();
        assert_eq!(transactions, [1, 1, 1, 1, 1, 0]);
        assert_eq!(kept.statements[3].skip, Some(Skip::CopyData));
        assert_eq!(count(&counted, Reason::PsqlCommand), 1);
        let example = &counted.examples[0];
        assert_eq!((example.line, example.offset_bytes), (5, 62));
        assert_eq!(kept.sessions, [Session::default()]);
    }
    let (kept, reading) = Logs::one("select 1; select 'torn").read();
    assert_eq!((texts(&kept).len(), count(&reading.counted, Reason::Torn)), (1, 1));
    assert_eq!((reading.files[0].format, reading.span), (Format::Raw, None));
}

#[test]
fn a_duration_of_many_years_is_none() {
    let log = "[7] LOG:  duration: 18446744073709551.123 ms  statement: a\n\
               [7] LOG:  duration: 86400000.123 ms  statement: b\n";
    let (kept, counted) = Logs::one(log).prefix("[%p] ").read_in(1 << 20, 1);
    assert_eq!((texts(&kept), counted.others), (vec!["b".to_owned()], 1));
}

#[test]
fn inline_data_of_psql_and_a_byte_order_mark_are_no_sql() {
    let sql = "\u{feff}select 1;\n\\copy t from stdin\n4711\tO'Brien; x\n\\.\nselect 2;\n\
               \\copy t to stdout\nselect 3;copy t from stdin;\n\\.\nselect 4;";
    let expected = ["select 1;", "select 2;", "select 3;", "copy t from stdin;", "select 4;"];
    for block_bytes in [1, 2, 3, 7, 1 << 20] {
        let (kept, counted) = Logs::one(sql).format(Format::Raw).read_in(block_bytes, 1);
        assert_eq!(texts(&kept), expected, "{block_bytes}");
        assert_eq!(count(&counted, Reason::PsqlCommand), 2);
        let commands: Vec<(u64, &[u8])> =
            counted.examples.iter().map(|one| (one.line, &one.text[..])).collect();
        assert_eq!(commands, [(2, &b"\\copy t from stdin"[..]), (6, b"\\copy t to stdout")]);
    }
    assert_eq!(texts(&Logs::one("\u{feff}select 1;\n").read().0), ["select 1;"]);
}

#[test]
fn a_reader_changes_nothing_that_it_leaves_for_later() {
    let long = csv(1, "statement: \"a\"") + &csv(2, "statement: \"b\"\n\"c\"");
    let cut = long.len() - 40;
    let mut bytes = long.as_bytes()[..cut].to_vec();
    let stop = Csv::new(false).read(&mut bytes, false, &mut BlockContent::default());
    assert_eq!(&bytes[stop..], &long.as_bytes()[stop..cut]);
    let mut bytes = b"[7] LOG:  statement: a\n\tb\n[7] LOG:  statement: c\n\td\n".to_vec();
    let stop = Stderr::new(Prefix::new("[%p] "), false).read(
        &mut bytes,
        false,
        &mut BlockContent::default(),
    );
    assert_eq!(&bytes[stop..], b"[7] LOG:  statement: c\n\td\n");
    let mut bytes = json(1, "statement: a\\n").as_bytes()[..80].to_vec();
    assert_eq!(Json.read(&mut bytes, false, &mut BlockContent::default()), 0);
}
