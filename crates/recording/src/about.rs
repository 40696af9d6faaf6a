//! What a recording says of itself.

use serde::{Deserialize, Serialize};

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Device {
    /// Its name in the kernel, or in the source.
    pub name: String,
    /// Its size; None where the source does not know it.
    pub size_bytes: Option<u64>,
}

/// What was not recorded.
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
    /// Events that the kernel did not hand over.
    pub missed: u64,
    /// What the disks transferred by their own counters beyond what was seen.
    pub unseen_bytes: u64,
}

/// What the source knows of each request.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Knows {
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

/// What an import left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LeftOut {
    /// Why, or what it is.
    pub reason: String,
    /// How much of it.
    pub count: u64,
}

/// What a recording says of itself. With several files, each says it; the last one is right.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct About {
    /// Unix time of the beginning, to which arrivals refer, in nanoseconds; 0 if that is unknown.
    /// It is the same in all files of a recording, and so is the source.
    pub began_at_ns: u64,
    /// How long it is.
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
    /// What was not recorded.
    #[serde(default)]
    pub lost: Lost,
    /// What the source knows.
    pub knows: Knows,
    /// What is made up, as the source does not know it: `time`, `operation`, `place`.
    #[serde(default)]
    pub made_up: Vec<String>,
    /// What an import left out.
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
    /// Whether it was completed; else it is what was secured before it was cut off.
    #[serde(default)]
    pub is_complete: bool,
}

impl About {
    /// Returns a recording of this source that begins now or then, and that knows this.
    pub fn new(began_at_ns: u64, source: &str, knows: Knows) -> About {
        About { began_at_ns, source: source.to_owned(), knows, ..About::default() }
    }
}
