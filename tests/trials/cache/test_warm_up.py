"""The analysis of a cache device: made-up samples whose warm-up is known; and forecasts."""

from __future__ import annotations

import json

import msgspec
import pytest

from results.builders import make_run
from seatrial import _core
from seatrial.findings.summary import summarise
from seatrial.report.exports import json_document, markdown
from seatrial.report.page import render
from seatrial.results.cache import CacheForecast, CacheRecord
from seatrial.results.model import (
    OperationResult,
    Outcome,
    Sample,
    Series,
    Slice,
    Timeline,
)
from seatrial.results.store import ResultsFile
from seatrial.stats.steady.states import steady_states
from seatrial.study.load import study_from_mapping, study_to_mapping
from seatrial.study.plan import make_plan
from seatrial.trials.cache.analysis.forecast import (
    Baseline,
    forecast_with_device,
    forecast_without_device,
)
from seatrial.trials.cache.analysis.warm_up import (
    CacheAnalysis,
    cache_analysis_of,
    reads_by_second,
    warm_up_of,
)
from seatrial.trials.cache.report.pool_figures import _tiers_view
from seatrial.trials.cache.report.pool_phrases import misses_of_bounds, sentences, verdict_phrase
from seatrial.trials.cache.report.pool_tables import pool_tables, published_pools
from seatrial.trials.cache.study.workload import spec_of
from seatrial.units import MIB
from trials.cache.warming_model import WarmingModel

ADDED_S = 5.0
SECONDS = 45
STUDY = {
    "name": "pools",
    "rounds": {"min": 1, "max": 1},
    "workload": [
        {
            "kind": "l2arc",
            "working_set": "80MiB",
            "arc": "16MiB",
            "baseline_seconds": 5,
            "seconds": 40,
        }
    ],
}


def plan():
    return make_plan(study_from_mapping(STUDY, "pools.toml"))


def cell_of(*, cache: bool):
    return next(each for each in plan().cells if spec_of(each).has_cache == cache)


def sample_of(*, cache: bool, late_s: float = 0.0, cold_bytes: float = 0.0) -> Sample:
    """A device that fills by 4 MiB a second until it has the file, and serves what it holds.

    The prediction is that of the same device, which begins ``late_s`` later.
    """
    cell, whole = cell_of(cache=cache), 80.0 * MIB

    def fill(at_s: float) -> float:
        return min(whole, max(0.0, at_s) * 4 * MIB) if cache else 0.0

    ends = range(1, SECONDS + 1)
    middle = [fill(end - 0.5 - ADDED_S) / whole for end in ends]
    reads = [round(500 / max(0.05, 1 - share)) for share in middle]
    hits = [share * rate for share, rate in zip(middle, reads, strict=True)]
    columns = {
        "arc_hits_per_s": [0.0 for _ in reads],
        "arc_misses_per_s": [float(rate) for rate in reads],
        "device_hits_per_s": hits,
        "device_fill_bytes": [fill(end - ADDED_S) for end in ends],
    }
    forecast = CacheForecast(
        law="made up",
        made_at_s=4.5,
        assumed={"baseline_reads_per_s": 500.0},
        reads_per_s=[10_000.0] * 40,
        memory_share=[0.0] * 40,
        device_share=[fill(at + 0.5 - late_s) / whole for at in range(40)],
        fill_bytes=[fill(at + 1 - late_s) for at in range(40)],
    )
    return Sample(
        cell=cell,
        round=0,
        position=int(cache),
        started_at=1_795_247_100.0,
        duration_s=SECONDS + 0.4,
        engine="psync",
        outcome=Outcome(
            offered=sum(reads),
            completed=sum(reads),
            failed=0,
            late_skipped=0,
            in_flight_at_end=0,
        ),
        operations={"read": result_of(sum(reads))},
        timeline=Timeline(slice_ns=10**9, slices=[*map(slice_of, range(len(reads)), reads)]),
        series=Series(period_s=1.0, columns=columns),
        cache=CacheRecord(
            zfs="zfs-fuse",
            working_set_bytes=80 * MIB,
            arc_bytes=16 * MIB,
            cache_bytes=1024 * MIB if cache else 0,
            added_at_s=ADDED_S if cache else None,
            cold={"data_size": cold_bytes, "l2_size": 0.0},
            ceiling_per_s=10_000.0,
            forecast=forecast if cache else None,
            commands=["zpool create"],
        ),
    )


