"""Binding of a program to one launch: values become affine forms, guards become ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations

import numpy as np

from perfassert.errors import LaunchError, UnreadOverride, close_matches
from perfassert.frontends.binding.arguments import Arguments
from perfassert.frontends.binding.stand_ins import (
    ANYTHING,
    dependence,
    extents,
    seen_addresses,
    spread_form,
    spreads,
    stand_in,
    within,
)
from perfassert.kernel.affine import (
    Affine,
    AffineCall,
    IntArray,
    Quotient,
    add,
    apply,
    below_zero,
    evaluate,
    interval,
    quotient,
    with_global_coordinates,
)
from perfassert.kernel.executed import Executed, LoopTrips
from perfassert.kernel.expression import AXES, DIMENSIONS
from perfassert.kernel.expression_pool import Atom, Expression, Monomial
from perfassert.kernel.launch import Launch
from perfassert.kernel.names import CLUSTERED, Argument, ConstantWord, LoopCounter, Name
from perfassert.kernel.program import Program, ProgramInstruction, ProgramLoop
from perfassert.shipped import model_integer
from perfassert.source import Assumption, SourceSpan

Terms = tuple[tuple[Monomial, int], ...]
DEFAULT_TRIPS = model_integer("unknown_trips")
"""Trip count of a loop whose end depends on data and that has no given count."""
_GUESSED = 4096
"""Largest number of iterations that nested guesses amount to."""
_MIXING = ("^", "|")
"""Functions of two unknowns whose result is a new unknown."""
BEYOND = "numbers beyond 64 bits"
_LARGE = 2**40
_LARGEST = 2**60
_SAMPLED = 2**14
"""Number of places at which the extremes of a function that is not affine are looked for."""


@dataclass(slots=True)
class LoopRange:
    """Iterations of a loop over the launch: the fewest and the most of any thread.

    ``assumed``: they stand for what depends on data; ``rests_on``: by which assumptions;
    ``weighted``: how often the loop is entered at all is part of them.
    """

    fewest: int
    most: int
    assumed: bool = False
    weighted: bool = False
    rests_on: tuple[Assumption, ...] = ()


class Binder:
    """Values of a program as affine forms over the coordinates of one launch.

    ``least``: where data decides, the least is assumed in the place of the usual: neighbours side
    by side, and nothing behind a condition.
    """

    def __init__(
        self,
        program: Program,
        launch: Launch,
        arguments: Arguments,
        trip_counts: Mapping[str, int],
        assumed_values: Mapping[Name, Expression],
        warp_size: int,
        executed: Executed | None = None,
        least: bool = False,
    ) -> None:
        self.program = program
        self.least = least
        self.executed = executed
        self.corrections: tuple[Assumption, ...] = () if executed is None else executed.corrections
        self.spread = spreads(program, executed)
        self.seen = seen_addresses(program, executed)
        self.extents = extents(program, {**program.sizes, **arguments.sizes()})
        self.warp_size = warp_size
        self.symbols = program.symbols
        self.launch = launch
        self.arguments = arguments
        self.trip_counts = dict(trip_counts)
        self.assumed_values = assumed_values
        self.assumed_and_read: set[Name] = set()
        self.names: dict[Name, int] = dict(
            zip(DIMENSIONS, (*launch.block, *launch.grid), strict=True)
        )
        self.names |= {CLUSTERED: int(launch.clustered), **arguments.numbers}
        self.ranges: dict[Name, tuple[int, int]] = {}
        for i, axis in enumerate(AXES):
            self.ranges[axis] = (0, launch.block[i] * launch.grid[i] - 1)
            self.ranges[f"threadIdx.{axis}"] = (0, launch.block[i] - 1)
            self.ranges[f"blockIdx.{axis}"] = (0, launch.grid[i] - 1)
        self.assumptions: dict[Assumption, None] = dict.fromkeys(self.corrections)
        self._forms: dict[int, Affine] = {}
        self._beyond: set[int] = set()
        self._numbers: dict[Monomial, int | None] = {}
        self._sums: dict[Terms, Affine] = {}
        self.loops: dict[int, LoopRange] = {}
        self.what = "an address"
        self._note_outside()
        for loop in program.loops:  # outer loops first
            self.loops[loop.index] = self._loop_range(loop.index)
            self.ranges[LoopCounter(loop.index)] = (0, max(self.loops[loop.index].most - 1, 0))

    # Values → forms

    def form(self, value: Expression) -> Affine:
        """The value over the launch's coordinates; unknowns take assumed values.

        Raises :class:`LaunchError` for a parameter that is not given.
        """
        form = self._whole_form(value)
        if value.index not in self._beyond:
            return form
        self.assume(f"{BEYOND}; threads are taken to be apart", None, "address")
        return self.stand_in()

    def is_beyond(self, value: Expression) -> bool:
        """Return True if a value exceeds 64 bits on the way, as terms of a hash may before they are
        cut to their low words again. Only execution tells such a value."""
        self._whole_form(value)
        return value.index in self._beyond

    def stand_in(self) -> Affine:
        """A value of which nothing is known."""
        return stand_in(ANYTHING, 1, self.launch, self.ranges, self.least)

    def _whole_form(self, value: Expression) -> Affine:
        form = self._forms.get(value.index)
        if form is None:
            number, varying = 0, []
            for monomial, coefficient in value.terms:
                factor = self._number(monomial)
                if factor is None:
                    varying.append((monomial, coefficient))
                else:
                    number += coefficient * factor
            form = self._varying(tuple(varying))
            form = Affine(form.constant + number, form.terms)
            self._forms[value.index] = form
            if max(map(abs, (form.constant, *(c for _, c in form.terms)))) >= _LARGE:
                low, high = interval(form, self.ranges)
                if low < -_LARGEST or high > _LARGEST:
                    self._beyond.add(value.index)
        return form

    def _number(self, monomial: Monomial) -> int | None:
        """The product, where it is the same number for all threads."""
        if monomial not in self._numbers:
            product: int | None = 1
            for index in monomial:
                atom = self.symbols.atoms[index]
                factor = None if atom.function else self.names.get(atom.name)
                product = None if product is None or factor is None else product * factor
            self._numbers[monomial] = product
        return self._numbers[monomial]

    def _varying(self, terms: Terms) -> Affine:
        """Return the part of an address that differs between threads, from a cache.

        Many accesses share this part.
        """
        total = self._sums.get(terms)
        if total is None:
            parts = [Affine(0)]
            for monomial, coefficient in terms:
                term = Affine(coefficient)
                atoms = [self.symbols.atoms[index] for index in monomial]
                for atom in sorted(atoms, key=lambda a: a.function == "data"):
                    scale = 1 if term.terms else term.constant
                    term = _product(term, self._atom(atom, scale))
                parts.append(term)
            total = self._sums[terms] = with_global_coordinates(add(*parts), self.names)
        return total

    def _atom(self, atom: Atom, scale: int) -> Affine:
        """An atom that is multiplied by ``scale``."""
        if atom.function == "":
            return self._variable(atom.name)
        if atom.function == "data":
            assumed = self.assumed_values.get(atom.name)
            if assumed is not None:
                self.assumed_and_read.add(atom.name)
                return self.form(assumed)
            depends = dependence(self.program, atom)
            known = self.spread.get(atom.name)
            if known is not None:
                return spread_form(known, depends, self.launch, self.ranges)
            made = stand_in(depends, scale, self.launch, self.ranges, self.least)
            return within(made, self.extents.get(atom.name), self.ranges)
        if atom.function in _MIXING:
            unknowns = [list(self.symbols.unknowns(a)) for a in atom.arguments]
            if all(unknowns):  # a number like those that were loaded: forms would cancel out
                depends = dependence(self.program, *chain.from_iterable(unknowns))
                return stand_in(depends, scale, self.launch, self.ranges, self.least)
        arguments = tuple(self.form(a) for a in atom.arguments)
        if atom.function == "min":
            bounded = self._spread_below_bound(atom, arguments)
            if bounded is not None:
                return bounded
        return self._function(atom.function, arguments)

    def _spread_below_bound(self, atom: Atom, arguments: Sequence[Affine]) -> Affine | None:
        """Return the least of a stand-in and a bound as spread out as the stand-in is; None for
        another minimum. By itself, nearly every thread's would be the bound."""
        for (first, unknown), (second, bound) in permutations(
            zip(atom.arguments, arguments, strict=True)
        ):
            if self._is_guessed(first) and not self._is_guessed(second) and not bound.terms:
                return (
                    within(unknown, bound.constant + 1, self.ranges)
                    if bound.constant >= 0
                    else None
                )
        return None

    def _is_guessed(self, value: Expression) -> bool:
        """Return True if data for which no values are given decides a value."""
        return self.symbols.depends_on_data(value) and not self.has_assumed_value(value)

    def _variable(self, name: Name) -> Affine:
        if name in self.names:
            return Affine(self.names[name])
        bounds = self.ranges.get(name)
        if bounds is not None:
            return Affine(0) if bounds == (0, 0) else Affine(0, ((name, 1),))
        if name in ("laneid", "warpid"):
            return self._lane(name)
        if isinstance(name, Argument):
            raise self.arguments.missing(name, self.what)
        if isinstance(name, ConstantWord):
            self.assume(f"__constant__ {name} has no value in the binary; it is "
                        "taken for 0 in an address", None, "layout")  # fmt: skip
        return Affine(0)  # the start of an array

    def _lane(self, name: str) -> Affine:
        nx, ny, _ = self.launch.block
        thread = add(
            self._variable("threadIdx.x"),
            self._variable("threadIdx.y").scale(nx),
            self._variable("threadIdx.z").scale(nx * ny),
        )
        warp = quotient(thread, self.warp_size)
        return warp if name == "warpid" else add(thread, warp.scale(-self.warp_size))

    def _function(self, function: str, arguments: tuple[Affine, ...]) -> Affine:
        bounds = [interval(a, self.ranges) for a in arguments]
        if all(low == high for low, high in bounds):
            values: list[IntArray] = [np.asarray(low, dtype=np.int64) for low, _ in bounds]
            return Affine(int(apply(function, values)))
        if function == "//" and bounds[1][0] == bounds[1][1] and bounds[1][0] > 0:
            return quotient(with_global_coordinates(arguments[0], self.names), bounds[1][0])
        known = _decide_by_intervals(function, arguments, bounds)
        return Affine(0, ((AffineCall(function, arguments), 1),)) if known is None else known

    # Loops

    def _loop_range(self, number: int) -> LoopRange:
        loop = self.program.loops[number]
        stated = self.stated_trips(loop)
        if stated is not None:
            self._note_loop_copies(loop)
            return LoopRange(stated, stated)
        unsolved = loop.trips is None or bool(self.why_undecided(loop.trips))
        counted = self._sampled_trips(number) if unsolved or loop.reason else None
        if counted is not None and counted.known:
            return self._as_counted(loop, counted)
        if loop.trips is None or unsolved:
            reason = _trip_count_reason(loop.reason or self.why_undecided(loop.trips), counted)
            trips = self._guess(number)
            guess = self.assume(
                f"a loop is taken to run {trips} time{'s' * (trips != 1)}: {reason}; "
                f"{_trip_count_step(loop.name)}", loop.span, "trip count",
            )  # fmt: skip
            return LoopRange(trips, trips, assumed=True, rests_on=(guess,))
        guesses = (
            self.assume(
                f"an exit of a loop is taken never to be used: {loop.reason}", loop.span,
                "trip count",
            ),
        ) if loop.reason else ()  # fmt: skip
        place = f"the loop at {loop.span}" if loop.span else "a loop"
        self.what = f"the trip count of {place}"
        low, high = self.extremes(loop.trips)
        self.what = "an address"
        total = max(high, 0)
        for outer in self.program.chain(number)[:-1]:
            total *= max(self.loops[outer].most, 1)
        if total >= _LARGE:
            raise LaunchError(
                f"{place} would run {total} times; "
                f"is an argument of kernel {self.arguments.kernel!r} wrong?"
            )
        return LoopRange(max(low, 0), max(high, 0), rests_on=guesses)

    def _guess(self, number: int) -> int:
        """Trips of a loop that nobody knows; once at last, where it is nested in others."""
        guessed = 1
        for outer in self.program.chain(number)[:-1]:
            if self.loops[outer].assumed:
                guessed *= self.loops[outer].most
        return DEFAULT_TRIPS if guessed * DEFAULT_TRIPS <= _GUESSED else 1

    def _note_outside(self) -> None:
        """Accesses of the executed sample that left their buffer, with their lines."""
        if self.executed is None:
            return
        spans = {i.address: i.span for i in self.program.instructions}
        for address, text in self.executed.outside:
            self.assume(text, spans.get(address))

    def _sampled_trips(self, loop: int) -> LoopTrips | None:
        """Return the trip count of the loop in an executed sample."""
        if self.executed is None:
            return None
        start = self.program.blocks[self.program.loops[loop].header].start
        return self.executed.loops.get(self.program.instructions[start].address)

    def _as_counted(self, loop: ProgramLoop, counted: LoopTrips) -> LoopRange:
        """Rounded to whole iterations; where data decides about the entry, entries count too."""
        assert self.executed is not None
        weighted = any(self.why_undecided(part) for part in self.symbols.conjuncts(loop.entry))
        trips = round(counted.mean * counted.share) if weighted else max(round(counted.mean), 1)
        apart = "" if counted.fewest == counted.most else (
            f", {counted.fewest} to {counted.most} in single warps"
        )  # fmt: skip
        entered = f" and is entered in {counted.share:.3g} of the cases" if weighted else ""
        self.assume(
            f"a loop runs {counted.mean:.4g} times on average{apart}{entered}: counted in "
            f"{self.executed.sample}", loop.span,
        )  # fmt: skip
        return LoopRange(trips, trips, assumed=True, weighted=weighted)

    def why_undecided(self, value: Expression | None) -> str:
        """Return why a value is unknown: data or a missing argument decide it; else empty."""
        if value is None or self.symbols.depends_on_data(value):
            return "its end depends on data"
        if self.corrections and value.constant is None:
            return "its closed form differs from executed blocks"
        for place in sorted(self.symbols.free_atoms(value)):
            atom = self.symbols.atoms[place]
            if atom.function or self._is_known(atom.name):
                continue
            if isinstance(atom.name, ConstantWord):
                return f"__constant__ {atom.name} has no value in the binary"
            return "it depends on where an array lies in memory"
        return ""

    def _is_known(self, name: Name) -> bool:
        """Return True if the launch gives a variable, or has to: a missing parameter is an error
        where it is needed."""
        return (
            name in self.names or name in self.ranges or name in ("laneid", "warpid")
            or isinstance(name, (Argument, LoopCounter))
        )  # fmt: skip

    def stated_trips(self, loop: ProgramLoop) -> int | None:
        """The trip count that the user has stated for the loop, or for all on its line."""
        return next((self.trip_counts[k] for k in loop_keys(loop) if k in self.trip_counts), None)

    def _note_loop_copies(self, loop: ProgramLoop) -> None:
        """Note that one count applies to several loops on a line: unrolled copies, and the rest."""
        if "#" not in loop.name or any(k in self.trip_counts for k in loop_keys(loop)[:2]):
            return
        line = loop.name.partition("#")[0]
        copies = [x.name for x in self.program.loops if x.name.partition("#")[0] == line]
        self.assume(f"the trip count given for {line} is taken for each of the loops there: "
                    f"{', '.join(sorted(copies))}", loop.span)  # fmt: skip

    def extremes(self, value: Expression) -> tuple[int, int]:
        """The least and the largest value over the launch, from the corners of its coordinates."""
        form = self.form(value)
        if not form.terms:
            return form.constant, form.constant
        if not any(isinstance(s, (AffineCall, Quotient)) for s, _ in form.terms):
            return interval(form, self.ranges)
        symbols = sorted(set(form.symbols()), key=str)
        ends = [
            _probe_places(*self.ranges[s], int(_SAMPLED ** (1 / len(symbols)))) for s in symbols
        ]
        grid = np.meshgrid(*ends, indexing="ij")
        values = evaluate(dict(form.terms), dict(zip(symbols, grid, strict=True))) + form.constant
        return int(values.min()), int(values.max())

    def within(self, loop: int) -> Affine | None:
        """Return the condition that a thread is still in a loop that some leave before others."""
        loop_range, trips = self.loops[loop], self.program.loops[loop].trips
        if loop_range.fewest == loop_range.most or trips is None or loop_range.assumed:
            return None
        counter = Affine(0, ((LoopCounter(loop), 1),))
        return below_zero(add(self.form(trips).scale(-1), counter))

    def assume(self, text: str, span: SourceSpan | None = None, stands_for: str = "") -> Assumption:
        """Note an assumption once; ``stands_for``: one of :data:`~perfassert.source.STAND_INS`."""
        assumption = Assumption(text, span, stands_for)
        self.assumptions[assumption] = None
        return assumption

    # Guards

    def guard(
        self, condition: Expression, span: SourceSpan | None
    ) -> tuple[dict[Name, tuple[int, int]], list[Affine]] | None:
        """Ranges of single coordinates and conditions beyond; None where it never holds."""
        ranges: dict[Name, tuple[int, int]] = {}
        conditions: list[Affine] = []
        for part in self.symbols.conjuncts(condition):
            known = self.has_assumed_value(part)
            if not known or (self.why_undecided(part) and not self.symbols.depends_on_data(part)):
                continue  # undecided: taken to hold; the graph says so
            form = self.form(part)
            low, high = interval(form, self.ranges)
            if low > 0 or form == Affine(1):
                continue
            if high <= 0:
                return None
            if not self._cut(form, ranges):
                conditions.append(form)
        for low, high in ranges.values():
            if low > high:
                return None
        return ranges, conditions

    def has_assumed_value(self, value: Expression) -> bool:
        """Return True if the user gives values for every unknown of a value."""
        return all(a.name in self.assumed_values for a in self.symbols.unknowns(value))

    @property
    def counts_executions(self) -> bool:
        """Return True if executed blocks say how often each instruction is executed."""
        return self.executed is not None and self.executed.work is not None

    def is_unknown(self, instruction: ProgramInstruction) -> bool:
        """Return True if unknown content let lanes of executed blocks take part in an access."""
        spread = self.executed and self.executed.accesses.get(instruction.address)
        return bool(spread and spread.unknown)

    def is_left_open(self, condition: Expression) -> bool:
        """Return True if data decides a part of the condition for which no values are given."""
        return any(map(self._is_guessed, self.symbols.conjuncts(condition)))

    def _cut(self, form: Affine, ranges: dict[Name, tuple[int, int]]) -> bool:
        """Narrow the range of a symbol by a condition that involves it alone."""
        if len(form.terms) != 1 or form.constant or form.terms[0][1] != 1:
            return False
        call = form.terms[0][0]
        if not isinstance(call, AffineCall):
            return False
        negated = call.function == "not"
        if negated:
            inner = call.arguments[0]
            if (
                len(inner.terms) != 1
                or inner.constant
                or not isinstance(inner.terms[0][0], AffineCall)
            ):
                return False
            call = inner.terms[0][0]
        if call.function not in ("<", "==") or call.arguments[1] != Affine(0):
            return False
        return self._narrow(call.arguments[0], call.function, negated, ranges)

    def _narrow(
        self, form: Affine, relation: str, negated: bool, ranges: dict[Name, tuple[int, int]]
    ) -> bool:
        form = with_global_coordinates(form, self.names)
        if len(form.terms) != 1:
            return False
        symbol, factor = form.terms[0]
        if isinstance(symbol, Quotient) and relation == "<":
            return self._narrow(*_of_dividend(form.constant, factor, symbol, negated), ranges)
        if isinstance(symbol, (Quotient, AffineCall)):
            return False
        low, high = ranges.get(symbol, self.ranges[symbol])
        constant = form.constant
        if relation == "==":
            value, rest = divmod(-constant, factor)
            if not negated:
                ranges[symbol] = (max(low, value), min(high, value)) if rest == 0 else (1, 0)
                return True
            if rest or not low <= value <= high:
                return True
            if value == low:
                ranges[symbol] = (low + 1, high)
            elif value == high:
                ranges[symbol] = (low, high - 1)
            else:
                return False
            return True
        if negated:  # constant + factor·s ≥ 0, that is −constant − 1 − factor·s < 0
            constant, factor = -constant - 1, -factor
        if factor > 0:  # s < −constant / factor
            high = min(high, -(constant // factor) - 1 if constant % factor == 0 else
                       (-constant) // factor)  # fmt: skip
        else:  # s > constant / −factor
            low = max(low, constant // -factor + 1)
        ranges[symbol] = (low, high)
        return True


def loop_keys(loop: ProgramLoop) -> tuple[str, ...]:
    """Return the keys that a trip count may have: the loop's name first, then its line."""
    if loop.span is None:
        return ()
    number = loop.name[len(loop.span.short) :]
    line = f"{loop.span.file}:{loop.span.line}"
    return (loop.name, line + number, line, loop.span.short)


def _of_dividend(
    constant: int, factor: int, symbol: Quotient, negated: bool
) -> tuple[Affine, str, bool]:
    """``constant + factor · (x // d) < 0`` as a comparison of x: ``x // d < v`` is ``x < v·d``."""
    if factor < 0:  # c − f·q < 0 is q ≥ c // f + 1
        least, below = constant // -factor + 1, negated
    else:  # c + f·q < 0 is q < ⌈−c / f⌉
        least, below = -(constant // factor), not negated
    shifted = Affine(symbol.dividend.constant - least * symbol.divisor, symbol.dividend.terms)
    return shifted, "<", not below


def _trip_count_reason(reason: str, counted: LoopTrips | None) -> str:
    """Return why a trip count is a guess, and what would make it known."""
    if counted is None:
        return reason
    if counted.unended:
        return f"{reason}; executed, it had not ended when its instructions were used up"
    what = " and ".join(counted.unknown)
    if " " in "".join(counted.unknown):
        return f"{reason}, on {what}"
    return f"{reason}, on the content of {what}: describe it by pa.Buffer"


def _trip_count_step(name: str) -> str:
    """Return what to do about a guessed trip count of the loop with this name."""
    if not name:
        return "compile with -lineinfo, so that its trip count can be said"
    return f"say trip_counts={{{name!r}: …}}"


def check_trip_counts(program: Program, trip_counts: Mapping[str, int]) -> None:
    """Raise :class:`UnreadOverride` for a key that names no loop of the program."""
    known = {key for loop in program.loops for key in loop_keys(loop)}
    for key in trip_counts:
        if program.loops and not known:
            raise UnreadOverride(
                f"trip_counts[{key!r}]: the code has no line information, by which loops are "
                "named; compile it with -lineinfo"
            )
        if key not in known:
            shown = sorted({loop.name for loop in program.loops if loop.name})
            near = close_matches(key, shown) or f"; its loops: {', '.join(shown) or 'none'}"
            raise UnreadOverride(f"trip_counts[{key!r}] names no loop{near}")


def _probe_places(low: int, high: int, count: int) -> IntArray:
    """Both ends of a range, and what lies next to them."""
    half = max(min(count, high - low + 1) // 2, 1)
    upper = max(low + half, high - half + 1)
    return np.concatenate([np.arange(low, low + half), np.arange(upper, high + 1)])


def _product(left: Affine, right: Affine) -> Affine:
    if not left.terms:
        return right.scale(left.constant)
    if not right.terms:
        return left.scale(right.constant)
    return Affine(0, ((AffineCall("*", (left, right)), 1),))


def _decide_by_intervals(
    function: str, arguments: tuple[Affine, ...], bounds: list[tuple[int, int]]
) -> Affine | None:
    """Return the value of a function if the bounds of its arguments decide it, else None."""
    low, high = bounds[0]
    if function == "negative":
        return Affine(0) if low >= 0 else Affine(1) if high < 0 else None
    if function == "<":
        return Affine(1) if high < 0 else Affine(0) if low >= 0 else None
    if function == "==":
        return Affine(0) if low > 0 or high < 0 else None
    if function == "not":
        return Affine(0) if low > 0 else Affine(1) if high <= 0 else None
    if function == "select" and (low > 0 or high <= 0):
        return arguments[1] if low > 0 else arguments[2]
    if function in ("min", "max"):
        lesser = 0 if high <= bounds[1][0] else 1 if bounds[1][1] <= low else None
        if lesser is not None:
            return arguments[lesser if function == "min" else 1 - lesser]
    if function == "and":
        return _junction(function, arguments, bounds, absorbing=0)
    if function == "or":
        return _junction(function, arguments, bounds, absorbing=1)
    return None


def _junction(
    function: str, arguments: tuple[Affine, ...], bounds: list[tuple[int, int]], absorbing: int
) -> Affine | None:
    kept = []
    for argument, (low, high) in zip(arguments, bounds, strict=True):
        decided = 1 if low > 0 else 0 if high <= 0 else None
        if decided == absorbing:
            return Affine(absorbing)
        if decided is None:
            kept.append(argument)
    if not kept:
        return Affine(1 - absorbing)
    if len(kept) == 1:
        return kept[0]
    if len(kept) < len(arguments):
        return Affine(0, ((AffineCall(function, tuple(kept)), 1),))
    return None
