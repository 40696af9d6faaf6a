//! Finds sessions that wait for a lock of a delayed session, by querying the server.
//!
//! In the order of commits, a delayed session may hold a lock for which another session's statement
//! waits, while the delayed session waits for that statement: a deadlock that the server does not
//! see. The server knows who waits for whom (`pg_blocking_pids`), and returns it to any user, so a
//! separate connection queries it. In TPC-B at full speed this happens thousands of times, so the
//! query has to be soon; but each one locks the server's lock tables for a moment, so not too soon.
//! The interval is adaptive: halved each time that it helped, doubled when it did not.

use seatrial_pgwire::messages::{self, ErrorResponse, MessageHeader};

use super::connection::{Connection, ConnectionEvent, Login};

/// Application name of the connection.
pub const APPLICATION: &str = "seatrial-locks";

/// Minimum time between an answer and the next query.
const QUERY_INTERVAL_MIN_NS: u64 = 200_000;

/// Limit for the backends in one query; those that are open longest.
pub const QUERIED_MAX: usize = 32;

/// Intervals without progress after which a session is released without evidence.
const RELEASE_AFTER: u64 = 10;

/// The same if the server reports all lock waits: it may just be slow.
const RELEASE_LATE_AFTER: u64 = 50;

/// The same if nothing can progress because all statements in progress wait for locks.
const RELEASE_BLOCKED_AFTER: u64 = 2;

/// When to query the server for lock waits: an adaptive interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockQueryTiming {
    longest_ns: u64,
    query_after_ns: u64,
    release_after_ns: u64,
    release_blocked_after_ns: u64,
}

impl LockQueryTiming {
    /// With a maximum interval.
    pub fn new(longest_ns: u64) -> LockQueryTiming {
        let longest_ns = longest_ns.max(QUERY_INTERVAL_MIN_NS);
        LockQueryTiming {
            longest_ns,
            query_after_ns: (longest_ns / 32).max(QUERY_INTERVAL_MIN_NS),
            release_after_ns: longest_ns * RELEASE_AFTER,
            release_blocked_after_ns: longest_ns * RELEASE_BLOCKED_AFTER,
        }
    }

    /// For orders in which lock waits are rare, because keys show most of them; many sessions may
    /// then wait for one lock.
    pub fn short(longest_ns: u64) -> LockQueryTiming {
        LockQueryTiming {
            query_after_ns: QUERY_INTERVAL_MIN_NS,
            release_after_ns: longest_ns * RELEASE_LATE_AFTER,
            release_blocked_after_ns: longest_ns * RELEASE_BLOCKED_AFTER,
            ..LockQueryTiming::new(longest_ns / 8)
        }
    }

    /// Time without progress before the query.
    pub fn query_after_ns(&self) -> u64 {
        self.query_after_ns
    }

    /// Time that a statement has to be open before the query although others progress.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Time without progress before a session is released without evidence; `is_all_blocked` means
    /// that nothing can progress.
    pub fn release_after_ns(&self, is_all_blocked: bool) -> u64 {
        if is_all_blocked { self.release_blocked_after_ns } else { self.release_after_ns }
    }

    /// A query led to a release: shortens the interval.
    pub fn shorten(&mut self) {
        self.query_after_ns = (self.query_after_ns / 2).max(QUERY_INTERVAL_MIN_NS);
    }

    /// A query led to nothing: lengthens the interval.
    pub fn lengthen(&mut self) {
        self.query_after_ns = (self.query_after_ns * 2).min(self.longest_ns);
    }
}

/// A process of the server that waits for locks of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its process number.
    pub process: i32,
    /// Processes that hold the locks.
    pub by: Vec<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Idle,
    Queried,
    Gone,
}

/// An event of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockQueryEvent {
    /// Nothing relevant yet.
    Nothing,
    Ready,
    /// Those of the queried backends that wait, and the holders of the locks.
    Waits(Vec<Blocked>),
    /// The server refused the query; its message.
    Unanswered(String),
    /// The connection is unusable; the server's message.
    Gone(String),
}

