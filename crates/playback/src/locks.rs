//! Sessions that wait for a lock of a delayed session: found by querying the server, and released.
//!
//! Where the order of commits is kept, a session may be delayed that holds a lock for which another
//! one's statement waits, while what it is delayed for waits for that statement: nothing would ever
//! move. The server knows who waits for whom (`pg_blocking_pids`), and returns it to anybody, so a
//! separate connection queries it. In TPC-B at full speed this happens thousands of times, so the
//! query has to be soon; but each one takes the server's lock tables for a moment, so not too soon.
//! The delay is learnt: half as long each time that it helped, twice as long when it did not.

use seatrial_pgwire::messages::{self, ErrorResponse, MessageHeader};

use super::connection::{Connection, Login, Said};

/// What the connection calls itself.
pub const APPLICATION: &str = "seatrial-locks";

/// Minimum time between an answer and the next query.
const SOONEST_NS: u64 = 200_000;

/// Limit for the statements in one query; those that are open longest.
pub const ASKED_MAX: usize = 32;

/// How many patiences nothing may move before something is released without knowing.
const GIVES_UP_AFTER: u64 = 10;

/// Patience where the server reports all that has to be known: it may just be slow.
const GIVES_UP_LATE_AFTER: u64 = 50;

/// Patience where nothing can move: all that is on its way waits for locks.
const GIVES_UP_JAMMED_AFTER: u64 = 2;

/// When to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    longest_ns: u64,
    asks_after_ns: u64,
    gives_up_after_ns: u64,
    gives_up_jammed_after_ns: u64,
}

impl Patience {
    /// A patience of so long, at the longest.
    pub fn new(longest_ns: u64) -> Patience {
        let longest_ns = longest_ns.max(SOONEST_NS);
        Patience {
            longest_ns,
            asks_after_ns: (longest_ns / 32).max(SOONEST_NS),
            gives_up_after_ns: longest_ns * GIVES_UP_AFTER,
            gives_up_jammed_after_ns: longest_ns * GIVES_UP_JAMMED_AFTER,
        }
    }

    /// Returns the patience where a lock is waited for only if no key could show it: rarely, and
    /// then many may wait for that one.
    pub fn short(longest_ns: u64) -> Patience {
        Patience {
            asks_after_ns: SOONEST_NS,
            gives_up_after_ns: longest_ns * GIVES_UP_LATE_AFTER,
            gives_up_jammed_after_ns: longest_ns * GIVES_UP_JAMMED_AFTER,
            ..Patience::new(longest_ns / 8)
        }
    }

    /// How long nothing has to move before the query.
    pub fn asks_after_ns(&self) -> u64 {
        self.asks_after_ns
    }

    /// How long a statement has to be open before the query though others move.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// How long nothing has to move before something is released without knowing; `is_jammed` means
    /// that nothing can move.
    pub fn gives_up_after_ns(&self, is_jammed: bool) -> u64 {
        if is_jammed { self.gives_up_jammed_after_ns } else { self.gives_up_after_ns }
    }

    /// Asking helped.
    pub fn helped(&mut self) {
        self.asks_after_ns = (self.asks_after_ns / 2).max(SOONEST_NS);
    }

    /// Asking was in vain.
    pub fn was_in_vain(&mut self) {
        self.asks_after_ns = (self.asks_after_ns * 2).min(self.longest_ns);
    }
}

/// A process of the server that waits for locks of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its number.
    pub process: i32,
    /// Theirs.
    pub by: Vec<i32>,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Entering,
    Idle,
    Queried,
    Gone,
}

/// What the connection heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that matters yet.
    Nothing,
    /// It is in.
    Ready,
    /// Of the queried backends, those that wait, and for whose locks.
    Waits(Vec<Blocked>),
    /// The server did not answer the question; its words.
    Unanswered(String),
    /// The connection is of no use any more; the server's words.
    Gone(String),
}

