//! Totals of a trace for a playback: one pass, before anything is sent.
//!
//! It is independent of the accounting of a playback, which has to agree with it. Memory grows with
//! the sessions, not with the statements.

use std::collections::BTreeMap;

use memchr::memrchr;
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::lexer::verb::Verb;
use seatrial_sqltext::statements::{Control, control};
use seatrial_trace::captured::{Session, Statement};
use seatrial_trace::{Columns, TraceError, TraceReader};

use crate::order::turns::Drift;
use crate::parts::parts_of;
use crate::spec::Part;

/// Totals of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Statements by class, including those of sessions that are not played.
    pub classes: BTreeMap<Class, u64>,
    pub statements: u64,
    /// COMMIT and END that are played, of transactions that had not failed as far as known.
    pub commits: u64,
    /// Statements that are played and that ended with an error.
    pub errors: u64,
    /// Sessions by their number.
    pub sessions: Vec<SessionSurvey>,
    /// Sessions that are played.
    pub sessions_played: u64,
    /// Of these, those that never disconnected.
    pub never_ended: u64,
    /// Of these, open at once, at most. A session whose connection and disconnection are not in the
    /// log counts from its first statement to the end of its last.
    pub captured_open_max: u64,
    /// The order of its times.
    pub drift: Drift,
    /// When the first statement of a played session began; 0 without any.
    pub first_us: i64,
    /// When the last of those that are played ended, as far as durations are known.
    pub last_end_us: i64,
}

/// Totals of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSurvey {
    /// Its name in the log.
    pub name: Vec<u8>,
    /// Whether its database is played, and it is played by this host.
    pub is_played: bool,
    /// Whether another host plays it, or accounts for it if none does.
    pub is_elsewhere: bool,
    /// Its work: the captured durations of its statements that are played, plus a microsecond for
    /// each.
    pub work_us: u64,
    /// Its statements.
    pub statements: u64,
    /// When it connected; None if not in the log.
    pub connected_us: Option<i64>,
    /// When it disconnected; None if not in the log.
    pub disconnected_us: Option<i64>,
    /// When its first statement began; 0 without any.
    pub first_us: i64,
    /// When its last statement began; 0 without any.
    pub last_us: i64,
    /// When the last of its statements ended, as far as durations are known; 0 without any.
    pub end_us: i64,
}

impl Survey {
    /// Reads a trace. Played are the sessions of these databases, of all if there are none, and of
    /// these what began within `until_us` of the first statement; of these, a [`Part`]. Its times
    /// are those of all parts together.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is damaged.
    pub fn of(
        trace: &TraceReader,
        databases: &[String],
        until_us: Option<u64>,
        part: Option<Part>,
    ) -> Result<Survey, TraceError> {
        let whole = Survey::within(trace, databases, i64::MAX, &[])?;
        if until_us.is_none() && part.is_none() {
            return Ok(whole);
        }
        // When the first one began is known in the end only: a log may be in the order of ends.
        let last_us = until_us.map_or(i64::MAX, |us| whole.first_us.saturating_add_unsigned(us));
        let limited = Survey::within(trace, databases, last_us, &[])?;
        let Some(Part { number, of }) = part else {
            let Survey { commits, errors, last_end_us, .. } = limited;
            return Ok(Survey { commits, errors, last_end_us, ..whole });
        };
        let works: Vec<u64> = limited.sessions.iter().map(|session| session.work_us).collect();
        // Without work it matters not where it is, and it is in one part all the same.
        let parts = parts_of(&works, of).into_iter().map(|part| part.unwrap_or(0));
        let elsewhere: Vec<bool> = parts.map(|part| part != number).collect();
        let own = Survey::within(trace, databases, last_us, &elsewhere)?;
        Ok(Survey { first_us: whole.first_us, last_end_us: limited.last_end_us, ..own })
    }

