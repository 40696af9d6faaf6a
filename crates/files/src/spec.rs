//! The specification of a workload of files, as it crosses from Python in JSON (docs/engine.md).

use std::path::PathBuf;

use seatrial_gauge::Operation;
use serde::Deserialize;

use crate::draw::NumberSpec;

/// Threads of one sample.
pub const THREADS_MAX: u64 = 4096;

/// Asynchronous writes that one thread may have outstanding.
pub const AIO_DEPTH_MAX: usize = 128;

/// Files and leaf folders of all sets.
pub const ENTRIES_MAX: u64 = 10_000_000;

/// Largest transfer at once.
pub const IO_BYTES_MAX: u64 = 64 << 20;

/// A workload of files: sets, threads, and how long they work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// Seed of the random numbers of threads.
    pub seed: u64,
    /// Seed of the sizes and paths of files: the same for every sample of a cell.
    pub set_seed: u64,
    /// Folder in which all files are; it exists, and belongs to the run.
    pub folder: PathBuf,
    /// Whether the sets have to be made first.
    pub make: bool,
    /// Whether the files of all sets are dropped from the page cache before the start.
    #[serde(default)]
    pub cold: bool,
    /// Block device below, `major:minor`.
    #[serde(default)]
    pub device: Option<String>,
    /// Length of the sample.
    pub duration_s: f64,
    /// The sample ends after this many bytes have been written.
    pub limit_bytes: u64,
    /// A set may grow by this many bytes beyond its files as they are made.
    pub growth_bytes: u64,
    /// The condition that ends the sample earlier.
    #[serde(default)]
    pub end: EndCondition,
    /// Events per second, which `eventlimit` and the other limits consume; none without a rate.
    #[serde(default)]
    pub events_per_s: Option<f64>,
    /// Length of a timeline's slice.
    pub slice_ms: u64,
    /// A time without completions is a stall when it lasts longer than this.
    pub stall_threshold_ms: u64,
    /// The sets of files.
    pub sets: Vec<SetSpec>,
    /// What is counted and timed separately: the flowops by name.
    pub kinds: Vec<KindSpec>,
    /// The threads.
    pub threads: Vec<ThreadSpec>,
}

/// The condition that ends a sample before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCondition {
    /// When the first thread is done or out of files; then its mark says so.
    #[default]
    Timeout,
    /// When all threads are done.
    AllDone,
    /// When the first thread is done.
    FirstDone,
}

/// A set of files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Its name, that of its folder or its only file.
    pub name: String,
    /// Whether it is one file rather than a tree of folders.
    #[serde(default)]
    pub single: bool,
    /// Files that it may contain.
    pub entries: u64,
    /// Empty leaf folders that it may contain.
    #[serde(default)]
    pub leaf_folders: u64,
    /// Mean number of entries of a folder.
    pub width_mean: f64,
    /// Shape of the gamma distribution of that number; 0 for always the mean.
    #[serde(default)]
    pub width_gamma: f64,
    /// Size of a file when it is made, or written as a whole.
    pub size: NumberSpec,
    /// Share of entries that exist from the start.
    pub made_share: f64,
    /// Opened for reading only.
    #[serde(default)]
    pub read_only: bool,
    /// Opened for writing only.
    #[serde(default)]
    pub write_only: bool,
    /// Whether its files are dropped from the page cache before the start.
    #[serde(default)]
    pub cold: bool,
}

/// A kind of flowop, which is counted and timed separately.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub verb: Verb,
}

/// Equal threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadSpec {
    /// Name of the threads, with that of their process.
    pub name: String,
    /// How many there are.
    pub instances: u64,
    /// The loop of each thread.
    pub steps: Vec<Step>,
    /// Slots for open files.
    pub slots: usize,
}

/// A part of a thread's loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// Several flowops, repeated.
    Group(Group),
    /// One flowop.
    Flowop(Box<Flowop>),
}

/// Several flowops, repeated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How often.
    pub repeat: NumberSpec,
    /// The flowops.
    pub steps: Vec<Step>,
}

/// One flowop of a thread.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flowop {
    /// Number of its kind.
    pub kind: usize,
    /// What it does.
    pub verb: Verb,
    /// How often it is done in a row.
    #[serde(default = "one")]
    pub iters: NumberSpec,
    /// The set that it chooses files from.
    #[serde(default)]
    pub set: Option<usize>,
    /// Slot of its open file.
    #[serde(default)]
    pub slot: usize,
    /// Whether it uses the file that is open in that slot rather than one of the
    /// set: of `deletefile` and `statfile`.
    #[serde(default)]
    pub by_slot: bool,
    /// Slots from `slot` on that it uses in turn.
    #[serde(default = "single")]
    pub rotates: usize,
    /// Slot of the file whose size it writes.
    #[serde(default)]
    pub source_slot: Option<usize>,
    /// Bytes of one transfer; none for the whole file at once.
    #[serde(default)]
    pub io_bytes: Option<NumberSpec>,
    /// Part of the file that is used; the whole without one.
    #[serde(default)]
    pub working_set_bytes: Option<NumberSpec>,
    /// Whether its offsets are random.
    #[serde(default)]
    pub random: bool,
    /// Whether files are opened with O_DIRECT.
    #[serde(default)]
    pub direct: bool,
    /// Whether files are opened with O_DSYNC.
    #[serde(default)]
    pub dsync: bool,
    /// Whether the kernel is advised not to read ahead.
    #[serde(default)]
    pub no_read_ahead: bool,
    /// Number of the file in its set; the next without one.
    #[serde(default)]
    pub index: Option<NumberSpec>,
    /// Its number: seconds, loops, events, counts.
    #[serde(default)]
    pub value: Option<NumberSpec>,
    /// Most that may be posted before a post waits.
    #[serde(default)]
    pub high_water: u64,
    /// Whether a post waits there.
    #[serde(default)]
    pub blocking: bool,
    /// Kinds that it concerns; none for all.
    #[serde(default)]
    pub targets: Vec<usize>,
}

