"""Builds the engine's workload (docs/engine.md) from the statements of a workload file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from seatrial.study.problems import suggestion
from seatrial.study.units import parse_size_bytes
from seatrial.trials.filebench.wml.engine import (
    Engine,
    FileSet,
    Flowop,
    Group,
    Kind,
    Origin,
    Steps,
    Thread,
    assign_slots,
    flowops_of,
)
from seatrial.trials.filebench.wml.evaluate import Amount, Scope, mean_of
from seatrial.trials.filebench.wml.flowops import (
    EVENT_LIMITS,
    FOLDER_OPERATIONS,
    TRANSFERS,
    TYPES,
    UNSUPPORTED,
)
from seatrial.trials.filebench.wml.parse import parse
from seatrial.trials.filebench.wml.statements import (
    Attribute,
    Attributes,
    Composite,
    Flag,
    FlowopLine,
    Number,
    ProcessBlock,
    Program,
    SetBlock,
    Text,
    ThreadBlock,
    Value,
)
from seatrial.trials.filebench.wml.words import WorkloadFileError, file_error

RUN_S_DEFAULT: Final = 60.0
"""Duration where neither the file nor the study gives one, as in Filebench's shipped files."""
THREADS_MAX: Final = 4096
ENTRIES_MAX: Final = 10_000_000
IO_BYTES_MAX: Final = 64 << 20
_SIZE_DEFAULT: Final = 1024.0
_STEPS_MAX: Final = 20_000
_WIDTH_GAMMA_DEFAULT: Final = 1500.0

T = TypeVar("T")

Variables = Mapping[str, float | bool | str]
"""Values in place of those that a file sets."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that the engine can run.

    Attributes:
        engine: What the engine runs.
        run_s: Duration given by the file, if any.
        threads: Number of threads.
        set_bytes: Expected bytes of each set when all its files exist, by name.
        made_bytes: Expected bytes of the files that are made before the start.
        entries: Number of files and leaf folders of all sets.
        writes: Whether it changes anything.
        keeps_files: Whether names and sizes of its files stay unchanged, so that the next sample
            can use them.
        direct: Whether some files are opened with O_DIRECT.
        descriptors: Most files that are open at once.
        notes: Differences from Filebench, as sentences without a full stop.
    """

    engine: Engine
    run_s: float | None
    threads: int
    set_bytes: dict[str, int]
    made_bytes: int
    entries: int
    writes: bool
    keeps_files: bool
    direct: bool
    descriptors: int
    notes: list[str]


def workload_of(file_name: str, text: str, changed: Variables | None = None) -> Workload:
    """Return the workload of a file.

    Args:
        file_name: For messages.
        text: Its content.
        changed: Values of variables in place of the file's.

    Raises:
        WorkloadFileError: when it is malformed, or has an unsupported statement.
    """
    program = parse(file_name, text)
    for name, value in (changed or {}).items():
        if name not in program.variables:
            cause = suggestion(name, sorted(program.variables))
            raise file_error(
                file_name, 0, f"it sets no variable ${name}", cause, "Correct the name"
            )
        line = program.variables[name].line
        program.variables[name] = Attribute(_value(value), line)
    return _WorkloadBuilder(program).workload()


def _value(value: float | bool | str) -> Value:
    """Return a value of an option or a study; ``16k`` and ``8KiB`` are numbers."""
    if isinstance(value, bool):
        return Flag(value)
    try:
        return Number(float(parse_size_bytes(value) if isinstance(value, str) else value))
    except OverflowError:  # a larger integer: as a number out of range
        return Number(math.inf)
    except ValueError:
        return Text(str(value))


