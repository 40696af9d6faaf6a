//! The specification of one cell, as it crosses from Python in JSON (docs/engine.md).
//!
//! [`CellSpec::parse`] is the only constructor: a specification that it accepts can be planned and
//! run without further checks, except for those that need the opened target (its logical block, its
//! permissions).

mod check;

use std::path::PathBuf;

use seatrial_gauge::Operation;
use serde::{Deserialize, Deserializer};

/// One cell: target, requests, schedule and limits.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Seed of all random numbers of the cell.
    pub seed: u64,
    /// Which blocks are hot derives from this one, so that all cells of a target can agree on it;
    /// by default the seed.
    #[serde(default)]
    pub hot_seed: Option<u64>,
    /// The target.
    pub target: TargetSpec,
    /// The part of the target that requests may access.
    pub range: RangeSpec,
    /// The accesses, by weight; at least one.
    pub accesses: Vec<AccessSpec>,
    /// Concurrent workers, 1 to 4096.
    #[serde(default = "one")]
    pub threads: u32,
    /// Requests that each worker keeps in flight, 1 to 4096.
    #[serde(default = "one")]
    pub depth: u32,
    /// Which engine shall run it.
    #[serde(default)]
    pub engine: EngineChoice,
    /// When requests are due.
    #[serde(default)]
    pub arrival: ArrivalSpec,
    /// Loads next to each other, each with workers of its own; empty where all workers do the same.
    #[serde(default)]
    pub streams: Vec<StreamSpec>,
    /// The list of requests, if they are not drawn; `accesses` are then those that the list may
    /// contain, and the cell ends with it.
    #[serde(default)]
    pub list: Option<ListSpec>,
    /// A sync after this many writes of a worker; 0 for none.
    #[serde(default)]
    pub sync_every: u64,
    /// Which sync that is.
    #[serde(default)]
    pub sync_kind: SyncKind,
    /// The data of writes.
    #[serde(default)]
    pub data: DataSpec,
    /// Whether reads are verified against the writes.
    #[serde(default)]
    pub verify: bool,
    /// Path of the ledger of verifiable data, which is kept from one cell to the next.
    #[serde(default)]
    pub ledger_path: Option<PathBuf>,
    /// Block of a new ledger, so that cells with other sizes can continue it; by default the
    /// largest one of this cell's sizes, over its range.
    #[serde(default)]
    pub ledger_block_bytes: Option<u64>,
    /// When the cell ends.
    pub limit: LimitSpec,
    /// Length of a timeline slice.
    #[serde(default = "default_slice_ms")]
    pub slice_ms: u64,
    /// How long nothing may complete before it is a stall.
    #[serde(default = "default_stall_threshold_ms")]
    pub stall_threshold_ms: u64,
    /// Whether completions are polled for instead of awaited.
    #[serde(default)]
    pub iopoll: bool,
    /// When to start, by `CLOCK_MONOTONIC`, so that several hosts start together; by default once
    /// all workers are ready.
    #[serde(default)]
    pub start_at_ns: Option<u64>,
}

/// The target.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// The kind of the target.
    pub kind: TargetKind,
    /// Its path; needed for a file.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Its size; requests never go past it. 0 on the null target means without end.
    #[serde(default)]
    pub size_bytes: u64,
    /// Whether the page cache is bypassed.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Whether each write is durable when it completes (`O_DSYNC`).
    #[serde(default)]
    pub dsync: bool,
    /// Where `copy` operations write to.
    #[serde(default)]
    pub copy_to: Option<PathBuf>,
    /// Whether the file is created and extended by writing.
    #[serde(default)]
    pub create: bool,
    /// The block device below, `major:minor`, where it cannot be found from the file alone (btrfs).
    #[serde(default)]
    pub device: Option<String>,
    /// The model of a simulated device, which the simulated engine reads.
    #[serde(default)]
    pub model: Option<serde_json::Value>,
    /// The key under which the condition of a `lasting` simulated device is kept from one
    /// sample of this process to the next.
    #[serde(default)]
    pub state_key: Option<String>,
    /// Virtual time for which that device was left alone before this sample.
    #[serde(default)]
    pub idle_s: f64,
}

/// The kind of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A file or a block device.
    File,
    /// Nothing: the engine alone.
    Null,
    /// A device of which there is but a model, on a virtual clock.
    Simulated,
}

/// The part of the target that requests may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// Its first byte.
    pub start_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

