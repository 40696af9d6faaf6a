//! Whether a control group's limit on requests explains a stall.
//!
//! A throttled request waits above the device, so neither the device's requests in flight nor what
//! a thread waits for distinguishes a throttle from a file system that holds the request. The limit
//! and the device's counters do: a limit explains a stall only if the load had reached it, and if
//! the work that passed during the stall is what the limit allows.

use seatrial_gauge::{GroupLimit, Operation, Stall};

use crate::cgroup::{Direction, IoLimit, LimitUnit};

/// How long before a stall the load is looked at.
const BEFORE_NS: u64 = 2_000_000_000;

/// The kernel lets what a limit allows pass in bursts, one in each slice of this length
/// (block/blk-throttle.c, `throtl_slice`).
const SLICE_NS: u64 = 100_000_000;

/// A reading of the requests that a device has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReading {
    /// When it was read.
    pub at_ns: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl DeviceReading {
    fn unit(&self, limit: &IoLimit) -> u64 {
        match (limit.direction, limit.unit) {
            (Direction::Read, LimitUnit::Requests) => self.reads,
            (Direction::Read, LimitUnit::Bytes) => self.read_bytes,
            (Direction::Write, LimitUnit::Requests) => self.writes,
            (Direction::Write, LimitUnit::Bytes) => self.written_bytes,
        }
    }
}

/// The limit that explains a stall, the narrowest first; `None` when none does.
///
/// # Arguments
///
/// * `readings`: of the device, in order of time, with one before and one after the stall.
/// * `request_bytes_max`: the largest request that the device takes; a limit of bytes lets a
///   request pass once all of it may pass.
pub fn explaining<'l>(
    limits: &'l [IoLimit],
    stall: &Stall,
    readings: &[DeviceReading],
    request_bytes_max: u64,
) -> Option<&'l GroupLimit> {
    let only_reads =
        stall.depth() > 0 && stall.operations[Operation::Read.index()] == stall.depth();
    let explains = |limit: &&IoLimit| {
        let holds = limit.direction == Direction::Read || !only_reads;
        holds && is_explained(limit, stall, readings, request_bytes_max)
    };
    limits.iter().filter(explains).min_by_key(|limit| limit.per_s).map(|limit| &limit.limit)
}

fn is_explained(
    limit: &IoLimit,
    stall: &Stall,
    readings: &[DeviceReading],
    request_bytes_max: u64,
) -> bool {
    let largest = match limit.unit {
        LimitUnit::Requests => 1.0,
        LimitUnit::Bytes => request_bytes_max as f64,
    };
    let length_s = stall.length_ns() as f64 / 1e9;
    let per_s = limit.per_s as f64;
    let Some((during, during_s)) = passed(limit, readings, stall.start_ns, stall.end_ns) else {
        return false;
    };
    let before_ns = stall.start_ns.saturating_sub(BEFORE_NS);
    let (demanded, demanded_s) =
        passed(limit, readings, before_ns, stall.end_ns).unwrap_or((during, during_s));
    // The load had reached the limit, or one request takes longer than was looked at.
    let is_reached = demanded + largest >= 0.5 * per_s * demanded_s;
    // One request alone has to wait for half of the stall, or requests passed at the limit's pace.
    let takes_long = largest / per_s >= 0.5 * length_s;
    // A pause between two bursts contains any part of one; a slice more contains one at least.
    let from_ns = stall.start_ns.saturating_sub(SLICE_NS);
    let keeps_pace = passed(limit, readings, from_ns, stall.end_ns)
        .into_iter()
        .chain([(during, during_s)])
        .any(|(amount, s)| amount >= 0.5 * per_s * s && amount <= 1.5 * per_s * s + largest);
    is_reached && (takes_long || keeps_pace)
}

