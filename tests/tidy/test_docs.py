"""What is public is explained: names, dependencies, exit codes, skipped tests."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

import pytest

from seatrial.errors import EXIT_CODES
from seatrial.topic import Topic, own_topics
from tidy.sources import PRODUCT, ROOT, Source, assert_kept, breach, ours

DEPENDENCY_SECTION = re.compile(r"\[(?:[\w.'\"()-]+\.)?(?:dev-|build-)?dependencies(\.\S+)?\]")
OWN_EXCEPTION = re.compile(r"raises?\b", re.IGNORECASE)
EXIT_CODE_ROW = re.compile(r"^\| (\d+) \| (.+?) \|$", re.MULTILINE)
# In two parts, so that a search of the tree for skipped tests does not stop here.
SKIP_MARK = "pytest.mark." + "skip"
ALWAYS = re.escape(SKIP_MARK) + r"\b"
SKIPS = (SKIP_MARK, "pytest.skip", "pytest.xfail", "pytest.importorskip")
SKIPS += ("pytest.mark.skipif", "pytest.mark.xfail")
OVERRIDES = ("text", "in_short")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_nodes(node: Documented) -> Iterator[Documented]:
    """A module or class and every public name inside it, less what functions keep to themselves."""
    yield node
    if not isinstance(node, ast.Module | ast.ClassDef):
        return
    for child in node.body:
        named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if named and not child.name.startswith("_"):
            yield from public_nodes(child)


def is_setter_or_overload(node: Documented) -> bool:
    """Whether a function repeats a name that is explained elsewhere."""
    decorators = [] if isinstance(node, ast.Module) else node.decorator_list
    return any(ast.unparse(each).endswith((".setter", "overload")) for each in decorators)


def name_of(node: Documented) -> str:
    return "the module" if isinstance(node, ast.Module) else node.name


def figures_of_findings(tree: ast.Module) -> Iterator[ast.stmt]:
    """Subclasses of ``Figures`` and what they override: tag and base class explain these."""
    for node in ast.walk(tree):
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        if any(ast.unparse(base).endswith(("Figures", "InShort")) for base in bases):
            yield node
            yield from (each for each in node.body if getattr(each, "name", "") in OVERRIDES)


def undocumented(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        tree = source.tree()
        explained = {*figures_of_findings(tree)}
        for node in public_nodes(tree):
            if is_setter_or_overload(node) or node in explained:
                continue
            if not ast.get_docstring(node):
                line = getattr(node, "lineno", 1)
                yield breach(source, line, f"{name_of(node)} has no docstring")


def unannounced_errors(sources: list[Source]) -> Iterator[str]:
    """Public functions that raise an error of their own and do not say so."""
    for source in sources:
        for node in public_nodes(source.tree()):
            if isinstance(node, ast.Module | ast.ClassDef) or not raises(node):
                continue
            if not OWN_EXCEPTION.search(ast.get_docstring(node) or ""):
                yield breach(source, node.lineno, f"{node.name} does not say what it raises")


def raises(function: ast.AST) -> bool:
    """Whether a function itself, not one inside it, makes and raises an error."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            return True
        inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)
        if not inner and raises(node):
            return True
    return False


def unexplained_crates(manifests: list[Source]) -> Iterator[str]:
    """Dependencies of a Cargo.toml without a comment above or behind them."""
    for source in manifests:
        inside = False
        above = ""
        for number, line in enumerate(source.lines, start=1):
            section = DEPENDENCY_SECTION.match(line)
            if line.startswith("["):
                inside = bool(section)
            names_one = bool(section and section[1]) or (inside and re.match(r"[\w-]+.*=", line))
            if names_one and not above.startswith("#") and " # " not in line:
                yield breach(source, number, f"no reason given for {line.strip()}")
            if section and section[1]:
                inside = False
            above = line


def unexplained_packages(source: Source) -> Iterator[str]:
    """Dependencies of pyproject.toml without a comment behind them."""
    document = tomllib.loads(source.text)
    project = document.get("project", {})
    wanted = [*project.get("dependencies", []), *document["build-system"]["requires"]]
    for group in project.get("optional-dependencies", {}).values():
        wanted += group
    for name in wanted:
        for number, line in enumerate(source.lines, start=1):
            if f'"{name}"' in line and not re.search(r"# \w+", line):
                yield breach(source, number, f"no reason given for {name}")


def unexplained_skips(sources: list[Source]) -> Iterator[str]:
    """Tests skipped without a reason, or whatever the machine (a bare mark on the test)."""
    for source in sources:
        tree = source.tree()
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in always_skipped(tree):
            yield breach(source, node.lineno, "a test that never runs; say when it can")
        for node in ast.walk(tree):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if name in SKIPS and not has_reason(name, calls.get(id(node))):
                yield breach(source, node.lineno, f"{name} without a reason")


