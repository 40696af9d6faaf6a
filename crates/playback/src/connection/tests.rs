//! Sequences of messages, and what comes of them.

mod login;
mod served;
mod splits;

use seatrial_sqltext::lexer;

use super::*;

/// A message of a server.
fn from_server(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages::message(&mut bytes, kind, |out| out.extend_from_slice(body));
    bytes
}

fn requested(way: i32, data: &[u8]) -> Vec<u8> {
    from_server(b'R', &[&way.to_be_bytes(), data].concat())
}

fn parameter(name: &str, value: &str) -> Vec<u8> {
    from_server(b'S', format!("{name}\0{value}\0").as_bytes())
}

fn ready(status: u8) -> Vec<u8> {
    from_server(b'Z', &[status])
}

fn complete(tag: &str) -> Vec<u8> {
    from_server(b'C', format!("{tag}\0").as_bytes())
}

fn error(severity: &str, code: &str, sentence: &str) -> Vec<u8> {
    let fields = format!("SFEHLER\0V{severity}\0C{code}\0M{sentence}\0Wsomewhere\0\0");
    from_server(b'E', fields.as_bytes())
}

/// What a server says that lets a client in by trust.
fn welcome() -> Vec<u8> {
    [
        requested(0, b""),
        parameter("client_encoding", "SQL_ASCII"),
        parameter("server_encoding", "UTF8"),
        parameter("TimeZone", "UTC"),
        from_server(b'K', &[0, 0, 1, 2, 7, 7, 7, 7]),
        ready(b'I'),
    ]
    .concat()
}

fn who<'a>() -> Login<'a> {
    Login {
        user: "ada",
        database: "sea",
        password: Some("secret"),
        application: "seatrial",
        read_only: false,
        options: None,
    }
}

/// What a connection makes of bytes that it has to take all.
fn events(connection: &mut Connection, bytes: &[u8], out: &mut Vec<u8>) -> Vec<ConnectionEvent> {
    let mut events = Vec::new();
    assert_eq!(connection.take_in(bytes, out, &mut events), bytes.len());
    events
}

/// A connection that waits for its first statement.
fn connected() -> Connection {
    let mut out = Vec::new();
    let mut connection = Connection::new(&who(), &mut out);
    out.clear();
    assert_eq!(events(&mut connection, &welcome(), &mut out), [ConnectionEvent::Ready]);
    assert!(out.is_empty() && connection.is_ready());
    connection
}

fn item(protocol: Protocol, prepared: &str, sql: &str, parameters: &[Option<&str>]) -> Item {
    let (fingerprint, _) = lexer::fingerprint(sql.as_bytes());
    let bytes = |value: &str| value.as_bytes().to_vec();
    Item {
        protocol,
        prepared: bytes(prepared),
        sql: bytes(sql),
        parameters: parameters.iter().map(|value| value.map(bytes)).collect(),
        class: fingerprint.class,
        fingerprint: fingerprint.hash,
        statements: fingerprint.statements,
        ..Item::default()
    }
}

fn simple(sql: &str) -> Item {
    item(Protocol::Simple, "", sql, &[])
}

fn named(name: &str, sql: &str) -> Item {
    item(Protocol::Extended, name, sql, &[])
}

/// A client's side of a conversation, a few words a message.
fn words(mut sent: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(head) = MessageHeader::of(sent) {
        let (body, rest) = sent[MessageHeader::BYTES..].split_at(head.body_bytes.unwrap());
        let plain = String::from_utf8_lossy(body).replace('\0', "|");
        words.push(format!("{} {plain}", char::from(head.kind)).trim_end_matches('|').to_owned());
        sent = rest;
    }
    assert!(sent.is_empty());
    words
}

/// What is sent for a statement, without the parameters' lengths.
fn sent(connection: &mut Connection, item: &Item) -> Vec<String> {
    let mut out = Vec::new();
    assert_eq!(connection.send(item, &mut out), SendOutcome::Sent);
    assert!(!connection.is_ready());
    words(&out)
}

/// The kinds of messages that are sent for a statement.
fn kinds(connection: &mut Connection, item: &Item) -> String {
    sent(connection, item).iter().filter_map(|word| word.chars().next()).collect()
}

