//! Conversations in packets, as networks and a kernel that is behind bring them.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use seatrial_pgwire::messages::SSL_REQUEST;
use seatrial_trace::captured::Skip;

use super::connections::Connections;
use super::counts::PacketCounts;
use super::segment::Segment;
use super::*;
use crate::follow::tests::conversation::*;
use crate::pair::Side;
use crate::spec::KnownSession;
use crate::trace_queue::Batch;

const CLIENT: &str = "10.0.0.7:40000";
const SERVER: &str = "10.0.0.1:5432";

/// A packet that was sent.
#[derive(Clone, Debug)]
struct Sent {
    side: Side,
    client: &'static str,
    sequence: u32,
    acknowledged: u32,
    is_syn: bool,
    is_fin: bool,
    is_rst: bool,
    payload: Vec<u8>,
}

/// Two ends that say something to each other.
struct Line {
    client: &'static str,
    at: [u32; 2],
    sent: Vec<Sent>,
}

impl Line {
    /// Sequence numbers that wrap around soon, without any data.
    fn new(client: &'static str) -> Line {
        Line { client, at: [u32::MAX - 20, u32::MAX - 50], sent: Vec::new() }
    }

    fn send(&mut self, side: Side, payload: &[u8]) -> &mut Sent {
        let own = usize::from(side == Side::Server);
        let (sequence, acknowledged) = (self.at[own], self.at[1 - own]);
        self.at[own] = sequence.wrapping_add(payload.len() as u32);
        self.sent.push(Sent {
            side,
            client: self.client,
            sequence,
            acknowledged,
            is_syn: false,
            is_fin: false,
            is_rst: false,
            payload: payload.to_vec(),
        });
        self.sent.last_mut().unwrap()
    }

    fn begin(mut self) -> Line {
        for side in [Side::Client, Side::Server] {
            self.send(side, b"").is_syn = true;
            let own = usize::from(side == Side::Server);
            self.at[own] = self.at[own].wrapping_add(1);
        }
        self
    }

    fn say(mut self, traffic: &[Traffic], piece_bytes: usize) -> Line {
        for each in traffic {
            let (side, bytes) = match each {
                Client(bytes) => (Side::Client, bytes),
                Server(bytes) => (Side::Server, bytes),
            };
            for piece in bytes.chunks(piece_bytes) {
                self.send(side, piece);
            }
        }
        self
    }

    fn end(mut self) -> Line {
        for side in [Side::Client, Side::Server] {
            self.send(side, b"").is_fin = true;
            let own = usize::from(side == Side::Server);
            self.at[own] = self.at[own].wrapping_add(1);
        }
        self
    }
}

/// What was captured of packets.
struct Bench {
    connections: Connections,
    queue: TraceQueue,
    received: Receiver<Batch>,
}

impl Bench {
    fn new() -> Bench {
        let (batches, received) = channel();
        let queue = TraceQueue::new(batches, Arc::default());
        let addresses = vec!["10.0.0.1".parse().unwrap()];
        let server = Endpoint { port: 5_432, addresses };
        Bench { connections: Connections::new(server, Vec::new(), Arc::default()), queue, received }
    }

    fn take(&mut self, sent: &Sent) {
        let (client, server): (SocketAddr, SocketAddr) =
            (sent.client.parse().unwrap(), SERVER.parse().unwrap());
        let (from, to) =
            if sent.side == Side::Client { (client, server) } else { (server, client) };
        let is_first = sent.is_syn && sent.side == Side::Client;
        self.queue.now_us += 10;
        let segment = Segment {
            from,
            to,
            sequence: sent.sequence,
            acknowledged: (!is_first).then_some(sent.acknowledged),
            is_syn: sent.is_syn,
            is_fin: sent.is_fin,
            is_rst: sent.is_rst,
            payload: &sent.payload,
        };
        self.connections.take(&segment, &mut self.queue);
    }

    fn finish(mut self) -> (Outcome, PacketCounts) {
        let seen = self.connections.finish(&mut self.queue);
        self.queue.flush();
        let (sessions, statements) = unpack(&self.received);
        let counted = &self.queue.counted;
        assert_eq!(counted.records, counted.accounted());
        assert_eq!(counted.statements, statements.len() as u64);
        (Outcome { queue: self.queue, sessions, statements }, seen)
    }
}

fn captured(sent: &[Sent]) -> (Outcome, PacketCounts) {
    let mut bench = Bench::new();
    sent.iter().for_each(|each| bench.take(each));
    bench.finish()
}

