"""``kill -9`` at every step of arrays of md and LVM and of wrapped drives, and of their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from seatrial.machine.signatures import read_signatures
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.trials.layouts.build.build import build
from seatrial.trials.layouts.build.registry import backend
from seatrial.trials.layouts.build.wrapping import with_wrappers, wrap
from trials.layouts.build.killing import kills, kills_on_the_way

RUN = "20261121-074500-3fa2"
NAME = f"seatrial-{RUN}-1"
MEMBER_BYTES = 24 << 20


def spec_of(name: str, **more) -> LayoutSpec:
    return LayoutSpec(
        label="k", name="k", backend=name, level="raid1", drives=2, filesystem="none",
        member_bytes=MEMBER_BYTES, initial_sync=False, **more,
    )  # fmt: skip


def survived(life: Callable[[], None], disks: list[str], state_dir: Path) -> str:
    """Kill a life at each of its steps, and the cleaning after its end; return all steps."""
    reported = []
    for step in kills(life, commands_only=True):
        reported.append(step)
        failed = [each for each in clean() if each.outcome == "failed"]
        assert not failed, f"killed at: {step}"
        assert list(what_is_left(disks, state_dir)) == [], f"killed at: {step}"
    reported += kills_on_the_way(clean, commands_only=True)
    assert list(what_is_left(disks, state_dir)) == []
    return "\n".join(reported)


def what_is_left(disks: list[str], state_dir: Path) -> Iterator[str]:
    """Yield each thing of ours that is still on the machine."""
    for block in Path("/sys/block").iterdir():
        if block.name.startswith(("md", "dm-")):
            yield block.name
    for disk in disks:
        yield from (f"{disk}: {mark}" for mark in read_signatures(Path(disk)))
    yield from (str(path) for path in state_dir.iterdir() if path.name != "undo.lock")


def test_a_kill_at_any_step_of_a_broken_array_on_wrapped_drives_leaves_nothing(disks, state_dir):
    spec, own = spec_of("md", flaky=True), disks[:3]

    def life() -> None:
        journal = UndoJournal(RUN)
        bare = assigned(spec, own)
        built = build(spec, with_wrappers(bare, wrap(bare.used, spec, journal)), NAME, journal)
        works = backend(spec.backend)
        works.fail(built, 1, 2)
        works.replace(built, 1, 2, own[2])

    steps = survived(life, own, state_dir)
    for word in ("dmsetup create", "--create", "--fail", "--add", "--stop", "--zero", "remove"):
        assert word in steps, f"it never came to {word}"


def test_a_kill_at_any_step_of_a_stripe_over_arrays_leaves_nothing(disks, state_dir):
    spec, own = spec_of("md+lvm", legs=2), disks[:4]
    steps = survived(
        lambda: build(spec, assigned(spec, own), NAME, UndoJournal(RUN)), own, state_dir
    )
    for word in ("pvcreate", "vgcreate", "lvcreate", "vgremove", "pvremove", "--stop", "--zero"):
        assert word in steps, f"it never came to {word}"
