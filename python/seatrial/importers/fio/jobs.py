"""fio's job files as a study: each job a workload, each file or device a target.

What Seatrial does differently, or cannot do, is reported in a note for each job; no option is
dropped silently. The notes are sentences without a full stop, as those of a plan are.

The rules are those of fio's own reader (init.c of its source): ``[global]`` applies to the jobs
below it, a later one extends it; ``;`` and ``#`` begin a comment anywhere in a line; a word alone
sets a flag; ``${NAME}`` is an environment variable.

An existing file or a device is the target itself; for a file that fio would create, Seatrial uses a
trial file in the same directory. Jobs on the same path share it, each with its range.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.document import Document
from seatrial.importers.fio.options import (
    BLOCK_BYTES,
    FIO_ZIPF_THETA,
    SYNCHRONOUS,
    access_of,
    engine_name,
    is_set,
    number,
    part_of,
    plain_name,
    size_bytes,
    time_s,
)
from seatrial.study.load import Table

JOBS_MAX: Final = 1000
_SECTION: Final = re.compile(r"\[([^\[\]]+)\]")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_SIGN: Final = re.compile(
    r"^\s*(?:rw|readwrite|ioengine|iodepth|numjobs)\s*=\s*[a-z0-9]", re.MULTILINE
)
_TABLE: Final = re.compile(r"^\s*\[[^\[\]]+\]\s*(?:[;#].*)?$", re.MULTILINE)


class JobSection(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a file.

    Attributes:
        name: Its section's name.
        line: Number of the section's line, from 1.
        options: By usual name, including those of ``[global]``; a flag has an empty value.
    """

    name: str
    line: int
    options: dict[str, str]


def is_job_file(text: str) -> bool:
    """Return whether a text is a job file of fio."""
    return bool(_TABLE.search(text)) and bool(_SIGN.search(text)) and "[[" not in text


def job_sections(document: Document) -> list[JobSection]:
    """Return the jobs of a file, in its order.

    Raises:
        UsageError: An option precedes the first section, a variable is not set, another file is
            included, or there is no job.
    """
    shared: dict[str, str] = {}
    current: dict[str, str] | None = None
    found: list[JobSection] = []
    for line, raw in enumerate(document.text.splitlines(), start=1):
        text = re.split("[;#]", raw, maxsplit=1)[0].strip()
        if not text:
            continue
        if section := _SECTION.fullmatch(text):
            current = _begin(section[1].strip(), line, shared, found)
            continue
        if text.split()[0] == "include":
            raise _wrong(
                document, line, f"{text!r} includes another file", "Insert its contents here"
            )
        if current is None:
            raise _wrong(
                document, line, f"{text!r} precedes the first section", "Move it below [global]"
            )
        name, _, value = text.partition("=")
        current[plain_name(name)] = _expanded(document, line, value.strip())
    if not found or len(found) > JOBS_MAX:
        raise _wrong(
            document, 1, f"there are {len(found)} jobs", f"A file must have 1 to {JOBS_MAX} jobs"
        )
    return found


def _begin(name: str, line: int, shared: dict[str, str], found: list[JobSection]) -> dict[str, str]:
    """Return the options for the lines below a section's heading."""
    if name.lower() == "global":
        return shared
    found.append(JobSection(name=name, line=line, options=dict(shared)))
    return found[-1].options


def _expanded(document: Document, line: int, value: str) -> str:
    for name in _VARIABLE.findall(value):
        if name not in os.environ:
            raise _wrong(
                document, line, f"the variable {name} is not set", f"Run {name}=... seatrial study"
            )
    return _VARIABLE.sub(lambda found: os.environ[found[1]], value)


def _wrong(document: Document, line: int, seen: str, next_step: str) -> UsageError:
    return UsageError(
        seen=f"{document.path}, line {line}: {seen}",
        cause="Seatrial runs a fio job file only if it understands all of it",
        next_step=next_step,
    )


NAMED_MAX: Final = 3


class JobNotes:
    """Notes on the jobs of a file, in order of creation."""

    def __init__(self) -> None:
        self._jobs_by_text: dict[str, list[str]] = {}

    def add(self, job: str, text: str) -> None:
        """Add a note on one job, or on all for an empty name."""
        jobs = self._jobs_by_text.setdefault(text, [])
        if job and job not in jobs:
            jobs.append(job)

    def sentences(self) -> list[str]:
        """Return the notes without a full stop, as those of a plan are."""
        return [f"{_named(jobs)}{text}" for text, jobs in self._jobs_by_text.items()]


