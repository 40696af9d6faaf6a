"""What is stored comes back equal, whatever it holds."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up import made_up
from results.builders import make_cell, make_database_sample, make_record, make_run, make_sample
from results.replay_records import make_replay_record
from seatrial._core import Histogram
from seatrial.errors import ResultsFileError, UsageError
from seatrial.fingerprint import Fingerprint, FingerprintAfter
from seatrial.results.model import (
    OPERATIONS,
    ArrayEvent,
    Corruption,
    DatabaseRecord,
    ErrorSample,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Series,
    Slice,
    Stall,
    Timeline,
    Verification,
)
from seatrial.results.replay import STATEMENTS, ReplayAccount
from seatrial.results.store import ResultsFile
from seatrial.study.cell import Cell

RUN_ID = "20261121-074500-3fa2"
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
counts = st.integers(0, 2**63 - 1)
figures = st.floats(allow_nan=False, allow_infinity=False)
factors = st.dictionaries(texts, st.one_of(texts, st.integers(-(2**53), 2**53), st.booleans()))
documents = st.dictionaries(
    texts,
    st.recursive(
        st.one_of(st.none(), st.booleans(), texts, st.integers(-(2**53), 2**53), figures),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)
histograms = st.lists(st.integers(0, 2**42), max_size=20).map(
    lambda values: Histogram.of(values).encode()
)
operations = st.sampled_from(OPERATIONS)
runs = st.builds(
    Run,
    id=texts,
    command=texts,
    label=texts,
    study_name=texts,
    study=documents,
    plan_hash=texts,
    seed=st.integers(0, 2**64 - 1),
    status=st.sampled_from(["running", "complete", "interrupted", "failed"]),
    started_at=figures,
    ended_at=st.none() | figures,
    fingerprint_before=made_up(Fingerprint),
    fingerprint_after=made_up(FingerprintAfter),
    seatrial_version=texts,
)
cells = st.builds(
    Cell,
    key=texts,
    target=texts,
    workload=texts,
    kind=texts,
    operation=texts,
    block_size_bytes=counts,
    threads=counts,
    depth=counts,
    factors=factors,
    spec=documents,
)
series = st.integers(0, 6).flatmap(
    lambda length: st.builds(
        Series,
        period_s=figures,
        columns=st.dictionaries(
            texts, st.lists(st.none() | figures, min_size=length, max_size=length), max_size=3
        ),
    )
)
records = st.builds(
    DatabaseRecord,
    server=texts,
    binaries=texts,
    settings=st.dictionaries(texts, texts, max_size=3),
    start_state=texts,
    cached_bytes=st.none() | counts,
    database_bytes=counts,
    loaded_s=st.none() | figures,
    loaded_rows=counts,
    cloned=texts,
    cloned_s=figures,
    waits=st.dictionaries(texts, counts, max_size=3),
    reported=st.dictionaries(texts, figures, max_size=3),
    client_cpu_share=st.none() | figures,
    ceiling_per_s=st.none() | figures,
    batch_s=st.dictionaries(texts, figures, max_size=3),
    notes=st.lists(texts, max_size=2),
)
replays = st.builds(
    make_replay_record,
    classes=st.dictionaries(
        st.sampled_from(STATEMENTS),
        st.builds(
            ReplayAccount,
            skipped=st.dictionaries(texts, counts, max_size=3),
            **dict.fromkeys(("captured", "ok", "failed", "not_reached"), counts),
        ),
        max_size=3,
    ),
    captured_s=figures,
    words=texts,
    trace=st.dictionaries(texts, texts, max_size=3),
)
samples = st.builds(
    Sample,
    cell=cells,
    round=counts,
    position=counts,
    started_at=figures,
    duration_s=figures,
    status=st.sampled_from(["complete", "interrupted"]),
    engine=texts,
    engine_reason=texts,
    outcome=st.builds(Outcome, **dict.fromkeys(Outcome.__struct_fields__, counts)),
    operations=st.dictionaries(
        operations,
        st.builds(
            OperationResult,
            completed=counts,
            failed=counts,
            transferred_bytes=counts,
            response=histograms,
            service=st.none() | histograms,
        ),
    ),
    timeline=st.builds(
        Timeline,
        slice_ns=counts,
        slices=st.lists(
            st.builds(
                Slice,
                index=st.integers(0, 2**40),
                operation=operations,
                completed=counts,
                transferred_bytes=counts,
                response=histograms,
            ),
            max_size=8,
        ),
    ),
    stalls=st.lists(
        st.builds(
            Stall,
            start_s=figures,
            length_s=figures,
            cause=texts,
            operations=st.dictionaries(operations, st.integers(0, 2**31)),
            depth=counts,
            evidence=documents,
        ),
        max_size=3,
    ),
    stalls_dropped=counts,
    oldest_in_flight_ns=counts,
    errors_count=counts,
    errors=st.lists(
        st.builds(
            ErrorSample,
            operation=operations,
            offset_bytes=counts,
            length_bytes=counts,
            errno=counts,
            name=texts,
            at_s=figures,
        ),
        max_size=3,
    ),
    counters=st.dictionaries(texts, figures, max_size=4),
    verification=st.none()
    | st.builds(
        Verification,
        checked_blocks=counts,
        corrupt_blocks=counts,
        corruptions=st.lists(
            st.builds(Corruption, kind=texts, offset_bytes=counts, detail=texts), max_size=3
        ),
    ),
    series=st.none() | series,
    database=st.none() | records,
    replay=st.none() | replays,
)


@settings(max_examples=40, deadline=None)
@given(run=runs, sample=samples)
def test_a_run_and_its_sample_come_back_equal(run, sample):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        with ResultsFile.open(path, create=True) as file:
            file.start_run(run)
            stored = file.add_sample(run.id, sample)
        with ResultsFile.open(path, read_only=True) as file:
            (found,) = file.runs()
            assert msgspec.structs.replace(found, process=None) == run
            assert file.samples(run.id) == [stored]
        assert stored == msgspec.structs.replace(sample, id=stored.id, run_id=run.id)
        assert stored.id > 0


@pytest.fixture
def file(tmp_path):
    with ResultsFile.open(tmp_path / "results.db", create=True) as opened:
        yield opened


def test_what_is_no_number_is_stored_as_not_known(file):
    file.start_run(make_run())
    record = make_record(
        client_cpu_share=math.inf,
        reported={"tps": math.nan, "transactions": 0.0},
        loaded_s=math.nan,
    )
    outlier = Series(period_s=1.0, columns={"cpu_user_share": [0.5, math.nan, math.inf]})
    file.add_sample(
        RUN_ID, msgspec.structs.replace(make_database_sample(), database=record, series=outlier)
    )
    (found,) = file.samples(RUN_ID)
    assert (found.database.client_cpu_share, found.database.loaded_s) == (None, None)
    assert found.database.reported == {"transactions": 0.0}
    assert found.series.columns == {"cpu_user_share": [0.5, None, None]}


def test_a_sample_of_storage_has_neither_series_nor_record(file):
    file.start_run(make_run())
    file.add_sample(RUN_ID, make_sample())
    (found,) = file.samples(RUN_ID)
    assert (found.series, found.database) == (None, None)


def test_samples_come_in_the_order_of_measuring_and_by_workload(file):
    file.start_run(make_run())
    read, write = make_cell("read"), make_cell("write")
    other = msgspec.structs.replace(make_cell(threads=4), workload="four", key="four/read")
    order = [(write, 0), (other, 0), (read, 0), (read, 1), (write, 1)]
    for cell, index in order:
        file.add_sample(RUN_ID, make_sample(cell, index))
    found = [(sample.cell, sample.round) for sample in file.samples(RUN_ID)]
    assert found == order
    assert [sample.cell for sample in file.samples(RUN_ID, workload="four")] == [other]
    assert file.samples(RUN_ID, workload="absent") == []


def test_parts_stay_with_their_sample(file):
    file.start_run(make_run())
    for index in range(3):
        sample = make_sample(index=index)
        stall = Stall(start_s=index, length_s=1.0, cause="device", operations={"read": 1}, depth=1)
        changed = msgspec.structs.replace(
            sample, stalls=[stall] * index, counters={"cpu_user_ns": float(index)}
        )
        file.add_sample(RUN_ID, changed)
    found = file.samples(RUN_ID)
    assert [len(sample.stalls) for sample in found] == [0, 1, 2]
    assert [sample.counters["cpu_user_ns"] for sample in found] == [0.0, 1.0, 2.0]


def test_done_names_cells_and_rounds_of_one_run(file):
    file.start_run(make_run())
    file.start_run(make_run("other"))
    file.add_sample(RUN_ID, make_sample(index=0))
    file.add_sample(RUN_ID, make_sample(index=2))
    file.add_sample("other", make_sample(index=5))
    key = make_cell().key
    assert file.done(RUN_ID) == {(key, 0), (key, 2)}
    assert file.done("absent") == set()


def test_the_same_cell_and_round_is_refused_and_changes_nothing(file):
    file.start_run(make_run())
    file.add_sample(RUN_ID, make_sample(index=0))
    with pytest.raises(ResultsFileError, match=r"already has a sample of .*, round 0"):
        file.add_sample(RUN_ID, make_sample(index=0, slices=9))
    assert [len(sample.timeline.slices) for sample in file.samples(RUN_ID)] == [5]


def test_a_sample_of_an_unknown_run_is_refused(file):
    with pytest.raises(ResultsFileError, match="contains no run"):
        file.add_sample(RUN_ID, make_sample())
    with pytest.raises(ResultsFileError, match="contains no run"):
        file.finish_run(RUN_ID, "complete", 1.0, FingerprintAfter())


def test_a_run_cannot_start_twice(file):
    file.start_run(make_run())
    with pytest.raises(ResultsFileError, match="already contains a run"):
        file.start_run(make_run(label="again"))
    assert [run.label for run in file.runs()] == [""]


def test_finish_and_resume_change_status_end_and_fingerprint(file):
    file.start_run(make_run())
    file.finish_run(RUN_ID, "interrupted", 1_795_247_200.5, FingerprintAfter(restarted=True))
    ended = file.run(RUN_ID)
    assert (ended.status, ended.ended_at) == ("interrupted", 1_795_247_200.5)
    assert ended.fingerprint_after == FingerprintAfter(restarted=True)
    file.resume_run(RUN_ID)
    assert (file.run(RUN_ID).status, file.run(RUN_ID).ended_at) == ("running", None)


def test_runs_are_found_by_id_prefix_label_and_last(file):
    file.start_run(make_run("20261120-100000-aaaa", started_at=1.0, label="before"))
    file.start_run(make_run("20261121-100000-bbbb", started_at=2.0, label="before"))
    file.start_run(make_run("20261121-110000-cccc", started_at=3.0))
    assert file.run("last").id == "20261121-110000-cccc"
    assert file.run("20261120-100000-aaaa").started_at == 1.0
    assert file.run("before").id == "20261121-100000-bbbb"
    assert file.run("20261121-11").id == "20261121-110000-cccc"
    with pytest.raises(UsageError, match=r"2 runs in .* begin with 20261121"):
        file.run("20261121")
    for unknown in ("absent", ""):
        with pytest.raises(UsageError, match="contains no run"):
            file.run(unknown)


def test_last_of_an_empty_file_is_refused(file):
    assert file.runs() == []
    with pytest.raises(UsageError, match="contains no run 'last'"):
        file.run("last")


def test_an_id_goes_before_a_label_that_equals_it(file):
    file.start_run(make_run("a", started_at=1.0))
    file.start_run(make_run("b", started_at=2.0, label="a"))
    assert file.run("a").id == "a"


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_the_newest_run_of_a_plan_is_resumed_unless_it_is_complete(file, status):
    file.start_run(make_run("old", started_at=1.0, status="interrupted"))
    file.start_run(make_run("new", started_at=2.0, status=status))
    file.start_run(make_run("else", started_at=3.0, plan_hash="plan-b"))
    assert file.find_resumable("plan-a", []).id == "new"
    file.finish_run("new", "complete", 5.0, {})
    assert file.find_resumable("plan-a", []) is None
    assert file.find_resumable("absent", []) is None


def test_a_run_is_resumed_on_its_own_targets_only(file):
    def study(*paths):
        return {"name": "quick", "target": [{"label": "trial", "path": path} for path in paths]}

    file.start_run(make_run("ssd", started_at=1.0, status="running", study=study("/mnt/ssd")))
    file.start_run(make_run("hdd", started_at=2.0, status="running", study=study("/mnt/hdd")))
    assert file.find_resumable("plan-a", ["/mnt/ssd"]).id == "ssd"
    assert file.find_resumable("plan-a", ["/mnt/hdd"]).id == "hdd"
    assert file.find_resumable("plan-a", ["/mnt/usb"]) is None
    assert file.find_resumable("plan-a", ["/mnt/ssd", "/mnt/hdd"]) is None


def test_a_run_on_a_server_is_resumed_on_that_server_only(file):
    server = {"label": "trial", "path": "", "url": "postgresql://h/db"}
    study = {"name": "s", "target": [server]}
    file.start_run(make_run("there", status="running", study=study))
    assert file.find_resumable("plan-a", ["postgresql://h/db"]).id == "there"
    assert file.find_resumable("plan-a", ["postgresql://other/db"]) is None


def test_plain_sql_reads_rates_from_the_view(file):
    file.start_run(make_run())
    stored = file.add_sample(RUN_ID, make_sample())
    plain = sqlite3.connect(file.path)
    row = plain.execute(
        "SELECT cell_key, operation, completed_per_s, transferred_bytes_per_s FROM measurement"
    ).fetchone()
    plain.close()
    expected = (stored.completed_per_s, stored.transferred_bytes_per_s)
    assert row == (stored.cell.key, "read", *expected)


def test_an_event_of_an_older_file_has_its_name_of_today():
    event = msgspec.json.decode(b'{"at_s": 1.5, "what": "deed_failed"}', type=ArrayEvent)
    assert event.what == "fault_failed"
