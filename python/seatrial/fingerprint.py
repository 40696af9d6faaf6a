"""The fingerprint of machine and target, as the results file keeps it and every room reads it.

``seatrial.machine.fingerprint`` takes it. What cannot be read is None; so is what a results file of
an older version does not have. Docstrings say what a name and its unit leave open.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class FingerprintPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the fingerprint."""

    def facts(self) -> dict[str, object]:
        """Return all of it as nested mappings and lists, what is not known as None."""
        named = msgspec.structs.asdict(self).items()
        return {name: msgspec.to_builtins(value) for name, value in named}


class SparsePart(FingerprintPart, frozen=True, kw_only=True, omit_defaults=True):
    """A part of which only what is known is stored."""


class Pressure(FingerprintPart, frozen=True, kw_only=True):
    """Share of the last 10 s in which some (or all, ``full``) tasks waited; None if unknown."""

    cpu_some_avg10_percent: float | None = None
    io_some_avg10_percent: float | None = None
    io_full_avg10_percent: float | None = None
    memory_some_avg10_percent: float | None = None


class Cgroup(FingerprintPart, frozen=True, kw_only=True):
    """The narrowest limits of all control groups from our own up to the root.

    Attributes:
        cpu_limit_cpus: Processors' worth of time.
        memory_limit_bytes: The page cache counts.
        io_limits: By device ``major:minor`` those of ``read_bytes_per_s``, ``write_bytes_per_s``,
            ``reads_per_s`` and ``writes_per_s`` that are set.
    """

    cpu_limit_cpus: float | None = None
    memory_limit_bytes: int | None = None
    io_limits: Mapping[str, Mapping[str, int]] = {}


class Machine(FingerprintPart, frozen=True, kw_only=True):
    """What the measurement runs on.

    Attributes:
        product: The machine's make, or in a cloud the instance type.
        virtualisation: The hypervisor, or ``none``.
        container: The kind of container, or ``none``.
        lab: The lab's kernel that it runs in, if it does.
        memory_copy_bytes_per_s: What one thread copies.
    """

    cpu_model: str | None = None
    cpus_online: int | None = None
    cpus_usable: int | None = None
    numa_nodes: int | None = None
    product: str | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    kernel: str | None = None
    distribution: str | None = None
    clock_source: str | None = None
    clock_sources_available: list[str] = []
    virtualisation: str | None = None
    container: str | None = None
    lab: str | None = None
    cpu_governor: str | None = None
    cpu_boost: bool | None = None
    cpu_idle_driver: str | None = None
    pcie_power_policy: str | None = None
    nvme_power_state_latency_us_max: int | None = None
    dirty_background_percent: int | None = None
    dirty_background_bytes: int | None = None
    dirty_limit_percent: int | None = None
    dirty_limit_bytes: int | None = None
    transparent_huge_pages: str | None = None
    io_uring_disabled: int | None = None
    cgroup: Cgroup = Cgroup()
    load_average_1m: float | None = None
    pressure: Pressure = Pressure()
    memory_copy_bytes_per_s: float | None = None


class PciFunction(FingerprintPart, frozen=True, kw_only=True):
    """A PCI device; ``ids`` are vendor and device as lspci -n has them, such as ``8086:a340``."""

    address: str | None = None
    ids: str | None = None


class PcieLink(PciFunction, frozen=True, kw_only=True):
    """One device's end of a PCIe link.

    Attributes:
        speed_now_gt_s: Per lane.
        width_now: In lanes.
        speed_max_gt_s: Per lane.
        width_max: In lanes.
        bandwidth_now_bytes_per_s: After encoding, before packet headers.
        bandwidth_max_bytes_per_s: Likewise.
    """

    speed_now_gt_s: float | None = None
    width_now: int | None = None
    speed_max_gt_s: float | None = None
    width_max: int | None = None
    bandwidth_now_bytes_per_s: float | None = None
    bandwidth_max_bytes_per_s: float | None = None


class PciePath(PcieLink, frozen=True, kw_only=True):
    """A device's PCIe link, and each link between it and the processor.

    Attributes:
        chain: The link of each bridge upstream, nearest first.
        narrowest: The link with the least bandwidth at present, among equals the nearest to the
            device; None where no link reports its speed, as in many virtual machines.
        bridge: The one just above the device; None if there is none.
        root_port: The last one: a port of the processor or of the chipset, by its ids.
        declared: Whether the user declared it.
    """

    chain: list[PcieLink] = []
    narrowest: PcieLink | None = None
    bridge: PciFunction | None = None
    root_port: PciFunction | None = None
    declared: bool | None = None


