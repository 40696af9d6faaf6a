//! Against the null server, which is another's reading of the protocol.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use seatrial_pgwire::null_server::{Address, NullServer};
use tempfile::TempDir;

use super::*;

/// A connection and its socket.
struct Client {
    stream: UnixStream,
    connection: Connection,
    buffered: Vec<u8>,
}

impl Client {
    fn connect(server: &NullServer) -> Client {
        let path = format!("{}/.s.PGSQL.{}", server.host(), server.port());
        let mut out = Vec::new();
        let connection = Connection::new(&who(), &mut out);
        let stream = UnixStream::connect(path).unwrap();
        let mut client = Client { stream, connection, buffered: Vec::new() };
        client.stream.write_all(&out).unwrap();
        assert_eq!(client.wait(), [ConnectionEvent::Ready]);
        client
    }

    fn wait(&mut self) -> Vec<ConnectionEvent> {
        let (mut events, mut piece) = (Vec::new(), [0; 512]);
        while events.is_empty() {
            let read = self.stream.read(&mut piece).unwrap();
            if read == 0 {
                return vec![self.connection.hung_up(&self.buffered)];
            }
            self.buffered.extend_from_slice(&piece[..read]);
            let mut out = Vec::new();
            let taken = self.connection.take_in(&self.buffered, &mut out, &mut events);
            self.buffered.drain(..taken);
            self.stream.write_all(&out).unwrap();
        }
        events
    }

    fn ask(&mut self, item: &Item) -> Answer {
        let mut out = Vec::new();
        assert_eq!(self.connection.send(item, &mut out), SendOutcome::Sent);
        self.stream.write_all(&out).unwrap();
        match &self.wait()[..] {
            [ConnectionEvent::Answer(answer)] => answer.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_session_is_played_to_the_null_server() {
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let address = Address::Folder(folder.path().to_path_buf());
    let server = NullServer::start(&address, "15.20", 2).unwrap();
    let mut client = Client::connect(&server);
    let update = item(Protocol::Extended, "u", "update t set a = $1", &[Some("1")]);
    let steps = [
        (simple("begin"), "BEGIN", None, TransactionStatus::Active),
        (named("", "select 1"), "SELECT", Some(1), TransactionStatus::Active),
        (update.clone(), "UPDATE", Some(1), TransactionStatus::Active),
        (update, "UPDATE", Some(1), TransactionStatus::Active),
        (simple("commit; select 1; select 2"), "SELECT", Some(2), TransactionStatus::Idle),
    ];
    for (item, tag, rows, status) in steps {
        let answer = client.ask(&item);
        assert_eq!((answer.tag.words(), answer.rows), (tag.as_bytes(), rows));
        assert_eq!((answer.status, answer.error), (status, None));
    }
    let refused = client.ask(&named("c", "copy t from stdin"));
    assert_eq!(refused.error.map(|error| error.sqlstate), Some(*b"0A000"));
    let others = Client::connect(&server);
    server.stop();
    assert!(matches!(&client.wait()[..], [ConnectionEvent::Lost(_)]));
    drop(others);
    assert_eq!(server.statements(), 8);
}