/// What passed between the readings around a time, and how long that was in s.
fn passed(
    limit: &IoLimit,
    readings: &[DeviceReading],
    from_ns: u64,
    to_ns: u64,
) -> Option<(f64, f64)> {
    let first = readings.partition_point(|reading| reading.at_ns <= from_ns).saturating_sub(1);
    let last = readings
        .partition_point(|reading| reading.at_ns < to_ns)
        .min(readings.len().checked_sub(1)?);
    let (first, last) = (readings.get(first)?, readings.get(last)?);
    let time_s = last.at_ns.checked_sub(first.at_ns).filter(|&ns| ns > 0)? as f64 / 1e9;
    Some((last.unit(limit).saturating_sub(first.unit(limit)) as f64, time_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    fn limit(unit: LimitUnit, direction: Direction, per_s: u64) -> IoLimit {
        let limit = GroupLimit { group: "/g".into(), setting: per_s.to_string() };
        IoLimit { limit, unit, direction, per_s }
    }

    fn stall(from_ms: u64, to_ms: u64, reads: u32, syncs: u32) -> Stall {
        let mut operations = [0; Operation::ALL.len()];
        operations[Operation::Read.index()] = reads;
        operations[Operation::Write.index()] = syncs;
        Stall { start_ns: from_ms * MS, end_ns: to_ms * MS, operations }
    }

    /// Readings every 100 ms of a device that writes 4 KiB at the given rate, but for a time.
    fn readings(writes_per_s: u64, pause_ms: (u64, u64), paused_per_s: u64) -> Vec<DeviceReading> {
        let mut writes_ms = 0;
        let at = |ms: u64| {
            let is_paused = (pause_ms.0..pause_ms.1).contains(&ms);
            writes_ms += if is_paused { paused_per_s } else { writes_per_s } * 100;
            let writes = writes_ms / 1_000;
            DeviceReading {
                at_ns: ms * MS,
                writes,
                written_bytes: writes * 4096,
                ..DeviceReading::default()
            }
        };
        (0..50).map(|tick| tick * 100).map(at).collect()
    }

    fn explained(limit: IoLimit, stall: &Stall, readings: &[DeviceReading]) -> bool {
        explaining(&[limit], stall, readings, MIB).is_some()
    }

    #[test]
    fn a_tight_limit_that_the_load_exceeds_explains_a_stall() {
        let stopped = readings(5_000, (2_000, 2_800), 0);
        let stall = stall(2_000, 2_800, 0, 8);
        let bytes = |per_s| limit(LimitUnit::Bytes, Direction::Write, per_s);
        assert!(explained(bytes(1), &stall, &stopped));
        assert!(explained(bytes(MIB), &stall, &stopped), "1 MiB waits 1 s");
        assert!(explained(limit(LimitUnit::Requests, Direction::Write, 1), &stall, &stopped));
    }

    #[test]
    fn a_limit_that_lets_more_pass_does_not_explain_a_standstill() {
        let stopped = readings(5_000, (2_000, 2_800), 0);
        let stall = stall(2_000, 2_800, 0, 8);
        let requests = |per_s| limit(LimitUnit::Requests, Direction::Write, per_s);
        assert!(!explained(requests(5_000), &stall, &stopped), "reached, but 4,000 should pass");
        assert!(!explained(requests(100), &stall, &stopped), "80 requests should pass");
        let bytes = limit(LimitUnit::Bytes, Direction::Write, 100 * MIB);
        assert!(!explained(bytes, &stall, &stopped), "never reached");
    }

    #[test]
    fn a_commit_that_waits_while_writes_pass_at_the_limit_is_explained() {
        let slow = readings(120, (1_000, 3_000), 120);
        let stall = stall(1_000, 3_000, 0, 1);
        assert!(explained(limit(LimitUnit::Requests, Direction::Write, 120), &stall, &slow));
        assert!(!explained(limit(LimitUnit::Requests, Direction::Write, 2_000), &stall, &slow));
    }

    #[test]
    fn a_pause_between_two_bursts_of_a_slice_is_explained() {
        let bursts = |until_ms: u64| {
            let at = |ms: u64| DeviceReading {
                at_ns: ms * MS,
                writes: (ms.min(until_ms) + 47) / 100 * 100,
                ..DeviceReading::default()
            };
            (0..800).map(|tick| tick * 5).map(at).collect::<Vec<_>>()
        };
        let writes = limit(LimitUnit::Requests, Direction::Write, 1_000);
        assert!(explained(writes.clone(), &stall(2_056, 2_144, 0, 4), &bursts(4_000)));
        assert!(explained(writes.clone(), &stall(2_051, 2_157, 0, 4), &bursts(4_000)));
        assert!(!explained(writes, &stall(2_056, 2_400, 0, 4), &bursts(2_056)), "standstill");
    }

    #[test]
    fn a_limit_of_writes_holds_no_read() {
        let stopped = readings(5_000, (2_000, 2_800), 0);
        let write = limit(LimitUnit::Bytes, Direction::Write, 1);
        assert!(!explained(write.clone(), &stall(2_000, 2_800, 4, 0), &stopped));
        assert!(explained(write, &stall(2_000, 2_800, 4, 1), &stopped), "reads behind a write");
    }

    #[test]
    fn a_limit_that_held_from_the_beginning_needs_no_load_before() {
        let idle = readings(0, (0, 0), 0);
        assert!(explained(
            limit(LimitUnit::Bytes, Direction::Write, 1),
            &stall(0, 800, 0, 1),
            &idle
        ));
        assert!(!explained(
            limit(LimitUnit::Bytes, Direction::Write, 500 * MIB),
            &stall(0, 800, 0, 1),
            &idle
        ));
    }

    #[test]
    fn nothing_is_said_without_readings() {
        assert!(!explained(
            limit(LimitUnit::Bytes, Direction::Write, 1),
            &stall(0, 800, 0, 1),
            &[]
        ));
    }
}
