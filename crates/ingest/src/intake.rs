//! Reads logs into a trace in the background; the job can be watched and stopped.
//!
//! A reader ([`crate::log`]) passes statements to a writer ([`TraceWriter`]); in between, a log
//! without sessions may be split into streams ([`crate::streams`]). The summary of the reading is
//! stored in the trace as well, so that a user of the trace knows what is missing in it, and why.
//!
//! | part | rule |
//! |---|---|
//! | [`spec`] | the specification, as Python passes it |
//! | [`origin`] | the summary of a reading |
//! | [`explained`] | error messages: observation, cause, remedy |

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
use seatrial_trace::origin::Streams;
use seatrial_trace::{Counts, TraceError, TraceWriter};

use crate::log::blocks::BlockSource;
use crate::log::files::{DetectedFile, look};
use crate::log::parts::{self, LogPart, ParsedChunk};
use crate::log::prefix::Prefix;
use crate::log::{self, Format, LogError, ReadError, Reading, SessionSource};
use crate::streams::StreamSplitter;
use crate::streams::timed::TimedStreams;
use origin::{IntakeResult, origin_of};
use spec::{IntakeSpec, SESSIONS_MAX};

/// Length of the queue of chunks.
const WAITING_CHUNKS_MAX: usize = 1;

/// Why logs could not be read into a trace.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The request makes no sense.
    #[error("the specification is malformed: {0}")]
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
    /// A defect of Seatrial: what was read and what was written do not agree.
    #[error("{0}; this is a defect of Seatrial, please report it")]
    Defect(String),
}

/// Logs that are being read.
#[derive(Debug)]
pub struct Intake {
    progress: Arc<Progress>,
    job: Job<Result<IntakeResult, IntakeError>>,
    /// Takes chunks that are read elsewhere.
    chunks: Mutex<Option<SyncSender<Option<ParsedChunk>>>>,
}

impl Intake {
    /// Starts to read in a background thread.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(spec: IntakeSpec) -> Result<Intake, IntakeError> {
        let progress = Arc::new(Progress::default());
        let job_progress = progress.clone();
        let (job, task) = Job::new();
        let panicked = || Err(IntakeError::Defect("the reader panicked".into()));
        let (give, chunks) = sync_channel(WAITING_CHUNKS_MAX);
        let give = spec.in_parts.then_some(give);
        let work = move || {
            let chunks = spec.in_parts.then_some(&chunks);
            task.run(|| take_in(&spec, chunks, &job_progress), panicked);
        };
        let started = thread::Builder::new().name("intake".into()).spawn(work);
        started
            .map_err(|error| IntakeError::Defect(format!("no thread can be started: {error}")))?;
        Ok(Intake { progress, job, chunks: Mutex::new(give) })
    }

    /// Passes on the next chunk, and waits until there is room for it; false once
    /// reading has failed.
    ///
    /// # Errors
    ///
    /// When it is not a chunk, or none is expected.
    pub fn give(&self, packed: &[u8]) -> Result<bool, IntakeError> {
        let chunk =
            ParsedChunk::unpack(packed).map_err(|error| IntakeError::Defect(error.to_string()))?;
        self.send(Some(chunk))
    }

    /// Marks the end of the chunks; false as for [`Intake::give`].
    ///
    /// # Errors
    ///
    /// When none is expected.
    pub fn give_end(&self) -> Result<bool, IntakeError> {
        self.send(None)
    }

    fn send(&self, chunk: Option<ParsedChunk>) -> Result<bool, IntakeError> {
        let unexpected = || IntakeError::Defect("no pieces of a log are expected".to_owned());
        let chunks = lock(&self.chunks).clone().ok_or_else(unexpected)?;
        Ok(chunks.send(chunk).is_ok())
    }

    /// Waits at most for the given time; true when all was read, or it failed.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.job.wait(timeout)
    }

    /// Statements so far.
    pub fn statements(&self) -> u64 {
        self.progress.statements()
    }

    /// Asks it to end: the trace is then not written.
    pub fn stop(&self) {
        self.progress.stop();
        *lock(&self.chunks) = None;
    }

    /// Takes the result; `None` while it is being read, and once it was taken.
    pub fn take_result(&self) -> Option<Result<IntakeResult, IntakeError>> {
        self.job.take_result()
    }
}