    /// A pass over the trace; commits, errors, work and the last end are those of statements that
    /// began until `last_us`.
    fn within(
        trace: &TraceReader,
        databases: &[String],
        last_us: i64,
        elsewhere: &[bool],
    ) -> Result<Survey, TraceError> {
        let mut builder = SurveyBuilder { last_us, ..SurveyBuilder::default() };
        for session in trace.sessions()? {
            let index = builder.survey.sessions.len();
            builder.add_session(session, databases, elsewhere.get(index).copied().unwrap_or(false));
        }
        let mut statements = trace.statements(Columns::Figures);
        while let Some(traced) = statements.next_statement()? {
            builder.take(&traced.statement, (traced.class, traced.statements), traced.text);
        }
        Ok(builder.finish())
    }
}

/// State of the pass.
#[derive(Debug)]
struct SurveyBuilder {
    survey: Survey,
    /// Statements by the number of their class.
    by_class: [u64; Class::COUNT],
    /// Later statements are not played.
    last_us: i64,
    /// By session: the transaction in which an error occurred, without a ROLLBACK TO.
    failed: Vec<u64>,
}

impl Default for SurveyBuilder {
    fn default() -> SurveyBuilder {
        let survey = Survey::default();
        SurveyBuilder { survey, by_class: [0; Class::COUNT], last_us: i64::MAX, failed: Vec::new() }
    }
}

impl SurveyBuilder {
    fn add_session(&mut self, session: Session, databases: &[String], is_elsewhere: bool) {
        let is_of_database = databases.is_empty()
            || databases.iter().any(|database| database.as_bytes() == session.database);
        self.failed.push(0);
        self.survey.sessions.push(SessionSurvey {
            name: session.name,
            is_played: is_of_database && !is_elsewhere,
            is_elsewhere,
            connected_us: session.connected_us,
            disconnected_us: session.disconnected_us,
            ..SessionSurvey::default()
        });
    }

    fn take(&mut self, statement: &Statement<'_>, kind: (Class, u32), text: &[u8]) {
        let (class, _) = kind;
        let survey = &mut self.survey;
        survey.statements += 1;
        self.by_class[class as usize] += 1;
        let index = statement.session.0 as usize;
        let session = &mut survey.sessions[index];
        let start_us = statement.start_us;
        survey.drift.add(start_us, statement.duration_us);
        let end_us = start_us.saturating_add_unsigned(statement.duration_us.unwrap_or(0));
        if session.statements == 0 {
            (session.first_us, session.end_us) = (start_us, end_us);
        }
        session.statements += 1;
        session.first_us = session.first_us.min(start_us);
        session.last_us = start_us;
        session.end_us = session.end_us.max(end_us);
        if !session.is_played || start_us > self.last_us {
            return;
        }
        survey.last_end_us = survey.last_end_us.max(end_us);
        session.work_us = session.work_us.saturating_add(statement.duration_us.unwrap_or(0) + 1);
        survey.errors += u64::from(statement.error.is_some());
        // First: `rollback to a; commit` is one text.
        let succeeded = statement.error.is_none();
        if succeeded && class == Class::Transaction && returns_to_savepoint(text) {
            self.failed[index] = 0;
        }
        if ends_in_commit(kind, text) {
            let has_failed =
                statement.transaction > 0 && self.failed[index] == statement.transaction;
            survey.commits += u64::from(!has_failed && succeeded);
        }
        if !succeeded {
            self.failed[index] = statement.transaction;
        }
    }

    fn finish(mut self) -> Survey {
        let survey = &mut self.survey;
        let counted = Class::all().map(|class| (class, self.by_class[class as usize]));
        survey.classes = counted.into_iter().filter(|&(_, count)| count > 0).collect();
        let played = || survey.sessions.iter().filter(|session| session.is_played);
        let with_statements = || played().filter(|session| session.statements > 0);
        survey.sessions_played = played().count() as u64;
        survey.never_ended =
            played().filter(|session| session.disconnected_us.is_none()).count() as u64;
        survey.first_us = with_statements().map(|session| session.first_us).min().unwrap_or(0);
        survey.captured_open_max = open_max(with_statements());
        self.survey
    }
}

