"""One block device: kind, model, link, and its settings in the kernel.

Sources: the kernel's Documentation/ABI/stable/sysfs-block (files under ``queue/``),
Documentation/ABI/testing/sysfs-class-nvme and Documentation/scsi/scsi_mid_low_api.rst.

A RAID controller shows its array as one disk: neither its drives nor their links are visible.

Sources: the kernel's drivers/scsi/scsi_sysfs.c (``proc_name``); drivers/scsi/arcmsr/arcmsr_attr.c
(``host_fw_model``, ``host_fw_sdram_size`` in MiB); drivers/scsi/mpt3sas (``board_name``).

Source: the kernel's drivers/scsi/scsi_transport_sas.c (``negotiated_linkrate`` of a phy; a port is
named after the end or expander that it leads to and holds links to its phys).

Source: the kernel's Documentation/ABI/testing/sysfs-ata (``sata_spd`` and its siblings).

Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci (``current_link_speed`` and its
siblings); PCI Express Base Specification 6.0, section 4.2 (encodings) and 1.2 (lane rates).
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple

import msgspec

from seatrial.fingerprint import Controller, Device, PcieLink, PciePath, PciFunction
from seatrial.machine.fingerprint.layers import sectors_bytes, selected, with_layer
from seatrial.machine.fingerprint.privacy import short_hash
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.units import MIB

_HOST: Final = re.compile(r"/(host\d+)/")
_MODEL_FILES: Final = ("host_fw_model", "board_name", "model")

_RAID_DRIVERS: Final = frozenset(
    {
        "3w-9xxx",
        "3w-sas",
        "aacraid",
        "arcmsr",
        "hpsa",
        "ips",
        "megaraid",
        "megaraid_sas",
        "mpi3mr",
        "pmcraid",
        "smartpqi",
    }
)
"""Drivers of controllers that may show an array as one disk."""


def controller(tree: SystemTree, directory: str) -> Controller | None:
    """Return the SCSI host of a disk's sysfs directory; None if absent."""
    host = _HOST.search(directory + "/")
    if host is None:
        return None
    folder = f"/sys/class/scsi_host/{host[1]}"
    driver = tree.word(f"{folder}/proc_name")
    models = (tree.word(f"{folder}/{file}") for file in _MODEL_FILES)
    cache_mib = tree.integer(f"{folder}/host_fw_sdram_size")
    return Controller(
        name=host[1],
        driver=driver,
        model=next((model for model in models if model), None),
        hides_drives=driver in _RAID_DRIVERS,
        cache_bytes=cache_mib * MIB if cache_mib else None,
    )


def _number_before(tree: SystemTree, path: str, unit: str) -> float | None:
    """Return the number before a unit, such as ``8.0 GT/s PCIe``; None for ``Unknown``."""
    match = re.match(rf"([0-9.]+) {unit}", tree.text(path) or "")
    return float(match[1]) if match else None


_SAS_PORT: Final = re.compile(r"(.*/port-[0-9:]+)/end_device-")


class SasLink(NamedTuple):
    """The link of a disk behind a SAS controller; values are None if unknown.

    Attributes:
        lane_gb_s: Negotiated rate of one lane.
        lanes: Number of lanes to the disk.
    """

    lane_gb_s: float | None = None
    lanes: int | None = None


def sas_link(tree: SystemTree, directory: str) -> SasLink:
    """Return the link of a disk behind a SAS controller.

    Expanders share their own lanes among their disks; this is not considered.
    """
    port = _SAS_PORT.match(directory)
    if port is None:
        return SasLink()
    phys = [name for name in tree.names(port[1]) if name.startswith("phy-")]
    files = [f"/sys/class/sas_phy/{name}/negotiated_linkrate" for name in phys]
    rates = [rate for file in files if (rate := _number_before(tree, file, "Gbit")) is not None]
    # All lanes of a port negotiate the same rate.
    return SasLink(min(rates, default=None), len(rates) or None)


_SATA_PORT: Final = re.compile(r"/ata(\d+)/")


def sata_port(directory: str) -> str | None:
    """Return the number of the ATA port above a device's sysfs directory."""
    match = _SATA_PORT.search(directory)
    return match[1] if match else None


