//! The accounting of every statement of a trace.
//!
//! ```text
//! captured = ok + failed + skipped(by reason) + not reached      for each class
//! ```
//!
//! The terms are counted independently: captured statements are counted in a separate pass over
//! the trace, sent ones by the sender, their outcomes by the answers, and unreached ones by the
//! reader of the trace. [`StatementAccounting::finish`] compares them and gives no result where
//! they disagree: a statement that is lost or counted twice breaks the equation, and does not hide
//! in it.
//!
//! An answer updates a few counters, its fingerprint and some histograms. All of it together takes
//! at most about 10 MiB, however long the trace is.
//!
//! | part | rule |
//! |---|---|
//! | [`queries`] | by fingerprint |
//! | [`coarse`] | times in little memory |

mod coarse;
pub mod queries;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use seatrial_gauge::{Accounting, AccountingError, Histogram, Outcome, SliceRow, Timeline};
use seatrial_pgwire::answer::Answer;
use seatrial_sqltext::lexer::class::Class;

use super::divergence::Divergence;
use super::item::{Item, Skipped};
use super::playback_errors::PlaybackErrors;
use super::played::{
    Account, ClassTimes, DriverUsage, MergeableCounts, OrderDelays, PlaybackEnd, ReplayRecord,
    ReplayResult, Sessions,
};
use super::rewrite::reported::Ids;
use super::survey::Survey;
use super::timing::{LagRecorder, PlaybackTimeline, StallWatch};
use queries::Queries;

/// Memory for the response times of slices that are over.
const TIMELINE_BUDGET_BYTES: usize = 3 << 20;

/// How the accounting is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountingSettings {
    /// Length of a timeline's slice.
    pub slice_ns: u64,
    /// A time without answers is a stall if it lasts at least this long.
    pub stall_threshold_ns: u64,
    /// When the first statement was captured, in microseconds since 1970.
    pub start_us: i64,
    /// How many times faster than it was captured; None for as fast as the server answers.
    pub speed: Option<f64>,
    /// Limit for the fingerprints that are counted separately.
    pub texts_max: usize,
}

/// When a statement was due, sent and answered, in ns from the start of the playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When it was due; None at maximum speed.
    pub due_ns: Option<u64>,
    /// When it was due and session, order and connection were all ready for it.
    pub sendable_ns: u64,
    pub sent_ns: u64,
    /// When the server was ready for the next one, or the statement was given up.
    pub ended_ns: u64,
    /// What it waited for last after it was due.
    pub delay_cause: DelayCause,
}

/// What a statement waited for last after it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DelayCause {
    /// Nothing: it could be sent when it was due.
    #[default]
    Nothing = 0,
    /// The statement before it of its session.
    Session = 1,
    /// The order: statements of other sessions.
    Order = 2,
    /// A connection: all were in use.
    Connections = 3,
}

impl Times {
    /// From due time, or from when it could be sent, to the answer.
    #[inline]
    pub fn response_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.due_ns.unwrap_or(self.sendable_ns))
    }

    /// From when it was sent to the answer.
    #[inline]
    pub fn service_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.sent_ns)
    }

    /// How late it was sent; None where nothing is due.
    #[inline]
    pub fn lag_ns(&self) -> Option<u64> {
        self.due_ns.map(|due_ns| self.sent_ns.saturating_sub(due_ns))
    }

    /// The cause of the greater part of its lag; `Nothing` is the driver itself.
    pub fn main_cause(&self) -> DelayCause {
        let waited_ns = self.sendable_ns.saturating_sub(self.due_ns.unwrap_or(self.sendable_ns));
        let driver_ns = self.sent_ns.saturating_sub(self.sendable_ns);
        if driver_ns > waited_ns { DelayCause::Nothing } else { self.delay_cause }
    }
}

/// The outcome of a statement that was sent.
#[derive(Clone, Copy, Debug)]
pub enum SentOutcome<'a> {
    /// The server answered, well or by an error.
    Answered(&'a Answer),
    /// The server never answered.
    Unanswered,
}

impl<'a> SentOutcome<'a> {
    /// The answer, if it ended well.
    #[inline]
    pub fn ok(self) -> Option<&'a Answer> {
        match self {
            SentOutcome::Answered(answer) if answer.error.is_none() => Some(answer),
            _ => None,
        }
    }
}