def always_skipped(tree: ast.AST) -> Iterator[ast.expr]:
    """Marks that skip unconditionally: decorators and ``pytestmark``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marks = node.decorator_list
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks = [node.value]
        else:
            continue
        yield from (mark for mark in marks if re.search(ALWAYS, ast.unparse(mark)))


def has_reason(name: str, call: ast.Call | None) -> bool:
    if call is None:
        return False
    positional = name in ("pytest.skip", "pytest.xfail") and bool(call.args)
    return positional or any(keyword.arg == "reason" for keyword in call.keywords)


def test_public_names_are_explained() -> None:
    assert_kept(undocumented(ours(".py", ".pyi", under=PRODUCT)))


def test_public_functions_say_what_they_raise() -> None:
    assert_kept(unannounced_errors(ours(".py", under=PRODUCT)))


def test_every_crate_has_a_reason() -> None:
    assert_kept(unexplained_crates([each for each in ours(".toml") if "Cargo" in each.path]))


def test_every_package_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert_kept(unexplained_packages(Source("pyproject.toml", text)))


def test_every_skip_has_a_reason() -> None:
    assert_kept(unexplained_skips(ours(".py", under="tests/")))


def test_the_page_of_commands_has_every_exit_code() -> None:
    rows = EXIT_CODE_ROW.findall((ROOT / "docs/commands.md").read_text())
    assert {int(code): meaning for code, meaning in rows} == EXIT_CODES


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        '"""M."""\ndef f(): ...',
        '"""M."""\nclass A:\n    """A."""\n    def f(self): ...',
    ],
)
def test_undocumented_name_is_seen(text: str) -> None:
    assert list(undocumented([Source("a.py", text)]))


def test_private_name_is_left_alone() -> None:
    text = '"""M."""\ndef _f():\n    def g(): ...\nclass _A:\n    def f(self): ...'
    assert not list(undocumented([Source("a.py", text)]))


def test_figures_of_a_finding_need_no_explanation() -> None:
    text = (
        '"""M."""\nclass A(Figures, tag="a"):\n    def text(self): ...\n    def in_short(self): ...'
    )
    assert not list(undocumented([Source("a.py", text)]))
    assert list(undocumented([Source("a.py", text.replace("Figures", "Struct"))]))
    (other,) = undocumented([Source("a.py", text.replace("in_short", "further"))])
    assert "further" in other


def test_unannounced_error_is_seen() -> None:
    text = 'def f():\n    """F."""\n    if x:\n        raise ValueError("no")'
    assert list(unannounced_errors([Source("a.py", text)]))
    announced = text.replace("F.", "F.\n\n    Raises:\n        ValueError: never.\n    ")
    assert not list(unannounced_errors([Source("a.py", announced)]))


@pytest.mark.parametrize(
    "text",
    [
        '[dependencies]\nlibc = "0.2"',
        '# Why.\n[dev-dependencies]\nproptest = "1"',
        '[dependencies]\n# Why.\nlibc = "0.2"\nrand = "1"',
        '[target."cfg(unix)".dependencies]\nlibc = "0.2"',
        '[dependencies.rand]\nversion = "1"',
    ],
)
def test_unexplained_crate_is_seen(text: str) -> None:
    assert list(unexplained_crates([Source("Cargo.toml", text)]))


def test_explained_crate_is_left_alone() -> None:
    text = '[package]\nname = "x"\n[dependencies]\n# Why.\nlibc = "0.2"\nrand = "1" # Why.\n'
    text += '# Why.\n[dependencies.serde]\nversion = "1"\n'
    assert not list(unexplained_crates([Source("Cargo.toml", text)]))


def test_unexplained_package_is_seen() -> None:
    text = '[build-system]\nrequires = ["maturin"]\n'
    assert list(unexplained_packages(Source("pyproject.toml", text)))
    assert not list(unexplained_packages(Source("a", text.replace("\n", " # why\n"))))


@pytest.mark.parametrize(
    "text",
    [
        f"@{SKIP_MARK}\ndef test(): ...",
        f"@{SKIP_MARK}(reason='later')\ndef test(): ...",
        f"pytestmark = [{SKIP_MARK}(reason='later')]",
        f"def root(item):\n    item.add_marker({SKIP_MARK})",
        "@pytest.mark.skipif(True)\ndef test(): ...",
        "pytest.skip()",
        "pytest.importorskip('numpy')",
    ],
)
def test_unexplained_skip_is_seen(text: str) -> None:
    assert list(unexplained_skips([Source("a.py", text)]))


def test_explained_skip_is_left_alone() -> None:
    text = "pytest.skip('needs root')\n@pytest.mark.skipif(x, reason='needs root')\ndef t(): ...\n"
    text += f"def root(item):\n    item.add_marker({SKIP_MARK}(reason='needs root'))"
    assert not list(unexplained_skips([Source("a.py", text)]))


def kinds_of(topic: Topic) -> set[str]:
    return {str(kind.__struct_config__.tag) for kind in topic.workloads()}


def test_every_kind_of_workload_has_its_section_on_the_page_of_study_files() -> None:
    page = (ROOT / "docs/study-file.md").read_text()
    headings = " ".join(re.findall(r"^### (.*)$", page, re.MULTILINE))
    documented = set(re.findall(r"`(\w+)`", headings))
    assert {kind for topic in own_topics() for kind in kinds_of(topic)} <= documented


def test_every_kind_of_block_io_has_tables() -> None:
    (topic,) = (each for each in own_topics() if each.name == "io")
    assert kinds_of(topic) == set(topic.titles), "cells of other kinds are in no table"