/// One kind of request: weight, operation, sizes and addresses.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSpec {
    /// How often it is chosen, relative to the other accesses.
    #[serde(default = "unit_weight")]
    pub weight: f64,
    /// The number of the stream that it belongs to; 0 without streams.
    #[serde(default)]
    pub stream: usize,
    /// The operation: anything but `sync`.
    #[serde(deserialize_with = "operation")]
    pub operation: Operation,
    /// The distribution of block sizes; at least one.
    pub sizes: Vec<SizeSpec>,
    /// Alignment of the offsets.
    pub align_bytes: u64,
    /// Where requests go.
    pub address: AddressSpec,
}

impl AccessSpec {
    /// Returns the largest block size in bytes; 0 when there is none.
    #[must_use]
    pub fn size_bytes_max(&self) -> u64 {
        self.sizes.iter().map(|size| size.bytes).max().unwrap_or(0)
    }
}

/// One of several loads next to each other; its accesses name it by its number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Its workers, of those of the cell.
    #[serde(default = "one")]
    pub threads: u32,
    /// Requests that each of them keeps in flight, at most the depth of the cell.
    #[serde(default = "one")]
    pub depth: u32,
    /// When its requests are due.
    pub arrival: ArrivalSpec,
    /// A sync after this many writes of a worker; 0 for none.
    #[serde(default)]
    pub sync_every: u64,
}

/// One block size of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeSpec {
    /// The block size.
    pub bytes: u64,
    /// How often it is chosen, relative to the other sizes.
    #[serde(default = "unit_weight")]
    pub weight: f64,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AddressSpec {
    /// Anywhere in the range with equal probability.
    Random {},
    /// One after the other; all threads share one cursor; wraps.
    Sequential {},
    /// In strides; all threads share one cursor; wraps, one block further each time.
    Strided {
        /// Distance between the starts of two requests that follow each other.
        stride_bytes: u64,
    },
    /// The block of rank k with a probability in proportion to 1 / k^theta.
    Zipf {
        /// The exponent, 0 (uniform) to 3.
        theta: f64,
    },
    /// A hot set and the rest.
    HotCold {
        /// The share of the range that is hot, above 0 to 1.
        hot_share: f64,
        /// The share of the requests that go there, 0 to 1.
        hot_access_share: f64,
    },
    /// Once through the range at random, each block at least once, with a computed share of
    /// repetitions, so that flash ends as after endless random writes; then the cell ends.
    OnePass {
        /// Flash beyond the range, as a share of it, above 0 to 0.5.
        over_provisioning_share: f64,
    },
}

impl AddressSpec {
    /// Whether some blocks are preferred, so that all threads must agree on which.
    #[must_use]
    pub fn is_skewed(&self) -> bool {
        matches!(self, Self::Zipf { .. } | Self::HotCold { .. })
    }
}

/// Which engine shall run the cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// psync at depth 1, else io_uring, else psync with threads.
    #[default]
    Auto,
    /// io_uring or an error.
    IoUring,
    /// pread and pwrite.
    Psync,
}

/// The list of a cell's requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSpec {
    /// The file (see [`crate::listed`]).
    pub path: PathBuf,
}

/// One of the bursts that a stream draws from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstSpec {
    /// Its frequency, relative to the others.
    pub share: f64,
    /// Its parts, in order.
    pub groups: Vec<GroupSpec>,
}

/// Requests of a burst that are evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// How many.
    pub requests: u64,
    /// Between two of them.
    #[serde(default)]
    pub spacing_s: f64,
    /// After the last of them.
    #[serde(default)]
    pub pause_s: f64,
}

/// When requests are due.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalSpec {
    /// Each as soon as one before it has ended.
    Closed {},
    /// Evenly spaced.
    Fixed {
        /// Requests per second over all threads.
        rate_per_s: f64,
    },
    /// At random, independent of each other.
    Poisson {
        /// Requests per second over all threads, on average.
        rate_per_s: f64,
    },
    /// Many at once, the bursts evenly spaced.
    Bursts {
        /// Requests per second over all threads, on average.
        rate_per_s: f64,
        /// Requests that are due at once, over all threads.
        burst: u64,
    },
    /// Many at once, the batches at random and of random sizes (geometric).
    Batches {
        /// Requests per second over all threads, on average.
        rate_per_s: f64,
        /// Requests that are due at once at a thread, on average.
        burst: u64,
    },
    /// Bursts that are drawn from those given, at random times.
    PoissonBursts {
        /// Requests per second over all threads, on average.
        rate_per_s: f64,
        /// The bursts.
        bursts: Vec<BurstSpec>,
    },
    /// Each worker's after a pause since its one before ended, with its sync; pauses are random
    /// (exponential): the think time of a closed queueing network.
    Think {
        /// Mean length of a pause.
        pause_s: f64,
        /// Requests before each pause, which begins when all have ended.
        #[serde(default = "alone")]
        burst: u64,
        /// Whether each pause is as long as the mean.
        #[serde(default)]
        is_even: bool,
    },
    /// Each at the time that the cell's list has.
    Listed {},
    /// As each of the cell's streams has it.
    Streams {},
}