/// The result can no longer be taken.
impl Drop for Intake {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Plans the parts of logs, each of at most the given size.
///
/// # Errors
///
/// When they cannot be read, or not in parts.
pub fn plan_parts(spec: &IntakeSpec, part_bytes: u64) -> Result<Vec<LogPart>, IntakeError> {
    Ok(parts::plan(&look(&spec.options())?, part_bytes)?)
}

/// Reads logs into a trace; from chunks, if they are read elsewhere.
fn take_in(
    spec: &IntakeSpec,
    chunks: Option<&Receiver<Option<ParsedChunk>>>,
    progress: &Progress,
) -> Result<IntakeResult, IntakeError> {
    let start = Instant::now();
    let options = spec.options();
    let files = look(&options)?;
    let plan = SplitPlan::of(&files, spec.sessions)?;
    let workers = options.workers;
    let writer = TraceWriter::create(&spec.output, spec.mask.then(Mask::new))?;
    // Two processors are busy with parsing: rows that other threads build there take a tenth more
    // processor time, for a tenth less elapsed time.
    let builders = if workers > 2 || chunks.is_some() { workers } else { 1 };
    let mut writer = writer.on_threads(builders)?;
    let blocks = chunks.map_or_else(|| log::on_threads(workers), BlockSource::Parts);
    let (reading, split) = match plan {
        SplitPlan::Whole => {
            (read(files, SessionSource::Single, blocks, &mut writer, progress)?, None)
        }
        SplitPlan::Split { streams, has_times } => {
            let mut split = StreamSplitter::new(&mut writer, streams, has_times);
            let reading = read(files, SessionSource::Conflicts, blocks, &mut split, progress)?;
            (reading, Some(split.finish()?))
        }
        SplitPlan::TimedStreams { streams_max, resolution_us } => {
            let mut measured = TimedStreams::new(&mut writer, streams_max, resolution_us);
            let reading = read(files, SessionSource::Times, blocks, &mut measured, progress)?;
            (reading, Some(measured.finish()))
        }
    };
    progress.check().map_err(|_: ProgressError<TraceError>| IntakeError::Stopped)?;
    check_counts(&reading, writer.counts(), split.as_ref())?;
    let counts = writer.counts();
    let origin = origin_of(&reading, counts, split, spec.mask, spec.system_identifier);
    writer.finish(&origin)?;
    let trace_bytes = spec.output.metadata().map_or(0, |about| about.len());
    let trace = spec.output.to_string_lossy().into_owned();
    Ok(IntakeResult { trace, trace_bytes, took_s: start.elapsed().as_secs_f64(), origin })
}

fn read<S: Sink<Error = TraceError>>(
    files: Vec<DetectedFile>,
    source: SessionSource,
    blocks: BlockSource<'_>,
    sink: &mut S,
    progress: &Progress,
) -> Result<Reading, IntakeError> {
    let mut sink = ProgressSink::new(sink, progress);
    log::read_files(files, source, blocks, &mut sink).map_err(|error| match error {
        ReadError::Log(error) => IntakeError::Log(error),
        ReadError::PartsEnded | ReadError::Sink(ProgressError::Stopped) => IntakeError::Stopped,
        ReadError::Sink(ProgressError::Sink(error)) => IntakeError::Trace(error),
    })
}

/// The sessions that a log becomes.
enum SplitPlan {
    /// Sessions as the log identifies them; one if it identifies none.
    Whole,
    /// This number of streams, by transactions and conflicts.
    Split { streams: usize, has_times: bool },
    /// As many streams as were active at once, by times and durations.
    TimedStreams { streams_max: usize, resolution_us: i64 },
}

impl SplitPlan {
    fn of(files: &[DetectedFile], streams: Option<usize>) -> Result<SplitPlan, IntakeError> {
        let has_sessions = |file: &&DetectedFile| match (&file.prefix, file.file.format) {
            (Some(prefix), _) => prefix.has_session(),
            (None, format) => format != Format::Raw,
        };
        if let Some(found) = files.iter().find(has_sessions) {
            let (path, format) = (found.file.path.clone(), found.file.format);
            return match streams {
                None => Ok(SplitPlan::Whole),
                Some(_) => Err(IntakeError::HasSessions { path, format }),
            };
        }
        let times = files.iter().map(|file| file.prefix.as_ref().filter(|one| one.has_time()));
        let coarsest_us =
            times.map(|one| one.map(Prefix::resolution_us)).collect::<Option<Vec<_>>>();
        let resolution_us = coarsest_us.and_then(|each| each.into_iter().max());
        let has_durations = files.iter().any(|file| file.has_durations);
        Ok(match (resolution_us, streams) {
            (Some(resolution_us), _) if has_durations => SplitPlan::TimedStreams {
                streams_max: streams.unwrap_or(SESSIONS_MAX),
                resolution_us,
            },
            (_, Some(streams)) => SplitPlan::Split { streams, has_times: resolution_us.is_some() },
            (_, None) => SplitPlan::Whole,
        })
    }
}

/// Checks that all statements read were written.
fn check_counts(
    reading: &Reading,
    counts: &Counts,
    split: Option<&Streams>,
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

/// Progress of reading, and the request to stop.
#[derive(Debug, Default)]
pub struct Progress {
    statements: AtomicU64,
    is_stopped: AtomicBool,
}

impl Progress {
    /// Statements so far.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Requests the reader to stop.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Checks for a request to stop.
    ///
    /// # Errors
    ///
    /// When it was requested to stop.
    pub fn check<E>(&self) -> Result<(), ProgressError<E>> {
        if self.is_stopped.load(Ordering::Relaxed) { Err(ProgressError::Stopped) } else { Ok(()) }
    }
}

/// Why a watched sink gave up.
#[derive(Debug)]
pub enum ProgressError<E> {
    /// It was requested to stop.
    Stopped,
    /// The sink behind it did.
    Sink(E),
}

/// A sink that counts statements on their way to another one, and stops on request.
#[derive(Debug)]
pub struct ProgressSink<'a, S> {
    sink: &'a mut S,
    progress: &'a Progress,
}

impl<'a, S: Sink> ProgressSink<'a, S> {
    /// In front of a sink.
    pub fn new(sink: &'a mut S, progress: &'a Progress) -> ProgressSink<'a, S> {
        ProgressSink { sink, progress }
    }
}

impl<S: Sink> Sink for ProgressSink<'_, S> {
    type Error = ProgressError<S::Error>;

    fn session(&mut self, session: &Session) -> Result<(), Self::Error> {
        self.progress.check()?;
        self.sink.session(session).map_err(ProgressError::Sink)
    }

    fn session_changed(&mut self, id: SessionId, session: &Session) -> Result<(), Self::Error> {
        self.sink.session_changed(id, session).map_err(ProgressError::Sink)
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Self::Error> {
        self.progress.check()?;
        self.progress.statements.fetch_add(1, Ordering::Relaxed);
        self.sink.statement(statement).map_err(ProgressError::Sink)
    }
}