/// All of what was captured but times.
fn texts(outcome: &Outcome) -> Vec<String> {
    let text = |one: &Statement| {
        let mut fields = one.fields.clone();
        (fields.start_us, fields.duration_us) = (0, fields.duration_us.map(|_| 0));
        format!("{fields:?} {} {} {:?}", one.prepared, one.sql, one.parameters)
    };
    outcome.statements.iter().map(text).collect()
}

fn simple(sql: &str, tag: &str, state: u8) -> Vec<Traffic> {
    vec![Client(query(sql)), Server(joined(&[complete(tag), ready(state)]))]
}

fn prepared(parts: &[Vec<u8>], answers: &[Vec<u8>]) -> Vec<Traffic> {
    let request = [parts, &[sync()]].concat();
    vec![Client(joined(&request)), Server(joined(&[answers, &[ready(b'I')]].concat()))]
}

/// Simple, prepared and copied statements, in transactions and outside.
fn shop() -> Vec<Traffic> {
    let inserted = || [message(b'2', b""), complete("INSERT 0 1")];
    let traffic = [
        simple("begin", "BEGIN", b'T'),
        simple("update t set a = 1", "UPDATE 3", b'T'),
        simple("commit", "COMMIT", b'I'),
        prepared(
            &[
                parse("s", "insert into t values ($1)", &[25]),
                bind("", "s", &[Some("x")]),
                execute("", 0),
            ],
            &[&[message(b'1', b"")][..], &inserted()].concat(),
        ),
        prepared(&[bind("", "s", &[Some("y")]), execute("", 0)], &inserted()),
        vec![
            Client(query("copy t from stdin")),
            Server(message(b'G', b"\0\0\0")),
            Client(joined(&[message(b'd', &[7; 300]), message(b'c', b"")])),
            Server(joined(&[complete("COPY 9"), ready(b'I')])),
        ],
        simple("select 2", "SELECT 1", b'I'),
        vec![Client(message(b'X', b""))],
    ];
    session(traffic.concat())
}

#[test]
fn packets_give_the_same_trace_as_a_proxy() {
    let expected = texts(&follow(&shop(), usize::MAX));
    for piece_bytes in [1, 5, 64, usize::MAX] {
        let line = Line::new(CLIENT).begin().say(&shop(), piece_bytes).end();
        let (outcome, seen) = captured(&line.sent);
        assert_eq!(texts(&outcome), expected, "in pieces of {piece_bytes}");
        assert_eq!(seen, PacketCounts::default());
        let session = &outcome.sessions[0];
        assert_eq!((&session.name[..], &session.user[..]), (&b"4243"[..], &b"me"[..]));
        assert!(session.disconnected_us.is_some());
        assert_eq!(outcome.queue.counted.wire.connections, 1);
    }
}

#[test]
fn packets_of_other_servers_are_ignored() {
    let mut line = Line::new(CLIENT).begin().say(&shop(), 64).end();
    let mut bench = Bench::new();
    bench.connections = Connections::new(
        Endpoint { port: 5_432, addresses: vec!["10.0.0.2".parse().unwrap()] },
        Vec::new(),
        Arc::default(),
    );
    line.sent.drain(..).for_each(|sent| bench.take(&sent));
    let (outcome, seen) = bench.finish();
    assert_eq!((outcome.statements.len(), seen), (0, PacketCounts::default()));
}

/// The order in which packets of one side come that are in progress at once, and how often.
fn shaken(sent: &[Sent], keys: &[u8]) -> Vec<Sent> {
    let mut out: Vec<Sent> = Vec::new();
    let mut rest = sent;
    let key = |place: usize| keys[place % keys.len()];
    while let Some(first) = rest.first() {
        let is_of_it =
            |each: &&Sent| each.side == first.side && !each.is_syn && !each.is_fin && !first.is_syn;
        let count = rest.iter().take_while(is_of_it).count().max(1);
        let mut flight: Vec<(usize, &Sent)> = rest[..count].iter().enumerate().collect();
        flight.sort_by_key(|(place, _)| key(*place + count));
        for (place, each) in flight {
            out.push(each.clone());
            if key(place) % 3 == 0 {
                // Sent again, with some of what is before or without its first bytes.
                let mut again = each.clone();
                let cut = usize::from(key(place + 1)) % (again.payload.len() + 1);
                again.payload.drain(..cut);
                again.sequence = again.sequence.wrapping_add(cut as u32);
                out.push(again);
            }
        }
        rest = &rest[count..];
    }
    out
}

