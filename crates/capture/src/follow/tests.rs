//! Conversations, as clients and servers have them, and what comes of them.

pub(crate) mod conversation;
mod lost;

use seatrial_trace::captured::{Protocol, Skip};

use conversation::*;

#[test]
fn a_session_and_its_queries() {
    let followed = outcome(session(vec![
        Client(query("BEGIN")),
        Server(joined(&[complete("BEGIN"), ready(b'T')])),
        Client(query("update t set a = 1")),
        Server(joined(&[message(b'N', b"SNOTICE\0\0"), complete("UPDATE 3"), ready(b'T')])),
        Client(query("COMMIT")),
        Server(joined(&[complete("COMMIT"), ready(b'I')])),
        Client(query("select 1; select 2")),
        Server(joined(&[
            described(&[("a", 23)]),
            row(&[Some(b"1")]),
            complete("SELECT 1"),
            described(&[("b", 23)]),
            row(&[Some(b"2")]),
            complete("SELECT 1"),
            ready(b'I'),
        ])),
        Client(query("nonsense")),
        Server(joined(&[error("42601"), ready(b'I')])),
        Client(query("")),
        Server(joined(&[message(b'I', b""), ready(b'I')])),
        Client(message(b'X', b"")),
    ]));
    let session = &followed.sessions[0];
    assert_eq!((&session.name[..], &session.user[..]), (&b"4243"[..], &b"me"[..]));
    assert_eq!((&session.database[..], &session.application[..]), (&b"shop"[..], &b"till"[..]));
    assert!(session.connected_us < session.disconnected_us);
    assert_eq!(transactions(&followed), [1, 1, 1, 0, 0, 0]);
    let rows: Vec<_> = followed.statements.iter().map(|one| one.fields.rows).collect();
    assert_eq!(rows, [None, Some(3), None, Some(2), None, None]);
    let tags: Vec<_> = followed.statements.iter().map(tag).collect();
    assert_eq!(tags, ["BEGIN", "UPDATE", "COMMIT", "SELECT", "", ""]);
    assert_eq!(followed.statements[4].fields.error, Some(*b"42601"));
    assert_eq!(followed.statements[1].fields.duration_us, Some(10));
    assert!(!format!("{:?}", followed.statements).contains("secret"));
}