impl SessionSurvey {
    /// The time in which it was open, as far as known.
    fn open_us(&self) -> (i64, i64) {
        let begin_us = self.connected_us.unwrap_or(self.first_us).min(self.first_us);
        (begin_us, self.disconnected_us.unwrap_or(self.end_us).max(self.end_us))
    }
}

/// Maximum number of sessions open at once; one that ends when another begins overlaps it.
fn open_max<'a>(sessions: impl Iterator<Item = &'a SessionSurvey>) -> u64 {
    let (mut begins_us, mut ends_us): (Vec<i64>, Vec<i64>) =
        sessions.map(SessionSurvey::open_us).unzip();
    begins_us.sort_unstable();
    ends_us.sort_unstable();
    let (mut ended, mut most) = (0, 0);
    for (begun, &begin_us) in begins_us.iter().enumerate() {
        while ends_us[ended] < begin_us {
            ended += 1;
        }
        most = most.max(begun + 1 - ended);
    }
    most as u64
}

/// Whether the last statement of a fingerprint's text ends a transaction successfully: COMMIT or
/// END. `kind` is the class of the first statement, and their number.
#[inline]
pub fn ends_in_commit(kind: (Class, u32), text: &[u8]) -> bool {
    may_end(kind) && commits_last(text)
}

/// Whether a text may end a transaction, by its [kind](ends_in_commit): most do not, and need no
/// analysis. The END of a function's body is part of one statement, and ends none.
#[inline]
fn may_end((class, statements): (Class, u32)) -> bool {
    class == Class::Transaction || statements > 1
}

fn commits_last(text: &[u8]) -> bool {
    let mut rest = text;
    // From behind: a text is looked through for each statement of a trace, more than once.
    while let Some(sign) = memrchr(b';', rest) {
        let last = &rest[sign + 1..];
        if !last.trim_ascii_start().is_empty() {
            rest = last;
            break;
        }
        rest = &rest[..sign];
    }
    matches!(verb(rest), Some(Verb::Commit | Verb::End))
}

/// Whether a fingerprint's text ends a transaction, successfully or not; see [`ends_in_commit`].
#[inline]
pub fn ends_transaction(kind: (Class, u32), text: &[u8]) -> bool {
    may_end(kind) && is_over_with(text)
}

fn is_over_with(text: &[u8]) -> bool {
    let is_undone = matches!(verb(text), Some(Verb::Rollback | Verb::Abort));
    let is_back = is_undone && !returns_to_savepoint(text);
    is_back || commits_last(text) || text.starts_with(b"prepare transaction")
}

/// Whether a fingerprint's text begins with ROLLBACK TO.
pub fn returns_to_savepoint(text: &[u8]) -> bool {
    control(text) == Control::RollBackTo
}