def _named(jobs: list[str]) -> str:
    if not jobs:
        return ""
    if len(jobs) == 1:
        return f"job {jobs[0]}: "
    if len(jobs) > NAMED_MAX:
        return f"jobs {jobs[0]}, {jobs[1]} and {len(jobs) - 2} others: "
    return f"jobs {', '.join(jobs[:-1])} and {jobs[-1]}: "


_FAR: Final = re.compile(r"[^A-Za-z0-9_-]+")
LABEL_CHARACTERS_MAX: Final = 48


class _Target(msgspec.Struct):
    """A target under construction.

    Attributes:
        label: Its label in cells.
        path: Directory, device or file.
        size_bytes: The size that the jobs need; 0 for all of it.
    """

    label: str
    path: str
    size_bytes: int = 0


class JobTargets:
    """The targets of a job file; differences from fio are added to ``notes``."""

    def __init__(self, notes: JobNotes) -> None:
        self._notes = notes
        self._targets: dict[str, _Target] = {}
        self._ranges: dict[str, tuple[str, int, int]] = {}

    def of(self, section: JobSection, workload: str, *, writes: bool) -> str:
        """Return the label of a job's target.

        Args:
            section: The job.
            workload: Name of its workload.
            writes: Whether it writes.
        """
        path = self._path(section, writes=writes)
        job_target = self._targets.get(path)
        if job_target is None:
            job_target = self._targets[path] = _Target(self._label(path), path)
        start_bytes, length_bytes = self._range(section)
        if length_bytes:
            job_target.size_bytes = max(job_target.size_bytes, start_bytes + length_bytes)
        self._ranges[workload] = (path, start_bytes, length_bytes)
        return job_target.label

    def targets(self) -> list[Table]:
        """Return the targets with the keys of a study file."""
        return [
            {"label": job_target.label, "path": job_target.path}
            | ({"size": job_target.size_bytes} if job_target.size_bytes else {})
            for job_target in self._targets.values()
        ]

    def range_of(self, workload: str) -> dict[str, int]:
        """Return the range of a workload, if it is only a part of its target."""
        path, start_bytes, length_bytes = self._ranges[workload]
        found = {"range_start": start_bytes} if start_bytes else {}
        if length_bytes and start_bytes + length_bytes < self._targets[path].size_bytes:
            found["range_length"] = length_bytes
        return found

    def _label(self, path: str) -> str:
        labels = [job_target.label for job_target in self._targets.values()]
        return unique_name(Path(path).name, labels, "trial", LABEL_CHARACTERS_MAX)

    def _path(self, section: JobSection, *, writes: bool) -> str:
        named, folder = section.options.get("filename", ""), section.options.get("directory", "")
        if not named:
            if access_of(section.options).threads > 1:
                self._note(
                    section, "all threads share one trial file; fio uses one file per thread"
                )
            return folder or "."
        first, *more = named.replace("\\:", "\0").split(":")
        if more:
            self._note(section, f"filename={named}: only the first file is used")
        path = Path(folder) / first.replace("\0", ":")
        if path.exists() and not path.is_dir():
            if writes:
                self._note(section, f"it writes to {path}: this requires --destroy {path}")
            return str(path)
        self._note(section, f"{path} does not exist: a trial file in {path.parent} is used instead")
        return str(path.parent)

    def _range(self, section: JobSection) -> tuple[int, int]:
        """Return start and length in bytes; a length of 0 means all of it."""
        found = {}
        for option in ("offset", "size", "filesize"):
            text = section.options.get(option, "")
            try:
                found[option] = size_bytes(text, section.options.get("kb_base", "1024"))
            except ValueError:
                found[option] = 0
                if text:
                    self._note(section, f"{option}={text} is ignored; specify it in bytes")
        if found["size"] and found["filesize"] and found["size"] != found["filesize"]:
            text = section.options["filesize"]
            self._note(section, f"filesize={text} is ignored; size sets the range used")
        return found["offset"], found["size"] or found["filesize"]

    def _note(self, section: JobSection, text: str) -> None:
        self._notes.add(section.name, text)


