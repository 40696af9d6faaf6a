"""What ``seatrial sql replay`` prints of several targets: an answer, and how they compare."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.cli.files import Output
from seatrial.cli.options import MeasureOptions
from seatrial.cli.outcome import echo_paths
from seatrial.findings.summary import summarise
from seatrial.results.store import ResultsFile
from seatrial.trials.replay.analysis.verdict import verdict_of_rounds
from seatrial.trials.replay.commands.replay import print_replay
from stats.builders import run_of
from trials.replay.analysis.hand import Play, rounds_of

LINES_MAX = 30
LABELS = ("hdd", "ssd", "nvme", "raid5", "raid10", "cloud", "lying", "tmpfs")


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_default_output_is_at_most_thirty_lines(tmp_path, monkeypatch, capsys, count):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    labels = LABELS[:count]
    samples = [
        sample
        for place, label in enumerate(labels)
        for sample in rounds_of(
            Play(target=label, alone=False, capacity_per_s=900.0 + 300 * place, failed=4), 3
        )
    ]
    study = {"target": [{"label": each, "path": f"/mnt/{each}"} for each in labels]}
    run = msgspec.structs.replace(run_of(study=study), status="running")
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as store:
        store.add_run(run, samples)
        results = store.path
    judged = {
        label: verdict_of_rounds([each.replay for each in samples if each.cell.target == label])
        for label in labels
    }
    measuring = MeasureOptions(
        results=results, report=Output(), label="", destroy=None, as_json=False, plan_only=False
    )
    print_replay(summarise(run, samples), judged, measuring, results)
    echo_paths(run, results, tmp_path / "seatrial-reports" / f"{run.id}.html")
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= LINES_MAX, out
    assert len(list(tmp_path.glob("seatrial-hdd-*.html"))) == count - 1
    assert "\nssd compared with hdd: " in out
    assert ("more comparison" in out) == (count > 3)
