//! All connections of a server, by the addresses of their two ends.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seatrial_trace::captured::Session;

use super::Endpoint;
use super::connection::{Connection, ConnectionContext, is_startup};
use super::counts::PacketCounts;
use super::segment::Segment;
use super::stream::ReorderBudget;
use crate::pair::Side;
use crate::spec::KnownSession;
use crate::trace_queue::{Shared, TraceQueue};

/// Connections that are followed at once.
pub const CONNECTIONS_MAX: usize = 64 << 10;

/// How long packets of a connection that has ended are still recognised.
const OVER_US: i64 = 2_000_000;

/// The endpoints of the client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionKey {
    client: SocketAddr,
    server: SocketAddr,
}

/// Hashes the client's endpoint as one number: hashing all parts of two addresses takes much
/// longer, and the server's endpoint is the same for most.
impl Hash for ConnectionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let port = u64::from(self.client.port());
        match self.client.ip() {
            IpAddr::V4(address) => state.write_u64(u64::from(address.to_bits()) << 16 | port),
            IpAddr::V6(address) => state.write_u128(address.to_bits() ^ u128::from(port)),
        }
    }
}

#[derive(Debug)]
pub struct Connections {
    server: Endpoint,
    /// None for one that has ended, of which late packets may still arrive.
    open: HashMap<ConnectionKey, Option<Box<Connection>>>,
    /// Those that have ended, and when.
    over: VecDeque<(i64, ConnectionKey)>,
    budget: ReorderBudget,
    pub counts: PacketCounts,
    /// Sessions that existed before the capture.
    known: HashMap<SocketAddr, Session>,
    shared: Arc<Shared>,
}

impl Connections {
    /// Without connections; `known` are those that exist already.
    pub fn new(server: Endpoint, known: Vec<KnownSession>, shared: Arc<Shared>) -> Connections {
        let known = known.into_iter().map(|each| (each.client, each.session()));
        Connections {
            server,
            open: HashMap::new(),
            over: VecDeque::new(),
            budget: ReorderBudget::default(),
            counts: PacketCounts::default(),
            known: known.collect(),
            shared,
        }
    }

    /// Processes a packet; one of another server is ignored.
    #[inline]
    pub fn take(&mut self, segment: &Segment<'_>, queue: &mut TraceQueue) {
        let (side, key) = if self.server.is_at(segment.to.ip(), segment.to.port()) {
            (Side::Client, ConnectionKey { client: segment.from, server: segment.to })
        } else if self.server.is_at(segment.from.ip(), segment.from.port()) {
            (Side::Server, ConnectionKey { client: segment.to, server: segment.from })
        } else {
            return;
        };
        if segment.is_syn {
            self.end_former(side, key, segment, queue);
        }
        let goes_on = match self.open.get_mut(&key) {
            Some(Some(connection)) => {
                let context = &mut ConnectionContext {
                    queue,
                    counts: &mut self.counts,
                    budget: &mut self.budget,
                };
                connection.take(side, segment, context)
            }
            Some(None) => return,
            None => {
                let Some(mut connection) = self.begin(side, key, segment, queue) else { return };
                let context = &mut ConnectionContext {
                    queue,
                    counts: &mut self.counts,
                    budget: &mut self.budget,
                };
                let goes_on = connection.take(side, segment, context);
                self.open.insert(key, Some(connection));
                goes_on
            }
        };
        if !goes_on {
            self.end(key, queue);
        }
    }

    /// Ends the capture and returns the counters.
    pub fn finish(mut self, queue: &mut TraceQueue) -> PacketCounts {
        for connection in self.open.values_mut().flatten() {
            let context = &mut ConnectionContext {
                queue,
                counts: &mut self.counts,
                budget: &mut self.budget,
            };
            connection.ended(false, context);
        }
        self.counts
    }

    /// Ends the former connection between two endpoints when a new one begins.
    fn end_former(
        &mut self,
        side: Side,
        key: ConnectionKey,
        segment: &Segment<'_>,
        queue: &mut TraceQueue,
    ) {
        match self.open.get_mut(&key) {
            Some(Some(connection)) if !connection.is_begun_by(side, segment) => {
                self.end(key, queue);
                self.open.remove(&key);
            }
            Some(None) if segment.acknowledged.is_none() => drop(self.open.remove(&key)),
            _ => {}
        }
    }

    /// Follows a connection from here on; None where there are too many.
    fn begin(
        &mut self,
        side: Side,
        key: ConnectionKey,
        segment: &Segment<'_>,
        queue: &mut TraceQueue,
    ) -> Option<Box<Connection>> {
        if segment.payload.is_empty() && !segment.is_syn || segment.is_rst {
            return None;
        }
        self.forget(queue.now_us);
        if self.open.len() >= CONNECTIONS_MAX {
            self.counts.crowded += 1;
            return None;
        }
        let is_begun = segment.is_syn || side == Side::Client && is_startup(segment.payload);
        self.counts.earlier += u64::from(!is_begun);
        let open = self.shared.open.fetch_add(1, Ordering::Relaxed) + 1;
        let wire = &mut queue.counted.wire;
        wire.connections += 1;
        wire.open_max = wire.open_max.max(open);
        let unknown =
            || Session { name: key.client.to_string().into_bytes(), ..Session::default() };
        let known = self.known.remove(&key.client);
        let earlier = (!is_begun).then(|| known.unwrap_or_else(unknown));
        Some(Box::new(Connection::new(key.client, earlier)))
    }

    fn end(&mut self, key: ConnectionKey, queue: &mut TraceQueue) {
        let Some(Some(mut connection)) = self.open.insert(key, None) else { return };
        self.over.push_back((queue.now_us, key));
        let context =
            &mut ConnectionContext { queue, counts: &mut self.counts, budget: &mut self.budget };
        connection.ended(true, context);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets connections that ended long ago, or for which there is no room.
    fn forget(&mut self, now_us: i64) {
        while let Some(&(ended_us, key)) = self.over.front() {
            if now_us - ended_us < OVER_US && self.open.len() < CONNECTIONS_MAX {
                return;
            }
            self.over.pop_front();
            if matches!(self.open.get(&key), Some(None)) {
                self.open.remove(&key);
            }
        }
    }
}