class _WorkloadBuilder:
    """Builds the workload of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._file_name = program.file_name
        self._scope = Scope(program.file_name, program.variables)
        self._notes: list[str] = []
        self._sets: list[FileSet] = []
        self._kinds: dict[tuple[str, str], int] = {}
        self._origins: dict[Flowop, Origin] = {}
        self._targets: list[tuple[Flowop, str, int]] = []
        self._steps = 0

    def workload(self) -> Workload:
        """Return the workload."""
        program = self._program
        if not program.processes:
            raise self._error(0, "it defines no process", "Without threads nothing is done")
        for block in program.sets:
            self._sets.append(self._set(block))
        threads = [self._thread(*each) for each in self._threads()]
        self._resolve_targets()
        entries = [each.entries for each in self._sets]
        for each in threads:
            each.slots = assign_slots(each.steps, self._origins, entries, self._error)
        rate = program.event_rate
        flowops = [flowop for each in threads for flowop in flowops_of(each.steps)]
        events_per_s = self._scope.number(rate) if rate else None
        if events_per_s and not any(flowop.verb in EVENT_LIMITS for flowop in flowops):
            self._notes.append(
                f"{self._file_name}: the rate of eventgen has no effect, as no flowop takes its "
                f"events ({', '.join(sorted(EVENT_LIMITS))})"
            )
        engine = Engine(
            end=program.mode,
            events_per_s=events_per_s,
            sets=self._sets,
            kinds=[Kind(name=name, verb=verb) for name, verb in self._kind_names()],
            threads=threads,
        )
        return Workload(
            engine=engine,
            run_s=self._run_s(),
            threads=self._count_of(threads),
            set_bytes={s.name: int(mean_of(s.size) * s.entries) for s in self._sets},
            made_bytes=sum(int(mean_of(s.size) * s.entries * s.made_share) for s in self._sets),
            entries=sum(s.entries + s.leaf_folders for s in self._sets),
            writes=any(TYPES[flowop.verb].moves == "write" for flowop in flowops),
            keeps_files=all(flowop.verb in _PRESERVES_FILES for flowop in flowops),
            direct=any(flowop.direct is True for flowop in flowops),
            descriptors=sum(each.instances * open_files_max(each.steps) for each in threads),
            notes=list(dict.fromkeys(self._notes)),
        )

    def _error(self, line: int, seen: str, cause: str) -> WorkloadFileError:
        return file_error(self._file_name, line, seen, cause)

    def _run_s(self) -> float | None:
        run = self._program.run_s
        run_s = self._scope.number(run) if run else 0.0
        return run_s if run_s > 0 else None

    def _count_of(self, threads: list[Thread]) -> int:
        count = sum(each.instances for each in threads)
        if not 0 < count <= THREADS_MAX:
            raise self._error(0, f"{count} threads", f"Expected 1 to {THREADS_MAX}")
        return count

    # Sets of files.

    def _set(self, block: SetBlock) -> FileSet:
        attributes, line, scope = block.attributes, block.line, self._scope
        if "name" not in attributes:
            raise self._error(line, "a fileset without a name", "Add name=NAME")
        name = scope.text(attributes["name"])
        if name in (each.name for each in self._sets):
            raise self._error(line, f"a second fileset {name!r}", "Names are distinct")
        if not name or name.startswith(".") or "/" in name or len(name) > 200:
            raise self._error(line, f"the name {name!r}", "It would lead out of the folder")
        if "dirdepthrv" in attributes:
            cause = "Depth follows from the number of files and dirwidth"
            raise self._error(attributes["dirdepthrv"].line, "dirdepthrv is not supported", cause)
        folders = self._optional(attributes, "leafdirs", scope.integer, 0)
        default = 1 if block.single else 0
        entries = self._optional(attributes, "entries", scope.integer, default)
        if entries + folders == 0 or entries + folders > ENTRIES_MAX:
            expected = f"Expected entries or leafdirs, 1 to {ENTRIES_MAX:,}"
            raise self._error(line, f"a fileset of {entries + folders} files", expected)
        size = attributes.get("size") or attributes.get("filesize")
        width = self._optional(attributes, "dirwidth", scope.number, 0.0)
        gamma = self._optional(attributes, "dirgamma", scope.number, _WIDTH_GAMMA_DEFAULT) / 1000
        cached = self._optional(attributes, "cached", scope.flag, True)
        return FileSet(
            name=name,
            single=block.single,
            entries=entries,
            leaf_folders=folders,
            width_mean=width or float(entries + folders),
            width_gamma=gamma if width and width < entries + folders else 0.0,
            size=self._size(scope.amount(size), size.line) if size else _SIZE_DEFAULT,
            made_share=self._made_share(attributes),
            read_only=self._optional(attributes, "readonly", scope.flag, False),
            write_only=self._optional(attributes, "writeonly", scope.flag, False),
            cold=not cached,
        )

    def _size(self, amount: Amount, line: int) -> Amount:
        if mean_of(amount) < 0:
            raise self._error(line, "a negative size", "Expected 0 or more")
        return amount

    def _made_share(self, attributes: Attributes) -> float:
        if "prealloc" not in attributes:
            return 0.0
        value = self._scope.resolve(attributes["prealloc"])
        if isinstance(value, Flag):
            return 1.0 if value.value else 0.0
        percent = self._scope.number(attributes["prealloc"])
        if not 0 <= percent <= 100:
            raise self._error(
                attributes["prealloc"].line, f"prealloc={percent:g}", "Expected 0 to 100"
            )
        return percent / 100

    @staticmethod
    def _optional(
        attributes: Attributes, name: str, read: Callable[[Attribute], T], default: T
    ) -> T:
        return read(attributes[name]) if name in attributes else default

    # Threads.

    def _threads(self) -> Iterator[tuple[ProcessBlock, ThreadBlock]]:
        for process in self._program.processes:
            for thread in process.threads:
                yield process, thread

    def _thread(self, process: ProcessBlock, thread: ThreadBlock) -> Thread:
        scope = self._scope
        instances = 1
        for block, unused in ((process, ("nice",)), (thread, ("ioprio",))):
            instances *= self._optional(block.attributes, "instances", scope.integer, 1)
            if "name" not in block.attributes:
                raise self._error(block.line, "a process or thread without a name", "Add name=")
            for name in unused:
                if name in block.attributes:
                    line = block.attributes[name].line
                    self._notes.append(f"{self._file_name}, line {line}: {name} is not applied")
        names = [scope.text(block.attributes["name"]) for block in (process, thread)]
        steps = self._flowops(thread.flowops, scope, ())
        if not steps:
            raise self._error(thread.line, "a thread without flowops", "It would do nothing")
        return Thread(
            name="/".join(dict.fromkeys(names)), instances=instances, steps=steps, slots=0
        )

    def _flowops(
        self, lines: tuple[FlowopLine, ...], scope: Scope, within: tuple[str, ...]
    ) -> Steps:
        steps: Steps = []
        for line in lines:
            self._steps += 1
            if self._steps > _STEPS_MAX:
                raise self._error(line.line, "too many flowops", f"At most {_STEPS_MAX:,}")
            composite = self._program.composites.get(line.verb)
            if composite is not None:
                steps.append(self._group(line, composite, scope, within))
            else:
                steps.append(self._flowop(line, scope))
        return steps

    def _group(
        self, line: FlowopLine, composite: Composite, scope: Scope, within: tuple[str, ...]
    ) -> Group:
        if line.verb in within:
            raise self._error(line.line, f"{line.verb!r} contains itself", "It has no end")
        unknown = [name for name in line.arguments if name not in composite.parameters]
        if unknown:
            cause = suggestion(unknown[0], list(composite.parameters))
            raise self._error(line.line, f"{line.verb} has no parameter ${unknown[0]}", cause)
        local = {}
        for name, default in {**composite.parameters, **line.arguments}.items():
            if name in line.arguments or default.value != Flag(True):
                local[name] = Attribute(scope.resolve(default), default.line)
        iters = line.attributes.get("iters") or composite.attributes.get("iters")
        inner = scope.within(local)
        return Group(
            repeat=scope.amount(iters) if iters else 1,
            steps=self._flowops(composite.flowops, inner, (*within, line.verb)),
        )

    def _flowop(self, line: FlowopLine, scope: Scope) -> Flowop:
        verb, attributes = line.verb, line.attributes
        if verb not in TYPES:
            if verb in UNSUPPORTED:
                seen = f"the flowop {verb!r} is not supported"
                raise self._error(line.line, seen, UNSUPPORTED[verb])
            known = [*TYPES, *self._program.composites]
            raise self._error(line.line, f"no flowop {verb!r}", suggestion(verb, known))
        if line.arguments:
            name = next(iter(line.arguments))
            raise self._error(line.line, f"{verb} takes no ${name}", "Only a composite does")
        name = scope.text(attributes["name"]) if "name" in attributes else verb
        step = Flowop(kind=self._kinds.setdefault((name, verb), len(self._kinds)), verb=verb)
        self._origins[step] = Origin(
            line=line.line,
            fd=self._optional(attributes, "fd", scope.integer, 0),
            source_fd=self._optional(attributes, "srcfd", scope.integer, 0),
            opens_next=self._optional(attributes, "opennext", scope.flag, False),
        )
        if "iters" in attributes:
            step.iters = scope.amount(attributes["iters"])
        self._add_set(step, attributes, scope)
        self._add_sizes(step, attributes, scope)
        for field, attribute in _FLAGS.items():
            if self._optional(attributes, attribute, scope.flag, False):
                setattr(step, field, True)
        if "highwater" in attributes or verb == "semblock":
            step.high_water = self._optional(attributes, "highwater", scope.integer, 1)
        if "target" in attributes:
            self._targets.append(
                (step, scope.text(attributes["target"]), attributes["target"].line)
            )
        elif TYPES[verb].is_targeted:
            raise self._error(line.line, f"{verb} without target", "Add target=NAME")
        return step

    def _add_set(self, step: Flowop, attributes: Attributes, scope: Scope) -> None:
        given = attributes.get("filesetname") or attributes.get("filename")
        verb, line = step.verb, self._origins[step].line
        if given is None:
            has_file = self._origins[step].fd > 0 or verb in TRANSFERS
            if TYPES[verb].needs_set and (TYPES[verb].opens or not has_file):
                raise self._error(line, f"{verb} without filesetname", "It needs a set of files")
            return
        name = scope.text(given)
        names = [each.name for each in self._sets]
        if name not in names:
            raise self._error(given.line, f"no fileset {name!r}", suggestion(name, names))
        step.set = names.index(name)
        file_set = self._sets[step.set]
        count = file_set.leaf_folders if verb in FOLDER_OPERATIONS else file_set.entries
        if count == 0 and verb not in ("listdir", "fsyncset"):
            what = "leafdirs" if verb in FOLDER_OPERATIONS else "entries"
            raise self._error(line, f"{verb} on {name!r}, which has no {what}", "Nothing to use")

    def _add_sizes(self, step: Flowop, attributes: Attributes, scope: Scope) -> None:
        verb, line = step.verb, self._origins[step].line
        for field, attribute in _AMOUNTS.items():
            if attribute in attributes:
                setattr(step, field, scope.amount(attributes[attribute]))
        io_bytes = 0.0 if step.io_bytes is UNSET else step.io_bytes
        if TYPES[verb].needs_size and mean_of(io_bytes) <= 0:
            raise self._error(line, f"{verb} without iosize", "Every transfer needs a size")
        if not isinstance(io_bytes, dict) and io_bytes > IO_BYTES_MAX:
            raise self._error(line, f"iosize={io_bytes:.0f}", "At most 64 MiB at once")

    def _resolve_targets(self) -> None:
        for step, name, line in self._targets:
            kinds = [kind for (other, _), kind in self._kinds.items() if other == name]
            if not kinds:
                cause = suggestion(name, [other for other, _ in self._kinds])
                raise self._error(line, f"no flowop is called {name!r}", cause)
            expected_verb = {"wakeup": "block", "sempost": "semblock"}.get(step.verb)
            verbs = {verb for (other, verb) in self._kinds if other == name}
            if expected_verb and verbs != {expected_verb}:
                raise self._error(
                    line, f"the target {name!r} is not a {expected_verb}", "Nobody waits"
                )
            step.targets = kinds

    def _kind_names(self) -> list[tuple[str, str]]:
        """Return the name and type of each kind; types distinguish flowops of the same name."""
        names = [name for name, _ in self._kinds]
        return [
            (name if names.count(name) == 1 else f"{name} ({verb})", verb)
            for name, verb in self._kinds
        ]


def open_files_max(steps: Steps) -> int:
    """Return the maximum number of files that one thread has open at once."""
    slots = {(f.slot, 1 if f.rotates is UNSET else f.rotates) for f in flowops_of(steps)}
    return sum(rotates for _, rotates in slots)


_PRESERVES_FILES: Final = frozenset(
    {
        *("openfile", "closefile", "statfile", "readwholefile", "read", "listdir", "fsync"),
        *("fsyncset", *(name for name, kind in TYPES.items() if not kind.moves)),
    }
)
"""Types of flowops that leave files unchanged."""
_FLAGS: Final = {
    "random": "random",
    "direct": "directio",
    "dsync": "dsync",
    "no_read_ahead": "noreadahead",
    "blocking": "blocking",
}
_AMOUNTS: Final = {
    "io_bytes": "iosize",
    "working_set_bytes": "workingset",
    "index": "indexed",
    "value": "value",
}
"""Fields of a flowop, and the attributes that they come from."""
