//! All connections of a server, by the addresses of their two ends.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seatrial_trace::captured::Session;

use super::Endpoint;
use super::connection::{Books, Connection, is_startup};
use super::counts::PacketCounts;
use super::segment::Segment;
use super::stream::Held;
use crate::keeper::{Keeper, Shared};
use crate::pair::Side;
use crate::spec::KnownSession;

/// Connections that are followed at once.
pub const CONNECTIONS_MAX: usize = 64 << 10;

/// How long packets of a connection that has ended are known to be of it.
const OVER_US: i64 = 2_000_000;

/// The client's end and the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    client: SocketAddr,
    server: SocketAddr,
}

/// The client's end as one number, once for each packet: all parts of two addresses take much
/// longer, and the server's end is the same for most.
impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let port = u64::from(self.client.port());
        match self.client.ip() {
            IpAddr::V4(address) => state.write_u64(u64::from(address.to_bits()) << 16 | port),
            IpAddr::V6(address) => state.write_u128(address.to_bits() ^ u128::from(port)),
        }
    }
}

/// The connections of a server.
#[derive(Debug)]
pub struct Connections {
    server: Endpoint,
    /// None where it has ended, and late packets may still come.
    open: HashMap<Ends, Option<Box<Connection>>>,
    /// Those that have ended, and when.
    over: VecDeque<(i64, Ends)>,
    held: Held,
    /// What was counted.
    pub seen: PacketCounts,
    /// Who was there before the capture.
    known: HashMap<SocketAddr, Session>,
    shared: Arc<Shared>,
}

impl Connections {
    /// No connections of a server yet; some that are there may be known.
    pub fn new(server: Endpoint, known: Vec<KnownSession>, shared: Arc<Shared>) -> Connections {
        let known = known.into_iter().map(|each| (each.client, each.session()));
        Connections {
            server,
            open: HashMap::new(),
            over: VecDeque::new(),
            held: Held::default(),
            seen: PacketCounts::default(),
            known: known.collect(),
            shared,
        }
    }

    /// Takes in a packet; one of another server is passed over.
    #[inline]
    pub fn take(&mut self, segment: &Segment<'_>, keeper: &mut Keeper) {
        let (side, ends) = if self.server.is_at(segment.to.ip(), segment.to.port()) {
            (Side::Client, Ends { client: segment.from, server: segment.to })
        } else if self.server.is_at(segment.from.ip(), segment.from.port()) {
            (Side::Server, Ends { client: segment.to, server: segment.from })
        } else {
            return;
        };
        if segment.is_syn {
            self.end_former(side, ends, segment, keeper);
        }
        let goes_on = match self.open.get_mut(&ends) {
            Some(Some(connection)) => {
                let books = &mut Books { keeper, seen: &mut self.seen, held: &mut self.held };
                connection.take(side, segment, books)
            }
            Some(None) => return,
            None => {
                let Some(mut connection) = self.begin(side, ends, segment, keeper) else { return };
                let books = &mut Books { keeper, seen: &mut self.seen, held: &mut self.held };
                let goes_on = connection.take(side, segment, books);
                self.open.insert(ends, Some(connection));
                goes_on
            }
        };
        if !goes_on {
            self.end(ends, keeper);
        }
    }

    /// Looks no more; what was counted.
    pub fn finish(mut self, keeper: &mut Keeper) -> PacketCounts {
        for connection in self.open.values_mut().flatten() {
            let books = &mut Books { keeper, seen: &mut self.seen, held: &mut self.held };
            connection.ended(false, books);
        }
        self.seen
    }

    /// What begins a connection between two addresses ends the one that was there before.
    fn end_former(&mut self, side: Side, ends: Ends, segment: &Segment<'_>, keeper: &mut Keeper) {
        match self.open.get_mut(&ends) {
            Some(Some(connection)) if !connection.is_begun_by(side, segment) => {
                self.end(ends, keeper);
                self.open.remove(&ends);
            }
            Some(None) if segment.acknowledged.is_none() => drop(self.open.remove(&ends)),
            _ => {}
        }
    }

    /// A connection from here on, whatever of it has been; None where it is not followed.
    fn begin(
        &mut self,
        side: Side,
        ends: Ends,
        segment: &Segment<'_>,
        keeper: &mut Keeper,
    ) -> Option<Box<Connection>> {
        if segment.payload.is_empty() && !segment.is_syn || segment.is_rst {
            return None;
        }
        self.forget(keeper.now_us);
        if self.open.len() >= CONNECTIONS_MAX {
            self.seen.crowded += 1;
            return None;
        }
        let is_begun = segment.is_syn || side == Side::Client && is_startup(segment.payload);
        self.seen.earlier += u64::from(!is_begun);
        let open = self.shared.open.fetch_add(1, Ordering::Relaxed) + 1;
        let seen = &mut keeper.counted.seen;
        seen.connections += 1;
        seen.open_max = seen.open_max.max(open);
        let unknown =
            || Session { name: ends.client.to_string().into_bytes(), ..Session::default() };
        let known = self.known.remove(&ends.client);
        let earlier = (!is_begun).then(|| known.unwrap_or_else(unknown));
        Some(Box::new(Connection::new(ends.client, earlier)))
    }

    fn end(&mut self, ends: Ends, keeper: &mut Keeper) {
        let Some(Some(mut connection)) = self.open.insert(ends, None) else { return };
        self.over.push_back((keeper.now_us, ends));
        let books = &mut Books { keeper, seen: &mut self.seen, held: &mut self.held };
        connection.ended(true, books);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets those that ended long ago, or that there is no room for.
    fn forget(&mut self, now_us: i64) {
        while let Some(&(ended_us, ends)) = self.over.front() {
            if now_us - ended_us < OVER_US && self.open.len() < CONNECTIONS_MAX {
                return;
            }
            self.over.pop_front();
            if matches!(self.open.get(&ends), Some(None)) {
                self.open.remove(&ends);
            }
        }
    }
}
