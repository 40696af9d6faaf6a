//! The engine that carries requests to a target: one trait, so that the worker's loop is the same
//! for the kernel's asynchronous interface, over plain system calls and over a simulated device.

use std::io;

use seatrial_gauge::{InFlight, Operation};

/// One request, ready to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The slot, and with it the buffer, that it occupies.
    pub slot: usize,
    /// Its operation.
    pub operation: Operation,
    /// Where on the target; 0 for a sync.
    pub offset_bytes: u64,
    /// How much; 0 for a sync.
    pub length_bytes: u32,
}

/// One request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The slot that it occupied.
    pub slot: usize,
    /// When its end was seen.
    pub at_ns: u64,
    /// Bytes moved, or the negative error number.
    pub result: i32,
}

/// Carries the requests of one worker. The engine publishes each start in the worker's [`InFlight`]
/// at the moment at which the request leaves for the target.
pub trait Engine {
    /// Now, on the clock that completions are stamped with.
    fn now_ns(&self) -> u64;

    /// Takes a request; it leaves now or, at the latest, with the next [`Engine::reap`].
    fn submit(&mut self, request: Request, in_flight: &InFlight);

    /// Waits until `min_ended` requests have ended, or until `until_ns`, and returns all that have.
    ///
    /// # Errors
    ///
    /// When the engine itself fails; a failed request is a completion.
    fn reap(
        &mut self,
        min_ended: usize,
        until_ns: u64,
        in_flight: &InFlight,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()>;

    /// Waits while nothing is outstanding.
    fn sleep_until(&mut self, until_ns: u64);

    /// The write buffer of a slot; also for reads if both are the same.
    fn buffer(&mut self, slot: usize) -> &mut [u8];
}

/// Completions to wait for at once: about 32 at great depths, because the system call is the
/// largest single cost of a request, and never so many that waiting for them adds more than about
/// 5 % to the mean latency. By Little's law a batch of k at depth d adds (k - 1) / 2d.
pub fn batch_max(depth: usize) -> usize {
    (1 + depth / 10).min(32)
}

#[cfg(test)]
mod tests {
    use super::batch_max;

    #[test]
    fn waiting_for_a_batch_adds_at_most_5_percent() {
        for depth in 1..=4096 {
            let batch = batch_max(depth);
            assert!((1..=depth.min(32)).contains(&batch));
            assert!((batch - 1) as f64 / (2 * depth) as f64 <= 0.05);
        }
        assert_eq!((batch_max(1), batch_max(128), batch_max(512)), (1, 13, 32));
    }
}
