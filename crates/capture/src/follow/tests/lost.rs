//! What would be lost, or would be another thing if it were sent again: it is reported.

use seatrial_trace::captured::Skip;

use super::conversation::*;

/// pgjdbc describes the portal of a prepared statement once, and then binds and executes only.
#[test]
fn described_portal_columns_apply_to_the_statement() {
    let in_binary = |row: &[u8]| {
        let bind = message(b'B', b"\0s\0\0\0\0\0\0\x01\0\x01");
        (bind, joined(&[message(b'2', b""), self::row(&[Some(row)]), complete("INSERT 0 1")]))
    };
    let ((bind, first), (_, second)) = (in_binary(&7i64.to_be_bytes()), in_binary(&[0; 8]));
    let followed = outcome(session(vec![
        Client(joined(&[
            parse("s", "insert into t values (1) returning id", &[]),
            bind.clone(),
            describe('P', ""),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[message(b'1', b""), message(b'2', b""), described(&[("id", 20)])])),
        Server(joined(&[row(&[Some(&6i64.to_be_bytes())]), complete("INSERT 0 1"), ready(b'I')])),
        Client(joined(&[bind.clone(), execute("", 0), sync()])),
        Server(joined(&[first, ready(b'I')])),
        // Never described at all: what it is nobody knows, and that is counted.
        Client(joined(&[
            parse("s", "insert into u values (1) returning id", &[]),
            bind,
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[message(b'1', b""), second, ready(b'I')])),
    ]));
    let kept: Vec<_> = followed.statements.iter().map(|one| one.returned.clone()).collect();
    assert_eq!(kept[0], returned(&["id"], &[&[Some("6")]]));
    assert_eq!(kept[1], returned(&["id"], &[&[Some("7")]]));
    assert_eq!(kept[2], returned(&[""], &[&[None]]));
    assert_eq!(followed.queue.counted.wire.returned_unread, 1);
}

/// JDBC's batches: the server rolls back what came before the one that failed.
#[test]
fn statements_rolled_back_with_a_pipeline_are_skipped() {
    let insert = |value| joined(&[bind("", "i", &[Some(value)]), execute("", 0)]);
    let finished = || joined(&[message(b'2', b""), complete("INSERT 0 1")]);
    let followed = outcome(session(vec![
        Client(joined(&[parse("i", "insert into t values ($1)", &[]), insert("1"), insert("2")])),
        Client(joined(&[insert("3"), sync(), insert("4"), sync()])),
        Server(joined(&[message(b'1', b""), finished(), message(b'2', b""), error("23505")])),
        Server(joined(&[ready(b'I'), finished(), ready(b'I')])),
        // At the commit.
        Client(joined(&[insert("5"), insert("6"), sync()])),
        Server(joined(&[finished(), finished(), error("23503"), ready(b'I')])),
        // With a BEGIN the client says itself what becomes of it.
        Client(joined(&[parse("b", "begin", &[]), bind("", "b", &[]), execute("", 0)])),
        Client(joined(&[insert("7"), insert("8"), sync(), query("rollback")])),
        Server(joined(&[message(b'1', b""), message(b'2', b""), complete("BEGIN"), finished()])),
        Server(joined(&[message(b'2', b""), error("23505"), ready(b'E')])),
        Server(joined(&[complete("ROLLBACK"), ready(b'I')])),
    ]));
    let skips: Vec<_> = followed.statements.iter().map(|one| one.fields.skip).collect();
    let back = Some(Skip::RolledBack);
    assert_eq!(skips, [back, None, None, back, None, None, None, None, None]);
    assert_eq!(followed.statements[0].fields.rows, Some(1));
}

#[test]
fn rollback_of_an_overlong_pipeline_is_counted() {
    let count = 4_097;
    let step = joined(&[bind("", "i", &[]), execute("", 0)]);
    let finished = joined(&[message(b'2', b""), complete("INSERT 0 1")]);
    let followed = follow(
        &session(vec![
            Client(parse("i", "insert into t values (1)", &[])),
            Client(joined(&[step.repeat(count), sync()])),
            Server(joined(&[message(b'1', b""), finished.repeat(count - 1), message(b'2', b"")])),
            Server(joined(&[error("23505"), ready(b'I')])),
        ]),
        usize::MAX,
    );
    assert_eq!(followed.queue.counted.wire.rolled_back_kept, 4_096);
}

#[test]
fn statements_that_never_ran_are_skipped() {
    let failed = |code| Server(joined(&[error(code), ready(b'I')]));
    let followed = outcome(session(vec![
        Client(joined(&[parse("s", "select $1::int", &[]), sync()])),
        Server(joined(&[message(b'1', b""), ready(b'I')])),
        Client(joined(&[parse("s", "select 2", &[]), sync()])),
        failed("42P05"),
        Client(joined(&[bind("", "s", &[Some("1")]), execute("", 0), sync()])),
        failed("0A000"),
        Client(joined(&[bind("", "s", &[Some("1")]), execute("", 0), sync()])),
        failed("26000"),
        // Its parameters are not known.
        Client(joined(&[parse("", "select $1::int from t", &[]), sync()])),
        failed("55P03"),
        Client(joined(&[parse("", "selec", &[]), sync()])),
        failed("42601"),
        Client(joined(&[bind("", "s", &[Some("x")]), execute("", 0), sync()])),
        failed("22P02"),
    ]));
    let skips: Vec<_> = followed.statements.iter().map(|one| one.fields.skip).collect();
    let never = Some(Skip::NeverRan);
    assert_eq!(skips, [never, never, never, never, None, None]);
}

#[test]
fn prepared_statements_are_deallocated_by_name_and_all() {
    let prepare = |name: &str| Client(joined(&[parse(name, "select 1", &[]), sync()]));
    let prepared = || Server(joined(&[message(b'1', b""), ready(b'I')]));
    let use_of = |name: &str| Client(joined(&[bind("", name, &[]), execute("", 0), sync()]));
    let gone = || Server(joined(&[error("26000"), ready(b'I')]));
    let ran = || Server(joined(&[message(b'2', b""), complete("SELECT 1"), ready(b'I')]));
    let followed = outcome(session(vec![
        prepare("a"),
        prepared(),
        prepare("b"),
        prepared(),
        prepare("c"),
        prepared(),
        Client(query("deallocate a; deallocate \"b\"")),
        Server(joined(&[complete("DEALLOCATE"), complete("DEALLOCATE"), ready(b'I')])),
        use_of("a"),
        gone(),
        use_of("b"),
        gone(),
        use_of("c"),
        ran(),
        Client(query("discard all")),
        Server(joined(&[complete("DISCARD ALL"), ready(b'I')])),
        use_of("c"),
        gone(),
    ]));
    assert_eq!(sqls(&followed), ["deallocate a; deallocate \"b\"", "select 1", "discard all"]);
}

#[test]
fn an_error_that_ends_the_session_is_of_the_query() {
    let followed =
        outcome(session(vec![Client(query("select pg_sleep(99)")), Server(error("57P01"))]));
    let fields = &followed.statements[0].fields;
    assert_eq!((fields.error, fields.duration_us.is_some()), (Some(*b"57P01"), true));
    assert_eq!(followed.queue.counted.wire.unanswered, 0);
}

#[test]
fn startup_settings_are_counted() {
    let mut traffic = login();
    traffic[0] = Client(startup(&[
        ("user", "me"),
        ("client_encoding", "UTF8"),
        ("options", "-c search_path=x"),
        ("TimeZone", "UTC"),
        ("_pq_.command_tag", "x"),
    ]));
    let followed = outcome(traffic);
    let settings: Vec<_> = followed.queue.counted.wire.settings.into_iter().collect();
    assert_eq!(settings, [("TimeZone".to_owned(), 1), ("options".to_owned(), 1)]);
}

#[test]
fn unreadable_session_is_distinguished_from_no_session() {
    let wire = |traffic: Vec<Traffic>| outcome(traffic).queue.counted.wire.clone();
    let lost = wire(session(vec![Client(query("select 1")), Server(message(b'?', b""))]));
    assert_eq!((lost.not_understood, lost.broken_off), (1, 1));
    let probe = wire(vec![Client(b"GET / HTTP/1.1\r\n\r\n".to_vec())]);
    assert_eq!((probe.not_understood, probe.broken_off), (1, 0));
}
