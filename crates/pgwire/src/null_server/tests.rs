//! The session spoken to by the client's side of postgres-protocol, and the server by sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;
use proptest::prelude::*;
use tempfile::TempDir;

use super::session::{Session, SessionState};
use super::*;

/// What the server said, a word or two a message.
fn words_of(bytes: &[u8]) -> Vec<String> {
    let mut rest = BytesMut::from(bytes);
    let mut words = Vec::new();
    while let Some(message) = Message::parse(&mut rest).unwrap() {
        words.push(word(&message));
    }
    assert!(rest.is_empty(), "{rest:?}");
    words
}

fn word(message: &Message) -> String {
    match message {
        Message::AuthenticationOk => "startup".to_owned(),
        Message::ParameterStatus(body) => {
            format!("{}={}", body.name().unwrap(), body.value().unwrap())
        }
        Message::BackendKeyData(_) => "key".to_owned(),
        Message::ReadyForQuery(body) => format!("ready {}", char::from(body.status())),
        Message::RowDescription(body) => {
            let mut names = Vec::new();
            let mut fields = body.fields();
            while let Some(field) = next(&mut fields) {
                names.push(field.name().to_owned());
            }
            format!("columns {}", names.join(","))
        }
        Message::DataRow(body) => {
            let mut values = Vec::new();
            let mut ranges = body.ranges();
            while let Some(range) = next(&mut ranges) {
                let text = |range| String::from_utf8_lossy(&body.buffer()[range]).into_owned();
                values.push(range.map_or("NULL".to_owned(), text));
            }
            format!("row {}", values.join(","))
        }
        Message::CommandComplete(body) => body.tag().unwrap().to_owned(),
        Message::EmptyQueryResponse => "empty".to_owned(),
        Message::ParseComplete => "parsed".to_owned(),
        Message::BindComplete => "bound".to_owned(),
        Message::CloseComplete => "closed".to_owned(),
        Message::NoData => "no rows".to_owned(),
        Message::ParameterDescription(body) => {
            let mut parameters = body.parameters();
            let count = std::iter::from_fn(|| next(&mut parameters)).count();
            format!("parameters {count}")
        }
        Message::ErrorResponse(body) => format!("error {}", code(body.fields())),
        _ => "something else".to_owned(),
    }
}

/// The next of an iterator that may fail; the tests' messages are whole.
fn next<I: FallibleIterator>(iterator: &mut I) -> Option<I::Item> {
    iterator.next().unwrap_or_else(|_| panic!("a damaged message"))
}

fn code(mut fields: ErrorFields<'_>) -> String {
    let field = std::iter::from_fn(|| next(&mut fields)).find(|field| field.type_() == b'C');
    field
        .map_or_else(String::new, |field| String::from_utf8_lossy(field.value_bytes()).into_owned())
}

/// What the client says, by what `fill` writes.
fn said(fill: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut buffer = BytesMut::new();
    fill(&mut buffer);
    buffer
}

fn startup() -> BytesMut {
    said(|out| frontend::startup_message([("user", "x"), ("database", "y")], out).unwrap())
}

fn query(text: &str) -> BytesMut {
    said(|out| frontend::query(text, out).unwrap())
}

/// A session that is ready for queries.
fn session() -> Session {
    let mut session = Session::new("15.20".into());
    let mut out = Vec::new();
    let start = startup();
    assert_eq!(session.take_in(&start, &mut out), (start.len(), SessionState::Open));
    session
}

fn answers(session: &mut Session, input: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    let (taken, next) = session.take_in(input, &mut out);
    assert_eq!((taken, next), (input.len(), SessionState::Open));
    words_of(&out)
}

fn bind(portal: &str, statement: &str, parameters: &[&str], out: &mut BytesMut) {
    let write = |value: &&str, out: &mut BytesMut| {
        out.extend_from_slice(value.as_bytes());
        Ok(postgres_protocol::IsNull::No)
    };
    assert!(frontend::bind(portal, statement, [], parameters, write, [], out).is_ok());
}