fn one() -> NumberSpec {
    NumberSpec::Fixed(1.0)
}

fn single() -> usize {
    1
}

/// What a flowop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names of the language")]
pub enum Verb {
    OpenFile,
    CreateFile,
    CloseFile,
    DeleteFile,
    StatFile,
    ReadWholeFile,
    WriteWholeFile,
    AppendFile,
    AppendFileRand,
    Read,
    Write,
    AioWrite,
    Fsync,
    FsyncSet,
    MakeDir,
    RemoveDir,
    ListDir,
    AioWait,
    Block,
    Wakeup,
    SemBlock,
    SemPost,
    EventLimit,
    OpsLimit,
    IopsLimit,
    BwLimit,
    Delay,
    Hog,
    FinishOnCount,
    FinishOnBytes,
}

impl Verb {
    /// The operation on storage; `None` if it is not a request.
    pub fn operation(self) -> Option<Operation> {
        use Verb::*;
        match self {
            Read | ReadWholeFile => Some(Operation::Read),
            Write | WriteWholeFile | AppendFile | AppendFileRand | AioWrite => {
                Some(Operation::Write)
            }
            Fsync | FsyncSet => Some(Operation::Sync),
            OpenFile | CreateFile | CloseFile | DeleteFile | StatFile | MakeDir | RemoveDir
            | ListDir => Some(Operation::Metadata),
            _ => None,
        }
    }

    /// Whether it moves data of files, and so counts as I/O for limits.
    pub fn moves_data(self) -> bool {
        matches!(self.operation(), Some(Operation::Read | Operation::Write))
    }
}

/// A specification that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It is no JSON of this form.
    #[error("{0}")]
    Json(String),
    /// A number is out of bounds.
    #[error("{what} is {given}; at most {most} can be handled")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        given: u64,
        /// The bound.
        most: u64,
    },
    /// A reference leads nowhere.
    #[error("{what} {number} does not exist")]
    Missing {
        /// To what.
        what: &'static str,
        /// Its number.
        number: usize,
    },
    /// A number is invalid, or a distribution has no such parameter.
    #[error("{0}")]
    Number(String),
}

impl FilesSpec {
    /// Reads and checks a specification.
    ///
    /// # Errors
    ///
    /// [`SpecError`] when it is malformed, or refers to what does not exist.
    pub fn parse(json: &str) -> Result<FilesSpec, SpecError> {
        let spec: FilesSpec =
            serde_json::from_str(json).map_err(|error| SpecError::Json(error.to_string()))?;
        at_most("the number of threads", spec.threads_count(), THREADS_MAX)?;
        let entries = spec.sets.iter().map(|set| set.entries.saturating_add(set.leaf_folders));
        at_most("the number of files", entries.fold(0, u64::saturating_add), ENTRIES_MAX)?;
        at_most("slice_ms", spec.slice_ms, 3_600_000)?;
        for set in &spec.sets {
            set.size.check()?;
            let numbers = [set.width_mean, set.width_gamma, set.made_share, spec.duration_s];
            if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
                let words = format!("a number of the set {} is negative or not finite", set.name);
                return Err(SpecError::Number(words));
            }
        }
        for thread in &spec.threads {
            spec.check_steps(thread, &thread.steps)?;
        }
        Ok(spec)
    }

    /// Threads in all.
    pub fn threads_count(&self) -> u64 {
        self.threads.iter().fold(0, |sum: u64, thread| sum.saturating_add(thread.instances))
    }

    fn check_steps(&self, thread: &ThreadSpec, steps: &[Step]) -> Result<(), SpecError> {
        for step in steps {
            match step {
                Step::Group(group) => {
                    group.repeat.check()?;
                    self.check_steps(thread, &group.steps)?;
                }
                Step::Flowop(flowop) => self.check_flowop(thread, flowop)?,
            }
        }
        Ok(())
    }

    fn check_flowop(&self, thread: &ThreadSpec, flowop: &Flowop) -> Result<(), SpecError> {
        for &kind in flowop.targets.iter().chain([&flowop.kind]) {
            exists("the kind", kind, self.kinds.len())?;
        }
        if let Some(set) = flowop.set {
            exists("the set", set, self.sets.len())?;
        }
        let last = flowop.slot.saturating_add(flowop.rotates.max(1) - 1);
        exists("the slot", last.max(flowop.source_slot.unwrap_or(0)), thread.slots.max(1))?;
        let amounts = [&flowop.io_bytes, &flowop.working_set_bytes, &flowop.index, &flowop.value];
        amounts.into_iter().flatten().chain([&flowop.iters]).try_for_each(NumberSpec::check)?;
        match &flowop.io_bytes {
            Some(bytes) if bytes.largest() > IO_BYTES_MAX as f64 => {
                at_most("the bytes of one transfer", bytes.largest() as u64, IO_BYTES_MAX)
            }
            _ => Ok(()),
        }
    }
}

fn at_most(what: &'static str, given: u64, most: u64) -> Result<(), SpecError> {
    if given <= most { Ok(()) } else { Err(SpecError::TooMany { what, given, most }) }
}

fn exists(what: &'static str, number: usize, count: usize) -> Result<(), SpecError> {
    if number < count { Ok(()) } else { Err(SpecError::Missing { what, number }) }
}