fn verb(text: &[u8]) -> Option<Verb> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    Verb::of_word(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_sqltext::lexer;
    use seatrial_trace::captured::SessionId;

    fn session(database: &str, connected_us: Option<i64>, disconnected_us: Option<i64>) -> Session {
        let database = database.as_bytes().to_vec();
        Session { database, connected_us, disconnected_us, ..Session::default() }
    }

    fn statement(session: u32, start_us: i64, transaction: u64) -> Statement<'static> {
        Statement {
            session: SessionId(session),
            start_us,
            duration_us: Some(5),
            transaction,
            ..Statement::default()
        }
    }

    #[test]
    fn session_of_another_database_is_counted_but_not_played() {
        let mut builder = SurveyBuilder::default();
        let databases = ["a".to_owned()];
        builder.add_session(session("a", None, None), &databases, false);
        builder.add_session(session("b", None, None), &databases, false);
        builder.take(&statement(0, 100, 0), (Class::Select, 1), b"select $1");
        builder.take(&statement(1, 50, 1), (Class::Transaction, 1), b"commit");
        let survey = builder.finish();
        assert_eq!((survey.statements, survey.commits, survey.sessions_played), (2, 0, 1));
        assert_eq!((survey.first_us, survey.last_end_us), (100, 105));
        assert_eq!((survey.captured_open_max, survey.never_ended), (1, 1));
        assert_eq!(survey.classes[&Class::Transaction], 1);
    }

    #[test]
    fn commit_of_a_failed_transaction_is_not_counted() {
        let mut builder = SurveyBuilder::default();
        builder.add_session(session("a", None, None), &[], false);
        let failed = Statement { error: Some(*b"23505"), ..statement(0, 1, 1) };
        builder.take(&failed, (Class::Insert, 1), b"insert");
        builder.take(&statement(0, 2, 1), (Class::Transaction, 1), b"commit");
        let failed = Statement { error: Some(*b"23505"), ..statement(0, 3, 2) };
        builder.take(&failed, (Class::Insert, 1), b"insert");
        builder.take(&statement(0, 4, 2), (Class::Transaction, 1), b"rollback to savepoint a");
        builder.take(&statement(0, 5, 2), (Class::Transaction, 1), b"end");
        builder.take(
            &statement(0, 6, 0),
            (Class::Insert, 2),
            b"insert into t values ($1) ; commit ;",
        );
        let failed = Statement { error: Some(*b"23505"), ..statement(0, 7, 3) };
        builder.take(&failed, (Class::Insert, 1), b"insert");
        builder.take(&statement(0, 8, 3), (Class::Transaction, 2), b"rollback to a ; commit");
        let survey = builder.finish();
        assert_eq!((survey.commits, survey.errors), (3, 3));
    }

    #[test]
    fn statements_after_the_limit_count_as_no_commit_and_no_error() {
        let mut builder = SurveyBuilder { last_us: 2, ..SurveyBuilder::default() };
        builder.add_session(session("a", None, None), &[], false);
        builder.take(&statement(0, 2, 1), (Class::Transaction, 1), b"commit");
        builder.take(&statement(0, 3, 2), (Class::Transaction, 1), b"commit");
        let failed = Statement { error: Some(*b"23505"), ..statement(0, 4, 3) };
        builder.take(&failed, (Class::Insert, 1), b"insert");
        let survey = builder.finish();
        assert_eq!((survey.statements, survey.commits, survey.errors), (3, 1, 0));
        // That of the last one that is played, not of the log.
        assert_eq!(survey.last_end_us, 7);
    }

    #[test]
    fn sessions_are_open_at_once_as_the_log_tells() {
        let mut builder = SurveyBuilder::default();
        builder.add_session(session("a", Some(0), Some(40)), &[], false);
        builder.add_session(session("a", None, None), &[], false);
        builder.add_session(session("a", Some(41), Some(60)), &[], false);
        builder.add_session(session("a", Some(0), Some(99)), &[], false);
        for (index, start_us) in [(0, 10), (1, 38), (2, 50)] {
            builder.take(&statement(index, start_us, 0), (Class::Select, 1), b"select $1");
        }
        // The first and the second; the third begins later, and the last one never says anything.
        assert_eq!(builder.finish().captured_open_max, 2);
    }

    /// The kind of a text, as determined by the writer of a trace.
    fn kind(text: &[u8]) -> (Class, u32) {
        let (fingerprint, _) = lexer::fingerprint(text);
        (fingerprint.class, fingerprint.statements)
    }

    #[test]
    fn transaction_end_is_recognised_by_its_text() {
        let ends_in_commit = |text: &[u8]| super::ends_in_commit(kind(text), text);
        let ends_transaction = |text: &[u8]| super::ends_transaction(kind(text), text);
        for text in [&b"commit"[..], b"end", b"commit and chain", b"begin ; select $1 ; commit ;"] {
            assert!(ends_in_commit(text));
        }
        let body = b"create function f ( ) begin atomic ; select $1 ; end";
        for text in [&b""[..], b";", b"rollback", b"commits", b"commit ; select $1", body] {
            assert!(!ends_in_commit(text));
        }
        for text in [&b"commit"[..], b"rollback", b"abort", b"prepare transaction $1"] {
            assert!(ends_transaction(text));
        }
        for text in [&b"begin"[..], b"rollback to savepoint a", b"prepare p as select $1"] {
            assert!(!ends_transaction(text));
        }
    }
}
