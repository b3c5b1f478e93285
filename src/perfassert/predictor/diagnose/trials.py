"""Advice proven: what a compiler can do about it, done on a copy, compiled and predicted.

A bound of 32 registers for blocks of 1,024 threads, ``__launch_bounds__(1024, 2)``, lets two blocks
reside on an SM of 65,536 registers and may spill a kernel that needs 60. With 64 one resides: both
are compiled, and the clock decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, TypeGuard

from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.optimizers import all_optimizers
from perfassert.engines.advisor.rewrites import SetRegisters, Unroll
from perfassert.errors import LaunchError, PerfAssertError, ToolchainMissing
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.roles import Role
from perfassert.prediction.prediction import Advice, Resources, Trial, TrialResult
from perfassert.predictor.diagnose.source_edits import (
    inline_calls,
    unroll_loop,
    use_single_precision,
)
from perfassert.predictor.rewrites.whatif import Predict, is_cuda_source, with_changes
from perfassert.source import SourceSpan

MOST_COMPILED = 4
_MOST_INSTRUCTIONS = 5_000
"""A larger kernel takes a compiler longer than the rest of advice; it is compiled when asked."""
_FACTORS = (4, 8)
_CLIFFS = 4  # of registers, from the fewest that matter on
_OF_FUNCTIONS = frozenset({"sfu", "convert", "convert_wide"})
"""Operations that mathematical functions have: approximations, conversions of what is reduced."""
_GUESSED = "guessed"
_OF_LOOPS = frozenset({"trips"})  # an unrolled loop has as many, of several iterations each
_SPILLS = "Register Reuse"
_BY_HAND = 0.9  # of the gain: a compiler that gains less has not done what is advised


@dataclass(frozen=True, slots=True)
class Proof:
    """Advice after trials, the trials, and those that nobody made, with the reason."""

    advice: tuple[Advice, ...]
    results: tuple[TrialResult, ...] = ()
    left_out: tuple[Trial, ...] = ()
    reason: str = ""


def prove(
    prediction: Any,
    predict: Predict,
    case: Case,
    matches: Iterable[tuple[Advice, Match]],
    advised: Sequence[tuple[Advice, Match]],
    least: float,
    allowed: int | None,
) -> Proof:
    """Compile what the advice proposes as far as a compiler can do it, and predict it.

    Args:
        prediction: of the kernel as it is.
        predict: what predicts a launch.
        case: what optimizers saw.
        matches: what optimizers found, by the formula.
        advised: those that are worth it by simulation.
        least: times as fast at least; advice below is none.
        allowed: compilations at most; None: a few, of kernels that compile quickly.
    """
    advice = tuple(a for a, _ in advised)
    if not is_cuda_source(prediction.origin[0]):
        return Proof(advice)
    trials = tuple(_Trials(prediction, case, advised).all())
    if allowed is None and len(case.code.instructions) > _MOST_INSTRUCTIONS:
        return Proof(advice, left_out=trials, reason="the kernel is large")
    most = MOST_COMPILED if allowed is None else allowed
    results: list[TrialResult] = []
    left, before = list(trials), {_code(prediction.resources)}
    while left and len(results) < most:
        trial = left.pop(0)
        try:
            results.append(_predict_trial(trial, prediction, predict))
        except ToolchainMissing:
            return Proof(advice, left_out=trials, reason="no compiler is installed")
        if trial.optimizer == _SPILLS and _code(results[-1]) in before:
            left = [t for t in left if t.optimizer != _SPILLS]  # no lower limit spills less
        before.add(_code(results[-1]))
    silent = {
        a.optimizer: a for a, _ in matches if a.optimizer not in {b.optimizer for b in advice}
    }
    return Proof(
        tuple(_with_proofs(prediction, advice, silent, results, least)),
        tuple(results),
        tuple(left),
        f"{most} are compiled" if left else "",
    )


def _code(made: TrialResult | Resources) -> tuple[int, int]:
    """Registers and bytes of spills, by which code of two limits is told apart."""
    return made.registers, made.spill_bytes or 0


def _predict_trial(trial: Trial, prediction: Any, predict: Predict) -> TrialResult:
    """Raises :class:`ToolchainMissing`; whatever else stands in the way is the result."""
    try:
        after = predict(*with_changes(prediction, trial.changes))
    except ToolchainMissing:
        raise
    except PerfAssertError as error:
        return TrialResult(trial, error=str(error).partition("\n")[0])
    resources = after.resources
    code = resources.registers, resources.spill_bytes or 0, after.occupancy.fraction
    if after.confidence == _GUESSED and not _guesses(after) <= _guesses(prediction) - _OF_LOOPS:
        return TrialResult(trial, None, *code, "rests on guesses: give arguments, trip counts")
    return TrialResult(trial, after.time, *code)


def _guesses(prediction: Any) -> set[str]:
    """Kinds of assumptions that make it a guess; those of both kernels leave their ratio alone."""
    return {a.stands_for for a in prediction.confidence_reasons}


def _with_proofs(
    prediction: Any,
    advice: Iterable[Advice],
    silent: Mapping[str, Advice],
    results: Sequence[TrialResult],
    least: float,
) -> Iterator[Advice]:
    """Advice with the fastest trial of each; also ``silent`` where a trial shows that it helps.
    Advice goes of which a compiler does all, and gains nothing."""
    fastest: dict[str, TrialResult] = {}
    for result in sorted(results, key=lambda r: inf if r.time is None else float(r.time)):
        if result.time is not None:
            fastest.setdefault(result.trial.optimizer, result)
    for one in advice:
        if one.optimizer not in fastest:
            yield one
            continue
        result = fastest.pop(one.optimizer)
        enough = least if result.trial.whole else max(least, _BY_HAND * one.speedup)
        proven = _prove(one, result, prediction, enough)
        if proven or not result.trial.whole:
            yield proven or one
    categories = {o.name: o.category for o in all_optimizers()}
    for name, result in fastest.items():
        bare = Advice(name, categories[name], 1.0, 1.0, result.trial.suggestion)
        if proven := _prove(silent.get(name, bare), result, prediction, least):
            yield proven


def _prove(advice: Advice, result: TrialResult, prediction: Any, least: float) -> Advice | None:
    """Return the advice as the trial has it, or None if that gains less than ``least``."""
    assert result.time is not None
    speedup = float(prediction.time) / float(result.time)
    if speedup < least:
        return None
    return replace(
        advice,
        speedup=speedup,
        suggestion=result.trial.suggestion or advice.suggestion,
        context={**advice.context, "estimate": "compiled"},
        proof=f"{result.trial.name}: {prediction.time} → {result.time}",
    )


class _Trials:
    """Changes that a compiler can make to a kernel, those for the best advice first."""

    def __init__(
        self, prediction: Any, case: Case, advised: Sequence[tuple[Advice, Match]]
    ) -> None:
        self._prediction = prediction
        self._case = case
        self._kernel, self._launch, self._device = prediction.origin
        self._matches = {advice.optimizer: match for advice, match in advised}
        self._text = self._kernel.compiled.text

    def all(self) -> Iterator[Trial]:
        """Yield the changes to try, each once, for the first advice that suggests it."""
        ways = {
            "Fast Math": self._fast_math,
            "Strength Reduction": self._single_precision,
            "Function Inlining": self._inline,
            "Occupancy Increase": self._fewer_registers,
            "Loop Unrolling": self._unroll,
            "Code Reordering": self._restrict,
        }
        advised = [name for name in self._matches if name in ways]
        silent = [name for name in ways if name not in self._matches]
        made = (ways[name]() for name in (*advised, *silent))
        seen: set[str] = set()
        for trial in chain(self._more_registers(), *made):
            if trial.name not in seen:
                seen.add(trial.name)
                yield trial

    def _more_registers(self) -> Iterator[Trial]:
        """Yield larger register limits, each the largest for a number of resident blocks.

        Launch bounds of the kernel are ignored.
        """
        resources, issued = self._prediction.resources, self._case.samples.issued
        if not any(issued.get(n) for n in self._case.where("local")):
            return  # nothing is spilled but on paths that are not taken
        for registers in self._cliffs(self._device.max_registers_per_thread)[:_CLIFFS]:
            if registers > resources.registers:
                yield self._limit(
                    _SPILLS,
                    registers,
                    f"{resources.spill_bytes} bytes per thread are spilled to local memory: allow "
                    f"{registers} registers instead of {resources.registers} (__launch_bounds__, "
                    "-maxrregcount)",
                )

    def _fewer_registers(self) -> Iterator[Trial]:
        match = self._matches.get("Occupancy Increase")
        for rewrite in match.rewrites if match else ():
            if isinstance(rewrite, SetRegisters):
                yield replace(self._limit("Occupancy Increase", rewrite.registers), whole=True)

    def _limit(self, optimizer: str, registers: int, suggestion: str = "") -> Trial:
        options = (f"-maxrregcount={registers}", "-Xptxas=--override-directive-values")
        return Trial(optimizer, options[0], {"options": options}, suggestion)

    def _cliffs(self, most: int) -> list[int]:
        """Return the most registers per thread for each number of blocks that reside."""
        shared = self._case.shared_bytes
        limits: list[int] = []
        resident = self._case.occupancy.resident_blocks
        for registers in range(self._prediction.resources.registers + 1, most + 1):
            try:
                fits = occupancy(self._device, self._launch.threads_per_block, registers, shared)
            except LaunchError:  # not even one
                break
            if limits and fits.resident_blocks == resident:
                limits[-1] = registers
            else:
                limits.append(registers)
            resident = fits.resident_blocks
        return limits[::-1]

    def _fast_math(self) -> Iterator[Trial]:
        if not _OF_FUNCTIONS.isdisjoint(i.operation for i in self._case.code.instructions):
            yield Trial(
                "Fast Math",
                "-use_fast_math",
                {"options": ("-use_fast_math",)},
                "precise mathematical functions: where the accuracy allows it use the intrinsics "
                "(__expf, __fdividef, __sinf …) or compile with -use_fast_math",
                whole=True,
            )

    def _single_precision(self) -> Iterator[Trial]:
        """Literals of double precision on lines that widen, or compute in double."""
        wide = [
            i for i in self._case.code.instructions
            if i.operation == "fp64" or Role.WIDENS in i.roles
        ]  # fmt: skip
        if any(Role.WIDENS in i.roles for i in wide):
            spans = (span for i in wide for span in (i.span, *i.call_path))
            lines = {span.line for span in spans if self._is_in_source(span)}
            yield from self._edit(
                "Strength Reduction",
                "literals as float",
                use_single_precision(self._text, lines),
                "float and double are mixed: write constants as float (2.0f), or use one type",
            )

    def _inline(self) -> Iterator[Trial]:
        yield from self._edit(
            "Function Inlining",
            "__forceinline__",
            inline_calls(self._text),
            "inline what the source keeps apart (__noinline__), so that its instructions mix with "
            "those of the caller",
            whole=True,
        )

    def _unroll(self) -> Iterator[Trial]:
        match = self._matches.get("Loop Unrolling")
        loops = (r.loops for r in match.rewrites if isinstance(r, Unroll)) if match else ()
        own = [self._case.code.loops[n] for n in sorted(frozenset().union(*loops))]
        counted = {x.span.line: x.trips is not None for x in own if self._is_in_source(x.span)}
        for line, whole in counted.items():
            for factor in _FACTORS:
                name = f"#pragma unroll {factor}, line {line}"
                text = unroll_loop(self._text, line, factor)
                yield from self._edit("Loop Unrolling", name, text, whole=whole)

    def _restrict(self) -> Iterator[Trial]:
        """Promise that pointers never meet, if a load may have to wait for a store."""
        if not {"Code Reordering", "Loop Unrolling"} & self._matches.keys():
            return
        code = self._case.code
        stores = [i for i in code.instructions if i.operation == "global_store"]
        loads = [i for i in code.instructions if i.operation == "global_load"]
        around = [{loop for i in own for loop in code.chain(i.loop)} for own in (stores, loads)]
        later = stores and loads and stores[0].index < loads[-1].index
        if later or around[0] & around[1]:
            yield Trial(
                "Code Reordering",
                "-restrict",
                {"options": ("-restrict",)},
                "declare pointers that never meet as __restrict__ (or compile with -restrict), so "
                "that loads need not wait for stores",
            )

    def _is_in_source(self, span: SourceSpan | None) -> TypeGuard[SourceSpan]:
        """Tell a line of the source from one of its headers."""
        return span is not None and Path(span.file).name == self._kernel.compiled.source.path.name

    def _edit(
        self,
        optimizer: str,
        name: str,
        text: str | None,
        suggestion: str = "",
        whole: bool = False,
    ) -> Iterator[Trial]:
        if text is not None:
            yield Trial(optimizer, name, {"source": text}, suggestion, whole)


def patch(trial: Trial, kernel: Any) -> str:
    """Return the difference that a trial makes to the text of a kernel; empty for options."""
    if "source" not in trial.changes:
        return ""
    name = kernel.compiled.source.path.name
    before, after = (
        t.splitlines(keepends=True) for t in (kernel.compiled.text, trial.changes["source"])
    )
    return "".join(unified_diff(before, after, f"a/{name}", f"b/{name}"))
