//! Ids in a playback: what a statement drew now is taken from its answer, and written where others
//! name what it had drawn in the capture.
//!
//! Which use is of which draw is known before anything is sent ([`crate::ids::plan`]). As
//! statements are read, [`bound`] finds what of each is to be rewritten; before one is sent,
//! [`now`] rewrites it, and a statement whose draw was not answered yet waits for it. [`reported`]
//! is the report on all of it.

pub mod bound;
pub mod now;
pub mod reported;
#[cfg(test)]
mod tests;
mod texts;

use serde::Deserialize;

/// What becomes of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They are sent as they were captured.
    #[default]
    Off,
    /// Those that the server had made are sent as it made them now.
    Infer,
}