#[test]
fn a_client_is_let_in_and_sent_the_version() {
    let mut session = Session::new("15.20".into());
    let mut out = Vec::new();
    let ssl = said(frontend::ssl_request);
    assert_eq!(session.take_in(&ssl, &mut out), (8, SessionState::Open));
    assert_eq!(out, b"N");
    out.clear();
    session.take_in(&startup(), &mut out);
    let words = words_of(&out);
    assert_eq!((words[0].as_str(), words[1].as_str()), ("startup", "server_version=15.20"));
    assert_eq!(words.last().map(String::as_str), Some("ready I"));
}

#[test]
fn a_newer_minor_version_of_the_protocol_is_negotiated_down() {
    let mut session = Session::new("18.6".into());
    let mut newer = startup();
    newer[4..8].copy_from_slice(&((3u32 << 16) | 2).to_be_bytes());
    let mut out = Vec::new();
    session.take_in(&newer, &mut out);
    assert_eq!(out[..13], [b'v', 0, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!(words_of(&out[13..])[0], "startup");
}

#[test]
fn what_is_no_client_is_sent_away() {
    let away = |bytes: &[u8]| {
        let mut out = Vec::new();
        let (_, next) = Session::new("15.20".into()).take_in(bytes, &mut out);
        (next, words_of(&out))
    };
    let error = |code: &str| (SessionState::Close, vec![format!("error {code}")]);
    assert_eq!(away(b"GET / HTTP/1.1\r\n\r\n"), error("08P01"));
    assert_eq!(away(&[0, 0, 0, 8, 0, 2, 0, 0]), error("0A000"));
    assert_eq!(away(&[0, 0, 0, 2]), error("08P01"));
    let cancel = said(|out| frontend::cancel_request(1, 2, out));
    assert_eq!(away(&cancel), (SessionState::Close, vec![]));
}

#[test]
fn a_transaction_of_pgbench_is_answered_statement_by_statement() {
    let mut session = session();
    let mut ask = |text: &str| answers(&mut session, &query(text)).join("; ");
    assert_eq!(ask("BEGIN;"), "BEGIN; ready T");
    assert_eq!(ask("UPDATE t SET a = a + 1 WHERE b = 7;"), "UPDATE 1; ready T");
    assert_eq!(
        ask("SELECT abalance FROM pgbench_accounts WHERE aid = 1;"),
        "columns abalance; row 1; SELECT 1; ready T"
    );
    assert_eq!(ask("INSERT INTO t (a) VALUES (1);"), "INSERT 0 1; ready T");
    assert_eq!(ask("END;"), "COMMIT; ready I");
}

#[test]
fn several_statements_are_answered_at_once() {
    let mut session = session();
    let words =
        answers(&mut session, &query("begin; select 1 as a\n; ; update t set a = ';'; end"));
    let wanted = ["BEGIN", "columns a", "row 1", "SELECT 1", "UPDATE 1", "COMMIT", "ready I"];
    assert_eq!(words, wanted);
    assert_eq!(session.statements_count, 4);
    assert_eq!(answers(&mut session, &query(" -- nothing ")), ["empty", "ready I"]);
}

#[test]
fn what_pgbench_asks_first_is_answered() {
    let mut session = session();
    let scale = answers(&mut session, &query("select count(*) from pgbench_branches"));
    assert_eq!(scale[..2], ["columns count", "row 1"]);
    let partitions = "select o.n, p.partstrat, pg_catalog.count(i.inhparent) \
        from pg_catalog.pg_class as c left join pg_catalog.pg_partitioned_table as p on true";
    let words = answers(&mut session, &query(partitions));
    assert_eq!(words[..2], ["columns n,partstrat,count", "row 1,NULL,0"]);
    assert_eq!(answers(&mut session, &query("vacuum pgbench_branches"))[0], "VACUUM");
    assert_eq!(answers(&mut session, &query("truncate pgbench_history"))[0], "TRUNCATE TABLE");
    let version = answers(&mut session, &query("SHOW server_version_num"));
    assert_eq!(version[..2], ["columns server_version_num", "row 150020"]);
}

#[test]
fn prepared_statements_are_bound_described_and_executed() {
    let mut session = session();
    let parse = said(|out| {
        frontend::parse("P0_1", "SELECT a FROM t WHERE b = $1 AND c = $2", [], out).unwrap();
        frontend::describe(b'S', "P0_1", out).unwrap();
        frontend::sync(out);
    });
    let wanted = ["parsed", "parameters 2", "columns a", "ready I"];
    assert_eq!(answers(&mut session, &parse), wanted);
    let run = said(|out| {
        bind("", "P0_1", &["1", "2"], out);
        frontend::describe(b'P', "", out).unwrap();
        frontend::execute("", 0, out).unwrap();
        frontend::close(b'P', "", out).unwrap();
        frontend::sync(out);
    });
    let wanted = ["bound", "columns a", "row 1", "SELECT 1", "closed", "ready I"];
    for _ in 0..2 {
        assert_eq!(answers(&mut session, &run), wanted);
    }
}

#[test]
fn after_an_error_everything_is_passed_over_up_to_the_next_sync() {
    let mut session = session();
    answers(&mut session, &query("BEGIN"));
    let pipeline = said(|out| {
        bind("", "nobody", &[], out);
        frontend::execute("", 0, out).unwrap();
        frontend::parse("", "SELECT 1", [], out).unwrap();
        frontend::sync(out);
        frontend::parse("", "ROLLBACK", [], out).unwrap();
        bind("", "", &[], out);
        frontend::describe(b'P', "", out).unwrap();
        frontend::execute("", 0, out).unwrap();
        frontend::sync(out);
    });
    let wanted = ["error 26000", "ready E", "parsed", "bound", "no rows", "ROLLBACK", "ready I"];
    assert_eq!(answers(&mut session, &pipeline), wanted);
}

#[test]
fn a_copy_is_refused() {
    let mut session = session();
    let words = answers(&mut session, &query("COPY t FROM STDIN; SELECT 1"));
    assert_eq!(words, ["error 0A000", "ready I"]);
}

#[test]
fn a_client_may_leave_and_a_stranger_must() {
    let mut out = Vec::new();
    assert_eq!(session().take_in(&said(frontend::terminate), &mut out), (5, SessionState::Close));
    assert!(out.is_empty());
    assert_eq!(session().take_in(b"?\0\0\0\x04", &mut out), (5, SessionState::Close));
    assert_eq!(words_of(&out), ["error 08P01"]);
    out.clear();
    assert_eq!(session().take_in(b"Q\xff\0\0\0", &mut out).1, SessionState::Close);
}

proptest! {
    /// However the bytes are cut: the answers are the same.
    #[test]
    fn messages_may_come_in_pieces(cuts in proptest::collection::vec(1usize..40, 1..40)) {
        let whole = said(|out| {
            frontend::query("begin; select a, b from t", out).unwrap();
            frontend::parse("s", "insert into t values ($1)", [], out).unwrap();
            bind("", "s", &["seven"], out);
            frontend::execute("", 0, out).unwrap();
            frontend::sync(out);
            frontend::query("end", out).unwrap();
        });
        let mut at_once = Vec::new();
        session().take_in(&whole, &mut at_once);
        let (mut session, mut pieces, mut named) = (session(), Vec::new(), Vec::new());
        let mut rest = &whole[..];
        for cut in cuts.iter().copied().chain([whole.len()]) {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            named.extend_from_slice(piece);
            let (taken, _) = session.take_in(&named, &mut pieces);
            named.drain(..taken);
            rest = later;
        }
        prop_assert_eq!(pieces, at_once);
    }

    #[test]
    fn any_bytes_are_survived_by_a_session(
        kind in any::<u8>(),
        body in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(&body);
        session().take_in(&message, &mut Vec::new());
    }
}

fn private_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn start(address: &Address, connections_max: usize) -> NullServer {
    NullServer::start(address, "15.20", connections_max).unwrap()
}

/// Says something and returns what comes back, up to `ready`.
fn exchange(stream: &mut (impl Read + Write), input: &[u8]) -> Vec<String> {
    stream.write_all(input).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.ends_with(b"Z\0\0\0\x05I") {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the server hung up");
        answer.extend_from_slice(&piece[..read]);
    }
    words_of(&answer)
}

/// Says who it is and waits until it is let in.
fn enter(stream: &mut (impl Read + Write)) {
    let words = exchange(stream, &startup());
    assert_eq!(words.last().map(String::as_str), Some("ready I"));
}

/// Whether the other end has hung up.
fn is_cut_off(stream: &mut impl Read) -> bool {
    matches!(stream.read(&mut [0; 4096]), Ok(0) | Err(_))
}

#[test]
fn clients_are_served_by_socket_and_by_port_until_the_server_stops() {
    let folder = private_folder();
    let by_socket = start(&Address::Folder(folder.path().to_path_buf()), 4);
    let by_port = start(&Address::Loopback(0), 4);
    let path = folder.path().join(".s.PGSQL.5432");
    assert_eq!((by_socket.host(), by_socket.port()), (&*folder.path().to_string_lossy(), 5432));
    let mut unix = UnixStream::connect(&path).unwrap();
    let mut tcp = TcpStream::connect((by_port.host(), by_port.port())).unwrap();
    enter(&mut unix);
    enter(&mut tcp);
    let wanted = ["columns a", "row 1", "SELECT 1", "ready I"];
    assert_eq!(exchange(&mut unix, &query("select a")), wanted);
    assert_eq!(exchange(&mut tcp, &query("select a")), wanted);
    assert_eq!((by_socket.connections(), by_socket.cpu_ns()), (1, 0));
    by_socket.stop();
    by_socket.stop();
    assert_eq!(by_socket.statements(), 1);
    assert!(by_socket.cpu_ns() > 0);
    assert!(is_cut_off(&mut unix) && !path.exists());
    drop(by_port);
    assert!(is_cut_off(&mut tcp));
}

#[test]
fn more_clients_than_allowed_get_an_error_and_a_place_is_given_again() {
    let server = start(&Address::Loopback(0), 1);
    let connect = || TcpStream::connect((server.host(), server.port())).unwrap();
    let mut first = connect();
    enter(&mut first);
    let mut refusal = Vec::new();
    let _ = connect().read_to_end(&mut refusal);
    assert_eq!(words_of(&refusal), ["error 53300"]);
    drop(first);
    // The server sees that the first has left before it can be asked for the next.
    for _ in 0..100 {
        let mut next = connect();
        next.write_all(&startup()).unwrap();
        let mut head = [0];
        if next.read(&mut head).is_ok_and(|read| read == 1) && head == *b"R" {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the place was never given again");
}

/// 100,000 answers, of which nothing is taken until all was requested.
#[test]
fn a_client_that_does_not_listen_loses_nothing() {
    let folder = private_folder();
    let server = start(&Address::Folder(folder.path().to_path_buf()), 4);
    let mut stream = UnixStream::connect(folder.path().join(".s.PGSQL.5432")).unwrap();
    enter(&mut stream);
    let mut speaker = stream.try_clone().unwrap();
    let requests = std::thread::spawn(move || {
        let one = query("select a, b, c");
        (0..100_000).for_each(|_| speaker.write_all(&one).unwrap());
    });
    std::thread::sleep(Duration::from_millis(100));
    let (mut answers, mut named, mut piece) = (0, Vec::new(), vec![0; 1 << 16]);
    let end = b"Z\0\0\0\x05I";
    while answers < 100_000 {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the server hung up after {answers} answers");
        named.extend_from_slice(&piece[..read]);
        let found: Vec<usize> = memchr::memmem::find_iter(&named, end).collect();
        answers += found.len();
        named.drain(..found.last().map_or(0, |last| last + end.len()));
    }
    requests.join().unwrap();
    assert!(named.is_empty());
    server.stop();
    assert_eq!(server.statements(), 100_000);
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let folder = private_folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let address = Address::Folder(folder.path().to_path_buf());
    let refused = NullServer::start(&address, "15.20", 4);
    assert!(matches!(refused, Err(NullServerError::OpenFolder { mode: 0o755, .. })));
    let missing = Address::Folder(folder.path().join("missing"));
    assert!(matches!(NullServer::start(&missing, "15.20", 4), Err(NullServerError::Io { .. })));
    let unversioned = NullServer::start(&Address::Loopback(0), "new", 4);
    assert!(matches!(unversioned, Err(NullServerError::Version(_))));
}

#[test]
fn a_socket_that_is_in_use_is_not_taken_over() {
    let folder = private_folder();
    let address = Address::Folder(folder.path().to_path_buf());
    let first = start(&address, 4);
    assert!(NullServer::start(&address, "15.20", 4).is_err());
    drop(first);
    assert!(NullServer::start(&address, "15.20", 4).is_ok());
}
