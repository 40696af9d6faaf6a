//! The metadata of a recording.

use serde::{Deserialize, Serialize};

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Device {
    /// Its name in the kernel, or in the source.
    pub name: String,
    /// Its size; None where the source does not know it.
    pub size_bytes: Option<u64>,
}

/// Requests and events that were not recorded.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Lost {
    /// Completions of requests that were issued before the beginning, or are not distinguishable.
    pub unmatched: u64,
    /// Requests for which the kernel's tables had no room.
    pub uncounted: u64,
    /// Requests that are counted, but were not read one by one.
    pub unrecorded: u64,
    /// Events that the kernel did not deliver.
    pub missed: u64,
    /// Bytes that the disks transferred by their own counters, beyond those of recorded requests.
    pub unseen_bytes: u64,
    /// Bytes of counted requests; 0 in older recordings.
    #[serde(default)]
    pub counted_bytes: u64,
}

/// The fields of a request that the source knows.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct KnownFields {
    /// When it arrived in the block layer, or was sent; else when it was issued to the device.
    pub arrival: bool,
    /// Whether a process waits for it.
    pub sync: bool,
    /// Whether it failed.
    pub failures: bool,
    /// The time in the queue.
    pub queue: bool,
    /// The time at the device, if only with that in the queue.
    pub device: bool,
    /// The process.
    pub process: bool,
    /// The relation.
    pub relations: bool,
}

/// Records that an import left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LeftOut {
    /// The reason.
    pub reason: String,
    /// Number of records.
    pub count: u64,
}

/// The metadata of a recording. Each of several files has it; that of the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct About {
    /// Unix time of the beginning, to which arrivals refer, in nanoseconds; 0 if that is unknown.
    /// It is the same in all files of a recording, and so is the source.
    pub began_at_ns: u64,
    /// Its length.
    #[serde(default)]
    pub length_ns: u64,
    /// What recorded it: `seatrial watch`, or the format that it was imported from.
    pub source: String,
    /// Devices, in the order of their numbers.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Processes, likewise.
    #[serde(default)]
    pub processes: Vec<String>,
    /// Files, tables and indexes, likewise.
    #[serde(default)]
    pub relations: Vec<String>,
    /// Requests and events that were not recorded.
    #[serde(default)]
    pub lost: Lost,
    /// What the source knows.
    pub knows: KnownFields,
    /// Invented fields, which the source does not know: `time`, `operation`, `place`.
    #[serde(default)]
    pub made_up: Vec<String>,
    /// Records that an import left out.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The version of Seatrial that wrote it.
    #[serde(default)]
    pub seatrial_version: String,
    /// Number of this file, from 0.
    #[serde(default)]
    pub file: u32,
    /// Whether no file follows.
    #[serde(default)]
    pub is_last: bool,
    /// Whether it was completed; else it was recovered after a crash.
    #[serde(default)]
    pub is_complete: bool,
}

impl About {
    /// Returns a recording of this source that begins now or then, and that knows this.
    pub fn new(began_at_ns: u64, source: &str, knows: KnownFields) -> About {
        About { began_at_ns, source: source.to_owned(), knows, ..About::default() }
    }
}
