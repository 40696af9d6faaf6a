"""A study that imitates a load, and two loads side by side, as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.report.terminal import table_text, wrapped
from seatrial.stats.wording import (
    format_duration_ns,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.load.comparison import LoadFigure
from seatrial.trials.watch.analysis.load.imitation import Imitation
from seatrial.trials.watch.report.load_phrases import number
from seatrial.units import KIB

_SIZES: Final = ("size", "block_sizes", "limit_bytes")
_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    "per_s": lambda value: format_iops(value).removesuffix(" IOPS"),
    "bytes_per_s": format_rate_bytes,
    "share": format_share,
    "bytes": lambda value: format_size(round(value)),
    "ns": format_duration_ns,
    "count": number,
}


def study_text(imitation: Imitation, name: str) -> str:
    """Return the study as a file, with the properties that it imitates or not as comments."""
    comments = [f"Imitates the recording {name}."]
    comments += imitation.imitated
    comments += [f"Not imitated. {each}" for each in imitation.left_out]
    head = "".join(f"# {each}\n" for each in comments)
    return f"{head}\n{_toml(imitation.study)}"


def imitation_text(imitation: Imitation) -> str:
    """Return the properties that a study imitates, and those that it does not."""
    lines = ["Imitated", *(wrapped(each, "- ") for each in imitation.imitated)]
    lines += ["", "Not imitated", *(wrapped(each, "- ") for each in imitation.left_out)]
    return "\n".join(lines)


def comparison_text(a: str, b: str, figures: Sequence[LoadFigure]) -> str:
    """Return two loads side by side, and how many of their figures are near."""
    known = [each for each in figures if each.is_near is not None]
    near = sum(bool(each.is_near) for each in known)
    first = (
        f"{near} of {format_plural(len(known), 'figure')} differ by at most 10 % (shares: 10 "
        "points). The recording was made once, so how far it repeats is unknown."
    )
    table = Table(
        id="loads",
        title=f"{b} against {a}",
        labels=1,
        headers=["Figure", a, b, "Rounds", "Ratio", "Near"],
        rows=[_row(each) for each in figures],
    )
    table = without_empty(table)
    if any(each.b_min is not None for each in figures):
        first += (
            " Latencies of the run are those that its threads saw, those of the recording are the "
            "block layer's."
        )
    return f"{wrapped(first)}\n\n{table_text(table).rstrip()}"


def _row(figure: LoadFigure) -> list[str]:
    shown = _FORMATS[figure.unit]
    a, b = (NO_FIGURE if value is None else shown(value) for value in (figure.a, figure.b))
    rounds = NO_FIGURE
    if figure.b_min is not None and figure.b_max is not None:
        rounds = f"{shown(figure.b_min)} to {shown(figure.b_max)}"
    ratio = f"{figure.b / figure.a:.2f}x" if figure.a and figure.b is not None else NO_FIGURE
    near = {None: NO_FIGURE, True: "yes", False: "no"}[figure.is_near]
    return [figure.name, a, b, rounds, ratio, near]


def _toml(study: Mapping[str, object]) -> str:
    """Return a study as TOML: plain keys, then tables."""
    plain = {key: value for key, value in study.items() if not isinstance(value, dict | list)}
    parts = ["\n".join(_lines(plain))]
    for key, value in study.items():
        if isinstance(value, dict):
            parts.append("\n".join([f"[{key}]", *_lines(value)]))
        elif isinstance(value, list):
            parts += ["\n".join([f"[[{key}]]", *_lines(table)]) for table in value]
    return "\n\n".join(parts) + "\n"


def _in_kib(value: int) -> str | int:
    """Return a size for a study file, in KiB where it is a multiple of that."""
    return f"{value // KIB}KiB" if value % KIB == 0 else value


def _lines(table: Mapping[str, object]) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, list):
            yield f"{key} = ["
            yield from (f"  {_value(item)}," for item in value)
            yield "]"
        else:
            yield f"{key} = {_sized(key, value)}"


def _sized(key: str, value: object) -> str:
    return _value(_in_kib(value) if key in _SIZES and isinstance(value, int) else value)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{key} = {_sized(key, item)}" for key, item in value.items()) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # of text and numbers, TOML's spelling as well