/// The answer that messages come to.
fn answered(connection: &mut Connection, messages: &[Vec<u8>]) -> Answer {
    let mut out = Vec::new();
    let mut events = events(connection, &messages.concat(), &mut out);
    assert!(out.is_empty(), "{:?}", words(&out));
    match (events.pop(), events.len()) {
        (Some(ConnectionEvent::Answer(answer)), 0) => answer,
        other => panic!("{other:?}"),
    }
}

fn bare(kinds: &str) -> Vec<u8> {
    kinds.bytes().flat_map(|kind| from_server(kind, b"")).collect()
}

/// Has a statement with a name executed, with the messages that it is expected to take.
fn executed(connection: &mut Connection, item: &Item, expected: &str) {
    assert_eq!(kinds(connection, item), expected, "{:?}", String::from_utf8_lossy(&item.prepared));
    let parsed = bare(&expected.replace(['B', 'E', 'S'], "").replace('C', "3").replace('P', "1"));
    answered(connection, &[parsed, bare("2"), complete("SELECT 1"), ready(b'I')]);
}

#[test]
fn a_simple_statement_is_one_message_and_its_rows_add_up() {
    let mut connection = connected();
    assert_eq!(sent(&mut connection, &simple("select 1; begin")), ["Q select 1; begin"]);
    let rows = vec![0; 300];
    let answer = answered(
        &mut connection,
        &[
            from_server(b'T', b"\0\0"),
            from_server(b'D', &rows),
            from_server(b'N', b"SWARNING\0\0"),
            complete("SELECT 1"),
            complete("INSERT 0 41"),
            from_server(b'A', b"anybody"),
            complete("BEGIN"),
            ready(b'T'),
        ],
    );
    let expected = Answer {
        error: None,
        tag: Tag::of(b"BEGIN"),
        rows: Some(42),
        status: TransactionStatus::Active,
        kept: Vec::new(),
    };
    assert_eq!(answer, expected);
    assert!(connection.is_ready());
    assert_eq!(connection.status, TransactionStatus::Active);
    assert_eq!(sent(&mut connection, &simple("")), ["Q "]);
    let empty = answered(&mut connection, &[bare("I"), ready(b'I')]);
    assert_eq!((empty.tag, empty.rows), (Tag::default(), None));
}

#[test]
fn only_requested_columns_are_kept() {
    let mut connection = connected();
    let row = |columns: &[Option<&str>]| {
        let mut body = (columns.len() as u16).to_be_bytes().to_vec();
        for column in columns {
            let length = column.map_or(-1, |text| text.len() as i32);
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(column.unwrap_or_default().as_bytes());
        }
        from_server(b'D', &body)
    };
    let rows = [
        row(&[Some("a"), Some("17"), None]),
        row(&[Some("b"), Some("18"), Some("x")]),
        row(&[Some("c"), Some("19"), Some("y")]),
        complete("INSERT 0 3"),
        ready(b'I'),
    ];
    connection.keep([1, 2], 2);
    sent(&mut connection, &simple("insert"));
    let answer = answered(&mut connection, &rows);
    let kept: Vec<Option<&[u8]>> = answer.kept.iter().map(Option::as_deref).collect();
    assert_eq!(kept, [Some(&b"17"[..]), None, Some(b"18"), Some(b"x")]);
    assert_eq!(answer.rows, Some(3));
    // The next statement's are not.
    sent(&mut connection, &simple("insert"));
    assert_eq!(answered(&mut connection, &rows).kept, []);
}

#[test]
fn a_statement_without_a_name_is_parsed_each_time() {
    let mut connection = connected();
    let insert = "insert into t values ($1, $2)";
    let item = item(Protocol::Extended, "", insert, &[Some("seven"), None]);
    for _ in 0..2 {
        let mut out = Vec::new();
        assert_eq!(connection.send(&item, &mut out), SendOutcome::Sent);
        let mut expected = from_server(b'P', format!("\0{insert}\0\0\0").as_bytes());
        let bind = b"\0\0\0\0\0\x02\0\0\0\x05seven\xff\xff\xff\xff\0\0";
        expected.extend_from_slice(&from_server(b'B', bind));
        expected.extend_from_slice(&from_server(b'D', b"P\0"));
        expected.extend_from_slice(&from_server(b'E', b"\0\0\0\0\0"));
        expected.extend_from_slice(&from_server(b'S', b""));
        assert_eq!(out, expected);
        let answer = answered(
            &mut connection,
            &[bare("12"), from_server(b'C', b"INSERT 0 1\0"), ready(b'I')],
        );
        assert_eq!((answer.rows, answer.tag.words()), (Some(1), &b"INSERT"[..]));
    }
}

