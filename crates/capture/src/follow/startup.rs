//! The startup of a connection: a client may first request encryption, or send a cancel request;
//! then it sends the startup message.

use seatrial_pgwire::messages::{
    self, CANCEL_REQUEST, GSS_REQUEST, PROTOCOL, SSL_REQUEST, STARTUP_BYTES_MAX,
};

use super::{Follower, Stage, UnreadReason};
use crate::trace_queue::TraceQueue;

/// First byte of a direct TLS connection (`sslnegotiation=direct`).
const TLS_HANDSHAKE: u8 = 0x16;

impl Follower {
    /// Processes the client's first message; returns its length in bytes.
    pub(super) fn take_startup(&mut self, bytes: &[u8], queue: &mut TraceQueue) -> usize {
        let known = self.startup.len();
        if known == 0 && bytes.first() == Some(&TLS_HANDSHAKE) {
            self.stop_reading(UnreadReason::Encrypted, queue);
            return bytes.len();
        }
        self.startup.extend_from_slice(&bytes[..bytes.len().min(STARTUP_BYTES_MAX)]);
        let Some(length) = messages::number(&self.startup) else { return bytes.len() };
        let length = usize::try_from(length).unwrap_or(0);
        if !(8..=STARTUP_BYTES_MAX).contains(&length) {
            self.stop_reading(UnreadReason::NotUnderstood, queue);
            return bytes.len();
        }
        if self.startup.len() < length {
            return bytes.len();
        }
        let startup = std::mem::take(&mut self.startup);
        let code = messages::number(&startup[4..]).unwrap_or(0);
        queue.counted.records += 1;
        queue.counted.sessions += 1;
        match code {
            SSL_REQUEST | GSS_REQUEST => self.stage = Stage::EncryptionRequested,
            CANCEL_REQUEST => self.stop_reading(UnreadReason::Cancel, queue),
            version if version >> 16 == PROTOCOL >> 16 => self.begin(&startup[8..length], queue),
            _ => self.stop_reading(UnreadReason::NotUnderstood, queue),
        }
        length - known
    }

    /// Processes the server's one-letter answer on encryption; returns its length in bytes.
    pub(super) fn take_word(&mut self, bytes: &[u8], queue: &mut TraceQueue) -> usize {
        match bytes.first() {
            Some(b'N') => {
                self.stage = Stage::Startup;
                1
            }
            Some(b'S' | b'G') => {
                self.stop_reading(UnreadReason::Encrypted, queue);
                bytes.len()
            }
            // A server that does not know the request answers with an error, and closes the
            // connection.
            _ => {
                self.stop_reading(UnreadReason::NotUnderstood, queue);
                bytes.len()
            }
        }
    }

    fn begin(&mut self, mut parameters: &[u8], queue: &mut TraceQueue) {
        self.stage = Stage::Login;
        self.session.connected_us = Some(queue.now_us);
        loop {
            let (name, rest) = messages::text(parameters);
            let (value, rest) = messages::text(rest);
            parameters = rest;
            match name {
                b"" => break,
                b"user" => self.session.user = value.to_vec(),
                b"database" => self.session.database = value.to_vec(),
                b"application_name" => self.session.application = value.to_vec(),
                b"replication" if !is_no(value) => {
                    return self.stop_reading(UnreadReason::Replication, queue);
                }
                _ => self.note_setting(name),
            }
        }
        if self.session.database.is_empty() {
            self.session.database.clone_from(&self.session.user);
        }
    }

    /// Records parameters set at startup, which no statement shows. The encoding is tracked
    /// separately.
    fn note_setting(&mut self, name: &[u8]) {
        let is_known = name == b"client_encoding" || name == b"replication";
        if !(is_known || name.starts_with(b"_pq_.")) {
            self.settings.push(String::from_utf8_lossy(name).into_owned());
        }
    }
}

/// Whether a value is PostgreSQL's boolean false.
fn is_no(value: &[u8]) -> bool {
    [&b"false"[..], b"f", b"no", b"n", b"off", b"of", b"0"]
        .iter()
        .any(|no| value.eq_ignore_ascii_case(no))
}
