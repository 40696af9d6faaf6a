"""The plan as ``--plan`` prints it."""

from __future__ import annotations

from seatrial.study.load import load_study
from seatrial.study.model import TargetInfo
from seatrial.study.override import override
from seatrial.study.plan import make_plan
from seatrial.study.render import render_plan
from study.builders import plan_of

PLAN = """\
Study test

Target trial: directory given at run time, trial file 1 GiB

  workload  tests    a sample  a round  writes at most  what
  ----------------------------------------------------
  fill          1  until full    4.3 s           1 GiB  write; 1 MiB; 1 thread
  io            4         2 s    8.2 s          20 MiB  read, write; 8 KiB; 1, 4 threads; pattern
                                                        random
  commit        6         1 s    6.3 s           6 GiB  commit; 8 KiB; 1, 4, 16 threads; method
                                                        fdatasync, o_dsync
  ----------------------------------------------------
  all          11                 19 s        7.02 GiB

Rounds  3 to 10, until each confidence interval is within ± 5 %
Time    57 s to 3 min, limited to 3 min
Writes  at most 21.1 GiB to 70.3 GiB; 0.7 drive writes on trial (100 GiB)
Space   1.06 GiB: trial.dat 1 GiB, wal.dat 64 MiB (filled before the first round)

"""
BODY = """
[budget]
time_s = 180
[[workload]]
kind = "fill"
[[workload]]
kind = "io"
operations = ["read", "write"]
threads = [1, 4]
seconds = 2
limit_bytes = "10MiB"
[[workload]]
kind = "commit"
"""


def test_a_plan_is_printed() -> None:
    plan = plan_of(BODY, drive_bytes=100 << 30)
    text = render_plan(plan)
    head, last = text.rsplit("Plan ", 1)
    assert head == PLAN
    assert last == f"{plan.plan_hash}, seed 20090220. Nothing was changed.\n"


def test_what_is_left_out_is_reported() -> None:
    text = render_plan(
        make_plan(load_study("quick"), {"trial": TargetInfo(logical_block_bytes=4096)})
    )
    assert "Notes and skipped tests:\n  6 tests of matrix are skipped on trial:" in text


def test_a_plan_that_only_reads_says_so() -> None:
    plan = plan_of('[[workload]]\nkind = "io"', kind="device", size_bytes=1 << 30)
    text = render_plan(plan)
    assert "Writes  nothing\n" in text
    assert "Space" not in text


def test_lines_fit_a_terminal() -> None:
    for name in ("quick", "one-dvd-per-second", "four-kib"):
        text = render_plan(make_plan(override(load_study(name), target_path="/mnt/ssd")))
        assert "directory /mnt/ssd," in text
        assert max(map(len, text.splitlines())) <= 100


def test_factors_show_their_usual_values_too() -> None:
    text = render_plan(
        plan_of(
            '[[workload]]\nkind = "io"\noperations = "write"\nsync_every = [0, 4]\n'
            'direct = [true, false]\nengine = ["auto", "psync"]\npattern = "strided"\n'
            'stride = "64KiB"\n[[workload]]\nkind = "map"\nzones = 16\n'
        )
    )
    reported = " ".join(text.split())
    for factor in ("sync every never, 4", "direct yes, no", "engine auto, psync", "stride 64 KiB"):
        assert factor in reported
    assert "zone 0 to 15" in reported
