//! Bytes through a proxy, between clients and a server that are as awkward as may be.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use seatrial_trace::Columns;
use seatrial_trace::captured::{Protocol, Session, SessionId};
use tempfile::TempDir;

use super::trace_queue::{QUEUE_BYTES_MAX, Shared, StatementFields};
use super::*;

const WAIT: Duration = Duration::from_secs(30);

/// Neither side's buffers hold so much.
const MUCH_BYTES: usize = 24 << 20;

/// What some bytes are that are distinguished by their place.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|index| ((index * 31 + index / 251 + seed * 7) % 253) as u8).collect()
}

struct TestCapture {
    capture: Capture,
    folder: TempDir,
    server: TcpListener,
}

impl TestCapture {
    fn new() -> TestCapture {
        let folder = TempDir::new().unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let spec = serde_json::json!({
            "listen": [{"port": 0}],
            "server": {"host": "127.0.0.1", "port": port},
            "output": folder.path().join("t.trace"),
        });
        let capture = Capture::start(CaptureSpec::parse(&spec.to_string()).unwrap()).unwrap();
        TestCapture { capture, folder, server }
    }

    /// A client and the server's end of its connection.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(&self.capture.addresses()[0]).unwrap();
        let (server, _) = self.server.accept().unwrap();
        for each in [&client, &server] {
            each.set_read_timeout(Some(WAIT)).unwrap();
        }
        (client, server)
    }

    fn end(&self) -> Captured {
        self.capture.stop();
        assert!(self.capture.wait(WAIT));
        self.capture.take_result().unwrap().unwrap()
    }
}

fn read_all(mut from: TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    from.read_to_end(&mut read).unwrap();
    read
}

/// A server that reads nothing for a while, and a client likewise: nothing is lost, and what is not
/// the protocol's is passed on like all else.
#[test]
fn bulk_traffic_passes_both_directions_with_slow_readers() {
    let capture_under_test = TestCapture::new();
    let (client, server) = capture_under_test.connect();
    let (up, down) = (pattern(MUCH_BYTES, 1), pattern(MUCH_BYTES, 2));
    let (mut to_server, mut to_client) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (sent_up, sent_down) = (up.clone(), down.clone());
    let writers = [
        thread::spawn(move || {
            to_server.write_all(&sent_up).unwrap();
            to_server.shutdown(Shutdown::Write).unwrap();
        }),
        thread::spawn(move || {
            to_client.write_all(&sent_down).unwrap();
            to_client.shutdown(Shutdown::Write).unwrap();
        }),
    ];
    thread::sleep(Duration::from_millis(300));
    let reader = thread::spawn(move || read_all(server));
    // The server hangs up when all is traffic: only then may the client find the end.
    let got_up = reader.join().unwrap();
    let got_down = read_all(client);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(got_up == up, "{} of {} bytes", got_up.len(), up.len());
    assert!(got_down == down, "{} of {} bytes", got_down.len(), down.len());
    let seen = capture_under_test.end().origin.capture;
    assert_eq!((seen.connections, seen.not_understood), (1, 1));
    let passed = (seen.to_server_bytes, seen.to_clients_bytes);
    assert_eq!(passed, (MUCH_BYTES as u64, MUCH_BYTES as u64));
}

/// A client may say that it has no more to say, and still wants to read.
#[test]
fn half_closed_client_still_gets_its_answer() {
    let capture_under_test = TestCapture::new();
    let (mut client, mut server) = capture_under_test.connect();
    client.write_all(b"bye").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    server.read_to_end(&mut heard).unwrap();
    server.write_all(b"farewell").unwrap();
    drop(server);
    assert_eq!((&heard[..], &read_all(client)[..]), (&b"bye"[..], &b"farewell"[..]));
    capture_under_test.end();
}

