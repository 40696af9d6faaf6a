//! Ids in a playback: the values that a statement draws now are taken from its answer, and written
//! into statements that use the captured ones.
//!
//! The plan ([`crate::ids::plan`]) is known before anything is sent. As statements are read,
//! [`binder`] finds what has to be rewritten; before one is sent, [`id_slots`] rewrites it, and a
//! statement whose draw was not answered yet waits for it. [`reported`] is the report.

pub mod binder;
pub mod id_slots;
pub mod reported;
#[cfg(test)]
mod tests;
mod texts;

use serde::Deserialize;

/// Treatment of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They are sent as they were captured.
    #[default]
    Off,
    /// Generated ids are replaced by those that the server generates now.
    Infer,
}
