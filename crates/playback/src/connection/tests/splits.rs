//! Whatever pieces the bytes of a server come in, the events are the same.

use proptest::prelude::*;

use super::*;

/// A statement, and what the server says to it.
type Exchange = (Item, Vec<u8>);

fn messages() -> impl Strategy<Value = Vec<u8>> {
    let body = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        8 => body().prop_map(|body| from_server(b'D', &body)),
        1 => (0..20_000usize).prop_map(|bytes| from_server(b'D', &vec![7; bytes])),
        1 => body().prop_map(|body| from_server(b'd', &body)),
        1 => body().prop_map(|body| from_server(b'T', &body)),
        1 => body().prop_map(|body| from_server(b'N', &body)),
        1 => body().prop_map(|body| from_server(b'A', &body)),
        1 => Just(bare("123")),
        2 => (0..1_000u32).prop_map(|rows| complete(&format!("SELECT {rows}"))),
        1 => Just(complete("DISCARD ALL")),
        1 => (0..30_000usize)
            .prop_map(|length| error("ERROR", "P0001", &"y".repeat(length))),
        1 => prop_oneof![Just("LATIN1"), Just("SQL_ASCII")]
            .prop_map(|value| parameter("client_encoding", value)),
        1 => Just(from_server(b'G', &[0, 0, 0])),
    ]
}

fn items() -> impl Strategy<Value = Item> {
    prop_oneof![
        Just(simple("select 1")),
        Just(named("", "select 1")),
        ("[ab]", "select [12]").prop_map(|(name, sql)| named(&name, &sql)),
    ]
}

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let status = prop_oneof![Just(b'I'), Just(b'T'), Just(b'E')];
    let events = (proptest::collection::vec(messages(), 0..12), status);
    // Whether the encoding is taken back or not, as many answers as are awaited come.
    let answer = events.prop_map(|(messages, status)| [messages.concat(), ready(status)].concat());
    proptest::collection::vec((items(), answer), 1..8)
}

fn ends() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(error("FATAL", "57P01", "by command")),
        Just(b"?\0\0\0\x04".to_vec()),
    ]
}

/// Plays all exchanges, with the server's bytes in pieces of the lengths in `cuts`, taken in turn.
fn play(exchanges: &[Exchange], end: &[u8], cuts: &[usize]) -> (Vec<ConnectionEvent>, Vec<u8>) {
    let (mut events, mut out) = (Vec::new(), Vec::new());
    let mut connection = Connection::new(&who(), &mut out);
    let mut cuts = cuts.iter().cycle();
    let mut buffered = Vec::new();
    let mut feed = |connection: &mut Connection, mut bytes: &[u8], out: &mut Vec<u8>| {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at((*cuts.next().unwrap()).min(bytes.len()));
            buffered.extend_from_slice(piece);
            let taken = connection.take_in(&buffered, out, &mut events);
            buffered.drain(..taken);
            assert!(buffered.len() < READ_BYTES_MAX + MessageHeader::BYTES);
            bytes = rest;
        }
    };
    feed(&mut connection, &welcome(), &mut out);
    for (item, answer) in exchanges {
        assert_eq!(connection.send(item, &mut out), SendOutcome::Sent);
        if connection.ignored_answers > 0 {
            feed(&mut connection, &[complete("SET"), ready(b'I')].concat(), &mut out);
        }
        feed(&mut connection, answer, &mut out);
    }
    feed(&mut connection, end, &mut out);
    (events, out)
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_bytes_are_split(
        exchanges in exchanges(),
        end in ends(),
        cuts in proptest::collection::vec(prop_oneof![1..9usize, 1..5_000usize], 1..20),
    ) {
        let whole = play(&exchanges, &end, &[usize::MAX]);
        prop_assert_eq!(whole.0.len(), 1 + exchanges.len() + usize::from(!end.is_empty()));
        prop_assert_eq!(play(&exchanges, &end, &cuts), whole);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        is_in in any::<bool>(),
        messages in proptest::collection::vec(
            (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..60)),
            1..8,
        ),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut connection = if is_in {
            connected()
        } else {
            Connection::new(&who(), &mut Vec::new())
        };
        let mut bytes: Vec<u8> =
            messages.iter().flat_map(|(kind, body)| from_server(*kind, body)).collect();
        bytes.extend_from_slice(&tail);
        connection.send(&named("a", "select 1"), &mut Vec::new());
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let taken = connection.take_in(&bytes, &mut out, &mut events);
        prop_assert!(taken <= bytes.len());
        prop_assert!(events.len() <= messages.len() + 1);
    }
}