#[test]
fn closing_one_side_closes_the_other() {
    let capture_under_test = TestCapture::new();
    let (client, server) = capture_under_test.connect();
    drop(client);
    assert_eq!(read_all(server), b"");
    let (mut client, server) = capture_under_test.connect();
    drop(server);
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
    // And all of them when the capture ends.
    let (client, server) = capture_under_test.connect();
    assert_eq!(capture_under_test.end().origin.capture.connections, 3);
    assert_eq!((read_all(client), read_all(server)), (vec![], vec![]));
}

/// A socket in a folder that nobody listens at any more is taken over, another one is not.
#[test]
fn stale_unix_socket_is_replaced_and_a_live_one_is_not() {
    let capture_under_test = TestCapture::new();
    let spec = |name: &str| {
        let folder = capture_under_test.folder.path();
        serde_json::json!({
            "listen": [{"host": folder, "port": 7}],
            "server": {"host": "127.0.0.1", "port": 1},
            "output": folder.join(name),
        })
        .to_string()
    };
    let socket = capture_under_test.folder.path().join(".s.PGSQL.7");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let first = Capture::start(CaptureSpec::parse(&spec("a.trace")).unwrap()).unwrap();
    let second = Capture::start(CaptureSpec::parse(&spec("b.trace")).unwrap());
    assert!(matches!(second, Err(CaptureError::Listen { .. })));
    first.stop();
    assert!(first.wait(WAIT));
    assert!(!socket.exists());
    assert!(!capture_under_test.folder.path().join("b.trace.part").exists());
}

/// A name may stand for several addresses, of which not all answer.
#[test]
fn specified_server_address_is_used() {
    let folder = TempDir::new().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let spec = serde_json::json!({
        "listen": [{"port": 0}],
        "server": {"host": "server.invalid", "port": port, "address": "127.0.0.1"},
        "output": folder.path().join("t.trace"),
    });
    let capture = Capture::start(CaptureSpec::parse(&spec.to_string()).unwrap()).unwrap();
    let capture_under_test = TestCapture { capture, folder, server };
    let (mut client, mut server) = capture_under_test.connect();
    client.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    let files = capture_under_test.end().origin.origin.files;
    assert!(files[0].path.contains("server.invalid"), "{}", files[0].path);
}