class Controller(FingerprintPart, frozen=True, kw_only=True):
    """The SCSI host of a disk.

    Attributes:
        name: ``host0``.
        hides_drives: Whether the disk may be an array that the controller shows as one.
        cache_bytes: Its memory; None where it reports none.
        declared: Whether the user declared it.
    """

    name: str | None = None
    driver: str | None = None
    model: str | None = None
    hides_drives: bool | None = None
    cache_bytes: int | None = None
    declared: bool | None = None


class MdMember(FingerprintPart, frozen=True, kw_only=True):
    """A member of a software array; ``errors`` were corrected."""

    name: str | None = None
    state: str | None = None
    slot: str | None = None
    errors: int | None = None


class Md(FingerprintPart, frozen=True, kw_only=True):
    """A software array; ``degraded`` is the number of members that are missing."""

    level: str | None = None
    raid_disks: int | None = None
    chunk_bytes: int | None = None
    array_state: str | None = None
    degraded: int | None = None
    sync_action: str | None = None
    consistency_policy: str | None = None
    bitmap: str | None = None
    stripe_cache_pages: int | None = None
    members: list[MdMember] = []


class DmTarget(SparsePart, frozen=True, kw_only=True):
    """One line of a device-mapper table; ``stripes`` and ``chunk_bytes`` where it is striped."""

    type: str | None = None
    length_bytes: int | None = None
    stripes: int | None = None
    chunk_bytes: int | None = None


class Dm(FingerprintPart, frozen=True, kw_only=True):
    """A device-mapper device.

    Attributes:
        name: Name of the volume.
        subsystem: Who made it: ``LVM``, ``CRYPT`` ...
        targets: Its table; None if that is not readable.
        not_readable: Why not, else empty.
    """

    name: str | None = None
    subsystem: str | None = None
    targets: list[DmTarget] | None = None
    not_readable: str = ""


class Mount(FingerprintPart, frozen=True, kw_only=True):
    """A mounted file system, without names of machines or serial numbers."""

    type: str | None = None
    mount_point: str | None = None
    mount_options: list[str] = []
    source: str | None = None


class Loop(FingerprintPart, frozen=True, kw_only=True):
    """What a loop device is laid on; a file since deleted keeps its name with a note.

    Attributes:
        filesystem: The one that holds the file; None where it is a device.
    """

    backing_file: str | None = None
    direct_io: bool | None = None
    offset_bytes: int | None = None
    filesystem: Mount | None = None


class Zram(FingerprintPart, frozen=True, kw_only=True):
    """A disk in compressed memory."""

    algorithm: str | None = None


class Partition(FingerprintPart, frozen=True, kw_only=True):
    """Where a partition begins on its disk."""

    start_bytes: int | None = None


class Device(FingerprintPart, frozen=True, kw_only=True):
    """One block device of a stack.

    Attributes:
        kind: ``partition``, ``loop``, ``md``, ``dm``, ``nvme``, ``disk`` ...
        serial_hash: Hash of the serial number.
        transport: Over what it is reached: ``pcie``, ``sata``, ``tcp``, ``virtio`` ...
        controllers: Controllers of NVMe, by name.
        sata_link_limit_gb_s: To which the kernel holds the link: it lowers it after errors.
        sata_link_max_gb_s: Maximum of the controller's port.
        sas_link_gb_s: Bandwidth of one lane.
        sas_lanes: How many lanes lead to the disk.
        link_bytes_per_s: Bandwidth of another link, declared by the user.
        kernel_names: Its names in kernel messages.
        md: Attributes of a software array; likewise ``dm``, ``loop``, ``zram`` and ``partition``.
        error_counts: Counters of driver and link that it keeps, and ``in_flight``: requests now.
        medium_hash: Identifies the medium.
        children: The devices directly under it; a physical one has none.
        parents: Those of the stack directly above it.
        declared: Whether the user declared it.
    """

    name: str = ""
    kind: str | None = None
    major_minor: str | None = None
    size_bytes: int | None = None
    read_only: bool | None = None
    model: str | None = None
    firmware: str | None = None
    serial_hash: str | None = None
    transport: str | None = None
    controllers: list[str] = []
    rotational: bool | None = None
    scheduler: str | None = None
    schedulers_available: list[str] = []
    read_ahead_kib: int | None = None
    queue_requests: int | None = None
    nr_hw_queues: int | None = None
    request_max_kib: int | None = None
    write_cache: str | None = None
    fua: bool | None = None
    discard_granularity_bytes: int | None = None
    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    optimal_io_bytes: int | None = None
    writeback_throttle_us: int | None = None
    polling: bool | None = None
    numa_node: int | None = None
    pcie: PciePath | None = None
    sata_link_gb_s: float | None = None
    sata_link_limit_gb_s: float | None = None
    sata_link_max_gb_s: float | None = None
    sas_link_gb_s: float | None = None
    sas_lanes: int | None = None
    link_bytes_per_s: float | None = None
    controller: Controller | None = None
    kernel_names: list[str] = []
    md: Md | None = None
    dm: Dm | None = None
    loop: Loop | None = None
    zram: Zram | None = None
    partition: Partition | None = None
    error_counts: Mapping[str, int] = {}
    medium_hash: str | None = None
    children: list[str] = []
    parents: list[str] = []
    declared: bool | None = None