impl Default for ArrivalSpec {
    fn default() -> Self {
        Self::Closed {}
    }
}

/// Which sync follows writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// Data, and the metadata that is needed to read it.
    #[default]
    Fdatasync,
    /// Data and all of the file's attributes.
    Fsync,
}

/// The data of writes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DataSpec {
    /// Random bytes, which do not compress.
    Random {},
    /// Bytes of which a share compresses away.
    Compressible {
        /// That share of each 4 KiB, 0 to 1.
        share: f64,
    },
    /// Sectors that contain their own address and the number of their write.
    Verifiable {},
}

impl Default for DataSpec {
    fn default() -> Self {
        Self::Random {}
    }
}

/// When the cell ends: at whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSpec {
    /// After this time.
    pub duration_s: f64,
    /// After this many bytes were transferred.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// After this many operations.
    #[serde(default)]
    pub operations: Option<u64>,
}

/// Why a cell's specification cannot be run, in one sentence that names the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It is not the JSON of a cell.
    #[error("the cell's specification cannot be read: {0}; docs/engine.md shows every key")]
    Malformed(String),
    /// A value, or a pair of them, makes no sense.
    #[error("{key} {problem}")]
    Refused {
        /// Path of the key, such as `accesses[1].sizes[0].bytes`.
        key: String,
        /// The value, the valid values, and the remedy.
        problem: String,
    },
}

impl CellSpec {
    /// Reads and checks the JSON of docs/engine.md.
    ///
    /// # Errors
    ///
    /// [`SpecError`] for text that is not such JSON, has an unknown key or a value that makes no
    /// sense; only the first problem is reported.
    pub fn parse(json: &str) -> Result<Self, SpecError> {
        let spec: Self =
            serde_json::from_str(json).map_err(|error| SpecError::Malformed(error.to_string()))?;
        check::check(&spec)?;
        Ok(spec)
    }

    /// Returns the number of the stream of a worker and the worker's own number in it; 0 and the
    /// worker's number without streams.
    #[must_use]
    pub fn place_of(&self, worker: u32) -> (usize, u32) {
        let mut before = 0;
        for (number, stream) in self.streams.iter().enumerate() {
            if worker < before + stream.threads {
                return (number, worker - before);
            }
            before += stream.threads;
        }
        (0, worker)
    }

    /// Whether workers sync after writes; rates leave these syncs out.
    #[must_use]
    pub fn has_syncs(&self) -> bool {
        self.sync_every > 0 || self.streams.iter().any(|stream| stream.sync_every > 0)
    }

    /// Whether written blocks can be identified later. A ledger is then kept, and each worker
    /// writes only to its own blocks.
    #[must_use]
    pub fn is_verifiable(&self) -> bool {
        matches!(self.data, DataSpec::Verifiable {})
    }
}

/// Reads the operation of an access; not `sync`, which has no size and no address.
fn operation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Operation, D::Error> {
    const NAMES: &[&str] = &["read", "write", "commit", "copy"];
    let name = String::deserialize(deserializer)?;
    match name.as_str() {
        "read" => Ok(Operation::Read),
        "write" => Ok(Operation::Write),
        "commit" => Ok(Operation::Commit),
        "copy" => Ok(Operation::Copy),
        _ => Err(serde::de::Error::unknown_variant(&name, NAMES)),
    }
}

const fn one() -> u32 {
    1
}

const fn alone() -> u64 {
    1
}

const fn yes() -> bool {
    true
}

const fn unit_weight() -> f64 {
    1.0
}

const fn default_slice_ms() -> u64 {
    100
}

const fn default_stall_threshold_ms() -> u64 {
    50
}

#[cfg(test)]
mod tests;