#[test]
fn uninferable_types_are_sent() {
    let mut connection = connected();
    let mut out = Vec::new();
    let sql = "select 1 from t where a = $1 and $2 is null";
    connection.send(&item(Protocol::Extended, "n", sql, &[Some("1"), None]), &mut out);
    let body = [b"n\0", sql.as_bytes(), b"\0\0\x02\0\0\0\0\0\0\0\x19"].concat();
    assert!(out.starts_with(&from_server(b'P', &body)));
}

#[test]
fn declared_types_are_sent_and_tell_statements_apart() {
    let mut connection = connected();
    let typed =
        |types: &str| Item { parameter_types: Some(types.into()), ..named("n", "select $1") };
    let parse = |types: &[u8]| from_server(b'P', &[b"n\0select $1\0", types].concat());
    let mut out = Vec::new();
    connection.send(&typed("1700 0"), &mut out);
    assert!(out.starts_with(&parse(b"\0\x02\0\0\x06\xa4\0\0\0\0")));
    let mut connection = connected();
    out.clear();
    connection.send(&typed(""), &mut out);
    assert!(out.starts_with(&parse(b"\0\0")), "nothing is guessed");
    let mut connection = connected();
    executed(&mut connection, &typed("1700"), "PBDES");
    executed(&mut connection, &typed("1700"), "BDES");
    executed(&mut connection, &typed("20"), "CPBDES");
}

#[test]
fn named_statement_is_parsed_once_per_text() {
    let mut connection = connected();
    executed(&mut connection, &named("a", "select 1"), "PBDES");
    executed(&mut connection, &named("a", "select 1"), "BDES");
    executed(&mut connection, &named("b", "select 1"), "PBDES");
    executed(&mut connection, &named("a", "select 2"), "CPBDES");
    executed(&mut connection, &named("a", "select 2"), "BDES");
    let other = sent(&mut connection, &named("b", "select 3"));
    assert_eq!(other[0], "C Sb");
    assert_eq!(other[1], "P b|select 3");
}

#[test]
fn named_statement_is_parsed_again_after_a_failed_parse() {
    let mut connection = connected();
    assert_eq!(kinds(&mut connection, &named("a", "selec")), "PBDES");
    let wrong = error("ERROR", "42601", "syntax error");
    let answer = answered(&mut connection, &[wrong, ready(b'I')]);
    assert_eq!(answer.error.map(|error| error.sqlstate), Some(*b"42601"));
    assert_eq!(kinds(&mut connection, &named("a", "selec")), "PBDES");
    // Parsed, but not bound: the server has it.
    let wrong = error("ERROR", "22P02", "invalid input");
    answered(&mut connection, &[bare("1"), wrong, ready(b'I')]);
    assert_eq!(kinds(&mut connection, &named("a", "selec")), "BDES");
}

