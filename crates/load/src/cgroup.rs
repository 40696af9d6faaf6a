//! Limits that control groups set on the load's requests and processor time.
//!
//! Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (`io.max`, `cpu.stat`),
//! cgroup-v1/blkio-controller.rst (`blkio.throttle.*`) and scheduler/sched-bwc.rst (`cpu.stat`).

use std::fs;
use std::path::{Path, PathBuf};

use seatrial_gauge::GroupLimit;

/// Limit for the depth of a control group; deeper ones are not looked at.
const DEPTH_MAX: usize = 32;

/// Limit for the number of devices below a device.
const DEVICES_MAX: usize = 64;

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Bytes per second.
    Bytes,
    /// Requests per second.
    Requests,
}

/// The requests that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that read.
    Read,
    /// Those that write.
    Write,
}

/// A limit on the requests of a control group to one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoLimit {
    /// Where it is set, and how.
    pub limit: GroupLimit,
    /// Its unit.
    pub unit: LimitUnit,
    /// The requests that it limits.
    pub direction: Direction,
    /// How much passes in a second; at least 1.
    pub per_s: u64,
}

/// The limits of version 1 by file, of version 2 by key of `io.max`.
const IO_LIMITS: [(&str, &str, LimitUnit, Direction); 4] = [
    ("blkio.throttle.read_bps_device", "rbps", LimitUnit::Bytes, Direction::Read),
    ("blkio.throttle.write_bps_device", "wbps", LimitUnit::Bytes, Direction::Write),
    ("blkio.throttle.read_iops_device", "riops", LimitUnit::Requests, Direction::Read),
    ("blkio.throttle.write_iops_device", "wiops", LimitUnit::Requests, Direction::Write),
];

/// The mounted hierarchies in which this process is limited.
#[derive(Clone, Debug, Default)]
pub struct Hierarchies {
    /// Mount point and the names of its controllers; version 2 has none.
    mounted: Vec<(PathBuf, Vec<String>)>,
}

/// The total time for which a control group's quota stopped its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaReading {
    /// The group's folder.
    pub group: PathBuf,
    /// How long runnable threads were stopped, summed over processors.
    pub throttled_ns: u64,
}

impl Hierarchies {
    /// Those that are mounted now.
    pub fn read() -> Hierarchies {
        Hierarchies::parse(&fs::read_to_string("/proc/self/mounts").unwrap_or_default())
    }

    fn parse(mounts: &str) -> Hierarchies {
        let mounted = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let controllers = match kind {
                "cgroup" => options.split(',').map(str::to_owned).collect(),
                "cgroup2" => Vec::new(),
                _ => return None,
            };
            Some((PathBuf::from(point), controllers))
        });
        Hierarchies { mounted: mounted.collect() }
    }

    /// The folders of the groups that this process is in, from its own up to the root, of the
    /// hierarchies that have the controller: version 1 by its name, version 2 always.
    pub fn groups(&self, controller: &str) -> Vec<PathBuf> {
        let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        self.groups_of(&memberships, controller)
    }

    fn groups_of(&self, memberships: &str, controller: &str) -> Vec<PathBuf> {
        let mut groups = Vec::new();
        for line in memberships.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            if !controllers.is_empty() && !controllers.split(',').any(|name| name == controller) {
                continue;
            }
            for (point, mounted) in &self.mounted {
                let is_same = match controllers {
                    "" => mounted.is_empty(),
                    _ => mounted.iter().any(|name| name == controller),
                };
                if is_same {
                    groups.extend(upwards(point, path));
                }
            }
        }
        groups
    }

    /// The limits on requests of this process to any of the devices, its own group's first.
    pub fn io_limits(&self, devices: &[String]) -> Vec<IoLimit> {
        let groups = self.groups("blkio");
        groups.iter().flat_map(|group| io_limits_of(group, devices)).collect()
    }

    /// The stopped time of the groups of this process, its own group first; only those with
    /// a quota.
    pub fn quota_readings(&self) -> Vec<QuotaReading> {
        let groups = self.groups("cpu").into_iter();
        groups.filter_map(quota_reading).collect()
    }
}

