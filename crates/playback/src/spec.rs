//! What is to be played, where and how, as it crosses from Python in JSON.

use std::path::PathBuf;

use seatrial_pgwire::link::ServerSpec;
use seatrial_sqltext::catalog::Catalog;
use serde::{Deserialize, Serialize};

use super::rewrite::Mode;

/// A playback.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaybackSpec {
    /// The trace.
    pub trace: PathBuf,
    /// Where it is sent.
    pub server: ServerSpec,
    /// How many times faster than it was captured; None as fast as the server answers.
    #[serde(default)]
    pub speed: Option<f64>,
    /// What the speed divides.
    #[serde(default)]
    pub pace: Pace,
    /// What keeps its order.
    #[serde(default)]
    pub order: Order,
    /// What the target's catalogue says; without it nothing is known of what statements touch.
    #[serde(default)]
    pub catalog: Option<Catalog>,
    /// What becomes of ids.
    #[serde(default)]
    pub ids: Mode,
    /// Sessions that are connected at once; by default as many as were open at once when captured.
    #[serde(default)]
    pub connections_max: Option<usize>,
    /// Statements that were captured later than so long after the first are skipped.
    #[serde(default)]
    pub until_us: Option<u64>,
    /// Databases of the capture whose sessions are played; all of them where there are none.
    #[serde(default)]
    pub databases: Vec<String>,
    /// Which of the sessions are played, where several hosts play one trace together.
    #[serde(default)]
    pub part: Option<Part>,
    /// Send nothing before a start was [agreed](super::drive::Playback::start_at).
    #[serde(default)]
    pub awaits_start: bool,
    /// Send only what a transaction that reads only takes, in sessions that are read only.
    #[serde(default)]
    pub read_only: bool,
    /// Otherwise refused dangers that are allowed (names of [`super::item::Danger`]).
    #[serde(default)]
    pub allow: Vec<String>,
    /// Length of a timeline's slice.
    pub slice_ms: u64,
    /// A time without answers is a stall when it lasts at least so long.
    pub stall_threshold_ms: u64,
    /// How long a statement may wait for a lock before what the order holds back is released.
    #[serde(default = "lock_patience_ms")]
    pub lock_patience_ms: u64,
}

/// One of several parts of a trace's sessions; see [`super::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Which, from 0.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// What a speed divides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Times from the beginning of the capture: what is late stays due, and counts as late.
    #[default]
    Arrivals,
    /// Times from the end of a session's last statement: a slow server slows its clients down.
    ThinkTimes,
}

/// What keeps its order.
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
    /// Statements that touch the same table or sequence, at least one of them writing.
    Object,
    /// Statements that touch the same rows, as far as keys distinguish these.
    Key,
    /// All statements.
    Strict,
}

/// Ten times as long as a commit on a disk takes.
fn lock_patience_ms() -> u64 {
    100
}
