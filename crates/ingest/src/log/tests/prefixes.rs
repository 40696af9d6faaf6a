//! `log_line_prefix`: every escape, and guessing.

use super::super::guess::guess;
use super::super::message::Label;
use super::super::prefix::Prefix;
use super::super::record::{self, Origin, Severity};
use super::*;

/// What a prefix reads of a line, and what is behind its label.
fn read<'a>(prefix: &str, line: &'a str) -> Option<(Origin, &'a str)> {
    let mut origin = Origin::default();
    let bytes = line.as_bytes();
    let prefix = Prefix::new(prefix);
    let lead = prefix.read(bytes, (0, bytes.len()), &mut Zones::default(), &mut origin)?;
    assert_eq!(lead.label, Label::Record(Severity::Log));
    Some((origin, &line[lead.at..]))
}

#[test]
fn a_block_that_failed_goes_on_although_it_has_no_number_any_more() {
    let numbers = ["4/24 0", "4/24 763", "4/24 763", "4/0 763", "4/0 763", "4/25 0"];
    let texts = ["BEGIN", "INSERT INTO t VALUES (1)", "SELECT 1/0", "SELECT 2", "COMMIT", "DO 3"];
    let log: String = numbers
        .iter()
        .zip(texts)
        .map(|(number, text)| format!("[7] {number} LOG:  statement: {text}\n"))
        .collect();
    let (kept, _) = Logs::one(&log).prefix("[%p] %v %x ").read_in(1 << 20, 1);
    let transactions: Vec<u64> =
        kept.statements.iter().map(|statement| statement.transaction).collect();
    assert_eq!(transactions, [1, 1, 1, 1, 1, 0]);
}

#[test]
fn every_escape_is_read() {
    let prefix = "%a|%u|%d|%r|%h|%L|%b|%p|%P|%t|%m|%n|%i|%e|%c|%l|%s|%v|%x|%q%Q|%% ";
    let line = "my app|bob|shop|10.0.0.1(5432)|10.0.0.1|[local]|client backend|77||2026-11-21 \
                12:00:00 UTC|2026-11-21 12:00:00.123 UTC|1795262400.123|idle in transaction|42P01|\
                6b01e826.4d|9|2026-11-21 11:00:00 UTC|3/24|756|-553|% LOG:  statement: x";
    let (origin, rest) = read(prefix, line).unwrap();
    assert_eq!(rest, "statement: x");
    let text = |span: record::Span| String::from_utf8_lossy(span.of(line.as_bytes())).into_owned();
    assert_eq!(text(origin.application), "my app");
    assert_eq!(text(origin.user), "bob");
    assert_eq!(text(origin.database), "shop");
    assert_eq!(text(origin.name), "6b01e826.4d");
    assert_eq!(origin.time_us, Some(1_795_262_400_123_000));
    assert_eq!((origin.pid, origin.session_line), (77, 9));
    assert_eq!(origin.started_s, 1_795_258_800);
    assert_eq!((origin.transaction, &origin.code), (24, b"42P01"));
    assert!(!origin.is_background);
}

#[test]
fn widths_are_read() {
    let line = "bob       |     shop|[00077 ]  9 LOG:  x";
    let (origin, _) = read("%-10u|%9d|[%p ] %2l ", &line.replace("[00077", "[77")).unwrap();
    assert_eq!((origin.user.of(line.as_bytes()), origin.pid), (b"bob".as_slice(), 77));
    assert_eq!(origin.database.of(line.as_bytes()), b"shop");
    let (origin, _) = read("%-8p%u ", "77      bob LOG:  x").unwrap();
    assert_eq!((origin.pid, origin.user.end() - origin.user.start()), (77, 3));
}

#[test]
fn names_may_hold_what_stands_between_them() {
    let prefix = "%m [%p] user=%u,db=%d,app=%a ";
    let line = "2026-11-21 12:00:00.123 UTC [7] user=a,db=b,db=c,app=LOG: x, y LOG:  statement: z";
    let (origin, rest) = read(prefix, line).unwrap();
    assert_eq!(origin.user.of(line.as_bytes()), b"a");
    assert_eq!((origin.database.of(line.as_bytes()), rest), (b"b,db=c".as_slice(), "statement: z"));
}

#[test]
fn background_processes_stop_at_q() {
    let prefix = "%m [%p] %q%u@%d ";
    let (origin, rest) =
        read(prefix, "2026-11-21 12:00:00.123 UTC [7] LOG:  checkpoint starting").unwrap();
    assert_eq!((origin.pid, rest), (7, "checkpoint starting"));
    assert!(read(prefix, "2026-11-21 12:00:00.123 UTC [x] LOG:  y").is_none());
    assert!(read(prefix, "2026-11-21 12:00:00.123 UTC [7] bob@shop NOTE:  y").is_none());
}

#[test]
fn parallel_workers_are_known() {
    let (origin, _) = read("[%p] %P %b ", "[7] 6 parallel worker LOG:  x").unwrap();
    assert!(origin.is_background);
    let (origin, _) = read("[%p] %P %b ", "[7]  client backend LOG:  x").unwrap();
    assert!(!origin.is_background);
}

#[test]
fn a_line_that_fits_in_very_many_ways_ends() {
    let line = format!("{} NOTE", "a".repeat(5_000));
    assert!(read("%a%u%d%h%r%i%b ", &line).is_none());
    assert!(read("%a %u %d %h %r ", &" a".repeat(2_000)).is_none());
}

