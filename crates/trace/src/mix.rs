//! The contents of a trace in figures, as `seatrial sql show` prints them, in one pass.
//!
//! Memory is bounded except for about 150 bytes a session. At most 2,000 fingerprints are counted
//! separately: when there are more, the half with the least time goes into [`Mix::others`], and one
//! that recurs is counted from there on. The names of databases, users and applications beyond
//! 1,000 of each kind are counted as one.
//!
//! A latency is the time that the server logged. It counts in a distribution for each statement
//! that has one; sums say of how many.
//!
//! | part | rule |
//! |---|---|
//! | `distribution` | a distribution and its percentiles |
//! | `sessions` | sessions, transactions, think times |
//! | `timeline` | statements and open sessions over time |
//! | `fingerprints` | statements by fingerprint |
//! | [`time_series`] | the same by slices of time |
//! | [`commits`] | commits that write, by slices of time |
//! | `names` | by database, user and application |

pub mod commits;
mod distribution;
mod fingerprints;
mod names;
mod sessions;
#[cfg(test)]
mod tests;
pub mod time_series;
mod timeline;

use std::collections::BTreeMap;
use std::path::Path;

use seatrial_sqltext::lexer::class::Class;
use serde::Serialize;
use serde_json::Value;

use crate::schema::{PROTOCOLS, protocol_name};
use crate::{Columns, Counts, TraceError, TraceReader, Traced};
use fingerprints::{EvictedStatements, FingerprintMix, Fingerprints};
use names::{Names, NamesMix};
use sessions::{SessionMix, Sessions, ThinkMix, TransactionMix};
use timeline::{BusiestMinute, Timeline, TimelineMix};

/// Statistics of a trace.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Mix {
    /// Sessions, statements, and how many can be sent again.
    pub counts: Counts,
    /// When the first statement began; None without statements.
    pub first_us: Option<i64>,
    /// When the last one ended, as far as durations are known.
    pub last_us: Option<i64>,
    /// Statements of which a duration is known.
    pub timed: u64,
    /// Sum of the durations.
    pub total_us: u64,
    /// Average number of statements active at once: durations by the time from first to last;
    /// None without durations.
    pub running_mean: Option<f64>,
    /// Texts with several statements.
    pub several: u64,
    /// Statements by class, those with the most time first.
    pub classes: Vec<ClassMix>,
    /// Statements by protocol.
    pub protocols: BTreeMap<String, u64>,
    /// Statements that ended with an error, by its code.
    pub errors: BTreeMap<String, u64>,
    /// Connections.
    pub sessions: SessionMix,
    /// Transactions.
    pub transactions: TransactionMix,
    /// Times between the statements of a session.
    pub think: ThinkMix,
    /// Statements and open sessions over time.
    pub timeline: TimelineMix,
    /// The minute with the most statements; None without any.
    pub busiest_minute: Option<BusiestMinute>,
    /// Statements by fingerprint, those with the most time first.
    pub queries: Vec<FingerprintMix>,
    /// What is not among these.
    pub others: EvictedStatements,
    /// By database, user and application, those with the most statements first.
    pub names: NamesMix,
}

/// Statements of a class.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ClassMix {
    /// Which.
    pub class: Class,
    /// Their sums.
    #[serde(flatten)]
    pub sums: Sums,
}

/// Sums over some statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Sums {
    /// How many there are.
    pub calls: u64,
    /// Of how many a duration is known.
    pub timed: u64,
    /// Sum of the durations.
    pub total_us: u64,
    /// Sum of the rows, where they are known.
    pub rows: u64,
    /// How many ended with an error.
    pub errors: u64,
    /// How many cannot be sent again.
    pub skipped: u64,
}

impl Sums {
    fn add(&mut self, traced: &Traced<'_>) {
        let statement = &traced.statement;
        self.calls += 1;
        self.timed += u64::from(statement.duration_us.is_some());
        self.total_us = self.total_us.saturating_add(statement.duration_us.unwrap_or(0));
        self.rows = self.rows.saturating_add(statement.rows.unwrap_or(0));
        self.errors += u64::from(statement.error.is_some());
        self.skipped += u64::from(statement.skip.is_some());
    }
}

impl Mix {
    /// Reads a trace once.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is damaged.
    pub fn of(trace: &TraceReader) -> Result<Mix, TraceError> {
        let mut builder = MixBuilder::default();
        trace.each_session(|id, session| {
            builder.sessions.add_session(id, session, &mut builder.names)
        })?;
        let mut statements = trace.statements(Columns::Figures);
        while let Some(traced) = statements.next_statement()? {
            builder.take(&traced);
        }
        Ok(builder.finish(trace.counts().clone()))
    }
}

