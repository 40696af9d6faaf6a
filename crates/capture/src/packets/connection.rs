//! Both directions of a connection, and where reading resumes after a gap.
//!
//! A connection that is older than the capture, or has a gap, is joined where nothing is in
//! progress: the server is ready without an open transaction, it has received everything that the
//! client sent, and the next packet is a message of the client. At such a moment answers may still
//! be in progress to a client with a pipeline of several `Sync`s. So it has to be the second such
//! moment, between which requests and answers alternated, judging by the ends of packets. If an
//! answer matches no request later, the connection waits again.

use std::net::SocketAddr;

use seatrial_pgwire::messages::{self, MessageHeader};
use seatrial_trace::captured::Session;

use super::counts::{PacketCounts, name};
use super::segment::Segment;
use super::stream::{Arrival, Direction, ReorderBudget, distance};
use crate::follow::{Follower, UnreadReason};
use crate::pair::Side;
use crate::trace_queue::TraceQueue;

/// The end of `ReadyForQuery` outside a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// The beginning of any `ReadyForQuery`.
const READY_ANYHOW: &[u8] = b"Z\0\0\0\x05";

/// The message `Sync`, which ends an exchange of the extended protocol.
const SYNC: &[u8] = b"S\0\0\0\x04";

/// Types of client messages that may begin an exchange.
const BEGINNINGS: &[u8] = b"QPBDECFSH";

/// The message `Terminate`.
const LEAVES: &[u8] = b"X\0\0\0\x04";

/// Types of messages that a server sends without a request.
const UNASKED: &[u8] = b"ASN";

/// TLS records after which a connection counts as encrypted.
const TLS_RECORDS: u8 = 2;

/// Maximum length of the message at which a connection is joined.
const FIRST_BYTES_MAX: usize = 1 << 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    /// It is read, from its beginning or from where it was joined.
    Yes,
    /// It waits for the server to be ready.
    Waiting,
    /// The server is ready, at these sequence numbers of the directions.
    Ready { client: u32, server: u32 },
    /// It is not read any more.
    No,
}

#[derive(Debug)]
pub struct Connection {
    follower: Follower,
    reading: ReadState,
    /// Exchanges begun and not answered since it began to wait.
    exchanges: u32,
    /// Whether requests and answers have alternated since the server was last ready.
    took_turns: bool,
    to_server: Direction,
    to_client: Direction,
    /// Initial sequence numbers of the directions, as far as known.
    begins: StreamPositions,
    /// Sequence numbers behind the last bytes of the directions.
    ends: StreamPositions,
    client: SocketAddr,
    is_earlier: bool,
    had_gap: bool,
    was_joined: bool,
    /// Its client has sent a request since it began to wait.
    has_unread: bool,
    tls_records: u8,
    client_is_over: bool,
    server_is_over: bool,
}

/// A sequence number in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct StreamPositions {
    client: Option<u32>,
    server: Option<u32>,
}

impl StreamPositions {
    fn of(&mut self, side: Side) -> &mut Option<u32> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// State that a connection shares with others.
pub struct ConnectionContext<'a> {
    pub queue: &'a mut TraceQueue,
    pub counts: &'a mut PacketCounts,
    /// Limit of bytes received out of order, for all connections.
    pub budget: &'a mut ReorderBudget,
}

impl Connection {
    /// A connection of a client; `earlier` is its session if it existed before the capture.
    pub fn new(client: SocketAddr, earlier: Option<Session>) -> Connection {
        let is_earlier = earlier.is_some();
        Connection {
            follower: earlier.map_or_else(Follower::default, Follower::later),
            reading: if is_earlier { ReadState::Waiting } else { ReadState::Yes },
            exchanges: 0,
            took_turns: false,
            to_server: Direction::default(),
            to_client: Direction::default(),
            begins: StreamPositions::default(),
            ends: StreamPositions::default(),
            client,
            is_earlier,
            had_gap: false,
            was_joined: false,
            has_unread: false,
            tls_records: 0,
            client_is_over: false,
            server_is_over: false,
        }
    }

    /// Whether a SYN is of this connection rather than of a later one between the same endpoints.
    pub fn is_begun_by(&self, side: Side, segment: &Segment<'_>) -> bool {
        let begin = if side == Side::Client { self.begins.client } else { self.begins.server };
        let is_other = begin.is_some_and(|sequence| sequence != segment.begin());
        !(self.is_earlier || is_other)
    }

    /// Processes a packet of a side; false where it ends the connection.
    #[inline]
    pub fn take(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        context: &mut ConnectionContext<'_>,
    ) -> bool {
        if segment.is_rst {
            return false;
        }
        self.note_sequences(side, segment);
        match self.reading {
            ReadState::Yes => self.read(side, segment, context),
            ReadState::Waiting | ReadState::Ready { .. } => self.wait(side, segment, context),
            ReadState::No => {}
        }
        if side == Side::Client {
            self.client_is_over |= self.to_server.is_over();
        } else {
            self.server_is_over |= self.to_client.is_over();
        }
        if self.reading != ReadState::Yes && segment.is_fin {
            let is_over = if side == Side::Client {
                &mut self.client_is_over
            } else {
                &mut self.server_is_over
            };
            *is_over = true;
        }
        !(self.client_is_over && self.server_is_over)
    }

