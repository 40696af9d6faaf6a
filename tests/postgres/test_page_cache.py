"""Cold is proved: both ways of counting agree, and what is dropped is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seatrial.postgres import page_cache as room
from seatrial.postgres.page_cache import cached_bytes, drop_cached
from seatrial.units import MIB


@pytest.fixture
def folder(tmp_path):
    """3 MiB in two files and a folder, just written; a link leads out of it."""
    if os.statvfs(tmp_path).f_fsid == os.statvfs("/dev/shm").f_fsid:
        pytest.skip("the folder for tests lives in memory")
    (tmp_path / "data/inner").mkdir(parents=True)
    (tmp_path / "data/one").write_bytes(os.urandom(MIB))
    (tmp_path / "data/inner/two").write_bytes(os.urandom(2 * MIB))
    (tmp_path / "data/none").touch()
    (tmp_path / "other").write_bytes(os.urandom(MIB))
    (tmp_path / "data/link").symlink_to(tmp_path / "other")
    return tmp_path / "data"


def test_what_was_just_written_is_cached_and_then_it_is_not(folder):
    dropped = drop_cached(folder)
    assert dropped.bytes_cached_before == 3 * MIB
    assert dropped.bytes_cached_after == 0
    assert cached_bytes(folder) == 0
    os.posix_fadvise(fd := os.open(folder / "one", os.O_RDONLY), 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(fd, 4096, 0)
    os.close(fd)
    assert 0 < cached_bytes(folder) < MIB


def test_what_lies_elsewhere_is_left_alone(folder):
    drop_cached(folder)
    assert cached_bytes(folder.parent) == MIB


@pytest.mark.parametrize("window_bytes", [room._WINDOW_BYTES, 256 * 1024])
def test_mincore_counts_as_cachestat_does(folder, monkeypatch, window_bytes):
    drop_cached(folder)
    (folder / "one").read_bytes()
    counted_bytes = cached_bytes(folder)
    assert counted_bytes == MIB
    monkeypatch.setattr(room, "_has_cachestat", lambda: False)
    monkeypatch.setattr(room, "_WINDOW_BYTES", window_bytes)
    assert cached_bytes(folder) == counted_bytes


def test_a_kernel_without_cachestat_is_seen(monkeypatch):
    def missing(descriptor):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(room, "_pages_by_cachestat", missing)
    room._has_cachestat.cache_clear()
    try:
        assert room._has_cachestat() is False
    finally:
        room._has_cachestat.cache_clear()


def test_a_file_system_in_memory_cannot_be_cold(tmp_path):
    place = Path("/dev/shm", f"seatrial-test-{os.getpid()}")
    try:
        place.mkdir()
        (place / "data").write_bytes(bytes(MIB))
        dropped = drop_cached(place)
        assert dropped.bytes_cached_after == MIB
    finally:
        (place / "data").unlink(missing_ok=True)
        place.rmdir()
