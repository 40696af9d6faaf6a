"""Line numbers of keys, which tomllib does not tell."""

from __future__ import annotations

import tomllib

import pytest

from seatrial.study.problems import KeyPath, format_path, key_lines, line_of

TEXT = """\
# a comment
name = "x"   # = [ " in a comment
text = '''
[not.a.table]
key = 1
'''
a.b = 3

[rounds]
min = 3

[[workload]]
kind = "matrix"
sizes = [
  "4k",    # one
  "8k", "16k",

  "32k"]
table = { from = 1, to = [2, 3] }
"quoted.key" = 1

[[workload]]
kind = "fill"
  [[workload.part]]
  x = 1
  [[workload.part]]
  x = 2
[last]
[last.inner]
y = 1
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("text",), 3),
        (("a", "b"), 7),
        (("a.b",), 7),
        (("rounds",), 9),
        (("rounds", "min"), 10),
        (("workload", 0), 12),
        (("workload", 0, "sizes"), 14),
        (("workload", 0, "sizes", 0), 15),
        (("workload", 0, "sizes", 2), 16),
        (("workload", 0, "sizes", 3), 18),
        (("workload", 0, "table", "to", 1), 19),
        (("workload", 0, "quoted.key"), 20),
        (("workload", 1), 22),
        (("workload", 1, "part", 1, "x"), 27),
        (("last", "inner", "y"), 30),
        (("workload", 0, "missing"), 12),
        (("rounds", "max"), 9),
        (("nothing",), None),
        ((), None),
    ],
)
def test_lines_are_found(path: KeyPath, line: int | None) -> None:
    tomllib.loads(TEXT)
    assert line_of(path, key_lines(TEXT)) == line


def test_paths_are_printed() -> None:
    assert format_path(("workload", 1, "sizes", 0)) == "workload[1].sizes[0]"
    assert format_path(()) == ""
