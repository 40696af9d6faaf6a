//! What is to be played, where and how, as it crosses from Python in JSON.

use std::path::PathBuf;

use seatrial_pgwire::link::ServerSpec;
use seatrial_sqltext::catalog::Catalog;
use serde::{Deserialize, Serialize};

use super::rewrite::Mode;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaybackSpec {
    pub trace: PathBuf,
    /// The server that it is sent to.
    pub server: ServerSpec,
    /// How many times faster than it was captured; None as fast as the server answers.
    #[serde(default)]
    pub speed: Option<f64>,
    /// What the speed applies to.
    #[serde(default)]
    pub pace: Pace,
    /// Which statements keep their order.
    #[serde(default)]
    pub order: Order,
    /// The target's catalogue; without it accesses of statements are unknown.
    #[serde(default)]
    pub catalog: Option<Catalog>,
    /// Treatment of ids.
    #[serde(default)]
    pub ids: Mode,
    /// Sessions that are connected at once; by default as many as were open at once when captured.
    #[serde(default)]
    pub connections_max: Option<usize>,
    /// Statements that were captured later than this after the first are skipped.
    #[serde(default)]
    pub until_us: Option<u64>,
    /// Databases of the capture whose sessions are played; all if empty.
    #[serde(default)]
    pub databases: Vec<String>,
    /// Which sessions are played, if several hosts play one trace together.
    #[serde(default)]
    pub part: Option<Part>,
    /// Send nothing before a start was [agreed](super::drive::Playback::start_at).
    #[serde(default)]
    pub awaits_start: bool,
    /// Sends only what a read-only transaction accepts, in read-only sessions.
    #[serde(default)]
    pub read_only: bool,
    /// Otherwise refused unsafe operations that are allowed (names of
    /// [`super::item::UnsafeOperation`]).
    #[serde(default)]
    pub allow: Vec<String>,
    /// Length of a timeline's slice.
    pub slice_ms: u64,
    /// A time without answers is a stall if it lasts at least this long.
    pub stall_threshold_ms: u64,
    /// How long a statement may wait for a lock before the order releases the sessions that it
    /// delays.
    #[serde(default = "lock_patience_ms")]
    pub lock_patience_ms: u64,
}

/// One of several parts of a trace's sessions; see [`super::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Which, from 0.
    pub number: usize,
    pub of: usize,
}

/// What a speed applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Times since the beginning of the capture: a late statement stays due, and counts as late.
    #[default]
    Arrivals,
    /// Times since the end of a session's last statement: a slow server slows its clients down.
    ThinkTimes,
}

/// Which statements keep their order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The statements of each session.
    #[default]
    Session,
    /// These, and no statement is sent before all transactions that had ended when it began.
    Commit,
    /// Statements that access the same table or sequence, at least one of them writing.
    Object,
    /// Statements that access the same rows, as far as keys distinguish these.
    Key,
    /// All statements.
    Strict,
}

/// Ten times as long as a commit on a disk takes.
fn lock_patience_ms() -> u64 {
    100
}