def result_of(reads: int) -> OperationResult:
    return OperationResult(
        completed=reads,
        failed=0,
        transferred_bytes=8192 * reads,
        response=_core.Histogram.of([10**6] * reads).encode(),
    )


def slice_of(place: int, reads: int) -> Slice:
    return Slice(
        index=place,
        operation="read",
        completed=reads,
        transferred_bytes=8192 * reads,
        response=_core.Histogram.of([10**6]).encode(),
    )


def test_times_are_those_at_which_the_device_held_so_much():
    found = warm_up_of(sample_of(cache=True))
    assert found.warm_s == pytest.approx({"t50": 10.0, "t90": 18.0, "t99": 19.8})
    assert found.predicted_warm_s == pytest.approx({"t50": 10.0, "t90": 18.0, "t99": 19.8})
    assert (found.error_of("t50"), found.error_of("t90")) == (0.0, 0.0)
    assert found.reads_per_s == 500
    assert found.plateau_reads_per_s == 10_000
    assert found.plateau_error == 0
    assert found.is_cold
    assert found.filled_share == 1.0


@pytest.mark.parametrize("slice_ms", [100, 400, 2000])
def test_slices_of_any_length_are_paired_with_the_counters_of_their_second(slice_ms: int):
    """Of a layout with 100 ms, or of a long sample: each second has its own reads."""
    sample = sample_of(cache=True)
    seconds = [each.completed for each in sample.timeline.slices]
    count = -(-SECONDS * 1000 // slice_ms)
    own = [
        slice_of(index, seconds[index * slice_ms // 1000] * slice_ms // 1000)
        for index in range(count)
    ]
    finer = msgspec.structs.replace(
        sample, timeline=Timeline(slice_ns=slice_ms * 10**6, slices=own)
    )
    whole, found = warm_up_of(sample), warm_up_of(finer)
    assert len(reads_by_second(finer)) == SECONDS
    assert found.device_share == pytest.approx(whole.device_share, rel=0.01)
    assert found.memory_share == pytest.approx(0.0, abs=0.01)
    assert found.plateau_reads_per_s == pytest.approx(whole.plateau_reads_per_s, rel=0.01)
    (cell,) = cache_analysis_of(summary_of([finer])).cells
    (memory, device, _) = _tiers_view(cell, finer).panels[0].lines
    assert device.points[-1].x == SECONDS
    assert device.points[-1].y == pytest.approx(1.0, abs=0.01)
    assert memory.points[-1].y == pytest.approx(0.0, abs=0.01)


def test_a_prediction_that_is_late_has_positive_errors_and_is_listed_as_missed():
    found = warm_up_of(sample_of(cache=True, late_s=3.0))
    assert found.error_of("t50") == pytest.approx(0.3)
    assert found.error_of("t99") == pytest.approx(3.0 / 19.8)
    analysis = cache_analysis_of(summary_of([sample_of(cache=True, late_s=3.0)]))
    (line,) = misses_of_bounds(analysis)
    assert "t50 was off by +30 %" in line


def test_the_fill_law_holds_where_the_device_serves_as_much_as_it_holds():
    found = warm_up_of(sample_of(cache=True))
    assert found.fill_law_points == pytest.approx(0.0, abs=0.01)
    assert found.forecast_points == pytest.approx(0.0, abs=0.03)
    sample = sample_of(cache=True)
    columns = dict(sample.series.columns)
    columns["device_hits_per_s"] = [0.8 * each for each in columns["device_hits_per_s"]]
    lower = msgspec.structs.replace(sample, series=Series(period_s=1.0, columns=columns))
    assert -0.13 < warm_up_of(lower).fill_law_points < -0.07


def test_a_start_is_cold_only_where_the_counters_prove_it():
    assert not warm_up_of(sample_of(cache=True, cold_bytes=4.0 * MIB)).is_cold
    unknown = sample_of(cache=True)
    record = msgspec.structs.replace(unknown.cache, cold={})
    assert not warm_up_of(msgspec.structs.replace(unknown, cache=record)).is_cold


def test_a_level_that_was_not_reached_has_no_time():
    sample = sample_of(cache=True)
    columns = dict(sample.series.columns)
    columns["device_fill_bytes"] = [0.6 * each for each in columns["device_fill_bytes"]]
    found = warm_up_of(
        msgspec.structs.replace(sample, series=Series(period_s=1.0, columns=columns))
    )
    assert found.warm_s["t90"] is None
    assert found.error_of("t90") is None


def summary_of(samples):
    run = make_run(
        status="complete",
        ended_at=1_795_247_200.0,
        study_name="pools",
        study=study_to_mapping(plan().study),
    )
    return summarise(run, samples)


def test_the_table_has_the_figures_of_2008_next_to_ours():
    summary = summary_of([sample_of(cache=False), sample_of(cache=True)])
    analysis = cache_analysis_of(summary)
    article, forecast, memory = pool_tables(analysis)
    (row,) = article.rows
    assert row[:4] == ["8 KiB", "striped", "direct", "16 MiB"]
    assert row[-4:] == ["4 h", "44.3 MB/s", "30.4 MB/s", "1.5x"]
    assert row[7] == "20.0x"
    assert forecast.rows[0][6] == "+0 %"
    assert memory.rows
    assert len(published_pools()) == 4
    assert verdict_phrase(analysis).startswith("the cache device gives 20.0x the reads, 90 % warm")
    assert any("cold start of every sample" in each for each in sentences(analysis))


def test_a_run_of_one_kind_says_what_it_measured():
    with_device = cache_analysis_of(summary_of([sample_of(cache=True)]))
    assert verdict_phrase(with_device) == "10k IOPS with the cache device, 90 % warm after 18 s"
    without = cache_analysis_of(summary_of([sample_of(cache=False)]))
    assert verdict_phrase(without) == "an ARC of 16 MiB serves 0 % of the reads: 500 IOPS"


def test_memory_alone_is_judged_by_what_it_serves():
    """Four sizes of memory, without a device: the verdict names the largest and the smallest."""
    pool = cache_analysis_of(summary_of([sample_of(cache=False)])).cells[0]
    cells = [
        msgspec.structs.replace(
            pool,
            arc_bytes=arc_mib << 20,
            samples=[
                msgspec.structs.replace(
                    pool.samples[0],
                    reads_per_s=rate,
                    predicted_reads_per_s=rate * 0.9,
                    memory_share=share,
                    predicted_memory_share=share + 0.06,
                )
            ],
        )
        for arc_mib, rate, share in ((19, 590.0, 0.05), (138, 680.0, 0.16), (44, 570.0, 0.08))
    ]
    analysis = CacheAnalysis(
        cells=cells, rows=cache_analysis_of(summary_of([sample_of(cache=False)])).rows
    )
    assert verdict_phrase(analysis) == (
        "an ARC of 138 MiB serves 16 % of the reads, one of 19 MiB 5 %: up to 680 IOPS"
    )
    assert "within 6.0 points, and the rate within 10 %" in sentences(analysis)[0]
    assert len(misses_of_bounds(analysis)) == 3
    (table,) = pool_tables(analysis)
    assert table.id == "cache-memory"


def test_a_rate_that_follows_a_cache_that_fills_has_no_steady_state():
    for cache in (False, True):
        summary = summary_of([sample_of(cache=cache)])
        assert steady_states(summary.cells) == []
        other = msgspec.structs.replace(sample_of(cache=cache), cache=None)
        assert steady_states(summary_of([other]).cells)


def test_a_sample_without_a_prediction_has_only_times():
    sample = sample_of(cache=True)
    record = msgspec.structs.replace(sample.cache, forecast=None, notes=["why"])
    summary = summary_of([msgspec.structs.replace(sample, cache=record)])
    analysis = cache_analysis_of(summary)
    assert not any("prediction" in each for each in sentences(analysis))
    assert misses_of_bounds(analysis) == []
    assert analysis.cells[0].samples[0].warm_s["t50"] == pytest.approx(10.0)
    assert "why" in render(summary)


def test_page_json_and_markdown_have_warm_up_and_prediction():
    summary = summary_of([sample_of(cache=False), sample_of(cache=True)])
    page = render(summary)
    for part in ("Cache device", "cache-warm-up", "cache-tiers", "predicted before", "made up"):
        assert part in page
    document = json.loads(json_document.render(summary))
    (row,) = document["cache_devices"]["rows"]
    assert row["without_bytes_per_s"] == 500 * 8192
    cells = document["cache_devices"]["cells"]
    with_device = next(each for each in cells if each["has_cache"])
    assert with_device["samples"][0]["warm_s"]["t90"] == pytest.approx(18.0)
    assert "off by t50 +0 %" in markdown.render(summary)


def test_the_record_is_stored_and_read_again(tmp_path):
    sample = sample_of(cache=True)
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as store:
        store.start_run(make_run())
        store.add_sample(make_run().id, sample)
        (found,) = store.samples(make_run().id)
    assert found.cache == sample.cache
    assert found.series == sample.series


def before(**changes: float) -> Baseline:
    values = {"reads_per_s": 550.0, "disk_reads_per_s": 500.0, "arc_data_bytes": 14.0 * MIB}
    return Baseline(**values | {"ceiling_per_s": 12_000.0} | changes)


def test_a_forecast_agrees_with_the_closed_law_where_that_holds():
    """Half full: as the law has it, less what two passes bring before the first read."""
    spec = spec_of(cell_of(cache=True))
    found = forecast_with_device(spec, 8, before(), 5.0, 7)
    law = WarmingModel(
        working_set_bytes=spec.working_set_bytes,
        storage_bytes_per_s=500.0 * 8192,
        path_bytes_per_s=12_000.0 * 8192,
        feed_bytes_per_s=16.0 * MIB,
    )
    half_s = next(at for at, fill in enumerate(found.fill_bytes, 1) if fill > 40 * MIB)
    head_start_s = 12.0 * MIB / (500.0 * 8192)
    assert law.warm_s(0.5) - head_start_s - 2 < half_s < law.warm_s(0.5)
    assert found.fill_bytes[-1] > 0.99 * 80 * MIB
    assert found.reads_per_s[-1] == pytest.approx(12_000, rel=0.02)
    assert found.assumed["baseline_reads_per_s"] == 550


def test_a_slower_disk_makes_the_forecast_later_and_memory_makes_it_faster():
    spec = spec_of(cell_of(cache=True))
    usual = forecast_with_device(spec, 8, before(), 5.0, 7)
    slow = forecast_with_device(spec, 8, before(disk_reads_per_s=250.0), 5.0, 7)
    assert slow.fill_bytes[10] < 0.75 * usual.fill_bytes[10]
    assert slow.reads_per_s[3] < 0.7 * usual.reads_per_s[3]


def test_without_a_device_the_settings_are_enough():
    spec = spec_of(cell_of(cache=False))
    found = forecast_without_device(spec, 8, 12_000.0, 7)
    # Four disks of 150 reads a second, of which eight clients leave some idle; 17 % from memory.
    assert 480 < found.reads_per_s[-1] < 730
    assert 0.08 < found.memory_share[-1] < 0.2
    unlimited = msgspec.structs.replace(spec, disk_reads_per_s=0)
    assert forecast_without_device(unlimited, 8, 12_000.0, 7) is None
