"""What is wrong, and why: one small file for each kind of finding.

A finding's kind is the name of the function that finds it, and a section of docs/findings.md
(kept equal by tests/findings/test_registry.py). To add one: write the function, list it in one
of the registries below, write its section, and its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seatrial.findings import (
    device,
    filesystem,
    machine,
)
from seatrial.findings.changed_meanwhile import changed_meanwhile
from seatrial.findings.context import Context, FromFingerprint, FromSamples, by_target
from seatrial.findings.cpu_quota import cpu_quota
from seatrial.findings.errors import errors
from seatrial.findings.foreign_traffic import foreign_traffic
from seatrial.findings.generator_limited import generator_limited
from seatrial.findings.improved import improved
from seatrial.findings.interrupted import interrupted
from seatrial.findings.kernel_errors import kernel_errors
from seatrial.findings.lab import NOT_OF_LAB, is_of_lab, lab
from seatrial.findings.noisy_machine import noisy_machine
from seatrial.findings.not_recovered import not_recovered
from seatrial.findings.not_repeatable import not_repeatable
from seatrial.findings.nothing_completed import nothing_completed
from seatrial.findings.regressed import regressed
from seatrial.findings.slow_device import slow_device
from seatrial.findings.slower_at_end import slower_at_end
from seatrial.findings.stall import stall
from seatrial.findings.start_up_phase import start_up_phase
from seatrial.findings.temperature import temperature
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding
from seatrial.trials.audit.findings.gap import gap
from seatrial.trials.audit.findings.host_limited import host_limited
from seatrial.trials.audit.findings.lock_limited import lock_limited
from seatrial.trials.audit.findings.predicted import predicted
from seatrial.trials.audit.findings.saturated import saturated
from seatrial.trials.database.findings.cache_size import cache_size
from seatrial.trials.database.findings.checkpoint_dips import checkpoint_dips
from seatrial.trials.database.findings.client_limited import client_limited
from seatrial.trials.database.findings.database_bound import database_bound
from seatrial.trials.database.findings.durability_off import durability_off
from seatrial.trials.database.findings.flushes_not_durable import flushes_not_durable
from seatrial.trials.database.findings.lock_contention import lock_contention
from seatrial.trials.database.findings.observer_missing import observer_missing
from seatrial.trials.database.findings.reads_from_cache import reads_from_cache
from seatrial.trials.database.findings.transactions_lost import transactions_lost
from seatrial.trials.io.findings.bound_broken import bound_broken
from seatrial.trials.io.findings.burst_credit import burst_credit
from seatrial.trials.io.findings.corruption import corruption
from seatrial.trials.io.findings.device_cache_served import device_cache_served
from seatrial.trials.io.findings.late_requests import late_requests
from seatrial.trials.io.findings.left_steady_state import left_steady_state
from seatrial.trials.io.findings.link_narrower import link_narrower
from seatrial.trials.io.findings.not_steady import not_steady
from seatrial.trials.io.findings.page_cache_served import page_cache_served
from seatrial.trials.layouts.findings.array_failed import array_failed
from seatrial.trials.layouts.findings.array_saturated import array_saturated
from seatrial.trials.layouts.findings.data_lost import data_lost
from seatrial.trials.layouts.findings.layouts_differ import layouts_differ
from seatrial.trials.layouts.findings.leg_imbalance import imbalance, leg_imbalance
from seatrial.trials.layouts.findings.misaligned import misaligned
from seatrial.trials.layouts.findings.mixed_members import mixed_members
from seatrial.trials.layouts.findings.rebuild_dips import rebuild_dips
from seatrial.trials.layouts.findings.rebuild_unfinished import rebuild_unfinished
from seatrial.trials.layouts.findings.redundancy_window import redundancy_window
from seatrial.trials.layouts.findings.scrub_mismatch import scrub_mismatch
from seatrial.trials.layouts.findings.write_amplified import write_amplified
from seatrial.trials.loadline.findings.knee import knee
from seatrial.trials.replay.compare.model import BeforeAfter
from seatrial.trials.replay.findings.plan_changed import plan_changed
from seatrial.trials.replay.findings.query_regressed import query_regressed
from seatrial.trials.replay.findings.replay_client_bound import replay_client_bound
from seatrial.trials.replay.findings.replay_content_differs import replay_content_differs
from seatrial.trials.replay.findings.replay_ids_unresolved import replay_ids_unresolved
from seatrial.trials.replay.findings.replay_late import replay_late
from seatrial.trials.replay.findings.replay_new_errors import replay_new_errors
from seatrial.trials.replay.findings.replay_order_changed import replay_order_changed
from seatrial.trials.replay.findings.replay_order_released import replay_order_released
from seatrial.trials.replay.findings.replay_rolled_back import replay_rolled_back
from seatrial.trials.replay.findings.replay_rows_differ import replay_rows_differ
from seatrial.trials.replay.findings.replay_schema_misfits import replay_schema_misfits
from seatrial.trials.replay.findings.replay_sequence_mismatch import replay_sequence_mismatch
from seatrial.trials.replay.findings.replay_skipped import replay_skipped
from seatrial.trials.replay.findings.replay_starts_differ import replay_starts_differ
from seatrial.trials.replay.findings.replay_under_delivered import replay_under_delivered
from seatrial.trials.replay.findings.replay_wrong_database import replay_wrong_database

FROM_SAMPLES: tuple[FromSamples, ...] = (
    data_lost,
    array_failed,
    corruption,
    transactions_lost,
    replay_under_delivered,
    replay_wrong_database,
    replay_starts_differ,
    replay_sequence_mismatch,
    replay_rolled_back,
    replay_schema_misfits,
    replay_new_errors,
    errors,
    durability_off,
    flushes_not_durable,
    kernel_errors,
    nothing_completed,
    stall,
    gap,
    bound_broken,
    device_cache_served,
    page_cache_served,
    burst_credit,
    late_requests,
    replay_late,
    knee,
    temperature,
    left_steady_state,
    not_steady,
    not_recovered,
    interrupted,
    changed_meanwhile,
    scrub_mismatch,
    rebuild_unfinished,
    redundancy_window,
    rebuild_dips,
    misaligned,
    write_amplified,
    mixed_members,
    lock_limited,
    lock_contention,
    checkpoint_dips,
    client_limited,
    replay_client_bound,
    generator_limited,
    not_repeatable,
    leg_imbalance,
    layouts_differ,
    array_saturated,
    slower_at_end,
    start_up_phase,
    slow_device,
    host_limited,
    saturated,
    predicted,
    database_bound,
    replay_content_differs,
    replay_ids_unresolved,
    replay_rows_differ,
    replay_order_released,
    replay_order_changed,
    replay_skipped,
    reads_from_cache,
    cache_size,
    observer_missing,
    foreign_traffic,
    noisy_machine,
    cpu_quota,
    lab,
)
"""Findings from samples; the order is that of weight among equals in severity."""

OF_FAILURES: frozenset[FromSamples] = frozenset(
    {
        *(data_lost, array_failed, scrub_mismatch, rebuild_unfinished, redundancy_window),
        *(rebuild_dips, misaligned, errors, kernel_errors, transactions_lost, durability_off),
        *(nothing_completed, interrupted, changed_meanwhile, observer_missing),
    }
)
"""Those that look at cells in which something was broken on purpose, too. To all others what a
failure does to rates, stalls and data would look like what they seek."""

OF_REPLAYS: frozenset[FromSamples] = frozenset(
    {
        *(replay_under_delivered, replay_wrong_database, replay_rolled_back, replay_new_errors),
        *(replay_late, replay_client_bound, replay_rows_differ, replay_order_released),
        *(replay_starts_differ, replay_schema_misfits, cache_size, replay_content_differs),
        *(replay_ids_unresolved, replay_sequence_mismatch, replay_order_changed),
        *(replay_skipped, durability_off, flushes_not_durable, kernel_errors, nothing_completed),
        *(stall, temperature, interrupted, changed_meanwhile, not_repeatable, database_bound),
        *(reads_from_cache, observer_missing, noisy_machine, cpu_quota, lab),
    }
)
"""Those that look at cells that play a trace, too. All others seek a law in a rate, which is the
capture's there, or take an error for one of the storage, which the capture may have as well."""