#[test]
fn names_are_forgotten_when_the_server_deallocates_them() {
    let mut connection = connected();
    let all = ["a", "b", "C"].map(|name| named(name, "select 1"));
    let forgets: [(&str, &str, [&str; 3]); 7] = [
        ("deallocate A", "DEALLOCATE", ["PBDES", "BDES", "BDES"]),
        ("DEALLOCATE PREPARE \"C\";", "DEALLOCATE", ["BDES", "BDES", "PBDES"]),
        ("deallocate a; select 1", "DEALLOCATE", ["CPBDES", "CPBDES", "CPBDES"]),
        ("deallocate all", "DEALLOCATE ALL", ["PBDES", "PBDES", "PBDES"]),
        ("discard all", "DISCARD ALL", ["PBDES", "PBDES", "PBDES"]),
        ("discard plans", "DISCARD PLANS", ["BDES", "BDES", "BDES"]),
        ("execute a", "SELECT 1", ["BDES", "BDES", "BDES"]),
    ];
    all.iter().for_each(|item| executed(&mut connection, item, "PBDES"));
    for (sql, tag, expected) in forgets {
        assert_eq!(kinds(&mut connection, &simple(sql)), "Q");
        answered(&mut connection, &[complete(tag), ready(b'I')]);
        for (item, expected) in all.iter().zip(expected) {
            executed(&mut connection, item, expected);
        }
    }
    // One that failed forgets nothing.
    assert_eq!(kinds(&mut connection, &simple("deallocate all")), "Q");
    answered(&mut connection, &[error("ERROR", "25P02", "aborted"), ready(b'E')]);
    executed(&mut connection, &all[0], "BDES");
}

#[test]
fn diverging_prepared_statement_is_closed_and_parsed_again() {
    for code in ["26000", "42P05", "0A000"] {
        let mut connection = connected();
        executed(&mut connection, &named("a", "select 1"), "PBDES");
        assert_eq!(kinds(&mut connection, &named("a", "select 1")), "BDES");
        answered(&mut connection, &[error("ERROR", code, "no"), ready(b'I')]);
        executed(&mut connection, &named("a", "select 1"), "CPBDES");
    }
}

#[test]
fn the_server_holds_a_bounded_number_of_names() {
    let mut connection = connected();
    let name = |number: usize| named(&format!("s{number}"), "select 1");
    for number in 0..prepared::NAMES_MAX {
        executed(&mut connection, &name(number), "PBDES");
    }
    executed(&mut connection, &name(0), "BDES");
    let pushed_out = sent(&mut connection, &named("new", "select 1"));
    assert_eq!(pushed_out[0], "C Ss1");
    answered(&mut connection, &[bare("312"), complete("SELECT 1"), ready(b'I')]);
    assert_eq!(connection.prepared.count(), prepared::NAMES_MAX);
    executed(&mut connection, &name(1), "CPBDES");
    executed(&mut connection, &name(0), "BDES");
}

#[test]
fn unsendable_statement_leaves_the_connection_ready() {
    let mut connection = connected();
    let mut out = Vec::new();
    let fetch = item(Protocol::Fetch, "a", "select 1", &[]);
    let portal = SendOutcome::Impossible(Skipped::Unlogged(Skip::UnknownPortal));
    assert_eq!(connection.send(&fetch, &mut out), portal);
    let torn = SendOutcome::Impossible(Skipped::Unlogged(Skip::CutOff));
    assert_eq!(connection.send(&simple("select '\0'"), &mut out), torn);
    let many = vec![None; 65_536];
    assert_eq!(connection.send(&item(Protocol::Extended, "", "x", &many), &mut out), torn);
    assert!(out.is_empty() && connection.is_ready());
    assert_eq!(connection.send(&simple("select 1"), &mut out), SendOutcome::Sent);
    let busy = SendOutcome::Impossible(Skipped::NoConnection);
    assert_eq!(connection.send(&simple("select 2"), &mut out), busy);
    assert_eq!(words(&out), ["Q select 1"]);
}

#[test]
fn an_error_is_reported_with_the_state_of_the_transaction() {
    let mut connection = connected();
    sent(&mut connection, &simple("insert into t values (1)"));
    let twice = error("ERROR", "23505", "duplicate key");
    let answer = answered(&mut connection, &[twice, ready(b'E')]);
    let expected = ServerError { sqlstate: *b"23505", message: "duplicate key".to_owned() };
    assert_eq!(answer.error, Some(expected));
    assert_eq!((answer.status, answer.rows), (TransactionStatus::Failed, None));
    sent(&mut connection, &simple("commit"));
    let answer = answered(&mut connection, &[complete("ROLLBACK"), ready(b'I')]);
    assert_eq!((answer.error, answer.tag.words()), (None, &b"ROLLBACK"[..]));
}