/// Results of a finished playback in addition to its accounting.
#[derive(Debug)]
pub struct PlaybackSummary<'a> {
    pub start_unix_ns: u64,
    pub duration_ns: u64,
    pub end: PlaybackEnd,
    /// The contents of the trace, counted in a separate pass.
    pub survey: &'a Survey,
    /// Statements that were not reached: not read, or read and neither sent nor skipped. They are
    /// counted by the reader; 0 for a playback that is complete.
    pub not_reached: u64,
    pub order: OrderDelays,
    pub sessions: Sessions,
    pub client: DriverUsage,
    pub ids: Ids,
    /// Whether histograms are returned, to be merged with those of other hosts.
    pub keeps_counts: bool,
    /// How late after the agreed moment it began.
    pub start_lateness_ns: u64,
}

/// Statements that do not add up: a defect of the playback, never of a server.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AccountingMismatch {
    #[error(
        "the statements do not add up: {captured} of class {class} were captured, and {ok} ended \
         well, {failed} failed, {skipped} were skipped; this is a defect of Seatrial, please \
         report it"
    )]
    Class { class: &'static str, captured: u64, ok: u64, failed: u64, skipped: u64 },
    #[error(
        "the statements do not add up: {sent} of class {class} were sent, and {ended} came to an \
         end; this is a defect of Seatrial, please report it"
    )]
    Sent { class: &'static str, sent: u64, ended: u64 },
    #[error(
        "the statements do not add up: {missing} of the trace are not accounted for, and {left} \
         were not reached; this is a defect of Seatrial, please report it"
    )]
    NotReached { missing: u64, left: u64 },
    #[error(transparent)]
    Outcome(#[from] AccountingError),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementTotals {
    /// Answered well.
    pub ok: u64,
    /// Answered by an error, or never.
    pub failed: u64,
    pub skipped: u64,
}

#[derive(Debug, Default)]
struct ClassTotals {
    sent: u64,
    ok: u64,
    failed: u64,
    response: Histogram,
    service: Histogram,
    /// Response times of the current slice.
    slice: Histogram,
}

/// Counts the outcome of each statement.
#[derive(Debug)]
pub struct StatementAccounting {
    classes: [ClassTotals; Class::COUNT],
    skipped: BTreeMap<(Class, Skipped), u64>,
    totals: StatementTotals,
    queries: Queries,
    errors: PlaybackErrors,
    divergence: Divergence,
    lag: LagRecorder,
    playback_timeline: PlaybackTimeline,
    stall_watch: StallWatch,
    timeline: Timeline,
    slice_ns: u64,
    slice_index: u64,
    slice_end_ns: u64,
}

impl StatementAccounting {
    pub fn new(settings: AccountingSettings) -> StatementAccounting {
        let slice_ns = settings.slice_ns.max(1);
        StatementAccounting {
            classes: Default::default(),
            skipped: BTreeMap::new(),
            totals: StatementTotals::default(),
            queries: Queries::new(settings.texts_max),
            errors: PlaybackErrors::default(),
            divergence: Divergence::default(),
            lag: LagRecorder::default(),
            playback_timeline: PlaybackTimeline::new(slice_ns, settings.start_us, settings.speed),
            stall_watch: StallWatch::new(settings.stall_threshold_ns),
            timeline: Timeline::with_budget(slice_ns, TIMELINE_BUDGET_BYTES),
            slice_ns,
            slice_index: 0,
            slice_end_ns: slice_ns,
        }
    }

    /// Counts that a statement was sent.
    #[inline]
    pub fn sent(&mut self, item: &Item, at_ns: u64) {
        self.classes[item.class as usize].sent += 1;
        self.stall_watch.sent(at_ns);
    }

    /// Whether no statement was answered for so long before a time that it may be a stall.
    #[inline]
    pub fn is_gap(&self, at_ns: u64) -> bool {
        self.stall_watch.is_gap(at_ns)
    }

    /// No answer was expected until a time.
    pub fn expect_gap(&mut self, until_ns: u64) {
        self.stall_watch.expect_gap(until_ns);
    }

    /// Counts that a statement was answered. The answer itself is
    /// [counted](StatementAccounting::answered) later, in the order of the answers.
    #[inline]
    pub fn ended(&mut self, at_ns: u64, is_ok: bool) {
        self.stall_watch.ended(at_ns);
        self.totals.ok += u64::from(is_ok);
        self.totals.failed += u64::from(!is_ok);
    }

