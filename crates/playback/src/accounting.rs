//! The accounting of every statement of a trace.
//!
//! ```text
//! captured = ok + failed + skipped(by reason) + not reached      for each class
//! ```
//!
//! Its terms come from independent places: captured statements are counted in a separate pass over
//! the trace, sent ones by the sender, their outcomes by the answers, and unreached ones by the
//! reader of the trace. [`StatementAccounting::finish`] compares them and gives no result where
//! they disagree: a statement that is lost or counted twice breaks the equation, and does not hide
//! in it.
//!
//! An answer costs a few counters, a look at its fingerprint and some histograms. All of it
//! together has at most about 10 MiB, however long the trace is.
//!
//! | part | rule |
//! |---|---|
//! | [`queries`] | by fingerprint |
//! | [`coarse`] | times in little room |

pub mod coarse;
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
use super::played::{Account, Client, Counts, End, Held, Kind, Played, Record, Sessions};
use super::rewrite::reported::Ids;
use super::survey::Survey;
use super::timing::{LagWatch, Moments, QuietWatch};
use queries::Queries;

/// Room for the response times of slices that are over.
const TIMELINE_BUDGET_BYTES: usize = 3 << 20;

/// How the accounting is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountingSettings {
    /// Length of a timeline's slice.
    pub slice_ns: u64,
    /// A time without answers is a stall when it lasts at least so long.
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
    pub could_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the server was ready for the next, or it was given up.
    pub ended_ns: u64,
    /// What it waited for last after it was due.
    pub held_by: HeldBy,
}

/// What a statement waited for last after it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HeldBy {
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
    /// From when it was due, else from when it could be sent, to the answer.
    #[inline]
    pub fn response_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.due_ns.unwrap_or(self.could_ns))
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

    /// Who had the greater part of its lag; `Nothing` for the driver itself.
    pub fn to_blame(&self) -> HeldBy {
        let waited_ns = self.could_ns.saturating_sub(self.due_ns.unwrap_or(self.could_ns));
        let driver_ns = self.sent_ns.saturating_sub(self.could_ns);
        if driver_ns > waited_ns { HeldBy::Nothing } else { self.held_by }
    }
}

/// What became of a statement that was sent.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// The server answered, well or by an error.
    Answered(&'a Answer),
    /// It never did.
    Unanswered,
}

impl<'a> Verdict<'a> {
    /// The answer, if it ended well.
    #[inline]
    pub fn ok(self) -> Option<&'a Answer> {
        match self {
            Verdict::Answered(answer) if answer.error.is_none() => Some(answer),
            _ => None,
        }
    }
}

/// What is known of a finished playback in addition to its accounting.
#[derive(Debug)]
pub struct Ending<'a> {
    /// When it began.
    pub start_unix_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// How it ended.
    pub end: End,
    /// The contents of the trace, counted in a separate pass.
    pub survey: &'a Survey,
    /// Statements that were not reached: not read, or read and neither sent nor skipped. They are
    /// counted by the reader; 0 for a playback that is complete.
    pub not_reached: u64,
    /// What the order delayed.
    pub order: Held,
    /// Sessions and connections.
    pub sessions: Sessions,
    /// What the driver used.
    pub client: Client,
    /// Ids.
    pub ids: Ids,
    /// Whether counts are handed out, to be added to those of other hosts.
    pub keeps_counts: bool,
    /// How late after the agreed moment it began.
    pub start_lateness_ns: u64,
}

/// Statements that do not add up: a defect of the playback, never of a server.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotAccounted {
    /// More were accounted for than there are.
    #[error(
        "the statements do not add up: {captured} of class {class} were captured, and {ok} ended \
         well, {failed} failed, {skipped} were skipped; this is a defect of Seatrial, please \
         report it"
    )]
    Class {
        /// Which.
        class: &'static str,
        /// In the trace.
        captured: u64,
        /// Sent, and answered well.
        ok: u64,
        /// Sent, and answered by an error or never.
        failed: u64,
        /// Not sent.
        skipped: u64,
    },
    /// Not all that were sent came to an end.
    #[error(
        "the statements do not add up: {sent} of class {class} were sent, and {ended} came to an \
         end; this is a defect of Seatrial, please report it"
    )]
    Sent {
        /// Which.
        class: &'static str,
        /// Counted when they were sent.
        sent: u64,
        /// Counted when they were answered or given up.
        ended: u64,
    },
    /// What is missing is not what was left.
    #[error(
        "the statements do not add up: {missing} of the trace are not accounted for, and {left} \
         were not reached; this is a defect of Seatrial, please report it"
    )]
    NotReached {
        /// Captured and neither sent nor skipped.
        missing: u64,
        /// Not reached, as the reading side counts.
        left: u64,
    },
    /// The totals do not add up.
    #[error(transparent)]
    Outcome(#[from] AccountingError),
}

