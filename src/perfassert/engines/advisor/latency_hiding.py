"""Optimizers that hide latency behind other instructions (GPA Table II, eqs. 4 and 5)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from perfassert.engines.advisor.blame import Blame
from perfassert.engines.advisor.case import Case, Match, lines
from perfassert.engines.advisor.code import Code
from perfassert.engines.advisor.optimizer import LATENCY_HIDING
from perfassert.engines.advisor.rewrites import (
    CopyAsynchronously,
    Remove,
    Reorder,
    Schedule,
    Unroll,
)
from perfassert.kernel.roles import Role
from perfassert.shipped import model_integer

_WAITS = ("memory_dependency", "execution_dependency", "shared_dependency")
_CADENCE = model_integer("stall_count_cycles")
_WORTH = 0.01  # fraction of the samples; loops with fewer waits are not changed
_SMALL = 3000  # instructions of a function; larger ones are not worth inlining
_NEAR = 32  # instructions between definition and use that still count as close together


_BY_HAND = (
    "by hand, several iterations at a time and the rest apart; with #pragma unroll alone each copy "
    "may keep its exit, which nothing is loaded ahead of"
)


class LoopUnrolling:
    """Optimizer for waits within an iteration of a loop that other iterations could fill."""

    name, category = "Loop Unrolling", LATENCY_HIDING

    def match(self, case: Case) -> Match | None:
        waiting: dict[int, list[Blame]] = {}
        for blame in _waits(case):
            loop = case.common_loop(blame.source, blame.use)
            if blame.distance:
                waiting.setdefault(loop, []).append(blame)
        by_loop = {loop: own for loop, own in waiting.items() if _overlaps(case, loop)}
        if not by_loop:
            return None
        groups = []
        for loop, blames in by_loop.items():
            waits = sum(b.count.latency for b in blames)
            left = (
                1 / case.trips[loop] if loop in case.trips else 0.0
            )  # one iteration keeps its waits
            groups.append((case.loop_body(loop), waits * (1 - left)))
        blames = [b for group in by_loop.values() for b in group]
        hottest = max(by_loop, key=lambda loop: sum(b.count.latency for b in by_loop[loop]))
        span = case.code.loops[hottest].span
        where = f" at {span.short}" if span is not None else ""
        how = "#pragma unroll, or by hand" if case.code.loops[hottest].trips else _BY_HAND
        return Match(
            f"unroll the loop{where} ({how}), so that loads of the next "
            "iterations are on their way while this one computes",
            blames,
            hidden_latency(case, groups),
            rewrites=(
                Unroll(_hot(case, ((loop, b) for loop, own in by_loop.items() for b in own))),
            ),
        )


def _hot(case: Case, blames_by_loop: Iterable[tuple[int, Blame]]) -> frozenset[int]:
    """Return the loops with enough waits to be worth a change, at least the hottest."""
    # For example, of 1,000 samples loop 0 has 500 waits and loop 1 has 4: the bound is 10, and the
    # result is {0}. If loop 1 were the only one, the bound would be 4 and the result {1}.
    waits: dict[int, float] = {}
    for loop, blame in blames_by_loop:
        waits[loop] = waits.get(loop, 0.0) + blame.count.latency
    most = max(waits.values(), default=0.0)
    least = min(most, _WORTH * case.total.all)
    return frozenset(loop for loop, count in waits.items() if count >= least)


def _overlaps(case: Case, loop: int) -> bool:
    """Return True if warps can start a next iteration without waiting for each other."""
    repeats = loop >= 0 and case.trips.get(loop, 2.0) > 1
    return repeats and not any(case.instruction(n).synchronizes for n in case.loop_body(loop))


class CodeReordering:
    """Optimizer for waits of a use that follows its definition too closely."""

    name, category = "Code Reordering", LATENCY_HIDING

    def match(self, case: Case) -> Match | None:
        blames = [b for b in _waits(case) if b.source != b.use]
        if not blames:
            return None
        hidden = _latency_hidden_in(case, blames, _BetweenBarriers(case).scope)
        top = max(blames, key=lambda b: b.count.latency)
        source, use = case.instruction(top.source), case.instruction(top.use)
        names = [i.span.short if i.span is not None else i.label for i in (source, use)]
        near = f", {top.distance} instructions on" if top.distance <= _NEAR else ""
        return Match(
            f"move the definition at {names[0]} away from its use at {names[1]}{near}: load for "
            "the next step before computing this one",
            blames,
            hidden,
            rewrites=(Reorder(_hot(case, ((case.instruction(b.use).loop, b) for b in blames))),),
        )


class FunctionInlining:
    """Optimizer for waits in device functions that are not inlined, and at their calls."""

    name, category = "Function Inlining", LATENCY_HIDING

    def match(self, case: Case) -> Match | None:
        small = {
            f for f, body in case.function_bodies.items()
            if f and len(body) < _SMALL and not _is_in_library(case, body)
        }  # fmt: skip
        calls = _calls(case.code, small)
        blames = [
            b for b in case.blames
            if (
                {case.instruction(b.source).function, case.instruction(b.use).function} & small
                or {b.source, b.use} & calls
            )
            and b.cls not in ("selected", "not_selected")
        ]  # fmt: skip
        if not blames:
            return None
        body = frozenset().union(*(case.function_bodies[f] for f in small))
        waits = sum(b.count.latency for b in blames)
        names = ", ".join(sorted(small)[:3])
        return Match(
            f"inline {names} (__forceinline__, or by hand), so that its instructions mix with "
            "those of the caller",
            blames,
            min(waits, case.active_in(body | case.function_bodies.get("", frozenset()))),
            rewrites=(
                Remove(_returns(case.code, small) | _for_calls(case.code, small, calls) | calls),
                Schedule(frozenset(case.instruction(n).loop for n in body | calls)),
            ),
        )


class AsynchronousCopy:
    """Optimizer for loads that only pass through registers to shared memory (sm_80 and later)."""

    name, category = "Asynchronous Copy", LATENCY_HIDING

    def match(self, case: Case) -> Match | None:
        if _generation(case.device.arch) < 80:
            return None
        blames = [
            b for b in case.of("memory_dependency")
            if case.instruction(b.use).operation == "shared_store"
            and case.instruction(b.source).operation == "global_load"
        ]  # fmt: skip
        if not blames:
            return None
        where = lines(case, blames)
        return Match(
            "copy from global to shared memory without registers (cuda::memcpy_async, "
            f"__pipeline_memcpy_async) and compute on the tile before ({where})",
            blames,
            _latency_hidden_in(case, blames, lambda b: case.scope(b.use)),
            rewrites=(CopyAsynchronously({b.use: b.source for b in blames}),),
        )


def _waits(case: Case) -> Iterator[Blame]:
    """Yield the waits for results that other instructions could fill.

    A pipeline of half a warp's width is busy for two cycles per instruction. Waiting for the second
    cycle is left out.
    """
    for blame in case.of(*_WAITS):
        before = case.instruction(max(0, blame.use - 1))
        fixed = case.instruction(blame.source).sets < 0
        if not (fixed and blame.cls == "execution_dependency" and before.stall <= _CADENCE):
            yield blame


def _is_in_library(case: Case, body: Iterable[int]) -> bool:
    """Return True if a function comes from a library of the compiler."""
    return any(Role.IN_LIBRARY in case.instruction(n).roles for n in body)


def _generation(arch: str) -> int:
    digits = "".join(c for c in arch if c.isdecimal())
    return int(digits) if digits else 0


def _latency_hidden_in(
    case: Case, blames: Sequence[Blame], scope: Callable[[Blame], frozenset[int]]
) -> float:
    """Return the latency samples that the scopes of all blames together can hide."""
    # Scopes are large and shared by many blames, so they are compared by identity.
    groups: dict[int, tuple[frozenset[int], float]] = {}
    for blame in blames:
        body = scope(blame)
        waits = groups.get(id(body), (body, 0.0))[1]
        groups[id(body)] = body, waits + blame.count.latency
    return hidden_latency(case, list(groups.values()))


def hidden_latency(case: Case, groups: Sequence[tuple[frozenset[int], float]]) -> float:
    """Return the latency samples that active samples hide: eq. (5) for several scopes.

    A scope hides at most its active samples, including those of nested scopes. No active sample
    hides twice: an outer scope cannot use the samples that an inner scope has used.
    """
    # For example, an inner loop with 10 active samples and 6 waits hides 6, and 4 active samples
    # are left. The outer loop has 5 more active samples and 20 waits: it hides 9. The sum is 15.
    left = dict(case.active)
    hidden = 0.0
    for body, waits in sorted(groups, key=lambda group: (len(group[0]), min(group[0]))):
        room = sum(left.get(n, 0.0) for n in body)
        used = min(waits, room)
        if used > 0:
            hidden += used
            for n in body:
                if n in left:
                    left[n] *= 1 - used / room
    return hidden


def _calls(code: Code, functions: Collection[str]) -> set[int]:
    """Return instructions that call one of these functions and continue in a copy of it."""
    return {
        b.stop - 1 for b in code.blocks.values()
        if b.stop > b.start and Role.CALLS in code.instructions[b.stop - 1].roles
        and any(code.instructions[code.blocks[t].start].function in functions
                for t in b.successors if t in code.blocks)
    }  # fmt: skip


def _returns(code: Code, functions: Collection[str]) -> frozenset[int]:
    """Return instructions after which control leaves one of these functions."""
    ends = [(b, code.instructions[b.stop - 1]) for b in code.blocks.values() if b.stop > b.start]
    return frozenset(
        last.index for b, last in ends
        if last.function in functions and last.operation == "branch"
        and any(code.instructions[code.blocks[t].start].function != last.function
                for t in b.successors if t in code.blocks)
    )  # fmt: skip


def _for_calls(code: Code, functions: Collection[str], calls: Collection[int]) -> frozenset[int]:
    """Return moves of constants and return addresses, around calls and in the functions."""
    around = {code.instructions[n].block for n in calls}
    return frozenset(
        i.index for i in code.instructions
        if i.operation == "move" and not i.uses
        and (i.block in around or i.function in functions)
    )  # fmt: skip


class _BetweenBarriers:
    """Scopes of pairs of instructions, cut at the barriers before and after both."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._fences: dict[int, list[int]] = {}
        self._bodies: dict[tuple[int, int, int], frozenset[int]] = {}

    def scope(self, blame: Blame) -> frozenset[int]:
        """Return the scope of a pair, as the same object for all pairs with the same scope."""
        scope = self._case.scope(blame.use)
        if id(scope) not in self._fences:
            code = self._case.code.instructions
            self._fences[id(scope)] = sorted(n for n in scope if code[n].synchronizes)
        fences = self._fences[id(scope)]
        low, high = min(blame.source, blame.use), max(blame.source, blame.use)
        # For example, a loop of instructions 10 to 29 has barriers at 15 and 25. The scope of the
        # pair 17 and 20 is 16 to 24, and that of 12 and 14 is 10 to 14.
        before, after = bisect_right(fences, low), bisect_left(fences, high)
        first = fences[before - 1] if before else -1
        last = fences[after] if after < len(fences) else len(self._case.code.instructions)
        key = id(scope), first, last
        if key not in self._bodies:
            inside = frozenset(n for n in scope if first < n < last) if fences else scope
            self._bodies[key] = inside or scope
        return self._bodies[key]
