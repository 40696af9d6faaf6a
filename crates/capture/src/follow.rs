//! One connection, followed from both sides: what its client asks and what the server answers come
//! to sessions and statements.
//!
//! Answers come in the order of the requests, so requests are held until they are answered, and
//! only an answer changes what is known: which texts are prepared, which portals are open. What the
//! server passes over after an error, up to the next `Sync`, was never executed and is no
//! statement.
//!
//! **Times.** A statement begins when it is passed on to the server, and ends when the end of its
//! answer comes back; what waits for a `Sync` to be committed ends with that. Executions of one
//! pipeline are each timed so, and thus overlap.
//!
//! **What is never read**: passwords and whatever else a client says to be let in, the key that
//! cancels, data of COPY, rows that are not kept. These are passed over by their length.
//!
//! | part | rule |
//! |---|---|
//! | `hello` | how a connection begins |
//! | `asking` | the client's side |
//! | `answering` | the server's side |
//! | `keeping` | what of it goes into the trace |

mod answering;
mod asking;
mod hello;
mod keeping;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use seatrial_pgwire::answer::Tag;
use seatrial_sqltext::block::Block;
use seatrial_trace::captured::{Session, SessionId};

use super::keeper::Keeper;
use super::pair::Side;
use super::request::{Bound, Column, Keeps, Prepared, Request};
use super::returned::Rows;
use super::stream::Stream;
use keeping::Done;

/// Why a connection is passed on without being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is encrypted.
    Encrypted,
    /// It is for replication.
    Replication,
    /// It asks for the end of what another does.
    Cancel,
    /// It is not PostgreSQL's protocol.
    NotUnderstood,
    /// Something of it was not seen, or its beginning, until [`Follower::join`].
    Lost,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The client has yet to say what it wants.
    #[default]
    Hello,
    /// It asked whether to encrypt, and the server has yet to answer.
    Asked,
    /// It is on its way in.
    Login,
    /// It is in.
    Open,
    /// It is passed on without being read.
    Unread(Unread),
}

/// Parameters given to a prepared statement.
#[derive(Debug)]
struct Portal {
    prepared: Option<Rc<Prepared>>,
    bound: Rc<Bound>,
    columns: Vec<Column>,
    /// It was executed, as far as its client wanted then.
    is_begun: bool,
}

/// What has come so far of the answer to what is asked first.
#[derive(Debug, Default)]
struct Answer {
    rows: Option<u64>,
    tag: Option<Tag>,
    error: Option<[u8; 5]>,
    is_copy_data: bool,
    results: u32,
    returned: Option<Rows>,
    /// Which rows are kept; None while nobody has looked.
    keeps: Option<Keeps>,
    /// Names that were let go by DEALLOCATE so far.
    deallocated: usize,
}

/// What is known of the encodings.
#[derive(Debug, Default)]
struct Encodings {
    server: Vec<u8>,
    client: Vec<u8>,
}

impl Encodings {
    /// Whether texts are in another encoding than the database's.
    fn is_foreign(&self) -> bool {
        let is_plain = |name: &[u8]| name.is_empty() || name == b"SQL_ASCII";
        !is_plain(&self.client) && !is_plain(&self.server) && self.client != self.server
    }
}

/// A connection; at first one that a client has just made.
#[derive(Debug, Default)]
pub struct Follower {
    stage: Stage,
    hello: Vec<u8>,
    from_client: Stream,
    from_server: Stream,
    session: Session,
    id: Option<SessionId>,
    encodings: Encodings,
    /// What was set as the client connected, by name.
    settings: Vec<String>,
    requests: VecDeque<Request>,
    prepared: HashMap<Vec<u8>, Rc<Prepared>>,
    portals: HashMap<Vec<u8>, Portal>,
    /// The server passes everything over up to the next `Sync`, which has not been sent.
    is_discarding: bool,
    /// The server takes data of a COPY, and passes a `Sync` over.
    is_copying: bool,
    answer: Answer,
    done: Vec<Done>,
    block: Block,
    /// Statements of the block that were kept before it is known what became of it.
    kept_early: u64,
    /// An answer fitted no request.
    is_out_of_step: bool,
}

impl Follower {
    /// A connection of which nothing more is read.
    pub fn blind() -> Follower {
        Follower { stage: Stage::Unread(Unread::NotUnderstood), ..Follower::default() }
    }

    /// A connection of which nothing is read before it is joined.
    pub fn later(session: Session) -> Follower {
        Follower { stage: Stage::Unread(Unread::Lost), session, ..Follower::default() }
    }