/// What has become of statements so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Answered well.
    pub ok: u64,
    /// Answered by an error, or never.
    pub failed: u64,
    /// Not sent.
    pub skipped: u64,
}

/// Statements of one class.
#[derive(Debug, Default)]
struct OfClass {
    sent: u64,
    ok: u64,
    failed: u64,
    response: Histogram,
    service: Histogram,
    /// Response times of the slice that is being filled.
    slice: Histogram,
}

/// Takes in what becomes of each statement.
#[derive(Debug)]
pub struct StatementAccounting {
    classes: [OfClass; Class::COUNT],
    skipped: BTreeMap<(Class, Skipped), u64>,
    so_far: SoFar,
    queries: Queries,
    errors: PlaybackErrors,
    divergence: Divergence,
    lag: LagWatch,
    moments: Moments,
    quiet: QuietWatch,
    timeline: Timeline,
    slice_ns: u64,
    slice_index: u64,
    slice_end_ns: u64,
}

impl StatementAccounting {
    /// An empty one.
    pub fn new(settings: AccountingSettings) -> StatementAccounting {
        let slice_ns = settings.slice_ns.max(1);
        StatementAccounting {
            classes: Default::default(),
            skipped: BTreeMap::new(),
            so_far: SoFar::default(),
            queries: Queries::new(settings.texts_max),
            errors: PlaybackErrors::default(),
            divergence: Divergence::default(),
            lag: LagWatch::default(),
            moments: Moments::new(slice_ns, settings.start_us, settings.speed),
            quiet: QuietWatch::new(settings.stall_threshold_ns),
            timeline: Timeline::with_budget(slice_ns, TIMELINE_BUDGET_BYTES),
            slice_ns,
            slice_index: 0,
            slice_end_ns: slice_ns,
        }
    }

    /// Takes in that a statement was sent.
    #[inline]
    pub fn sent(&mut self, item: &Item, at_ns: u64) {
        self.classes[item.class as usize].sent += 1;
        self.quiet.sent(at_ns);
    }

    /// Takes in that a statement was answered, before what the server said is [taken
    /// in](StatementAccounting::answered): that may be later, in the order of the answers.
    #[inline]
    pub fn ended(&mut self, at_ns: u64, is_ok: bool) {
        self.quiet.ended(at_ns);
        self.so_far.ok += u64::from(is_ok);
        self.so_far.failed += u64::from(!is_ok);
    }