RUNTIME_S: Final = 10.0
UNTIL_DONE_S: Final = 3600.0
NAME_CHARACTERS_MAX: Final = 64
ENGINES: Final = {"io_uring": "io_uring", "libaio": "auto", "posixaio": "auto"}
HONOURED: Final = {
    *("rw", "bs", "bsrange", "bssplit", "numjobs", "iodepth", "rwmixread", "rwmixwrite", "direct"),
    *("buffered", "fsync", "fdatasync", "sync", "rate", "rate_iops", "rate_process"),
    *("runtime", "timeout"),
    *("random_distribution", "percentage_random", "filename", "directory", "size", "filesize"),
    *("offset", "io_size", "ioengine", "hipri", "buffer_compress_percentage", "kb_base", "name"),
    *("description", "stonewall", "time_based"),
}  # fmt: skip
BLOCK_SIZES: Final = ("bssplit", "bsrange", "bs")
HARMLESS: Final = {
    *("group_reporting", "new_group", "thread", "norandommap", "randrepeat", "randseed"),
    *("allrandrepeat", "refill_buffers", "scramble_buffers", "create_on_open", "fallocate"),
    *("gtod_reduce", "gtod_cpu", "clocksource", "disk_util", "eta", "status_interval"),
    *("percentile_list", "lat_percentiles", "clat_percentiles", "slat_percentiles", "unlink"),
    *("create_serialize", "exitall", "invalidate", "per_job_logs", "overwrite", "log_window_value"),
    *("write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log", "log_avg_msec"),
    *("log_hist_msec", "log_hist_coarseness", "log_max_value", "log_offset", "log_unix_epoch"),
    *("unit_base", "allow_file_create", "unified_rw_reporting", "random_generator"),
}  # fmt: skip
"""Options that only affect how fio works or prints, or that match what Seatrial always does."""
INSTEAD: Final = {
    "ramp_time": "the start-up phase is detected in the timeline and excluded",
    "loops": "use rounds in the study",
    "verify": "use data = 'verifiable' and verify = true in the study",
    "rate": "use rate_iops, or arrival and rate in the study",
    "thinktime": "use arrival = 'fixed' and a rate in the study",
    "startdelay": "tests run one at a time",
    "zero_buffers": "the data written is not compressible",
    "nrfiles": "there is one trial file",
    "cpus_allowed": "run Seatrial under taskset",
    "nice": "run Seatrial under nice",
    "ba": "every request starts at a multiple of its size",
    "file_append": "writes start at the beginning of the range",
    "invalidate": "Seatrial controls the page cache before each sample",
}


class JobStudy(msgspec.Struct, frozen=True, kw_only=True):
    """The study of a job file.

    Attributes:
        mapping: The study, with the keys of a study file.
        notes: Differences from fio.
    """

    mapping: Table
    notes: list[str]


def study_of(document: Document) -> JobStudy:
    """Return the study of a job file.

    Raises:
        UsageError: The file is malformed, or no job of it can be measured.
    """
    sections = job_sections(document)
    notes = JobNotes()
    _note_order(sections, notes)
    job_targets = JobTargets(notes)
    workloads: list[Table] = []
    accesses: list[Table] = []
    for section in sections:
        job = _Job(section, notes)
        if not job.access.operation:
            notes.add(section.name, "skipped, as Seatrial does not trim")
            continue
        name = unique_name(section.name, [each["name"] for each in workloads], "job")
        label = job_targets.of(section, name, writes=job.access.operation != "read")
        workload = job.workload(name, label)
        if job.mix:
            accesses.append({"name": name, "lines": [job.mix]})
        workloads.append(workload)
        job.note_unused_options()
    if not workloads:
        raise UsageError(
            seen=f"{document.path} has no job that reads or writes",
            cause="Its jobs only trim, which Seatrial does not do",
            next_step="Specify a job file with reads or writes",
        )
    mapping: Table = {
        "name": _FAR.sub("-", document.path.stem) or "fio",
        "description": f"The jobs of {document.name}",
        "target": job_targets.targets(),
        "workload": workloads,
    }
    if accesses:
        mapping["access"] = accesses
    for workload in workloads:
        part = job_targets.range_of(workload["name"])
        if workload["kind"] == "io":
            workload.update(part)
        elif part:
            notes.add(workload["name"], "offset and size are ignored; the whole file is used")
    return JobStudy(mapping=mapping, notes=notes.sentences())