/// Lines as a server with this prefix would write them.
fn lines(prefix: &str) -> String {
    let stamp = "2026-11-21 12:00:00.123 CET";
    let fields = |text: &str, is_session: bool| {
        let text = match text.split_once("%q") {
            Some((before, _)) if !is_session => before.to_owned(),
            _ => text.replace("%q", ""),
        };
        let parts = [
            ("%m", stamp),
            ("%t", "2026-11-21 12:00:00 CET"),
            ("%n", "1795262400.123"),
            ("%s", "2026-11-21 11:00:00 CET"),
            ("%p", "4711"),
            ("%c", "6b01e826.1267"),
            ("%r", if is_session { "10.1.2.3(40222)" } else { "" }),
            ("%h", if is_session { "10.1.2.3" } else { "" }),
            ("%u", if is_session { "app_rw" } else { "" }),
            ("%d", if is_session { "shop" } else { "" }),
            ("%a", if is_session { "PostgreSQL JDBC Driver" } else { "" }),
            ("%b", if is_session { "client backend" } else { "checkpointer" }),
            ("%v", if is_session { "3/24" } else { "" }),
            ("%x", "0"),
            ("%l", "7"),
            ("%e", "00000"),
        ];
        parts.iter().fold(text, |text, (escape, value)| text.replace(escape, value))
    };
    let session = fields(prefix, true);
    let background = fields(prefix, false);
    format!(
        "{background}LOG:  checkpoint starting\n{session}LOG:  statement: a\n\tb\n{session}\
             ERROR:  x\n{session}STATEMENT:  a\n"
    )
}

#[test]
fn common_prefixes_are_guessed() {
    for prefix in [
        "%m [%p] ",
        "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
        "%m [%p] %q%u@%d ",
        "%m [%p] %q%u@%d/%a ",
        "%m [%p] %q%u@%d %a ",
        "%m [%p] %q%u@%d %e ",
        "%m [%p] %q%u@%d %a %e ",
        "%m [%p] %q%u@%d/%a %e ",
        "%m [%p] %q%u@%d %c %v %x ",
        "%m [%p] %q%u@%d/%a %c %l %v %x %e ",
        "%m:%r:%u@%d:[%p]:",
        "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
        "%m [%p]: [%l-1] db=%d,user=%u ",
        "%m-%c-",
        "%m|%u|%d|%c|",
        "< %m >",
        "%t ",
    ] {
        let guess = guess(lines(prefix).as_bytes()).unwrap_or_else(|| panic!("{prefix}"));
        assert_eq!((guess.fitting, guess.lines), (4, 4), "{prefix}");
        assert_eq!(guess.prefix.text(), prefix);
    }
}

#[test]
fn what_is_no_log_is_not_guessed() {
    assert_eq!(guess(b"select 1;\nselect 2;\n"), None);
    assert_eq!(guess(b""), None);
    assert_eq!(guess(&[0xff; 200]), None);
}

#[test]
fn a_prefix_shows_the_resolution_of_its_times() {
    for (prefix, resolution_us) in [
        ("%m ", 1_000),
        ("%-30m:", 1_000),
        ("%n", 1_000),
        ("%t %u@%d ", 1_000_000),
        ("%%m %t", 1_000_000),
    ] {
        assert_eq!(Prefix::new(prefix).resolution_us(), resolution_us, "{prefix}");
    }
}

#[test]
fn a_prefix_that_lacks_something_is_reported() {
    let (_, reading) = Logs::one("2026-11-21 12:00:00 UTC LOG:  statement: a\n").read();
    assert_eq!(reading.files[0].prefix, "%t ");
    assert!(reading.files[0].is_guessed);
    assert!(reading.notes[0].contains("neither %c nor %p"), "{:?}", reading.notes);
    let (_, reading) = Logs::one("[7] LOG:  statement: a\n").prefix("[%p] ").read();
    assert!(reading.notes[0].contains("no time"), "{:?}", reading.notes);
    assert_eq!((reading.span, reading.files[0].is_guessed), (None, false));
}

#[test]
fn connections_of_unknown_sessions_end_no_session() {
    let log = "2026-11-21 12:00:00.001 UTC a@b LOG:  statement: begin
2026-11-21 12:00:00.002 UTC a@b LOG:  connection authorized: user=a database=b
2026-11-21 12:00:00.003 UTC a@b LOG:  statement: commit
2026-11-21 12:00:00.004 UTC a@b LOG:  disconnection: session time: 0:00:00.006 user=a database=b
2026-11-21 12:00:00.005 UTC a@b LOG:  statement: select 1
";
    let (sink, reading) = Logs::one(log).prefix("%m %q%u@%d ").read();
    let sessions: Vec<u32> = sink.statements.iter().map(|one| one.session).collect();
    assert_eq!((sessions, reading.sessions), (vec![0, 0, 0], 1));
    assert!(reading.notes[0].contains("all statements are of one"), "{:?}", reading.notes);
    let other = format!("{log}2026-11-21 12:00:00.006 UTC a@c LOG:  statement: select 1\n");
    let (_, reading) = Logs::one(&other).prefix("%m %q%u@%d ").read();
    assert_eq!(reading.sessions, 2);
    assert!(!reading.notes[0].contains("all statements"), "{:?}", reading.notes);
}