/// The connection that asks: bytes in, bytes out.
pub struct Watcher {
    connection: Connection,
    stage: Stage,
    /// The beginning of a message.
    input: Vec<u8>,
    waits: Vec<Blocked>,
    error: Option<String>,
}

impl Watcher {
    /// A watcher whose first message is appended.
    pub fn new(login: &Login<'_>, out: &mut Vec<u8>) -> Watcher {
        let login = Login { application: APPLICATION, ..*login };
        Watcher {
            connection: Connection::new(&login, out),
            stage: Stage::Entering,
            input: Vec::new(),
            waits: Vec::new(),
            error: None,
        }
    }

    /// Whether it is free for a query.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Asks for whom these backends wait.
    pub fn ask(&mut self, backends: &[i32], out: &mut Vec<u8>) {
        let numbers: Vec<String> = backends.iter().map(i32::to_string).collect();
        let question = format!(
            "SELECT pid, pg_catalog.pg_blocking_pids(pid) \
             FROM pg_catalog.unnest('{{{}}}'::int4[]) AS queried(pid)",
            numbers.join(",")
        );
        messages::query(out, question.as_bytes());
        self.stage = Stage::Queried;
    }

    /// Takes in what came.
    pub fn take_in(&mut self, input: &[u8], out: &mut Vec<u8>) -> Heard {
        self.input.extend_from_slice(input);
        if self.stage == Stage::Entering {
            return self.enter(out);
        }
        let mut taken = 0;
        let mut heard = Heard::Nothing;
        while let Some((kind, body)) = message(&self.input[taken..]) {
            taken += MessageHeader::BYTES + body.len();
            match kind {
                b'D' => self.waits.extend(blocked(body)),
                b'E' => self.error = Some(ErrorResponse::of(body).error.message),
                b'Z' => {
                    self.stage = Stage::Idle;
                    let waits = std::mem::take(&mut self.waits);
                    heard = match self.error.take() {
                        None => Heard::Waits(waits),
                        Some(words) => Heard::Unanswered(words),
                    };
                }
                _ => {}
            }
        }
        self.input.drain(..taken);
        heard
    }

    /// Says what it means that the server hung up.
    pub fn hung_up(&mut self) -> Heard {
        self.stage = Stage::Gone;
        let words = self.error.take();
        Heard::Gone(words.unwrap_or_else(|| "the server closed the connection".to_owned()))
    }

    fn enter(&mut self, out: &mut Vec<u8>) -> Heard {
        let mut said = Vec::new();
        let taken = self.connection.take_in(&self.input, out, &mut said);
        self.input.drain(..taken);
        match said.pop() {
            None | Some(Said::Answer(_)) => Heard::Nothing,
            Some(Said::Ready) => {
                self.stage = Stage::Idle;
                Heard::Ready
            }
            Some(Said::Refused(error) | Said::Lost(error)) => self.gone(error.message),
            Some(Said::NotUnderstood(words)) => self.gone(words),
        }
    }

    fn gone(&mut self, words: String) -> Heard {
        self.stage = Stage::Gone;
        Heard::Gone(words)
    }
}

/// The message at the front; None as long as it is not all there.
fn message(input: &[u8]) -> Option<(u8, &[u8])> {
    let head = MessageHeader::of(input)?;
    let body = input.get(MessageHeader::BYTES..MessageHeader::BYTES + head.body_bytes?)?;
    Some((head.kind, body))
}

/// A row's number and array, such as `4` and `{7,8}`; None where the array is empty.
fn blocked(row: &[u8]) -> Option<Blocked> {
    let (process, rest) = column(row.get(2..)?)?;
    let (by, _) = column(rest)?;
    let mut others: Vec<i32> = numbers(by).collect();
    others.sort_unstable();
    others.dedup();
    let process = numbers(process).next()?;
    (!others.is_empty()).then_some(Blocked { process, by: others })
}

/// A column's text, and what is behind it.
fn column(row: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = row.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)
}

