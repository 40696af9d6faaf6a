//! The measuring instruments: clock, histogram, timeline, outcome accounting and stall watch.
//!
//! Nothing here performs I/O or starts a thread. The load engine and the SQL replay feed these
//! parts from their loops, and a simulated device feeds them from a virtual clock, so that every
//! rule below can be tested exactly and in an instant.
//!
//! A latency is recorded in [`Recorder::complete`]: one histogram entry for every request.

pub mod cache;
pub mod clock;
pub mod histogram;
pub mod in_flight;
pub mod job;
pub mod operation;
pub mod outcome;
pub mod recorder;
pub mod stall;
pub mod timeline;
pub mod user_error;
mod varint;

pub use clock::{Clock, ClockSource};
pub use histogram::{Histogram, HistogramError};
pub use in_flight::{InFlight, InFlightView};
pub use job::{Job, Task};
pub use operation::Operation;
pub use outcome::{Accounting, AccountingError, Outcome};
pub use recorder::{KindTotals, Recorder, RecorderParts, RecorderSettings, lock};
pub use stall::{
    Cause, Evidence, GroupLimit, QuietPeriod, STALLS_MAX, Stall, WorkerQuietPeriods, find_stalls,
    keep_longest, longest_in_order,
};
pub use timeline::{SliceRow, Timeline, Window};
pub use user_error::UserError;
