"""Optimizers that remove stalls (GPA Table II).

The last two need volumes, which the paper does not have. Each suggestion names the hottest lines. M
is the number of samples blamed on what the suggestion would remove.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from perfassert.engines.advisor.blame import Blame
from perfassert.engines.advisor.case import WORSE, AccessFacts, Case, Match, lines
from perfassert.engines.advisor.code import Code, CodeInstruction
from perfassert.engines.advisor.liveness import max_live_registers
from perfassert.engines.advisor.optimizer import STALL_ELIMINATION
from perfassert.engines.advisor.rewrites import (
    WAYS_TO_BALANCE,
    BalanceWarps,
    Coalesce,
    HalveCosts,
    HalveTransactions,
    JoinAccesses,
    LimitCode,
    Reclassify,
    Remove,
    RemoveConflicts,
    Rewrite,
    Schedule,
    SetRegisters,
    Unspill,
    UseConstantMemory,
)
from perfassert.kernel.roles import Role
from perfassert.shipped import model_integer

_LONG = 10.0  # cycles from which on arithmetic counts as of long latency
_NOT_ARITHMETIC = frozenset(
    "special_register shuffle branch uniform compare move barrier fence".split()
)
_MATRIX = ("tensor", "wgmma", "tcgen05")


class RegisterReuse:
    """Optimizer for stalls on local memory, which holds spilled registers."""

    name, category = "Register Reuse", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        blames = [
            b for b in case.blames
            if b.cls == "local_memory_dependency" or _local_throttle(case, b)
        ]  # fmt: skip
        if not blames:
            return None
        spilled = f"{case.spill_bytes} bytes per thread " if case.spill_bytes else "registers "
        return Match(
            f"{spilled}are spilled to local memory{_at_lines(case, blames)}: split the loop or "
            "kernel, recompute instead of keeping, or allow more registers "
            "(launch bounds, maxrregcount)",
            blames,
            rewrites=(Unspill(case.where("local")),),
        )


def _local_throttle(case: Case, blame: Blame) -> bool:
    return blame.cls == "memory_throttle" and case.instruction(blame.source).space == "local"


class StrengthReduction:
    """Optimizer for stalls on arithmetic of long latency outside mathematical functions."""

    name, category = "Strength Reduction", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        math, divisions = math_instructions(case), division_instructions(case)
        doubles = frozenset(n for d in double_divisions(case.code) for n in d.instructions)
        blames = [
            b for b in case.of("execution_dependency", "pipe_busy")
            if b.source not in math
            and (b.source in divisions | doubles or self.slow(case, b.source))
        ]  # fmt: skip
        if not blames:
            return None
        return Match(
            self.say(case, blames, divisions),
            blames,
            rewrites=self.rewrites(case, blames, divisions),
        )

    def slow(self, case: Case, number: int) -> bool:
        """Return True if an instruction is arithmetic of long latency."""
        i = case.instruction(number)
        matrix = i.operation.startswith(_MATRIX)
        if i.space is not None or matrix or i.operation in _NOT_ARITHMETIC:
            return False
        if Role.APPROXIMATES in i.roles:
            return False  # there is nothing cheaper than the approximation
        return case.latency(number) >= _LONG or (i.operation == "fp64" and case.mixes_precisions)

    def rewrites(
        self, case: Case, blames: list[Blame], divisions: frozenset[int]
    ) -> tuple[Rewrite, ...]:
        """Return the rewrites of cheaper arithmetic.

        Widened floats stay floats, and a division becomes a few integer instructions. The costs of
        other slow arithmetic are halved.
        """
        code = case.code
        narrowed = {
            i.index: "fp32"
            for i in code.instructions
            if i.operation == "fp64" and case.mixes_precisions
        }
        widening = {i.index for i in code.instructions if _widens(i)} if narrowed else set()
        halves = _unused_halves(case, narrowed.keys() | widening) if narrowed else 0
        left = _left_of_divisions(case, divisions) if divisions else {}
        doubles = double_divisions(code) if not narrowed else ()
        dispensable = frozenset(n for d in doubles for n in d.dispensable)
        dispensable |= _around_math(case, dispensable)
        slow = {b.source for b in blames} - divisions - widening - narrowed.keys()
        slow -= {n for d in doubles for n in d.instructions}
        return (
            Reclassify({**narrowed, **left}),
            Remove(frozenset(widening) | (divisions - left.keys()) | dispensable),
            Schedule(frozenset(code.instructions[n].loop for n in dispensable)),
            HalveCosts(frozenset(slow)),
            *([SetRegisters(case.registers - halves)] if halves else ()),
        )

    def say(self, case: Case, blames: list[Blame], divisions: frozenset[int]) -> str:
        sources = [case.instruction(b.source) for b in blames]
        if any(_widens(i) or i.operation == "fp64" for i in sources) and case.mixes_precisions:
            advice = "float and double are mixed: write constants as float (2.0f), or use one type"
        elif any(i.index in d.instructions for d in double_divisions(case.code) for i in sources):
            advice = (
                "divisions of doubles: multiply by a reciprocal that several share, or by an "
                "approximate one (rcp.approx.ftz.f64 and a step of Newton's method)"
            )
        elif any(i.index in divisions for i in sources):
            advice = (
                "division by a value that the compiler does not know: multiply by its reciprocal, "
                "shift by powers of two, or make the divisor a compile-time constant"
            )
        else:
            advice = "slow arithmetic: use a cheaper equivalent, or hoist it out of the loop"
        return f"{advice}{_at_lines(case, blames)}"


def _widens(i: CodeInstruction) -> bool:
    return Role.WIDENS in i.roles


def _unused_halves(case: Case, chosen: Collection[int]) -> int:
    """Return the registers that are saved if the results of these instructions have half the width.

    They are the difference of the largest numbers of live registers.
    """
    code = case.code
    upper = {name for n in chosen for name in code.instructions[n].defines[1:]}
    instructions = tuple(
        replace(i, defines=i.defines[:1], uses=tuple(name for name in i.uses if name not in upper))
        if i.index in chosen
        else i
        for i in code.instructions
    )
    narrow = replace(code, instructions=instructions)
    return max(0, max_live_registers(code) - max_live_registers(narrow))


def _left_of_divisions(case: Case, divisions: frozenset[int]) -> dict[int, str]:
    """Return the instructions that remain if the divisor is a constant, by line and loop.

    They represent the upper half of a product, a shift, the handling of the sign or the remainder,
    and the author's use of the quotient.
    """
    by_line: dict[tuple[str, int], list[int]] = {}
    for n in sorted(divisions):
        i = case.instruction(n)
        by_line.setdefault((str(i.span), i.loop), []).append(n)
    # For example, 30 instructions with 4 corrections are two quotients: 2 · 4 = 8 of the 30 remain.
    kept: list[int] = []
    for own in by_line.values():
        corrections = sum(Role.CORRECTS_QUOTIENT in case.instruction(n).roles for n in own)
        left = min(len(own), _OF_A_QUOTIENT * -(-corrections // _CORRECTIONS))
        kept += (own[k * len(own) // left] for k in range(left))
    return dict.fromkeys(kept, "imad")


_OF_A_QUOTIENT = model_integer("instructions_per_quotient")


def division_instructions(case: Case) -> frozenset[int]:
    """Return integer arithmetic on lines with a division by a value unknown to the compiler.

    The division begins with the reciprocal of the divisor, as a float that is rounded up. Other
    divisions by the same divisor share it. Each division multiplies and corrects the quotient.
    """
    roles: dict[str, list[Role]] = {}
    for i in case.code.instructions:
        if i.span is not None:
            roles.setdefault(str(i.span), []).extend(i.roles)
    if not any(Role.BEGINS_DIVISION in own for own in roles.values()):
        return frozenset()
    lines = {
        line for line, own in roles.items()
        if Role.BEGINS_DIVISION in own
        or (own.count(Role.CORRECTS_QUOTIENT) >= _CORRECTIONS and Role.TAKES_UPPER_HALF in own)
    }  # fmt: skip
    return frozenset(
        i.index for i in case.code.instructions
        if i.span is not None and str(i.span) in lines and i.operation in _WHOLE
    )  # fmt: skip


_CORRECTIONS = model_integer("corrections_per_quotient")
_WHOLE = frozenset({"int32", "imad", "sfu", "convert", "convert_wide", "compare"})


@dataclass(frozen=True, slots=True)
class DoubleDivision:
    """The instructions of the fast path of a division of doubles.

    ``dispensable`` are those that are not needed if an approximate reciprocal is sufficient.
    """

    instructions: frozenset[int]
    dispensable: frozenset[int]


def double_divisions(code: Code) -> tuple[DoubleDivision, ...]:
    """Return the divisions of doubles.

    The special function unit approximates the reciprocal ``r`` of y. The steps ``e = 1 - y r``, ``e
    += e e`` and ``r += r e`` make it exact to about 40 bits. A second step, ``e = 1 - y r`` and ``r
    += r e``, completes it. ``q = x r`` and its residue, ``q += r (x - y q)``, round the quotient. A
    test jumps if an exponent is too large.
    """
    divisions = (
        _double_division(code, i.index)
        for i in code.instructions
        if Role.BEGINS_DOUBLE_DIVISION in i.roles and i.block in code.blocks
    )
    return tuple(d for d in divisions if d is not None)


def _double_division(code: Code, begin: int) -> DoubleDivision | None:
    """Return the instructions of a division: those in its block that depend on the reciprocal.

    Elsewhere the quotient may be that of the slow path.
    """
    results = set(code.instructions[begin].defines)
    arithmetic: list[int] = []
    tests: list[int] = []
    stop = code.blocks[code.instructions[begin].block].stop
    for n in range(begin + 1, stop):
        i = code.instructions[n]
        if not results.isdisjoint((*i.uses, i.predicate.lstrip("!"))):
            results.update(i.defines)
            (arithmetic if i.operation == "fp64" else tests).append(n)
    if stop - 1 not in tests or len(arithmetic) < _OF_A_RECIPROCAL:
        return None  # the division is approximate already
    needed = (*arithmetic[:_OF_A_STEP], *arithmetic[_OF_A_RECIPROCAL : _OF_A_RECIPROCAL + 1])
    dispensable = frozenset((*arithmetic, *tests)).difference(needed)
    return DoubleDivision(frozenset((begin, *arithmetic, *tests)), dispensable)


_OF_A_STEP, _OF_A_RECIPROCAL = 3, 5
"""Numbers of instructions of the first step, and of both steps."""


def math_instructions(case: Case) -> frozenset[int]:
    """Return the float arithmetic of precise mathematical functions.

    It consists of routines of the CUDA mathematical library, and of lines that have a division
    check or a range reduction in addition to an approximation.
    """
    library = {i.index for i in case.code.instructions if Role.IN_LIBRARY in i.roles}
    by_line: dict[str, list[CodeInstruction]] = {}
    for i in case.code.instructions:
        if i.span is not None:
            by_line.setdefault(str(i.span), []).append(i)
    for members in by_line.values():
        roles = frozenset[Role]().union(*(i.roles for i in members))
        if roles >= _PRECISE and Role.BEGINS_DIVISION not in roles:
            library.update(i.index for i in members if i.operation in _FLOATING)
    return frozenset(library)


def _around_math(case: Case, math: frozenset[int]) -> frozenset[int]:
    """Return instructions that only serve precise functions: constants, exponents, branches.

    They lie on the lines of the functions, and their results reach neither memory nor another line.
    """
    code = case.code.instructions
    spans = {str(code[n].span) for n in math if Role.IN_LIBRARY not in code[n].roles}
    headers = {loop.header for loop in case.code.loops}
    closing = {b.stop - 1 for b in case.code.blocks.values() if headers.intersection(b.successors)}
    around: set[int] = set()
    needed: set[str] = set()
    for i in reversed(code):
        serves = str(i.span) in spans and i.space is None and i.index not in math
        serves = serves and i.operation in _SERVING and i.index not in closing
        if serves and needed.isdisjoint(i.defines):
            around.add(i.index)
            continue
        needed.difference_update(i.defines if not i.predicate else ())
        if i.index not in math:
            needed.update(i.uses)
    return frozenset(around)


_SERVING = frozenset({"int32", "imad", "move", "convert", "compare", "branch"})


def _of_fast_math(case: Case, math: frozenset[int]) -> frozenset[int]:
    """Return the instructions that remain of precise functions.

    They are the approximations, and one of three other instructions, which scales arguments and
    results or belongs to the author.
    """
    own = [n for n in sorted(math) if Role.IN_LIBRARY not in case.instruction(n).roles]
    kept = [n for n in own if Role.APPROXIMATES in case.instruction(n).roles]
    rest = [n for n in own if Role.APPROXIMATES not in case.instruction(n).roles]
    return frozenset((*kept, *rest[::_OF_A_FUNCTION]))


_OF_A_FUNCTION = model_integer("kept_of_a_function")


_FLOATING = frozenset({"fp32", "sfu", "compare", "convert", "convert_wide"})
_PRECISE = frozenset({Role.APPROXIMATES, Role.CORRECTS})


class FunctionSplit:
    """Optimizer for stalls on instruction fetch, if the code exceeds the instruction cache."""

    name, category = "Function Split", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        blames = list(case.of("instruction_fetch"))
        if not blames:
            return None
        return Match(
            "the code does not fit into the instruction cache: split the kernel or its large "
            f"functions, unroll less{_at_lines(case, blames)}",
            blames,
            rewrites=(LimitCode(case.device.instruction_cache_bytes),),
        )


class FastMath:
    """Optimizer for stalls in precise mathematical functions."""

    name, category = "Fast Math", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        math = math_instructions(case)
        blames = [
            b for b in case.of("execution_dependency", "pipe_busy")
            if b.source in math or (b.use in math and b.source == b.use)
        ]  # fmt: skip
        if not blames:
            return None
        gone = (math - _of_fast_math(case, math)) | _around_math(case, math)
        apart = {i.loop for n in gone if (i := case.instruction(n)).operation == "branch"}
        return Match(
            "precise mathematical functions: where the accuracy allows it use the intrinsics "
            "(__expf, __fdividef, __sinf …) or compile with -use_fast_math"
            f"{_at_lines(case, blames)}",
            blames,
            rewrites=(Remove(gone), Schedule(frozenset(apart))),
        )


class WarpBalance:
    """Optimizer for stalls at barriers, where warps that arrive early wait for the last one."""

    name, category = "Warp Balance", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        blames = [b for b in case.of("synchronization") if not case.instruction(b.source).orders]
        if not blames:
            return None
        return Match(
            "warps wait for each other at the barrier: give them equal work between barriers, "
            "synchronize fewer of them (__syncwarp or shuffles where one warp works alone, "
            "cooperative groups), or load before the first barrier what later phases need"
            f"{_at_lines(case, blames)}",
            blames,
            same_work=True,
            rewrites=(BalanceWarps(),),
            alternatives=WAYS_TO_BALANCE,
        )


class MemoryTransactionReduction:
    """Optimizer for throttled global accesses, and for global loads of one value by all threads."""

    name, category = "Memory Transaction Reduction", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        if case.sketch:
            return self.match_addresses(case)
        uniform = {n for n in case.accesses if self.uniform(case, n)}
        blames = [
            b for b in case.blames
            if (b.cls == "memory_throttle" and self.wide(case, b.source))
            or (b.source in uniform and self.is_credited(case, b, uniform))
        ]  # fmt: skip
        if not blames:
            return None
        if any(b.source in uniform for b in blames):
            text = _SAME.format("all threads of a warp")
        else:
            text = (
                "global accesses come faster than they are served: load wider types (float4), or "
                "keep what is reused in registers; a tile in shared memory is read as often"
            )
        sources = frozenset(b.source for b in blames)
        rewrites = UseConstantMemory(sources & uniform), HalveTransactions(sources - uniform)
        return Match(f"{text}{_at_lines(case, blames)}", blames, rewrites=rewrites)

    def match_addresses(self, case: Case) -> Match | None:
        """Match without code: loads of one element by all threads, neighbours one by one."""
        same = frozenset(n for n, facts in case.accesses.items() if facts.same)
        together = {n: f.neighbours for n, f in case.accesses.items() if f.neighbours > 1}
        joined = frozenset(together) - same
        texts = []
        if same:
            texts.append(f"{_SAME.format('all threads')}{_named_accesses(case, same)}")
        if joined:
            most = max(together[n] for n in joined)
            texts.append(
                f"a thread accesses {most} neighbouring elements one by one: access them as one "
                f"of {most} times the width{_named_accesses(case, joined)}"
            )
        if not texts:
            return None
        rewrites = JoinAccesses(joined), UseConstantMemory(same)
        return Match("; ".join(texts), _blamed_on(case, same | joined), rewrites=rewrites)

    def is_credited(self, case: Case, blame: Blame, uniform: set[int]) -> bool:
        """Return True if a stall disappears with its load.

        This holds if the load occupied the queue, or if no other load from global memory is waited
        for at the same time.
        """
        if blame.cls == "memory_throttle":
            return True
        return blame.cls == "memory_dependency" and not any(
            b.source not in uniform
            and case.instruction(b.source).block == case.instruction(blame.source).block
            and b.source < blame.use and blame.source < b.use
            for b in case.of("memory_dependency")
        )  # fmt: skip

    def uniform(self, case: Case, number: int) -> bool:
        """Return True if a load touches one sector for the whole warp."""
        i, facts = case.instruction(number), case.accesses[number]
        one = 0 < facts.sectors <= 1 < facts.ideal_sectors
        return i.operation == "global_load" and one and not facts.assumed

    def wide(self, case: Case, number: int) -> bool:
        """Return True if a global access touches hardly more sectors than it needs."""
        facts = case.accesses.get(number)
        dense = facts is None or (facts.is_dense and not facts.assumed)
        return case.instruction(number).space == "global" and dense


_SAME = (
    "{} read the same element from global memory: keep a table that is not changed in constant or "
    "shared memory"
)


class WiderAccesses:
    """Optimizer for neighbouring elements accessed one by one, by a thread or by adjacent lanes."""

    name, category = MemoryTransactionReduction.name, STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        together = {n: f.neighbours for n, f in case.accesses.items() if f.neighbours > 1}
        if not together:
            return None
        blames = [b for b in case.of("memory_throttle") if b.source in together]
        most = max(together.values())
        return Match(
            f"neighbouring elements are accessed one by one: access {most} of them as one (uchar4, "
            f"uint4, float4 …), each thread as many{_named_accesses(case, frozenset(together))}",
            [replace(b, count=b.count.times(1 - 1 / together[b.source])) for b in blames],
            speedup=None if blames else 1.0,
            rewrites=(JoinAccesses(frozenset(together)),),
        )


class Coalescing:
    """Optimizer for stalls on global accesses that touch more sectors than their bytes fill."""

    name, category = "Coalescing", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        if case.sketch:
            return self.match_addresses(case)
        blames = list(
            _shares(
                case,
                case.of("memory_dependency", "memory_throttle"),
                lambda facts: 1.0 if facts.is_dense else facts.ideal_sectors / facts.sectors,
                "global",
            )
        )
        if not blames:
            return None
        chosen = frozenset(b.source for b in blames)
        text = self.say(case, chosen)
        return Match(f"{text}{_at_lines(case, blames)}", blames, rewrites=(Coalesce(chosen),))

    def match_addresses(self, case: Case) -> Match | None:
        """Match without code: accesses that are not dense, whether or not warps wait for them."""
        chosen = frozenset(n for n, facts in case.accesses.items() if not facts.is_dense)
        if not chosen:
            return None
        text = f"{self.say(case, chosen)}{_named_accesses(case, chosen)}"
        return Match(text, _blamed_on(case, chosen), rewrites=(Coalesce(chosen),))

    def say(self, case: Case, chosen: frozenset[int]) -> str:
        worst = max((case.accesses[n] for n in chosen), key=lambda f: f.sectors)
        return (
            f"a warp touches {worst.sectors:.3g} sectors where {worst.ideal_sectors:.3g} would do: "
            "let neighbouring threads access neighbouring elements"
        )


class SharedBankConflictRemoval:
    """Optimizer for stalls on shared memory accesses with more wavefronts than their bytes need."""

    name, category = "Shared Bank Conflict Removal", STALL_ELIMINATION

    def match(self, case: Case) -> Match | None:
        blames = list(
            _shares(
                case,
                case.of("shared_dependency", "memory_throttle", "write_after_read"),
                lambda facts: facts.ideal_wavefronts / facts.wavefronts if facts.wavefronts else 1,
                "shared",
            )
        )
        if not blames:
            return None
        worst = max((case.accesses[b.source] for b in blames), key=lambda f: f.wavefronts)
        sources = frozenset(b.source for b in blames)
        how, proof = case.layouts(sources) or (_OTHER_LAYOUT, None)
        return Match(
            f"an access takes {worst.wavefronts:.3g} wavefronts where {worst.ideal_wavefronts:.3g} "
            f"would do: lay the tile out with {how}{_at_lines(case, blames)}",
            blames,
            rewrites=(RemoveConflicts(sources),),
            proof=proof,
        )


_OTHER_LAYOUT = "padded rows, or with a swizzled index"


def _shares(
    case: Case, blames: Iterable[Blame], ideal: Callable[[AccessFacts], float], space: str
) -> Iterable[Blame]:
    """Yield the part of each blame that ideal accesses would not cause."""
    for blame in blames:
        facts: AccessFacts | None = case.accesses.get(blame.source)
        if facts is None or facts.assumed or case.instruction(blame.source).space != space:
            continue
        # For example, 8 sectors where 4 would do: half of the 60 samples, 30, are yielded. 4.2
        # sectors waste 5 %, less than 1 - 1 / 1.1 = 9 %, and yield nothing.
        wasted = 1 - ideal(facts)
        if wasted > 1 - 1 / WORSE:
            yield replace(blame, count=blame.count.times(wasted))


def _blamed_on(case: Case, chosen: frozenset[int]) -> list[Blame]:
    return [b for b in case.of("memory_dependency", "memory_throttle") if b.source in chosen]


_SHOWN = 3  # lines that a message names


def _named_accesses(case: Case, chosen: frozenset[int]) -> str:
    """Return the names of the accesses, in parentheses."""
    names = list(dict.fromkeys(case.place(n) for n in sorted(chosen)))
    return f" ({', '.join(names[:_SHOWN])}{' …' if len(names) > _SHOWN else ''})"


def _at_lines(case: Case, blames: Iterable[Blame]) -> str:
    where = lines(case, blames)
    return f" ({where})" if where else ""