fn numbers(text: &[u8]) -> impl Iterator<Item = i32> {
    let digits = text.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    digits.map(|digits| {
        let next =
            |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX));
        digits.iter().fold(0i64, next) as i32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login<'static> {
        Login {
            user: "u",
            database: "d",
            password: None,
            application: "seatrial",
            read_only: true,
            options: None,
        }
    }

    fn row(out: &mut Vec<u8>, columns: [&[u8]; 2]) {
        messages::message(out, b'D', |out| {
            out.extend_from_slice(&2u16.to_be_bytes());
            for text in columns {
                out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                out.extend_from_slice(text);
            }
        });
    }

    fn entered() -> Watcher {
        let mut out = Vec::new();
        let mut watcher = Watcher::new(&login(), &mut out);
        assert!(out.windows(APPLICATION.len()).any(|found| found == APPLICATION.as_bytes()));
        let mut input = Vec::new();
        messages::message(&mut input, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
        messages::message(&mut input, b'Z', |out| out.push(b'I'));
        assert_eq!(watcher.take_in(&input[..7], &mut out), Heard::Nothing);
        assert_eq!(watcher.take_in(&input[7..], &mut out), Heard::Ready);
        watcher
    }

    #[test]
    fn who_blocks_is_read_in_however_many_pieces() {
        let (mut watcher, mut out, mut answer) = (entered(), Vec::new(), Vec::new());
        assert!(watcher.is_idle());
        watcher.ask(&[4, 5], &mut out);
        assert!(out.windows(5).any(|found| found == b"{4,5}") && !watcher.is_idle());
        messages::message(&mut answer, b'T', |out| out.extend_from_slice(&0u16.to_be_bytes()));
        row(&mut answer, [b"4", b"{17,8,17}"]);
        row(&mut answer, [b"6", b"{}"]);
        row(&mut answer, [b"5", b"{8}"]);
        messages::message(&mut answer, b'C', |out| out.extend_from_slice(b"SELECT 3\0"));
        messages::message(&mut answer, b'Z', |out| out.push(b'I'));
        let (last, rest) = answer.split_last().unwrap();
        for &byte in rest {
            assert_eq!(watcher.take_in(&[byte], &mut out), Heard::Nothing);
        }
        let waits = [(4, vec![8, 17]), (5, vec![8])];
        let waits = waits.map(|(process, by)| Blocked { process, by }).to_vec();
        assert_eq!(watcher.take_in(&[*last], &mut out), Heard::Waits(waits));
        assert!(watcher.is_idle());
    }

    #[test]
    fn a_question_that_is_refused_is_reported() {
        let (mut watcher, mut out, mut answer) = (entered(), Vec::new(), Vec::new());
        watcher.ask(&[4], &mut out);
        messages::message(&mut answer, b'E', |out| {
            out.extend_from_slice(b"SERROR\0VERROR\0C42501\0Mnot for you\0\0");
        });
        messages::message(&mut answer, b'Z', |out| out.push(b'I'));
        assert_eq!(watcher.take_in(&answer, &mut out), Heard::Unanswered("not for you".into()));
        assert!(matches!(watcher.hung_up(), Heard::Gone(_)) && !watcher.is_idle());
    }

    #[test]
    fn what_helps_is_done_sooner() {
        let mut patience = Patience::new(100_000_000);
        let first_ns = patience.asks_after_ns();
        patience.helped();
        assert_eq!(patience.asks_after_ns(), first_ns / 2);
        (0..40).for_each(|_| patience.helped());
        assert_eq!(patience.asks_after_ns(), SOONEST_NS);
        (0..40).for_each(|_| patience.was_in_vain());
        assert_eq!(patience.asks_after_ns(), patience.longest_ns());
        assert_eq!(patience.gives_up_after_ns(false), 1_000_000_000);
        assert_eq!(patience.gives_up_after_ns(true), 200_000_000);
        assert_eq!(Patience::short(80_000_000).longest_ns(), 10_000_000);
    }
}
