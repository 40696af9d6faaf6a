"""What is wrong, and why: one small file for each kind of finding.

A finding's kind is the name of the function that finds it, and a section of docs/findings.md
(kept equal by tests/analysis/test_registry.py). To add one: write the function, list it in one
of the registries below, write its section, and its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seatrial.analysis.compare.model import Comparison
from seatrial.analysis.findings import device, filesystem, machine
from seatrial.analysis.findings.bound_broken import bound_broken
from seatrial.analysis.findings.burst_credit import burst_credit
from seatrial.analysis.findings.cache_size import cache_size
from seatrial.analysis.findings.changed_meanwhile import changed_meanwhile
from seatrial.analysis.findings.checkpoint_dips import checkpoint_dips
from seatrial.analysis.findings.client_limited import client_limited
from seatrial.analysis.findings.context import (
    Context,
    FromFingerprint,
    FromSamples,
    by_target,
)
from seatrial.analysis.findings.corruption import corruption
from seatrial.analysis.findings.database_bound import database_bound
from seatrial.analysis.findings.device_cache_served import device_cache_served
from seatrial.analysis.findings.durability_off import durability_off
from seatrial.analysis.findings.errors import errors
from seatrial.analysis.findings.flushes_not_durable import flushes_not_durable
from seatrial.analysis.findings.gap import gap
from seatrial.analysis.findings.generator_limited import generator_limited
from seatrial.analysis.findings.host_limited import host_limited
from seatrial.analysis.findings.improved import improved
from seatrial.analysis.findings.interrupted import interrupted
from seatrial.analysis.findings.kernel_errors import kernel_errors
from seatrial.analysis.findings.knee import knee
from seatrial.analysis.findings.late_requests import late_requests
from seatrial.analysis.findings.left_steady_state import left_steady_state
from seatrial.analysis.findings.leg_imbalance import imbalance, leg_imbalance
from seatrial.analysis.findings.link_narrower import link_narrower
from seatrial.analysis.findings.lock_contention import lock_contention
from seatrial.analysis.findings.lock_limited import lock_limited
from seatrial.analysis.findings.noisy_machine import noisy_machine
from seatrial.analysis.findings.not_recovered import not_recovered
from seatrial.analysis.findings.not_repeatable import not_repeatable
from seatrial.analysis.findings.not_steady import not_steady
from seatrial.analysis.findings.nothing_completed import nothing_completed
from seatrial.analysis.findings.observer_missing import observer_missing
from seatrial.analysis.findings.page_cache_served import page_cache_served
from seatrial.analysis.findings.predicted import predicted
from seatrial.analysis.findings.reads_from_cache import reads_from_cache
from seatrial.analysis.findings.regressed import regressed
from seatrial.analysis.findings.saturated import saturated
from seatrial.analysis.findings.slow_device import slow_device
from seatrial.analysis.findings.slower_at_end import slower_at_end
from seatrial.analysis.findings.stall import stall
from seatrial.analysis.findings.start_up_phase import start_up_phase
from seatrial.analysis.findings.temperature import temperature
from seatrial.analysis.findings.transactions_lost import transactions_lost
from seatrial.analysis.model import Finding

FROM_SAMPLES: tuple[FromSamples, ...] = (
    corruption,
    transactions_lost,
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
    knee,
    temperature,
    left_steady_state,
    not_steady,
    not_recovered,
    interrupted,
    changed_meanwhile,
    lock_limited,
    lock_contention,
    checkpoint_dips,
    client_limited,
    generator_limited,
    not_repeatable,
    leg_imbalance,
    slower_at_end,
    start_up_phase,
    slow_device,
    host_limited,
    saturated,
    predicted,
    database_bound,
    reads_from_cache,
    cache_size,
    observer_missing,
    noisy_machine,
)
"""Findings from samples; the order is that of weight among equals in severity."""

FROM_FINGERPRINT: tuple[FromFingerprint, ...] = (
    link_narrower,
    *device.FINDERS,
    *filesystem.FINDERS,
    *machine.FINDERS,
)
"""Findings from the fingerprint alone, known before anything is measured."""

FROM_COMPARISON: tuple[Callable[[Comparison], list[Finding]], ...] = (regressed, improved)
"""Findings from a comparison of two sides; ``leg_imbalance`` takes their place where it fits."""

KINDS = tuple(finder.__name__ for finder in (*FROM_SAMPLES, *FROM_FINGERPRINT, *FROM_COMPARISON))
"""Every kind of finding; stable names."""

SEVERITIES = ("critical", "warning", "note")


def find(context: Context) -> list[Finding]:
    """Return all findings of a run, those of its fingerprint included, the worst first.

    A simulated device stands on virtual time: what this machine is like does not touch it.
    """
    if context.samples and all(sample.engine == "simulated" for sample in context.samples):
        finders = [finder for finder in FROM_SAMPLES if finder is not noisy_machine]
        return _worst_first([finding for finder in finders for finding in finder(context)])
    found = [finding for finder in FROM_SAMPLES for finding in finder(context)]
    return _worst_first(found + preflight(context.before))


def find_in_comparison(comparison: Comparison) -> list[Finding]:
    """Return the findings of a comparison, the worst first.

    Of targets that should be equal it is enough to say that they are not.
    """
    unequal = imbalance(comparison)
    if unequal:
        return unequal
    return _worst_first([finding for finder in FROM_COMPARISON for finding in finder(comparison)])


def preflight(fingerprint: dict[str, Any], *, trial_file_bytes: int | None = None) -> list[Finding]:
    """Return what could spoil a measurement here, from the fingerprint alone, the worst first.

    Args:
        fingerprint: As ``seatrial.context`` takes it; whatever is None or absent is not judged.
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
