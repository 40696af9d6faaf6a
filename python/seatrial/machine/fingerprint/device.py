"""One block device: what it is, who made it, how the kernel drives it.

Sources: the kernel's Documentation/ABI/stable/sysfs-block (files under ``queue/``),
Documentation/ABI/testing/sysfs-class-nvme and Documentation/scsi/scsi_mid_low_api.rst.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final

from seatrial.machine.fingerprint.controller import controller
from seatrial.machine.fingerprint.layers import layer, sectors_bytes, selected
from seatrial.machine.fingerprint.pcie import pci_functions, pcie
from seatrial.machine.fingerprint.privacy import short_hash
from seatrial.machine.fingerprint.sas import sas_link
from seatrial.machine.fingerprint.sata import sata_link, sata_port
from seatrial.machine.fingerprint.tree import SystemTree

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
    """Return what sort of device this is: ``partition``, ``loop``, ``md``, ``nvme``, ``disk`` ...

    ``disk`` is every disk behind the SCSI layer, SATA and USB among them: its ``transport`` says
    which.
    """
    if tree.exists(f"{directory}/partition"):
        return "partition"
    name = posixpath.basename(directory)
    for prefix, kind in _KINDS_BY_NAME:
        if name.startswith(prefix):
            return kind
    return "disk"


def disk_directory(tree: SystemTree, directory: str) -> str:
    """Return the directory of the whole disk that a partition lies on; else the same directory."""
    inside = tree.exists(f"{directory}/partition")
    return posixpath.dirname(directory) if inside else directory


def controllers(tree: SystemTree, directory: str) -> list[str]:
    """Return the directories of the NVMe controllers that lead to a disk; empty for others.

    With native multipath (on for most drives since Linux 4.15) the disk hangs under a virtual
    subsystem, and only the controllers know the PCI device.
    """
    device = tree.resolve(f"{directory}/device")
    if device is None:
        return []
    if re.fullmatch(r"nvme\d+", posixpath.basename(device)):
        return [device]
    paths = [name for name in tree.names(device) if re.fullmatch(r"nvme\d+", name)]
    found = [tree.resolve(f"{device}/{name}") for name in paths]
    return [path for path in found if path is not None]


def describe(tree: SystemTree, number: str, directory: str) -> dict[str, Any]:
    """Return one device of the stack, but for its place among the others.

    Sizes are in bytes, ``read_ahead_kib`` and ``request_max_kib`` in KiB, ``queue_requests`` and
    ``nr_hw_queues`` are counts. What cannot be read is None. A partition has no queue of its own.
    """
    kind = kind_of(tree, directory)
    control = controllers(tree, directory)
    # Links and NUMA node are told once, of the whole disk; "" lies below no device.
    hardware = "" if kind == "partition" else (control or [directory])[0]
    return {
        "name": posixpath.basename(directory),
        "kind": kind,
        "major_minor": number,
        "size_bytes": sectors_bytes(tree, f"{directory}/size"),
        "read_only": tree.flag(f"{directory}/ro"),
        **_identity(tree, directory),
        "transport": _transport(tree, hardware),
        "controllers": [posixpath.basename(path) for path in control],
        **_queue(tree, directory),
        "numa_node": _numa_node(tree, hardware),
        "pcie": pcie(tree, hardware),
        **sata_link(tree, hardware),
        **sas_link(tree, hardware),
        "controller": controller(tree, hardware),
        "kernel_names": _kernel_names(tree, directory, control),
        **layer(tree, directory, kind, number),
    }


def _identity(tree: SystemTree, directory: str) -> dict[str, Any]:
    """Return maker's data of a device; the serial number only as a hash."""
    device = f"{directory}/device"
    vendor = tree.word(f"{device}/vendor") or ""
    model = tree.word(f"{device}/model") or tree.word(f"{device}/name")
    # A SCSI vendor is a name, "ATA" for every SATA disk; a PCI or virtio vendor is a number.
    if model and vendor and vendor != "ATA" and not vendor.startswith("0x"):
        model = f"{vendor} {model}"
    firmware = [tree.word(f"{device}/{file}") for file in ("firmware_rev", "rev", "fwrev")]
    serial = _serial(tree, directory)
    return {
        "model": model,
        "firmware": next((text for text in firmware if text), None),
        "serial_hash": None if serial is None else short_hash(serial),
    }


def unit_serial(tree: SystemTree, directory: str) -> str | None:
    """Return the serial number of a whole disk; None where the kernel tells none.

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
    """Return the serial number where any file tells it, else the world-wide name."""
    serial = unit_serial(tree, directory)
    return serial or tree.word(f"{directory}/device/wwid") or tree.word(f"{directory}/wwid")


def _transport(tree: SystemTree, directory: str) -> str | None:
    """Return over what the device is reached: ``pcie``, ``sata``, ``tcp``, ``virtio`` ..."""
    for pattern, transport in _TRANSPORTS:
        if re.search(pattern, directory + "/"):
            return transport
    return tree.word(f"{directory}/transport")


def _queue(tree: SystemTree, directory: str) -> dict[str, Any]:
    """Return how the kernel drives the device: the files under ``queue/``."""
    queue = f"{directory}/queue"
    schedulers = tree.text(f"{queue}/scheduler")
    return {
        "rotational": tree.flag(f"{queue}/rotational"),
        "scheduler": selected(schedulers),
        "schedulers_available": [word.strip("[]") for word in (schedulers or "").split()],
        "read_ahead_kib": tree.integer(f"{queue}/read_ahead_kb"),
        "queue_requests": tree.integer(f"{queue}/nr_requests"),
        "nr_hw_queues": len(tree.names(f"{directory}/mq")) or None,
        "request_max_kib": tree.integer(f"{queue}/max_sectors_kb"),
        "write_cache": tree.word(f"{queue}/write_cache"),
        "fua": tree.flag(f"{queue}/fua"),
        "discard_granularity_bytes": tree.integer(f"{queue}/discard_granularity"),
        "logical_block_bytes": tree.integer(f"{queue}/logical_block_size"),
        "physical_block_bytes": tree.integer(f"{queue}/physical_block_size"),
        "optimal_io_bytes": tree.integer(f"{queue}/optimal_io_size"),
        "writeback_throttle_us": tree.integer(f"{queue}/wbt_lat_usec"),
        "polling": tree.flag(f"{queue}/io_poll"),
    }


def _numa_node(tree: SystemTree, directory: str) -> int | None:
    """Return the NUMA node that the device's PCI slot belongs to; None where it has none."""
    functions = pci_functions(directory)
    node = tree.integer(f"{functions[0]}/numa_node") if functions else None
    return node if node is not None and node >= 0 else None


def _kernel_names(tree: SystemTree, directory: str, control: list[str]) -> list[str]:
    """Return the words by which kernel messages name the device.

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
