"""fio's job files as a study: each job a workload, each file or device a target.

What Seatrial does otherwise, or cannot do, is told as a note for each job; no option is dropped
in silence. The notes are sentences without a full stop, as those of a plan are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.document import Document
from seatrial.importers.fio.job_file import JobSection, job_sections
from seatrial.importers.fio.notes import JobNotes
from seatrial.importers.fio.options import (
    BLOCK_BYTES,
    SYNCHRONOUS,
    access_of,
    engine_name,
    is_set,
    number,
    size_bytes,
    time_s,
)
from seatrial.importers.fio.places import Places

RUNTIME_S: Final = 10.0
UNTIL_DONE_S: Final = 3600.0
NAME_CHARACTERS_MAX: Final = 64
ENGINES: Final = {"io_uring": "io_uring", "libaio": "auto", "posixaio": "auto"}
HONOURED: Final = {
    *("rw", "bs", "bsrange", "bssplit", "numjobs", "iodepth", "rwmixread", "rwmixwrite", "direct"),
    *("buffered", "fsync", "fdatasync", "sync", "rate_iops", "rate_process", "runtime", "timeout"),
    *("random_distribution", "percentage_random", "filename", "directory", "size", "filesize"),
    *("offset", "io_size", "ioengine", "hipri", "buffer_compress_percentage", "kb_base", "name"),
    *("description", "stonewall", "time_based"),
}  # fmt: skip
HARMLESS: Final = {
    *("group_reporting", "new_group", "thread", "norandommap", "randrepeat", "randseed"),
    *("allrandrepeat", "refill_buffers", "scramble_buffers", "create_on_open", "fallocate"),
    *("gtod_reduce", "gtod_cpu", "clocksource", "disk_util", "eta", "status_interval"),
    *("percentile_list", "lat_percentiles", "clat_percentiles", "slat_percentiles", "unlink"),
    *("create_serialize", "exitall", "invalidate", "per_job_logs", "overwrite"),
    *("write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log", "log_avg_msec"),
    *("log_hist_msec", "log_hist_coarseness", "log_max_value", "log_offset", "log_unix_epoch"),
    *("unit_base", "allow_file_create", "unified_rw_reporting", "random_generator"),
}  # fmt: skip
"""Options that change only how fio works or prints, or that Seatrial always does so."""
INSTEAD: Final = {
    "ramp_time": "the start-up phase is found in the timeline and left out",
    "loops": "say rounds in the study",
    "verify": "say data = 'verifiable' and verify = true in the study",
    "rate": "say rate_iops, or arrival and rate in the study",
    "thinktime": "say arrival = 'fixed' and a rate in the study",
    "startdelay": "each cell is measured alone",
    "zero_buffers": "what is written does not compress",
    "nrfiles": "there is one trial file",
    "cpus_allowed": "run Seatrial itself under taskset",
    "nice": "run Seatrial itself under nice",
    "ba": "every request begins at a multiple of its size",
    "file_append": "writes begin at the start of the range",
    "invalidate": "how the page cache stands before a sample is for Seatrial to say",
}
_FAR: Final = re.compile(r"[^A-Za-z0-9_-]+")


class JobStudy(msgspec.Struct, frozen=True, kw_only=True):
    """What a job file asks of Seatrial.

    Attributes:
        mapping: The study, with the keys of a study file.
        notes: What is done otherwise than by fio.
    """

    mapping: dict[str, Any]
    notes: list[str]


def study_of(document: Document) -> JobStudy:
    """Return the study of a job file.

    Raises:
        UsageError: The file is malformed, or no job of it can be measured.
    """
    sections = job_sections(document)
    notes = JobNotes()
    _note_order(sections, notes)
    places = Places(notes)
    workloads: list[dict[str, Any]] = []
    accesses: list[dict[str, Any]] = []
    for section in sections:
        job = _Job(section, notes)
        if not job.access.operation:
            notes.add(section.name, "left out, for Seatrial does not trim")
            continue
        name = _unique(section.name, [workload["name"] for workload in workloads])
        label = places.of(section, name, writes=job.access.operation != "read")
        workload = job.workload(name, label)
        if job.mix:
            accesses.append({"name": name, "lines": [job.mix]})
        workloads.append(workload)
        job.note_what_is_left()
    if not workloads:
        raise UsageError(
            seen=f"{document.path} has no job that reads or writes",
            cause="Its jobs only trim, which Seatrial does not do",
            next_step="Name a job file with reads or writes",
        )
    mapping: dict[str, Any] = {
        "name": _FAR.sub("-", document.path.stem) or "fio",
        "description": f"The jobs of {document.name}",
        "target": places.targets(),
        "workload": workloads,
    }
    if accesses:
        mapping["access"] = accesses
    for workload in workloads:
        part = places.range_of(workload["name"])
        if workload["kind"] == "io":
            workload.update(part)
        elif part:
            notes.add(workload["name"], "offset and size are not honoured; all of its file is used")
    return JobStudy(mapping=mapping, notes=notes.sentences())


def _unique(name: str, taken: Sequence[str]) -> str:
    """Return a section's name as a workload may bear it."""
    plain = _FAR.sub("-", name).strip("-_")[: NAME_CHARACTERS_MAX - 4] or "job"
    count = 2
    unique = plain
    while unique in taken:
        unique, count = f"{plain}-{count}", count + 1
    return unique


