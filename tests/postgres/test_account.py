"""Who a server runs as: a user as it is; root as nobody with a name, who passes shut folders."""

import os
import pwd
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from seatrial.errors import TargetError
from seatrial.postgres import account as room
from seatrial.postgres.account import (
    UID_FIRST,
    UID_LAST,
    Account,
    account_for,
    account_with_name,
    first_closed_folder,
    plain_environment,
    unused_uid,
)


def test_an_ordinary_user_is_taken_as_it_is(binaries, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(os, "getegid", lambda: 56)
    account = account_for(tmp_path / "data", binaries)
    assert account == Account(uid=1234, gid=56, is_dropped=False)
    assert account_with_name(account) == account
    assert account.command(["postgres", Path("/x")]) == ["postgres", "/x"]


def test_the_uid_is_the_first_without_a_process_and_without_a_name(monkeypatch):
    monkeypatch.setattr(room, "_is_mapped", lambda number: True)
    monkeypatch.setattr(room, "_uids_of_processes", lambda: iter([0, UID_FIRST]))
    monkeypatch.setattr(room, "_has_name", lambda number: number == UID_FIRST - 1)
    assert unused_uid() == UID_FIRST - 2


def test_a_container_that_knows_few_users_is_reported(monkeypatch):
    monkeypatch.setattr(room, "_is_mapped", lambda number: number < 1000)
    with pytest.raises(TargetError, match=r"No unused user ID.*uid_map.*ordinary user"):
        unused_uid()


def test_the_uid_found_is_nobody():
    uid = unused_uid()
    assert UID_LAST <= uid <= UID_FIRST
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)
    assert unused_uid() == uid, "the search is deterministic"


def test_the_topmost_folder_that_is_shut_is_named(tmp_path):
    shut = tmp_path / "shut"
    inner = shut / "inner"
    inner.mkdir(parents=True)
    for folder in (shut, inner):
        folder.chmod(0o700)
    found = first_closed_folder(inner, UID_FIRST)
    assert found is not None
    assert found in (shut, *shut.parents), "pytest's own folders may be shut as well"
    assert not found.stat().st_mode & stat.S_IXOTH
    assert first_closed_folder(Path("/usr"), UID_FIRST) is None


