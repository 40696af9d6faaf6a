//! Captures from packets, without a proxy. The kernel delivers copies of the packets of the
//! server's port, which are reassembled to streams and read like those of the proxy.
//!
//! **What can be missing, and how it is detected.** The ring may be full: the kernel counts dropped
//! packets. Data is certainly missing when the other side acknowledges more than was seen. The
//! session then ends in the trace, as prepared statements and the open transaction are unknown, and
//! another one begins when the server is next ready without an open transaction. A connection older
//! than the capture is joined at such a moment too. Each of these is counted ([`counts`]).
//!
//! **Times** are the kernel's, of each packet, so that nothing depends on when they are read.
//!
//! Memory: the ring; data after a gap, at most [`stream::HELD_BYTES_MAX`] for all connections; and
//! the state of each connection, as in the proxy, for at most [`connections::CONNECTIONS_MAX`].
//!
//! | part | rule |
//! |---|---|
//! | [`ring`], [`filter`] | packets from the kernel |
//! | [`mod@file`] | packets from a file of tcpdump or Wireshark |
//! | [`segment`] | what the headers of a packet say |
//! | [`stream`] | one direction of a connection, in order |
//! | [`connection`] | both directions, and where reading begins again |
//! | [`connections`] | all connections |
//! | [`counts`] | counters |

pub mod connection;
pub mod connections;
pub mod counts;
pub mod file;
pub mod filter;
pub mod ring;
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
use super::message_counts::MessageCounts;
use super::spec::WhereSpec;
use connections::Connections;
use file::{FileError, PacketFile};
use ring::Ring;
use segment::Segment;

/// Maximum wait for the kernel's remaining packets when the capture ends.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Interval of passing on packets at low traffic.
const HAND_ON_NS: i64 = 100_000_000;

/// The server whose packets are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its port.
    pub port: u16,
    /// Its addresses; empty for any.
    pub addresses: Vec<IpAddr>,
}

impl Endpoint {
    /// The server at an address; a name means all of its addresses, none means any.
    ///
    /// # Errors
    ///
    /// When the name is unknown.
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

/// Time of packets: the wall clock without its steps.
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

    /// Measures how far the wall clock has been stepped since the start.
    fn look(&mut self) {
        self.stepped_us = wall_us() - self.began_us - self.began.elapsed().as_micros() as i64;
    }
}

fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}

/// A capture from the kernel's ring before it starts.
pub struct Sniffer {
    ring: Ring,
    connections: Connections,
    wake: Arc<OwnedFd>,
    keeper: Keeper,
}

impl Sniffer {
    /// A capture of connections' packets; a readable `wake` ends it.
    pub fn new(
        ring: Ring,
        connections: Connections,
        wake: Arc<OwnedFd>,
        keeper: Keeper,
    ) -> Sniffer {
        Sniffer { ring, connections, wake, keeper }
    }

    /// Reads packets until woken; returns the counters.
    ///
    /// # Errors
    ///
    /// When waiting or reading the counters fails.
    pub fn run(self) -> io::Result<MessageCounts> {
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
        keeper.counted.seen.packets = Some(seen);
        keeper.flush();
        Ok(keeper.counted)
    }
}

/// Reads the packets delivered by the kernel.
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

/// Waits for packets; false when woken to end.
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

/// Reads a file of packets to its end, or until woken; returns the counters.
///
/// # Errors
///
/// When the file cannot be read completely.
pub fn read_file(
    file: PacketFile,
    mut connections: Connections,
    wake: &OwnedFd,
    mut keeper: Keeper,
    shared: &Shared,
) -> Result<MessageCounts, FileError> {
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
        // Waiting for the writer loses nothing here.
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
    keeper.counted.seen.packets = Some(seen);
    keeper.flush();
    Ok(keeper.counted)
}

fn is_woken(wake: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(wake, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
