"""Signatures on a device or image: file systems, partition tables, RAID members and others.

They are read from magic numbers without a tool or a mount. Where ``blkid`` is installed it is used
too, because it knows many more; both must find nothing before a device counts as blank.

Sources of the numbers: libblkid's superblock probes (util-linux), the on-disk format pages of each
file system, md(4), the ZFS on-disk specification and the UEFI specification.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, run_command
from seatrial.units import KIB

_BLKID_TIMEOUT_S: Final = 10.0
_BLKID_AMBIVALENT: Final = 8  # blkid(8), exit status


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One signature on a device.

    Attributes:
        kind: ``file system``, ``partition table``, ``RAID member``, ``LVM volume``, ``swap``,
            ``encrypted volume``, ``cache member``, ``database volume`` or ``signature``.
        name: Such as ``ext2/3/4``, ``GPT`` or ``LVM2``.
        offset_bytes: Where the magic number was found; None when only ``blkid`` knows it.
        label: Its label; empty if none is known.
    """

    kind: str
    name: str
    offset_bytes: int | None
    label: str = ""

    def __str__(self) -> str:
        label = f' labelled "{self.label}"' if self.label else ""
        return f"{self.name} {self.kind}{label}"


class _Magic(NamedTuple):
    kind: str
    name: str
    offset_bytes: int
    magic: bytes


_MD_MAGIC = bytes.fromhex("fc4e2ba9")
_MD_MAGICS = (_MD_MAGIC, _MD_MAGIC[::-1])
_BCACHE_MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")

