//! The thin PyO3 layer, module `seatrial._core`. No logic lives here: it turns Python's values
//! into the crates' and back.

mod cache;
mod errors;
mod files;
mod histogram;
mod null_server;
mod pgbench_log;
mod recording;
mod running;
mod sample;
mod schemas;
mod sql_capture;
mod sql_read;
mod sql_replay;
mod sql_trace;
mod watch;

use pyo3::prelude::*;
use seatrial_load::{address, procfs, sim, uring};

/// Measuring, replaying and modelling: the parts that must be fast.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::cache::{
        PyCacheAccesses, PyCacheDeviceKind, PyCacheSetting, PyCacheSlice, PyPageCache,
        cache_devices, cache_policies, sampled_accesses, stream_bytes,
    };
    #[pymodule_export]
    use super::errors::{
        NativeDefectError, NativeError, NativeSpaceError, NativeSystemError, NativeTargetError,
        NativeUsageError,
    };
    #[pymodule_export]
    use super::files::start_files;
    #[pymodule_export]
    use super::histogram::PyHistogram;
    #[pymodule_export]
    use super::null_server::PyNullServer;
    #[pymodule_export]
    use super::pgbench_log::read_pgbench_logs;
    #[pymodule_export]
    use super::recording::{PyRecordingReader, PyRecordingWriter, import_recording};
    #[pymodule_export]
    use super::running::{CellLive, PyRunning, start};
    #[pymodule_export]
    use super::schemas::record_schemas;
    #[pymodule_export]
    use super::sql_capture::{PySqlCapture, recover_trace, start_sql_capture};
    #[pymodule_export]
    use super::sql_read::{PySqlPart, PySqlReading, sql_log_parts, start_sql_read};
    #[pymodule_export]
    use super::sql_replay::{PlaybackLive, PlaybackResult, PySqlPlayback, start_sql_playback};
    #[pymodule_export]
    use super::sql_trace::{
        fingerprint_sql, show_trace, trace_commits, trace_examples, trace_sequences,
        trace_statements, trace_time_series,
    };
    #[pymodule_export]
    use super::watch::{PyWatch, PyWatchLost, PyWatchedGroup, PyWatchedRequest};
    #[pymodule_export]
    use super::{clock_source, forget_device, io_uring_status, one_pass_writes};
    use seatrial_ingest::intake::spec;
    use seatrial_load::bounds;
    use seatrial_sqltext::lexer::class::Class;

    #[pymodule_export]
    #[expect(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const THREADS_MAX: u32 = bounds::THREADS_MAX;
    #[pymodule_export]
    const DEPTH_MAX: u32 = bounds::DEPTH_MAX;
    #[pymodule_export]
    const BLOCK_BYTES_MAX: u64 = bounds::BLOCK_BYTES_MAX;
    #[pymodule_export]
    const OFFSET_BYTES_MAX: u64 = bounds::OFFSET_BYTES_MAX;
    #[pymodule_export]
    const RATE_PER_S_MIN: f64 = bounds::RATE_PER_S_MIN;
    #[pymodule_export]
    const RATE_PER_S_MAX: f64 = bounds::RATE_PER_S_MAX;
    #[pymodule_export]
    const DURATION_S_MAX: f64 = bounds::DURATION_S_MAX;
    #[pymodule_export]
    const SLICE_MS_MAX: u64 = bounds::SLICE_MS_MAX;
    #[pymodule_export]
    const STALL_THRESHOLD_MS_MAX: u64 = bounds::STALL_THRESHOLD_MS_MAX;
    #[pymodule_export]
    const THETA_MAX: f64 = bounds::THETA_MAX;
    #[pymodule_export]
    const ONE_PASS_OVER_PROVISIONING_SHARE_MAX: f64 = bounds::ONE_PASS_OVER_PROVISIONING_SHARE_MAX;
    #[pymodule_export]
    const CHANNELS_MAX: u32 = bounds::CHANNELS_MAX;
    #[pymodule_export]
    const ERRNO_MAX: i32 = bounds::ERRNO_MAX;
    #[pymodule_export]
    const MODEL_AMOUNT_MAX: f64 = bounds::MODEL_AMOUNT_MAX;
    #[pymodule_export]
    const FLASH_OVER_PROVISIONING_SHARE_MAX: f64 = bounds::FLASH_OVER_PROVISIONING_SHARE_MAX;
    #[pymodule_export]
    const FLASH_PAGE_BYTES_MIN: u64 = bounds::FLASH_PAGE_BYTES_MIN;
    #[pymodule_export]
    const FLASH_PAGE_BYTES_MAX: u64 = bounds::FLASH_PAGE_BYTES_MAX;
    #[pymodule_export]
    const FLASH_BLOCK_PAGES_MIN: u32 = bounds::FLASH_BLOCK_PAGES_MIN;
    #[pymodule_export]
    const FLASH_BLOCK_PAGES_MAX: u32 = bounds::FLASH_BLOCK_PAGES_MAX;
    #[pymodule_export]
    const SESSIONS_MAX: usize = spec::SESSIONS_MAX;
    #[pymodule_export]
    const WATCHED_OPERATIONS: [&str; 5] = seatrial_watch::layout::OPERATIONS;
    #[pymodule_export]
    const FOREIGN_FORMATS: [&str; 10] = seatrial_recording::foreign::Format::NAMES;
    #[pymodule_export]
    const STATEMENT_CLASSES: [&str; Class::COUNT] = Class::ALL_NAMES;
}

/// Return an empty string when io_uring works, else the reason by name.
#[pyfunction]
fn io_uring_status() -> String {
    uring::unavailable_reason().unwrap_or_default()
}

/// Drop the state of a simulated device that is stored under its ``target.state_key``.
#[pyfunction]
fn forget_device(state_key: &str) {
    sim::forget(state_key);
}

/// Return the writes of a one-pass fill of ``blocks`` blocks: about 1 + the share per block.
#[pyfunction]
fn one_pass_writes(blocks: u64, over_provisioning_share: f64) -> u64 {
    address::one_pass::one_pass_writes(blocks, over_provisioning_share)
}

/// Return ``tsc`` or ``monotonic``.
#[pyfunction]
fn clock_source() -> &'static str {
    procfs::process_clock().source().name()
}