    /// Counts the answer of a statement that has ended.
    #[inline]
    pub fn answered(&mut self, item: &Item, times: &Times, answer: &Answer) {
        if times.ended_ns >= self.slice_end_ns {
            self.end_slice(times.ended_ns);
        }
        let expected = self.queries.take(item, SentOutcome::Answered(answer), times);
        self.divergence.answered(item, expected);
        let class = &mut self.classes[item.class as usize];
        if answer.error.is_none() {
            class.ok += 1;
            class.slice.record(times.response_ns());
            class.service.record(times.service_ns());
            self.divergence.take(item, answer, expected);
        } else {
            class.failed += 1;
            self.divergence.failed(item, expected);
        }
        if answer.error.is_some() || item.error.is_some() {
            self.compare_errors(item, answer);
        }
        self.lag.take(times);
        self.playback_timeline.captured(item.start_us);
        self.playback_timeline.answered(times, answer.error.is_none());
    }

    #[cold]
    fn compare_errors(&mut self, item: &Item, answer: &Answer) {
        match &answer.error {
            Some(error) => self.errors.failed(item, error.sqlstate, &error.message),
            None => self.errors.gone(item),
        }
        self.divergence.errors(item, answer.error.is_some());
        if item.error.is_some() {
            self.divergence.captured_error(item);
        }
    }

    /// Counts that a sent statement will not be answered: its connection is lost, or the playback
    /// ended.
    pub fn unanswered(&mut self, item: &Item, times: &Times) {
        self.queries.take(item, SentOutcome::Unanswered, times);
        self.classes[item.class as usize].failed += 1;
        self.totals.failed += 1;
        self.errors.unanswered(item);
        self.divergence.errors(item, true);
        self.lag.take(times);
        self.playback_timeline.captured(item.start_us);
        self.playback_timeline.sent(times);
        self.stall_watch.ended(times.ended_ns);
    }

    /// Counts that a statement is not sent.
    pub fn skipped(&mut self, item: &Item, why: Skipped) {
        *self.skipped.entry((item.class, why)).or_default() += 1;
        self.totals.skipped += 1;
        // They are no part of the replay, and may lie hours after its end.
        if matches!(why, Skipped::OtherHost | Skipped::OtherDatabase | Skipped::AfterUntil) {
            return;
        }
        self.playback_timeline.captured(item.start_us);
        if item.error.is_some() {
            self.divergence.captured_error(item);
        }
    }

    /// Records the number of connected sessions from a time on.
    pub fn sessions_open(&mut self, at_ns: u64, open: u32) {
        self.playback_timeline.sessions_open(at_ns, open);
    }

    pub fn totals(&self) -> StatementTotals {
        self.totals
    }

    /// Ends the accounting: every statement of the trace must be counted once.
    ///
    /// # Errors
    ///
    /// When a statement is counted never or twice, which is a defect of the playback.
    pub fn finish(
        mut self,
        summary: PlaybackSummary<'_>,
    ) -> Result<ReplayResult, AccountingMismatch> {
        self.flush();
        let accounts = self.accounts(&summary)?;
        let outcome = self.outcome()?;
        let (kinds, kind_indexes) = kinds(self.classes);
        let (slice_ns, slices) = slices(self.timeline, &kind_indexes);
        let (stalls, stalls_dropped) = self.stall_watch.finish();
        let (playback_slice_ns, timeline) = self.playback_timeline.finish(summary.duration_ns);
        let counts = summary.keeps_counts.then(|| MergeableCounts {
            queries: self.queries.counts(),
            lag: self.lag.lags().clone(),
            driver_lag: self.lag.driver_lags().clone(),
        });
        let (queries, queries_dropped) = self.queries.finish();
        let (commits, rows) = self.divergence.finish(summary.survey.commits);
        let captured_us = summary.survey.last_end_us.saturating_sub(summary.survey.first_us);
        let record = ReplayRecord {
            classes: accounts,
            commits,
            errors: self.errors.finish(summary.survey),
            rows,
            lag: self.lag.finish(),
            timeline,
            timeline_slice_s: playback_slice_ns as f64 / 1e9,
            queries,
            queries_dropped,
            order: summary.order,
            sessions: summary.sessions,
            client: summary.client,
            captured_s: captured_us.max(0) as f64 / 1e6,
            ids: summary.ids,
        };
        Ok(ReplayResult {
            start_unix_ns: summary.start_unix_ns,
            duration_ns: summary.duration_ns,
            end: summary.end,
            outcome,
            kinds,
            slice_ns,
            slices,
            counts,
            start_lateness_ns: summary.start_lateness_ns,
            stalls,
            stalls_dropped,
            record,
        })
    }