class SataLink(NamedTuple):
    """The speeds of a disk's SATA link; values are None if unknown.

    Attributes:
        now_gb_s: Current speed.
        limit_gb_s: The kernel's limit, which it lowers after errors.
        max_gb_s: Maximum of the controller's port.
    """

    now_gb_s: float | None = None
    limit_gb_s: float | None = None
    max_gb_s: float | None = None


def sata_link(tree: SystemTree, directory: str) -> SataLink:
    """Return the speeds of a disk's SATA link."""
    port = sata_port(directory)
    if port is None:
        return SataLink()
    folder = f"/sys/class/ata_link/link{port}"
    files = ("sata_spd", "sata_spd_limit", "hw_sata_spd_limit")
    return SataLink(*(_number_before(tree, f"{folder}/{file}", "Gbps") for file in files))


_ADDRESS: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_LANES_MAX: Final = 32
_BITS_PER_BYTE: Final = 8

# Share of the raw bits that carries data, by the highest lane rate in GT/s: 8b/10b, then
# 128b/130b, then flits of 256 bytes with 236 bytes of packets.
_ENCODINGS: Final = ((5.0, 8 / 10), (32.0, 128 / 130), (float("inf"), 236 / 256))


def pcie(tree: SystemTree, directory: str) -> PciePath | None:
    """Return the PCIe link of the device whose sysfs directory (links followed) is given.

    None where there is no PCI device.
    """
    functions = pci_functions(directory)
    if not functions:
        return None
    links = [_link(tree, function) for function in functions]
    known = [link for link in links if link.bandwidth_now_bytes_per_s is not None]
    narrowest = min(known, key=lambda link: link.bandwidth_now_bytes_per_s or 0.0, default=None)
    above = [PciFunction(address=link.address, ids=link.ids) for link in links[1:]]
    return PciePath(
        **msgspec.structs.asdict(links[0]),
        chain=links[1:],
        narrowest=narrowest,
        bridge=above[0] if above else None,
        root_port=above[-1] if above else None,
    )


def pci_functions(directory: str) -> list[str]:
    """Return the PCI devices above a sysfs directory, nearest first."""
    found: list[str] = []
    while directory not in {"/", ""}:
        if _ADDRESS.fullmatch(posixpath.basename(directory)):
            found.append(directory)
        directory = posixpath.dirname(directory)
    return found


def _link(tree: SystemTree, function: str) -> PcieLink:
    """Return one device's end of its link."""
    speed_now = _number_before(tree, f"{function}/current_link_speed", "GT/s")
    speed_max = _number_before(tree, f"{function}/max_link_speed", "GT/s")
    width_now = _width(tree, f"{function}/current_link_width")
    width_max = _width(tree, f"{function}/max_link_width")
    return PcieLink(
        address=posixpath.basename(function),
        ids=_ids(tree, function),
        speed_now_gt_s=speed_now,
        width_now=width_now,
        speed_max_gt_s=speed_max,
        width_max=width_max,
        bandwidth_now_bytes_per_s=bandwidth_bytes_per_s(speed_now, width_now),
        bandwidth_max_bytes_per_s=bandwidth_bytes_per_s(speed_max, width_max),
    )


def _ids(tree: SystemTree, function: str) -> str | None:
    """Return vendor and device of a PCI function; the kernel writes each as ``0x8086``."""
    numbers = [tree.word(f"{function}/{name}") for name in ("vendor", "device")]
    known = [number.removeprefix("0x") for number in numbers if number]
    return ":".join(known) if len(known) == len(numbers) else None


def bandwidth_bytes_per_s(speed_gt_s: float | None, width: int | None) -> int | None:
    """Return a link's bandwidth after encoding; None when speed or width is unknown."""
    if speed_gt_s is None or width is None:
        return None
    share = next(share for rate_max, share in _ENCODINGS if speed_gt_s <= rate_max)
    return round(speed_gt_s * 1e9 * share * width / _BITS_PER_BYTE)


def _width(tree: SystemTree, path: str) -> int | None:
    """Return lanes; the kernel writes 0 for a link that is down and 255 for an unknown width."""
    lanes = tree.integer(path)
    return lanes if lanes is not None and 0 < lanes <= _LANES_MAX else None


