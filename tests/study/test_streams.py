"""Streams of an access specification: what the engine is told of them, and mistakes in them."""

from __future__ import annotations

import json
import time

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import parse_study
from study.builders import plan_of

core = pytest.importorskip("seatrial._core", reason="the engine is not built; run 'make setup'")

LOG = '{ size = "8KiB", read = 0, stream = { arrival = "think", pause = 0.001, sync_every = 1 } }'
PAGES = (
    '{ size = "8KiB", read = 0, '
    'stream = { arrival = "batches", rate = 500, burst = 20, threads = 2, depth = 8 } }'
)
WORKLOAD = '[[workload]]\nkind = "mix"\naccesses = "both"\nseconds = 1\n'


def study(*lines: str, workload: str = "") -> str:
    listed = ", ".join(lines)
    return f'{WORKLOAD}{workload}\n[[access]]\nname = "both"\nlines = [{listed}]\n'


def test_hosts_take_no_schedule_of_a_stream():
    hosts = '[hosts]\ncounts = [1, 2]\n[[target]]\npath = "/mnt"\n'
    with pytest.raises(StudyError, match=r"workload\[0\] cannot be measured by several hosts"):
        plan_of(hosts + study(LOG, PAGES))
    assert len(plan_of(hosts + study(LOG)).cells) == 2


def test_each_line_is_a_stream_with_workers_of_its_own():
    (cell,) = plan_of(study(LOG, PAGES)).cells
    assert (cell.threads, cell.depth) == (3, 8)
    assert cell.spec["arrival"] == {"kind": "streams"}
    assert [each["stream"] for each in cell.spec["accesses"]] == [0, 1]
    assert cell.spec["streams"] == [
        {
            "threads": 1,
            "depth": 1,
            "arrival": {"kind": "think", "pause_s": 0.001},
            "sync_every": 1,
        },
        {
            "threads": 2,
            "depth": 8,
            "arrival": {"kind": "batches", "rate_per_s": 500.0, "burst": 20},
            "sync_every": 0,
        },
    ]


def test_the_engine_plays_streams_next_to_each_other(tmp_path):
    (cell,) = plan_of(study(LOG, PAGES)).cells
    trial = tmp_path / "trial.dat"
    trial.write_bytes(bytes(4 << 20))
    spec = json.loads(json.dumps(cell.spec))
    spec["target"] |= {"path": str(trial), "size_bytes": 4 << 20, "direct": False}
    spec["target"].pop("file")
    spec["range"] = {"start_bytes": 0, "length_bytes": 4 << 20}
    spec["limit"] = {"duration_s": 1.0}
    running = core.start(json.dumps(spec))
    deadline_s = time.monotonic() + 20
    while not running.wait(0.2):
        assert time.monotonic() < deadline_s
    sample = running.result()
    writes, syncs = (sample["operations"][name]["completed"] for name in ("write", "sync"))
    assert 0 < syncs < 1200, "a pause of 1 ms on average follows each"
    assert writes - syncs == pytest.approx(500, rel=0.6), "25 batches at random"
    assert sample["outcome"]["failed"] == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (study(LOG, '{ size = "8KiB" }'), "has a stream in some lines only"),
        (study(LOG.replace("pause = 0.001, ", "")), "pause is missing"),
        (study(PAGES.replace("burst = 20, ", "")), "burst is missing"),
        (study(PAGES.replace("rate = 500, ", "")), "rate is missing"),
        (study(LOG.replace("pause", "rate = 5, pause")), "rate has no effect here"),
        (study(LOG.replace("pause", "depth = 2, pause")), "depth is 2"),
        (study(LOG, workload="threads = 4"), "threads has no effect here"),
        (study(LOG, workload="sync_every = 4"), "sync_every has no effect here"),
    ],
)
def test_mistakes_are_reported_where_they_are(text, says):
    with pytest.raises(StudyError) as caught:
        parse_study(f'name = "s"\n{text}', "my.toml")
    assert says in str(caught.value)
