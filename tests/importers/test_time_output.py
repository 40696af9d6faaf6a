"""What shells print of a batch's time."""

from __future__ import annotations

import pytest

from seatrial.errors import UsageError
from seatrial.importers.time_output import BatchTime, read_times, span_s, times_of

BASH = "\nreal\t348m6.451s\nuser\t0m4.912s\nsys\t0m0.808s\n"
COMMA = "real\t0m1,500s\nuser\t0m0,250s\nsys\t0m0,000s\n"
POSIX = "real 20886.45\nuser 4.91\nsys 0.80\n"
GNU = "4.91user 0.80system 5:48:06elapsed 0%CPU (0avgtext+0avgdata 9000maxresident)k\n"
GNU_LONG = """\
\tCommand being timed: "./batch.sh"
\tUser time (seconds): 4.91
\tElapsed (wall clock) time (h:mm:ss or m:ss): 5:48:06
\tExit status: 3
"""
ZSH = "./batch.sh  4.91s user 0.80s system 0% cpu 5:48:06.45 total\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BASH, BatchTime(real_s=20886.451, user_s=4.912)),
        (COMMA, BatchTime(real_s=1.5, user_s=0.25)),
        (POSIX, BatchTime(real_s=20886.45, user_s=4.91)),
        (GNU, BatchTime(real_s=20886.0, user_s=4.91)),
        (f"Command exited with non-zero status 1\n{GNU}",
         BatchTime(real_s=20886.0, user_s=4.91, failed=True)),
        (GNU_LONG, BatchTime(real_s=20886.0, user_s=4.91, failed=True)),
        (ZSH, BatchTime(real_s=20886.45, user_s=4.91)),
    ],
)  # fmt: skip
def test_a_time_is_read(text, expected):
    (found,) = times_of(f"rows: 7\nreal estate\n{text}done\n")
    assert found.real_s == pytest.approx(expected.real_s)
    assert found.user_s == pytest.approx(expected.user_s)
    assert found.failed is expected.failed


def test_many_runs_are_many_times(tmp_path):
    path = tmp_path / "nightly.time"
    path.write_text(BASH + POSIX + GNU_LONG)
    found = read_times(str(path))
    assert [round(each.real_s) for each in found] == [20886, 20886, 20886]
    assert [each.failed for each in found] == [False, False, True]


@pytest.mark.parametrize(("text", "seconds"), [("1h2m3.5s", 3723.5), ("30:34.7", 1834.7)])
def test_a_time_can_be_typed(text, seconds):
    assert span_s(text) == pytest.approx(seconds)
    assert read_times(text) == [BatchTime(real_s=seconds)]


@pytest.mark.parametrize("text", ["nightly.time", "tomorrow", "real\t0m0.000s"])
def test_what_holds_no_time_is_refused(text, tmp_path):
    path = tmp_path / "empty.time"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_times(str(path))
    with pytest.raises(UsageError, match="cannot be read"):
        read_times(str(tmp_path / "missing"))