_KINDS_BY_NAME: Final = (
    ("loop", "loop"),
    ("zram", "zram"),
    ("md", "md"),
    ("dm-", "dm"),
    ("nvme", "nvme"),
    ("vd", "virtio"),
    ("xvd", "xen"),
    ("mmcblk", "mmc"),
    ("bcache", "bcache"),
    ("nbd", "nbd"),
    ("rbd", "rbd"),
    ("drbd", "drbd"),
    ("zd", "zvol"),
    ("pmem", "pmem"),
    ("nullb", "null_blk"),
    ("ram", "ram"),
)

_TRANSPORTS: Final = (
    (r"/usb\d+/", "usb"),
    (r"/ata\d+/", "sata"),
    (r"/end_device-", "sas"),
    (r"/rport-", "fc"),
    (r"/session\d+/", "iscsi"),
    (r"/virtio\d+/", "virtio"),
    (r"/vmbus|/VMBUS", "vmbus"),
    (r"/mmc_host/", "mmc"),
)

_PAGE_80_HEADER_BYTES: Final = 4


def directory_of(tree: SystemTree, number: str) -> str | None:
    """Return the sysfs directory, links followed, of the device ``major:minor``."""
    return tree.resolve(f"/sys/dev/block/{number}")


def kind_of(tree: SystemTree, directory: str) -> str:
    """Return the kind of device: ``partition``, ``loop``, ``md``, ``nvme``, ``disk`` ...

    ``disk`` is every disk behind the SCSI layer, including SATA and USB; see ``transport``.
    """
    if tree.exists(f"{directory}/partition"):
        return "partition"
    name = posixpath.basename(directory)
    for prefix, kind in _KINDS_BY_NAME:
        if name.startswith(prefix):
            return kind
    return "disk"


def disk_directory(tree: SystemTree, directory: str) -> str:
    """Return the directory of a partition's disk; else the same directory."""
    inside = tree.exists(f"{directory}/partition")
    return posixpath.dirname(directory) if inside else directory


def controllers(tree: SystemTree, directory: str) -> list[str]:
    """Return the directories of the NVMe controllers of a disk; empty for others.

    With native multipath (on for most drives since Linux 4.15) the disk is below a virtual
    subsystem, and only the controllers are below the PCI device.
    """
    device = tree.resolve(f"{directory}/device")
    if device is None:
        return []
    if re.fullmatch(r"nvme\d+", posixpath.basename(device)):
        return [device]
    paths = [name for name in tree.names(device) if re.fullmatch(r"nvme\d+", name)]
    found = [tree.resolve(f"{device}/{name}") for name in paths]
    return [path for path in found if path is not None]


def describe(tree: SystemTree, number: str, directory: str) -> Device:
    """Return one device of the stack, without its parents and children.

    A partition has no queue of its own.
    """
    kind = kind_of(tree, directory)
    control = controllers(tree, directory)
    # Links and NUMA node are reported for the whole disk only; "" is below no device.
    hardware = "" if kind == "partition" else (control or [directory])[0]
    serial = _serial(tree, directory)
    sata, sas = sata_link(tree, hardware), sas_link(tree, hardware)
    queue = f"{directory}/queue"
    schedulers = tree.text(f"{queue}/scheduler")
    device = Device(
        name=posixpath.basename(directory),
        kind=kind,
        major_minor=number,
        size_bytes=sectors_bytes(tree, f"{directory}/size"),
        read_only=tree.flag(f"{directory}/ro"),
        model=_model(tree, f"{directory}/device"),
        firmware=_firmware(tree, f"{directory}/device"),
        serial_hash=None if serial is None else short_hash(serial),
        transport=_transport(tree, hardware),
        controllers=[posixpath.basename(path) for path in control],
        rotational=tree.flag(f"{queue}/rotational"),
        scheduler=selected(schedulers),
        schedulers_available=[word.strip("[]") for word in (schedulers or "").split()],
        read_ahead_kib=tree.integer(f"{queue}/read_ahead_kb"),
        queue_requests=tree.integer(f"{queue}/nr_requests"),
        nr_hw_queues=len(tree.names(f"{directory}/mq")) or None,
        request_max_kib=tree.integer(f"{queue}/max_sectors_kb"),
        write_cache=tree.word(f"{queue}/write_cache"),
        fua=tree.flag(f"{queue}/fua"),
        discard_granularity_bytes=tree.integer(f"{queue}/discard_granularity"),
        logical_block_bytes=tree.integer(f"{queue}/logical_block_size"),
        physical_block_bytes=tree.integer(f"{queue}/physical_block_size"),
        optimal_io_bytes=tree.integer(f"{queue}/optimal_io_size"),
        writeback_throttle_us=tree.integer(f"{queue}/wbt_lat_usec"),
        polling=tree.flag(f"{queue}/io_poll"),
        numa_node=_numa_node(tree, hardware),
        pcie=pcie(tree, hardware),
        sata_link_gb_s=sata.now_gb_s,
        sata_link_limit_gb_s=sata.limit_gb_s,
        sata_link_max_gb_s=sata.max_gb_s,
        sas_link_gb_s=sas.lane_gb_s,
        sas_lanes=sas.lanes,
        controller=controller(tree, hardware),
        kernel_names=_kernel_names(tree, directory, control),
    )
    return with_layer(tree, directory, device)


