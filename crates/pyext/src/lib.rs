//! The thin PyO3 layer, module `seatrial._core`. No logic lives here: it turns Python's values
//! into the crates' and back.

mod histogram;
mod null_server;
mod pgbench_log;
mod running;
mod sample;
mod sql_capture;
mod sql_course;
mod sql_ids;
mod sql_read;
mod sql_replay;
mod sql_trace;

use pyo3::prelude::*;
use seatrial_load::{address, procfs, sim, uring};

/// Measuring, replaying and modelling: the parts that must be fast.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::histogram::PyHistogram;
    #[pymodule_export]
    use super::null_server::PyNullServer;
    #[pymodule_export]
    use super::pgbench_log::read_pgbench_logs;
    #[pymodule_export]
    use super::running::{PyRunning, start};
    #[pymodule_export]
    use super::sql_capture::{PySqlCapture, recover_trace, start_sql_capture};
    #[pymodule_export]
    use super::sql_course::{fingerprint_sql, trace_course, trace_examples};
    #[pymodule_export]
    use super::sql_ids::trace_sequences;
    #[pymodule_export]
    use super::sql_read::{PySqlReading, start_sql_read};
    #[pymodule_export]
    use super::sql_replay::{PySqlPlayback, start_sql_playback};
    #[pymodule_export]
    use super::sql_trace::{show_trace, trace_statements};
    #[pymodule_export]
    use super::{clock_source, forget_device, io_uring_status, one_pass_writes};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Return an empty string when io_uring works, else the reason by name.
#[pyfunction]
fn io_uring_status() -> String {
    uring::unavailable_reason().unwrap_or_default()
}

/// Drop what lasts of a simulated device under its ``target.state_key``.
#[pyfunction]
fn forget_device(state_key: &str) {
    sim::forget(state_key);
}

/// Return how many writes fill so many blocks in one pass: about 1 + the share times as many.
#[pyfunction]
fn one_pass_writes(blocks: u64, over_provisioning_share: f64) -> u64 {
    address::one_pass::one_pass_writes(blocks, over_provisioning_share)
}

/// Return ``tsc`` or ``monotonic``.
#[pyfunction]
fn clock_source() -> &'static str {
    procfs::process_clock().source().name()
}