    /// Takes in what a side sent. Whatever is wrong with looking, it ends with looking.
    #[inline]
    pub fn look_at(&mut self, side: Side, bytes: &[u8], keeper: &mut Keeper) {
        let looked = catch_unwind(AssertUnwindSafe(|| match side {
            Side::Client => self.asked(bytes, keeper),
            Side::Server => self.answered(bytes, keeper),
        }));
        if looked.is_err() {
            *self = Follower::blind();
            keeper.tally.seen.defects += 1;
        }
    }

    /// Something was not seen: the session ends here, and nothing is read until the connection is
    /// joined. What its client has prepared is not known any more.
    pub fn lost(&mut self, keeper: &mut Keeper) {
        self.end_session(true, keeper);
        let session = Session {
            connected_us: None,
            disconnected_us: None,
            ..std::mem::take(&mut self.session)
        };
        let encodings = std::mem::take(&mut self.encodings);
        let stage = Stage::Unread(Unread::Lost);
        *self = Follower { stage, session, encodings, ..Follower::default() };
    }

    /// The connection is read from here on, where nothing is under way and no transaction is open.
    pub fn join(&mut self, keeper: &mut Keeper) {
        self.stage = Stage::Open;
        self.id = Some(keeper.begin_session(&self.session));
    }

    /// Why nothing more is read; None where it is.
    #[inline]
    pub fn unread(&self) -> Option<Unread> {
        match self.stage {
            Stage::Unread(why) => Some(why),
            _ => None,
        }
    }

    /// Whether an answer fitted no request.
    #[inline]
    pub fn is_out_of_step(&self) -> bool {
        self.is_out_of_step
    }

    /// Takes in what the client sent.
    pub fn asked(&mut self, mut bytes: &[u8], keeper: &mut Keeper) {
        keeper.tally.seen.to_server_bytes += bytes.len() as u64;
        if matches!(self.stage, Stage::Hello | Stage::Asked) {
            let taken = self.take_hello(bytes, keeper);
            bytes = &bytes[taken..];
        }
        if bytes.is_empty() || !matches!(self.stage, Stage::Login | Stage::Open) {
            return;
        }
        let mut stream = std::mem::take(&mut self.from_client);
        let taken = stream.take_in(bytes, &mut asking::Asking { follower: self, keeper });
        self.from_client = stream;
        if taken.is_err() {
            self.give_up(keeper);
        }
    }

    /// Takes in what the server sent.
    pub fn answered(&mut self, mut bytes: &[u8], keeper: &mut Keeper) {
        keeper.tally.seen.to_clients_bytes += bytes.len() as u64;
        if matches!(self.stage, Stage::Asked) {
            let taken = self.take_word(bytes, keeper);
            bytes = &bytes[taken..];
        }
        if bytes.is_empty() || !matches!(self.stage, Stage::Login | Stage::Open) {
            return;
        }
        let mut stream = std::mem::take(&mut self.from_server);
        let taken = stream.take_in(bytes, &mut answering::Answering { follower: self, keeper });
        self.from_server = stream;
        if taken.is_err() {
            self.give_up(keeper);
        }
    }

    /// The connection has ended, or nobody looks any more.
    pub fn ended(&mut self, keeper: &mut Keeper) {
        keeper.tally.seen.not_let_in += u64::from(self.stage == Stage::Login);
        self.end_session(true, keeper);
        self.stage = Stage::Unread(Unread::Cancel);
    }

    /// The capture has ended, and the connection goes on.
    pub fn left(&mut self, keeper: &mut Keeper) {
        self.end_session(false, keeper);
        self.stage = Stage::Unread(Unread::Lost);
    }

    /// Passes the rest on unread.
    fn stop_reading(&mut self, why: Unread, keeper: &mut Keeper) {
        let seen = &mut keeper.tally.seen;
        let is_open = self.stage == Stage::Open;
        seen.broken_off += u64::from(is_open && why == Unread::NotUnderstood);
        match why {
            Unread::Encrypted => keeper.encrypted(),
            Unread::Replication => seen.replication += 1,
            Unread::Cancel => seen.cancels += 1,
            Unread::NotUnderstood => seen.not_understood += 1,
            Unread::Lost => {}
        }
        self.end_session(true, keeper);
        self.stage = Stage::Unread(why);
    }

    fn give_up(&mut self, keeper: &mut Keeper) {
        self.stop_reading(Unread::NotUnderstood, keeper);
    }
}
