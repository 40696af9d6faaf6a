"""``seatrial precondition TARGET``: precondition to steady state; shows the cost first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seatrial import _core
from seatrial.cli.options import (
    MeasureOptions,
    command_line,
    measuring_options,
    model_option,
    target_mapping,
)
from seatrial.errors import EXIT_THRESHOLD

if TYPE_CHECKING:
    from seatrial.study.model import Plan
    from seatrial.study.schema import Study
    from seatrial.trials.io.measure.precondition import Cost


EPILOG = """\b
Examples:
  seatrial precondition /dev/nvme1n1 --plan                 show the cost, write nothing
  seatrial precondition /dev/nvme1n1 --destroy SERIAL       two sequential passes (SNIA PTS)
  seatrial precondition /dev/nvme1n1 --destroy SERIAL --method one-pass
  seatrial precondition /dev/nvme1n1 --destroy SERIAL --verify-with mixed 8k random
  seatrial precondition /mnt/ssd --size 64GiB               only a trial file on the drive
  seatrial precondition simulated --model ssd.toml --method one-pass

\b
Exit codes: 0 steady state reached; 3 not reached after the last round; 4 interrupted; 5 refused
for safety.
"""

Mapped = dict[str, object]

SEQUENTIAL_BLOCK: Final = "128KiB"
RANDOM_BLOCK: Final = "4KiB"
PROOF: Final = ("write", "4k", "random")
ROUND_SHARE: Final = 0.1
"""A round of the steady-state test writes at most this share of the preconditioned range."""


def _over_provisioning(
    _context: click.Context, _parameter: click.Parameter, value: str
) -> float | None:
    """Return the requested share; None for ``auto``; raises BadParameter for other values."""
    if value == "auto":
        return None
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share <= 0.5:
        raise click.BadParameter("give a share above 0 and at most 0.5, such as 0.07, or auto")
    return share


@click.command("precondition", epilog=EPILOG)
@click.argument("target")
@click.option(
    "--method",
    type=click.Choice(["snia", "one-pass"]),
    default="snia",
    show_default=True,
    help="Two sequential passes of 128 KiB, or one random pass that ends in steady state.",
)
@click.option(
    "--over-provisioning",
    default="auto",
    show_default=True,
    metavar="SHARE",
    callback=_over_provisioning,
    help="Over-provisioning of the drive (one-pass); usually 0.07 to 0.28.",
)
@click.option(
    "--verify-with",
    type=(
        click.Choice(["read", "write", "mixed"]),
        str,
        click.Choice(["random", "sequential"]),
    ),
    multiple=True,
    metavar="OPERATION SIZE PATTERN",
    help="Another workload that must be steady, in addition to 4 KiB random writes; may be "
    "repeated.",
)
@click.option("--size", metavar="SIZE", help="Size of the trial file, or part of the device used.")
@click.option("--threads", type=int, default=1, show_default=True, help="Concurrent workers.")
@click.option("--depth", type=int, default=32, show_default=True, help="Queue depth per worker.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Sample duration.")
@click.option(
    "--rounds",
    type=click.IntRange(5, 1000),
    default=25,
    show_default=True,
    help="Maximum rounds of the steady-state test.",
)
@click.option(
    "--discard/--no-discard",
    default=True,
    show_default=True,
    help="Trim the device first: required by one-pass; SNIA requires a purge.",
)
@model_option
@click.option("--seed", type=int, help="Seed of addresses and data.")
@measuring_options
def command(
    *, target: str, model: Path | None, discard: bool, measuring: MeasureOptions, **options: object
) -> int:
    """Precondition TARGET to steady state (SNIA PTS) and verify it; shows the cost first.

    TARGET is a block device, a file, a directory (a trial file is created there) or `simulated`.
    All data of a device or file are lost, so it must be confirmed with --destroy.
    """
    plan, cost = planned(_target_table(target, model, options["size"]), options)
    if measuring.plan_only:
        _show(cost, as_json=measuring.as_json)
        return 0
    return _precondition_and_report(plan, cost, measuring, discards=discard)


def _target_table(target: str, model: Path | None, size: object) -> Mapped:
    """Return the study's target; the state of a simulated device must persist."""
    if target == "null":
        raise click.UsageError("the null target stores nothing and cannot be preconditioned")
    target_table = target_mapping(target, model, size)
    parameters = target_table.get("model")
    if isinstance(parameters, dict):
        target_table["model"] = parameters | {"lasting": True}
    return target_table