    /// The connection or the capture has ended.
    pub fn ended(&mut self, is_gone: bool, context: &mut ConnectionContext<'_>) {
        // What came ahead of what never came cannot be read.
        self.to_server.drop_ahead(context.budget);
        self.to_client.drop_ahead(context.budget);
        let waits = matches!(self.reading, ReadState::Waiting | ReadState::Ready { .. });
        context.counts.left_out += u64::from(waits && self.has_unread);
        if is_gone {
            self.follower.ended(context.queue);
        } else {
            self.follower.left(context.queue);
        }
    }

    /// Notes the initial sequence number from a SYN of either side.
    fn note_sequences(&mut self, side: Side, segment: &Segment<'_>) {
        let (own, other) = match side {
            Side::Client => (&mut self.to_server, &mut self.to_client),
            Side::Server => (&mut self.to_client, &mut self.to_server),
        };
        let mut unused = ReorderBudget::default();
        if segment.is_syn && own.next().is_none() {
            own.restart(segment.begin(), &mut unused);
            *self.begins.of(side) = Some(segment.begin());
        }
        if !self.is_earlier && other.next().is_none() {
            segment.acknowledged.inspect(|&sequence| other.restart(sequence, &mut unused));
        }
        if segment.is_fin {
            own.ends_at(segment.end());
        }
    }

    #[inline]
    fn read(&mut self, side: Side, segment: &Segment<'_>, context: &mut ConnectionContext<'_>) {
        let (own, other) = match side {
            Side::Client => (&mut self.to_server, &mut self.to_client),
            Side::Server => (&mut self.to_client, &mut self.to_server),
        };
        let missing = segment.acknowledged.map_or(0, |sequence| other.missing_bytes(sequence));
        if missing > 0 {
            return self.lose(u64::from(missing), side, segment, context);
        }
        if segment.payload.is_empty() {
            return;
        }
        match own.take(segment.begin(), segment.payload, context.budget) {
            Arrival::Next(from) => {
                context.counts.repeated_bytes += from as u64;
                self.look_at(side, &segment.payload[from..], context);
                self.go_on(side, context);
            }
            Arrival::Duplicate => context.counts.repeated_bytes += segment.payload.len() as u64,
            Arrival::OutOfOrder => context.counts.reordered += 1,
            Arrival::Overflow => {
                let missing = own.next().map_or(0, |next| distance(next, segment.begin()));
                self.lose(missing.unsigned_abs().into(), side, segment, context);
            }
        }
    }

    /// Continues with bytes received out of order, if they are next.
    fn go_on(&mut self, side: Side, context: &mut ConnectionContext<'_>) {
        while self.reading == ReadState::Yes {
            let direction =
                if side == Side::Client { &mut self.to_server } else { &mut self.to_client };
            let Some(bytes) = direction.pop(context.budget) else { return };
            self.look_at(side, &bytes, context);
        }
    }

    #[inline]
    fn look_at(&mut self, side: Side, bytes: &[u8], context: &mut ConnectionContext<'_>) {
        let direction =
            if side == Side::Client { &mut self.to_server } else { &mut self.to_client };
        direction.took(bytes.len());
        self.follower.look_at(side, bytes, context.queue);
        if let Some(why) = self.follower.unread() {
            if why == UnreadReason::Encrypted {
                name(&mut context.counts.encrypted, self.client);
            }
            return self.stop_reading(context);
        }
        if (self.is_earlier || self.had_gap) && self.follower.is_out_of_step() {
            self.wait_again(context);
        }
    }

    fn stop_reading(&mut self, context: &mut ConnectionContext<'_>) {
        self.reading = ReadState::No;
        self.to_server.drop_ahead(context.budget);
        self.to_client.drop_ahead(context.budget);
    }

    /// Data is missing: reads again as soon as the connection can be joined.
    fn lose(
        &mut self,
        missing_bytes: u64,
        side: Side,
        segment: &Segment<'_>,
        context: &mut ConnectionContext<'_>,
    ) {
        context.counts.gaps += 1;
        context.counts.gap_bytes += missing_bytes;
        name(&mut context.counts.with_gaps, self.client);
        self.had_gap = true;
        self.wait_again(context);
        self.wait(side, segment, context);
    }

    fn wait_again(&mut self, context: &mut ConnectionContext<'_>) {
        self.follower.lost(context.queue);
        self.to_server.drop_ahead(context.budget);
        self.to_client.drop_ahead(context.budget);
        self.reading = ReadState::Waiting;
        (self.exchanges, self.took_turns) = (0, false);
        self.ends = StreamPositions::default();
    }

