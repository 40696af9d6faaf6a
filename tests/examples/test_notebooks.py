"""The example notebooks: stored without outputs, and every cell of them runs on a real run."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from seatrial.cli.main import seatrial

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and return the value of an expression at its end."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A results file with one run of the simulated device, two rounds of 2.5 s."""
    folder = tmp_path_factory.mktemp("notebook")
    path = folder / "results.seatrial"
    options = ["--results", str(path), "--report", str(folder / "report.html")]
    command = ["io", "simulated", "--rounds", "2", "--seconds", "2.5", "--depth", "4", *options]
    done = CliRunner().invoke(seatrial, command)
    assert done.exit_code == 0, done.output
    return path


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(notebook: Path) -> None:
    for cell in code_cells(notebook):
        assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["id"]


def test_every_cell_of_the_results_notebook_runs(results, monkeypatch, capsys) -> None:
    monkeypatch.setenv("SEATRIAL_RESULTS", str(results))
    before = results.read_bytes()
    names: dict[str, Any] = {"__name__": "notebook"}
    (notebook,) = NOTEBOOKS
    values = [shown("".join(cell["source"]), names) for cell in code_cells(notebook)]
    tables = [value for value in values if hasattr(value, "_repr_html_")]
    charts = [value for value in tables if type(value).__name__ == "Line"]
    assert len(tables) == 5
    assert all("<table" in each._repr_html_() for each in tables if each not in charts)
    # Two timelines of 25 slices and the tail of the last request, one distribution.
    assert charts[0].points == charts[1].points == len(names["line"].t_s) >= 25
    assert charts[2].points == len(names["buckets"].counts)
    assert all('<path d="M' in chart._repr_html_() for chart in charts)
    printed = capsys.readouterr().out
    assert f"{names['run'].summary.cells[0].iops.value:,.0f} IOPS (" in printed
    assert "p99 of this sample: at most " in printed
    assert "0 stalls in 2 samples" in printed
    assert results.read_bytes() == before


def test_every_cell_of_the_results_notebook_runs_on_a_table_of_rates(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SEATRIAL_RESULTS", str(tmp_path / "results.seatrial"))
    (tmp_path / "rates.csv").write_text(
        "configuration,operation,size,threads,iops\na,read,4096,1,9\n"
    )
    done = CliRunner().invoke(seatrial, ["import", str(tmp_path / "rates.csv")])
    assert done.exit_code == 0, done.output
    names: dict[str, Any] = {"__name__": "notebook"}
    (notebook,) = NOTEBOOKS
    for cell in code_cells(notebook):
        shown("".join(cell["source"]), names)
    assert "of this sample: at most" not in capsys.readouterr().out