/// On Linux a socket can only be connected to by those who may write it.
#[test]
fn unix_socket_is_private_to_its_owner() {
    let folder = TempDir::new().unwrap();
    let spec = listen::ListenSpec { host: Some(folder.path().to_str().unwrap().into()), port: 7 };
    let _listener = Listener::open(&spec).unwrap();
    let about = std::fs::metadata(folder.path().join(".s.PGSQL.7")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
}

/// Of a statement at which a defect of ours shows nothing is left in the batch.
#[test]
fn panic_at_one_statement_keeps_the_others() {
    let (batches, received) = channel();
    let mut queue = TraceQueue::new(batches, Arc::default());
    queue.begin_session(&Session::default());
    queue.statement(fields(1), b"", b"select 1", None, |_| (0, None));
    let fails =
        |_: &mut Vec<u8>| -> (usize, Option<seatrial_trace::captured::Skip>) { panic!("a defect") };
    let failed = catch_unwind(AssertUnwindSafe(|| {
        queue.statement(fields(2), b"name", b"select 2", Some(b"23 0"), fails);
    }));
    assert!(failed.is_err());
    queue.statement(fields(3), b"", b"select 3", None, |_| (0, None));
    queue.flush();
    queue.statement(fields(4), b"", b"select 4", None, |_| (0, None));
    queue.flush();
    let bytes: Vec<Vec<u8>> = received.try_iter().map(|batch| batch.bytes).collect();
    assert_eq!(bytes, [&b"select 1select 3"[..], b"select 4"]);
}

/// What was counted and what was written differ: the trace is whole, and it is reported.
#[test]
fn mismatch_is_reported_and_the_trace_kept() {
    let mut counted = message_counts::MessageCounts {
        records: 9,
        statements: 5,
        executable: 5,
        ..Default::default()
    };
    let written = seatrial_trace::Counts { statements: 3, executable: 3, ..Default::default() };
    let fault = counted.clone().settle(&written).unwrap();
    assert!(fault.contains("9 messages, of which 5"), "{fault}");
    counted.settle(&written);
    assert_eq!((counted.records, counted.accounted(), counted.statements), (9, 9, 3));
    assert_eq!((counted.not_understood, counted.wire.defects), (6, 1));
    assert_eq!(counted.settle(&written), None);
}

fn fields(start_us: i64) -> StatementFields {
    StatementFields {
        session: SessionId(0),
        start_us,
        duration_us: None,
        protocol: Protocol::Simple,
        transaction: 0,
        rows: None,
        tag: None,
        returned: None,
        error: None,
        skip: None,
    }
}

/// Nobody takes the batches: memory is bounded, and what has no room is counted.
#[test]
fn slow_writer_does_not_delay_forwarding() {
    let (batches, received) = channel();
    let shared = Arc::<Shared>::default();
    let mut queue = TraceQueue::new(batches, shared.clone());
    queue.begin_session(&Session::default());
    let sql = vec![b'x'; 1 << 20];
    let count = 3 * (QUEUE_BYTES_MAX >> 20) as u64;
    for number in 0..count {
        queue.statement(fields(number as i64), b"", &sql, None, |_| (0, None));
    }
    queue.flush();
    let queued = shared.queued_bytes.load(Ordering::Relaxed);
    assert!(queued < QUEUE_BYTES_MAX + (4 << 20), "{queued} bytes are queued");
    let (kept, left_out) = (queue.counted.statements, queue.counted.writer_behind);
    assert_eq!(kept + left_out, count);
    assert!(kept > count / 5 && left_out > count / 5, "{kept} kept, {left_out} left out");
    assert_eq!(shared.left_out.load(Ordering::Relaxed), left_out);
    // When it has caught up, it goes on.
    let taken: usize = received.try_iter().map(|batch| batch.queued_bytes).sum();
    shared.queued_bytes.fetch_sub(taken, Ordering::Relaxed);
    queue.statement(fields(0), b"", &sql, None, |_| (0, None));
    assert_eq!(queue.counted.statements, kept + 1);
}

/// A disk that is full: what was secured before can be had, and passing goes on.
#[test]
fn checkpoint_survives_a_full_disk() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let writer = TraceWriter::create(&path, None).unwrap();
    let (batches, received) = channel();
    let shared = Arc::<Shared>::default();
    let mut queue = TraceQueue::new(batches, shared.clone());
    queue.begin_session(&Session::default());
    queue.statement(fields(5), b"", b"select 1", None, |_| (0, None));
    queue.flush();
    let origin = |_: &_, _| -> CaptureOrigin {
        let spec =
            r#"{"listen": [{"port": 1}], "server": {"host": "x", "port": 2}, "output": "t"}"#;
        let counts = seatrial_trace::Counts::default();
        CaptureOrigin::cut_off(&CaptureSpec::parse(spec).unwrap(), "here", &counts, None)
    };
    let every = Duration::from_millis(50);
    let recording = thread::scope(|scope| {
        let own = shared.clone();
        let recorder =
            scope.spawn(move || recorder::record(writer, &received, &own, every, origin));
        while !seatrial_trace::checkpoint::was_cut_off(&path) {
            thread::sleep(Duration::from_millis(5));
        }
        // A statement of a session that was never announced is refused, as a full disk would be.
        queue.statement(
            StatementFields { session: SessionId(9), ..fields(6) },
            b"",
            b"select 2",
            None,
            |_| (0, None),
        );
        queue.flush();
        recorder.join().unwrap()
    });
    assert!(recording.is_err() && shared.has_failed.load(Ordering::Relaxed));
    queue.statement(fields(7), b"", b"select 3", None, |_| (0, None));
    assert_eq!(queue.counted.writer_behind, 1);
    let trace = seatrial_trace::checkpoint::recover(&path).unwrap();
    assert_eq!(trace.counts().statements, 1);
    let mut rows = trace.statements(Columns::All);
    assert_eq!(rows.next_statement().unwrap().unwrap().statement.sql, b"select 1");
}
