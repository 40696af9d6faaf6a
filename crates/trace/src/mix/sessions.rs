//! Sessions, transactions and think times.

use seatrial_gauge::Histogram;
use serde::Serialize;

use super::distribution::{Distribution, record_us};
use super::names::{NameNumbers, Names, NamesMix};
use super::timeline::{Timeline, TimelineMix};
use crate::captured::{Session, SessionId, Statement};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SessionMix {
    pub count: u64,
    /// Of how many there is a statement.
    pub with_statements: u64,
    /// Sessions whose connection is in the log.
    pub connects_seen: u64,
    /// Sessions whose disconnection is in the log.
    pub disconnects_seen: u64,
    /// Maximum of sessions open at once. A session whose connection and disconnection are not in
    /// the log counts from its first statement to the end of its last.
    pub at_once_max: u64,
}

/// Transactions: the statements of a session between BEGIN and COMMIT or their like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TransactionMix {
    pub count: u64,
    /// Statements in them.
    pub statements: u64,
    /// Statements in the one that has most of them.
    pub statements_max: u64,
    /// Statements outside of any.
    pub statements_outside: u64,
    /// From the start of their first statement to the end of their last.
    pub length: Distribution,
}

/// Times from the end of a statement to the start of the next one of the session. A statement of
/// which no duration is known has no end: the time behind it is not counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ThinkMix {
    /// Within a transaction.
    pub inside: Distribution,
    /// Between transactions and statements outside of any.
    pub between: Distribution,
    /// Times that are not known.
    pub unknown: u64,
    /// Statements that began before the one before them ended, as their times have it.
    pub overlapping: u64,
}

/// What is known of a session.
#[derive(Debug, Clone, Default)]
struct SessionState {
    names: NameNumbers,
    connected_us: Option<i64>,
    disconnected_us: Option<i64>,
    /// From the first statement to the end of the last.
    active_us: Option<(i64, i64)>,
    /// Where the last statement ended, if that is known.
    last_end_us: Option<i64>,
    statements: u64,
    total_us: u64,
    transaction: Transaction,
}

/// The transaction that a session is in; its number is 0 outside of any.
#[derive(Debug, Clone, Copy, Default)]
struct Transaction {
    number: u64,
    begin_us: i64,
    end_us: i64,
    statements: u64,
}

/// Sessions while a trace is read.
#[derive(Default)]
pub struct Sessions {
    states: Vec<SessionState>,
    count: u64,
    statements: u64,
    statements_max: u64,
    statements_outside: u64,
    length: Histogram,
    inside: Histogram,
    between: Histogram,
    unknown: u64,
    overlapping: u64,
}

/// The figures of all sessions.
pub struct SessionParts {
    pub sessions: SessionMix,
    pub transactions: TransactionMix,
    /// Think times.
    pub think: ThinkMix,
    /// The timeline with open sessions.
    pub timeline: TimelineMix,
    /// By name.
    pub names: NamesMix,
}

impl Sessions {
    /// Takes in what is known of a session; the reader gives them in the order of their numbers.
    pub fn add_session(&mut self, id: SessionId, session: Session, names: &mut Names) {
        let index = id.0 as usize;
        if index == self.states.len() {
            self.states.push(SessionState::default());
        }
        let state = &mut self.states[index];
        state.names = names.numbers(&session.database, &session.user, &session.application);
        state.connected_us = session.connected_us;
        state.disconnected_us = session.disconnected_us;
    }

    pub fn take(&mut self, statement: &Statement<'_>, end_us: i64) {
        let state = &mut self.states[statement.session.0 as usize];
        let start_us = statement.start_us;
        let is_inside =
            statement.transaction > 0 && statement.transaction == state.transaction.number;
        match state.last_end_us {
            Some(last_us) if last_us <= start_us => {
                let think = if is_inside { &mut self.inside } else { &mut self.between };
                record_us(think, start_us.abs_diff(last_us));
            }
            Some(_) => self.overlapping += 1,
            None if state.statements > 0 => self.unknown += 1,
            None => {}
        }
        state.last_end_us = statement.duration_us.map(|_| end_us);
        state.statements += 1;
        state.total_us = state.total_us.saturating_add(statement.duration_us.unwrap_or(0));
        let (first_us, last_us) = state.active_us.unwrap_or((start_us, end_us));
        state.active_us = Some((first_us.min(start_us), last_us.max(end_us)));
        if is_inside {
            state.transaction.statements += 1;
            state.transaction.end_us = state.transaction.end_us.max(end_us);
        } else {
            let number = statement.transaction;
            let begun = Transaction { number, begin_us: start_us, end_us, statements: 1 };
            let ended = std::mem::replace(&mut state.transaction, begun);
            self.end(ended);
        }
        self.statements_outside += u64::from(statement.transaction == 0);
    }

    fn end(&mut self, transaction: Transaction) {
        if transaction.number > 0 {
            self.count += 1;
            self.statements += transaction.statements;
            self.statements_max = self.statements_max.max(transaction.statements);
            let length_us = transaction.end_us.abs_diff(transaction.begin_us);
            record_us(&mut self.length, length_us);
        }
    }

    /// Returns the figures of all sessions.
    pub fn finish(mut self, names: Names, timeline: Timeline) -> SessionParts {
        for index in 0..self.states.len() {
            self.end(self.states[index].transaction);
        }
        let open: Vec<(i64, i64)> = self.states.iter().filter_map(SessionState::open_us).collect();
        let timeline = timeline.finish(&open);
        let counted = |is_such: fn(&SessionState) -> bool| {
            self.states.iter().filter(|state| is_such(state)).count() as u64
        };
        let of_names = self.states.iter().map(|one| (one.names, one.statements, one.total_us));
        SessionParts {
            sessions: SessionMix {
                count: self.states.len() as u64,
                with_statements: counted(|state| state.statements > 0),
                connects_seen: counted(|state| state.connected_us.is_some()),
                disconnects_seen: counted(|state| state.disconnected_us.is_some()),
                at_once_max: timeline.slices.iter().map(|one| one.sessions_max).max().unwrap_or(0),
            },
            names: names.mix(of_names),
            transactions: TransactionMix {
                count: self.count,
                statements: self.statements,
                statements_max: self.statements_max,
                statements_outside: self.statements_outside,
                length: Distribution::of(&self.length),
            },
            think: ThinkMix {
                inside: Distribution::of(&self.inside),
                between: Distribution::of(&self.between),
                unknown: self.unknown,
                overlapping: self.overlapping,
            },
            timeline,
        }
    }
}

impl SessionState {
    /// When it was open; None if unknown.
    fn open_us(&self) -> Option<(i64, i64)> {
        let begin_us = self.connected_us.or(self.active_us.map(|active_us| active_us.0));
        let end_us = self.disconnected_us.or(self.active_us.map(|active_us| active_us.1));
        let begin_us = begin_us.or(end_us)?;
        Some((begin_us, end_us.unwrap_or(begin_us)))
    }
}
