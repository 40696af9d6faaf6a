"""Block devices as sysfs shows them: relatives, holders, names and serial numbers."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.machine.fingerprint.device import disk_directory, unit_serial
from seatrial.machine.fingerprint.layers import sectors_bytes
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_DM_MAKERS = {"LVM": "LVM volume", "CRYPT": "encrypted volume", "mpath": "multipath device"}


@dataclass(frozen=True, kw_only=True)
class BlockNode:
    """One block device in sysfs.

    Attributes:
        number: ``major:minor``.
        directory: Its directory in sysfs; does not exist where sysfs is not mounted.
        tree: The machine.
    """

    number: str
    directory: str
    tree: SystemTree

    @property
    def name(self) -> str:
        """Name in the kernel, such as ``sda1`` or ``dm-0``."""
        return posixpath.basename(self.directory)

    @property
    def is_read_only(self) -> bool:
        """Whether the kernel refuses writes to it."""
        return self.tree.flag(f"{self.directory}/ro") is True

    def size_bytes(self) -> int:
        """Return its size (bytes); 0 without a medium or where sysfs is not mounted."""
        return sectors_bytes(self.tree, f"{self.directory}/size") or 0

    def disk(self) -> BlockNode:
        """Return the whole disk that it is or is a part of."""
        return self._at(disk_directory(self.tree, self.directory))

    def partitions(self) -> list[BlockNode]:
        """Return its partitions, in order of their names."""
        inner = [f"{self.directory}/{name}" for name in self.tree.names(self.directory)]
        return [self._at(path) for path in inner if self.tree.exists(f"{path}/partition")]

    def holders(self) -> list[BlockNode]:
        """Return the md, dm and bcache devices that are built on it."""
        names = self.tree.names(f"{self.directory}/holders")
        found = (node_by_name(name, self.tree) for name in names)
        return [node for node in found if node is not None]

    def relatives(self) -> list[BlockNode]:
        """Return all devices whose bytes overlap: itself, its disk and its partitions."""
        disk = self.disk()
        return [self, *([disk] if disk != self else []), *self.partitions()]

    def kind_text(self) -> str:
        """Return how it was built, such as ``md raid1`` or ``LVM volume vg-data``."""
        mapped = self.tree.word(f"{self.directory}/dm/name")
        if mapped:
            maker = (self.tree.text(f"{self.directory}/dm/uuid") or "").partition("-")[0]
            return f"{_DM_MAKERS.get(maker, 'device-mapper volume')} {mapped}"
        level = self.tree.word(f"{self.directory}/md/level")
        if level:
            return f"md {level}"
        return "bcache" if self.name.startswith("bcache") else "a device built on it"

    def serial(self) -> str:
        """Return the serial number of its disk, else its world-wide or mapper name; else empty."""
        return next((name for name in _persistent_names(self.disk()) if name), "")

    def _at(self, directory: str) -> BlockNode:
        if directory == self.directory:
            return self
        number = self.tree.text(f"{directory}/dev") or ""
        return BlockNode(number=number, directory=directory, tree=self.tree)


def node_by_number(number: str, tree: SystemTree = LIVE) -> BlockNode:
    """Return the block device with a ``major:minor``, as in ``st_rdev``."""
    link = f"/sys/dev/block/{number}"
    return BlockNode(number=number, directory=tree.resolve(link) or link, tree=tree)


def node_by_name(name: str, tree: SystemTree = LIVE) -> BlockNode | None:
    """Return the block device with a kernel name, such as ``dm-0``; None if absent."""
    number = tree.word(f"/sys/class/block/{name}/dev")
    return None if number is None else node_by_number(number, tree)


def device_size_bytes(path: str, tree: SystemTree = LIVE) -> int:
    """Return the size (bytes) of the block device at a path; 0 without one."""
    number = tree.block_number(path)
    return node_by_number(number, tree).size_bytes() if number else 0


def _persistent_names(disk: BlockNode) -> Iterator[str | None]:
    """Yield the persistent names of a disk, the best first."""
    tree, directory = disk.tree, disk.directory
    yield unit_serial(tree, directory)
    yield _udev_property(disk, "ID_SERIAL_SHORT")
    for file in ("wwid", "device/wwid", "dm/uuid", "md/uuid"):
        yield tree.word(f"{directory}/{file}")


def _udev_property(disk: BlockNode, name: str) -> str | None:
    record = disk.tree.text(f"/run/udev/data/b{disk.number}") or ""
    for line in record.splitlines():
        key, _, value = line.partition("=")
        if key == f"E:{name}":
            return value.strip()
    return None