proptest! {
    #[test]
    fn reordered_and_repeated_packets_change_nothing(
        keys in prop::collection::vec(any::<u8>(), 1..200),
        piece_bytes in 1_usize..120,
    ) {
        let line = Line::new(CLIENT).begin().say(&shop(), piece_bytes).end();
        let (outcome, seen) = captured(&shaken(&line.sent, &keys));
        prop_assert_eq!(texts(&outcome), texts(&follow(&shop(), usize::MAX)));
        prop_assert_eq!((seen.gaps, seen.earlier), (0, 0));
    }

    /// Whatever is missing: kept statements are real, and the counts add up.
    #[test]
    fn lost_packets_invent_no_statements(
        missing in prop::collection::vec(any::<bool>(), 1..300),
        piece_bytes in 1_usize..200,
    ) {
        let line = Line::new(CLIENT).begin().say(&shop(), piece_bytes).end();
        let is_there = |place: usize| !missing[place % missing.len()];
        let kept: Vec<Sent> = line.sent.iter().enumerate()
            .filter(|(place, _)| is_there(*place)).map(|(_, sent)| sent.clone()).collect();
        let (outcome, _) = captured(&kept);
        let whole = follow(&shop(), usize::MAX);
        let known = |one: &Statement| (one.sql.clone(), one.parameters.clone(), tag(one));
        let traffic: Vec<_> = whole.statements.iter().map(known).collect();
        for one in &outcome.statements {
            let is_whole = one.fields.duration_us.is_some() && one.fields.skip.is_none();
            prop_assert!(!is_whole || traffic.contains(&known(one)), "{one:?}");
        }
    }
}

/// Whole statements of a capture from which some packets are missing.
fn without(traffic: &[Traffic], is_missing: impl Fn(&Sent) -> bool) -> (Outcome, PacketCounts) {
    let line = Line::new(CLIENT).begin().say(traffic, usize::MAX).end();
    let (kept, missing): (Vec<_>, Vec<_>) = line.sent.into_iter().partition(|s| !is_missing(s));
    assert_eq!(missing.len(), 1);
    captured(&kept)
}

fn holds(sent: &Sent, text: &[u8]) -> bool {
    sent.payload.windows(text.len()).any(|part| part == text)
}

#[test]
fn session_with_a_gap_resumes_at_the_next_sync_point() {
    let traffic = session(
        [
            simple("select 1", "SELECT 1", b'I'),
            simple("begin", "BEGIN", b'T'),
            simple("update t set a = 2", "UPDATE 2", b'T'),
            simple("update t set a = 3", "UPDATE 3", b'T'),
            simple("commit", "COMMIT", b'I'),
            simple("select 4", "SELECT 4", b'I'),
            simple("select 5", "SELECT 5", b'I'),
            simple("select 6", "SELECT 6", b'I'),
            vec![Client(message(b'X', b""))],
        ]
        .concat(),
    );
    // A client's messages.
    let (outcome, seen) = without(&traffic, |sent| holds(sent, b"a = 2"));
    assert_eq!(sqls(&outcome), ["select 1", "begin", "select 5", "select 6"]);
    assert_eq!((seen.gaps, seen.gap_bytes, seen.resumed), (1, 24, 1));
    assert_eq!(seen.with_gaps, [CLIENT]);
    // Its transaction is open there, so the session ends; another one of the same client follows.
    assert_eq!(outcome.sessions.len(), 2);
    assert!(outcome.sessions[0].disconnected_us < outcome.sessions[1].disconnected_us);
    assert_eq!(outcome.sessions[0].name, outcome.sessions[1].name);
    assert_eq!(
        (&outcome.sessions[1].user[..], outcome.sessions[1].connected_us),
        (&b"me"[..], None)
    );
    let sessions: Vec<u32> = outcome.statements.iter().map(|one| one.fields.session.0).collect();
    assert_eq!(sessions, [0, 0, 1, 1]);
    // What the server traffic: nobody knows what came of the statement.
    let (outcome, seen) = without(&traffic, |sent| holds(sent, b"UPDATE 2"));
    assert_eq!(sqls(&outcome), ["select 1", "begin", "update t set a = 2", "select 5", "select 6"]);
    assert_eq!(outcome.statements[2].fields.duration_us, None);
    assert_eq!((seen.gaps, outcome.queue.counted.wire.unanswered), (1, 1));
    // The last of all that it says is missed by the packet that ends the connection.
    let (_, seen) = without(&traffic, |sent| holds(sent, b"SELECT 6"));
    assert_eq!((seen.gaps, seen.resumed), (1, 0));
}