#[test]
fn copy_data_is_skipped_and_counted() {
    let mut connection = connected();
    sent(&mut connection, &simple("copy t to stdout"));
    let data = from_server(b'd', &[b'x'; 500]);
    let begins = from_server(b'H', &[0, 0, 0]);
    let answer = answered(
        &mut connection,
        &[begins, data.clone(), data, bare("c"), complete("COPY 2"), ready(b'I')],
    );
    assert_eq!((answer.rows, answer.tag.words()), (Some(2), &b"COPY"[..]));
}

#[test]
fn copy_from_stdin_is_answered_with_copy_fail() {
    let asks = from_server(b'G', &[0, 0, 0]);
    for (item, expected) in [(simple("copy t from stdin"), "f"), (named("", "copy t"), "fS")] {
        let mut connection = connected();
        sent(&mut connection, &item);
        let mut out = Vec::new();
        assert_eq!(events(&mut connection, &asks, &mut out), []);
        let initials: String = words(&out).iter().filter_map(|word| word.chars().next()).collect();
        assert_eq!(initials, expected);
        let failed = error("ERROR", "57014", "COPY from stdin failed");
        let answer = answered(&mut connection, &[failed, ready(b'I')]);
        assert_eq!(answer.error.map(|error| error.sqlstate), Some(*b"57014"));
    }
}

#[test]
fn rows_of_any_length_are_skipped() {
    let mut connection = connected();
    sent(&mut connection, &simple("select repeat('x', 1000000000)"));
    let row_bytes = 1_000_000_000u32;
    let mut head = vec![b'D'];
    head.extend_from_slice(&(row_bytes + 4).to_be_bytes());
    let mut out = Vec::new();
    assert_eq!(events(&mut connection, &head, &mut out), []);
    let piece = vec![0; 1 << 16];
    let mut left_bytes = row_bytes as usize;
    while left_bytes > 0 {
        let piece = &piece[..left_bytes.min(piece.len())];
        assert_eq!(events(&mut connection, piece, &mut out), []);
        left_bytes -= piece.len();
    }
    let answer = answered(&mut connection, &[complete("SELECT 1"), ready(b'I')]);
    assert_eq!(answer.rows, Some(1));
}

#[test]
fn beginning_of_a_long_error_is_read() {
    let mut connection = connected();
    sent(&mut connection, &simple("select f()"));
    let long = error("ERROR", "P0001", &"y".repeat(3 * READ_BYTES_MAX));
    let head = &long[..MessageHeader::BYTES + READ_BYTES_MAX];
    let (mut out, mut found) = (Vec::new(), Vec::new());
    assert_eq!(connection.take_in(&head[..head.len() - 1], &mut out, &mut found), 0);
    assert_eq!(connection.take_in(head, &mut out, &mut found), head.len());
    let answer = answered(&mut connection, &[long[head.len()..].to_vec(), ready(b'I')]);
    let error = answer.error.unwrap();
    assert_eq!(&error.sqlstate, b"P0001");
    assert!(error.message.len() > READ_BYTES_MAX - 100 && error.message.ends_with('y'));
}

#[test]
fn fatal_error_is_reported() {
    let words = ServerError { sqlstate: *b"57P01", message: "by command".to_owned() };
    for severity in ["FATAL", "PANIC"] {
        for is_busy in [false, true] {
            let mut connection = connected();
            if is_busy {
                sent(&mut connection, &simple("select 1"));
            }
            let mut out = Vec::new();
            let end = [error(severity, "57P01", "by command"), b"and so on".to_vec()].concat();
            assert_eq!(
                events(&mut connection, &end, &mut out),
                [ConnectionEvent::Lost(words.clone())]
            );
            assert!(!connection.is_ready());
            assert_eq!(events(&mut connection, b"more", &mut out), []);
            let late = connection.send(&simple("select 1"), &mut out);
            assert_eq!(late, SendOutcome::Impossible(Skipped::NoConnection));
        }
    }
}