def root_account(binaries, folder, monkeypatch, capabilities="1ffffffffff"):
    """The account that root would get for a folder, with these capabilities."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(room, "_status_field", lambda name: capabilities)
    monkeypatch.setattr(room, "unused_uid", lambda: UID_FIRST)
    return account_for(folder, binaries)


def test_only_what_is_shut_needs_a_capability(binaries, tmp_path, monkeypatch):
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    account = root_account(binaries, shut / "data", monkeypatch)
    assert account.capability == "dac_read_search"
    assert "--ambient-caps=+dac_read_search" in account.command(["postgres"])
    monkeypatch.setattr(room, "first_closed_folder", lambda folder, uid: None)
    monkeypatch.setattr(room, "_inaccessible_part", lambda binaries, uid: None)
    account = root_account(binaries, shut / "data", monkeypatch)
    assert account == Account(uid=UID_FIRST, gid=UID_FIRST, is_dropped=True)
    assert account.command(["postgres"]) == ["postgres"]
    assert f"--reuid={UID_FIRST}" in account.command(["postgres"], step_down=True)


def test_the_other_capability_serves_where_the_lesser_is_withheld(binaries, tmp_path, monkeypatch):
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    account = root_account(binaries, shut / "data", monkeypatch, capabilities="2")
    assert account.capability == "dac_override"


def test_programs_that_others_may_not_execute_need_the_greater_one(tmp_path, monkeypatch, binaries):
    for name in room.NEEDED_PROGRAMS:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o700)
    closed = msgspec.structs.replace(binaries, folder=tmp_path)
    account = root_account(closed, tmp_path / "data", monkeypatch)
    assert account.capability == "dac_override"


@pytest.mark.parametrize("withheld", ["capabilities", "setpriv"])
def test_where_nothing_helps_the_folder_and_the_remedy_are_named(
    binaries, tmp_path, monkeypatch, withheld
):
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    monkeypatch.setattr(room, "first_closed_folder", lambda folder, uid: shut)
    if withheld == "setpriv":
        monkeypatch.setattr(room.shutil, "which", lambda name: None)
    bits = "0" if withheld == "capabilities" else "1ffffffffff"
    with pytest.raises(TargetError, match=f"cannot access {shut}.*chmod o\\+x {shut}"):
        root_account(binaries, shut / "data", monkeypatch, capabilities=bits)


def test_what_configures_postgresql_does_not_reach_a_server(monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c fsync=off")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    environment = plain_environment()
    assert not [name for name in environment if name.startswith("PG")]
    assert environment["LC_ALL"] == "C"
    assert "LANG" not in environment


def test_a_program_that_takes_too_long_is_ended():
    account = Account(uid=os.geteuid(), gid=os.getegid())
    with pytest.raises(subprocess.TimeoutExpired):
        account.run(["sleep", "30"], timeout_s=0.05)


def test_what_a_program_started_through_a_shell_is_ended_with_it(tmp_path):
    account = Account(uid=os.geteuid(), gid=os.getegid())
    script = 'sleep 30 & echo $! > "$0"; wait'
    with pytest.raises(subprocess.TimeoutExpired):
        account.run(["sh", "-c", script, tmp_path / "pid"], timeout_s=0.5)
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    deadline_s = time.monotonic() + 5
    while status.exists() and ") Z " not in status.read_text() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not status.exists() or ") Z " in status.read_text()


@pytest.mark.root
def test_root_becomes_nobody_and_passes_a_shut_folder_but_writes_nothing_there(binaries, tmp_path):
    shut = tmp_path / "shut"
    (shut / "data").mkdir(parents=True)
    shut.chmod(0o700)
    modes = [folder.stat().st_mode for folder in shut.parents]
    account = account_for(shut / "data", binaries)
    account.take_ownership(shut / "data")
    said = account.run(
        ["sh", "-c", 'id -u; id -G; cd "$0" && touch in && touch ../out', shut / "data"],
        timeout_s=10,
    )
    assert said.stdout.decode().split() == [str(account.uid), str(account.gid)]
    assert (shut / "data/in").stat().st_uid == account.uid
    assert not (shut / "out").exists()
    assert stat.S_IMODE(shut.stat().st_mode) == 0o700
    assert [folder.stat().st_mode for folder in shut.parents] == modes
    assert account_for(shut / "data", binaries) == account, "the owner of the folder stays"


def programs_in(folder, binaries):
    """Empty programs in a folder that only root may pass, and where they are said to be."""
    folder.mkdir()
    for name in room.NEEDED_PROGRAMS:
        (folder / name).touch(0o755)
    folder.chmod(0o700)
    return msgspec.structs.replace(binaries, folder=folder)


@pytest.mark.root
def test_programs_below_a_shut_folder_find_each_other_as_postgresql_looks(binaries, tmp_path):
    shut = programs_in(tmp_path / "shut", binaries)
    account = account_for(tmp_path / "data", shut)
    assert account.is_needed_for_programs
    look = "import os, sys; print(os.getuid(), os.access(sys.argv[1], os.X_OK))"
    said = account.run([sys.executable, "-c", look, shut.folder / "postgres"], timeout_s=10)
    assert said.stdout.decode().split() == [str(account.uid), "True"]


def test_programs_that_could_not_find_each_other_are_reported(binaries, tmp_path, monkeypatch):
    shut = programs_in(tmp_path / "shut", binaries)
    monkeypatch.setattr(room, "first_closed_folder", lambda folder, uid: shut.folder)
    with pytest.raises(TargetError, match=r"cannot access .*setpcap"):
        root_account(shut, tmp_path / "data", monkeypatch, capabilities="6")


@pytest.mark.root
def test_initdb_runs_as_somebody_with_a_name(binaries, tmp_path):
    account = account_for(tmp_path / "data", binaries)
    named = account_with_name(account)
    assert pwd.getpwuid(named.uid).pw_uid == named.uid != 0
    assert named.capability == account.capability


@pytest.mark.root
def test_links_are_given_away_themselves_not_what_they_lead_to(tmp_path):
    (tmp_path / "mine").write_text("x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/link").symlink_to(tmp_path / "mine")
    Account(uid=UID_FIRST, gid=UID_FIRST, is_dropped=True).take_ownership(tmp_path / "data")
    assert (tmp_path / "mine").stat().st_uid == 0
    assert (tmp_path / "data/link").lstat().st_uid == UID_FIRST