def planned(target_table: Mapped, options: Mapped) -> tuple[Plan, Cost]:
    """Return the plan for the target and its cost.

    Args:
        target_table: The target, as in a study.
        options: Options of the command, by name.

    Raises:
        StudyError: if an option is wrong.
        TargetError: if the target does not exist.
    """
    from seatrial.cli.targets import targets_info, with_absolute_paths  # noqa: PLC0415
    from seatrial.machine.fingerprint import take_fingerprint  # noqa: PLC0415 - not for --help
    from seatrial.study.load import study_from_options  # noqa: PLC0415
    from seatrial.study.plan import make_plan  # noqa: PLC0415
    from seatrial.trials.io.measure.precondition import cost_of  # noqa: PLC0415

    study = with_absolute_paths(study_from_options(_study(target_table, options, None, None)))
    infos = targets_info(study)
    (target,) = make_plan(study, infos).targets
    share = _share(options["over_provisioning"], study, target.drive_bytes)
    study = with_absolute_paths(
        study_from_options(_study(target_table, options, target.size_bytes, share))
    )
    plan = make_plan(study, infos)
    path = Path(target.path) if target.path else None
    health = take_fingerprint(path).health if path else {}
    return plan, cost_of(plan, str(options["method"]), health)


def _share(requested: object, study: Study, drive_bytes: int | None) -> float:
    """Return the over-provisioning to assume: requested, from the model, or estimated."""
    from seatrial.trials.io.measure.precondition import guessed_over_provisioning  # noqa: PLC0415

    if isinstance(requested, float):
        return requested
    flash = study.targets[0].model.ftl
    return flash.over_provisioning_share if flash else guessed_over_provisioning(drive_bytes)


def _study(
    target_table: Mapped, options: Mapped, size_bytes: int | None, share: float | None
) -> Mapped:
    """Return the study: fills in the first round, and steady-state tests in every round."""
    concurrent = {"threads": options["threads"], "depths": options["depth"]}
    requested = options["verify_with"]
    proofs = list(dict.fromkeys([PROOF, *(requested if isinstance(requested, tuple) else ())]))
    limit_bytes = None if size_bytes is None else max(1, int(size_bytes * ROUND_SHARE) >> 20) << 20
    study = {
        "name": "precondition",
        "seed": options["seed"],
        "rounds": {"min": 1, "max": options["rounds"]},
        "target": [target_table],
        "workload": [
            *(fill | concurrent for fill in _fills(str(options["method"]), share)),
            *(
                {
                    "kind": "io",
                    "name": f"proof-{number}" if number > 1 else "proof",
                    "operations": operation,
                    "block_sizes": block,
                    "pattern": pattern,
                    "seconds": options["seconds"],
                    "limit_bytes": limit_bytes,
                    **concurrent,
                }
                for number, (operation, block, pattern) in enumerate(proofs, 1)
            ),
        ],
    }
    return {key: _without_none(value) for key, value in study.items() if value is not None}


def _fills(method: str, share: float | None) -> list[Mapped]:
    fill: Mapped = {"kind": "fill", "once": True, "seconds": _core.DURATION_S_MAX}
    if method == "snia":
        passes = ("pass-1", "pass-2")
        return [fill | {"name": name, "block_sizes": SEQUENTIAL_BLOCK} for name in passes]
    one_pass: Mapped = {"name": "one-pass", "pattern": "one_pass", "block_sizes": RANDOM_BLOCK}
    return [fill | one_pass | {"over_provisioning_share": share}]


def _without_none(value: Any) -> Any:  # noqa: ANN401 - whatever a study is made of
    """Return a mapping without the keys, at any depth, whose value is None."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def _show(cost: Cost, *, as_json: bool) -> None:
    from seatrial.trials.io.measure.precondition import (  # noqa: PLC0415
        PreconditionDocument,
        cost_text,
    )

    if as_json:
        click.echo(PreconditionDocument(cost=cost).as_text(), nl=False)
    else:
        click.echo(cost_text(cost))


def _precondition_and_report(
    plan: Plan, cost: Cost, measuring: MeasureOptions, *, discards: bool
) -> int:
    """Print the cost, precondition, verify, report; return the exit code."""
    from seatrial.cli.outcome import measure_and_report  # noqa: PLC0415
    from seatrial.measure.run import RunRequest  # noqa: PLC0415
    from seatrial.stats.steady.phases import snia  # noqa: PLC0415 - loads the analysis
    from seatrial.trials.io.measure.precondition import Conditioning, cost_text  # noqa: PLC0415

    click.echo(cost_text(cost), err=True)
    is_device = plan.targets[0].kind == "device"
    conditioning = Conditioning(snia, discards=discards and is_device)
    request = RunRequest(
        plan=plan,
        command=command_line(),
        label=measuring.label,
        destroy=measuring.destroy,
        waits=measuring.waits,
    )
    code = measure_and_report(
        request,
        measuring.results,
        report=measuring.report,
        as_json=measuring.as_json,
        strategy=conditioning,
    )
    return code if code or conditioning.is_steady else EXIT_THRESHOLD
