//! Effects of control groups on the load during a sample: read by the watchdog, evaluated when it
//! has ended.

use std::fs;
use std::path::PathBuf;

use seatrial_gauge::{GroupLimit, Stall};

use crate::cgroup::{self, Hierarchies, IoLimit};
use crate::throttle::{self, DeviceReading};
use crate::watchdog::keep_reading;

/// The kernel counts a stop when it ends, on each processor for itself: what was counted until so
/// long after a stall belongs to it.
const COUNTED_LATE_NS: u64 = 5_000_000;

/// Largest request of a device that does not report it.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Limits as they were found at a moment.
#[derive(Debug)]
struct LimitsReading {
    at_ns: u64,
    limits: Vec<IoLimit>,
}

/// How long a group's quota has stopped its threads, in total, at a moment.
#[derive(Clone, Copy, Debug)]
struct QuotaReading {
    at_ns: u64,
    group: usize,
    throttled_ns: u64,
}

/// A group that may have a quota, and how that was last set.
///
/// It is read with the counters: the kernel counts a stop when it ends, and when that is because
/// the quota was lifted, it is too late to read the setting.
#[derive(Debug)]
struct QuotaGroup {
    path: PathBuf,
    limit: Option<GroupLimit>,
}

impl QuotaGroup {
    /// How it was set when it stopped threads, as far as that was seen.
    fn stopping(&self) -> GroupLimit {
        let lifted = || GroupLimit {
            group: self.path.display().to_string(),
            setting: "a quota that was lifted before it was read".into(),
        };
        self.limit.clone().unwrap_or_else(lifted)
    }
}

/// Reads limits and counters of the groups of this process.
#[derive(Debug, Default)]
pub struct GroupWatch {
    hierarchies: Hierarchies,
    devices: Vec<String>,
    request_bytes_max: u64,
    device_readings: Vec<DeviceReading>,
    limits: Vec<LimitsReading>,
    quotas: Vec<QuotaReading>,
    quota_groups: Vec<QuotaGroup>,
}

impl GroupWatch {
    /// Begins with a first reading; `device` is the block device below the target.
    pub fn begin(device: Option<&str>, at_ns: u64) -> GroupWatch {
        let mut watch = GroupWatch {
            hierarchies: Hierarchies::read(),
            devices: device.map(cgroup::devices_below).unwrap_or_default(),
            request_bytes_max: device.and_then(request_bytes_max).unwrap_or(REQUEST_BYTES_MAX),
            ..GroupWatch::default()
        };
        watch.read(at_ns);
        watch
    }

    /// Reads the counters of the groups and the device.
    pub fn read(&mut self, at_ns: u64) {
        self.read_quotas(at_ns);
        self.read_device(at_ns);
    }

    /// A stall may have begun: reads the limits that could explain it too.
    pub fn suspect(&mut self, at_ns: u64) {
        self.read(at_ns);
        if !self.devices.is_empty() {
            let limits = self.hierarchies.io_limits(&self.devices);
            keep_reading(&mut self.limits, LimitsReading { at_ns, limits }, |each| each.at_ns);
        }
    }

    /// The limit that explains a stall.
    pub fn throttle(&self, stall: &Stall) -> Option<GroupLimit> {
        let first = self.limits.partition_point(|seen| seen.at_ns < stall.start_ns);
        let during = self.limits[first..].iter().take_while(|seen| seen.at_ns <= stall.end_ns);
        let explaining = during.filter_map(|seen| {
            let readings = &self.device_readings;
            throttle::explaining(&seen.limits, stall, readings, self.request_bytes_max)
        });
        explaining.last().cloned()
    }

    /// For how long a quota stopped threads during a stall, and which; the group that did most.
    pub fn quota(&self, stall: &Stall) -> (u64, Option<GroupLimit>) {
        let (stopped_ns, limit) = self.stopped(stall.start_ns, stall.end_ns + COUNTED_LATE_NS);
        (stopped_ns.min(stall.length_ns()), limit)
    }

    /// For how long a quota stopped threads in all, summed over processors.
    pub fn quota_ns_total(&self) -> u64 {
        self.stopped(0, u64::MAX).0
    }