class Btrfs(FingerprintPart, frozen=True, kw_only=True):
    """How a btrfs lays out data and metadata: ``single``, ``raid1``; two while it is converted."""

    data_profiles: list[str] = []
    metadata_profiles: list[str] = []


class Filesystem(Mount, frozen=True, kw_only=True):
    """The file system that a target lies on; ``free_bytes`` are those for an ordinary user."""

    size_bytes: int | None = None
    free_bytes: int | None = None
    block_size_bytes: int | None = None
    error_counts: Mapping[str, int] = {}
    btrfs: Btrfs | None = None


class Users(FingerprintPart, frozen=True, kw_only=True):
    """What else is laid on the disks of a target: file systems, its own among them, and swap."""

    mount_points: list[str] = []
    swap: list[str] = []


class Target(FingerprintPart, frozen=True, kw_only=True):
    """What lies under a path.

    Attributes:
        kind: ``file``, ``directory``, ``device``, or ``absent`` when it is still to be made.
        filesystem: None under a device.
        logical_block_bytes: Logical block size of the topmost device.
        physical_block_bytes: Likewise.
        stack: Every device from the topmost down, each once.
        no_device_because: A phrase; empty if there is a stack.
        users: Users of the same disks.
    """

    path: str | None = None
    kind: str | None = None
    filesystem: Filesystem | None = None
    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    stack: list[Device] = []
    no_device_because: str = ""
    users: Users = Users()

    @property
    def physical_devices(self) -> list[Device]:
        """The devices without others under them, as far as visible on this machine."""
        return [device for device in self.stack if not device.children]


Smart = Mapping[str, bool | int | float]
"""Figures of a drive by name, which ends in their unit."""


class Temperatures(FingerprintPart, frozen=True, kw_only=True):
    """What a drive's sensors say.

    Attributes:
        temperature_c: The drive's own composite.
        temperature_warning_c: Where it slows down; None if it does not say.
        temperature_critical_c: Where it stops.
        sensors: Degrees Celsius by label.
    """

    temperature_c: float | None = None
    temperature_warning_c: float | None = None
    temperature_critical_c: float | None = None
    sensors: Mapping[str, float | None] = {}


class Health(Temperatures, frozen=True, kw_only=True):
    """Health and temperature of one physical device.

    Attributes:
        smart: Those figures that the drive keeps; None where no tool could read them.
        tools: Those that read them.
        state: State of an NVMe controller: ``live``, ``resetting``.
        not_readable: Phrases: what, and why not ("SMART: smartctl requires root").
    """

    smart: Smart | None = None
    tools: list[str] = []
    state: str | None = None
    not_readable: list[str] = []


class LogMark(FingerprintPart, frozen=True, kw_only=True):
    """Where the kernel log ends.

    Attributes:
        sequence: Sequence number of the last message; None where the log may not be read.
        not_readable: Why not, else empty.
    """

    sequence: int | None = None
    not_readable: str = ""


class LogLine(FingerprintPart, frozen=True, kw_only=True):
    """A message of the kernel; ``at_s`` since the start of the machine."""

    at_s: float | None = None
    level: str | None = None
    kind: str | None = None
    text: str | None = None


