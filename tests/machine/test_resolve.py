"""What a TARGET on the command line means."""

import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import TargetError, UsageError
from seatrial.machine import resolve as room
from seatrial.machine.resolve import TargetKind, resolve, resolve_directory


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_directories_files_and_new_files_are_distinguished(tmp_path):
    (tmp_path / "file").touch()
    assert resolve(".").kind is TargetKind.DIRECTORY
    assert resolve("file").kind is TargetKind.FILE
    new = resolve("trial.dat")
    assert (new.kind, new.path) == (TargetKind.NEW_FILE, tmp_path / "trial.dat")
    assert not (tmp_path / "trial.dat").exists()


def test_links_are_followed_and_the_home_folder_is_known(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert resolve("link").path == tmp_path / "real"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/real").path == tmp_path / "real"


def test_the_null_target_and_simulated_devices(tmp_path):
    assert resolve("null").kind is TargetKind.NULL
    found = resolve("simulated:freezing-ssd")
    assert (found.kind, found.name, found.path) == (TargetKind.SIMULATED, "freezing-ssd", None)
    (tmp_path / "null").touch()
    assert resolve("./null").kind is TargetKind.FILE


@pytest.mark.parametrize("target", ["simulated:", "simulated:../x", "simulated:Big SSD"])
def test_a_simulated_device_needs_a_name(target):
    with pytest.raises(UsageError, match="is not a simulated device"):
        resolve(target)


@pytest.mark.parametrize("target", ["4G", "512", "1.5GiB", "64k", "100 MB"])
def test_a_size_is_not_taken_for_a_file(target):
    with pytest.raises(UsageError, match="looks like a size") as caught:
        resolve(target)
    assert f"--size {target}" in str(caught.value)
    assert resolve(f"./{target}").kind is TargetKind.NEW_FILE


@pytest.mark.parametrize("target", ["NULL", "nul", "none"])
def test_a_mistyped_null_is_not_taken_for_a_file(target):
    with pytest.raises(UsageError, match="Use `null`"):
        resolve(target)


def test_the_address_of_a_database_is_named_as_such_and_never_repeated():
    with pytest.raises(UsageError, match="database URL") as caught:
        resolve("postgres://me:secret@db/prod")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("target", ["", "  "])
def test_an_empty_target_is_most_likely_a_variable_that_is_not_set(target):
    with pytest.raises(UsageError, match="variable"):
        resolve(target)


def test_a_missing_directory_whose_parent_exists_is_made_or_was_mistyped(tmp_path):
    with pytest.raises(TargetError, match=f"but {tmp_path} does") as caught:
        resolve_directory("harbour")
    assert f"`mkdir {tmp_path / 'harbour'}`" in str(caught.value)
    (tmp_path / "harbor").mkdir()
    with pytest.raises(TargetError, match=f"Did you mean `{tmp_path / 'harbor'}`"):
        resolve_directory("harbour")
    with pytest.raises(TargetError, match=f"Did you mean `{tmp_path / 'harbor'}`"):
        resolve("harbour/")


def test_a_missing_parent_names_what_exists_and_what_is_near_it(tmp_path):
    with pytest.raises(
        TargetError, match=f"the nearest existing directory is {tmp_path}"
    ) as caught:
        resolve("ssd0/data/trial.dat")
    assert f"`mkdir -p {tmp_path / 'ssd0/data'}`" in str(caught.value)
    (tmp_path / "ssd1").mkdir()
    with pytest.raises(TargetError, match=f"Did you mean `{tmp_path / 'ssd1'}`"):
        resolve("ssd0/data/trial.dat")


def test_a_directory_is_found_and_anything_else_is_none(tmp_path):
    (tmp_path / "file").touch()
    assert resolve_directory(str(tmp_path)) == tmp_path
    for target, what in (("file", "file"), ("null", "null"), ("simulated:x", "simulated")):
        with pytest.raises(TargetError, match=f"but a {what}"):
            resolve_directory(target)


def test_a_broken_link_is_reported(tmp_path):
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises(TargetError, match=r"symbolic link to .*gone, which does not exist"):
        resolve("link")


def test_links_in_a_circle_and_files_taken_for_folders_are_reported(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(TargetError, match="symbolic link loop"):
        resolve("a")
    (tmp_path / "file").touch()
    with pytest.raises(TargetError):
        resolve("file/trial.dat")


def test_no_file_is_made_among_the_devices():
    with pytest.raises(TargetError, match="device was removed or is misspelled"):
        resolve("/dev/sdzz9")


def test_the_name_of_a_device_without_its_folder_is_completed(monkeypatch):
    monkeypatch.setattr(room, "_is_block_device", lambda path: str(path) == "/dev/nvme0n1")
    with pytest.raises(TargetError, match="Use /dev/nvme0n1"):
        resolve("nvme0n1")


@pytest.mark.parametrize(
    ("make", "what"), [(os.mkfifo, "pipe"), (lambda path: path.symlink_to("/dev/zero"), "char")]
)
def test_what_has_no_addresses_is_reported_by_its_kind(tmp_path, make, what):
    make(tmp_path / "odd")
    with pytest.raises(TargetError, match=f"is a {what}"):
        resolve("odd")


@pytest.mark.root
def test_a_block_device_is_known(image, loops):
    device = loops(image())
    found = resolve(str(device))
    assert (found.kind, found.path) == (TargetKind.BLOCK_DEVICE, device)


@given(st.text(max_size=300))
def test_whatever_is_written_either_resolves_or_is_explained(target):
    with contextlib.suppress(TargetError, UsageError):
        assert resolve(target).given == target


def test_a_name_that_is_no_utf8_is_refused_also_behind_a_link(tmp_path):
    outlier = tmp_path / os.fsdecode(b"n\xffme")
    outlier.mkdir()
    with pytest.raises(TargetError, match=r"n\\xffme is not valid UTF-8"):
        resolve(str(outlier))
    link = tmp_path / "plain"
    link.symlink_to(outlier)
    with pytest.raises(TargetError, match=r"n\\xffme is not valid UTF-8"):
        resolve(str(link))


@pytest.mark.parametrize("target", ["server:/export", "//server/share", "nfs://server/share"])
def test_a_place_on_the_network_is_to_be_mounted_first(target):
    with pytest.raises(TargetError, match="looks like a network location"):
        resolve(target)


def test_a_path_that_only_looks_like_the_network_is_a_path(tmp_path):
    (tmp_path / "server:").mkdir()
    (tmp_path / "server:" / "export").mkdir()
    assert resolve("server:/export").kind is TargetKind.DIRECTORY