    fn accounts(
        &self,
        summary: &PlaybackSummary<'_>,
    ) -> Result<BTreeMap<String, Account>, AccountingMismatch> {
        let (mut accounts, mut missing) = (BTreeMap::new(), 0);
        for class in Class::all() {
            let captured = summary.survey.classes.get(&class).copied().unwrap_or(0);
            let account = self.account(class, captured)?;
            missing += account.not_reached;
            if account != Account::default() {
                accounts.insert(class.name().to_owned(), account);
            }
        }
        let left = summary.not_reached;
        if missing != left || (summary.end == PlaybackEnd::Complete && missing > 0) {
            return Err(AccountingMismatch::NotReached { missing, left });
        }
        Ok(accounts)
    }

    fn account(&self, class: Class, captured: u64) -> Result<Account, AccountingMismatch> {
        let counts = &self.classes[class as usize];
        let (name, ended) = (class.name(), counts.ok + counts.failed);
        if counts.sent != ended {
            return Err(AccountingMismatch::Sent { class: name, sent: counts.sent, ended });
        }
        let of_class = self.skipped.iter().filter(|((of, _), _)| *of == class);
        let mut by_reason = BTreeMap::new();
        for (&(_, why), &count) in of_class {
            *by_reason.entry(why.name().to_owned()).or_default() += count;
        }
        let skipped: u64 = by_reason.values().sum();
        let (ok, failed) = (counts.ok, counts.failed);
        let Some(not_reached) = captured.checked_sub(ended + skipped) else {
            return Err(AccountingMismatch::Class { class: name, captured, ok, failed, skipped });
        };
        Ok(Account { captured, ok, failed, skipped: by_reason, not_reached })
    }

    fn outcome(&self) -> Result<Outcome, AccountingError> {
        let total = |count: fn(&ClassTotals) -> u64| self.classes.iter().map(count).sum();
        let sent = total(|class| class.sent);
        let accounting = Accounting {
            offered: sent,
            started: sent,
            completed: self.totals.ok,
            failed: self.totals.failed,
            in_flight: 0,
        };
        accounting.close()
    }

    #[cold]
    fn end_slice(&mut self, ended_ns: u64) {
        self.flush();
        self.slice_index = ended_ns / self.slice_ns;
        self.slice_end_ns = (self.slice_index + 1).saturating_mul(self.slice_ns);
    }

    fn flush(&mut self) {
        for (index, class) in self.classes.iter_mut().enumerate() {
            if class.slice.entries() == 0 {
                continue;
            }
            let slice = std::mem::take(&mut class.slice);
            class.response.merge(&slice);
            self.timeline.add(self.slice_index, index, 0, |histogram| histogram.merge(&slice));
        }
    }
}

/// The classes that were sent, and the index of each class among them.
fn kinds(classes: [ClassTotals; Class::COUNT]) -> (Vec<ClassTimes>, [usize; Class::COUNT]) {
    let (mut kinds, mut kind_indexes) = (Vec::new(), [0; Class::COUNT]);
    for (class, counts) in Class::all().into_iter().zip(classes) {
        kind_indexes[class as usize] = kinds.len();
        if counts.sent > 0 {
            kinds.push(ClassTimes {
                class,
                completed: counts.ok,
                failed: counts.failed,
                response: counts.response,
                service: counts.service,
            });
        }
    }
    (kinds, kind_indexes)
}

/// The timeline, with the indexes of the classes that were sent.
fn slices(timeline: Timeline, kind_indexes: &[usize; Class::COUNT]) -> (u64, Vec<SliceRow>) {
    let (slice_ns, mut rows) = timeline.into_rows();
    rows.iter_mut().for_each(|row| row.kind = kind_indexes[row.kind]);
    (slice_ns, rows)
}
