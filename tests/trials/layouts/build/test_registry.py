"""Backends are found among their files; what cannot be built is said before anything is touched."""

import os
import subprocess
import sys

import pytest

from seatrial.errors import StudyError, TargetError
from seatrial.machine.undoers import UNDOERS
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.build import registry
from seatrial.trials.layouts.build.backend import Program
from seatrial.trials.layouts.build.backends import __path__ as backends_path


def spec_of(backend="btrfs", level="raid1", drives=2, **more):
    more = {"filesystem": "btrfs" if backend == "btrfs" else "xfs"} | more
    return LayoutSpec(
        label="r", name="r", backend=backend, level=level, drives=drives, **more
    )  # fmt: skip


def test_a_backend_is_one_file(monkeypatch, tmp_path):
    (tmp_path / "mirror_of_tape.py").write_text(
        "from seatrial.trials.layouts.build.backends.btrfs import Btrfs\n"
        "from seatrial.machine.undo_result import Undoer, gone\n"
        "class Tape(Btrfs):\n"
        "    name = 'tape'\n"
        "    undoers = {'tape': Undoer(undo=lambda *, reel: gone(reel), subject='reel')}\n"
        "BACKENDS = [Tape()]\n"
    )
    backends_path.append(str(tmp_path))
    for cached in (registry.backends, registry.undoers):
        cached.cache_clear()
    try:
        assert registry.backend("tape").name == "tape"
        assert "tape" in UNDOERS
        assert UNDOERS["tape"].undo(reel="3").detail == "3"
        assert list(registry.backends()) == sorted(registry.backends())
    finally:
        backends_path.remove(str(tmp_path))
        sys.modules.pop("seatrial.trials.layouts.build.backends.mirror_of_tape")
        for cached in (registry.backends, registry.undoers):
            cached.cache_clear()
    assert "tape" not in UNDOERS


def test_an_unknown_backend_is_answered_with_the_nearest_and_all():
    with pytest.raises(StudyError, match=r"Did you mean 'btrfs'\?") as caught:
        registry.backend("btfrs")
    assert all(name in str(caught.value) for name in registry.backends())


def test_every_backend_has_levels_and_says_what_it_needs():
    for name, each in registry.backends().items():
        assert each.name == name
        assert each.levels
        assert all(program.package for program in each.programs)
        assert set(each.undoers) <= set(UNDOERS)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            spec_of(level="raidz1"),
            "which btrfs does not support. The levels of btrfs are single, raid0",
        ),
        (spec_of(level="raid5", drives=2), "raid5 needs at least 3 drives, but it has 2"),
        (spec_of(level="raid10", drives=5), "an even number of drives, but it has 5"),
        (spec_of(spares=1), "btrfs has no spares"),
        (spec_of(level="raid0", spares=1), "A spare is useless in raid0"),
        (spec_of(logs=1), "btrfs has no logs"),
        (spec_of(caches=2), "btrfs has no caches"),
        (spec_of(legs=2), "btrfs does not stripe over 2 legs"),
        (spec_of(filesystem="xfs"), "btrfs is itself a file system"),
        (spec_of(member_bytes=1 << 20), "btrfs needs at least 109 MiB of each drive"),
    ],
)
def test_what_no_machine_can_build_is_refused_without_looking_at_this_one(
    spec, sentence, monkeypatch
):
    monkeypatch.setattr(registry, "program_path", lambda name: pytest.fail("looked"))
    with pytest.raises(StudyError) as caught:
        registry.check(spec)
    assert sentence in str(caught.value)


def test_what_can_be_built_somewhere_passes_anywhere(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    registry.check(spec_of())
    registry.check(spec_of(legs=2, expose="legs", flaky=True, delay_ms=[50.0]))
    with pytest.raises(TargetError, match="seatrial lab"):
        registry.require(spec_of())


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    needs = (Program(name="mkfs.none-such", package="none-such-progs"),)
    monkeypatch.setattr(type(registry.backend("btrfs")), "programs", needs)
    with pytest.raises(TargetError, match="apt-get install none-such-progs"):
        registry.require(spec_of())


def test_what_the_kernel_lacks_is_said(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(registry, "program_path", lambda name: f"/sbin/{name}")
    builder = registry.backend("btrfs")
    monkeypatch.setattr(builder, "obstacle", lambda: "This kernel has not loaded btrfs")
    with pytest.raises(TargetError, match=r"has not loaded btrfs\. .*seatrial lab"):
        registry.require(spec_of())
    monkeypatch.setattr(builder, "obstacle", lambda: "")
    registry.require(spec_of())
    monkeypatch.setattr(registry, "wrapping_obstacle", lambda spec: "no device-mapper")
    registry.require(spec_of())
    with pytest.raises(TargetError, match="no device-mapper"):
        registry.require(spec_of(flaky=True))


def test_who_builds_nothing_loads_no_backend():
    code = (
        "import sys; from seatrial.machine.undoers import UNDOERS; "
        "UNDOERS['mount']; print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert "seatrial.machine.undoers" in loaded
    assert "layouts.build.backends" not in loaded
