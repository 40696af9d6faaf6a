"""Options that name a file to write: what is there is not lost, and is replaced as a whole."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.command import seatrial
from seatrial import cli
from seatrial.cli.files import SNAPSHOT, TRACE, Output, OutputPath, writable_path
from seatrial.cli.main import seatrial as group
from seatrial.errors import RefusedError, SpaceError, UsageError
from seatrial.report.exports import FORMATS

INPUTS = {
    ("seatrial", "results"),  # a database that is opened and added to: seatrial.results.store
    ("seatrial cache predict", "recording"),
    ("seatrial cache sweep", "log"),
    ("seatrial cache sweep", "prepare"),
    ("seatrial cache sweep", "pg_bin"),
    ("seatrial db", "pg_bin"),
    ("seatrial db", "batch"),
    ("seatrial db", "prepare"),
    ("seatrial filebench", "directory"),
    ("seatrial import", "files"),
    ("seatrial runs merge", "other"),  # a results file that is only read
    ("seatrial sql capture", "pcap"),
    ("seatrial sql read", "logs"),
    ("seatrial sql replay", "pg_bin"),
    ("seatrial sql replay", "prepare"),
    ("seatrial sql replay", "compare_rows"),
    ("seatrial sql replay", "trace"),
    ("seatrial sql show", "trace"),
    ("seatrial trace import", "trace"),
    ("seatrial trace replay", "recording"),
    ("seatrial trace show", "recording"),
    ("seatrial trace store", "recording"),
    ("seatrial trace study", "recording"),
    ("seatrial trace compare", "first"),
    ("seatrial", "file"),  # a study
    ("seatrial run", "directory"),  # what is measured passes the guard
    ("seatrial", "model"),
    ("seatrial", "loop_dir"),  # a folder for loop devices' files, which are made anew
}
"""What names a file or a folder that no output is written to; ``seatrial`` is any command."""

BEFORE = {
    "seatrial sql read": ["log.csv"],
    "seatrial trace import": ["msr.csv"],
    "seatrial sql rows": ["postgresql://127.0.0.1:1/x"],
    "seatrial sql capture": ["--listen", ":0", "--to", "postgresql://127.0.0.1:1/x"],
}
"""What a command needs besides before it looks at its output."""

FOREIGN = "a diary\n"


def commands(
    command: click.Command = group, name: str = "seatrial"
) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        inner = command.get_command(context, each)
        assert inner is not None
        yield from commands(inner, f"{name} {each}")


def outputs() -> list[tuple[str, str, OutputPath]]:
    """Each command, option and type of an output."""
    return [
        (name, parameter.opts[-1], parameter.type)
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter.type, OutputPath)
    ]


OUTPUTS = outputs()
each_output = pytest.mark.parametrize(
    ("command", "option", "kind"), OUTPUTS, ids=[f"{name} {option}" for name, option, _ in OUTPUTS]
)


def tried(command: str, option: str, place: Path, *more: str) -> None:
    """Give an output to a command, up to where it is judged; nothing else of it is right."""
    words = [*command.split()[1:], option, str(place), *more, *BEFORE.get(command, [])]
    with contextlib.chdir(place.parent if place.parent.exists() else place.parent.parent):
        group.main(args=words, prog_name="seatrial", standalone_mode=False)


def test_every_option_with_a_path_is_an_output_or_known_to_be_none():
    unknown = [
        f"{name} {parameter.opts[0]}"
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter.type, click.Path)
        or parameter.make_metavar(click.Context(command)) in ("FILE", "DIR", "PATH")
        if not isinstance(parameter.type, OutputPath)
        if not {(name, parameter.name), ("seatrial", parameter.name)} & INPUTS
    ]
    assert unknown == []
    assert len(OUTPUTS) >= 14


@each_output
def test_what_is_not_ours_is_not_replaced(command, option, kind, tmp_path):
    place = tmp_path / "diary"
    place.write_text(FOREIGN)
    with pytest.raises(RefusedError, match="diary exists and is no"):
        tried(command, option, place)
    assert place.read_text() == FOREIGN


@each_output
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_nothing_is_written_through_a_link_to_what_is_not_ours(
    command, option, kind, force, tmp_path
):
    place, diary = tmp_path / "link", tmp_path / "diary"
    diary.write_text(FOREIGN)
    place.symlink_to(diary)
    with pytest.raises(RefusedError, match="symbolic link"):
        tried(command, option, place, *force)
    diary.unlink()
    with pytest.raises(RefusedError, match="is a dangling symbolic link"):
        tried(command, option, place, *force)
    assert not diary.exists()


@each_output
def test_only_an_ordinary_file_is_replaced(command, option, kind, tmp_path):
    fifo, folder, device = tmp_path / "fifo", tmp_path / "folder", tmp_path / "device"
    os.mkfifo(fifo)
    folder.mkdir()
    device.symlink_to("/dev/null")
    for place in (fifo, device):
        with pytest.raises(RefusedError, match="not an ordinary file"):
            tried(command, option, place, "--force")
    for place in (folder, tmp_path / "gone" / "file"):
        with pytest.raises(UsageError, match="cannot be written"):
            tried(command, option, place, "--force")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_no_command_writes_a_file_in_another_way():
    # Requests in a folder of the lab itself.
    own = {"(folder / _REQUEST).write_bytes", "(folder / _RESULT).write_bytes"}
    writes = ("write_text", "write_bytes", "writelines")
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(files_of_commands())
        if path.name != "files.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
        if is_writing(node, writes) and ast.unparse(node.func) not in own
    ]
    assert found == []


def files_of_commands() -> Iterator[Path]:
    room = Path(cli.__file__).parent
    yield from room.rglob("*.py")
    yield from room.parent.glob("trials/*/commands.py")
    yield from room.parent.glob("trials/*/commands/*.py")


def is_writing(node: ast.Call, names: tuple[str, ...]) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
    return name in names or (name == "open" and any(mode in modes for mode in ("w", "wb", "a")))


@pytest.mark.parametrize(
    ("source", "found"),
    [("p.write_text(t)", True), ("open(p, 'w')", True), ("p.open('rb')", False)],
)
def test_a_writing_call_is_seen(source, found):
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    assert is_writing(call, ("write_text",)) is found


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    ended = seatrial("io", "null", "--seconds", "0.1", folder=folder)
    assert ended.code == 0, ended.err
    return folder


@pytest.mark.parametrize("name", [each for each in FORMATS if each != "bm-flash"])
def test_an_export_is_replaced_by_a_newer_one_and_by_nothing_else(measured, name):
    for _ in range(2):
        ended = seatrial("export", "--format", name, "-o", name, folder=measured)
        assert (ended.code, ended.out) == (0, ""), ended.err
    content = (measured / name).read_bytes()
    (measured / name).write_bytes(b"x" + content)
    ended = seatrial("export", "--format", name, "-o", name, folder=measured)
    assert ended.code == 5
    assert "--force" in ended.err
    ended = seatrial("export", "--format", name, "-o", name, "--force", folder=measured)
    assert (ended.code, (measured / name).read_bytes()) == (0, content)


def test_a_report_is_replaced_by_a_newer_one_and_by_nothing_else(measured):
    for _ in range(2):
        assert seatrial("report", "--output", "page.html", folder=measured).code == 0
    page = (measured / "page.html").read_text()
    (measured / "other.html").write_text(page.replace("Seatrial", "Another"))
    assert seatrial("report", "--output", "other.html", folder=measured).code == 5
    assert seatrial("report", "--output", "other.html", "--force", folder=measured).code == 0
    assert (measured / "other.html").read_text() == page


def test_a_report_at_its_default_place_replaces_nothing_foreign(measured, tmp_path):
    shutil.copy(measured / "results.seatrial", tmp_path)
    (run,) = seatrial("list", "--json", folder=tmp_path).document["runs"]
    place = tmp_path / "seatrial-reports" / f"{run['id']}.html"
    place.parent.mkdir()
    place.write_text(FOREIGN)
    assert seatrial("report", folder=tmp_path).code == 5
    assert place.read_text() == FOREIGN
    assert seatrial("report", "--force", folder=tmp_path).code == 0


def test_the_results_are_not_replaced_by_a_report_of_them(measured):
    before = (measured / "results.seatrial").read_bytes()
    for place in ("results.seatrial", "./results.seatrial"):
        ended = seatrial("report", "--output", place, "--force", folder=measured)
        assert (ended.code, "is the results file" in ended.err) == (5, True), ended.err
    ended = seatrial("io", "null", "--results", "new", "--report", "new", folder=measured)
    assert ended.code == 5
    assert not (measured / "new").exists()
    assert (measured / "results.seatrial").read_bytes() == before


@pytest.mark.parametrize("place", ["-", "/dev/stdout"])
def test_standard_output_gets_the_file_and_nothing_else(measured, place):
    page = seatrial("report", "--output", place, folder=measured)
    assert page.code == 0, page.err
    assert page.out.startswith("<!DOCTYPE html>")
    assert page.out.endswith("</html>\n")
    run = seatrial("io", "null", "--seconds", "0.1", "--report", place, folder=measured)
    assert run.out.startswith("<!DOCTYPE html>")
    assert run.out.endswith("</html>\n")
    assert "IOPS" in run.err
    assert seatrial("export", "-o", place, folder=measured).document["kind"] == "run"
    both = seatrial("report", "--output", place, "--json", folder=measured)
    assert (both.code, both.document["error"]) == (2, "UsageError")


def page(place: Path, *, force: bool = False) -> None:
    text = "; The cells of run x (y), written by seatrial 1.\n" + "x" * 100_000
    Output(path=place, force=force).write(text, otherwise="seatrial report")


def test_mode_and_owner_of_what_is_replaced_are_kept(tmp_path):
    place = tmp_path / "page"
    page(place)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(place.stat().st_mode) == 0o666 & ~umask
    place.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(place, 12, 34)
    before = place.stat()
    page(place)
    after = place.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_link_to_one_of_ours_stays_a_link(tmp_path):
    (tmp_path / "inner").mkdir()
    real, link = tmp_path / "inner" / "real", tmp_path / "link"
    page(real)
    before = real.stat().st_ino
    link.symlink_to("inner/real")
    page(link)
    assert link.is_symlink()
    assert real.stat().st_ino != before


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system without space")
def test_without_space_what_was_there_stays_whole(tmp_path):
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "seatrial-test", tmp_path], check=True
    )
    try:
        place = tmp_path / "page"
        page(place)
        before = place.read_bytes()
        with pytest.raises(SpaceError, match="No space left"):
            page(place)
        assert place.read_bytes() == before
        assert list(tmp_path.iterdir()) == [place]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_what_appears_while_a_run_is_measured_is_not_replaced(tmp_path):
    place = tmp_path / "page"
    assert writable_path(place) == place
    place.write_text(FOREIGN)
    with pytest.raises(RefusedError):
        page(place)
    assert place.read_text() == FOREIGN


def test_what_cannot_be_made_again_is_replaced_only_if_that_is_meant(tmp_path):
    place = tmp_path / "a0.csv"
    place.write_text("queryid,calls,snapshot_at\n1,2,3\n")
    with pytest.raises(RefusedError, match="cannot be recreated"):
        writable_path(place, kind=SNAPSHOT)
    assert writable_path(place, kind=SNAPSHOT, force=True) == place
    place.write_bytes(b"PAR1...")
    with pytest.raises(RefusedError, match="cannot be recreated"):
        writable_path(place, kind=TRACE)
    assert writable_path(place, kind=TRACE, force=True) == place


def test_a_trace_is_not_begun_over_a_foreign_part(tmp_path):
    log = tmp_path / "log.sql"
    log.write_text("SELECT 1;\n")
    part, diary = tmp_path / "a.trace.part", tmp_path / "diary"
    diary.write_text(FOREIGN)
    words = ("sql", "read", "log.sql", "-o", "a.trace", "--force")
    for make in (lambda: part.write_text(FOREIGN), lambda: part.symlink_to(diary)):
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        make()
        assert seatrial(*words, folder=tmp_path).code == 5
        assert (part.read_text(), diary.read_text()) == (FOREIGN, FOREIGN)
    part.unlink()
    assert seatrial(*words, folder=tmp_path).code == 0
