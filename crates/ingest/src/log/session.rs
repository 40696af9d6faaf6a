//! The open sessions of a log.

use std::collections::HashMap;

use seatrial_sqltext::block::Block;
use seatrial_trace::captured::{Protocol, Session, SessionId};

use super::record::Origin;

/// Limit of sessions that are kept at once. More than any server serves; where a log does not show
/// the ends of sessions, those that were silent longest are taken to have ended.
const OPEN_MAX: usize = 16_384;

/// Memory that an idle session may keep for its next statement.
const IDLE_BYTES_MAX: usize = 2 << 10;

/// Portals of a session that may be fetched from.
const PORTALS_MAX: usize = 256;

/// The progress of a statement that is not yet reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    #[default]
    None,
    /// Durations of the next statement were read.
    Timed,
    /// It was parsed.
    Parsed,
    /// Parameters were bound to it.
    Bound,
    /// It is running, so a duration or an error may follow.
    Running,
}

/// A statement that is not yet reported.
#[derive(Debug, Clone, Default)]
pub struct PendingStatement {
    /// Its progress.
    pub stage: Stage,
    /// When it was sent.
    pub start_us: i64,
    /// When the last record of it was written.
    pub last_us: i64,
    /// How long it has taken so far; None if unknown.
    pub duration_us: Option<u64>,
    /// How it was sent.
    pub protocol: Option<Protocol>,
    /// Name of the prepared statement.
    pub prepared: Vec<u8>,
    /// Its portal.
    pub portal: Vec<u8>,
    /// The text.
    pub sql: Vec<u8>,
    /// Its parameters, as the log writes them.
    pub parameters: Vec<u8>,
    /// The server's number of its transaction.
    pub transaction: u64,
    /// Statements reported before the record of its start was read.
    pub reported_at_start: Option<u64>,
    /// The log ends within it.
    pub is_cut: bool,
    /// It is a function call of the fast path.
    pub is_fast_path: bool,
    /// Records of durations alone that were read before it.
    pub reported_alone: u64,
}

impl PendingStatement {
    /// Clears it for the next statement.
    pub fn clear(&mut self) {
        self.stage = Stage::None;
        self.duration_us = None;
        self.reported_at_start = None;
        self.reported_alone = 0;
        for text in [&mut self.prepared, &mut self.portal, &mut self.sql, &mut self.parameters] {
            text.clear();
            if text.capacity() > IDLE_BYTES_MAX {
                *text = Vec::new();
            }
        }
    }
}

/// A session that has not ended.
#[derive(Debug, Default)]
pub struct OpenSession {
    key: u64,
    /// Its number; None before it was reported to the sink.
    pub id: Option<SessionId>,
    /// Its name, user, database and application.
    pub session: Session,
    /// A statement that is not yet reported.
    pub pending: PendingStatement,
    /// The block that it is in.
    pub block: Block,
    /// When its last statement was sent.
    pub last_start_us: i64,
    portals: Vec<u64>,
    last_line: u64,
    last_seen: u64,
}

impl OpenSession {
    /// Notes that a portal was opened.
    #[inline]
    pub fn open_portal(&mut self, prepared: &[u8], portal: &[u8]) {
        let portal = hash(prepared, portal);
        if self.portals.last() == Some(&portal) {
            return;
        }
        self.portals.retain(|&other| other != portal);
        if self.portals.len() == PORTALS_MAX {
            self.portals.remove(0);
        }
        self.portals.push(portal);
    }

    /// Whether a portal was opened.
    pub fn has_portal(&self, prepared: &[u8], portal: &[u8]) -> bool {
        self.portals.contains(&hash(prepared, portal))
    }

    /// Takes in user, database and application; returns whether any of them is new.
    #[inline]
    pub fn learn(&mut self, origin: &Origin, bytes: &[u8]) -> bool {
        let session = &mut self.session;
        let mut is_new = false;
        for (known, stated) in [
            (&mut session.user, origin.user),
            (&mut session.database, origin.database),
            (&mut session.application, origin.application),
        ] {
            let stated = stated.of(bytes);
            if !stated.is_empty() && stated != known.as_slice() {
                stated.clone_into(known);
                is_new = true;
            }
        }
        is_new
    }

