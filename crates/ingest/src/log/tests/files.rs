//! Many files, packed files, and files that cannot be read.

use std::io::Write;

use super::super::record_counts::Reason;
use super::*;

fn line(second: u32, text: &str) -> String {
    format!("2026-11-21 12:00:{second:02}.000 UTC [7] LOG:  statement: {text}\n")
}

fn texts(kept: &RecordedSink) -> Vec<String> {
    kept.statements.iter().map(ReportedStatement::sql).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn files_are_read_in_the_order_of_their_times() {
    let (a, b, c) = (line(1, "a"), line(2, "b"), line(3, "c"));
    let packed = zstd::encode_all(a.as_bytes(), 1).unwrap();
    // Two members in one file, as when packed logs are put together.
    let gzipped = [gzip(b.as_bytes()), gzip(line(2, "b2").as_bytes())].concat();
    let files: [(&str, &[u8]); 4] =
        [("x.log", c.as_bytes()), ("empty", b""), ("y.log.gz", &gzipped), ("z.log.zst", &packed)];
    let (kept, reading) = Logs::new(&files).read();
    assert_eq!(texts(&kept), ["a", "b", "b2", "c"]);
    let names: Vec<_> = reading.files.iter().map(|file| file.path.file_name().unwrap()).collect();
    assert_eq!(names, ["z.log.zst", "y.log.gz", "x.log"]);
    let file = &reading.files[0];
    assert_eq!((file.size_bytes, file.log_bytes), (packed.len() as u64, a.len() as u64));
    assert_eq!((file.format, file.prefix.as_str()), (Format::Stderr, "%m [%p] "));
}

#[test]
fn a_record_goes_on_in_the_next_file() {
    let whole = line(1, "a") + &line(2, "b\n\tb\n\tb") + &line(3, "c");
    for cut in line(1, "a").len()..whole.len() - line(3, "c").len() + 1 {
        let (first, second) = whole.as_bytes().split_at(cut);
        let files = [("1", first), ("2", second), ("3", b"".as_slice())];
        let (kept, reading) = Logs::new(&files).prefix("%m [%p] ").read();
        assert_eq!(texts(&kept), ["a", "b\nb\nb", "c"], "cut at {cut}");
        assert_eq!(reading.counted.unreadable, [0; record_counts::REASONS]);
    }
}

#[test]
fn examples_name_their_file_and_line() {
    let (first, second) = (line(1, "a") + "x\n", line(2, "b") + "y\n" + &line(3, "c"));
    let logs = Logs::new(&[("1", first.as_bytes()), ("2", second.as_bytes())]);
    let logs = logs.prefix("%m [%p] ");
    let (_, reading) = logs.read();
    let examples: Vec<_> = reading
        .counted
        .examples
        .iter()
        .map(|each| (each.reason, each.file.clone(), each.line, each.offset_bytes))
        .collect();
    let at = |name: &str| logs.folder.path().join(name);
    let offset = line(1, "a").len() as u64;
    assert_eq!(
        examples,
        [(Reason::NoPrefix, at("1"), 2, offset), (Reason::NoPrefix, at("2"), 2, offset)]
    );
}

#[test]
fn what_cannot_be_read_is_said() {
    let log = line(1, "a");
    let csv = "2026-11-21 12:00:00.000 UTC,\"u\",\"d\",7,,6b01e826.7,1,\"\",2026-11-21 12:00:00 UTC\
               ,3/1,0,LOG,00000,\"x\",,,,,,,,,\"psql\",\"client backend\",,0\n";
    let error = Logs::new(&[("a", log.as_bytes()), ("b", csv.as_bytes())]).error();
    assert!(error.starts_with("/a is of the format stderr, /b of csv"), "{error}");
    assert!(Logs::one("").error().starts_with("/log is empty"));
    let error = Logs::one("hello\nworld\n").error();
    assert!(error.starts_with("/log is in no known format; it begins with \"hello\""));
    let error = Logs::one(&log).prefix("%t|").error();
    assert!(error.starts_with("No line of /log begins with the prefix \"%t|\""), "{error}");
    let error = Logs::one(&log).format(Format::Json).error();
    assert!(error.starts_with("/log has no record of the format json"), "{error}");
    let mut logs = Logs::one(&log);
    logs.wanted.paths.push(logs.folder.path().join("./log"));
    assert!(logs.error().contains("was given twice"));
    logs.wanted.paths = vec![logs.folder.path().join("missing")];
    assert!(logs.error().starts_with("/missing cannot be read: "));
    let torn = &gzip(line(1, "a").repeat(5_000).as_bytes())[..300];
    assert!(Logs::one(torn).error().starts_with("/log cannot be read: "));
}

#[test]
fn unknown_zones_are_reported() {
    let log = line(1, "a").replace("UTC", "XYZ");
    let (_, reading) = Logs::one(log).read();
    assert!(reading.notes.iter().any(|note| note.contains("XYZ")), "{:?}", reading.notes);
}

#[test]
fn logs_of_two_servers_are_reported() {
    let (first, second) = (line(1, "a") + &line(50, "b"), line(20, "c") + &line(55, "d"));
    let logs = Logs::new(&[("1", first.as_bytes()), ("2", second.as_bytes())]);
    let (kept, reading) = logs.prefix("%m [%p] ").read();
    assert_eq!(texts(&kept), ["a", "b", "c", "d"]);
    assert!(reading.notes.iter().any(|note| note.contains("two servers")), "{:?}", reading.notes);
}
