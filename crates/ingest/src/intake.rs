//! Reads logs into a trace in the background; the job can be watched and stopped.
//!
//! A reader ([`crate::log`]) reports what it finds to a writer ([`TraceWriter`]); in between, a log
//! without sessions may be split into streams ([`crate::streams`]). The summary of the reading is
//! stored in the trace as well, so that a user of the trace knows what is missing in it, and why.
//!
//! | part | rule |
//! |---|---|
//! | [`spec`] | what is to be read, as it crosses from Python |
//! | [`origin`] | the summary of a reading |
//! | [`explained`] | errors as a user sees them: what was seen, why, what to do |

pub mod explained;
pub mod origin;
pub mod spec;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use seatrial_gauge::{Job, lock};
use seatrial_trace::captured::{Session, SessionId, Sink, Statement};
use seatrial_trace::mask::Mask;
use seatrial_trace::{Counts, TraceError, TraceWriter};

use crate::log::blocks::How;
use crate::log::files::{Known, look};
use crate::log::parts::{self, Part, Piece};
use crate::log::prefix::Prefix;
use crate::log::{self, Format, LogError, ReadError, Reading, SessionSource};
use crate::streams::timed::TimedStreams;
use crate::streams::{Split, SplitReport};
use origin::{Taken, origin_of};
use spec::{IntakeSpec, SESSIONS_MAX};

/// Pieces of parts that wait to be taken in.
const WAITING_PIECES: usize = 1;

/// Why logs could not be read into a trace.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The request makes no sense.
    #[error("what is to be read is malformed: {0}")]
    Spec(String),
    /// The logs cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A log that identifies sessions was to be split into streams.
    #[error("{} identifies its sessions, so it is not split into streams", path.display())]
    HasSessions {
        /// The file.
        path: PathBuf,
        /// What it is.
        format: Format,
    },
    /// It was stopped on request.
    #[error("reading was stopped; nothing was written")]
    Stopped,
    /// A defect of ours: what was read and what was written do not agree.
    #[error("{0}; this is a defect of Seatrial, please report it")]
    Defect(String),
}

/// Logs that are being read.
#[derive(Debug)]
pub struct Intake {
    watch: Arc<Watch>,
    job: Job<Result<Taken, IntakeError>>,
    /// Takes pieces of parts, where they are read elsewhere.
    pieces: Mutex<Option<SyncSender<Option<Piece>>>>,
}

impl Intake {
    /// Starts to read in a background thread.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(spec: IntakeSpec) -> Result<Intake, IntakeError> {
        let watch = Arc::new(Watch::default());
        let own_watch = watch.clone();
        let (job, task) = Job::new();
        let panicked = || Err(IntakeError::Defect("the reader panicked".into()));
        let (give, pieces) = sync_channel(WAITING_PIECES);
        let give = spec.in_parts.then_some(give);
        let work = move || {
            let pieces = spec.in_parts.then_some(&pieces);
            task.run(|| take_in_from(&spec, pieces, &own_watch), panicked);
        };
        let started = thread::Builder::new().name("intake".into()).spawn(work);
        started
            .map_err(|error| IntakeError::Defect(format!("no thread can be started: {error}")))?;
        Ok(Intake { watch, job, pieces: Mutex::new(give) })
    }

    /// Gives it what was read of the next piece, and waits until there is room for it; false once
    /// it takes no more, as it failed.
    ///
    /// # Errors
    ///
    /// When it is no such piece, or none is expected.
    pub fn give(&self, packed: &[u8]) -> Result<bool, IntakeError> {
        let piece =
            Piece::unpack(packed).map_err(|error| IntakeError::Defect(error.to_string()))?;
        self.give_on(Some(piece))
    }

    /// Ends the pieces: all were given; false as for [`Intake::give`].
    ///
    /// # Errors
    ///
    /// When none is expected.
    pub fn give_end(&self) -> Result<bool, IntakeError> {
        self.give_on(None)
    }

    fn give_on(&self, piece: Option<Piece>) -> Result<bool, IntakeError> {
        let unexpected = || IntakeError::Defect("no pieces of a log are expected".to_owned());
        let pieces = lock(&self.pieces).clone().ok_or_else(unexpected)?;
        Ok(pieces.send(piece).is_ok())
    }

    /// Waits at most so long; true when all was read, or it failed.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.job.wait(timeout)
    }

    /// Statements so far.
    pub fn statements(&self) -> u64 {
        self.watch.statements()
    }

    /// Asks it to end: the trace is then not written.
    pub fn stop(&self) {
        self.watch.stop();
        *lock(&self.pieces) = None;
    }

    /// Takes the result; `None` while it is being read, and once it was taken.
    pub fn take_result(&self) -> Option<Result<Taken, IntakeError>> {
        self.job.take_result()
    }
}