#[test]
fn prepared_statements_are_unknown_after_a_gap() {
    let inserted = || [message(b'2', b""), complete("INSERT 0 1")];
    let first =
        [parse("s", "insert into t values ($1)", &[25]), bind("", "s", &[None]), execute("", 0)];
    let again = |value| [bind("", "s", &[Some(value)]), execute("", 0)];
    let traffic = session(
        [
            prepared(&first, &[&[message(b'1', b"")][..], &inserted()].concat()),
            prepared(&again("missing"), &inserted()),
            prepared(&again("soon"), &inserted()),
            prepared(&again("later"), &inserted()),
        ]
        .concat(),
    );
    let (outcome, seen) = without(&traffic, |sent| holds(sent, b"missing"));
    assert_eq!((seen.gaps, seen.resumed), (1, 1));
    assert_eq!(sqls(&outcome), ["insert into t values ($1)", ""]);
    assert_eq!(outcome.statements[1].fields.skip, Some(Skip::UnknownText));
}

/// A session of which the capture sees the end only: from a message on.
fn later(traffic: &[Traffic], from: usize) -> (Outcome, PacketCounts) {
    let line = Line::new(CLIENT).begin().say(traffic, usize::MAX);
    captured(&line.sent[from + 2..])
}

#[test]
fn earlier_session_is_joined_between_transactions() {
    let traffic = [
        simple("begin", "BEGIN", b'T'),
        simple("update t set a = 1", "UPDATE 3", b'T'),
        simple("commit", "COMMIT", b'I'),
        simple("select 1", "SELECT 1", b'I'),
        simple("select 2", "SELECT 1", b'I'),
        simple("select 3", "SELECT 1", b'I'),
    ]
    .concat();
    for from in 1..=5 {
        let (outcome, seen) = later(&traffic, from);
        assert_eq!(sqls(&outcome), ["select 2", "select 3"], "from {from}");
        assert_eq!((seen.earlier, seen.joined, seen.left_out, seen.gaps), (1, 1, 0, 0));
        assert_eq!((outcome.sessions.len(), &outcome.sessions[0].name[..]), (1, CLIENT.as_bytes()));
        assert_eq!(outcome.sessions[0].connected_us, None);
        // The connection goes on when the capture ends.
        assert_eq!(outcome.sessions[0].disconnected_us, None);
    }
    let (outcome, seen) = later(&traffic[..4], 1);
    assert_eq!((outcome.statements.len(), outcome.sessions.len()), (0, 0));
    assert_eq!((seen.earlier, seen.joined, seen.left_out), (1, 0, 1));
    // A client that only terminates has sent no request.
    let (_, seen) = later(&[&traffic[..], &[Client(message(b'X', b""))]].concat(), 12);
    assert_eq!((seen.joined, seen.left_out), (0, 0));
}

/// Two exchanges are begun before the first is answered: where one is still to be answered, the
/// next answers would be taken for those of others.
#[test]
fn pipelining_client_is_not_joined_mid_pipeline() {
    let ask = |sql: &str| joined(&[parse("", sql, &[]), bind("", "", &[]), execute("", 0), sync()]);
    let answer =
        |tag: &str| joined(&[message(b'1', b""), message(b'2', b""), complete(tag), ready(b'I')]);
    let traffic = vec![
        Server(answer("SELECT 0")),
        Client(ask("select 1")),
        Client(ask("select 2")),
        Server(answer("SELECT 1")),
        Client(ask("select 3")),
        Server(answer("SELECT 2")),
        Server(answer("SELECT 3")),
        Client(ask("select 4")),
        Server(answer("SELECT 4")),
        Client(ask("select 5")),
        Server(answer("SELECT 5")),
    ];
    for from in 0..4 {
        let (outcome, seen) = later(&traffic, from);
        let rows: Vec<_> =
            outcome.statements.iter().map(|one| (one.sql.as_str(), one.fields.rows)).collect();
        assert_eq!(rows, [("select 5", Some(5))], "from {from}");
        assert_eq!((seen.joined, outcome.queue.counted.wire.out_of_step), (1, 0));
    }
}

/// Where a session was joined at the wrong moment after all, an answer fits nothing in the end.
#[test]
fn session_out_of_step_is_joined_again() {
    let traffic = [
        simple("select 0", "SELECT 0", b'I'),
        simple("select 1", "SELECT 1", b'I'),
        simple("select 2", "SELECT 1", b'I'),
        vec![Server(joined(&[complete("SELECT 9"), ready(b'I')]))],
        simple("select 3", "SELECT 1", b'I'),
        simple("select 4", "SELECT 1", b'I'),
        simple("select 5", "SELECT 1", b'I'),
    ]
    .concat();
    let (outcome, seen) = later(&traffic, 1);
    assert_eq!(sqls(&outcome), ["select 2", "select 5"]);
    // What was done, and that the server is ready.
    assert_eq!((outcome.sessions.len(), outcome.queue.counted.wire.out_of_step), (2, 2));
    assert_eq!((seen.joined, seen.resumed), (1, 1));
}