def unique_name(
    written: str, taken: Sequence[str], instead: str, characters_max: int = NAME_CHARACTERS_MAX - 4
) -> str:
    """Return a valid and unique name of a study; ``instead`` where nothing is left of it."""
    plain = _FAR.sub("-", written).strip("-_")[:characters_max] or instead
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
                    "fio runs these jobs at the same time; Seatrial runs each test alone, in "
                    "rounds and in random order",
                )


class _Job:
    """One job under conversion to a workload."""

    def __init__(self, section: JobSection, notes: JobNotes) -> None:
        self.section = section
        self.options = section.options
        self._notes = notes
        self.access = access_of(section.options)
        self.mix: Table | None = None

    def note(self, text: str) -> None:
        """Add a note on this job."""
        self._notes.add(self.section.name, text)

    def workload(self, name: str, target: str) -> Table:
        """Return the workload of the job, without its range on the target."""
        access = self.access
        is_commit = access.dsync and access.operation == "write"
        if access.dsync and not is_commit:
            self.note("sync is ignored: O_DSYNC is supported only for jobs that only write")
        is_mixed = not access.block_size_bytes or "percentage_random" in self.options
        if is_commit:
            workload: Table = self._commit()
        elif is_mixed:
            self.mix = self._line()
            workload = {"kind": "mix", "accesses": [name]}
        else:
            workload = {"kind": "io"} | self._pattern()
        workload = {"name": name, "targets": [target], **workload}
        if not is_commit:
            workload |= {"threads": access.threads, "depths": access.depth}
            workload |= self._driving()
        workload |= {"engine": self._engine(), "direct": access.direct}
        return workload | self._limits() | self._data()

    def note_unused_options(self) -> None:
        """Add a note for every unused option."""
        for option, value in self.options.items():
            if option not in HONOURED and not self._is_harmless(option):
                written = f"{option}={value}" if value else option
                instead = f"; {INSTEAD[option]}" if option in INSTEAD else ""
                self.note(f"{written} is ignored{instead}")

    def _is_harmless(self, option: str) -> bool:
        """Return whether an option, with its value here, has no effect on the measurement."""
        if option == "ba":
            return number(self.options, "ba", 0) == self.access.block_size_bytes > 0
        if option == "invalidate":
            return is_set(self.options, option)
        return option in HARMLESS

    def _commit(self) -> Table:
        self.note("sync makes each write durable: measured as commits with O_DSYNC to a log")
        if self.access.depth > 1:
            self.note("a commit waits for its write: iodepth is 1")
        return {
            "kind": "commit",
            "methods": "o_dsync",
            "committers": self.access.threads,
            "size": self.access.block_size_bytes or BLOCK_BYTES,
        }

    def _pattern(self) -> Table:
        access = self.access
        found: Table = {
            "operations": access.operation,
            "block_sizes": [access.block_size_bytes],
            "pattern": str(access.factors["pattern"]),
        }
        if access.operation == "mixed":
            found["read_share"] = access.factors["read_share"]
        if found["pattern"] == "zipf":
            found["theta"] = access.factors.get("theta", FIO_ZIPF_THETA)
            written = self.options["random_distribution"]
            if "theta" not in access.factors:
                self.note(f"the theta of random_distribution={written} is unreadable")
            elif "," in written:
                self.note(f"random_distribution={written}: only its first theta is used")
        elif found["pattern"] not in ("random", "sequential"):
            self.note(
                f"random_distribution={found['pattern']} is ignored; offsets are uniformly random"
            )
            found["pattern"] = "random"
        if skip := self.options.get("rw", "").partition(":")[2]:
            found |= self._strided(skip)
        return found

    def _strided(self, skip: str) -> Table:
        """Return the pattern of ``rw=read:SKIP``; for random ones that has another meaning."""
        if self.access.factors["pattern"] != "sequential":
            self.note(f"rw={self.options['rw']} is ignored: each request has a new offset")
            return {}
        try:
            stride_bytes = size_bytes(skip) + self.access.block_size_bytes
        except ValueError:
            self.note(f"rw={self.options['rw']} is ignored: it goes backwards")
            return {}
        return {"pattern": "strided", "stride": stride_bytes}

    def _line(self) -> Table:
        """Return the job as a line of an access specification: sizes, reads, randomness."""
        access = self.access
        read = {"read": 1.0, "write": 0.0}.get(access.operation, access.factors.get("read_share"))
        is_random = access.factors["pattern"] != "sequential"
        percent = number(self.options, "percentage_random", 100 if is_random else 0)
        random = min(100, percent) / 100 if is_random or access.operation == "mixed" else 0.0
        sizes = self._sizes()
        return {"sizes": sizes, "read": read, "random": random if is_random else 0.0}

    def _sizes(self) -> list[Table]:
        """Return the block sizes with their shares; writes of mixed jobs use those of reads."""
        is_mixed = self.access.operation == "mixed"
        if is_mixed and any("," in self.options.get(name, "") for name in BLOCK_SIZES):
            self.note("reads and writes use the block sizes of the reads")
        if self.options.get("bsrange"):
            self.note(f"bsrange={self.options['bsrange']}: only both ends are used, equally often")
        sizes: list[Table] = []
        for part in self._size_parts():
            size, _, share = part.partition("/")
            try:
                sizes.append({"size": size_bytes(size), "share": float(share or 0)})
            except ValueError:
                self.note(f"the block size {part!r} is ignored")
        # As in fio, sizes without a share, or with 0, have equal parts of the rest of 100 %.
        rest = max(0.0, 100 - sum(each["share"] for each in sizes))
        unset = [each for each in sizes if not each["share"]]
        for each in unset:
            each["share"] = rest / len(unset)
        return [each for each in sizes if each["share"] > 0] or [{"size": BLOCK_BYTES}]

    def _size_parts(self) -> list[str]:
        written = {name: self.options.get(name, "") for name in BLOCK_SIZES}
        parts = {name: part_of(text, self.access.operation) for name, text in written.items()}
        if written["bssplit"]:
            return parts["bssplit"].split(":")
        return parts["bsrange"].split("-") if written["bsrange"] else [parts["bs"]]

    def _driving(self) -> Table:
        access = self.access
        found: Table = {}
        if limit := access.factors.get("rate_iops"):
            self.note(f"rate_iops={limit} is ignored: it limits only reads, or only writes")
        if access.arrival["kind"] == "closed" and "rate" in access.factors:
            self.note(f"rate={access.factors['rate']} is ignored: {INSTEAD['rate']}")
        if access.arrival["kind"] != "closed":
            found = {"arrival": access.arrival["kind"], "rate": access.arrival["rate_per_s"]}
            self.note(
                "latencies are measured from the scheduled start of a request, not from "
                "its actual start"
            )
            if access.operation == "mixed":
                self.note(
                    f"fio limits reads and writes separately; here {found['rate']:,.0f} requests/s "
                    f"of both together, {100 * float(access.factors['read_share']):.0f} % reads"
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
            self.note(f"ioengine={engine} is ignored; Seatrial uses io_uring or psync")
        elif engine != "io_uring":
            self.note(f"ioengine={engine}: io_uring is used instead")
        return ENGINES.get(engine, "auto")

    def _limits(self) -> Table:
        """Return the duration of a sample, and how much it may write."""
        requested = self.options.get("runtime") or self.options.get("timeout") or ""
        try:
            duration_s = time_s(requested) if requested else 0.0
        except ValueError:
            self.note(f"runtime={requested} is ignored")
            duration_s = 0.0
        writes = self.access.operation != "read"
        limit_bytes = self._total_bytes() if writes else 0
        if is_set(self.options, "time_based") and writes:
            self.note(
                "a sample that writes ends after writing the size of its range, also with "
                "time_based; limit_bytes in the study removes this limit"
            )
            limit_bytes = 0
        if not duration_s:
            duration_s = UNTIL_DONE_S if limit_bytes else RUNTIME_S
            until = "until all data is written" if limit_bytes else f"{RUNTIME_S:g} s a sample"
            self.note(f"no runtime: {until}")
        limits: Table = {"seconds": duration_s}
        return limits | ({"limit_bytes": limit_bytes} if limit_bytes else {})

    def _total_bytes(self) -> int:
        """Return the bytes that all threads together would write; 0 if unspecified."""
        each_bytes = number(self.options, "io_size", 0) or number(self.options, "size", 0)
        return each_bytes * self.access.threads

    def _data(self) -> Table:
        found: Table = {}
        if percent := number(self.options, "buffer_compress_percentage", 0):
            found = {"data": "compressible", "compressible_share": min(100, percent) / 100}
        if is_set(self.options, "hipri") and engine_name(self.options) == "io_uring":
            found["iopoll"] = True
        return found
