//! A pair between two sockets that do what is scripted, event by event.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::CreateFlags;
use rustix::net::SocketAddrUnix;
use tempfile::TempDir;

use super::*;

/// A pair, and what is at its two ends.
struct Bench {
    pair: Pair,
    epoll: OwnedFd,
    client: UnixStream,
    server: Option<UnixStream>,
    queue: TraceQueue,
    buffer: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let (client, near) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let address = Address::Unix(SocketAddrUnix::new(&path).unwrap());
        let far = new_socket(&address).unwrap();
        let pair = Pair::open(near.into(), far, &address, &epoll, 0).map_err(|(_, error)| error);
        let (server, _) = listener.accept().unwrap();
        let queue = TraceQueue::new(channel().0, Default::default());
        let buffer = vec![0; 64 << 10];
        Bench { pair: pair.unwrap(), epoll, client, server: Some(server), queue, buffer }
    }

    fn serve(&mut self, side: Side, flags: EventFlags) -> PairState {
        self.pair.serve(side, flags, &self.epoll, &mut self.buffer, &mut self.queue)
    }

    /// Serves what there is: how many events that were, and whether the pair lasts.
    fn settle(&mut self) -> (usize, PairState) {
        let (mut count, mut events) = (0, Vec::with_capacity(8));
        while count < 1_000 {
            let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&soon)).unwrap();
            if events.is_empty() {
                return (count, PairState::Open);
            }
            for event in events.drain(..) {
                count += 1;
                let (_, side) = Side::of(event.data);
                if self.serve(side, event.flags) != PairState::Open {
                    return (count, PairState::Closed);
                }
            }
        }
        (count, PairState::Open)
    }
}

/// Writes until nothing more is taken: how much that was.
fn fill(socket: &mut UnixStream) -> usize {
    socket.set_nonblocking(true).unwrap();
    let mut written = 0;
    loop {
        match socket.write(&[7; 8 << 10]) {
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn backpressure_stops_reading() {
    let mut bench = Bench::new();
    let (mut from_client, mut from_server) = (0, 0);
    loop {
        let (client, server) = (fill(&mut bench.client), fill(bench.server.as_mut().unwrap()));
        if client + server == 0 {
            break;
        }
        (from_client, from_server) = (from_client + client, from_server + server);
        let (count, _) = bench.settle();
        assert!(count < 1_000, "{count} events");
    }
    let unsent = (bench.pair.client.unsent.len(), bench.pair.server.unsent.len());
    assert!(unsent.0 > 0 && unsent.1 > 0, "{unsent:?} bytes wait on either side");
    assert_eq!(bench.settle(), (0, PairState::Open));
    // And all of it arrives when both read again.
    let mut server = bench.server.take().unwrap();
    let mut buffer = vec![0; 64 << 10];
    bench.client.set_nonblocking(true).unwrap();
    while from_client + from_server > 0 {
        bench.settle();
        from_server -= bench.client.read(&mut buffer).unwrap_or(0);
        from_client -= server.read(&mut buffer).unwrap_or(0);
    }
}

#[test]
fn last_bytes_of_a_server_reach_a_sending_client() {
    let mut bench = Bench::new();
    let mut server = bench.server.take().unwrap();
    server.write_all(b"rows, and FATAL").unwrap();
    drop(server);
    bench.client.write_all(b"one more query").unwrap();
    // What the client sends is seen first, and cannot be passed on.
    assert_eq!(bench.serve(Side::Client, EventFlags::IN), PairState::Open);
    bench.client.write_all(b"and another one").unwrap();
    assert_eq!(bench.serve(Side::Client, EventFlags::IN), PairState::Open);
    assert_eq!(bench.settle().1, PairState::Closed);
    let Bench { pair, mut client, .. } = bench;
    drop(pair);
    let mut heard = vec![0; 99];
    let length = client.read(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"rows, and FATAL");
}

#[test]
fn last_bytes_of_a_closed_client_reach_the_server() {
    let mut bench = Bench::new();
    let mut server = bench.server.take().unwrap();
    bench.client.write_all(b"COMMIT").unwrap();
    let (client, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut bench.client, client));
    server.write_all(b"a notice that nobody hears").unwrap();
    assert_eq!(bench.serve(Side::Server, EventFlags::IN), PairState::Open);
    assert_eq!(bench.settle().1, PairState::Closed);
    let mut heard = vec![0; 99];
    let length = server.read(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"COMMIT");
}
