"""From the options of ``seatrial sql replay`` to a study of one workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from seatrial.cli.io_command import without_none
from seatrial.errors import UsageError

Mapped = dict[str, Any]

KEY_OPTIONS: Final[Mapping[str, str]] = {
    "until": "until",
    "databases": "database",
    "allow_writes": "allow-writes",
    "read_only": "read-only",
    "url": "to",
    "path": "to",
    "compare_rows": "compare-rows",
}
"""Options whose name is not that of the study's key."""
ONE_PLACE: Final = "trial"
"""What a single place is called unless the user says otherwise."""
LABEL: Final = "target"
"""What the target is called where there is one."""
ROUNDS_OF_SEVERAL: Final = 5
"""Of several targets, for each is compared with the others round by round."""


def study_mapping(trace: Path, options: Mapped) -> Mapped:
    """Return the study that the options describe: one workload on one target, or on several.

    Args:
        trace: The trace.
        options: Those of the command by name; None or empty where one was not given.

    Raises:
        TargetError: when the folder does not exist.
        UsageError: when the trace does not exist, options exclude each other, or the address
            cannot be read.
    """
    if not trace.is_file():
        raise UsageError(
            seen=f"{trace} is no file",
            cause="A replay takes a trace, which `seatrial sql read` makes of logs",
            next_step="Make one: seatrial sql read LOG... -o prod.trace",
        )
    targets = _targets(options)
    rounds = options["rounds"] or (ROUNDS_OF_SEVERAL if len(targets) > 1 else 1)
    _require_sense(targets, rounds, options)
    return {
        "name": "replay",
        "rounds": {"min": rounds, "max": rounds},
        "target": targets,
        "workload": [_workload(trace, options)],
    }


def _workload(trace: Path, options: Mapped) -> Mapped:
    return without_none(
        {
            "kind": "replay",
            "trace": str(trace.absolute()),
            "prepare": _absolute(options["prepare"]),
            "scale": options["scale"],
            "speed": options["speed"],
            "pace": options["pace"].replace("-", "_"),
            "order": options["order"],
            "ids": options["ids"],
            "read_only": options["read_only"] or None,
            "until": options["until_s"],
            "connections": options["connections"],
            "databases": list(options["databases"]) or None,
            "allow": list(options["allow"]) or None,
            "allow_writes": options["allow_writes"],
            "restore": options["restore"],
            "clone": options["clone"],
            "start": options["start"],
            "compare_rows": _absolute(options["compare_rows"]),
        }
    )


def _absolute(written: str | None) -> str | None:
    """Return the path of a file from the root, as a study file has them."""
    return None if written is None else str(Path(written).absolute())


def _targets(options: Mapped) -> list[Mapped]:
    """Return the targets; the first of several once more behind them, for the noise."""
    from seatrial.cli.db.study import places_of  # noqa: PLC0415 - not for --help

    places = places_of(options["places"], (), again=None)
    alone = len(places) == 1
    return [
        without_none(
            {
                "label": LABEL if alone and place.label == ONE_PLACE else place.label,
                "kind": "database" if place.url else "directory",
                "url": place.url or None,
                "path": place.directory or None,
                "pg_bin": options["pg_bin"],
            }
        )
        for place in places
    ]


def _require_sense(targets: Sequence[Mapped], rounds: int, options: Mapped) -> None:
    """Check what no study file could ask for, or what its errors would not name.

    Raises:
        UsageError: when it makes no sense.
    """
    loads = options["prepare"] is not None or options["scale"] is not None
    on_servers = any(target["kind"] == "database" for target in targets)
    if options["prepare"] is not None and options["scale"] is not None:
        raise UsageError(
            seen="--prepare and --scale are given together",
            cause="Each says what the database holds before the replay",
            next_step="Give one of them",
        )
    if on_servers and options["pg_bin"] is not None:
        raise UsageError(
            seen="--pg-bin is given with the address of a server",
            cause="No server is started there",
            next_step="Leave --pg-bin out, or name a folder with --to",
        )
    if options["restore"] is not None and (loads or not on_servers):
        raise UsageError(
            seen="--restore is given, but the replay is sent to a database of our own",
            cause="Each round begins with a copy of what was loaded",
            next_step="Leave --restore out, or name the database that it restores with --to URL",
        )
    stays = on_servers and not loads
    begins_anew = (
        options["read_only"] or options["restore"] is not None or options["clone"] == "template"
    )
    if stays and not begins_anew and (reported := _played_again(targets, rounds, options)):
        raise UsageError(
            seen=reported,
            cause="The second replay would find what the first has written, and fail on it",
            next_step="Restore it before each round with --restore COMMAND, play to copies of it "
            "with --clone template, or replay with --read-only; or replay once to each target in a "
            "run of its own with --label, and compare them with `seatrial sql compare`",
        )
    if options["allow_writes"] is not None and (not stays or options["clone"] == "template"):
        raise UsageError(
            seen="--allow-writes is given, but the replay is sent to a database of our own",
            cause="It names one that is there already, so that it may be written to",
            next_step="Leave --allow-writes out, or --prepare, --scale and --clone template",
        )


def _played_again(targets: Sequence[Mapped], rounds: int, options: Mapped) -> str:
    """Return how a database would be played to more than once; empty where none would be."""
    if rounds > 1:
        usual = "" if options["rounds"] else f" ({rounds}, the default of several targets)"
        return f"Several rounds{usual} are asked for on a database that stays as a replay leaves it"
    urls = [target["url"] for target in targets if "url" in target]
    twice = [url for url in urls if urls.count(url) > 1]
    if not twice:
        return ""
    label = next(target["label"] for target in targets if target.get("url") == twice[0])
    return (
        f"A database that stays as a replay leaves it is played to {urls.count(twice[0])} times in "
        f"one round: {label}, and once more for the noise, as the first of several targets is"
    )