    /// Whether a record of the same process number belongs to another session: its line number
    /// starts again, or user or database differ.
    #[inline]
    fn is_other(&self, origin: &Origin, bytes: &[u8]) -> bool {
        let differs = |known: &[u8], stated: &[u8]| {
            !known.is_empty() && !stated.is_empty() && known != stated
        };
        let is_counted = origin.has_session() && origin.session_line != 0;
        (is_counted && origin.session_line <= self.last_line)
            || differs(&self.session.user, origin.user.of(bytes))
            || differs(&self.session.database, origin.database.of(bytes))
    }
}

/// FNV-1a: short, and the same in every run.
#[inline]
fn hash(prepared: &[u8], portal: &[u8]) -> u64 {
    let bytes = prepared.iter().chain(b"/").chain(portal);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// All sessions that have not ended.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: HashMap<u64, usize>,
    open: Vec<OpenSession>,
    free: Vec<usize>,
    last: Option<(u64, usize)>,
    records: u64,
}

impl Sessions {
    /// Finds the session of a record. One that has ended since, so that its process number was
    /// reused, must be closed by the caller.
    #[inline]
    pub fn find(&mut self, origin: &Origin, bytes: &[u8]) -> SessionMatch {
        self.records += 1;
        let key = origin.key();
        let slot = match self.last {
            Some((last, slot)) if last == key => Some(slot),
            _ => self.slots.get(&key).copied(),
        };
        let Some(slot) = slot else { return SessionMatch::Unknown };
        self.last = Some((key, slot));
        let open = &mut self.open[slot];
        if origin.started_s == 0 && open.is_other(origin, bytes) {
            return SessionMatch::Replaced(slot);
        }
        open.last_line = origin.session_line;
        open.last_seen = self.records;
        SessionMatch::Open(slot)
    }

    /// Opens a session for a record.
    pub fn open(&mut self, origin: &Origin, bytes: &[u8]) -> usize {
        let open = OpenSession {
            key: origin.key(),
            session: Session { name: origin.name.of(bytes).to_vec(), ..Session::default() },
            last_line: origin.session_line,
            last_seen: self.records,
            ..OpenSession::default()
        };
        let slot = self.free.pop().unwrap_or(self.open.len());
        self.slots.insert(open.key, slot);
        if slot == self.open.len() {
            self.open.push(open);
        } else {
            self.open[slot] = open;
        }
        slot
    }

    /// A session by its slot.
    #[inline]
    pub fn at(&mut self, slot: usize) -> &mut OpenSession {
        &mut self.open[slot]
    }

    /// Ends a session.
    pub fn close(&mut self, slot: usize) -> OpenSession {
        let open = std::mem::take(&mut self.open[slot]);
        self.slots.remove(&open.key);
        self.free.push(slot);
        self.last = None;
        open
    }

    /// Slots of sessions that must end to make room: the half that was silent longest. Empty as
    /// long as there is room.
    pub fn too_many(&self) -> Vec<usize> {
        if self.slots.len() < OPEN_MAX {
            return Vec::new();
        }
        let mut slots: Vec<usize> = self.slots.values().copied().collect();
        slots.sort_by_key(|&slot| self.open[slot].last_seen);
        slots.truncate(OPEN_MAX / 2);
        slots
    }

    /// Slots of all sessions, in the order of their number; those that were not reported to the
    /// sink come last.
    pub fn all(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = self.slots.values().copied().collect();
        slots.sort_by_key(|&slot| {
            let open = &self.open[slot];
            (open.id.is_none(), open.id, open.last_seen)
        });
        slots
    }
}

/// The session of a record's process number and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMatch {
    /// A session that is open.
    Open(usize),
    /// A session that is open, but whose process number was reused.
    Replaced(usize),
    /// None.
    Unknown,
}
