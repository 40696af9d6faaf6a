//! What clients and servers say, message by message, and what comes of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use seatrial_pgwire::messages;
use seatrial_trace::captured::Returned;

use super::super::*;
use crate::recorder::{self, unpack_rows};
use crate::trace_queue::{Batch, Entry, PackedStatement, Shared, StatementFields};

/// Who says what.
#[derive(Clone, Debug)]
pub enum Traffic {
    Client(Vec<u8>),
    Server(Vec<u8>),
}
pub use Traffic::{Client, Server};

/// A statement with its texts.
#[derive(Debug)]
pub struct Statement {
    pub fields: StatementFields,
    pub prepared: String,
    pub sql: String,
    pub types: Option<String>,
    pub parameters: Vec<Option<String>>,
    pub returned: Option<Box<Returned>>,
}

/// What came of a conversation.
pub struct Outcome {
    pub queue: TraceQueue,
    pub sessions: Vec<Session>,
    pub statements: Vec<Statement>,
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    messages::message(&mut out, kind, |out| out.extend_from_slice(body));
    out
}

pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    messages::startup(&mut out, parameters);
    out
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

pub fn complete(tag: &str) -> Vec<u8> {
    message(b'C', format!("{tag}\0").as_bytes())
}

pub fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

pub fn error(sqlstate: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0C{sqlstate}\0Mno\0\0").as_bytes())
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    messages::parse(&mut out, name.as_bytes(), sql.as_bytes(), types);
    out
}

/// Parameters in text; results in text.
pub fn bind(portal: &str, prepared: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    let mut body = format!("{portal}\0{prepared}\0\0\0").into_bytes();
    body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        let length = parameter.map_or(-1, |value| value.len() as i32);
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(parameter.unwrap_or("").as_bytes());
    }
    body.extend_from_slice(&[0, 0]);
    message(b'B', &body)
}

pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat())
}

pub fn describe(kind: char, name: &str) -> Vec<u8> {
    message(b'D', format!("{kind}{name}\0").as_bytes())
}

pub fn described(columns: &[(&str, u32)]) -> Vec<u8> {
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for (name, type_oid) in columns {
        body.extend_from_slice(format!("{name}\0").as_bytes());
        body.extend_from_slice(&[0; 6]);
        body.extend_from_slice(&type_oid.to_be_bytes());
        body.extend_from_slice(&[0; 8]);
    }
    message(b'T', &body)
}

pub fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        body.extend_from_slice(&value.map_or(-1, |value| value.len() as i32).to_be_bytes());
        body.extend_from_slice(value.unwrap_or(b""));
    }
    message(b'D', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

pub fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

/// How a session of `me` in `shop` begins.
pub fn login() -> Vec<Traffic> {
    let startup = startup(&[("user", "me"), ("database", "shop"), ("application_name", "till")]);
    vec![
        Client(startup),
        Server(message(b'R', b"\0\0\0\x0a-SCRAM-SHA-256\0\0")),
        Client(message(b'p', b"SCRAM-SHA-256\0secret")),
        Server(joined(&[
            message(b'R', &[0; 4]),
            message(b'S', b"client_encoding\0UTF8\0"),
            message(b'S', b"server_encoding\0UTF8\0"),
            message(b'K', b"\0\0\x10\x93secretkey"),
            ready(b'I'),
        ])),
    ]
}

/// A session that says this once it is in.
pub fn session(traffic: Vec<Traffic>) -> Vec<Traffic> {
    [login(), traffic].concat()
}

pub fn unpack(batches: &Receiver<Batch>) -> (Vec<Session>, Vec<Statement>) {
    let (mut sessions, mut statements) = (Vec::new(), Vec::new());
    for batch in batches.try_iter() {
        let mut bytes = &batch.bytes[..];
        for entry in batch.entries {
            match entry {
                Entry::Session(session) => sessions.push(*session),
                Entry::Changed(id, session) => sessions[id.0 as usize] = *session,
                Entry::Statement(kept) => statements.push(statement(kept, &mut bytes)),
            }
        }
    }
    (sessions, statements)
}

fn statement(packed: PackedStatement, bytes: &mut &[u8]) -> Statement {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut take = |count: usize| {
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        text(taken)
    };
    let (prepared, sql) = (take(packed.prepared_bytes), take(packed.sql_bytes));
    let types = packed.types_bytes.map(&mut take);
    let mut parameters = Vec::new();
    *bytes = recorder::unpack(bytes, packed.parameters, &mut parameters);
    let parameters = parameters.iter().map(|one| one.as_deref().map(text)).collect();
    let fields = packed.fields;
    let returned = fields.returned.as_ref().map(|packed| Box::new(unpack_rows(packed, bytes)));
    Statement { fields, prepared, sql, types, parameters, returned }
}

/// Follows a conversation in pieces of at most the given size; each piece takes 10 us.
pub fn follow(traffic: &[Traffic], piece_bytes: usize) -> Outcome {
    let (batches, received) = channel();
    let mut queue = TraceQueue::new(batches, Arc::<Shared>::default());
    let mut follower = Follower::default();
    for each in traffic {
        let bytes = match each {
            Client(bytes) | Server(bytes) => bytes,
        };
        for piece in bytes.chunks(piece_bytes) {
            queue.now_us += 10;
            match each {
                Client(_) => follower.requested(piece, &mut queue),
                Server(_) => follower.answered(piece, &mut queue),
            }
        }
    }
    follower.ended(&mut queue);
    queue.flush();
    let (sessions, statements) = unpack(&received);
    assert_eq!(queue.counted.records, queue.counted.accounted());
    assert_eq!(queue.counted.statements, statements.len() as u64);
    Outcome { queue, sessions, statements }
}

/// What comes of a conversation, whatever the pieces in which it comes.
pub fn outcome(traffic: Vec<Traffic>) -> Outcome {
    let whole = follow(&traffic, usize::MAX);
    let texts = |outcome: &Outcome| -> Vec<String> {
        let text_of = |one: &Statement| {
            let StatementFields { start_us: _, duration_us: _, .. } = one.fields;
            let fields = StatementFields { start_us: 0, duration_us: None, ..one.fields.clone() };
            format!("{fields:?} {} {} {:?}", one.prepared, one.sql, one.parameters)
        };
        outcome.statements.iter().map(text_of).collect()
    };
    for piece_bytes in [1, 2, 3, 5, 7, 64] {
        let pieces = follow(&traffic, piece_bytes);
        assert_eq!(texts(&pieces), texts(&whole), "in pieces of {piece_bytes}");
        assert_eq!(pieces.queue.counted.wire, whole.queue.counted.wire);
    }
    whole
}

pub fn sqls(outcome: &Outcome) -> Vec<&str> {
    outcome.statements.iter().map(|one| one.sql.as_str()).collect()
}

pub fn transactions(outcome: &Outcome) -> Vec<u64> {
    outcome.statements.iter().map(|one| one.fields.transaction).collect()
}

pub fn tag(statement: &Statement) -> String {
    let tag = statement.fields.tag.as_ref();
    tag.map_or(String::new(), |tag| String::from_utf8_lossy(tag.words()).into_owned())
}

pub fn returned(columns: &[&str], rows: &[&[Option<&str>]]) -> Option<Box<Returned>> {
    let bytes = |text: &&str| text.as_bytes().to_vec();
    Some(Box::new(Returned {
        columns: columns.iter().map(bytes).collect(),
        rows: rows.iter().map(|row| row.iter().map(|v| v.as_ref().map(bytes)).collect()).collect(),
    }))
}