    /// Takes in what the server said to a statement that has ended.
    #[inline]
    pub fn answered(&mut self, item: &Item, times: &Times, answer: &Answer) {
        if times.ended_ns >= self.slice_end_ns {
            self.end_slice(times.ended_ns);
        }
        let expected = self.queries.take(item, Verdict::Answered(answer), times);
        let class = &mut self.classes[item.class as usize];
        if answer.error.is_none() {
            class.ok += 1;
            class.slice.record(times.response_ns());
            class.service.record(times.service_ns());
            self.divergence.take(item, answer, expected);
        } else {
            class.failed += 1;
        }
        if answer.error.is_some() || item.error.is_some() {
            self.compare_errors(item, answer);
        }
        self.lag.take(times);
        self.moments.captured(item.start_us);
        self.moments.answered(times, answer.error.is_none());
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

    /// Takes in that a statement that was sent will not be answered: its connection is lost, or the
    /// playback ended.
    pub fn unanswered(&mut self, item: &Item, times: &Times) {
        self.queries.take(item, Verdict::Unanswered, times);
        self.classes[item.class as usize].failed += 1;
        self.so_far.failed += 1;
        self.errors.unanswered(item);
        self.divergence.errors(item, true);
        self.lag.take(times);
        self.moments.captured(item.start_us);
        self.moments.sent(times);
        self.quiet.ended(times.ended_ns);
    }

    /// Takes in that a statement is not sent.
    pub fn skipped(&mut self, item: &Item, why: Skipped) {
        *self.skipped.entry((item.class, why)).or_default() += 1;
        self.so_far.skipped += 1;
        if why == Skipped::OtherHost {
            return;
        }
        self.moments.captured(item.start_us);
        if item.error.is_some() {
            self.divergence.captured_error(item);
        }
    }

    /// Takes in how many sessions are connected from a time on.
    pub fn sessions_open(&mut self, at_ns: u64, open: u32) {
        self.moments.sessions_open(at_ns, open);
    }

    /// What has become of statements so far.
    pub fn so_far(&self) -> SoFar {
        self.so_far
    }

    /// Ends the accounting: every statement of the trace must be accounted for.
    ///
    /// # Errors
    ///
    /// When one is not, or is twice, which is a defect of the playback.
    pub fn finish(mut self, ending: Ending<'_>) -> Result<Played, NotAccounted> {
        self.flush();
        let accounts = self.accounts(&ending)?;
        let outcome = self.outcome()?;
        let (kinds, places) = kinds(self.classes);
        let (slice_ns, slices) = slices(self.timeline, &places);
        let (stalls, stalls_dropped) = self.quiet.finish();
        let (moment_ns, timeline) = self.moments.finish(ending.duration_ns);
        let counts = ending.keeps_counts.then(|| Counts {
            queries: self.queries.counts(),
            lag: self.lag.lags().clone(),
            driver_lag: self.lag.driver_lags().clone(),
        });
        let (queries, queries_dropped) = self.queries.finish();
        let (commits, rows) = self.divergence.finish(ending.survey.commits);
        let captured_us = ending.survey.last_end_us.saturating_sub(ending.survey.first_us);
        let record = Record {
            classes: accounts,
            commits,
            errors: self.errors.finish(ending.survey),
            rows,
            lag: self.lag.finish(),
            timeline,
            timeline_slice_s: moment_ns as f64 / 1e9,
            queries,
            queries_dropped,
            order: ending.order,
            sessions: ending.sessions,
            client: ending.client,
            captured_s: captured_us.max(0) as f64 / 1e6,
            ids: ending.ids,
        };
        Ok(Played {
            start_unix_ns: ending.start_unix_ns,
            duration_ns: ending.duration_ns,
            end: ending.end,
            outcome,
            kinds,
            slice_ns,
            slices,
            counts,
            start_lateness_ns: ending.start_lateness_ns,
            stalls,
            stalls_dropped,
            record,
        })
    }

    fn accounts(&self, ending: &Ending<'_>) -> Result<BTreeMap<String, Account>, NotAccounted> {
        let (mut accounts, mut missing) = (BTreeMap::new(), 0);
        for class in Class::all() {
            let captured = ending.survey.classes.get(&class).copied().unwrap_or(0);
            let account = self.account(class, captured)?;
            missing += account.not_reached;
            if account != Account::default() {
                accounts.insert(class.name().to_owned(), account);
            }
        }
        let left = ending.not_reached;
        if missing != left || (ending.end == End::Complete && missing > 0) {
            return Err(NotAccounted::NotReached { missing, left });
        }
        Ok(accounts)
    }

    fn account(&self, class: Class, captured: u64) -> Result<Account, NotAccounted> {
        let counts = &self.classes[class as usize];
        let (name, ended) = (class.name(), counts.ok + counts.failed);
        if counts.sent != ended {
            return Err(NotAccounted::Sent { class: name, sent: counts.sent, ended });
        }
        let of_class = self.skipped.iter().filter(|((of, _), _)| *of == class);
        let mut by_reason = BTreeMap::new();
        for (&(_, why), &count) in of_class {
            *by_reason.entry(why.name().to_owned()).or_default() += count;
        }
        let skipped: u64 = by_reason.values().sum();
        let (ok, failed) = (counts.ok, counts.failed);
        let Some(not_reached) = captured.checked_sub(ended + skipped) else {
            return Err(NotAccounted::Class { class: name, captured, ok, failed, skipped });
        };
        Ok(Account { captured, ok, failed, skipped: by_reason, not_reached })
    }

    fn outcome(&self) -> Result<Outcome, AccountingError> {
        let total = |count: fn(&OfClass) -> u64| self.classes.iter().map(count).sum();
        let sent = total(|class| class.sent);
        let accounting = Accounting {
            offered: sent,
            started: sent,
            completed: self.so_far.ok,
            failed: self.so_far.failed,
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
        for (place, class) in self.classes.iter_mut().enumerate() {
            if class.slice.entries() == 0 {
                continue;
            }
            let slice = std::mem::take(&mut class.slice);
            class.response.merge(&slice);
            self.timeline.add(self.slice_index, place, 0, |histogram| histogram.merge(&slice));
        }
    }
}

/// The classes that were sent, and where each of all is among them.
fn kinds(classes: [OfClass; Class::COUNT]) -> (Vec<Kind>, [usize; Class::COUNT]) {
    let (mut kinds, mut places) = (Vec::new(), [0; Class::COUNT]);
    for (class, counts) in Class::all().into_iter().zip(classes) {
        places[class as usize] = kinds.len();
        if counts.sent > 0 {
            kinds.push(Kind {
                class,
                completed: counts.ok,
                failed: counts.failed,
                response: counts.response,
                service: counts.service,
            });
        }
    }
    (kinds, places)
}

/// The timeline, with the places of the classes that were sent.
fn slices(timeline: Timeline, places: &[usize; Class::COUNT]) -> (u64, Vec<SliceRow>) {
    let (slice_ns, mut rows) = timeline.into_rows();
    rows.iter_mut().for_each(|row| row.kind = places[row.kind]);
    (slice_ns, rows)
}
