//! Captures from packets, without a proxy. The kernel delivers copies of the packets of the
//! server's port, which are reassembled to streams and read like those of the proxy.
//!
//! **What can be missing, and how it is detected.** The ring may be full: the kernel counts dropped
//! packets. Data is certainly missing when the other side acknowledges more than was seen. The
//! session then ends in the trace, as prepared statements and the open transaction are unknown, and
//! another one begins when the server is next ready without an open transaction. A connection older
//! than the capture is joined at such a moment too. Each of these is counted (`counts`).
//!
//! **Times** are the kernel's, of each packet, so that nothing depends on when they are read.
//!
//! Memory: the ring; data after a gap, at most 64 MiB for all connections; and the state of each
//! connection, as in the proxy, for at most 65,536.
//!
//! | part | rule |
//! |---|---|
//! | [`ring`], `filter` | packets from the kernel |
//! | `file` | packets from a file of tcpdump or Wireshark |
//! | `segment` | what the headers of a packet say |
//! | `stream` | one direction of a connection, in order |
//! | `connection` | both directions, and where reading begins again |
//! | `connections` | all connections |
//! | `counts` | counters |

mod connection;
pub(crate) mod connections;
pub(crate) mod counts;
pub(crate) mod file;
mod filter;
pub mod ring;
mod segment;
mod stream;
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

use super::message_counts::MessageCounts;
use super::spec::ServerAddress;
use super::trace_queue::{QUEUE_BYTES_MAX, Shared, TraceQueue};
use connections::Connections;
use file::{FileError, PacketFile};
use ring::Ring;
use segment::Segment;

/// Maximum wait for the kernel's remaining packets when the capture ends.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Interval at which packets are read at low traffic.
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
    pub fn of(server: &ServerAddress) -> io::Result<Endpoint> {
        let port = server.port;
        if server.host.is_empty() {
            return Ok(Endpoint { port, addresses: Vec::new() });
        }
        let found = (server.host.as_str(), port).to_socket_addrs()?;
        Ok(Endpoint { port, addresses: found.map(|each| each.ip()).collect() })
    }

    fn is_at(&self, address: IpAddr, port: u16) -> bool {
        port == self.port && (self.addresses.is_empty() || self.addresses.contains(&address))
    }
}

/// Time of packets: the wall clock without its steps.
#[derive(Debug)]
struct SteadyClock {
    began: Instant,
    began_us: i64,
    stepped_us: i64,
}

impl SteadyClock {
    fn start() -> SteadyClock {
        SteadyClock { began: Instant::now(), began_us: wall_us(), stepped_us: 0 }
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
    queue: TraceQueue,
}

impl Sniffer {
    /// A capture of connections' packets; a readable `wake` ends it.
    pub fn new(
        ring: Ring,
        connections: Connections,
        wake: Arc<OwnedFd>,
        queue: TraceQueue,
    ) -> Sniffer {
        Sniffer { ring, connections, wake, queue }
    }

    /// Reads packets until woken; returns the counters.
    ///
    /// # Errors
    ///
    /// When waiting or reading the counters fails.
    pub fn run(self) -> io::Result<MessageCounts> {
        let Sniffer { mut ring, mut connections, wake, mut queue } = self;
        let mut clock = SteadyClock::start();
        loop {
            take_all(&mut ring, &mut connections, &mut queue, &mut clock);
            if !wait(&ring, Some(&wake), &mut queue)? {
                break;
            }
        }
        let last = ring.counts()?.received();
        let until = Instant::now() + LAST_WAIT;
        while ring.taken() < last && Instant::now() < until {
            wait(&ring, None, &mut queue)?;
            take_all(&mut ring, &mut connections, &mut queue, &mut clock);
        }
        let counts = ring.counts()?;
        let mut packet_counts = connections.finish(&mut queue);
        (packet_counts.packets, packet_counts.dropped) = (ring.taken(), counts.dropped);
        queue.counted.wire.packets = Some(packet_counts);
        queue.flush();
        Ok(queue.counted)
    }
}

/// Reads the packets delivered by the kernel.
fn take_all(
    ring: &mut Ring,
    connections: &mut Connections,
    queue: &mut TraceQueue,
    clock: &mut SteadyClock,
) {
    while let Some(mut block) = ring.block() {
        clock.look();
        while let Some(packet) = block.packet() {
            queue.now_us = queue.now_us.max(packet.at_us - clock.stepped_us);
            match Segment::of_ip(packet.bytes) {
                Some(segment) => connections.take(&segment, queue),
                None => connections.counts.unread += 1,
            }
            connections.counts.cut += u64::from(packet.is_cut);
        }
        queue.flush_due();
    }
}

/// Waits for packets; false when woken to end.
fn wait(ring: &Ring, wake: Option<&OwnedFd>, queue: &mut TraceQueue) -> io::Result<bool> {
    let mut polled = vec![PollFd::new(ring, PollFlags::IN)];
    polled.extend(wake.map(|wake| PollFd::new(wake, PollFlags::IN)));
    let timeout = Timespec { tv_sec: 0, tv_nsec: HAND_ON_NS };
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) => queue.flush(),
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
    mut queue: TraceQueue,
    shared: &Shared,
) -> Result<MessageCounts, FileError> {
    let mut packets = 0;
    let read = file.for_each(|packet, segment| {
        packets += 1;
        queue.now_us = queue.now_us.max(packet.at_us);
        connections.counts.cut += u64::from(packet.is_cut);
        match segment {
            Some(segment) => connections.take(&segment, &mut queue),
            None => connections.counts.unread += 1,
        }
        queue.flush_due();
        // Waiting for the writer loses nothing here.
        while shared.queued_bytes.load(Ordering::Relaxed) > QUEUE_BYTES_MAX / 2
            && !shared.has_failed.load(Ordering::Relaxed)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        packets % 1_024 != 0 || !is_woken(wake)
    });
    let mut packet_counts = connections.finish(&mut queue);
    packet_counts.packets = packets;
    packet_counts.is_torn = read?;
    queue.counted.wire.packets = Some(packet_counts);
    queue.flush();
    Ok(queue.counted)
}

fn is_woken(wake: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(wake, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