/// The setting of a group's quota: the file and its content; `None` without a quota.
pub fn quota_limit(group: &Path) -> Option<GroupLimit> {
    let text = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    let max = text("cpu.max");
    let quota = text("cpu.cfs_quota_us");
    let setting = match (max.trim(), quota.trim()) {
        ("", "" | "-1") => return None,
        ("", quota) => {
            format!(
                "cpu.cfs_quota_us {quota} of cpu.cfs_period_us {}",
                text("cpu.cfs_period_us").trim()
            )
        }
        (max, _) if max.starts_with("max") => return None,
        (max, _) => format!("cpu.max {max}"),
    };
    Some(GroupLimit { group: group.display().to_string(), setting })
}

/// Returns a device and all devices below it: the disk of a partition, the members of an array.
///
/// Source: Documentation/ABI/testing/sysfs-block (`slaves`), and the layout of /sys/dev/block.
pub fn devices_below(device: &str) -> Vec<String> {
    let mut found = vec![device.to_owned()];
    let mut next = 0;
    while next < found.len() && found.len() < DEVICES_MAX {
        let folder = Path::new("/sys/dev/block").join(&found[next]);
        next += 1;
        let slaves = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        let mut below: Vec<PathBuf> = slaves.map(|slave| slave.path()).collect();
        if folder.join("partition").exists() {
            below.push(folder.join(".."));
        }
        for path in below {
            let number = fs::read_to_string(path.join("dev")).unwrap_or_default().trim().to_owned();
            if !number.is_empty() && !found.contains(&number) {
                found.push(number);
            }
        }
    }
    found
}

/// The folder of a group and of each above it, as far as they are visible: in a container the path
/// may be the host's, of which only the end is mounted.
fn upwards(point: &Path, path: &str) -> Vec<PathBuf> {
    let folder = point.join(path.trim_start_matches('/'));
    let below = folder.ancestors().take(DEPTH_MAX).take_while(|above| *above != point);
    let visible = below.filter(|folder| folder.is_dir()).map(Path::to_path_buf);
    visible.chain([point.to_path_buf()]).collect()
}

fn io_limits_of(group: &Path, devices: &[String]) -> Vec<IoLimit> {
    let mut limits = Vec::new();
    for (file, key, unit, direction) in IO_LIMITS {
        let found = limit_of(group, file, devices).or_else(|| max_of(group, key, devices));
        if let Some((setting, per_s)) = found {
            let limit = GroupLimit { group: group.display().to_string(), setting };
            limits.push(IoLimit { limit, unit, direction, per_s: per_s.max(1) });
        }
    }
    limits
}

/// A line `major:minor value` of a file of version 1.
fn limit_of(group: &Path, file: &str, devices: &[String]) -> Option<(String, u64)> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.lines().find_map(|line| {
        let (device, value) = line.split_once(' ')?;
        let is_ours = devices.iter().any(|name| name == device);
        Some((format!("{file} {line}"), value.trim().parse().ok().filter(|_| is_ours)?))
    })
}

/// A line `major:minor rbps=max wbps=1048576 ...` of `io.max`.
fn max_of(group: &Path, key: &str, devices: &[String]) -> Option<(String, u64)> {
    let text = fs::read_to_string(group.join("io.max")).ok()?;
    text.lines().find_map(|line| {
        let (device, settings) = line.split_once(' ')?;
        let setting = settings.split(' ').find(|setting| setting.starts_with(key))?;
        let value = setting.strip_prefix(key)?.strip_prefix('=')?.parse().ok()?;
        let is_ours = devices.iter().any(|name| name == device);
        is_ours.then(|| (format!("io.max {device} {setting}"), value))
    })
}

