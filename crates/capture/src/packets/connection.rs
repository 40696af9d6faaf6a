//! Both directions of a connection, and where reading begins again after something was missing.
//!
//! A connection that was there before the capture, or of which something is missing, is joined
//! where nothing is under way: the server says that it is ready and no transaction is open, it has
//! got all that the client was seen to send, and the next that comes is a message of the client.
//! Answers might still be under way there, to a client that sends more before it has them (a
//! pipeline with several `Sync`s). So it is the second such moment, between which requests and
//! answers took turns, as far as the ends of packets show; and where an answer fits no request
//! after that, the connection waits again.

use std::net::SocketAddr;

use seatrial_pgwire::messages::{self, MessageHeader};
use seatrial_trace::captured::Session;

use super::counts::{PacketCounts, name};
use super::segment::Segment;
use super::stream::{Came, Direction, Held, distance};
use crate::follow::{Follower, Unread};
use crate::keeper::Keeper;
use crate::pair::Side;

/// The end of what a server says when it is ready and no transaction is open.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// `ReadyForQuery`, whatever transaction is open.
const READY_ANYHOW: &[u8] = b"Z\0\0\0\x05";

/// The end of what a client says of an exchange in the extended protocol.
const SYNC: &[u8] = b"S\0\0\0\x04";

/// Messages of a client that may begin an exchange.
const BEGINNINGS: &[u8] = b"QPBDECFSH";

/// What a client says as it leaves.
const LEAVES: &[u8] = b"X\0\0\0\x04";

/// Messages that a server sends without a request.
const UNASKED: &[u8] = b"ASN";

/// Records of TLS that are seen before a connection counts as encrypted.
const TLS_RECORDS: u8 = 2;

/// Longest message that a connection is joined at.
const FIRST_BYTES_MAX: usize = 1 << 24;

/// How a connection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// From its beginning, or from where it was joined.
    Yes,
    /// It waits for the server to be ready.
    Waiting,
    /// The server is ready, and the directions are at these places.
    Ready { client: u32, server: u32 },
    /// It is not read any more.
    No,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    follower: Follower,
    reading: Reading,
    /// Exchanges that were begun and not answered since it waits.
    exchanges: u32,
    /// Whether requests and answers have taken turns since the server was ready before.
    took_turns: bool,
    to_server: Direction,
    to_client: Direction,
    /// Where its directions begin, where that was seen.
    begins: Ends,
    /// Places behind the last bytes that were seen.
    ends: Ends,
    client: SocketAddr,
    is_earlier: bool,
    had_gap: bool,
    was_joined: bool,
    /// Its client sent a request since it waits.
    has_unread: bool,
    tls_records: u8,
    client_is_over: bool,
    server_is_over: bool,
}

/// A place in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    client: Option<u32>,
    server: Option<u32>,
}

impl Ends {
    fn of(&mut self, side: Side) -> &mut Option<u32> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// What a connection counts and keeps in.
pub struct Books<'a> {
    /// Statements and sessions.
    pub keeper: &'a mut Keeper,
    /// What is particular to packets.
    pub seen: &'a mut PacketCounts,
    /// What came ahead, of all connections.
    pub held: &'a mut Held,
}