/// The result can no longer be taken.
impl Drop for Intake {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads logs into a trace.
///
/// # Errors
///
/// When they cannot be read, the trace cannot be written, or it was stopped on request.
pub fn take_in(spec: &IntakeSpec, watch: &Watch) -> Result<Taken, IntakeError> {
    take_in_from(spec, None, watch)
}

/// Plans the parts of logs, each of so many bytes at most.
///
/// # Errors
///
/// When they cannot be read, or not in parts.
pub fn plan_parts(spec: &IntakeSpec, part_bytes: u64) -> Result<Vec<Part>, IntakeError> {
    Ok(parts::plan(&look(&spec.wanted())?, part_bytes)?)
}

fn take_in_from(
    spec: &IntakeSpec,
    pieces: Option<&Receiver<Option<Piece>>>,
    watch: &Watch,
) -> Result<Taken, IntakeError> {
    let began = Instant::now();
    let wanted = spec.wanted();
    let known = look(&wanted)?;
    let plan = Plan::of(&known, spec.sessions)?;
    let workers = wanted.workers;
    let writer = TraceWriter::create(&spec.output, spec.mask.then(Mask::new))?;
    let mut writer = writer.on_threads(workers)?;
    let how = pieces.map_or_else(|| log::on_threads(workers), How::Parts);
    let (reading, split) = match plan {
        Plan::Whole => (read(known, SessionSource::Single, how, &mut writer, watch)?, None),
        Plan::Split { streams, has_times } => {
            let mut split = Split::new(&mut writer, streams, has_times);
            let reading = read(known, SessionSource::Conflicts, how, &mut split, watch)?;
            (reading, Some(split.finish()?))
        }
        Plan::TimedStreams { streams_max, resolution_us } => {
            let mut measured = TimedStreams::new(&mut writer, streams_max, resolution_us);
            let reading = read(known, SessionSource::Times, how, &mut measured, watch)?;
            (reading, Some(measured.finish()))
        }
    };
    watch.check().map_err(|_: WatchError<TraceError>| IntakeError::Stopped)?;
    check_counts(&reading, writer.counts(), split.as_ref())?;
    let counts = writer.counts();
    let origin = origin_of(&reading, counts, split, spec.mask, spec.system_identifier);
    writer.finish(&origin)?;
    let trace_bytes = spec.output.metadata().map_or(0, |about| about.len());
    let trace = spec.output.to_string_lossy().into_owned();
    Ok(Taken { trace, trace_bytes, took_s: began.elapsed().as_secs_f64(), origin })
}

fn read<S: Sink<Error = TraceError>>(
    known: Vec<Known>,
    source: SessionSource,
    how: How<'_>,
    sink: &mut S,
    watch: &Watch,
) -> Result<Reading, IntakeError> {
    let mut watched = Watched::new(sink, watch);
    log::read_known(known, source, how, &mut watched).map_err(|error| match error {
        ReadError::Log(error) => IntakeError::Log(error),
        ReadError::GivenUp | ReadError::Sink(WatchError::Stopped) => IntakeError::Stopped,
        ReadError::Sink(WatchError::Sink(error)) => IntakeError::Trace(error),
    })
}

/// What becomes of a log's sessions.
enum Plan {
    /// Sessions as the log identifies them; one if it identifies none.
    Whole,
    /// This number of streams, by transactions and conflicts.
    Split { streams: usize, has_times: bool },
    /// As many streams as were active at once, by times and durations.
    TimedStreams { streams_max: usize, resolution_us: i64 },
}

impl Plan {
    fn of(known: &[Known], streams: Option<usize>) -> Result<Plan, IntakeError> {
        let has_sessions = |known: &&Known| match (&known.prefix, known.file.format) {
            (Some(prefix), _) => prefix.has_session(),
            (None, format) => format != Format::Raw,
        };
        if let Some(known) = known.iter().find(has_sessions) {
            let (path, format) = (known.file.path.clone(), known.file.format);
            return match streams {
                None => Ok(Plan::Whole),
                Some(_) => Err(IntakeError::HasSessions { path, format }),
            };
        }
        let times = known.iter().map(|known| known.prefix.as_ref().filter(|one| one.has_time()));
        let coarsest_us =
            times.map(|one| one.map(Prefix::resolution_us)).collect::<Option<Vec<_>>>();
        let resolution_us = coarsest_us.and_then(|each| each.into_iter().max());
        let has_durations = known.iter().any(|known| known.has_durations);
        Ok(match (resolution_us, streams) {
            (Some(resolution_us), _) if has_durations => {
                Plan::TimedStreams { streams_max: streams.unwrap_or(SESSIONS_MAX), resolution_us }
            }
            (_, Some(streams)) => Plan::Split { streams, has_times: resolution_us.is_some() },
            (_, None) => Plan::Whole,
        })
    }
}

/// What was read is what is written.
fn check_counts(
    reading: &Reading,
    counts: &Counts,
    split: Option<&SplitReport>,
) -> Result<(), IntakeError> {
    let counted = &reading.counted;
    let read = (counted.statements, counted.executable, counted.skipped.iter().sum::<u64>());
    let written = (counts.statements, counts.executable, counts.skipped.values().sum::<u64>());
    let sessions = counts.sessions == u64::from(reading.sessions) || split.is_some();
    if read == written && sessions {
        return Ok(());
    }
    Err(IntakeError::Defect(format!(
        "{} statements of {} sessions were read and {} of {} written",
        read.0, reading.sessions, written.0, counts.sessions
    )))
}

/// How far reading has come, and whether it shall end.
#[derive(Debug, Default)]
pub struct Watch {
    statements: AtomicU64,
    is_stopped: AtomicBool,
}

impl Watch {
    /// Statements so far.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Requests the reader to stop.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether to go on.
    ///
    /// # Errors
    ///
    /// When it was requested to stop.
    pub fn check<E>(&self) -> Result<(), WatchError<E>> {
        if self.is_stopped.load(Ordering::Relaxed) { Err(WatchError::Stopped) } else { Ok(()) }
    }
}

/// Why a watched sink gave up.
#[derive(Debug)]
pub enum WatchError<E> {
    /// It was requested to stop.
    Stopped,
    /// The sink behind it did.
    Sink(E),
}

/// A sink that counts what passes to another one, and stops on request.
#[derive(Debug)]
pub struct Watched<'a, S> {
    sink: &'a mut S,
    watch: &'a Watch,
}

impl<'a, S: Sink> Watched<'a, S> {
    /// In front of a sink.
    pub fn new(sink: &'a mut S, watch: &'a Watch) -> Watched<'a, S> {
        Watched { sink, watch }
    }
}

impl<S: Sink> Sink for Watched<'_, S> {
    type Error = WatchError<S::Error>;

    fn session(&mut self, session: &Session) -> Result<(), Self::Error> {
        self.watch.check()?;
        self.sink.session(session).map_err(WatchError::Sink)
    }

    fn session_changed(&mut self, id: SessionId, session: &Session) -> Result<(), Self::Error> {
        self.sink.session_changed(id, session).map_err(WatchError::Sink)
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Self::Error> {
        self.watch.check()?;
        self.watch.statements.fetch_add(1, Ordering::Relaxed);
        self.sink.statement(statement).map_err(WatchError::Sink)
    }
}
