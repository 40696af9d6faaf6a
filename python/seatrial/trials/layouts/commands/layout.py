"""``seatrial layout``: show the variants of a study, build a standing layout, destroy it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seatrial.cli.options import (
    complete_studies,
    destroy_option,
    drives_options,
    json_option,
    plan_option,
)
from seatrial.trials.layouts.build.build import VariantPlan

if TYPE_CHECKING:
    from seatrial.study.schema import Study


from seatrial.study.problems import suggestion
from seatrial.trials.layouts.build.build import describe
from seatrial.trials.layouts.build.standing import build_standing_layout, standing_layouts
from seatrial.trials.layouts.build.terminal import standing_text, variant_text, variants_text

EPILOG = """\b
Examples:
  seatrial layout show                          standing layouts, and available backends
  seatrial layout show raid-sweep --loop 6x2G
  seatrial layout build raid-sweep raid5-4 --loop 6x2G
  seatrial layout destroy raid5-4

\b
See docs/layouts.md.
"""

SHOW_EPILOG = """\b
Examples:
  seatrial layout show                          standing layouts, and available backends
  seatrial layout show raid-sweep               all variants of the study's layouts
  seatrial layout show raid-sweep raid5-4       one variant, with the commands that build it
  seatrial layout show mine.toml --devices /dev/sdb,/dev/sdc,/dev/sdd
"""

BUILD_EPILOG = """\b
Examples:
  seatrial layout build raid-sweep raid5-4 --loop 6x2G --plan
  seatrial layout build raid-sweep raid5-4 --loop 6x2G
  seatrial layout build mine.toml r1 --devices /dev/sdb,/dev/sdc --destroy SERIAL1,SERIAL2

\b
Exit codes: 0 built; 2 usage; 5 refused for safety; 6 a drive or program is missing.
"""

DESTROY_EPILOG = """\b
Examples:
  seatrial layout destroy raid5-4               by label of the variant
  seatrial layout destroy 20261121-171500-3fa2  by run
  seatrial layout destroy --all