def _note_order(sections: Sequence[JobSection], notes: JobNotes) -> None:
    """Note jobs that fio runs at the same time as the one before."""
    for before, section in pairwise(sections):
        if not is_set(section.options, "stonewall") and "wait_for" not in section.options:
            for each in (before, section):
                notes.add(
                    each.name,
                    "fio runs them at the same time; Seatrial measures each cell alone, in "
                    "rounds and in random order",
                )


class _Job:
    """One job on its way to become a workload."""

    def __init__(self, section: JobSection, notes: JobNotes) -> None:
        self.section = section
        self.options = section.options
        self._notes = notes
        self.access = access_of(section.options)
        self.mix: dict[str, Any] | None = None

    def note(self, text: str) -> None:
        """Keep what is done otherwise in this job."""
        self._notes.add(self.section.name, text)

    def workload(self, name: str, target: str) -> dict[str, Any]:
        """Return the workload of the job, without its range on the target."""
        access = self.access
        is_commit = access.dsync and access.operation == "write"
        if access.dsync and not is_commit:
            self.note("sync is not honoured: only jobs that do nothing but write open with O_DSYNC")
        is_mixed = not access.block_size_bytes or "percentage_random" in self.options
        if is_commit:
            workload = self._commit()
        elif is_mixed:
            self.mix = self._line()
            workload = {"kind": "mix", "accesses": [name]}
        else:
            workload = {"kind": "io"} | self._pattern()
        workload = {"name": name, "targets": [target]} | workload
        if not is_commit:
            workload |= {"threads": access.threads, "depths": access.depth}
            workload |= self._driving()
        workload |= {"engine": self._engine(), "direct": access.direct}
        return workload | self._limits() | self._data()

    def note_what_is_left(self) -> None:
        """Note every option that nobody has read."""
        for option, value in self.options.items():
            if option not in HONOURED and not self._is_harmless(option):
                written = f"{option}={value}" if value else option
                instead = f"; {INSTEAD[option]}" if option in INSTEAD else ""
                self.note(f"{written} is not honoured{instead}")

    def _is_harmless(self, option: str) -> bool:
        """Tell whether the option, with its value here, changes nothing that is measured."""
        if option == "ba":
            return number(self.options, "ba", 0) == self.access.block_size_bytes > 0
        if option == "invalidate":
            return is_set(self.options, option)
        return option in HARMLESS

    def _commit(self) -> dict[str, Any]:
        self.note("sync makes each write durable: measured as commits by O_DSYNC to a log")
        if self.access.depth > 1:
            self.note("a commit waits for its write: iodepth is 1")
        return {
            "kind": "commit",
            "methods": "o_dsync",
            "committers": self.access.threads,
            "size": self.access.block_size_bytes or BLOCK_BYTES,
        }

    def _pattern(self) -> dict[str, Any]:
        access = self.access
        found: dict[str, Any] = {
            "operations": access.operation,
            "block_sizes": [access.block_size_bytes],
            "pattern": str(access.factors["pattern"]),
        }
        if access.operation == "mixed":
            found["read_share"] = access.factors["read_share"]
        if found["pattern"] == "zipf":
            found["theta"] = access.factors.get("theta", 0.99)
        elif found["pattern"] not in ("random", "sequential"):
            self.note(f"random_distribution={found['pattern']} is not honoured; evenly random here")
            found["pattern"] = "random"
        if skip := self.options.get("rw", "").partition(":")[2]:
            found |= self._strided(skip)
        return found

    def _strided(self, skip: str) -> dict[str, Any]:
        """Return the pattern of ``rw=read:SKIP``; of random ones that means something else."""
        if self.access.factors["pattern"] != "sequential":
            self.note(f"rw={self.options['rw']} is not honoured: a new place at every request here")
            return {}
        try:
            stride_bytes = size_bytes(skip) + self.access.block_size_bytes
        except ValueError:
            self.note(f"rw={self.options['rw']} is not honoured: it goes backwards")
            return {}
        return {"pattern": "strided", "stride": stride_bytes}

    def _line(self) -> dict[str, Any]:
        """Return the job as a line of an access specification: sizes, reads, randomness."""
        access = self.access
        read = {"read": 1.0, "write": 0.0}.get(access.operation, access.factors.get("read_share"))
        is_random = access.factors["pattern"] != "sequential"
        percent = number(self.options, "percentage_random", 100 if is_random else 0)
        random = min(100, percent) / 100 if is_random or access.operation == "mixed" else 0.0
        sizes = self._sizes()
        return {"sizes": sizes, "read": read, "random": random if is_random else 0.0}

    def _sizes(self) -> list[dict[str, Any]]:
        """Return the block sizes with their shares; those of writes as those of reads."""
        written = self.options.get("bssplit", "")
        if "," in written or "," in self.options.get("bs", ""):
            self.note("reads and writes have the sizes of the reads")
        if self.options.get("bsrange"):
            self.note(f"bsrange={self.options['bsrange']}: only its two ends, equally often")
        sizes = []
        for part in written.split(",")[0].split(":") if written else self._few_sizes():
            size, _, share = part.partition("/")
            try:
                sizes.append({"size": size_bytes(size), "share": float(share or 1)})
            except ValueError:
                self.note(f"the block size {part!r} is not honoured")
        return [size for size in sizes if size["share"] > 0] or [{"size": BLOCK_BYTES}]

    def _few_sizes(self) -> list[str]:
        if self.options.get("bsrange"):
            return self.options["bsrange"].split(",")[0].split("-")
        return self.options.get("bs", str(BLOCK_BYTES)).split(",")[:1]

    def _driving(self) -> dict[str, Any]:
        access = self.access
        found: dict[str, Any] = {}
        if access.arrival["kind"] != "closed":
            found = {"arrival": access.arrival["kind"], "rate": access.arrival["rate_per_s"]}
            self.note("latencies count from when a request was due, not from when it started")
            if "," in self.options.get("rate_iops", ""):
                self.note(
                    "rate_iops of writes is not honoured; the first figure is of all requests"
                )
        if access.sync_every:
            found |= {"sync_every": access.sync_every, "sync_kind": access.sync_kind}
        return found

    def _engine(self) -> str:
        engine = engine_name(self.options)
        if engine in SYNCHRONOUS and engine != "mmap":
            if number(self.options, "iodepth", 1) > 1:
                self.note(f"{engine} keeps one request in flight: iodepth is 1, as in fio")
            return "psync"
        if engine not in ENGINES:
            self.note(
                f"ioengine={engine} is not honoured; Seatrial chooses between io_uring and psync"
            )
        elif engine != "io_uring":
            self.note(f"ioengine={engine}: io_uring takes its place")
        return ENGINES.get(engine, "auto")

    def _limits(self) -> dict[str, Any]:
        """Return how long a sample lasts, and how much it may write."""
        asked = self.options.get("runtime") or self.options.get("timeout") or ""
        try:
            duration_s = time_s(asked) if asked else 0.0
        except ValueError:
            self.note(f"runtime={asked} is not honoured")
            duration_s = 0.0
        writes = self.access.operation != "read"
        limit_bytes = self._total_bytes() if writes else 0
        if is_set(self.options, "time_based") and writes:
            self.note(
                "a sample that writes ends after as many bytes as its range has, also with "
                "time_based; limit_bytes in the study lifts that"
            )
            limit_bytes = 0
        if not duration_s:
            duration_s = UNTIL_DONE_S if limit_bytes else RUNTIME_S
            until = "until all is written" if limit_bytes else f"{RUNTIME_S:g} s a sample"
            self.note(f"no runtime: {until}")
        limits: dict[str, Any] = {"seconds": duration_s}
        return limits | ({"limit_bytes": limit_bytes} if limit_bytes else {})

    def _total_bytes(self) -> int:
        """Return what all threads together would write; 0 where the file does not say."""
        each_bytes = number(self.options, "io_size", 0) or number(self.options, "size", 0)
        return each_bytes * self.access.threads

    def _data(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if percent := number(self.options, "buffer_compress_percentage", 0):
            found = {"data": "compressible", "compressible_share": min(100, percent) / 100}
        if is_set(self.options, "hipri") and engine_name(self.options) == "io_uring":
            found["iopoll"] = True
        return found