#[test]
fn hang_up_is_reported_with_its_stage() {
    let cases: [(bool, &[u8], &[u8], &str); 4] = [
        (false, b"", b"", "between two statements"),
        (true, b"", b"", "before it answered"),
        (true, b"D\0\0\x01\0half", b"", "in the middle of a message"),
        (true, b"", b"C\0\0", "in the middle of a message"),
    ];
    for (is_busy, taken, left, when) in cases {
        let mut connection = connected();
        if is_busy {
            sent(&mut connection, &simple("select 1"));
        }
        assert_eq!(events(&mut connection, taken, &mut Vec::new()), []);
        match connection.hung_up(left) {
            ConnectionEvent::Lost(error) => {
                assert!(error.message.contains(when), "{}", error.message)
            }
            other => panic!("{other:?}"),
        }
        assert!(!connection.is_ready());
    }
}

#[test]
fn shutdown_notice_of_a_crashed_server_is_kept() {
    let mut connection = connected();
    sent(&mut connection, &simple("select 1"));
    let fields = b"SWARNUNG\0VWARNING\0C57P02\0Mcrash of another process\0\0";
    assert_eq!(events(&mut connection, &from_server(b'N', fields), &mut Vec::new()), []);
    let words = ServerError { sqlstate: *b"57P02", message: "crash of another process".to_owned() };
    assert_eq!(connection.hung_up(b""), ConnectionEvent::Lost(words));
}

#[test]
fn invalid_message_ends_the_connection() {
    let strange: [&[u8]; 5] = [
        b"C\0\0\0\x03",
        b"D\xff\xff\xff\xff",
        b"?\0\0\0\x04",
        b"R\0\0\0\x08\0\0\0\0",
        b"W\0\0\0\x04",
    ];
    for bytes in strange {
        let mut connection = connected();
        sent(&mut connection, &simple("select 1"));
        let found = events(&mut connection, bytes, &mut Vec::new());
        assert!(matches!(&found[..], [ConnectionEvent::NotUnderstood(_)]), "{found:?}");
    }
    // Ready again, but for nothing.
    let mut connection = connected();
    let found = events(&mut connection, &ready(b'I'), &mut Vec::new());
    assert!(matches!(&found[..], [ConnectionEvent::NotUnderstood(_)]), "{found:?}");
}

#[test]
fn encoding_set_by_the_trace_is_reset_before_the_next_statement() {
    let mut connection = connected();
    sent(&mut connection, &simple("set names 'latin1'"));
    let set = [complete("SET"), parameter("client_encoding", "LATIN1"), ready(b'I')];
    answered(&mut connection, &set);
    let back = "Q SET client_encoding TO 'SQL_ASCII'";
    assert_eq!(sent(&mut connection, &simple("select 1"))[..], [back, "Q select 1"]);
    let silent = [complete("SET"), parameter("client_encoding", "SQL_ASCII"), ready(b'I')];
    let mut messages = silent.to_vec();
    messages.extend([complete("SELECT 1"), ready(b'I')]);
    let answer = answered(&mut connection, &messages);
    assert_eq!(answer.tag.words(), b"SELECT");
    assert_eq!(sent(&mut connection, &simple("select 2")), ["Q select 2"]);
    answered(&mut connection, &[complete("SELECT 1"), ready(b'I')]);
    // The server's own encoding is not a conversion, either.
    sent(&mut connection, &simple("set names 'utf8'"));
    let set = [complete("SET"), parameter("client_encoding", "UTF8"), ready(b'I')];
    answered(&mut connection, &set);
    assert_eq!(sent(&mut connection, &simple("select 3")), ["Q select 3"]);
}

#[test]
fn encoding_is_not_reset_in_a_failed_transaction() {
    let mut connection = connected();
    sent(&mut connection, &simple("set names 'latin1'; select 1/0"));
    let failed = error("ERROR", "22012", "division by zero");
    let set = [complete("SET"), parameter("client_encoding", "LATIN1"), failed, ready(b'E')];
    answered(&mut connection, &set);
    assert_eq!(sent(&mut connection, &simple("rollback")), ["Q rollback"]);
}

#[test]
fn terminate_and_cancel_have_separate_messages() {
    let mut out = Vec::new();
    Connection::terminate(&mut out);
    assert_eq!(out, b"X\0\0\0\x04");
    out.clear();
    let connection = connected();
    assert_eq!((connection.process_id(), connection.secret_key.clone()), (0x102, vec![7; 4]));
    connection.cancel_request(&mut out);
    assert_eq!(out, b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x01\x02\x07\x07\x07\x07");
}