/// What is known while a trace is read.
#[derive(Default)]
struct MixBuilder {
    all: Sums,
    several: u64,
    classes: BTreeMap<Class, Sums>,
    protocols: [u64; PROTOCOLS.len()],
    errors: BTreeMap<[u8; 5], u64>,
    first_us: Option<i64>,
    last_us: Option<i64>,
    sessions: Sessions,
    timeline: Timeline,
    fingerprints: Fingerprints,
    names: Names,
}

impl MixBuilder {
    fn take(&mut self, traced: &Traced<'_>) {
        let statement = &traced.statement;
        let end_us = end_us(statement.start_us, statement.duration_us);
        self.first_us = Some(self.first_us.unwrap_or(i64::MAX).min(statement.start_us));
        self.last_us = Some(self.last_us.unwrap_or(i64::MIN).max(end_us));
        self.all.add(traced);
        self.several += u64::from(traced.statements > 1);
        self.classes.entry(traced.class).or_default().add(traced);
        self.protocols[statement.protocol as usize] += 1;
        if let Some(code) = statement.error {
            *self.errors.entry(code).or_default() += 1;
        }
        self.timeline.take(statement.start_us);
        self.fingerprints.take(traced);
        self.sessions.take(statement, end_us);
    }

    fn finish(self, counts: Counts) -> Mix {
        let range_us = match (self.first_us, self.last_us) {
            (Some(first_us), Some(last_us)) => last_us.abs_diff(first_us),
            _ => 0,
        };
        let class = |(class, sums)| ClassMix { class, sums };
        let mut classes: Vec<ClassMix> = self.classes.into_iter().map(class).collect();
        classes.sort_by_key(|class| std::cmp::Reverse((class.sums.total_us, class.sums.calls)));
        let by_protocol = PROTOCOLS.iter().zip(self.protocols);
        let code = |(code, count): ([u8; 5], u64)| (String::from_utf8_lossy(&code).into(), count);
        let busiest_minute = self.timeline.busiest_minute();
        let sessions = self.sessions.finish(self.names, self.timeline);
        let (queries, others) = self.fingerprints.finish();
        Mix {
            counts,
            first_us: self.first_us,
            last_us: self.last_us,
            timed: self.all.timed,
            total_us: self.all.total_us,
            running_mean: (self.all.timed > 0)
                .then(|| self.all.total_us as f64 / range_us.max(1) as f64),
            several: self.several,
            classes,
            protocols: by_protocol
                .filter(|(_, count)| *count > 0)
                .map(|(&(protocol, _), count)| (protocol_name(protocol).to_owned(), count))
                .collect(),
            errors: self.errors.into_iter().map(code).collect(),
            sessions: sessions.sessions,
            transactions: sessions.transactions,
            think: sessions.think,
            timeline: sessions.timeline,
            busiest_minute,
            queries,
            others,
            names: sessions.names,
        }
    }
}

/// When a statement ended; when it began, where no duration is known.
fn end_us(start_us: i64, duration_us: Option<u64>) -> i64 {
    start_us.saturating_add_unsigned(duration_us.unwrap_or(0))
}

/// Statistics of a trace, and its origin.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct TraceSummary {
    /// The trace.
    pub trace: String,
    /// Its size.
    pub trace_bytes: u64,
    /// What it was made of (see [`crate::origin::Origin`]).
    pub origin: Value,
    /// Its figures, with the first of the fingerprints only.
    pub mix: Mix,
    /// What is not among these fingerprints.
    pub rest: UnlistedStatements,
}

/// Statements whose fingerprints are not listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnlistedStatements {
    /// Fingerprints; a lower bound where the trace has more than are counted separately.
    pub queries: u64,
    /// Their statements.
    pub calls: u64,
    /// Sum of their durations.
    pub total_us: u64,
}

impl TraceSummary {
    /// Reads a trace once, and keeps the first `top` fingerprints by their total time.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is not a trace.
    pub fn of(trace: &Path, top: usize) -> Result<TraceSummary, TraceError> {
        let reader = TraceReader::open(trace)?;
        let mut mix = Mix::of(&reader)?;
        let rest = rest(&mix, top);
        mix.queries.truncate(top);
        Ok(TraceSummary {
            trace: trace.to_string_lossy().into_owned(),
            trace_bytes: trace.metadata().map_or(0, |about| about.len()),
            origin: reader.origin().clone(),
            mix,
            rest,
        })
    }
}

fn rest(mix: &Mix, top: usize) -> UnlistedStatements {
    let others = UnlistedStatements {
        queries: mix.others.evicted,
        calls: mix.others.calls,
        total_us: mix.others.total_us,
    };
    mix.queries.iter().skip(top).fold(others, |rest, one| UnlistedStatements {
        queries: rest.queries + 1,
        calls: rest.calls + one.sums.calls,
        total_us: rest.total_us.saturating_add(one.sums.total_us),
    })
}
