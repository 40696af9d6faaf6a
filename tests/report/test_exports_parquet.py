"""Runs as Parquet: read back by pyarrow and DuckDB, they are what the results file has."""

from __future__ import annotations

import importlib.util
import itertools
import re
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from functools import reduce
from pathlib import Path

import msgspec
import pytest

from cli.command import seatrial
from report.json_schema import assert_published
from report.sample_run import Maker, make_run, matrix_drafts, other_drafts
from results.builders import make_sample
from seatrial._core import Histogram
from seatrial.report.exports.parquet import files
from seatrial.report.exports.parquet.tables import ANALYSED, TABLES, Row, columns_of
from seatrial.results.model import Corruption, ErrorSample, Series, Verification
from seatrial.results.store import ResultsFile

REASON = "not installed: pip install pyarrow duckdb"
pq = pytest.importorskip("pyarrow.parquet", reason=f"pyarrow is {REASON}")
duckdb = pytest.importorskip("duckdb", reason=f"duckdb is {REASON}")

ROOT = Path(__file__).parents[2]
SQL = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/parquet.md").read_text(), re.DOTALL)
SQL_TYPES = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "real": "DOUBLE",
    "boolean": "BOOLEAN",
    "moment": "TIMESTAMP WITH TIME ZONE",
}