    /// Processes a packet of a connection that waits to be joined.
    fn wait(&mut self, side: Side, segment: &Segment<'_>, context: &mut ConnectionContext<'_>) {
        let payload = segment.payload;
        if payload.is_empty() || payload == LEAVES {
            return;
        }
        if self.is_encrypted(payload) {
            context.queue.encrypted();
            name(&mut context.counts.encrypted, self.client);
            return self.stop_reading(context);
        }
        if side == Side::Server {
            self.wait_for_ready(segment);
        } else if self.is_at_beginning(segment) && self.took_turns {
            return self.join(segment, context);
        } else {
            context.counts.unread_bytes += payload.len() as u64;
            self.has_unread = true;
            self.wait_for_answer(segment);
        }
        let end = self.ends.of(side);
        if end.is_none_or(|end| distance(end, segment.end()) > 0) {
            *end = Some(segment.end());
        }
    }

    /// Whether a client's packet is the first since the server was ready.
    fn is_at_beginning(&self, segment: &Segment<'_>) -> bool {
        let ReadState::Ready { client, server } = self.reading else { return false };
        let is_next = segment.begin() == client && segment.acknowledged == Some(server);
        is_next && begins_exchange(segment.payload)
    }

    /// The client sent a request that is not read.
    fn wait_for_answer(&mut self, segment: &Segment<'_>) {
        // Where it got more than was seen, its earlier requests count as answered.
        let got = segment.acknowledged.zip(self.ends.server);
        let is_missing = got.is_some_and(|(sequence, end)| distance(end, sequence) > 0);
        if is_missing {
            self.exchanges = 0;
        }
        let is_beginning = self.is_at_beginning(segment);
        self.took_turns = is_beginning || self.took_turns && self.exchanges == 0 && !is_missing;
        self.exchanges = self.exchanges.saturating_add(u32::from(ends_exchange(segment.payload)));
        self.reading = ReadState::Waiting;
    }

    /// The server sent an answer that is not read.
    fn wait_for_ready(&mut self, segment: &Segment<'_>) {
        let payload = segment.payload;
        if UNASKED.contains(&payload[0]) {
            if let ReadState::Ready { client, server } = self.reading {
                if segment.begin() == server {
                    self.reading = ReadState::Ready { client, server: segment.end() };
                    return;
                }
            }
        }
        let got_all =
            |sequence: &u32| self.ends.client.is_none_or(|end| distance(end, *sequence) >= 0);
        let sequence = segment.acknowledged.filter(got_all).filter(|_| payload.ends_with(READY));
        self.took_turns &= self.exchanges == 1;
        self.reading = match sequence {
            Some(client) if self.exchanges <= 1 => {
                ReadState::Ready { client, server: segment.end() }
            }
            _ => ReadState::Waiting,
        };
        let is_answer = payload[..payload.len() - 1].ends_with(READY_ANYHOW);
        self.exchanges = self.exchanges.saturating_sub(u32::from(is_answer));
    }

    fn join(&mut self, segment: &Segment<'_>, context: &mut ConnectionContext<'_>) {
        let ReadState::Ready { client, server } = self.reading else { return };
        let is_again = self.had_gap || self.was_joined;
        let count = if is_again { &mut context.counts.resumed } else { &mut context.counts.joined };
        *count += 1;
        self.was_joined = true;
        self.reading = ReadState::Yes;
        self.has_unread = false;
        self.to_server.restart(client, context.budget);
        self.to_client.restart(server, context.budget);
        if segment.is_fin {
            self.to_server.ends_at(segment.end());
        }
        self.follower.join(context.queue);
        self.read(Side::Client, segment, context);
    }

    /// Whether TLS records show that it is encrypted.
    fn is_encrypted(&mut self, payload: &[u8]) -> bool {
        let is_record = matches!(payload, [0x14..=0x17, 3, 0..=4, ..]);
        self.tls_records = if is_record { self.tls_records + 1 } else { 0 };
        self.tls_records >= TLS_RECORDS
    }
}

/// Whether a client's packet begins with a message that begins an exchange.
fn begins_exchange(payload: &[u8]) -> bool {
    let head = MessageHeader::of(payload).filter(|head| BEGINNINGS.contains(&head.kind));
    head.and_then(|head| head.body_bytes).is_some_and(|bytes| bytes < FIRST_BYTES_MAX)
}

/// Whether an exchange ends with a client's packet, as far as a packet by itself shows.
fn ends_exchange(payload: &[u8]) -> bool {
    let is_query = matches!(payload[0], b'Q' | b'F') && begins_exchange(payload);
    is_query || payload.ends_with(SYNC)
}

/// Whether a client's packet, the first that is known of a connection, is its startup message: it
/// begins with a version or request code instead of a message type.
pub fn is_startup(payload: &[u8]) -> bool {
    let length = messages::number(payload).and_then(|length| usize::try_from(length).ok());
    let code = payload.get(4..).and_then(messages::number);
    length == Some(payload.len()) && code.is_some_and(|code| code >> 16 == 3 || code >> 16 == 1234)
}