\b
Exit codes: 0 removed completely; 1 something could not be undone (see `seatrial clean`).
"""


@click.group("layout", epilog=EPILOG)
def command() -> None:
    """Show, build and destroy layouts: arrays with their file systems.

    A layout built with `layout build` exists until it is destroyed; `seatrial clean` does not
    remove it. Its folder or device can be measured with `seatrial run DIR` or any other tool.
    """


@command.command(
    "show", epilog=SHOW_EPILOG, short_help="Show the layouts of a study, or standing ones."
)
@click.argument("file", required=False, shell_complete=complete_studies)
@click.argument("variant", required=False)
@drives_options
@json_option
def show(
    *,
    file: str | None,
    variant: str | None,
    devices: str,
    loop: str,
    loop_dir: str,
    as_json: bool,
) -> int:
    """Show the layouts of the study FILE, or one VARIANT; without FILE, the standing layouts."""
    if file is None:
        return _show_standing(as_json=as_json)
    from seatrial.trials.layouts.documents import LayoutsDocument  # noqa: PLC0415 - late

    found = _variants(_study(file, devices, loop, loop_dir), variant)
    if as_json:
        click.echo(LayoutsDocument(variants=found).as_text(), nl=False)
    elif variant is not None:
        click.echo(variant_text(found[0]))
    else:
        click.echo(variants_text(found))
    return 0


@command.command("build", epilog=BUILD_EPILOG, short_help="Build a layout and keep it.")
@click.argument("file", shell_complete=complete_studies)
@click.argument("variant")
@drives_options
@destroy_option
@plan_option
@json_option
def build(
    *,
    file: str,
    variant: str,
    devices: str,
    loop: str,
    loop_dir: str,
    destroy: str | None,
    plan_only: bool,
    as_json: bool,
) -> int:
    """Build VARIANT of the layouts of the study FILE, and keep it.

    All data of the devices are lost, so each must be confirmed with --destroy: serial numbers, or
    paths of devices without one, separated by commas. Loop devices use new files.
    """
    study = _study(file, devices, loop, loop_dir)
    (found,) = _variants(study, variant)
    if plan_only:
        return _show_plan(found, as_json=as_json)

    standing = build_standing_layout(
        found.spec,
        study.drives,
        destroy=destroy,
        report=lambda reported: click.echo(reported, err=True),
    )
    if as_json:
        from seatrial.trials.layouts.build.check import check_layouts  # noqa: PLC0415 - only here
        from seatrial.trials.layouts.documents import standing_document  # noqa: PLC0415

        click.echo(standing_document([standing], check_layouts()), nl=False)
    else:
        click.echo(standing_text(standing))
    return 0


@command.command("destroy", epilog=DESTROY_EPILOG, short_help="Remove a standing layout.")
@click.argument("name", required=False)
@click.option("--all", "all_of_them", is_flag=True, help="All of your standing layouts.")
@json_option
def destroy(name: str | None, all_of_them: bool, as_json: bool) -> int:
    """Remove a layout built with `layout build`.

    NAME is its label or its run.
    """
    from seatrial.cli.clean_command import report_undone  # noqa: PLC0415 - not for --help
    from seatrial.trials.layouts.build import standing  # noqa: PLC0415

    _require_one_of(name, all_of_them)
    # Newest first: it may be built on an older one.
    chosen = [standing.find_standing_layout(name)] if name else standing.standing_layouts()[::-1]
    return report_undone(
        [undone for each in chosen for undone in standing.destroy(each)], as_json=as_json
    )


def _require_one_of(name: str | None, all_of_them: bool) -> None:
    if bool(name) == all_of_them:
        raise click.UsageError("give the name of a layout, or --all")


def _study(file: str, devices: str, loop: str, loop_dir: str) -> Study:
    """Return a study with the drives of the command line instead of its own."""
    from seatrial.cli.targets import with_absolute_paths  # noqa: PLC0415 - not for --help
    from seatrial.study.load import load_study  # noqa: PLC0415
    from seatrial.study.override import override  # noqa: PLC0415

    study = override(load_study(file), devices=devices, loop=loop, loop_dir=loop_dir)
    if not study.layouts:
        raise click.UsageError(f"{file} has no [[layout]]; see docs/layouts.md")
    return with_absolute_paths(study)


def _variants(study: Study, label: str | None) -> list[VariantPlan]:
    """Return the variants of a study, or the one of a label."""
    from seatrial.cli.targets import drives_info  # noqa: PLC0415
    from seatrial.study.layouts.targets import drives_of  # noqa: PLC0415
    from seatrial.study.selection import all_variants  # noqa: PLC0415

    specs = list(all_variants(study))
    chosen = [spec for spec in specs if label in (None, spec.label)]
    if not chosen:
        near = suggestion(str(label), [spec.label for spec in specs])
        raise click.UsageError(f"{study.name!r} has no variant {label!r}. {near}")
    drives = drives_info(study) or drives_of(study)
    return [describe(spec, drives) for spec in chosen]


def _show_plan(variant: VariantPlan, *, as_json: bool) -> int:
    from seatrial.trials.layouts.documents import LayoutsDocument  # noqa: PLC0415 - only here

    if as_json:
        click.echo(LayoutsDocument(variants=[variant]).as_text(), nl=False)
    else:
        click.echo(f"{variant_text(variant)}\n\nNothing was changed.")
    return 0


def _show_standing(*, as_json: bool) -> int:
    from seatrial.cli.check_command import layouts_text  # noqa: PLC0415 - only here
    from seatrial.trials.layouts.build.check import check_layouts  # noqa: PLC0415
    from seatrial.trials.layouts.documents import standing_document  # noqa: PLC0415

    existing, check = standing_layouts(), check_layouts()
    if as_json:
        click.echo(standing_document(existing, check), nl=False)
        return 0
    texts = [standing_text(each) for each in existing] or ["There are no standing layouts."]
    click.echo("\n\n".join([*texts, layouts_text(check)]))
    return 0