#[test]
fn generated_values_are_kept() {
    let followed = outcome(session(vec![
        Client(query("insert into t values (1), (2) returning id, note")),
        Server(joined(&[
            described(&[("id", 20), ("note", 25)]),
            row(&[Some(b"7"), None]),
            row(&[Some(b"8"), Some(b"x")]),
            complete("INSERT 0 2"),
            ready(b'I'),
        ])),
        // In binary, described once for all.
        Client(joined(&[parse("s", "select nextval($1)", &[0]), describe('S', "s"), sync()])),
        Server(joined(&[
            message(b'1', b""),
            message(b't', b"\0\x01\0\0\x08\x9d"),
            described(&[("nextval", 20)]),
            ready(b'I'),
        ])),
        Client(joined(&[
            message(b'B', b"\0s\0\0\0\0\x01\0\0\0\x01a\0\x01\0\x01"),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[
            message(b'2', b""),
            row(&[Some(&9i64.to_be_bytes())]),
            complete("SELECT 1"),
            ready(b'I'),
        ])),
        // Never described.
        Client(joined(&[
            parse("", "delete from t returning 1", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[
            message(b'1', b""),
            message(b'2', b""),
            row(&[Some(b"1")]),
            complete("DELETE 1"),
            ready(b'I'),
        ])),
        // Several results: nobody knows which is meant.
        Client(query("insert into t values (1) returning id; select 2")),
        Server(joined(&[
            described(&[("id", 20)]),
            row(&[Some(b"1")]),
            complete("INSERT 0 1"),
            described(&[("two", 23)]),
            row(&[Some(b"2")]),
            complete("SELECT 1"),
            ready(b'I'),
        ])),
    ]));
    let kept: Vec<_> = followed.statements.iter().map(|one| one.returned.clone()).collect();
    let first = returned(&["id", "note"], &[&[Some("7"), None], &[Some("8"), Some("x")]]);
    assert_eq!(kept[0], first);
    assert_eq!(kept[1], returned(&["nextval"], &[&[Some("9")]]));
    assert_eq!(kept[2], returned(&[""], &[&[Some("1")]]));
    assert_eq!(kept[3], None);
    assert_eq!(
        (followed.queue.counted.wire.returned, followed.queue.counted.wire.returned_rows),
        (3, 4)
    );
}

#[test]
fn few_rows_of_a_query_are_kept() {
    let query = |sql: &str, columns: &[(&str, u32)], rows: &[Vec<u8>]| {
        let answer = [&[described(columns)], rows, &[complete("SELECT 1"), ready(b'I')]].concat();
        [Client(query(sql)), Server(joined(&answer))]
    };
    let one = row(&[Some(b"7"), Some(b"x")]);
    let other = row(&[Some(b"8"), None]);
    let columns = [("id", 20), ("note", 25)];
    let asks = "select id, note from t where a = 1";
    let many = vec![one.clone(); 65];
    let followed = outcome(session(
        [
            query(asks, &columns, std::slice::from_ref(&one)),
            query(asks, &columns, &[one.clone(), other.clone()]),
            query(asks, &columns, &many),
            query(asks, &columns[1..], &[row(&[Some(b"x")]), row(&[Some(b"y")])]),
            query("select id, note from t", &columns, &[one, other]),
        ]
        .concat(),
    ));
    let kept: Vec<_> = followed.statements.iter().map(|one| one.returned.clone()).collect();
    assert_eq!(kept[0], returned(&["id", "note"], &[&[Some("7"), None]]));
    let digest = String::from_utf8(seatrial_trace::captured::digest(b"x")).unwrap();
    let both = returned(&["id", "note"], &[&[Some("7"), Some(&digest)], &[Some("8"), None]]);
    assert_eq!(kept[1], both);
    assert_eq!(kept[2..], [None, None, None]);
    assert_eq!(followed.queue.counted.wire.returned_cut, 0);
}

#[test]
fn prepared_statements_keep_their_names_and_types() {
    let followed = outcome(session(vec![
        Client(joined(&[
            parse("s1", "select $1::int, $2", &[23, 0]),
            message(b'B', b"\0s1\0\0\x02\0\x01\0\0\0\x02\0\0\0\x04\0\0\0\x05\xff\xff\xff\xff\0\0"),
            describe('P', ""),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[
            message(b'1', b""),
            message(b'2', b""),
            described(&[("a", 23)]),
            row(&[Some(b"5")]),
            complete("SELECT 1"),
            ready(b'I'),
        ])),
        // Its own type: the bytes mean nothing here.
        Client(joined(&[
            parse("s2", "select $1", &[16_500]),
            message(b'B', b"\0s2\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\0"),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[
            message(b'1', b""),
            message(b'2', b""),
            row(&[Some(b"5")]),
            complete("SELECT 1"),
            ready(b'I'),
        ])),
        Client(joined(&[message(b'C', b"Ss1\0"), sync()])),
        Server(joined(&[message(b'3', b""), ready(b'I')])),
    ]));
    let [first, second] = &followed.statements[..] else { panic!("two statements") };
    assert_eq!((&first.prepared[..], &first.sql[..]), ("s1", "select $1::int, $2"));
    assert_eq!(first.parameters, [Some("5".to_owned()), None]);
    assert_eq!(first.fields.protocol, Protocol::Extended);
    assert_eq!(second.fields.skip, Some(Skip::BinaryParameters));
    // The number of a database's own type means nothing elsewhere.
    let types = [first.types.as_deref(), second.types.as_deref()];
    assert_eq!(types, [Some("23 0"), Some("0")]);
    assert_eq!(followed.queue.counted.executable, 1);
}

#[test]
fn a_pipeline_is_a_transaction_and_ends_at_its_first_error() {
    let insert =
        |value| joined(&[bind("", "i", &[Some(value)]), describe('P', ""), execute("", 0)]);
    let finished = |tag| joined(&[message(b'2', b""), message(b'n', b""), complete(tag)]);
    let followed = outcome(session(vec![
        Client(joined(&[
            parse("i", "insert into t values ($1)", &[]),
            insert("1"),
            insert("2"),
            sync(),
            insert("3"),
            sync(),
        ])),
        Server(joined(&[
            message(b'1', b""),
            finished("INSERT 0 1"),
            finished("INSERT 0 1"),
            ready(b'I'),
            finished("INSERT 0 1"),
            ready(b'I'),
        ])),
        // The second fails, the third is passed over, and so is what comes before the next Sync.
        Client(joined(&[insert("4"), insert("5"), insert("6")])),
        Server(joined(&[
            finished("INSERT 0 1"),
            message(b'2', b""),
            message(b'n', b""),
            error("23505"),
        ])),
        Client(joined(&[insert("7"), sync()])),
        Server(ready(b'I')),
        Client(joined(&[insert("8"), sync()])),
        Server(joined(&[finished("INSERT 0 1"), ready(b'I')])),
        // What waits until the commit may fail then.
        Client(joined(&[insert("9"), sync()])),
        Server(joined(&[finished("INSERT 0 1"), error("23503"), ready(b'I')])),
    ]));
    let values: Vec<_> =
        followed.statements.iter().map(|one| one.parameters[0].clone().unwrap()).collect();
    assert_eq!(values, ["1", "2", "3", "4", "5", "8", "9"]);
    assert_eq!(transactions(&followed), [1, 1, 0, 2, 2, 0, 0]);
    let errors: Vec<_> = followed.statements.iter().map(|one| one.fields.error.is_some()).collect();
    assert_eq!(errors, [false, false, false, false, true, false, true]);
    assert_eq!(followed.queue.counted.others, 2);
    assert_eq!(followed.queue.counted.wire.out_of_step, 0);
}

#[test]
fn failed_prepare_is_a_failed_statement() {
    let followed = outcome(session(vec![
        Client(joined(&[parse("x", "selec 1", &[]), bind("", "x", &[]), execute("", 0), sync()])),
        Server(joined(&[error("42601"), ready(b'I')])),
        Client(joined(&[bind("", "x", &[]), execute("", 0), sync()])),
        Server(joined(&[error("26000"), ready(b'I')])),
        Client(joined(&[
            parse("y", "select $1::int", &[]),
            bind("", "y", &[Some("no")]),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[message(b'1', b""), error("22P02"), ready(b'I')])),
    ]));
    assert_eq!(sqls(&followed), ["selec 1", "select $1::int"]);
    let codes: Vec<_> = followed.statements.iter().map(|one| one.fields.error.unwrap()).collect();
    assert_eq!(codes, [*b"42601", *b"22P02"]);
    assert_eq!(followed.queue.counted.others, 3);
}

#[test]
fn portal_is_fetched_in_parts() {
    let followed = outcome(session(vec![
        Client(joined(&[
            parse("", "select * from t", &[]),
            bind("c", "", &[]),
            execute("c", 2),
            message(b'H', b""),
        ])),
        Server(joined(&[
            message(b'1', b""),
            message(b'2', b""),
            row(&[Some(b"1")]),
            row(&[Some(b"2")]),
            message(b's', b""),
        ])),
        Client(joined(&[execute("c", 2), sync()])),
        Server(joined(&[row(&[Some(b"3")]), complete("SELECT 1"), ready(b'I')])),
    ]));
    let kinds: Vec<_> =
        followed.statements.iter().map(|one| (one.fields.protocol, one.fields.rows)).collect();
    assert_eq!(kinds, [(Protocol::Extended, None), (Protocol::Fetch, Some(1))]);
}

/// libpq sends a Sync with the COPY, which the server passes over, and another one at its end.
#[test]
fn copies_in_both_protocols_and_directions() {
    let data = message(b'd', b"1\tQ\0\0\0\x05Z\n");
    let followed = outcome(session(vec![
        Client(query("copy t from stdin")),
        Server(message(b'G', b"\0\0\x01\0\0")),
        Client(joined(&[data.clone(), data.clone(), message(b'c', b"")])),
        Server(joined(&[complete("COPY 2"), ready(b'I')])),
        Client(joined(&[
            parse("", "copy t from stdin", &[]),
            bind("", "", &[]),
            describe('P', ""),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[
            message(b'1', b""),
            message(b'2', b""),
            message(b'n', b""),
            message(b'G', b"\0\0\x01\0\0"),
        ])),
        Client(joined(&[data.clone(), sync(), data.clone(), message(b'c', b""), sync()])),
        Server(joined(&[complete("COPY 2"), ready(b'I')])),
        Client(query("copy t to stdout")),
        Server(joined(&[
            message(b'H', b"\0\0\x01\0\0"),
            data.clone(),
            message(b'c', b""),
            complete("COPY 1"),
            ready(b'I'),
        ])),
        Client(query("copy t from stdin")),
        Server(message(b'G', b"\0\0\x01\0\0")),
        Client(joined(&[data, message(b'f', b"enough\0")])),
        Server(joined(&[error("57014"), ready(b'I')])),
        Client(query("select 1")),
        Server(joined(&[complete("SELECT 1"), ready(b'I')])),
    ]));
    let skips: Vec<_> = followed.statements.iter().map(|one| one.fields.skip).collect();
    let copy = Some(Skip::CopyData);
    assert_eq!(skips, [copy, copy, None, copy, None]);
    let rows: Vec<_> = followed.statements.iter().map(|one| one.fields.rows).collect();
    assert_eq!(rows, [Some(2), Some(2), Some(1), None, Some(1)]);
    assert_eq!(followed.queue.counted.wire.out_of_step, 0);
}

#[test]
fn fastpath_call_has_no_text() {
    let followed = outcome(session(vec![
        Client(message(b'F', b"\0\0\x03\xb8\0\0\0\0\0\0")),
        Server(joined(&[message(b'V', b"\xff\xff\xff\xff"), ready(b'I')])),
    ]));
    assert_eq!(sqls(&followed), ["fastpath function call: (OID 952)"]);
    assert_eq!(followed.statements[0].fields.skip, Some(Skip::FastPath));
}

#[test]
fn text_in_another_encoding_is_skipped() {
    let followed = outcome(session(vec![
        Client(query("set client_encoding to 'LATIN1'")),
        Server(joined(&[
            complete("SET"),
            message(b'S', b"client_encoding\0LATIN1\0"),
            ready(b'I'),
        ])),
        Client(message(b'Q', b"select '\xe4'\0")),
        Server(joined(&[complete("SELECT 1"), ready(b'I')])),
        Client(query("select 'a'")),
        Server(joined(&[complete("SELECT 1"), ready(b'I')])),
    ]));
    let skips: Vec<_> = followed.statements.iter().map(|one| one.fields.skip).collect();
    assert_eq!(skips, [None, Some(Skip::OtherEncoding), None]);
}

#[test]
fn encrypted_and_replication_connections_are_not_read() {
    let ssl = Client(b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec());
    let gss = Client(b"\0\0\0\x08\x04\xd2\x16\x30".to_vec());
    let noise = [0x16, 3, 1, 0, 0, 0, 0, 9];
    let wire = |traffic: Vec<Traffic>| outcome(traffic).queue.counted.wire.clone();
    let encrypted =
        vec![ssl.clone(), Server(b"S".to_vec()), Client(noise.into()), Server(noise.into())];
    assert_eq!(wire(encrypted).encrypted, 1);
    let at_once = vec![Client(noise.into()), Server(noise.into())];
    assert_eq!(wire(at_once).encrypted, 1);
    let replication = startup(&[("user", "me"), ("replication", "database")]);
    let words = joined(&[message(b'R', &[0; 4]), ready(b'I')]);
    let replicated = vec![Client(replication), Server(words), Client(query("IDENTIFY_SYSTEM"))];
    assert_eq!(wire(replicated).replication, 1);
    let cancel = Client(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02".to_vec());
    assert_eq!(wire(vec![cancel]).cancels, 1);
    assert_eq!(wire(vec![Client(b"GET / HTTP/1.1\r\n\r\n".to_vec())]).not_understood, 1);
    // A server that does not encrypt, and one that does not let in.
    let plain = vec![gss, Server(b"N".to_vec()), ssl, Server(b"N".to_vec())];
    let traffic = session(vec![Client(query("select 1"))]);
    let followed = outcome([plain, traffic].concat());
    assert_eq!((followed.queue.counted.wire.encrypted, sqls(&followed)), (0, vec!["select 1"]));
    assert_eq!(followed.queue.counted.wire.unanswered, 1);
    let refused = vec![Client(startup(&[("user", "me")])), Server(error("28P01"))];
    assert_eq!(wire(refused).not_let_in, 1);
}

#[test]
fn unanswered_statements_are_kept() {
    let followed = outcome(session(vec![
        Client(joined(&[
            parse("s", "select $1", &[]),
            bind("", "s", &[Some("1")]),
            execute("", 0),
            sync(),
        ])),
        Server(joined(&[message(b'1', b"")])),
    ]));
    assert_eq!(sqls(&followed), ["select $1"]);
    let fields = &followed.statements[0].fields;
    assert_eq!((fields.duration_us, fields.tag.is_none()), (None, true));
    assert_eq!(followed.statements[0].parameters, [Some("1".to_owned())]);
}

/// A server that was restarted, a pooler, a defect: what was not answered is released, and the
/// session goes on.
#[test]
fn unmatched_answers_are_skipped() {
    let followed = outcome(session(vec![
        Client(joined(&[parse("s", "select 1", &[]), bind("", "s", &[]), execute("", 0), sync()])),
        Server(ready(b'I')),
        Client(query("select 2")),
        Server(joined(&[complete("SELECT 1"), ready(b'I')])),
    ]));
    assert_eq!(sqls(&followed), ["select 2"]);
    assert_eq!((followed.queue.counted.others, followed.queue.counted.wire.out_of_step), (1, 1));
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    let good = session(vec![
        Client(joined(&[
            parse("s", "insert into t values ($1) returning id", &[23]),
            describe('S', "s"),
            bind("p", "s", &[Some("1"), None]),
            describe('P', "p"),
            execute("p", 5),
            message(b'C', b"Pp\0"),
            sync(),
            query("select lastval()"),
        ])),
        Server(joined(&[
            message(b'1', b""),
            message(b't', b"\0\x01\0\0\0\x17"),
            described(&[("id", 20)]),
            message(b'2', b""),
            described(&[("id", 20)]),
            row(&[Some(b"1")]),
            complete("INSERT 0 1"),
            message(b'3', b""),
            ready(b'I'),
            described(&[("lastval", 20)]),
            row(&[Some(b"1")]),
            complete("SELECT 1"),
            ready(b'I'),
        ])),
    ]);
    let mut state = 7u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..4_000 {
        let mut traffic = good.clone();
        for _ in 0..=random(3) {
            let index = random(traffic.len());
            let (Client(bytes) | Server(bytes)) = &mut traffic[index];
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        follow(&traffic, 1 + random(40));
    }
}
