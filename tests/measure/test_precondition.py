"""Conditioning proved on simulated flash: one pass ends where two passes and many rounds do."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec
import pytest

from seatrial.errors import TargetError
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.recorder import RoundsResult
from seatrial.measure.run import RunRequest, execute
from seatrial.results.model import Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.steady.phases import snia
from seatrial.trials.io.commands.precondition import planned
from seatrial.trials.io.measure.precondition import Conditioning, guessed_over_provisioning
from seatrial.units import MIB

LONG = 40
"""Rounds of a tenth of the capacity after which nothing of the fill is left."""


class Measured(msgspec.Struct, frozen=True):
    """What conditioning gave."""

    end: RoundsResult
    fills: list[Sample]
    proofs: list[Sample]
    is_steady: bool

    @property
    def rates_per_s(self) -> list[float]:
        return [sample.outcome.completed / sample.duration_s for sample in self.proofs]

    @property
    def amplifications(self) -> list[float]:
        return [sample.counters["ftl_write_amplification"] for sample in self.proofs]

    @property
    def written_bytes(self) -> int:
        """What the fills wrote."""
        return sum(
            part.transferred_bytes for sample in self.fills for part in sample.operations.values()
        )


class _NeverMet:
    met = False
    sentence = "It is not requested."


def never(_rates_per_s) -> _NeverMet:
    """A rule that lets all rounds be measured."""
    return _NeverMet()


def model(over_provisioning_share: float) -> dict[str, object]:
    flash = {"over_provisioning_share": over_provisioning_share, "program_us": 40}
    return {"channels": 4, "lasting": True, "write": {"base_us": 0}, "ftl": flash}


def condition(
    folder: Path,
    method: str,
    share: float,
    steady=snia,
    *,
    assumed: float | None = None,
    rounds: int = 25,
    device: dict[str, object] | None = None,
    verify_with: tuple[tuple[str, str, str], ...] = (),
) -> Measured:
    """Condition a simulated drive of 256 MiB with so much flash beyond."""
    place = {"kind": "simulated", "size": "256MiB", "model": device or model(share)}
    options = {
        "method": method,
        "over_provisioning": assumed,
        "verify_with": verify_with,
        "size": None,
        "threads": 1,
        "depth": 16,
        "seconds": 3600.0,
        "rounds": rounds,
        "seed": None,
    }
    plan, _ = planned(place, options)
    conditioning = Conditioning(steady, discards=False)
    with ResultsFile.open(folder / f"{method}.seatrial", create=True) as store:
        request = RunRequest(plan=plan, command="test")
        run, end = execute(request, store, watcher=SilentWatcher(), strategy=conditioning)
        samples = store.samples(run.id)
    return Measured(
        end,
        [sample for sample in samples if sample.cell.kind == "fill"],
        [sample for sample in samples if sample.cell.kind != "fill"],
        conditioning.is_steady,
    )


def steady_of(values: list[float]) -> float:
    """The level after many rounds."""
    return statistics.fmean(values[LONG // 2 :])


@pytest.mark.parametrize("share", [0.07, 0.28])
def test_one_pass_ends_where_two_passes_come_to_in_many_rounds(tmp_path, share):
    one = condition(tmp_path, "one-pass", share, never, rounds=LONG)
    two = condition(tmp_path, "snia", share, never, rounds=LONG)
    # Both come to the same in the end ...
    for values in ("amplifications", "rates_per_s"):
        end_of_one, end_of_two = steady_of(getattr(one, values)), steady_of(getattr(two, values))
        assert end_of_one == pytest.approx(end_of_two, rel=0.01)
        # ... where the one pass is from the first round on, and the two passes are not.
        assert getattr(one, values)[:5] == pytest.approx([end_of_one] * 5, rel=0.04)
        assert getattr(two, values)[0] != pytest.approx(end_of_two, rel=0.4)
    assert one.written_bytes == pytest.approx((1 + share) * 256 * MIB, rel=0.005)
    assert two.written_bytes == 2 * 256 * MIB


def test_the_proof_ends_as_soon_as_the_rule_is_met(tmp_path):
    one = condition(tmp_path, "one-pass", 0.15)
    assert one.is_steady
    assert one.end.status == "complete"
    assert one.end.reason.startswith(
        "Steady within 5 rounds of the steady-state test. proof/write/4096B/1t/16"
    )
    assert [sample.round for sample in one.proofs] == [0, 1, 2, 3, 4]
    two = condition(tmp_path, "snia", 0.15)
    assert two.is_steady
    assert len(two.proofs) > 5
    assert snia(two.rates_per_s).met
    assert not snia(two.rates_per_s[:-1]).met
    assert f"Steady within {len(two.proofs)} rounds" in two.end.reason


def test_a_wrong_guess_of_the_flash_is_seen_in_the_proof(tmp_path):
    """Too little written: what is still erased serves the first rounds, and the proof says so."""
    wrong = condition(tmp_path, "one-pass", 0.28, assumed=0.07, rounds=LONG)
    assert wrong.rates_per_s[0] > 2 * wrong.rates_per_s[-1]
    assert len(wrong.proofs) > 5
    assert wrong.is_steady


def test_a_drive_that_never_settles_is_reported_as_such(tmp_path):
    credit = {"credit_operations": 90_000, "refill_per_s": 100}
    device = model(0.28) | {"burst": credit}
    found = condition(tmp_path, "one-pass", 0.28, rounds=5, device=device)
    assert not found.is_steady
    assert len(found.proofs) == 5
    assert found.end.reason.startswith("Not steady after 5 rounds of the steady-state test. ")


def test_every_workload_that_is_requested_must_be_steady(tmp_path):
    requested = (("mixed", "8k", "random"), ("write", "4k", "random"))
    found = condition(tmp_path, "one-pass", 0.28, verify_with=requested)
    assert found.is_steady
    keys = {sample.cell.key for sample in found.proofs}
    assert {key.partition("/")[0] for key in keys} == {"proof", "proof-2"}, "4k is not done twice"
    assert all(key in found.end.reason for key in keys)


def test_a_target_that_is_not_written_whole_proves_nothing(tmp_path):
    device = model(0.28) | {"error_share": 0.01}
    with pytest.raises(TargetError, match=r"one-pass wrote .* of 32[0-9] MiB: EIO"):
        condition(tmp_path, "one-pass", 0.28, device=device)


@pytest.mark.parametrize(
    ("drive_bytes", "share"),
    [
        (1_000_204_886_016, 0.099),  # 1 TB
        (960_197_124_096, 0.145),  # 960 GB
        (800_166_076_416, 0.374),  # 800 GB
        (3_840_755_982_336, 0.145),  # 3.84 TB
        (1 << 40, 0.07),  # nothing is seen to be kept back
        (600 * 10**9, 0.07),  # no usual capacity
        (None, 0.07),
    ],
)
def test_the_guess_of_the_flash_beyond_the_capacity(drive_bytes, share):
    assert guessed_over_provisioning(drive_bytes) == pytest.approx(share, abs=0.001)
