//! Bounds of a cell: the one table, which `seatrial._core` passes to the study's checks.

/// Threads of a cell.
pub const THREADS_MAX: u32 = 1_024;

/// Requests that a thread keeps in flight.
pub const DEPTH_MAX: u32 = 4_096;

/// Bytes of a block. Linux transfers at most 2 GiB less a page in one request; half of it leaves
/// no doubt.
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Bytes before a request's end. Offsets are signed in every system call.
pub const OFFSET_BYTES_MAX: u64 = i64::MAX as u64;

/// The finest rate that arrivals are computed with is a millionth of a request per second.
pub const RATE_PER_S_MIN: f64 = 1e-6;

/// Requests due per second; the resolution is one nanosecond.
pub const RATE_PER_S_MAX: f64 = 1e9;

/// A day; longer is a slip of the unit.
pub const DURATION_S_MAX: f64 = 86_400.0;

/// Length of a timeline's slice.
pub const SLICE_MS_MAX: u64 = 60_000;

/// Time without a completion from which it is a stall.
pub const STALL_THRESHOLD_MS_MAX: u64 = 60_000;

/// How far ahead the start of a cell may be.
pub const START_AHEAD_NS_MAX: u64 = 600_000_000_000;

/// The exponent of a Zipf distribution; beyond it all requests go to one block.
pub const THETA_MAX: f64 = 3.0;

/// Of a fill in one pass. With much more, there are more blocks to be written again than a single
/// pass has room for.
pub const ONE_PASS_OVER_PROVISIONING_SHARE_MAX: f64 = 0.5;

/// Requests that a simulated device serves at the same time.
pub const CHANNELS_MAX: u32 = 65_536;

/// The largest number that Linux returns as an error (`MAX_ERRNO`).
pub const ERRNO_MAX: i32 = 4_095;

/// Microseconds, seconds, operations and rates of a simulated device; beyond it, sums lose units.
pub const MODEL_AMOUNT_MAX: f64 = 1e15;

/// Flash of a simulated device beyond the target's size, as a share of that size.
pub const FLASH_OVER_PROVISIONING_SHARE_MAX: f64 = 10.0;

/// A page of a simulated device's flash, which is a multiple of it.
pub const FLASH_PAGE_BYTES_MIN: u64 = 512;

/// A page of a simulated device's flash.
pub const FLASH_PAGE_BYTES_MAX: u64 = 1 << 24;

/// Pages of a simulated device's flash that are erased together.
pub const FLASH_BLOCK_PAGES_MIN: u32 = 2;

/// Pages of a simulated device's flash that are erased together.
pub const FLASH_BLOCK_PAGES_MAX: u32 = 65_536;
