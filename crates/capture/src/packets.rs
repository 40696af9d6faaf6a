//! A capture from packets: nothing stands between clients and server. The kernel hands over copies
//! of the packets of the server's port, and the streams that they are parts of are put together
//! again; what is said on them is read as the proxy reads it.
//!
//! **What can be missing, and how it is known.** The ring may be full: the kernel counts the
//! packets that it dropped. What a packet brought is missing for certain once the other side
//! acknowledges more than was seen. The session then ends in the trace, as what its client has
//! prepared and which transaction is open are not known any more, and another one begins at the
//! next moment at which the server is ready and no transaction is open. A connection that was there
//! before the capture is joined at such a moment too. Each of these is counted ([`seen`]).
//!
//! **Times** are the kernel's, of each packet, so that nothing depends on when they are read.
//!
//! Memory: the ring; what came ahead of what is missing, at most [`stream::HELD_BYTES_MAX`] for all
//! connections; and what is held of each connection, as the proxy does, of
//! [`connections::CONNECTIONS_MAX`] at most.
//!
//! | part | rule |
//! |---|---|
//! | [`ring`], [`filter`] | packets from the kernel |
//! | [`mod@file`] | packets from a file of tcpdump or Wireshark |
//! | [`segment`] | what the headers of a packet say |
//! | [`stream`] | one direction of a connection, in order |
//! | [`connection`] | both directions, and where reading begins again |
//! | [`connections`] | all of them |
//! | [`seen`] | what was counted |

pub mod connection;
pub mod connections;
pub mod file;
pub mod filter;
pub mod ring;
pub mod seen;
pub mod segment;
pub mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::keeper::{HELD_BYTES_MAX, Keeper, Shared};
use super::spec::WhereSpec;
use super::tally::Tally;
use connections::Connections;
use file::{FileError, PacketFile};
use ring::Ring;
use segment::Segment;

/// The wait for what the kernel has yet to hand over when the capture ends, at most.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// How often what has come is handed on where little comes.
const HAND_ON_NS: i64 = 100_000_000;

/// Whose packets are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its port.
    pub port: u16,
    /// Its addresses; empty for any.
    pub addresses: Vec<IpAddr>,
}

impl Endpoint {
    /// The server at a place; a name stands for all of its addresses, none for any.
    ///
    /// # Errors
    ///
    /// When the name is not known.
    pub fn of(place: &WhereSpec) -> io::Result<Endpoint> {
        let port = place.port;
        if place.host.is_empty() {
            return Ok(Endpoint { port, addresses: Vec::new() });
        }
        let found = (place.host.as_str(), port).to_socket_addrs()?;
        Ok(Endpoint { port, addresses: found.map(|each| each.ip()).collect() })
    }

    fn is_at(&self, address: IpAddr, port: u16) -> bool {
        port == self.port && (self.addresses.is_empty() || self.addresses.contains(&address))
    }
}

/// Time of packets, which is the wall clock's, without the steps that the wall clock makes.
#[derive(Debug)]
struct Steady {
    began: Instant,
    began_us: i64,
    stepped_us: i64,
}

impl Steady {
    fn start() -> Steady {
        Steady { began: Instant::now(), began_us: wall_us(), stepped_us: 0 }
    }

    /// Finds out how far the wall clock has gone astray since the start.
    fn look(&mut self) {
        self.stepped_us = wall_us() - self.began_us - self.began.elapsed().as_micros() as i64;
    }
}

fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}

/// A capture from the kernel's ring that is yet to begin.
pub struct Sniffer {
    ring: Ring,
    connections: Connections,
    wake: Arc<OwnedFd>,
    keeper: Keeper,
}

impl Sniffer {
    /// A capture of connections' packets; `wake` ends it when it becomes readable.
    pub fn new(
        ring: Ring,
        connections: Connections,
        wake: Arc<OwnedFd>,
        keeper: Keeper,
    ) -> Sniffer {
        Sniffer { ring, connections, wake, keeper }
    }

    /// Looks at packets until woken; what was counted.
    ///
    /// # Errors
    ///
    /// When the system refuses to wait or to count.
    pub fn run(self) -> io::Result<Tally> {
        let Sniffer { mut ring, mut connections, wake, mut keeper } = self;
        let mut clock = Steady::start();
        loop {
            take_all(&mut ring, &mut connections, &mut keeper, &mut clock);
            if !wait(&ring, Some(&wake), &mut keeper)? {
                break;
            }
        }
        let last = ring.counts()?.received();
        let until = Instant::now() + LAST_WAIT;
        while ring.taken() < last && Instant::now() < until {
            wait(&ring, None, &mut keeper)?;
            take_all(&mut ring, &mut connections, &mut keeper, &mut clock);
        }
        let counts = ring.counts()?;
        let mut seen = connections.finish(&mut keeper);
        (seen.packets, seen.dropped) = (ring.taken(), counts.dropped);
        keeper.tally.seen.packets = Some(seen);
        keeper.flush();
        Ok(keeper.tally)
    }
}

/// Takes what the kernel has handed over.
fn take_all(
    ring: &mut Ring,
    connections: &mut Connections,
    keeper: &mut Keeper,
    clock: &mut Steady,
) {
    while let Some(mut block) = ring.block() {
        clock.look();
        while let Some(packet) = block.packet() {
            keeper.now_us = keeper.now_us.max(packet.at_us - clock.stepped_us);
            match Segment::of_ip(packet.bytes) {
                Some(segment) => connections.take(&segment, keeper),
                None => connections.seen.unread += 1,
            }
            connections.seen.cut += u64::from(packet.is_cut);
        }
        keeper.flush_due();
    }
}

/// Waits for the kernel; false where it was woken to end.
fn wait(ring: &Ring, wake: Option<&OwnedFd>, keeper: &mut Keeper) -> io::Result<bool> {
    let mut polled = vec![PollFd::new(ring, PollFlags::IN)];
    polled.extend(wake.map(|wake| PollFd::new(wake, PollFlags::IN)));
    let timeout = Timespec { tv_sec: 0, tv_nsec: HAND_ON_NS };
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) => keeper.flush(),
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.get(1).is_none_or(|wake| wake.revents().is_empty()))
}

/// Reads a file of packets to its end, or until woken; what was counted.
///
/// # Errors
///
/// When the file cannot be read to its end.
pub fn read_file(
    file: PacketFile,
    mut connections: Connections,
    wake: &OwnedFd,
    mut keeper: Keeper,
    shared: &Shared,
) -> Result<Tally, FileError> {
    let mut packets = 0;
    let read = file.for_each(|packet, segment| {
        packets += 1;
        keeper.now_us = keeper.now_us.max(packet.at_us);
        connections.seen.cut += u64::from(packet.is_cut);
        match segment {
            Some(segment) => connections.take(&segment, &mut keeper),
            None => connections.seen.unread += 1,
        }
        keeper.flush_due();
        // Nobody loses anything by waiting for the writer here.
        while shared.held_bytes.load(Ordering::Relaxed) > HELD_BYTES_MAX / 2
            && !shared.has_failed.load(Ordering::Relaxed)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        packets % 1_024 != 0 || !is_woken(wake)
    });
    let mut seen = connections.finish(&mut keeper);
    seen.packets = packets;
    seen.is_torn = read?;
    keeper.tally.seen.packets = Some(seen);
    keeper.flush();
    Ok(keeper.tally)
}

fn is_woken(wake: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(wake, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
