//! How a client comes in, and what keeps it out.

use super::*;

/// What a server says first, and what a client with this password makes of it and says to it.
fn greeted(password: Option<&str>, messages: &[u8]) -> (Connection, Vec<ConnectionEvent>, Vec<u8>) {
    let mut out = Vec::new();
    let mut connection = Connection::new(&Login { password, ..who() }, &mut out);
    out.clear();
    let events = events(&mut connection, messages, &mut out);
    (connection, events, out)
}

fn refusal(events: &[ConnectionEvent]) -> &ServerError {
    match events {
        [ConnectionEvent::Refused(error)] => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn startup_names_the_user_and_requests_no_conversion() {
    let mut out = Vec::new();
    Connection::new(&who(), &mut out);
    let parameters =
        b"user\0ada\0database\0sea\0application_name\0seatrial\0client_encoding\0SQL_ASCII\0\0";
    let mut expected = ((parameters.len() + 8) as u32).to_be_bytes().to_vec();
    expected.extend_from_slice(&[0, 3, 0, 0]);
    expected.extend_from_slice(parameters);
    assert_eq!(out, expected);
    out.clear();
    Connection::new(&Login { read_only: true, options: Some("-c a=b"), ..who() }, &mut out);
    assert!(out.ends_with(b"\0default_transaction_read_only\0on\0options\0-c a=b\0\0"));
}

#[test]
fn a_password_is_given_in_clear_text_and_by_md5_as_requested() {
    let (_, events, out) = greeted(Some("secret"), &requested(3, b""));
    assert_eq!((events.len(), words(&out)), (0, vec!["p secret".to_owned()]));
    let (_, events, out) = greeted(Some("secret"), &requested(5, b"salt"));
    // md5(md5("secret" + "ada") + "salt"), by md5sum.
    assert_eq!(words(&out), ["p md5020da75c9b0640aabc4609320fe23b45"]);
    assert_eq!(events, []);
    let (mut connection, _, mut out) = greeted(Some("secret"), &requested(5, b"salt"));
    assert_eq!(super::events(&mut connection, &welcome(), &mut out), [ConnectionEvent::Ready]);
}

#[test]
fn missing_password_error_names_the_option() {
    for message in [requested(3, b""), requested(5, b"salt"), requested(10, b"SCRAM-SHA-256\0\0")] {
        let (connection, events, out) = greeted(None, &message);
        let error = refusal(&events);
        assert_eq!(&error.sqlstate, b"28P01");
        assert!(error.message.contains("\"ada\"") && error.message.contains("PGPASSWORD"));
        assert!(out.is_empty() && !connection.is_ready());
    }
}

/// Begins SCRAM: the connection, and the nonce that the client has drawn.
fn begun() -> (Connection, String) {
    let offered = requested(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    let (connection, events, out) = greeted(Some("secret"), &offered);
    assert!(events.is_empty());
    // A nonce may have any sign in it but a comma.
    let first = String::from_utf8_lossy(&out[MessageHeader::BYTES..]);
    let (mechanism, nonce) = first.split_once("n,,n=,r=").unwrap();
    assert!(mechanism.starts_with("SCRAM-SHA-256\0"));
    (connection, nonce.to_owned())
}

#[test]
fn scram_continues_if_the_nonce_matches() {
    let (mut connection, nonce) = begun();
    let first = format!("r={nonce}more,s=c2FsdHNhbHQ=,i=4096");
    let mut out = Vec::new();
    assert_eq!(events(&mut connection, &requested(11, first.as_bytes()), &mut out), []);
    assert!(words(&out)[0].starts_with(&format!("p c=biws,r={nonce}more,p=")));
    // A signature that somebody made who does not know the password.
    let guess = b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let found = events(&mut connection, &requested(12, guess), &mut out);
    assert!(refusal(&found).message.contains("SCRAM"), "{found:?}");
}

#[test]
fn scram_fails_without_a_valid_server_signature() {
    let (mut connection, nonce) = begun();
    let found = events(&mut connection, &welcome(), &mut Vec::new());
    assert!(refusal(&found).message.contains("without a proof"), "{found:?}");
    let first = requested(11, format!("r=other{nonce},s=c2FsdA==,i=4096").as_bytes());
    let (mut connection, _) = begun();
    let found = events(&mut connection, &first, &mut Vec::new());
    assert!(refusal(&found).message.contains("SCRAM"), "{found:?}");
    let (_, events, _) = greeted(Some("secret"), &requested(12, b"v=AAAA"));
    assert!(refusal(&events).message.contains("SASL"), "{events:?}");
}

#[test]
fn unknown_authentication_method_is_named() {
    let ways = [(2, "Kerberos"), (7, "GSSAPI"), (9, "SSPI"), (10, "SASL"), (99, "no name")];
    for (way, name) in ways {
        let (_, events, out) = greeted(Some("secret"), &requested(way, b"OAUTHBEARER\0\0"));
        let error = refusal(&events);
        assert!(error.message.contains(name) && error.message.contains("pg_hba.conf"));
        assert!(out.is_empty());
    }
}

#[test]
fn unsupported_authentication_is_refused_with_a_next_step() {
    for words in ["no pg_hba.conf entry, no encryption", "SSL connection is required"] {
        let (_, events, _) = greeted(None, &error("FATAL", "28000", words));
        let error = refusal(&events);
        assert!(error.message.starts_with(words) && error.message.contains("hostnossl"));
    }
    let (_, events, _) = greeted(None, &error("FATAL", "53300", "too many clients already"));
    assert_eq!(refusal(&events).message, "too many clients already");
}

#[test]
fn error_in_the_old_protocol_is_read() {
    // Without a length: of the time before version 3 of the protocol.
    let old = b"Ecould not fork new process for connection: no memory\n\0";
    let (_, events, _) = greeted(None, old);
    assert_eq!(refusal(&events).message, "could not fork new process for connection: no memory");
    let (mut connection, events, _) = greeted(None, b"");
    assert_eq!(events, []);
    let half = &old[..20];
    assert_eq!(connection.take_in(half, &mut Vec::new(), &mut Vec::new()), 0);
    match connection.hung_up(b"") {
        ConnectionEvent::Refused(error) => {
            assert!(error.message.contains("before it let the client in"))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_protocols_are_recognised_at_the_first_bytes() {
    let others: [&[u8]; 5] =
        [b"HTTP/1", b"SSH-2.0", b"J\0\0\0\x0a", b"Z\0\0\0\x05", b"R\0\x10\0\0"];
    for bytes in others {
        let (connection, events, _) = greeted(None, bytes);
        assert!(
            matches!(&events[..], [ConnectionEvent::NotUnderstood(why)] if why.contains("port"))
        );
        assert!(!connection.is_ready());
    }
}

#[test]
fn a_newer_server_may_negotiate_and_give_a_longer_key() {
    let key = [&[0, 0, 0, 9][..], &[5; 32]].concat();
    let messages = [
        from_server(b'v', &[0, 3, 0, 0, 0, 0, 0, 0]),
        requested(0, b""),
        from_server(b'N', b"SNOTICE\0\0"),
        from_server(b'K', &key),
        ready(b'I'),
    ];
    let (connection, events, _) = greeted(None, &messages.concat());
    assert_eq!(events, [ConnectionEvent::Ready]);
    assert_eq!((connection.process_id(), connection.secret_key.len()), (9, 32));
}