#[test]
fn encrypted_clients_are_named() {
    let request = [&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes()].concat();
    let record = |bytes: usize| [&[0x17, 3, 3, 0, bytes as u8][..], &vec![9; bytes]].concat();
    let traffic = vec![
        Client(request.clone()),
        Server(b"S".to_vec()),
        Client([&[0x16, 3, 1, 0, 50][..], &[7; 50]].concat()),
        Server(record(99)),
        Client(record(60)),
        Server(record(30)),
    ];
    let line = Line::new(CLIENT).begin().say(&traffic, usize::MAX).end();
    let (outcome, seen) = captured(&line.sent);
    assert_eq!(
        (outcome.queue.counted.wire.encrypted, &seen.encrypted[..]),
        (1, &[CLIENT.into()][..])
    );
    assert_eq!((outcome.sessions.len(), seen.gaps), (0, 0));
    // One that was there before.
    let (outcome, seen) = later(&traffic, 3);
    assert_eq!(
        (outcome.queue.counted.wire.encrypted, &seen.encrypted[..]),
        (1, &[CLIENT.into()][..])
    );
    assert_eq!((outcome.sessions.len(), seen.left_out), (0, 0));
    // A server that does not encrypt.
    let traffic = [vec![Client(request), Server(b"N".to_vec())], shop()].concat();
    let (outcome, _) = captured(&Line::new(CLIENT).begin().say(&traffic, 7).end().sent);
    assert_eq!(outcome.statements.len(), 7);
    assert_eq!(outcome.queue.counted.wire.encrypted, 0);
}

#[test]
fn reused_address_pair_is_a_new_connection() {
    let traffic = session(simple("select 1", "SELECT 1", b'I'));
    let first = Line::new(CLIENT).begin().say(&traffic, usize::MAX);
    let mut second = Line::new(CLIENT);
    second.at = [1_000, 2_000];
    let second = second.begin().say(&traffic, usize::MAX).end();
    // The first one's end was not seen; packets that begin one come twice.
    let again = second.sent[..2].to_vec();
    let (outcome, seen) =
        captured(&[&first.sent[..], &second.sent[..2], &again, &second.sent[2..]].concat());
    assert_eq!((outcome.sessions.len(), outcome.statements.len()), (2, 2));
    assert_eq!((seen.gaps, seen.earlier, outcome.queue.counted.wire.connections), (0, 0, 2));
    // What comes late of one that has ended is of no other one.
    let ended = first.end();
    let late = ended.sent[ended.sent.len() - 3].clone();
    let (outcome, seen) = captured(&[&ended.sent[..], &[late]].concat());
    assert_eq!((outcome.sessions.len(), seen.earlier), (1, 0));
}

#[test]
fn reset_connection_ends_its_session() {
    let traffic = session(vec![Client(query("select pg_sleep(9)"))]);
    let mut line = Line::new(CLIENT).begin().say(&traffic, usize::MAX);
    line.send(Side::Client, b"").is_rst = true;
    let (outcome, seen) = captured(&line.sent);
    assert!(outcome.sessions[0].disconnected_us.is_some());
    assert_eq!((outcome.queue.counted.wire.unanswered, seen.gaps), (1, 0));
}

#[test]
fn earlier_sessions_may_be_known() {
    let known = KnownSession {
        client: CLIENT.parse().unwrap(),
        name: "4243".into(),
        user: "me".into(),
        database: "shop".into(),
        application: "till".into(),
    };
    let traffic = ["a", "b", "c"].map(|sql| simple(sql, "SELECT 0", b'I')).concat();
    let line = Line::new(CLIENT).begin().say(&traffic, usize::MAX);
    let mut bench = Bench::new();
    let server = Endpoint { port: 5_432, addresses: Vec::new() };
    bench.connections = Connections::new(server, vec![known], Arc::default());
    line.sent[3..].iter().for_each(|sent| bench.take(sent));
    let (outcome, _) = bench.finish();
    let session = &outcome.sessions[0];
    assert_eq!((&session.name[..], &session.user[..]), (&b"4243"[..], &b"me"[..]));
    assert_eq!((&session.database[..], &session.application[..]), (&b"shop"[..], &b"till"[..]));
}