/// `throttled_time` in ns (version 1) or `throttled_usec` (version 2); `None` without a quota.
fn quota_reading(group: PathBuf) -> Option<QuotaReading> {
    let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
    let throttled_ns = stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", ns) => ns.parse::<u64>().ok(),
        ("throttled_usec", us) => Some(us.parse::<u64>().ok()? * 1_000),
        _ => None,
    })?;
    Some(QuotaReading { group, throttled_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory instead of a cgroup, removed at the end.
    struct Group(PathBuf);

    impl Group {
        fn make(name: &str) -> Group {
            let path = std::env::temp_dir().join(format!("seatrial-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Group(path)
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.0.join(file), text).unwrap();
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const MOUNTS: &str = "\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /v1/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /v1/blkio cgroup rw,blkio 0 0
cgroup2 /v2 cgroup2 rw,nsdelegate 0 0
";

    #[test]
    fn a_controller_is_found_in_either_version() {
        let hierarchies = Hierarchies::parse(MOUNTS);
        let memberships = "7:blkio:/a/b\n4:cpu,cpuacct:/\n0::/c\n";
        let groups = |controller| hierarchies.groups_of(memberships, controller);
        // Of groups that are not visible only the mounted top remains.
        assert_eq!(groups("blkio"), [PathBuf::from("/v1/blkio"), PathBuf::from("/v2")]);
        assert_eq!(groups("cpu"), [PathBuf::from("/v1/cpu,cpuacct"), PathBuf::from("/v2")]);
    }

    #[test]
    fn limits_of_both_versions_are_read_for_our_devices_alone() {
        let group = Group::make("limits");
        group.write("blkio.throttle.write_bps_device", "8:0 1048576\n7:1 5\n");
        group.write(
            "io.max",
            "7:1 rbps=7 wbps=max riops=9 wiops=max\n8:16 rbps=1 wbps=1 riops=1 wiops=1\n",
        );
        let limits = io_limits_of(&group.0, &["7:1".to_owned()]);
        let seen: Vec<_> =
            limits.iter().map(|one| (one.limit.setting.as_str(), one.per_s)).collect();
        assert_eq!(
            seen,
            [
                ("io.max 7:1 rbps=7", 7),
                ("blkio.throttle.write_bps_device 7:1 5", 5),
                ("io.max 7:1 riops=9", 9),
            ]
        );
        assert!(io_limits_of(&group.0, &["259:0".to_owned()]).is_empty());
    }

    #[test]
    fn the_time_that_a_quota_took_is_read_in_ns() {
        let group = Group::make("quota");
        assert_eq!(quota_reading(group.0.clone()), None);
        let stat = |text: &str| {
            group.write("cpu.stat", text);
            quota_reading(group.0.clone()).map(|reading| reading.throttled_ns)
        };
        assert_eq!(stat("nr_periods 9\nnr_throttled 2\nthrottled_time 1500\n"), Some(1_500));
        assert_eq!(stat("usage_usec 1\nnr_throttled 2\nthrottled_usec 3\n"), Some(3_000));
        assert_eq!(stat("usage_usec 1\n"), None);
    }

    #[test]
    fn a_quota_that_is_lifted_is_none() {
        let group = Group::make("setting");
        let setting = || quota_limit(&group.0).map(|limit| limit.setting);
        assert_eq!(setting(), None);
        group.write("cpu.cfs_period_us", "100000\n");
        group.write("cpu.cfs_quota_us", "-1\n");
        assert_eq!(setting(), None);
        group.write("cpu.cfs_quota_us", "20000\n");
        let version_1 = "cpu.cfs_quota_us 20000 of cpu.cfs_period_us 100000";
        assert_eq!(setting().as_deref(), Some(version_1));
        group.write("cpu.max", "max 100000\n");
        assert_eq!(setting(), None);
        group.write("cpu.max", "5000 100000\n");
        assert_eq!(setting().as_deref(), Some("cpu.max 5000 100000"));
    }

    #[test]
    fn a_device_without_anything_below_is_alone() {
        assert_eq!(devices_below("999:999"), ["999:999"]);
    }
}