    fn stopped(&self, from_ns: u64, to_ns: u64) -> (u64, Option<GroupLimit>) {
        let growth = |group: usize| {
            let seen = || self.quotas.iter().filter(move |quota| quota.group == group);
            let before = seen().take_while(|quota| quota.at_ns <= from_ns).last();
            let first = before.or_else(|| seen().next())?;
            let last = seen().find(|quota| quota.at_ns >= to_ns).or_else(|| seen().next_back())?;
            Some(last.throttled_ns.saturating_sub(first.throttled_ns))
        };
        let groups = 0..self.quota_groups.len();
        let most = groups.filter_map(|group| Some((growth(group)?, group))).max();
        let most = most.filter(|&(ns, _)| ns > 0);
        most.map_or((0, None), |(ns, group)| (ns, Some(self.quota_groups[group].stopping())))
    }

    fn read_quotas(&mut self, at_ns: u64) {
        for reading in self.hierarchies.quota_readings() {
            let known = self.quota_groups.iter().position(|group| group.path == reading.group);
            let group = known.unwrap_or_else(|| {
                self.quota_groups.push(QuotaGroup { path: reading.group.clone(), limit: None });
                self.quota_groups.len() - 1
            });
            if let Some(limit) = cgroup::quota_limit(&reading.group) {
                self.quota_groups[group].limit = Some(limit);
            }
            let quota = QuotaReading { at_ns, group, throttled_ns: reading.throttled_ns };
            keep_reading(&mut self.quotas, quota, |each| each.at_ns);
        }
    }

    fn read_device(&mut self, at_ns: u64) {
        let Some(device) = self.devices.first() else { return };
        if let Some(reading) = device_reading(device, at_ns) {
            keep_reading(&mut self.device_readings, reading, |each| each.at_ns);
        }
    }
}

/// Source: Documentation/block/stat.rst; sectors are of 512 bytes.
fn device_reading(device: &str, at_ns: u64) -> Option<DeviceReading> {
    let stat = fs::read_to_string(format!("/sys/dev/block/{device}/stat")).ok()?;
    let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(DeviceReading {
        at_ns,
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * 512,
        writes: *fields.get(4)?,
        written_bytes: fields.get(6)? * 512,
    })
}

/// Source: Documentation/ABI/stable/sysfs-block (`queue/max_sectors_kb`).
fn request_bytes_max(device: &str) -> Option<u64> {
    let of_device = format!("/sys/dev/block/{device}/queue/max_sectors_kb");
    let disk = format!("/sys/dev/block/{device}/../queue/max_sectors_kb");
    let text = fs::read_to_string(of_device).or_else(|_| fs::read_to_string(disk)).ok()?;
    Some(text.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stall(from_ms: u64, to_ms: u64) -> Stall {
        Stall { start_ns: from_ms * MS, end_ns: to_ms * MS, operations: [1, 0, 0, 0, 0, 0] }
    }

    fn quotas(seen: &[(u64, usize, u64)]) -> GroupWatch {
        let limit = GroupLimit { group: "/g".into(), setting: "cpu.max 1 2".into() };
        let group = |path: &str| QuotaGroup { path: path.into(), limit: Some(limit.clone()) };
        GroupWatch {
            quotas: seen
                .iter()
                .map(|&(ms, group, stopped_ms)| QuotaReading {
                    at_ns: ms * MS,
                    group,
                    throttled_ns: stopped_ms * MS,
                })
                .collect(),
            quota_groups: vec![group("/g"), group("/h")],
            ..GroupWatch::default()
        }
    }

    #[test]
    fn a_stall_counts_what_a_quota_took_between_the_readings_around_it() {
        let watch =
            quotas(&[(0, 0, 500), (100, 0, 500), (186, 0, 520), (192, 0, 580), (300, 0, 700)]);
        assert_eq!(watch.quota(&stall(105, 185)).0, 80 * MS);
        assert_eq!(watch.quota(&stall(110, 130)).0, 20 * MS, "at most the stall's length");
        assert_eq!(watch.quota(&stall(20, 90)).0, 0);
        assert_eq!(watch.quota_ns_total(), 200 * MS);
    }

    #[test]
    fn groups_are_not_mixed() {
        let watch = quotas(&[(0, 0, 500), (50, 1, 10_000), (100, 1, 10_010), (150, 0, 530)]);
        assert_eq!(watch.quota_ns_total(), 30 * MS);
    }

    #[test]
    fn nothing_is_known_without_readings() {
        assert_eq!(quotas(&[]).quota(&stall(0, 100)), (0, None));
        assert_eq!(GroupWatch::default().throttle(&stall(0, 100)), None);
    }
}
