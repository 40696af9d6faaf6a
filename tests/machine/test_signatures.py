"""Marks on plain image files: no root, no device."""

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machine.conftest import need_command, put, run
from seatrial.machine import signatures
from seatrial.machine.fingerprint.tree import CommandMissingError
from seatrial.machine.signatures import Signature, probe_signatures, read_signatures
from seatrial.units import KIB, MIB

SIZE_BYTES = 64 * MIB + 3 * 4096 + 1536  # not a multiple of any RAID's or ZFS' unit


def names(found):
    return {(signature.kind, signature.name) for signature in found}


def without_blkid(monkeypatch):
    def missing(argv, timeout_s):
        raise CommandMissingError(argv[0])

    monkeypatch.setattr(signatures, "run_command", missing)


@pytest.mark.parametrize(
    ("offset_bytes", "magic", "expected"),
    [
        (1024 + 56, b"\x53\xef", ("file system", "ext2/3/4")),
        (0, b"XFSB", ("file system", "XFS")),
        (0x10040, b"_BHRfS_M", ("file system", "Btrfs")),
        (54, b"FAT16   ", ("file system", "FAT")),
        (82, b"FAT32   ", ("file system", "FAT")),
        (3, b"NTFS    ", ("file system", "NTFS")),
        (3, b"EXFAT   ", ("file system", "exFAT")),
        (0x8001, b"CD001", ("file system", "ISO 9660")),
        (4086, b"SWAPSPACE2", ("swap", "Linux")),
        (65526, b"SWAPSPACE2", ("swap", "Linux")),
        (512, b"LABELONE", ("LVM volume", "LVM2")),
        (1536, b"LABELONE", ("LVM volume", "LVM2")),
        (0, b"LUKS\xba\xbe\x00\x02", ("encrypted volume", "LUKS")),
        (510, b"\x55\xaa", ("partition table", "MBR")),
        (512, b"EFI PART", ("partition table", "GPT")),
        (4096, b"EFI PART", ("partition table", "GPT")),
        (SIZE_BYTES - 512, b"EFI PART", ("partition table", "GPT (backup)")),
        (64 * MIB + 2 * 4096, b"EFI PART", ("partition table", "GPT (backup)")),
        (4096, bytes.fromhex("fc4e2ba9"), ("RAID member", "md 1.2")),
        (0, bytes.fromhex("fc4e2ba9"), ("RAID member", "md 1.1")),
        # md.c: sb_start = (sectors - 16) & ~7; MD_NEW_SIZE_SECTORS: (sectors & ~127) - 128
        ((SIZE_BYTES // 512 - 16 & ~7) * 512, bytes.fromhex("fc4e2ba9"), ("RAID member", "md 1.0")),
        (
            ((SIZE_BYTES // 512 & ~127) - 128) * 512,
            bytes.fromhex("fc4e2ba9"),
            ("RAID member", "md 0.90"),
        ),
        (128 * KIB + 5 * KIB, bytes.fromhex("0cb1ba0000000000"), ("RAID member", "ZFS")),
        (128 * KIB, bytes.fromhex("0000000000bab10c"), ("RAID member", "ZFS")),
        (64 * MIB - 128 * KIB + 7 * KIB, bytes.fromhex("0cb1ba0000000000"), ("RAID member", "ZFS")),
        (32, b"ORCLDISK", ("database volume", "Oracle ASM")),
        (
            4096 + 24,
            bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"),
            ("cache member", "bcache"),
        ),
    ],
)
def test_each_magic_number_is_known_where_its_owner_writes_it(image, offset_bytes, magic, expected):
    path = image(size_bytes=SIZE_BYTES)
    put(path, offset_bytes, magic)
    assert names(read_signatures(path)) == {expected}


def test_a_blank_image_bears_nothing(image):
    assert read_signatures(image()) == []
    assert probe_signatures(image()) == []


def test_a_magic_number_elsewhere_is_only_data(image):
    path = image()
    put(path, 7 * MIB, b"XFSB" + b"EFI PART" + b"LABELONE" + b"CD001")
    assert read_signatures(path) == []


@given(size_bytes=st.integers(0, 300 * KIB), data=st.binary(max_size=2000))
@settings(max_examples=60)
def test_no_size_and_no_content_makes_the_reader_fail(tmp_path_factory, size_bytes, data):
    path = tmp_path_factory.mktemp("any") / "any.img"
    path.write_bytes(data)
    with path.open("r+b") as file:
        file.truncate(size_bytes)
    for signature in read_signatures(path):
        assert signature.offset_bytes is not None
        assert signature.offset_bytes < size_bytes


@pytest.mark.parametrize(
    ("command", "package", "expected"),
    [
        (["mkfs.ext4", "-q", "-L", "harbour"], "e2fsprogs", ("file system", "ext2/3/4")),
        (["mkfs.xfs", "-q", "-f", "-L", "harbour"], "xfsprogs", ("file system", "XFS")),
        (["mkfs.btrfs", "-q", "-f", "-L", "harbour"], "btrfs-progs", ("file system", "Btrfs")),
        (["mkswap", "-q", "-L", "harbour"], "util-linux", ("swap", "Linux")),
    ],
)
def test_what_the_real_tools_write_is_known_without_blkid(
    image, monkeypatch, command, package, expected
):
    need_command(command[0], package)
    path = image(size_bytes=512 * MIB)
    run(*command, str(path))
    with_blkid = probe_signatures(path)
    assert expected in names(with_blkid)
    assert len(with_blkid) == 1, "blkid's word for the same mark is not reported twice"
    if shutil.which("blkid"):
        assert str(with_blkid[0]).endswith('labelled "harbour"')
    without_blkid(monkeypatch)
    assert names(probe_signatures(path)) == {expected}


def test_the_kernels_partition_table_writer_is_known(image):
    need_command("sfdisk", "fdisk")
    for table, expected in (("gpt", "GPT"), ("dos", "MBR")):
        path = image(f"{table}.img")
        run("sh", "-c", f"echo 'label: {table}' | sfdisk -q {path} && echo , | sfdisk -q {path}")
        assert ("partition table", expected) in names(read_signatures(path))


def test_blkid_adds_what_the_magic_numbers_do_not_report(image, monkeypatch):
    class Ended:
        status, output = 0, "DEVNAME=/x\nTYPE=minix\nUSAGE=filesystem\nLABEL=a=b\nPTTYPE=atari\n"

    monkeypatch.setattr(signatures, "run_command", lambda argv, timeout_s: Ended)
    assert probe_signatures(image()) == [
        Signature(kind="file system", name="minix", offset_bytes=None, label="a=b"),
        Signature(kind="partition table", name="ATARI", offset_bytes=None),
    ]


def test_an_ambivalent_answer_of_blkid_counts_as_a_mark(image, monkeypatch):
    class Ended:
        status, output = 8, ""

    monkeypatch.setattr(signatures, "run_command", lambda argv, timeout_s: Ended)
    assert [str(found) for found in probe_signatures(image())] == ["more than one signature"]