def samples_of_a_drive():
    maker = Maker(7)
    drafts = [*matrix_drafts((4096,), (1, 10), 2), *other_drafts()]
    samples = [sample for draft in drafts for sample in maker.samples(draft)]
    extra = {
        "series": Series(period_s=0.5, columns={"cpu_user_share": [0.25, None]}),
        "errors": [
            ErrorSample(
                operation="read", offset_bytes=512, length_bytes=64, errno=5, name="EIO", at_s=0.5
            )
        ],
        "verification": Verification(
            checked_blocks=9,
            corrupt_blocks=1,
            corruptions=[Corruption(kind="stale", offset_bytes=4096, detail="of round 1")],
        ),
    }
    return [msgspec.structs.replace(samples[0], **extra), *samples[1:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs, exported by the command into ``tables``."""
    folder = tmp_path_factory.mktemp("parquet")
    run = make_run()
    with ResultsFile.open(folder / "results.seatrial", create=True) as store:
        store.add_run(run, samples_of_a_drive())
        second = msgspec.structs.replace(
            run, id=f"{run.id[:-4]}ffff", label="again", seed=2**64 - 1
        )
        store.add_run(second, [make_sample()])
    ended = seatrial("export", "--format", "parquet", "--all", "--output", "tables", folder=folder)
    assert ended.code == 0, ended.err
    return folder


@pytest.fixture(scope="module")
def stored(folder):
    """Every run with its samples, as the results file has them."""
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
        return [(store.run(each), store.samples(each)) for each in store.run_ids()]


def rows(folder, name):
    return pq.read_table(folder / "tables" / f"{name}.parquet").to_pylist()


def key_of(row):
    return row["run_id"], row["cell_key"], row["round"]


def by_sample(stored):
    return {
        (run.id, sample.cell.key, sample.round): sample
        for run, samples in stored
        for sample in samples
    }


def test_every_table_has_the_types_that_are_declared(folder):
    for name, table in TABLES.items():
        found = duckdb.sql(f"DESCRIBE FROM '{folder}/tables/{name}.parquet'").fetchall()
        declared = [(each.name, SQL_TYPES[each.type]) for each in columns_of(table)]
        assert [row[:2] for row in found] == declared
        schema = pq.read_schema(folder / "tables" / f"{name}.parquet")
        assert schema.metadata[b"seatrial_table"] == name.encode()
        assert [schema.field(each.name).nullable for each in columns_of(table)] == [
            each.is_optional for each in columns_of(table)
        ]


def test_counts_are_those_of_the_results_file(folder, stored):
    expected = by_sample(stored)
    found = rows(folder, "samples")
    assert [key_of(row) for row in found] == list(expected)
    for row in found:
        sample = expected[key_of(row)]
        outcome = msgspec.structs.asdict(sample.outcome)
        assert {name: row[name] for name in outcome} == outcome
        assert row["offered"] == sum(value for name, value in outcome.items() if name != "offered")
        assert row["duration_s"] == sample.duration_s
        assert row["started_at"].timestamp() == pytest.approx(sample.started_at, abs=1e-6)
        assert msgspec.json.decode(row["factors_json"]) == sample.cell.factors
    operations = {(key_of(row), row["operation"]): row for row in rows(folder, "operations")}
    assert len(operations) == sum(len(sample.operations) for sample in expected.values())
    for (key, name), row in operations.items():
        result = expected[key].operations[name]
        found = (row["completed"], row["failed"], row["transferred_bytes"])
        assert found == (result.completed, result.failed, result.transferred_bytes)


def test_buckets_are_the_full_histograms(folder, stored):
    found = defaultdict(list)
    for row in rows(folder, "buckets"):
        bucket = (row["low_ns"], row["high_ns"], row["count"])
        found[key_of(row), row["operation"], row["time"]].append(bucket)
    expected = {
        (key, name, "response"): list(zip(*result.response_histogram().buckets(), strict=True))
        for key, sample in by_sample(stored).items()
        for name, result in sample.operations.items()
    }
    assert found == {key: buckets for key, buckets in expected.items() if buckets}


def test_slices_are_the_full_timelines(folder, stored):
    buckets = defaultdict(int)
    for row in rows(folder, "slice_buckets"):
        buckets[key_of(row), row["operation"], row["slice"]] += row["count"]
    slices = rows(folder, "slices")
    assert {
        (key_of(row), row["operation"], row["slice"]): row["completed"] for row in slices
    } == buckets
    expected = [
        (key, part.operation, part.index * sample.timeline.slice_ns, part.completed)
        for key, sample in by_sample(stored).items()
        for part in sample.timeline.slices
    ]
    assert [
        (key_of(row), row["operation"], row["start_ns"], row["completed"]) for row in slices
    ] == expected


def test_percentiles_by_the_documented_query_are_those_of_the_report(folder, stored):
    query = next(sql for sql in SQL if "p99_ns" in sql).replace("'tables/", f"'{folder}/tables/")
    found = {row[:3]: row[3] for row in duckdb.sql(query.rstrip().rstrip(";")).fetchall()}
    merged = defaultdict(list)
    for key, sample in by_sample(stored).items():
        for name, result in sample.operations.items():
            if result.completed:
                merged[(*key[:2], name)].append(result.response_histogram())
    assert found.keys() == merged.keys()
    for key, histograms in merged.items():
        histogram = reduce(Histogram.merged, histograms)
        limited_ns = min(max(found[key], histogram.min_ns), histogram.max_ns)
        assert limited_ns == histogram.percentile_ns(99), key


def test_percentiles_of_a_sample_are_those_of_its_json(folder, stored):
    run, _ = stored[0]
    ended = seatrial("export", run.id, "--json", folder=folder)
    published = {
        (each["cell_key"], each["round"]): each["operations"] for each in ended.document["samples"]
    }
    checked = 0
    for row in rows(folder, "operations"):
        if row["run_id"] != run.id:
            continue
        times = published[row["cell_key"], row["round"]][row["operation"]]["response_ns"]
        for name in ("min", "mean", "p50", "p90", "p99", "p99_9", "max"):
            published_name = name.replace("_", ".")
            assert row[f"response_ns_{name}"] == times.get(published_name), name
            checked += published_name in times
    assert checked > 100


def test_other_documented_queries_run(folder):
    query = next(sql for sql in SQL if "median" in sql).replace("'tables/", f"'{folder}/tables/")
    assert duckdb.sql(query.rstrip().rstrip(";")).fetchall()


def test_parts_of_samples_are_there(folder, stored):
    assert rows(folder, "series")[0]["value"] == 0.25
    assert [row["value"] for row in rows(folder, "series")] == [0.25, None]
    assert [row["start_s"] for row in rows(folder, "series")] == [0.0, 0.5]
    assert next((row["name"], row["errno"]) for row in rows(folder, "errors")) == ("EIO", 5)
    assert rows(folder, "corruptions")[0]["detail"] == "of round 1"
    stalls = [stall for sample in by_sample(stored).values() for stall in sample.stalls]
    assert [row["length_s"] for row in rows(folder, "stalls")] == [each.length_s for each in stalls]
    assert stalls
    counters = sum(len(sample.counters) for sample in by_sample(stored).values())
    assert len(rows(folder, "counters")) == counters


def test_figures_and_findings_are_those_of_the_report(folder, stored):
    run, _ = stored[0]
    document = seatrial("export", run.id, "--json", folder=folder).document
    findings = [row["sentence"] for row in rows(folder, "findings") if row["run_id"] == run.id]
    assert findings == [each["sentence"] for each in document["findings"]]
    assert findings
    rates = {
        row["cell_key"]: (row["value"], row["low"], row["rounds"])
        for row in rows(folder, "figures")
        if row["run_id"] == run.id and row["figure"] == "completed_per_s"
    }
    for cell in document["cells"]:
        iops = cell["iops"]
        assert rates[cell["key"]] == (iops["value"], iops["low"], iops["rounds"])


def test_runs_and_targets_have_the_facts_of_the_machine(folder, stored):
    first, second = rows(folder, "runs")
    machine = stored[0][0].fingerprint_before.machine
    assert first["kernel"] == machine.kernel
    assert machine.cpu_model in first["host"]
    assert (second["label"], second["seed"]) == ("again", str(2**64 - 1))
    assert first["ended_at"].timestamp() == stored[0][0].ended_at
    drives = [each.model for each in stored[0][0].fingerprint_before.physical_devices]
    assert rows(folder, "targets")[0]["drive"] == ", ".join(drives)


def test_only_wanted_tables_are_written_and_without_analysis(folder, tmp_path, monkeypatch):
    names = [name for name in TABLES if name not in ANALYSED]
    places = {name: tmp_path / f"{name}.parquet" for name in names}
    monkeypatch.setattr("seatrial.report.exports.parquet.files.summarise", None)
    written = files.write_tables([(make_run(), [make_sample()])], places)
    assert written["samples"] == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        f"{name}.parquet" for name in names
    )


def test_the_command_names_its_files(folder):
    ended = seatrial(
        *("export", "again", "last", "--format", "parquet", "--table", "samples", "--json"),
        folder=folder,
    )
    assert_published(ended.document)
    assert ended.document["files"] == {"samples": "seatrial-parquet/samples.parquet"}
    assert ended.document["rows"] == {"samples": 1}
    assert len(ended.document["run_ids"]) == 1, "the same run by two names"


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("last", "--format", "parquet", "--all"), "--all was given together"),
        (("--format", "parquet", "--output", "-"), "standard output"),
        (("nothing", "--format", "parquet"), "contains no run 'nothing'"),
        (("last", "--all"), "--all was given"),
        (("last", "--table", "runs"), "--table was given"),
        (("last", "again"), "More than one run"),
        (("--format", "parquet", "--cell", "x"), "--cell was given"),
        (("--format", "parquet", "--output", "results.seatrial"), "cannot be created"),
    ],
)
def test_what_cannot_be_exported_is_refused(folder, arguments, seen):
    before = sorted(folder.rglob("*"))
    ended = seatrial("export", *arguments, folder=folder)
    assert (ended.code, seen in ended.err) == (2, True), ended.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("content", [b"a diary\n", b"PAR1 a trace \x05\0\0\0PAR1", b"PAR1"])
def test_a_file_that_is_no_table_is_not_replaced(folder, tmp_path, content):
    place = tmp_path / "samples.parquet"
    place.write_bytes(content)
    export = ("export", "--format", "parquet", "--table", "samples", "--output", tmp_path)
    assert seatrial(*export, folder=folder).code == 5
    assert place.read_bytes() == content
    assert seatrial(*export, "--force", folder=folder).code == 0
    assert seatrial(*export, folder=folder).code == 0, "a table is replaced"


def test_nothing_changes_where_a_run_cannot_be_read(tmp_path):
    place = tmp_path / "samples.parquet"
    files.write_tables([(make_run(), [make_sample()])], {"samples": place})
    before = place.read_bytes()

    def measured():
        yield make_run(), [make_sample()]
        raise OSError("the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        files.write_tables(measured(), {"samples": place, "runs": tmp_path / "runs.parquet"})
    assert list(tmp_path.iterdir()) == [place]
    assert place.read_bytes() == before


def test_absent_pyarrow_is_named(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name)
    )
    with pytest.raises(Exception, match="pyarrow, which is not installed") as raised:
        files.require_pyarrow()
    assert "pip install 'seatrial[parquet]'" in str(raised.value)


def test_text_that_is_not_utf8_is_written_as_codes(tmp_path):
    run = msgspec.structs.replace(make_run(), command="run /mnt/\udcff")
    files.write_tables([(run, [])], {"runs": tmp_path / "runs.parquet"})
    (row,) = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    assert row["command"] == "run /mnt/\\xff"


def test_memory_does_not_grow_with_the_number_of_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROWS_A_GROUP", 500)
    places = {
        name: tmp_path / f"{name}.parquet" for name in ("runs", "samples", "operations", "buckets")
    }

    def peak_bytes(runs_count: int) -> int:
        ids = (f"20261121-074500-{number:04x}" for number in itertools.count())
        measured = (
            (msgspec.structs.replace(make_run(), id=run_id), [make_sample()])
            for run_id in itertools.islice(ids, runs_count)
        )
        tracemalloc.start()
        written = files.write_tables(measured, places)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert written["runs"] == runs_count
        return peak

    peak_bytes(10)  # what is loaded and kept once
    assert peak_bytes(3000) < 1.3 * peak_bytes(600)
    found = pq.ParquetFile(places["buckets"])
    assert found.metadata.num_row_groups > 1


@pytest.fixture
def generator(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools/generate")
    spec = importlib.util.spec_from_file_location(
        "generate_parquet", ROOT / "tools/generate/parquet.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_declaration():
    script = ROOT / "tools/generate/parquet.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_column_without_documentation_is_refused(generator):
    class Bare(Row, frozen=True, kw_only=True):
        """A table."""

        size_bytes: int

    with pytest.raises(ValueError, match="The column size_bytes of Bare is not explained"):
        list(generator.section("bare", Bare))
