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
pub struct Pending {
    /// How far it has come.
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
    /// How many statements had been reported when the record of its beginning was read.
    pub begun: Option<u64>,
    /// The log ends within it.
    pub is_cut: bool,
    /// It is a function call of the fast path.
    pub is_fast_path: bool,
    /// Records of durations alone that were read before it.
    pub reported_alone: u64,
}

impl Pending {
    /// Makes room for another.
    pub fn clear(&mut self) {
        self.stage = Stage::None;
        self.duration_us = None;
        self.begun = None;
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
pub struct Open {
    key: u64,
    /// Its number; None before it was reported to the sink.
    pub id: Option<SessionId>,
    /// What is known of it.
    pub session: Session,
    /// A statement that is not yet reported.
    pub pending: Pending,
    /// The block that it is in.
    pub block: Block,
    /// When its last statement was sent.
    pub last_start_us: i64,
    portals: Vec<u64>,
    last_line: u64,
    last_seen: u64,
}

impl Open {
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

    /// Takes in whose the session is; whether that says anything new.
    #[inline]
    pub fn learn(&mut self, origin: &Origin, bytes: &[u8]) -> bool {
        let session = &mut self.session;
        let mut is_new = false;
        for (known, reported) in [
            (&mut session.user, origin.user),
            (&mut session.database, origin.database),
            (&mut session.application, origin.application),
        ] {
            let reported = reported.of(bytes);
            if !reported.is_empty() && reported != known.as_slice() {
                reported.clone_into(known);
                is_new = true;
            }
        }
        is_new
    }

    /// Whether a record of the same process number is another session's: its number of lines
    /// begins anew, or the user or database is another.
    #[inline]
    fn is_other(&self, origin: &Origin, bytes: &[u8]) -> bool {
        let differs = |known: &[u8], reported: &[u8]| {
            !known.is_empty() && !reported.is_empty() && known != reported
        };
        (origin.session_line != 0 && origin.session_line <= self.last_line)
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
    places: HashMap<u64, usize>,
    open: Vec<Open>,
    free: Vec<usize>,
    last: Option<(u64, usize)>,
    records: u64,
}

impl Sessions {
    /// The place of a record's session; `false` with it where the session is new, or is another
    /// one than that of the same process number before, which has then to be ended.
    #[inline]
    pub fn find(&mut self, origin: &Origin, bytes: &[u8]) -> SessionMatch {
        self.records += 1;
        let key = origin.key();
        let place = match self.last {
            Some((last, place)) if last == key => Some(place),
            _ => self.places.get(&key).copied(),
        };
        let Some(place) = place else { return SessionMatch::Unknown };
        self.last = Some((key, place));
        let open = &mut self.open[place];
        if origin.started_s == 0 && open.is_other(origin, bytes) {
            return SessionMatch::Other(place);
        }
        open.last_line = origin.session_line;
        open.last_seen = self.records;
        SessionMatch::Known(place)
    }

    /// Opens a session for a record.
    pub fn open(&mut self, origin: &Origin, bytes: &[u8]) -> usize {
        let open = Open {
            key: origin.key(),
            session: Session { name: origin.name.of(bytes).to_vec(), ..Session::default() },
            last_line: origin.session_line,
            last_seen: self.records,
            ..Open::default()
        };
        let place = self.free.pop().unwrap_or(self.open.len());
        self.places.insert(open.key, place);
        if place == self.open.len() {
            self.open.push(open);
        } else {
            self.open[place] = open;
        }
        place
    }

    /// A session by its place.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut Open {
        &mut self.open[place]
    }

    /// Ends a session.
    pub fn close(&mut self, place: usize) -> Open {
        let open = std::mem::take(&mut self.open[place]);
        self.places.remove(&open.key);
        self.free.push(place);
        self.last = None;
        open
    }

    /// Places of sessions that must end to make room: the half that was silent longest. None as
    /// long as there is room.
    pub fn too_many(&self) -> Vec<usize> {
        if self.places.len() < OPEN_MAX {
            return Vec::new();
        }
        let mut places: Vec<usize> = self.places.values().copied().collect();
        places.sort_by_key(|&place| self.open[place].last_seen);
        places.truncate(OPEN_MAX / 2);
        places
    }

    /// Places of all sessions, in the order of their number; those that were not reported to the
    /// sink come last.
    pub fn all(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.places.values().copied().collect();
        places.sort_by_key(|&place| {
            let open = &self.open[place];
            (open.id.is_none(), open.id, open.last_seen)
        });
        places
    }
}

/// The session of a record's process number and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMatch {
    /// A session that is open.
    Known(usize),
    /// One that is open, but of a process that has ended since.
    Other(usize),
    /// None.
    Unknown,
}