FROM_FINGERPRINT: tuple[FromFingerprint, ...] = (
    link_narrower,
    *device.FINDERS,
    *filesystem.FINDERS,
    *machine.FINDERS,
)
"""Findings from the fingerprint alone, known before anything is measured."""

FROM_COMPARISON: tuple[Callable[[Comparison], list[Finding]], ...] = (regressed, improved)
"""Findings from a comparison of two sides; ``leg_imbalance`` takes their place where it fits."""

FROM_BEFORE_AFTER: tuple[Callable[[BeforeAfter], list[Finding]], ...] = (
    query_regressed,
    plan_changed,
)
"""Findings from queries, pages and batches before and after."""

KINDS = tuple(
    finder.__name__
    for finder in (*FROM_SAMPLES, *FROM_FINGERPRINT, *FROM_COMPARISON, *FROM_BEFORE_AFTER)
)
"""Every kind of finding; stable names."""

SEVERITIES = ("critical", "warning", "note")


def find(context: Context) -> list[Finding]:
    """Return all findings of a run, those of its fingerprint included, the worst first.

    A simulated device stands on virtual time: what this machine is like does not touch it.
    """
    if context.samples and all(sample.engine == "simulated" for sample in context.samples):
        finders = [finder for finder in FROM_SAMPLES if finder is not noisy_machine]
        return _worst_first([finding for finder in finders for finding in finder(context)])
    found = [finding for finder in FROM_SAMPLES for finding in finder(_seen_by(finder, context))]
    found += preflight(context.before)
    if is_of_lab(context.run):
        found = [finding for finding in found if finding.kind not in NOT_OF_LAB]
    return _worst_first(found)


def _seen_by(finder: FromSamples, context: Context) -> Context:
    """Return the run without the cells that would mislead a finder."""
    seen = context if finder in OF_FAILURES else context.sound
    return seen if finder in OF_REPLAYS else seen.unplayed


def find_in_comparison(comparison: Comparison) -> list[Finding]:
    """Return the findings of a comparison, the worst first.

    Of targets that should be equal it is enough to say that they are not.
    """
    unequal = imbalance(comparison)
    if unequal:
        return unequal
    return _worst_first([finding for finder in FROM_COMPARISON for finding in finder(comparison)])


def find_in_before_after(found: BeforeAfter) -> list[Finding]:
    """Return the findings of queries, pages and batches before and after, the worst first."""
    return _worst_first([finding for finder in FROM_BEFORE_AFTER for finding in finder(found)])


def preflight(fingerprint: dict[str, Any], *, trial_file_bytes: int | None = None) -> list[Finding]:
    """Return what could spoil a measurement here, from the fingerprint alone, the worst first.

    Args:
        fingerprint: As ``seatrial.machine.fingerprint`` takes it; whatever is None or absent is not
            judged.
        trial_file_bytes: Size of the file that would be made, where it is known.
    """
    facts = fingerprint | {"trial_file_bytes": trial_file_bytes}
    found: list[Finding] = []
    for finder in FROM_FINGERPRINT:
        for one_target in by_target(facts):
            found += [finding for finding in finder(one_target) if finding not in found]
    return _worst_first(found)


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