_MAGICS: Final = (
    _Magic("file system", "ext2/3/4", 0x438, b"\x53\xef"),
    _Magic("file system", "XFS", 0, b"XFSB"),
    _Magic("file system", "Btrfs", 64 * KIB + 64, b"_BHRfS_M"),
    _Magic("file system", "FAT", 0x36, b"FAT12   "),
    _Magic("file system", "FAT", 0x36, b"FAT16   "),
    _Magic("file system", "FAT", 0x52, b"FAT32   "),
    _Magic("file system", "exFAT", 3, b"EXFAT   "),
    _Magic("file system", "NTFS", 3, b"NTFS    "),
    _Magic("file system", "ReFS", 3, b"ReFS\0\0\0\0"),
    _Magic("file system", "F2FS", 1 * KIB, b"\x10\x20\xf5\xf2"),
    _Magic("file system", "JFS", 32 * KIB, b"JFS1"),
    _Magic("file system", "ReiserFS", 64 * KIB + 52, b"ReIsEr"),
    _Magic("file system", "NILFS2", 1 * KIB + 6, b"\x34\x34"),
    _Magic("file system", "APFS", 32, b"NXSB"),
    _Magic("file system", "HFS+", 1 * KIB, b"H+"),
    _Magic("file system", "squashfs", 0, b"hsqs"),
    _Magic("file system", "EROFS", 1 * KIB, b"\xe2\xe1\xf5\xe0"),
    _Magic("file system", "ISO 9660", 32 * KIB + 1, b"CD001"),
    _Magic("file system", "UDF", 32 * KIB + 1, b"BEA01"),
    _Magic("LVM volume", "LVM1", 0, b"HM\x01\0"),
    _Magic("LVM volume", "Stratis", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    _Magic("encrypted volume", "LUKS", 0, b"LUKS\xba\xbe"),
    _Magic("encrypted volume", "LUKS", 16 * KIB, b"SKUL\xba\xbe"),
    _Magic("encrypted volume", "BitLocker", 3, b"-FVE-FS-"),
    _Magic("cache member", "bcache", 4 * KIB + 24, _BCACHE_MAGIC),
    _Magic("cache member", "VDO", 0, b"dmvdo001"),
    _Magic("database volume", "Oracle ASM", 32, b"ORCLDISK"),
    _Magic("database volume", "Ceph BlueStore", 0, b"bluestore block device"),
    _Magic("partition table", "GPT", 512, b"EFI PART"),
    _Magic("partition table", "GPT", 4 * KIB, b"EFI PART"),
    # Also the last bytes of a FAT or NTFS boot sector.
    _Magic("partition table", "MBR", 510, b"\x55\xaa"),
    *(_Magic("LVM volume", "LVM2", sector * 512, b"LABELONE") for sector in range(4)),
    *(_Magic("RAID member", "md 1.1", 0, magic) for magic in _MD_MAGICS),
    *(_Magic("RAID member", "md 1.2", 4 * KIB, magic) for magic in _MD_MAGICS),
    *(
        _Magic("swap", "Linux", page_bytes - 10, magic)
        for page_bytes in (4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB)
        for magic in (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"S2SUSPEND\0")
    ),
)

_ZFS_LABEL_BYTES = 256 * KIB
_ZFS_UBERBLOCKS_START_BYTES = 128 * KIB
_ZFS_UBERBLOCK_BYTES = 1 * KIB
_ZFS_MAGIC = bytes.fromhex("0cb1ba0000000000")
_ZFS_MAGICS = (_ZFS_MAGIC, _ZFS_MAGIC[::-1])


def read_signatures(path: Path) -> list[Signature]:
    """Return the signatures of a device or plain file, by magic numbers alone.

    Raises:
        OSError: when it cannot be opened or read.
    """
    with path.open("rb", buffering=0) as device:
        size_bytes = device.seek(0, os.SEEK_END)
        found = [
            Signature(kind=magic.kind, name=magic.name, offset_bytes=magic.offset_bytes)
            for magic in (*_MAGICS, *_magics_at_the_end(size_bytes))
            if _holds(device.fileno(), magic, size_bytes)
        ]
        found += _zfs_labels(device.fileno(), size_bytes)
    return _without_repeats(found)


def probe_signatures(path: Path) -> list[Signature]:
    """Return ``read_signatures`` and what else ``blkid`` finds, where it is installed.

    Raises:
        OSError: when the device cannot be opened or read.
    """
    return _without_repeats(read_signatures(path) + _run_blkid(path))


def _magics_at_the_end(size_bytes: int) -> list[_Magic]:
    """Return the magic numbers whose offset depends on the size of the device."""
    sectors = size_bytes // 512
    # md 0.90: the last whole 64 KiB block but one; md 1.0: 8 KiB from the end, on 4 KiB.
    md090_bytes = size_bytes // (64 * KIB) * 64 * KIB - 64 * KIB
    md10_bytes = (sectors - 16) // 8 * 8 * 512
    return [
        *(_Magic("RAID member", "md 0.90", md090_bytes, magic) for magic in _MD_MAGICS),
        *(_Magic("RAID member", "md 1.0", md10_bytes, magic) for magic in _MD_MAGICS),
        _Magic("RAID member", "Intel RST", sectors * 512 - 1 * KIB, b"Intel Raid ISM Cfg Sig. "),
        _Magic("RAID member", "DDF", sectors * 512 - 512, b"\xde\x11\xde\x11"),
        _Magic("partition table", "GPT (backup)", sectors * 512 - 512, b"EFI PART"),
        _Magic("partition table", "GPT (backup)", size_bytes // 4096 * 4096 - 4096, b"EFI PART"),
    ]


def _holds(descriptor: int, magic: _Magic, size_bytes: int) -> bool:
    end_bytes = magic.offset_bytes + len(magic.magic)
    if magic.offset_bytes < 0 or end_bytes > size_bytes:
        return False
    return os.pread(descriptor, len(magic.magic), magic.offset_bytes) == magic.magic


def _zfs_labels(descriptor: int, size_bytes: int) -> list[Signature]:
    """Look for uberblocks in the four labels: two at the start, two at the end of the device."""
    end_bytes = size_bytes // _ZFS_LABEL_BYTES * _ZFS_LABEL_BYTES
    starts = {0, _ZFS_LABEL_BYTES, end_bytes - 2 * _ZFS_LABEL_BYTES, end_bytes - _ZFS_LABEL_BYTES}
    found = []
    for start in sorted(each for each in starts if 0 <= each < end_bytes):
        offset_bytes = start + _ZFS_UBERBLOCKS_START_BYTES
        blocks = os.pread(descriptor, _ZFS_LABEL_BYTES // 2, offset_bytes)
        heads = {
            blocks[at : at + len(_ZFS_MAGIC)] for at in range(0, len(blocks), _ZFS_UBERBLOCK_BYTES)
        }
        if heads & set(_ZFS_MAGICS):
            found.append(Signature(kind="RAID member", name="ZFS", offset_bytes=offset_bytes))
    return found


def _run_blkid(path: Path) -> list[Signature]:
    """Return what ``blkid -p`` finds; empty where it is missing, slow or finds nothing."""
    try:
        ended = run_command(["blkid", "-p", "-o", "export", str(path)], _BLKID_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return []
    if ended.status == _BLKID_AMBIVALENT:
        return [Signature(kind="signature", name="more than one", offset_bytes=None)]
    output = (line.partition("=") for line in ended.output.splitlines())
    return _parse_blkid({key: value for key, _, value in output})


def _parse_blkid(output: dict[str, str]) -> list[Signature]:
    kinds = {"raid": "RAID member", "crypto": "encrypted volume", "filesystem": "file system"}
    found = []
    if "TYPE" in output:
        kind = kinds.get(output.get("USAGE", ""), "signature")
        label = output.get("LABEL", "")
        found.append(Signature(kind=kind, name=output["TYPE"], offset_bytes=None, label=label))
    if "PTTYPE" in output:
        name = output["PTTYPE"].upper()
        found.append(Signature(kind="partition table", name=name, offset_bytes=None))
    return found


# Names that blkid uses for signatures that we name differently, to avoid duplicates.
_SAME_NAMES: Final = {
    "ext2": "ext2/3/4",
    "ext3": "ext2/3/4",
    "ext4": "ext2/3/4",
    "vfat": "FAT",
    "crypto_luks": "LUKS",
    "lvm2_member": "LVM2",
    "zfs_member": "ZFS",
    "iso9660": "ISO 9660",
    "swap": "Linux",
    "hfsplus": "HFS+",
    "dos": "MBR",
    "pmbr": "MBR",
    "gpt (backup)": "GPT",
}


def _without_repeats(found: list[Signature]) -> list[Signature]:
    """Keep the first signature of each name, with the first known label."""
    kept: dict[str, Signature] = {}
    for signature in found:
        name = _SAME_NAMES.get(signature.name.lower(), signature.name).lower()
        first = kept.setdefault(name, signature)
        if signature.label and not first.label:
            kept[name] = replace(first, label=signature.label)
    return list(kept.values())
