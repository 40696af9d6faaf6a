"""Parses a workload file: words to statements; errors name the line."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from seatrial.study.problems import suggestion
from seatrial.trials.filebench.wml.statements import (
    COMPOSITE_ATTRIBUTES,
    CVAR_ATTRIBUTES,
    FLOWOP_ATTRIBUTES,
    PROCESS_ATTRIBUTES,
    RANDVAR_ATTRIBUTES,
    SET_ATTRIBUTES,
    THREAD_ATTRIBUTES,
    Attribute,
    Composite,
    Distribution,
    Flag,
    FlowopLine,
    Number,
    ProcessBlock,
    Program,
    SetBlock,
    Sum,
    Text,
    ThreadBlock,
    Value,
    Variable,
)
from seatrial.trials.filebench.wml.words import (
    Word,
    WorkloadFileError,
    file_error,
    number_of,
    words_of,
)

MODES: Final = {"timeout": "timeout", "alldone": "all_done", "firstdone": "first_done"}
_DEPTH_MAX: Final = 100
_UNSUPPORTED_STATEMENTS: Final = {
    "system": "It would run a command of a shell",
    "domultisync": "It keeps several clients in step",
    "load": "It reads another workload file",
    "fscheck": "It flushes caches with a separate program",
    "statsdump": "It writes a file of figures",
}
"""Unsupported statements of Filebench, with what they would do."""
_IGNORED_STATEMENTS: Final = frozenset(
    {"create", "list", "stats", "shutdown", "version", "debug", "sleep", "usage"}
)
"""Statements that do not affect the load."""


def parse(file_name: str, text: str) -> Program:
    """Return the statements of a workload file.

    Args:
        file_name: For messages.
        text: Its content.

    Raises:
        WorkloadFileError: when it is malformed or has an unsupported statement.
    """
    return _Parser(file_name, words_of(file_name, text)).program()


class _Parser:
    """One pass over the words of a file."""

    def __init__(self, file_name: str, words: list[Word]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0
        self._program = Program(file_name)

    def program(self) -> Program:
        """Parse all statements up to ``quit`` or the end."""
        while self._word.kind != "end":
            if self._word.text == "quit":
                break
            self._statement(self._next())
        return self._program

    # Words.

    @property
    def _word(self) -> Word:
        return self._words[self._at]

    def _next(self) -> Word:
        word = self._word
        if word.kind != "end":
            self._at += 1
        return word

    def _is_at_sign(self, sign: str) -> bool:
        return self._word.kind == "sign" and self._word.text == sign

    def _accept_sign(self, sign: str) -> bool:
        if self._is_at_sign(sign):
            self._at += 1
            return True
        return False

    def _require_sign(self, sign: str, why: str) -> None:
        if not self._accept_sign(sign):
            raise self._unexpected(f"Expected {sign!r} {why}")

    def _unexpected(self, expected: str, word: Word | None = None) -> WorkloadFileError:
        word = word or self._word
        seen = "the file ends" if word.kind == "end" else f"{word.text!r} is not expected here"
        return self._error(word, seen, expected)

    def _error(self, word: Word, seen: str, cause: str) -> WorkloadFileError:
        return file_error(self._program.file_name, word.line, seen, cause)

    # Statements.

    def _statement(self, word: Word) -> None:
        known: dict[str, Callable[[Word], None]] = {
            "set": self._set,
            "define": self._define,
            "eventgen": self._eventgen,
            "run": self._run,
            "psrun": self._run,
            "echo": self._echo,
            "enable": self._enable,
        }
        if word.kind == "name" and word.text in known:
            known[word.text](word)
        elif word.kind == "name" and word.text in _IGNORED_STATEMENTS:
            self._skip_line(word.line)
        else:
            raise self._unsupported(word, [*known, *_IGNORED_STATEMENTS, "quit"])

    def _unsupported(self, word: Word, known: Collection[str]) -> WorkloadFileError:
        does = _UNSUPPORTED_STATEMENTS.get(word.text)
        if does:
            seen = f"{word.text!r} is not supported"
            return self._error(word, seen, f"{does}, which Seatrial does not do")
        if word.kind != "name":
            return self._unexpected("Expected a statement, such as define, set or run", word)
        seen = f"{word.text!r} is not a statement"
        return self._error(word, seen, suggestion(word.text, sorted(known)))

    def _skip_line(self, line: int) -> None:
        while self._word.kind != "end" and self._word.line == line:
            self._at += 1

    def _echo(self, word: Word) -> None:
        del word
        if self._word.kind not in ("text", "variable", "name"):
            raise self._unexpected("Expected a text after echo")
        self._skip_line(self._word.line)

    def _enable(self, word: Word) -> None:
        what = self._next()
        if what.text != "lathist":
            seen = f"enable {what.text} is not supported"
            cause = "Several clients of one workload are started by hosts, not by its file"
            raise self._error(word, seen, cause)

    def _set(self, word: Word) -> None:
        if self._word.text == "mode" and self._word.kind == "name":
            self._next()
            self._mode(word)
            return
        name = self._next()
        if name.kind != "variable":
            raise self._unexpected("Expected a variable, such as set $nfiles=1000", name)
        self._require_sign("=", "after the variable")
        self._program.variables[name.text] = Attribute(self._sum(), name.line)

    def _mode(self, word: Word) -> None:
        what = self._next()
        if what.text == "nousestats":
            return
        end = self._next()
        if what.text != "quit" or end.text not in MODES:
            cause = "Expected: set mode quit timeout, alldone or firstdone"
            raise self._error(word, f"mode {what.text} {end.text}", cause)
        self._program.mode = MODES[end.text]

    def _eventgen(self, word: Word) -> None:
        attributes, _ = self._attributes(frozenset({"rate"}), "eventgen")
        if "rate" not in attributes:
            raise self._error(word, "eventgen has no rate", "Write rate=NUMBER")
        self._program.event_rate = attributes["rate"]

    def _run(self, word: Word) -> None:
        """Read the duration: the second number of ``psrun``, whose first is an interval."""
        numbers = []
        while self._word.line == word.line and (
            self._word.kind in ("number", "variable") or self._is_at_sign("-")
        ):
            self._accept_sign("-")
            numbers.append(Attribute(self._primary(), word.line))
        duration = numbers[1:2] if word.text == "psrun" else numbers[:1]
        if duration and self._program.run_s is None:
            self._program.run_s = duration[0]

    def _define(self, word: Word) -> None:
        what = self._next()
        if what.text in ("file", "fileset", "filesets", "files"):
            attributes, _ = self._attributes(SET_ATTRIBUTES, what.text)
            single = what.text == "file"
            self._program.sets.append(SetBlock(single, attributes, word.line))
        elif what.text in ("process", "processes"):
            self._program.processes.append(self._process(word))
        elif what.text == "flowop":
            composite = self._composite(word)
            name = composite.attributes["name"].value
            self._program.composites[name.value if isinstance(name, Text) else ""] = composite
        elif what.text == "randvar":
            self._randvar(word)
        else:
            kinds = ("file", "fileset", "process", "flowop", "randvar")
            seen = f"define {what.text} is not understood"
            raise self._error(word, seen, suggestion(what.text, kinds))

    def _process(self, word: Word) -> ProcessBlock:
        attributes, _ = self._attributes(PROCESS_ATTRIBUTES, "process")
        self._require_sign("{", "and the threads of the process")
        threads = []
        while not self._accept_sign("}"):
            thread = self._next()
            if thread.text != "thread" or thread.kind != "name":
                raise self._unexpected("Expected a thread of the process, or '}'", thread)
            thread_attributes, _ = self._attributes(THREAD_ATTRIBUTES, "thread")
            threads.append(ThreadBlock(thread_attributes, self._flowops(), thread.line))
        return ProcessBlock(attributes, tuple(threads), word.line)

    def _composite(self, word: Word) -> Composite:
        attributes, parameters = self._attributes(COMPOSITE_ATTRIBUTES, "flowop", variables=True)
        if not isinstance(attributes.get("name", Attribute(Flag(True), 0)).value, Text):
            cause = "A flowop that is defined needs name=NAME"
            raise self._error(word, "a flowop without a name", cause)
        return Composite(attributes, parameters, self._flowops(), word.line)

    def _flowops(self) -> tuple[FlowopLine, ...]:
        self._require_sign("{", "and the flowops")
        flowops = []
        while not self._accept_sign("}"):
            word = self._next()
            if word.text != "flowop" or word.kind != "name":
                raise self._unexpected("Expected a flowop, or '}'", word)
            verb = self._next()
            if verb.kind != "name":
                raise self._unexpected("Expected the type of the flowop", verb)
            attributes: dict[str, Attribute] = {}
            arguments: dict[str, Attribute] = {}
            if self._word.kind in ("name", "variable") and self._word.text != "flowop":
                attributes, arguments = self._attributes(
                    FLOWOP_ATTRIBUTES, verb.text, variables=True
                )
            flowops.append(FlowopLine(verb.text, attributes, arguments, word.line))
        return tuple(flowops)

    def _randvar(self, word: Word) -> None:
        random = self._random("randvar", closes="")
        name = random.attributes.get("name", Attribute(Flag(True), 0)).value
        if not isinstance(name, Variable):
            cause = "A random variable that is defined needs name=$NAME"
            raise self._error(word, "a randvar without a name", cause)
        self._program.variables[name.name] = Attribute(random, word.line)

    # Attributes and values.

    def _attributes(
        self, known: Collection[str], of: str, *, variables: bool = False
    ) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        """Return the comma-separated attributes, and the variables set among them."""
        attributes: dict[str, Attribute] = {}
        set_here: dict[str, Attribute] = {}
        while True:
            word = self._next()
            if word.kind == "variable" and variables:
                set_here[word.text] = self._value_after(word)
            elif word.kind == "name" and word.text in known:
                attributes[word.text] = self._value_after(word)
            elif word.kind == "name":
                seen = f"{word.text!r} is not an attribute of {of}"
                raise self._error(word, seen, suggestion(word.text, sorted(known)))
            else:
                raise self._unexpected(f"Expected an attribute of {of}", word)
            if not self._accept_sign(","):
                return attributes, set_here

    def _value_after(self, word: Word) -> Attribute:
        value: Value = Flag(True)
        if self._accept_sign("="):
            value = self._sum()
        return Attribute(value, word.line)

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._unexpected("Values may be nested a hundred times at most")
        left = self._product()
        while self._is_at_sign("+") or self._is_at_sign("-"):
            sign = self._next().text
            left = Sum(sign, left, self._product())
        self._depth -= 1
        return left

    def _product(self) -> Value:
        left = self._primary()
        while self._is_at_sign("*") or self._is_at_sign("/"):
            sign = self._next().text
            left = Sum(sign, left, self._primary())
        return left

    def _primary(self) -> Value:
        word = self._next()
        if word.kind == "number":
            return Number(number_of(word.text))
        if word.kind == "variable":
            return Variable(word.text)
        if word.kind == "text":
            return Text(word.text)
        if word.kind == "name":
            if word.text in ("cvar", "randvar"):
                self._require_sign("(", "and the distribution")
                return self._random(word.text, closes=")")
            return Flag(word.text == "true") if word.text in ("true", "false") else Text(word.text)
        if word.kind == "sign" and word.text == "(":
            inner = self._sum()
            self._require_sign(")", "to close the bracket")
            return inner
        raise self._unexpected("Expected a number, a name, a text or a variable", word)

    def _random(self, form: str, *, closes: str) -> Distribution:
        known = CVAR_ATTRIBUTES if form == "cvar" else RANDVAR_ATTRIBUTES
        attributes: dict[str, Attribute] = {}
        table: tuple[tuple[Value, Value, Value], ...] = ()
        while True:
            if form == "randvar" and self._word.text == "randtable":
                self._next()
                self._require_sign("=", "after randtable")
                table = self._table()
            else:
                word = self._word
                if word.kind != "name" or word.text not in known:
                    raise self._unexpected(suggestion(word.text, sorted(known)))
                self._next()
                attributes[word.text] = self._value_after(word)
            if not self._accept_sign(","):
                break
        if closes:
            self._require_sign(closes, "to close the distribution")
        return Distribution(form, attributes, table)

    def _table(self) -> tuple[tuple[Value, Value, Value], ...]:
        self._require_sign("{", "and the rows of the table")
        rows = []
        while True:
            self._require_sign("{", "to open a row")
            ends = [self._sum()]
            for _ in range(2):
                self._require_sign(",", "between the three numbers of a row")
                ends.append(self._sum())
            self._require_sign("}", "to close the row")
            rows.append((ends[0], ends[1], ends[2]))
            if not self._accept_sign(","):
                break
        self._require_sign("}", "to close the table")
        return tuple(rows)