def _model(tree: SystemTree, device: str) -> str | None:
    """Return vendor and model of a device."""
    vendor = tree.word(f"{device}/vendor") or ""
    model = tree.word(f"{device}/model") or tree.word(f"{device}/name")
    # A SCSI vendor is a name, "ATA" for every SATA disk; a PCI or virtio vendor is a number.
    if model and vendor and vendor != "ATA" and not vendor.startswith("0x"):
        return f"{vendor} {model}"
    return model


def _firmware(tree: SystemTree, device: str) -> str | None:
    found = [tree.word(f"{device}/{file}") for file in ("firmware_rev", "rev", "fwrev")]
    return next((text for text in found if text), None)


def unit_serial(tree: SystemTree, directory: str) -> str | None:
    """Return the serial number of a whole disk; None where the kernel reports none.

    Source: the kernel's Documentation/ABI: nvme and mmc ``device/serial``, virtio ``serial``, SCSI
    ``vpd_pg80`` (unit serial number, SPC-4 7.8.15).
    """
    device = f"{directory}/device"
    plain = tree.word(f"{device}/serial") or tree.word(f"{directory}/serial")
    if plain:
        return plain
    page = (tree.data(f"{device}/vpd_pg80") or b"")[_PAGE_80_HEADER_BYTES:]
    return page.decode(errors="replace").strip("\0 ") or None


def _serial(tree: SystemTree, directory: str) -> str | None:
    """Return the serial number if known, else the world-wide name."""
    serial = unit_serial(tree, directory)
    return serial or tree.word(f"{directory}/device/wwid") or tree.word(f"{directory}/wwid")


def _transport(tree: SystemTree, directory: str) -> str | None:
    """Return how the device is attached: ``pcie``, ``sata``, ``tcp``, ``virtio`` ..."""
    for pattern, transport in _TRANSPORTS:
        if re.search(pattern, directory + "/"):
            return transport
    return tree.word(f"{directory}/transport")


def _numa_node(tree: SystemTree, directory: str) -> int | None:
    """Return the NUMA node of the device's PCI slot; None where it has none."""
    functions = pci_functions(directory)
    node = tree.integer(f"{functions[0]}/numa_node") if functions else None
    return node if node is not None and node >= 0 else None


def _kernel_names(tree: SystemTree, directory: str, control: list[str]) -> list[str]:
    """Return the names of the device in kernel messages.

    Its own name, its controllers, its SCSI, MMC or virtio address, its ATA port, and its PCI device
    with the bridges above it.
    """
    names = [posixpath.basename(directory)]
    names += [posixpath.basename(path) for path in control]
    if tree.exists(f"{directory}/partition"):
        return names
    device = tree.resolve(f"{directory}/device")
    names += [posixpath.basename(device)] if device else []
    port = sata_port(directory)
    names += [f"ata{port}"] if port else []
    for path in control or [directory]:
        names += [posixpath.basename(function) for function in pci_functions(path)]
    return list(dict.fromkeys(names))
