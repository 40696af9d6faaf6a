"""Imports run down and find what they name, heavy libraries wait until used, SQL has one room."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidy.sources import PRODUCT, Source, assert_kept, breach, ours

# CONTRIBUTING.md, Rooms. A room may import itself, the rooms named here, and the modules that stand
# outside the rooms (such as seatrial.errors), which import no room but _core.
MAY_IMPORT = {
    "_core": set[str](),
    "study": {"_core"},
    "catalogue": {"_core", "study"},
    "machine": {"_core", "study"},
    "results": {"_core", "study"},
    "stats": {"_core", "study", "results"},
    "findings": {"_core", "study", "results", "stats"},
    "report": {"_core", "study", "results", "stats", "findings"},
    "importers": {"_core", "study", "results"},
    "postgres": {"_core", "study", "machine"},
    "lab": {"_core", "study", "machine"},
    "measure": {"_core", "study", "machine", "postgres", "results"},
    "fleet": {"_core", "study", "machine", "results", "measure"},
    "trials": {
        *("_core", "study", "machine", "results", "stats", "findings", "report", "postgres"),
        *("lab", "measure", "catalogue", "fleet"),
    },
}
# Stages of a topic that say what was measured, and must do so years later on another machine.
PURE_STAGES = {"analysis", "findings", "report", "compare"}
MEASURING_ROOMS = {"machine", "postgres", "lab", "measure", "fleet"}
# Why a topic knows another one.
TOPICS_MAY_IMPORT = {
    ("audit", "io"): "it audits tables of block I/O, and measures their cells again",
    ("loadline", "io"): "a load line is a series of open-loop samples of block I/O",
    ("layouts", "io"): "arrays are measured by block I/O",
    ("layouts", "cache"): "an array may have a cache device, whose warm-up is predicted",
    ("layouts", "database"): "databases run on arrays, too",
    ("replay", "database"): "a trace is played to a server that the database topic runs",
    ("database", "replay"): "its stage runs replays as one more kind of load",
    ("audit", "loadline"): "adaptive measuring leaves load lines alone",
    ("watch", "database"): "a server is asked for its own statistics as in a trial of it",
    ("io", "audit"): "the chart of a matrix shows what the audit's model says of it",
    ("watch", "loadline"): "the load of a disk is a point on the load line measured of it",
    ("cache", "io"): "a real cache device is read by the engine of block I/O",
    ("cache", "watch"): "a cache is predicted from a recording of block requests",
    ("cache", "database"): "a sweep starts servers, and the law of 2008 is that of its sweeps",
    ("cache", "replay"): "a sweep plays a trace of SQL",
    ("plan", "watch"): "a load is taken from a recording of block requests",
    ("plan", "replay"): "a log holds the commits of a load and how its rate changes",
    ("plan", "loadline"): "the knee of a load line is a limit",
    ("plan", "cache"): "what a cache serves of a recording reaches no volume",
    ("plan", "layouts"): "what a write costs on an array follows from its level",
    ("watch", "io"): "a recording is replayed by the engine of block I/O",
    ("database", "layouts"): "a timeline marks what happened to the array",
}
TOP_ROOM = "cli"
# Why a file of the generic commands still knows topics; a list that may only shrink.
CLI_KNOWS_TOPICS = {
    "check_command.py": "it says which layouts could be built here",
    "documents.py": "the document of a check holds the same",
    "import_command.py": "hardware that a user declares bounds block I/O",
    "targets.py": "a database needs more of a directory than block I/O does",
    "study_command.py": "a plan shows the commands that would build its layouts",
}
# The stage of a topic that parses, calls and prints, as the top room does: it may import whatever
# that may, and its shared parts. Nothing imports it, as `cli.main` finds it by its name in `Topic`.
COMMANDS = "commands"
MAIN = "seatrial.cli.main"
SCRIPT = "__main__.py"
# The way in for notebooks; and what a topic implements, which names types of every room.
ABOVE_ALL = ("__init__.py", SCRIPT, "notebook.py", "topic.py")
PLAYED_OR_CAPTURED = {"seatrial-gauge", "seatrial-pgwire", "seatrial-sqltext", "seatrial-trace"}
CRATES_MAY_USE = {
    "seatrial-columnar": set[str](),
    "seatrial-gauge": set[str](),
    "seatrial-load": {"seatrial-gauge"},
    "seatrial-files": {"seatrial-gauge", "seatrial-load"},
    "seatrial-sqltext": set[str](),
    "seatrial-pgwire": {"seatrial-sqltext"},
    "seatrial-trace": {"seatrial-columnar", "seatrial-gauge", "seatrial-sqltext"},
    "seatrial-ingest": {"seatrial-gauge", "seatrial-sqltext", "seatrial-trace"},
    "seatrial-capture": PLAYED_OR_CAPTURED,
    "seatrial-playback": PLAYED_OR_CAPTURED,
    "seatrial-model": {"seatrial-gauge"},
    "seatrial-recording": {"seatrial-columnar", "seatrial-gauge", "seatrial-watch"},
    "seatrial-watch": {"seatrial-gauge"},
}
TOP_CRATE = "seatrial-pyext"
HEAVY = {"jinja2", "numpy", "scipy", "ruptures", "rich", "psycopg", "starlette", "uvicorn"}
HEAVY |= {"pyarrow", "duckdb"}
# The SQL of a server under trial, which is no SQL of our own store.
ASKS_THE_SERVER = (
    "postgres/",
    *(f"trials/{topic}/measure/" for topic in ("cache", "database", "replay", "watch")),
)
SQL = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA\s"
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|VIEW))"
)


def room_of(path: str) -> str:
    """The room of a product file; empty for a module that stands outside the rooms."""
    head, slash, _ = path.removeprefix(PRODUCT).partition("/")
    return head if slash else ""


def imports(source: Source, tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Dotted names that a syntax tree imports, with their lines; ``from a import b`` is a.b."""
    package = source.path.removeprefix("python/").split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def upward_imports(sources: list[Source]) -> Iterator[str]:
    rooms = {*MAY_IMPORT, TOP_ROOM}
    for source in sources:
        room = room_of(source.path)
        is_above = room == TOP_ROOM or source.path.removeprefix(PRODUCT) in ABOVE_ALL
        if is_above or stage_of(source.path)[1] == COMMANDS:
            continue
        allowed = MAY_IMPORT.get(room, {"_core"}) | {room}
        for name, line in imports(source, source.tree()):
            root, _, rest = name.partition(".")
            wanted = rest.partition(".")[0]
            if root == "seatrial" and wanted in rooms - allowed:
                yield breach(
                    source, line, f"{room or 'a module alongside the rooms'} imports {wanted}"
                )


