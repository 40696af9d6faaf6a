//! The protocol of one connection: bytes in, bytes out, independent of sockets.

use std::collections::HashMap;
use std::sync::Arc;

use seatrial_sqltext::statements::Control;

use super::answer::{Answer, answer_to};
use super::reply;
use super::sql;
use crate::messages::{
    self, CANCEL_REQUEST, GSS_REQUEST, PROTOCOL, SSL_REQUEST, STARTUP_BYTES_MAX,
};

/// A longer message is not a realistic statement.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Maximum number of statements, and of portals, of a session.
const NAMED_MAX: usize = 10_000;

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// It continues.
    Open,
    /// It is to be closed after sending what was written.
    Close,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    server_version: Arc<str>,
    is_started: bool,
    /// `I` idle, `T` in a transaction, `E` in a failed one.
    status: u8,
    /// After an error, everything up to the next `Sync` is skipped.
    skips: bool,
    statements: HashMap<Vec<u8>, Arc<Answer>>,
    portals: HashMap<Vec<u8>, Arc<Answer>>,
    /// Number of statements answered.
    pub statements_count: u64,
}

impl Session {
    /// A session before its startup message.
    pub fn new(server_version: Arc<str>) -> Session {
        Session {
            server_version,
            is_started: false,
            status: b'I',
            skips: false,
            statements: HashMap::new(),
            portals: HashMap::new(),
            statements_count: 0,
        }
    }

