"""``seatrial cache predict``: predicts memory or an SSD in front, from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seatrial import _core
from seatrial.cli.files import Output, output_option
from seatrial.cli.options import json_option, ray_option, results_option
from seatrial.errors import UsageError
from seatrial.study.units import parse_size_bytes

if TYPE_CHECKING:
    from seatrial.trials.cache.analysis.money import Prices
    from seatrial.trials.cache.analysis.prediction import CachePrediction, PredictionRequest
    from seatrial.trials.watch.recording import Recording

POLICIES: Final = [name for name, *_ in _core.cache_policies()]
DEVICES: Final = [each.name for each in _core.cache_devices()]

EPILOG = """\b
Examples:
  seatrial cache predict pgbench.rec
  seatrial cache predict pgbench.rec --ram 8GiB,32GiB --ssd 0,200GiB
  seatrial cache predict last --results night.seatrial
  seatrial cache predict web.rec --policy arc --ssd 50GiB --ssd-kind l2arc-2.3
  seatrial cache predict pgbench.rec --ssd 100GiB --ssd-like last --clients 16 -o cache.html
  seatrial cache predict web.rec --ssd 0,200GiB --price ram=3.50USD --price ssd=aws/gp3

\b
`seatrial watch --record FILE` makes a recording, `seatrial trace import` one of a foreign trace.
docs/cache.md describes policies, kinds of cache devices and what is simulated.
"""


def _sizes_bytes(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> list[int]:
    """Return sizes in bytes; raises click.BadParameter for an invalid one."""
    try:
        words = [each.strip() for each in text.split(",")] if text else []
        return [0 if each == "0" else parse_size_bytes(each) for each in words]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("predict", epilog=EPILOG, short_help="Predict caches from a recording.")
@click.argument("reference", metavar="FILE|RUN")
@click.option(
    "--ram",
    "memory_bytes",
    metavar="SIZE,...",
    callback=_sizes_bytes,
    help="Sizes of memory in addition to the present caches; by default five that fit the load.",
)
@click.option(
    "--ssd",
    "device_bytes",
    metavar="SIZE,...",
    callback=_sizes_bytes,
    help="Sizes of an SSD behind the memory; 0 for none.",
)
@click.option(
    "--policy",
    metavar="POLICY",
    type=click.Choice(POLICIES),
    default="linux",
    show_default=True,
    help=f"Replacement policy of the memory: {', '.join(POLICIES)}.",
)
@click.option(
    "--ssd-kind",
    "device_kind",
    metavar="KIND",
    type=click.Choice(DEVICES),
    show_default="l2arc-2.3 behind an ARC, else bcache",
    help=f"Type of SSD cache: {', '.join(DEVICES)}.",
)
@click.option(
    "--block-size",
    "block_bytes",
    metavar="SIZE",
    default="8KiB",
    show_default=True,
    help="Block size of the caches.",
)
@click.option(
    "--clients",
    metavar="N",
    type=click.IntRange(1, 100_000),
    help="The load came from this many clients, each of which waits for its reads: they request "
    "more when they are served faster.",
)
@click.option(
    "--ssd-like",
    metavar="RUN",
    help="A run that measured the SSD, whose read latencies are used.",
)
@click.option(
    "--price",
    "prices",
    metavar="WHAT=PRICE",
    multiple=True,
    help="Price per month of a GiB of `ram` or `ssd`, or of one IOPS of `storage`: ssd=0.08USD, "
    "ssd=120EUR/TiB/5y (paid once, used for five years), ssd=aws/gp3 (from the catalogue).",
)
@click.option(
    "--endurance",
    metavar="AMOUNT",
    help="Rated write endurance of the SSD: 3504TB, 1DWPD, or a drive of the catalogue.",
)
@output_option("-o", "--output", about="Also write the report, with charts, as an HTML page.")
@ray_option
@results_option
@json_option
def predict(
    *,
    reference: str,
    memory_bytes: list[int],
    device_bytes: list[int],
    policy: str,
    device_kind: str | None,
    block_bytes: str,
    clients: int | None,
    ssd_like: str | None,
    prices: tuple[str, ...],
    endurance: str | None,
    output: Output,
    ray: str | None,
    results: Path,
    as_json: bool,
) -> int:
    """Predict which requests of the recording FILE (or of RUN) memory and an SSD would serve.

    Caches are simulated with the recorded requests at their times, or as clients send them: the
    share of the reads that each tier serves, warm-up, response time, what is written to the SSD.

    Raises:
        ClusterError: if the cluster cannot be used.
        UsageError: if the recording or the run cannot be used.
    """
    from seatrial.trials.cache.analysis.prediction import PredictionRequest  # noqa: PLC0415
    from seatrial.trials.cache.analysis.tiers import default_device  # noqa: PLC0415
    from seatrial.trials.cache.report import prediction_phrases  # noqa: PLC0415
    from seatrial.trials.watch.commands.record import recording_of  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415

    kind = device_kind or default_device(policy)
    if any(device_bytes):
        _check_feed(policy, kind, memory_bytes)
    recording = recording_of(reference, results)
    found = read(recording)
    device_ns, device_servers = _ssd_reads(ssd_like, results) if ssd_like else ([], 0)
    request = PredictionRequest(
        memory_bytes=memory_bytes,
        device_bytes=device_bytes,
        policy=policy,
        device_kind=kind,
        block_bytes=_block_bytes(block_bytes),
        device_ns=device_ns,
        tariff=_prices(prices, endurance),
        clients=clients,
        device_servers=device_servers,
    )
    prediction = _prediction(recording, found, request, ray)
    next_step = _next_step(recording, prediction, output)
    if output.is_named:
        from seatrial.trials.cache.report.prediction_page import render  # noqa: PLC0415

        again = f"seatrial cache predict {recording} --output FILE"
        output.write(render(recording.name, found.about, prediction, next_step), otherwise=again)
    if as_json:
        from seatrial.trials.cache.documents import CacheDocument  # noqa: PLC0415

        document = CacheDocument(
            verdict=prediction_phrases.verdict_line(prediction),
            notable=prediction_phrases.notable(prediction),
            doubts=prediction_phrases.doubts(prediction, found.about),
            prediction=prediction,
        )
        click.echo(document.as_text(), nl=False)
    else:
        from seatrial.trials.cache.report.prediction_text import prediction_text  # noqa: PLC0415

        click.echo(prediction_text(prediction, found.about, next_step))
    return 0


def _prediction(
    recording: Path, found: Recording, request: PredictionRequest, ray: str | None
) -> CachePrediction:
    """Return the prediction for a recording.

    Raises:
        ClusterError: if the cluster cannot be used.
        UsageError: if it has no read, or such clients cannot have sent it.
    """
    from seatrial.trials.cache.analysis.clients import TooFewClientsError  # noqa: PLC0415
    from seatrial.trials.cache.analysis.prediction import predict as predict_caches  # noqa: PLC0415

    if request.clients is not None:
        _check_times(found, request)
    try:
        prediction = (
            predict_caches(found, request) if ray is None else _on_cluster(found, request, ray)
        )
    except TooFewClientsError as error:
        raise UsageError(
            seen=f"{request.clients} clients cannot have sent this load: {error}",
            cause="A client with --clients waits for each read before it sends the next",
            next_step="Give as many clients as there were, or omit --clients",
        ) from None
    if prediction is None:
        raise UsageError(
            seen=f"{recording} has no reads",
            cause="A cache serves reads",
            next_step=f"See its contents: `seatrial trace show {recording}`",
        )
    return prediction


def _on_cluster(
    recording: Recording, request: PredictionRequest, address: str
) -> CachePrediction | None:
    """Simulate on the hosts of a cluster; raises ClusterError."""
    from seatrial.fleet.cluster import connect  # noqa: PLC0415 - Ray is optional
    from seatrial.trials.cache.analysis.prediction import predict as predict_caches  # noqa: PLC0415
    from seatrial.trials.cache.measure.simulations import on_cluster  # noqa: PLC0415

    with connect(address) as cluster:
        return predict_caches(recording, request, on_cluster(cluster))


def _block_bytes(text: str) -> int:
    """Return the size of a block; raises click.BadParameter if it is unsupported."""
    try:
        size = parse_size_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--block-size") from None
    if not 512 <= size <= 1 << 30 or size & (size - 1):
        raise click.BadParameter(
            "a block is a power of two from 512 bytes to 1 GiB", param_hint="--block-size"
        )
    return size


def _check_feed(policy: str, kind: str, memory_bytes: list[int]) -> None:
    """Raise UsageError if the SSD is fed from memory that cannot feed it."""
    from seatrial.trials.cache.analysis.tiers import fed_devices, feeding_policies  # noqa: PLC0415

    feeding = feeding_policies()
    if kind not in fed_devices() or (policy in feeding and 0 not in memory_bytes):
        return
    raise UsageError(
        seen=f"An SSD cache of type {kind} cannot be fed by the policy {policy}"
        if policy not in feeding
        else f"An SSD cache of type {kind} receives nothing if there is no memory",
        cause="Its thread copies what memory will drop next, which only these policies know: "
        f"{', '.join(feeding)}",
        next_step="Choose --policy arc and memory, or --ssd-kind bcache",
    )


def _prices(prices: tuple[str, ...], endurance: str | None) -> Prices:
    """Return the prices; raises click.BadParameter if one is invalid."""
    from seatrial.catalogue.store import catalogue  # noqa: PLC0415 - not for --help
    from seatrial.trials.cache.analysis.money import prices_of  # noqa: PLC0415

    try:
        return prices_of(prices, endurance, catalogue())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--price or --endurance") from None


def _check_times(found: Recording, request: PredictionRequest) -> None:
    """Raise UsageError if clients are given, but response times are unknown."""
    from seatrial.trials.watch.recording import TIME  # noqa: PLC0415

    if not found.about.knows_device or TIME in found.about.made_up:
        raise UsageError(
            seen="--clients needs a recording with the times and latencies of reads",
            cause=f"Its source ({found.about.source}) does not have them",
            next_step="Omit --clients, or record with `seatrial watch --record`",
        )
    if any(request.device_bytes) and not request.device_ns:
        raise UsageError(
            seen="--clients with --ssd needs the read latency of the SSD",
            cause="Clients that wait for their reads send more of them if the SSD is faster",
            next_step="Name a run that measured it: --ssd-like RUN",
        )


def _ssd_reads(reference: str, results: Path) -> tuple[list[int], int]:
    """Return latencies of the fastest read test of a run (ns), and the concurrent reads of the SSD.

    The concurrency follows from the highest rate of any test and the latency of the fastest.

    Raises:
        UsageError: if there is no such run, or it has no read.
    """
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - not for --help

    best: _core.Histogram | None = None
    most_per_s = 0.0
    for sample in load_source(reference, results).samples:
        read = sample.operations.get("read")
        found = read.response_histogram() if read is not None else None
        if found is None or not found.count:
            continue
        most_per_s = max(most_per_s, found.count / sample.duration_s if sample.duration_s else 0.0)
        if best is None or found.mean_ns < best.mean_ns:
            best = found
    if best is None:
        raise UsageError(
            seen=f"The run {reference} has no reads",
            cause="--ssd-like uses the read latencies of a run",
            next_step="Measure the SSD: `seatrial io DIRECTORY --block-size 8k`",
        )
    count = 1000
    latencies_ns = [best.percentile_ns(100 * (index + 0.5) / count) for index in range(count)]
    return latencies_ns, max(1, round(most_per_s * best.mean_ns / 1e9))


def _next_step(recording: Path, prediction: CachePrediction, output: Output) -> str:
    from seatrial.trials.cache.report.prediction_phrases import is_reused  # noqa: PLC0415

    if not is_reused(prediction):
        return "Record for longer: `seatrial watch --record FILE --for 1h`"
    if not any(each.device_bytes for each in prediction.tiers):
        return f"Try an SSD: `seatrial cache predict {recording} --ssd 0,SIZE`"
    if output.path is None:
        return f"See the curves: `seatrial cache predict {recording} --output cache.html`"
    return f"What kind of load it is: `seatrial trace show {recording}`"