def stage_of(path: str) -> tuple[str, str]:
    """Topic and stage of a product file; empty where it is of no topic, or at its top."""
    room, *below = path.removeprefix(PRODUCT).split("/")
    if room != "trials" or len(below) < 2:
        return "", ""
    return below[0], below[1] if len(below) > 2 else below[1].removesuffix(".py")


def impure_stages(sources: list[Source]) -> Iterator[str]:
    """Analysis, findings and sections of a topic that import what measures."""
    for source in sources:
        if stage_of(source.path)[1] not in PURE_STAGES:
            continue
        for name, line in imports(source, source.tree()):
            root, room, *below = [*name.split("."), "", "", ""]
            if root != "seatrial":
                continue
            if room in MEASURING_ROOMS or (room == "trials" and below[1] in ("measure", "build")):
                yield breach(source, line, f"imports {name}, which measures")


def imported_commands(sources: list[Source]) -> Iterator[str]:
    """What imports commands of topics and is none, and what imports the program's main."""
    for source in sources:
        is_command = stage_of(source.path)[1] == COMMANDS
        for name, line in imports(source, source.tree()):
            is_of_command = re.match(rf"seatrial\.trials\.\w+\.{COMMANDS}\b", name)
            is_main = f"{name}.".startswith(f"{MAIN}.") and source.path != f"{PRODUCT}{SCRIPT}"
            if (is_of_command and not is_command) or is_main:
                yield breach(source, line, f"imports {name}, which only a user calls")


def topics_in_cli(sources: list[Source]) -> Iterator[str]:
    """Files of the generic commands that import a topic and are not in the list above."""
    for source in sources:
        path = source.path.removeprefix(f"{PRODUCT}{TOP_ROOM}/")
        for name, line in imports(source, source.tree()):
            if f"{name}.".startswith("seatrial.trials.") and path not in CLI_KNOWS_TOPICS:
                yield breach(source, line, f"imports {name}; let it ask the topics")


def unwritten_topic_imports(sources: list[Source]) -> Iterator[str]:
    """Topics that import another one without a reason above."""
    for source in sources:
        topic, _ = stage_of(source.path)
        for name, line in imports(source, source.tree()):
            root, room, other, *_ = [*name.split("."), "", ""]
            is_other = (root, room) == ("seatrial", "trials") and other not in (topic, "")
            if topic and is_other and (topic, other) not in TOPICS_MAY_IMPORT:
                yield breach(source, line, f"{topic} imports {other} without a written reason")


