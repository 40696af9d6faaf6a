"""A run is gone on with on the targets that it was measured on, and on nothing else."""

import msgspec
import pytest

from seatrial.cli.study_command import plan_of
from seatrial.errors import TargetError
from seatrial.fingerprint import Fingerprint, Target
from seatrial.measure import run
from seatrial.measure.run import require_same_targets
from stats.builders import run_of

STUDY = """
name = "two"

[[target]]
label = "one"
path = "{one}"

[[target]]
label = "other"
path = "{other}"

[[workload]]
kind = "io"
"""
DISK = {"name": "sda", "kind": "disk", "model": "One", "size_bytes": 1 << 40, "serial_hash": "ab"}
MOUNTED = {"type": "xfs", "mount_point": "/mnt/ssd", "free_bytes": 7}


@pytest.fixture
def plan(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(one=tmp_path / "one", other=tmp_path / "other"))
    return plan_of(str(study))


def facts(stack=(DISK,), filesystem=MOUNTED):
    return msgspec.convert({"stack": stack, "filesystem": filesystem}, Target)


def require(monkeypatch, plan, then, now):
    """Check targets that lie on ``now``, in a run which was measured on ``then``; by label."""
    monkeypatch.setattr(run, "target_fingerprint", lambda path: now[path.name])
    before = Fingerprint(target=then["one"], other_targets={"other": then["other"]})
    require_same_targets(msgspec.structs.replace(run_of(), fingerprint_before=before), plan)


@pytest.mark.parametrize(
    "now",
    [
        facts(),
        facts(stack=[DISK | {"name": "sdb"}]),
        facts(filesystem=MOUNTED | {"free_bytes": 3}),
        facts(stack=[]),
        facts(filesystem=None),
        None,
    ],
    ids=["same", "renamed", "fuller", "no-device-visible", "no-file-system", "unknown"],
)
def test_the_same_or_what_cannot_be_reported_is_gone_on_with(monkeypatch, plan, now):
    require(monkeypatch, plan, {"one": facts(), "other": facts()}, {"one": now, "other": facts()})


@pytest.mark.parametrize(
    ("now", "reported"),
    [
        (facts(filesystem=MOUNTED | {"mount_point": "/"}), "is now on .* with xfs on /\\."),
        (facts(filesystem=MOUNTED | {"type": "ext4"}), "is now on .* with ext4 on /mnt/ssd"),
        (facts(stack=[DISK | {"serial_hash": "cd"}]), r"sda \(1 TiB, One\)"),
        (facts(stack=[DISK | {"size_bytes": 1 << 30}]), r"sda \(1 GiB, One\)"),
        (facts(stack=[DISK, DISK | {"name": "sdb"}]), "is now on sda .*"),
    ],
    ids=["not-mounted", "formatted", "other-drive", "other-size", "more-drives"],
)
@pytest.mark.parametrize("label", ["one", "other"])
def test_something_else_at_the_same_path_is_refused(monkeypatch, plan, label, now, reported):
    then = {"one": facts(), "other": facts()}
    with pytest.raises(TargetError, match=reported) as refused:
        require(monkeypatch, plan, then, then | {label: now})
    assert f"/{label} was on sda (1 TiB, One) with xfs on /mnt/ssd" in str(refused.value)


@pytest.mark.parametrize(
    ("then", "now", "is_same"), [("ab", "ab", True), ("ab", "cd", False), (None, "cd", True)]
)
def test_the_same_name_and_size_on_another_medium_is_another_target(
    monkeypatch, plan, then, now, is_same
):
    """Such as a loop device that was made again of another file; older runs do not know of it."""
    was, is_now = (facts(stack=[DISK | {"medium_hash": each}]) for each in (then, now))
    places = {"one": was, "other": facts()}
    if is_same:
        require(monkeypatch, plan, places, places | {"one": is_now})
        return
    with pytest.raises(TargetError):
        require(monkeypatch, plan, places, places | {"one": is_now})