class KernelLog(FingerprintPart, frozen=True, kw_only=True):
    """What the kernel logged of a target's devices while a run went on.

    Attributes:
        count: Number of such lines.
        by_kind: Their number by kind: ``io_error``, ``time_out``, ``reset``, ``link``,
            ``thermal``, ``hung_task``, ``rebuild``, ``failure``.
        lines: The first 50.
        missed: Messages that the kernel dropped before we read them.
        source: ``kmsg``, ``journal`` or None.
        not_readable: Why not, else empty.
    """

    count: int = 0
    by_kind: Mapping[str, int] = {}
    lines: list[LogLine] = []
    missed: int = 0
    source: str | None = None
    not_readable: str = ""


class TimeOfFingerprint(FingerprintPart, frozen=True, kw_only=True):
    """When a fingerprint was taken; ``boot_hash`` identifies the boot."""

    unix_s: float | None = None
    boot_hash: str | None = None


class Version(FingerprintPart, frozen=True, kw_only=True):
    """Which Seatrial measured; a ``commit`` that ends in ``-dirty`` was changed since."""

    version: str | None = None
    commit: str | None = None


class Fingerprint(SparsePart, frozen=True, kw_only=True):
    """Machine and target before a run.

    Attributes:
        fingerprint_version: Goes up when a key changes its meaning.
        target: The first one; None without a path.
        health: Health of its physical devices, by name.
        other_targets: The other ones, by label.
    """

    fingerprint_version: int | None = None
    taken: TimeOfFingerprint = TimeOfFingerprint()
    machine: Machine = Machine()
    target: Target | None = None
    health: Mapping[str, Health] = {}
    kernel_log: LogMark = LogMark()
    seatrial: Version = Version()
    other_targets: Mapping[str, Target] = {}

    @property
    def is_taken(self) -> bool:
        """Whether anything is known: an imported result comes without a fingerprint."""
        return self != Fingerprint()

    @property
    def stack(self) -> list[Device]:
        """Every device under the target, top first."""
        return self.target.stack if self.target else []

    @property
    def physical_devices(self) -> list[Device]:
        """The devices under the target that are laid on no other."""
        return self.target.physical_devices if self.target else []

    @property
    def filesystem(self) -> Filesystem | None:
        """The file system that the target lies on."""
        return self.target.filesystem if self.target else None

    def target_of(self, label: str) -> Target | None:
        """Return what is known of a target: of another by its label, else of the first one."""
        return self.other_targets.get(label, self.target)

    def seen_by(self, target: Target | None) -> Fingerprint:
        """Return the fingerprint with another target in place of the first."""
        return msgspec.structs.replace(self, target=target)


class OtherRun(FingerprintPart, frozen=True, kw_only=True):
    """Another run of Seatrial on the same media.

    Attributes:
        pid: Its process.
        command: Its command line, without secrets.
        since_unix_s: When it began to use them.
    """

    pid: int | None = None
    command: str = ""
    since_unix_s: float | None = None


class OtherProcess(FingerprintPart, frozen=True, kw_only=True):
    """A program that moved much while cells were measured.

    Attributes:
        name: Name of the program.
        read_bytes: What its processes read.
        write_bytes: What they wrote.
    """

    name: str = ""
    read_bytes: int = 0
    write_bytes: int = 0


class FingerprintAfter(SparsePart, frozen=True, kw_only=True):
    """What a run did to machine and target.

    Attributes:
        restarted: Whether the machine was started again since: then the kernel log is that of this
            start only.
        error_counts: Error counts of each device by name.
        changed: The key paths of the fingerprint that differ now.
        changed_values: Old and new value of each.
        other_runs: Those on the same media.
        other_processes: Those that moved most while cells were measured.
    """

    fingerprint_version: int | None = None
    taken: TimeOfFingerprint = TimeOfFingerprint()
    restarted: bool | None = None
    health: Mapping[str, Health] = {}
    kernel_log: KernelLog = KernelLog()
    error_counts: Mapping[str, Mapping[str, int]] = {}
    filesystem_error_counts: Mapping[str, int] = {}
    error_counts_before: Mapping[str, Mapping[str, int]] = {}
    filesystem_error_counts_before: Mapping[str, int] = {}
    free_bytes: int | None = None
    load_average_1m: float | None = None
    pressure: Pressure = Pressure()
    changed: list[str] = []
    changed_values: Mapping[str, tuple[object, object]] = {}
    other_runs: list[OtherRun] = []
    other_processes: list[OtherProcess] = []

    @property
    def is_taken(self) -> bool:
        """Whether anything is known: after a kill nothing is."""
        return self != FingerprintAfter()