def unknown_rooms(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        if room_of(source.path) not in {*MAY_IMPORT, TOP_ROOM, ""}:
            yield breach(source, 1, "is in a room that tests/tidy/test_imports.py does not know")


def upward_crates(manifests: list[Source]) -> Iterator[str]:
    for source in manifests:
        manifest = tomllib.loads(source.text)
        name = manifest.get("package", {}).get("name", TOP_CRATE)
        used = {
            crate
            for section in ("dependencies", "dev-dependencies", "build-dependencies")
            for crate in manifest.get(section, {})
            if crate.startswith("seatrial-")
        }
        if name != TOP_CRATE and (above := used - CRATES_MAY_USE.get(name, set())):
            yield breach(source, 1, f"{name} depends on {', '.join(sorted(above))}")


def eager_heavy_imports(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        for statement in eager_statements(source.tree()):
            for name, line in imports(source, statement):
                if name.partition(".")[0] in HEAVY:
                    yield breach(source, line, f"imports {name} before it is used")


def eager_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """The import statements that run when a module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from eager_statements(node)


def sql_elsewhere(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        if room_of(source.path) == "results":
            continue
        tree = source.tree()
        for name, line in imports(source, tree):
            if name.partition(".")[0] == "sqlite3":
                yield breach(source, line, "only results/ knows the store's SQL")
        if source.path.removeprefix(PRODUCT).startswith(ASKS_THE_SERVER):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and SQL.match(str(node.value)):
                yield breach(source, node.lineno, "SQL outside results/")


def names_twice(sources: list[Source]) -> Iterator[str]:
    """What one process of tests would import under a name that something else already has."""
    scripts = [source for source in sources if source.path.startswith(("bench/", "tests/"))]
    packages = {path.parent for path in places(scripts) if path.name == "__init__.py"}
    taken: dict[str, str] = {}
    for source, path in zip(scripts, places(scripts), strict=True):
        root = path if path.parent not in packages else outermost(path.parent, packages)
        if root.stem == "conftest":
            continue
        other = taken.setdefault(root.stem, str(root))
        if other != str(root):
            yield breach(source, 1, f"would be imported as {root.stem}, as {other} is")


def places(sources: list[Source]) -> list[Path]:
    return [Path(source.path) for source in sources]


def outermost(folder: Path, packages: set[Path]) -> Path:
    """The package that a package is in, in the end."""
    while folder.parent in packages:
        folder = folder.parent
    return folder


def test_imports_run_down() -> None:
    assert_kept(upward_imports(ours(".py", ".pyi", under=PRODUCT)))


def test_stages_that_explain_import_no_measuring() -> None:
    assert_kept(impure_stages(ours(".py", under=PRODUCT)))


def test_commands_are_imported_by_no_other_stage() -> None:
    assert_kept(imported_commands(ours(".py", under=PRODUCT)))


def test_generic_commands_name_no_topic() -> None:
    sources = ours(".py", under=f"{PRODUCT}{TOP_ROOM}/")
    assert_kept(topics_in_cli(sources))
    listed = [each for each in sources if Path(each.path).name in CLI_KNOWS_TOPICS]
    assert all("seatrial.trials." in each.text for each in listed)


def test_topics_know_each_other_only_for_a_reason() -> None:
    assert_kept(unwritten_topic_imports(ours(".py", under=PRODUCT)))


def test_every_room_is_known() -> None:
    assert_kept(unknown_rooms(ours(".py", ".pyi", under=PRODUCT)))


def test_crates_depend_downward() -> None:
    manifests = [source for source in ours(".toml") if source.path.endswith("/Cargo.toml")]
    assert manifests
    assert_kept(upward_crates(manifests))


def test_heavy_libraries_are_imported_where_used() -> None:
    assert_kept(eager_heavy_imports(ours(".py", under=PRODUCT)))


def test_sql_stays_in_its_room() -> None:
    assert_kept(sql_elsewhere(ours(".py", under=PRODUCT)))


def test_no_two_modules_of_tests_and_benches_have_one_name() -> None:
    assert_kept(names_twice(ours(".py")))


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from seatrial.cli.main import main\n"
        "sys.argv = ['seatrial', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"loaded = sorted({HEAVY!r} & set(sys.modules))\n"
        "assert not loaded, f'seatrial --help loads {loaded}'\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("stats/a.py", "from seatrial.measure import run"),
        ("stats/a.py", "def f():\n    import seatrial.cli.main"),
        ("stats/a.py", "from seatrial.trials.io import study"),
        ("results/a.py", "from seatrial import findings"),
        ("results/a.py", "from ..stats import estimate"),
        ("study/a.py", "from seatrial.machine.file import TrialFolder"),
        ("errors.py", "from seatrial.study.cell import Cell"),
        ("report/a.py", "from seatrial.machine import fingerprint"),
        ("trials/io/report/a.py", "from seatrial.cli.options import json_option"),
    ],
)
def test_upward_import_is_seen(path: str, text: str) -> None:
    assert list(upward_imports([Source(PRODUCT + path, text)]))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("cli/a.py", "from seatrial.measure import io"),
        ("trials/io/commands/a.py", "from seatrial.cli.options import json_option"),
        ("trials/io/commands.py", "from seatrial import importers"),
        ("stats/a.py", "from seatrial.results.model import Run\nfrom .estimate import Spread"),
        ("results/a.py", "from seatrial import _core\nfrom seatrial.errors import SeatrialError"),
        ("__init__.py", "def open(path):\n    from seatrial.results import store"),
    ],
)
def test_downward_import_is_left_alone(path: str, text: str) -> None:
    assert not list(upward_imports([Source(PRODUCT + path, text)]))


def test_impure_stage_is_seen() -> None:
    path = PRODUCT + "trials/replay/analysis/a.py"
    for text in ("from seatrial.measure import run", "from seatrial.trials.io.measure import io"):
        assert list(impure_stages([Source(path, text)]))
    for text in ("from seatrial.stats import estimate", "import math"):
        assert not list(impure_stages([Source(path, text)]))


def test_imported_command_is_seen() -> None:
    of_io = "from seatrial.trials.io.commands import io"
    main = "def f():\n    from seatrial.cli.main import seatrial"
    for path in ("cli/a.py", "trials/io/topic.py", "trials/io/report/a.py"):
        assert list(imported_commands([Source(PRODUCT + path, of_io)]))
    assert list(imported_commands([Source(PRODUCT + "trials/io/commands/a.py", main)]))
    for path in ("trials/io/commands/a.py", "trials/loadline/commands.py"):
        assert not list(imported_commands([Source(PRODUCT + path, of_io)]))


def test_topic_in_cli_is_seen() -> None:
    text = "def f():\n    from seatrial.trials.io import bounds"
    assert list(topics_in_cli([Source(PRODUCT + "cli/main.py", text)]))
    assert not list(topics_in_cli([Source(PRODUCT + "cli/targets.py", text)]))


def test_unwritten_topic_import_is_seen() -> None:
    text = "from seatrial.trials.layouts import study"
    assert list(unwritten_topic_imports([Source(PRODUCT + "trials/io/a/b.py", text)]))
    assert not list(unwritten_topic_imports([Source(PRODUCT + "trials/layouts/a/b.py", text)]))


def test_unknown_room_is_seen() -> None:
    assert list(unknown_rooms([Source(PRODUCT + "attic/a.py", "")]))


def test_upward_crate_is_seen() -> None:
    gauge = '[package]\nname = "seatrial-gauge"\n[dev-dependencies]\nseatrial-load = "1"\n'
    assert list(upward_crates([Source("crates/gauge/Cargo.toml", gauge)]))
    assert not list(upward_crates([Source("x", gauge.replace("gauge", "pyext"))]))


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np",
        "try:\n    from scipy import stats\nexcept ImportError: ...",
        "class A:\n    import rich.table",
    ],
)
def test_eager_heavy_import_is_seen(text: str) -> None:
    assert list(eager_heavy_imports([Source(PRODUCT + "stats/a.py", text)]))


def test_lazy_heavy_import_is_left_alone() -> None:
    text = "if TYPE_CHECKING:\n    import numpy\ndef f():\n    from scipy import stats\n"
    assert not list(eager_heavy_imports([Source(PRODUCT + "stats/a.py", text)]))


@pytest.mark.parametrize("text", ["import sqlite3", 'query = "SELECT id FROM run"'])
def test_sql_elsewhere_is_seen(text: str) -> None:
    assert list(sql_elsewhere([Source(PRODUCT + "report/a.py", text)]))
    assert not list(sql_elsewhere([Source(PRODUCT + "results/a.py", text)]))


def test_sql_of_the_server_under_trial_is_left_alone_but_not_our_store() -> None:
    place = PRODUCT + "postgres/a.py"
    assert not list(sql_elsewhere([Source(place, 'query = "SELECT version()"')]))
    assert list(sql_elsewhere([Source(place, "import sqlite3")]))


def test_name_of_a_bench_that_hides_a_package_of_tests_is_seen() -> None:
    package = ["tests/lab/__init__.py", "tests/lab/model.py", "tests/lab/inside/__init__.py"]
    others = ["tests/lab/inside/model.py", "tests/report/hand.py", "tests/conftest.py"]
    tree = [Source(path, "") for path in [*package, *others, "bench/conftest.py"]]
    assert not list(names_twice([*tree, Source("bench/lab_speed.py", "")]))
    assert list(names_twice([*tree, Source("bench/lab.py", "")]))
    assert list(names_twice([*tree, Source("tests/cli/hand.py", "")]))