/// The connection that queries lock waits; it processes bytes and does no I/O.
pub struct LockMonitor {
    connection: Connection,
    stage: Stage,
    /// The beginning of an incomplete message.
    input: Vec<u8>,
    waits: Vec<Blocked>,
    error: Option<String>,
}

impl LockMonitor {
    /// A connection whose startup message is appended.
    pub fn new(login: &Login<'_>, out: &mut Vec<u8>) -> LockMonitor {
        let login = Login { application: APPLICATION, ..*login };
        LockMonitor {
            connection: Connection::new(&login, out),
            stage: Stage::Connecting,
            input: Vec::new(),
            waits: Vec::new(),
            error: None,
        }
    }

    /// Whether it is ready for a query.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Queries for which processes these backends wait.
    pub fn query(&mut self, backends: &[i32], out: &mut Vec<u8>) {
        let numbers: Vec<String> = backends.iter().map(i32::to_string).collect();
        let question = format!(
            "SELECT pid, pg_catalog.pg_blocking_pids(pid) \
             FROM pg_catalog.unnest('{{{}}}'::int4[]) AS queried(pid)",
            numbers.join(",")
        );
        messages::query(out, question.as_bytes());
        self.stage = Stage::Queried;
    }

    /// Processes incoming bytes.
    pub fn take_in(&mut self, input: &[u8], out: &mut Vec<u8>) -> LockQueryEvent {
        self.input.extend_from_slice(input);
        if self.stage == Stage::Connecting {
            return self.log_in(out);
        }
        let mut taken = 0;
        let mut event = LockQueryEvent::Nothing;
        while let Some((kind, body)) = message(&self.input[taken..]) {
            taken += MessageHeader::BYTES + body.len();
            match kind {
                b'D' => self.waits.extend(blocked(body)),
                b'E' => self.error = Some(ErrorResponse::of(body).error.message),
                b'Z' => {
                    self.stage = Stage::Idle;
                    let waits = std::mem::take(&mut self.waits);
                    event = match self.error.take() {
                        None => LockQueryEvent::Waits(waits),
                        Some(message) => LockQueryEvent::Unanswered(message),
                    };
                }
                _ => {}
            }
        }
        self.input.drain(..taken);
        event
    }

    /// The server closed the connection.
    pub fn hung_up(&mut self) -> LockQueryEvent {
        self.stage = Stage::Gone;
        let message = self.error.take();
        LockQueryEvent::Gone(
            message.unwrap_or_else(|| "the server closed the connection".to_owned()),
        )
    }

    fn log_in(&mut self, out: &mut Vec<u8>) -> LockQueryEvent {
        let mut events = Vec::new();
        let taken = self.connection.take_in(&self.input, out, &mut events);
        self.input.drain(..taken);
        match events.pop() {
            None | Some(ConnectionEvent::Answer(_)) => LockQueryEvent::Nothing,
            Some(ConnectionEvent::Ready) => {
                self.stage = Stage::Idle;
                LockQueryEvent::Ready
            }
            Some(ConnectionEvent::Refused(error) | ConnectionEvent::Lost(error)) => {
                self.gone(error.message)
            }
            Some(ConnectionEvent::NotUnderstood(message)) => self.gone(message),
        }
    }

    fn gone(&mut self, message: String) -> LockQueryEvent {
        self.stage = Stage::Gone;
        LockQueryEvent::Gone(message)
    }
}

/// The first message; None if it is incomplete.
fn message(input: &[u8]) -> Option<(u8, &[u8])> {
    let head = MessageHeader::of(input)?;
    let body = input.get(MessageHeader::BYTES..MessageHeader::BYTES + head.body_bytes?)?;
    Some((head.kind, body))
}