impl Connection {
    /// A connection of a client; what is known of its session where its beginning was not seen.
    pub fn new(client: SocketAddr, earlier: Option<Session>) -> Connection {
        let is_earlier = earlier.is_some();
        Connection {
            follower: earlier.map_or_else(Follower::default, Follower::later),
            reading: if is_earlier { Reading::Waiting } else { Reading::Yes },
            exchanges: 0,
            took_turns: false,
            to_server: Direction::default(),
            to_client: Direction::default(),
            begins: Ends::default(),
            ends: Ends::default(),
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

    /// Whether a packet that begins a connection is of this one, and not of a later one between
    /// the same two addresses.
    pub fn is_begun_by(&self, side: Side, segment: &Segment<'_>) -> bool {
        let begin = if side == Side::Client { self.begins.client } else { self.begins.server };
        let is_other = begin.is_some_and(|place| place != segment.begin());
        !(self.is_earlier || is_other)
    }

    /// Takes in a packet of a side; false where it ends the connection.
    #[inline]
    pub fn take(&mut self, side: Side, segment: &Segment<'_>, books: &mut Books<'_>) -> bool {
        if segment.is_rst {
            return false;
        }
        self.note_places(side, segment);
        match self.reading {
            Reading::Yes => self.read(side, segment, books),
            Reading::Waiting | Reading::Ready { .. } => self.wait(side, segment, books),
            Reading::No => {}
        }
        if side == Side::Client {
            self.client_is_over |= self.to_server.is_over();
        } else {
            self.server_is_over |= self.to_client.is_over();
        }
        if self.reading != Reading::Yes && segment.is_fin {
            let is_over = if side == Side::Client {
                &mut self.client_is_over
            } else {
                &mut self.server_is_over
            };
            *is_over = true;
        }
        !(self.client_is_over && self.server_is_over)
    }

    /// It has ended, or nobody looks any more.
    pub fn ended(&mut self, is_gone: bool, books: &mut Books<'_>) {
        // What came ahead of what never came cannot be read.
        self.to_server.drop_ahead(books.held);
        self.to_client.drop_ahead(books.held);
        let waits = matches!(self.reading, Reading::Waiting | Reading::Ready { .. });
        books.seen.left_out += u64::from(waits && self.has_unread);
        if is_gone {
            self.follower.ended(books.keeper);
        } else {
            self.follower.left(books.keeper);
        }
    }

    /// Where its directions begin is in the packets that begin it, of either side.
    fn note_places(&mut self, side: Side, segment: &Segment<'_>) {
        let (own, other) = match side {
            Side::Client => (&mut self.to_server, &mut self.to_client),
            Side::Server => (&mut self.to_client, &mut self.to_server),
        };
        let mut unused = Held::default();
        if segment.is_syn && own.next().is_none() {
            own.restart(segment.begin(), &mut unused);
            *self.begins.of(side) = Some(segment.begin());
        }
        if !self.is_earlier && other.next().is_none() {
            segment.acknowledged.inspect(|&place| other.restart(place, &mut unused));
        }
        if segment.is_fin {
            own.ends_at(segment.end());
        }
    }

    #[inline]
    fn read(&mut self, side: Side, segment: &Segment<'_>, books: &mut Books<'_>) {
        let (own, other) = match side {
            Side::Client => (&mut self.to_server, &mut self.to_client),
            Side::Server => (&mut self.to_client, &mut self.to_server),
        };
        let missing = segment.acknowledged.map_or(0, |place| other.missing_bytes(place));
        if missing > 0 {
            return self.lose(u64::from(missing), side, segment, books);
        }
        if segment.payload.is_empty() {
            return;
        }
        match own.take(segment.begin(), segment.payload, books.held) {
            Came::Next(from) => {
                books.seen.repeated_bytes += from as u64;
                self.look_at(side, &segment.payload[from..], books);
                self.go_on(side, books);
            }
            Came::Again => books.seen.repeated_bytes += segment.payload.len() as u64,
            Came::Ahead => books.seen.reordered += 1,
            Came::TooMuch => {
                let missing = own.next().map_or(0, |next| distance(next, segment.begin()));
                self.lose(missing.unsigned_abs().into(), side, segment, books);
            }
        }
    }

    /// What came ahead may be next by now.
    fn go_on(&mut self, side: Side, books: &mut Books<'_>) {
        while self.reading == Reading::Yes {
            let direction =
                if side == Side::Client { &mut self.to_server } else { &mut self.to_client };
            let Some(bytes) = direction.pop(books.held) else { return };
            self.look_at(side, &bytes, books);
        }
    }

    #[inline]
    fn look_at(&mut self, side: Side, bytes: &[u8], books: &mut Books<'_>) {
        let direction =
            if side == Side::Client { &mut self.to_server } else { &mut self.to_client };
        direction.took(bytes.len());
        self.follower.look_at(side, bytes, books.keeper);
        if let Some(why) = self.follower.unread() {
            if why == Unread::Encrypted {
                name(&mut books.seen.encrypted, self.client);
            }
            return self.stop_reading(books);
        }
        if (self.is_earlier || self.had_gap) && self.follower.is_out_of_step() {
            self.wait_again(books);
        }
    }

    fn stop_reading(&mut self, books: &mut Books<'_>) {
        self.reading = Reading::No;
        self.to_server.drop_ahead(books.held);
        self.to_client.drop_ahead(books.held);
    }

    /// Something is missing: what follows is read from a later moment on.
    fn lose(
        &mut self,
        missing_bytes: u64,
        side: Side,
        segment: &Segment<'_>,
        books: &mut Books<'_>,
    ) {
        books.seen.gaps += 1;
        books.seen.gap_bytes += missing_bytes;
        name(&mut books.seen.with_gaps, self.client);
        self.had_gap = true;
        self.wait_again(books);
        self.wait(side, segment, books);
    }

    fn wait_again(&mut self, books: &mut Books<'_>) {
        self.follower.lost(books.keeper);
        self.to_server.drop_ahead(books.held);
        self.to_client.drop_ahead(books.held);
        self.reading = Reading::Waiting;
        (self.exchanges, self.took_turns) = (0, false);
        self.ends = Ends::default();
    }

    /// Takes in a packet of a connection that waits to be joined.
    fn wait(&mut self, side: Side, segment: &Segment<'_>, books: &mut Books<'_>) {
        let payload = segment.payload;
        if payload.is_empty() || payload == LEAVES {
            return;
        }
        if self.is_encrypted(payload) {
            books.keeper.encrypted();
            name(&mut books.seen.encrypted, self.client);
            return self.stop_reading(books);
        }
        if side == Side::Server {
            self.wait_for_ready(segment);
        } else if self.is_at_beginning(segment) && self.took_turns {
            return self.join(segment, books);
        } else {
            books.seen.unread_bytes += payload.len() as u64;
            self.has_unread = true;
            self.wait_for_answer(segment);
        }
        let end = self.ends.of(side);
        if end.is_none_or(|end| distance(end, segment.end()) > 0) {
            *end = Some(segment.end());
        }
    }

    /// Whether its client says something after the server was ready, and nothing else came.
    fn is_at_beginning(&self, segment: &Segment<'_>) -> bool {
        let Reading::Ready { client, server } = self.reading else { return false };
        let is_next = segment.begin() == client && segment.acknowledged == Some(server);
        is_next && begins_exchange(segment.payload)
    }

    /// Its client asks something that is not read.
    fn wait_for_answer(&mut self, segment: &Segment<'_>) {
        // Where it got more than was seen, its earlier requests count as answered.
        let got = segment.acknowledged.zip(self.ends.server);
        let is_missing = got.is_some_and(|(place, end)| distance(end, place) > 0);
        if is_missing {
            self.exchanges = 0;
        }
        let is_beginning = self.is_at_beginning(segment);
        self.took_turns = is_beginning || self.took_turns && self.exchanges == 0 && !is_missing;
        self.exchanges = self.exchanges.saturating_add(u32::from(ends_exchange(segment.payload)));
        self.reading = Reading::Waiting;
    }

    /// Its server says something that is not read.
    fn wait_for_ready(&mut self, segment: &Segment<'_>) {
        let payload = segment.payload;
        if UNASKED.contains(&payload[0]) {
            if let Reading::Ready { client, server } = self.reading {
                if segment.begin() == server {
                    self.reading = Reading::Ready { client, server: segment.end() };
                    return;
                }
            }
        }
        let got_all = |place: &u32| self.ends.client.is_none_or(|end| distance(end, *place) >= 0);
        let place = segment.acknowledged.filter(got_all).filter(|_| payload.ends_with(READY));
        self.took_turns &= self.exchanges == 1;
        self.reading = match place {
            Some(client) if self.exchanges <= 1 => Reading::Ready { client, server: segment.end() },
            _ => Reading::Waiting,
        };
        let is_answer = payload[..payload.len() - 1].ends_with(READY_ANYHOW);
        self.exchanges = self.exchanges.saturating_sub(u32::from(is_answer));
    }

    fn join(&mut self, segment: &Segment<'_>, books: &mut Books<'_>) {
        let Reading::Ready { client, server } = self.reading else { return };
        let is_again = self.had_gap || self.was_joined;
        let count = if is_again { &mut books.seen.resumed } else { &mut books.seen.joined };
        *count += 1;
        self.was_joined = true;
        self.reading = Reading::Yes;
        self.has_unread = false;
        self.to_server.restart(client, books.held);
        self.to_client.restart(server, books.held);
        if segment.is_fin {
            self.to_server.ends_at(segment.end());
        }
        self.follower.join(books.keeper);
        self.read(Side::Client, segment, books);
    }

    /// Whether it has turned out to be encrypted: by the heads of records of TLS.
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

/// Whether a client's packet begins its connection, where what came before it was not seen: what
/// it says first, with a version or a request in the place of a kind.
pub fn is_startup(payload: &[u8]) -> bool {
    let length = messages::number(payload).and_then(|length| usize::try_from(length).ok());
    let code = payload.get(4..).and_then(messages::number);
    length == Some(payload.len()) && code.is_some_and(|code| code >> 16 == 3 || code >> 16 == 1234)
}