    /// Processes all complete messages and appends the answers. Returns the number of bytes
    /// processed.
    pub fn take_in(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, SessionState) {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let head = if self.is_started { 1 } else { 0 };
            let Some(length) = rest.get(head..head + 4) else { return (taken, SessionState::Open) };
            let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            let longest = if self.is_started { MESSAGE_BYTES_MAX } else { STARTUP_BYTES_MAX };
            if !(4..=longest).contains(&length) {
                return (taken, fatal(out, "08P01", "a message has a length that makes no sense"));
            }
            let Some(body) = rest.get(head + 4..head + length) else {
                return (taken, SessionState::Open);
            };
            taken += head + length;
            let next = if self.is_started {
                self.message(rest[0], body, out)
            } else {
                self.start(body, out)
            };
            if next == SessionState::Close {
                return (taken, next);
            }
        }
    }

    /// `StartupMessage`, or a message that may precede it.
    fn start(&mut self, body: &[u8], out: &mut Vec<u8>) -> SessionState {
        let Some(code) = messages::number(body) else {
            return fatal(out, "08P01", "the start-up message is too short");
        };
        match code {
            SSL_REQUEST | GSS_REQUEST => {
                out.push(b'N');
                return SessionState::Open;
            }
            CANCEL_REQUEST => return SessionState::Close,
            code if code >> 16 != PROTOCOL >> 16 => {
                return fatal(out, "0A000", "only version 3 of the protocol is spoken here");
            }
            _ => {}
        }
        if code > PROTOCOL {
            reply::message(out, b'v', |out| {
                out.extend_from_slice(&PROTOCOL.to_be_bytes());
                out.extend_from_slice(&0u32.to_be_bytes());
            });
        }
        self.is_started = true;
        reply::message(out, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
        let settings = [
            ("server_version", &*self.server_version),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("TimeZone", "UTC"),
        ];
        settings.iter().for_each(|(name, value)| reply::parameter_status(out, name, value));
        reply::message(out, b'K', |out| out.extend_from_slice(&[0; 8]));
        reply::ready(out, self.status);
        SessionState::Open
    }

    fn message(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>) -> SessionState {
        if self.skips && !matches!(kind, b'S' | b'X') {
            return SessionState::Open;
        }
        match kind {
            b'Q' => self.query(body, out),
            b'P' => self.parse(body, out),
            b'B' => self.bind(body, out),
            b'D' => self.describe(body, out),
            b'E' => self.execute(body, out),
            b'C' => self.close(body, out),
            b'S' => {
                self.skips = false;
                if self.status == b'I' {
                    self.portals.clear();
                }
                reply::ready(out, self.status);
            }
            // Messages of a COPY are ignored, as PostgreSQL does outside of one.
            b'H' | b'd' | b'c' | b'f' => {}
            b'X' => return SessionState::Close,
            _ => return fatal(out, "08P01", "a message of an unknown type"),
        }
        SessionState::Open
    }

    fn query(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body));
        let statements = sql::statements(&text);
        if statements.is_empty() {
            reply::bare(out, b'I');
        }
        for statement in statements {
            let answer = answer_to(statement, &self.server_version);
            out.extend_from_slice(&answer.description);
            self.send_result(&answer, out);
            if answer.has_failed {
                break;
            }
        }
        reply::ready(out, self.status);
    }

    fn parse(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some((name, rest)) = take_name(body) else { return self.malformed(out) };
        let Some((text, _)) = take_name(rest) else { return self.malformed(out) };
        if self.statements.len() >= NAMED_MAX {
            return self.fail(out, "54000", "too many prepared statements");
        }
        let answer = answer_to(&String::from_utf8_lossy(text), &self.server_version);
        self.statements.insert(name.to_vec(), Arc::new(answer));
        reply::bare(out, b'1');
    }

    fn bind(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some((portal, rest)) = take_name(body) else { return self.malformed(out) };
        let Some((name, _)) = take_name(rest) else { return self.malformed(out) };
        let Some(answer) = self.statements.get(name).cloned() else {
            return self.fail(out, "26000", "there is no prepared statement of that name");
        };
        if self.portals.len() >= NAMED_MAX {
            return self.fail(out, "54000", "too many portals");
        }
        // Most clients reuse the unnamed portal.
        match self.portals.get_mut(portal) {
            Some(bound) => *bound = answer,
            None => drop(self.portals.insert(portal.to_vec(), answer)),
        }
        reply::bare(out, b'2');
    }

    fn describe(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some((kind, name)) = take_kind(body) else { return self.malformed(out) };
        let found = if kind == b'S' { &self.statements } else { &self.portals };
        let Some(answer) = found.get(name).cloned() else {
            return self.fail(out, "26000", "there is no statement or portal of that name");
        };
        if kind == b'S' {
            reply::parameter_description(out, answer.parameters);
        }
        if answer.description.is_empty() {
            reply::bare(out, b'n');
        } else {
            out.extend_from_slice(&answer.description);
        }
    }

    fn execute(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some((portal, _)) = take_name(body) else { return self.malformed(out) };
        let Some(answer) = self.portals.get(portal).cloned() else {
            return self.fail(out, "34000", "there is no portal of that name");
        };
        self.send_result(&answer, out);
        self.skips = answer.has_failed;
    }

    fn close(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some((kind, name)) = take_kind(body) else { return self.malformed(out) };
        let named = if kind == b'S' { &mut self.statements } else { &mut self.portals };
        named.remove(name);
        reply::bare(out, b'3');
    }

    /// Sends a statement's result.
    fn send_result(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        self.statements_count += 1;
        out.extend_from_slice(&answer.result);
        self.status = match answer.control {
            _ if answer.has_failed => failed(self.status),
            Control::None | Control::RollBackTo | Control::EndPrepared => self.status,
            Control::Begin => b'T',
            Control::End { is_chained, .. } if is_chained && self.status != b'I' => b'T',
            Control::End { .. } => b'I',
        };
    }

    fn malformed(&mut self, out: &mut Vec<u8>) {
        self.fail(out, "08P01", "a message ends early");
    }

    /// An error in the extended protocol.
    fn fail(&mut self, out: &mut Vec<u8>, code: &str, sentence: &str) {
        reply::error(out, "ERROR", code, sentence);
        self.status = failed(self.status);
        self.skips = true;
    }
}

/// The transaction status after an error.
fn failed(status: u8) -> u8 {
    if status == b'T' { b'E' } else { status }
}

/// Reports why the connection will be closed.
pub fn fatal(out: &mut Vec<u8>, code: &str, sentence: &str) -> SessionState {
    reply::error(out, "FATAL", code, sentence);
    SessionState::Close
}

/// A text up to its zero byte, and the rest.
fn take_name(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, body)?;
    Some((&body[..end], &body[end + 1..]))
}

/// `S` or `P`, and the name of a statement or portal.
fn take_kind(body: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = body.split_first()?;
    let (name, _) = take_name(rest)?;
    matches!(kind, b'S' | b'P').then_some((kind, name))
}