/// A row's number and array, such as `4` and `{7,8}`; None if the array is empty.
fn blocked(row: &[u8]) -> Option<Blocked> {
    let (process, rest) = column(row.get(2..)?)?;
    let (by, _) = column(rest)?;
    let mut others: Vec<i32> = numbers(by).collect();
    others.sort_unstable();
    others.dedup();
    let process = numbers(process).next()?;
    (!others.is_empty()).then_some(Blocked { process, by: others })
}

/// A column's text, and the rest.
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

    fn logged_in() -> LockMonitor {
        let mut out = Vec::new();
        let mut monitor = LockMonitor::new(&login(), &mut out);
        assert!(out.windows(APPLICATION.len()).any(|found| found == APPLICATION.as_bytes()));
        let mut input = Vec::new();
        messages::message(&mut input, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
        messages::message(&mut input, b'Z', |out| out.push(b'I'));
        assert_eq!(monitor.take_in(&input[..7], &mut out), LockQueryEvent::Nothing);
        assert_eq!(monitor.take_in(&input[7..], &mut out), LockQueryEvent::Ready);
        monitor
    }

    #[test]
    fn blockers_are_read_from_any_split_of_bytes() {
        let (mut monitor, mut out, mut answer) = (logged_in(), Vec::new(), Vec::new());
        assert!(monitor.is_idle());
        monitor.query(&[4, 5], &mut out);
        assert!(out.windows(5).any(|found| found == b"{4,5}") && !monitor.is_idle());
        messages::message(&mut answer, b'T', |out| out.extend_from_slice(&0u16.to_be_bytes()));
        row(&mut answer, [b"4", b"{17,8,17}"]);
        row(&mut answer, [b"6", b"{}"]);
        row(&mut answer, [b"5", b"{8}"]);
        messages::message(&mut answer, b'C', |out| out.extend_from_slice(b"SELECT 3\0"));
        messages::message(&mut answer, b'Z', |out| out.push(b'I'));
        let (last, rest) = answer.split_last().unwrap();
        for &byte in rest {
            assert_eq!(monitor.take_in(&[byte], &mut out), LockQueryEvent::Nothing);
        }
        let waits = [(4, vec![8, 17]), (5, vec![8])];
        let waits = waits.map(|(process, by)| Blocked { process, by }).to_vec();
        assert_eq!(monitor.take_in(&[*last], &mut out), LockQueryEvent::Waits(waits));
        assert!(monitor.is_idle());
    }

    #[test]
    fn refused_lock_query_is_reported() {
        let (mut monitor, mut out, mut answer) = (logged_in(), Vec::new(), Vec::new());
        monitor.query(&[4], &mut out);
        messages::message(&mut answer, b'E', |out| {
            out.extend_from_slice(b"SERROR\0VERROR\0C42501\0Mnot for you\0\0");
        });
        messages::message(&mut answer, b'Z', |out| out.push(b'I'));
        assert_eq!(
            monitor.take_in(&answer, &mut out),
            LockQueryEvent::Unanswered("not for you".into())
        );
        assert!(matches!(monitor.hung_up(), LockQueryEvent::Gone(_)) && !monitor.is_idle());
    }

    #[test]
    fn successful_lock_queries_shorten_the_interval() {
        let mut timing = LockQueryTiming::new(100_000_000);
        let first_ns = timing.query_after_ns();
        timing.shorten();
        assert_eq!(timing.query_after_ns(), first_ns / 2);
        (0..40).for_each(|_| timing.shorten());
        assert_eq!(timing.query_after_ns(), QUERY_INTERVAL_MIN_NS);
        (0..40).for_each(|_| timing.lengthen());
        assert_eq!(timing.query_after_ns(), timing.longest_ns());
        assert_eq!(timing.release_after_ns(false), 1_000_000_000);
        assert_eq!(timing.release_after_ns(true), 200_000_000);
        assert_eq!(LockQueryTiming::short(80_000_000).longest_ns(), 10_000_000);
    }
}
