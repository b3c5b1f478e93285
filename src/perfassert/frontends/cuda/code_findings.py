"""Findings of ``survey``: inefficiencies that machine code shows without a launch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd

from perfassert.frontends.machine.lane_values import FAR, LANES, SAME, Address, Lanes, LaneValues
from perfassert.frontends.toolchain.names import demangle, without_parameters
from perfassert.kernel.machine import SECTOR_BYTES, WIDEST_ACCESS_BYTES
from perfassert.shipped import model_integer

SPILLS, LOCAL_ARRAY, UNCOALESCED, NARROW, CONFLICTS, DOUBLES, DIVERGENCE, CLIFF, CALLS = (
    "spills", "local-array", "uncoalesced", "narrow", "bank-conflicts", "double-arithmetic",
    "divergence", "occupancy-cliff", "calls",
)  # fmt: skip
KINDS = (
    SPILLS, LOCAL_ARRAY, UNCOALESCED, NARROW, CONFLICTS, DOUBLES, DIVERGENCE, CLIFF, CALLS,
)  # fmt: skip
"""All kinds of findings."""

_LINE = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;\n]*)"
    r"|^(\.L_\w+):",
    re.MULTILINE,
)
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_CALLED = re.compile(r"`\(([^)]+)\)")
_STACK_POINTER = re.compile(r"\[R1(?:\+0x[0-9a-f]+)?\]")
_BYTES = {"64": 8, "128": 16, "256": 32, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
_ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP")  # without a condition
_GLOBAL = {"LDG": "load", "STG": "store", "LD": "load", "ST": "store"}
_SHARED = {"LDS": "load", "STS": "store"}
_BANKS, _WORD = model_integer("shared_banks"), model_integer("shared_bank_bytes")
_COMPILERS = "__cuda"  # prefix of the compiler's own functions
_WORST = 2.0  # least ratio to the ideal sectors or wavefronts that is reported
_ITERATIONS = 8.0  # assumed iterations of every loop
_DEEPEST = 3
_DOUBLE_COST = model_integer("double_as_instructions")


@dataclass(frozen=True, slots=True)
class CodeFinding:
    """A finding in the code of one kernel.

    ``kind`` is one of :data:`KINDS`. ``message`` is a sentence without the kernel's name. ``cost``
    is the number of superfluous issued instructions, sectors or wavefronts, divided by the number
    of instructions, where an instruction in a loop counts eight times.

    >>> CodeFinding("calls", "calls f, which is not inlined", 0.0).kind
    'calls'
    """

    kind: str
    message: str
    cost: float


@dataclass(slots=True)
class _Place:
    base: str
    guard: str
    opcode: str
    operands: list[str]
    weight: float = 1.0

    @property
    def width(self) -> int:
        return access_width(self.opcode)


@dataclass(slots=True)
class _Accesses:
    """A group of accesses whose addresses differ by constants."""

    offsets: dict[int, int] = field(default_factory=dict)  # offset → width
    weight: float = 0.0
    count: int = 0


def access_width(opcode: str) -> int:
    """Return the bytes that a memory instruction moves for each thread.

    >>> access_width("LDG.E.128.CONSTANT"), access_width("STS.U16"), access_width("LDG.E")
    (16, 2, 4)
    """
    return next((_BYTES[part] for part in opcode.split(".") if part in _BYTES), _WORD)


def find_in_code(text: str, spill_bytes: int) -> tuple[CodeFinding, ...]:
    """Return the costliest finding of each kind in a kernel's listing, the costliest first.

    Args:
        text: nvdisasm's listing of the kernel's section.
        spill_bytes: bytes of spilled registers per thread, which are no local arrays.
    """
    code, jumps = _read(text)
    total = sum(place.weight for place in code) or 1.0
    walk = _Walk(total)
    for number, place in enumerate(code):
        walk.visit(number, place, jumps.get(number))
    findings = [*walk.findings(), *_local_memory(code, spill_bytes, total), *_doubles(code, total)]
    findings += _calls(code)
    return tuple(sorted(findings, key=lambda f: -f.cost))


def _read(text: str) -> tuple[list[_Place], dict[int, int]]:
    """Return the instructions with their weights, and jumps as index → index of the target."""
    code: list[_Place] = []
    labels: dict[str, int] = {}
    for match in _LINE.finditer(text):
        if match[4]:
            labels[match[4]] = len(code)
        else:
            base = match[2].partition(".")[0]
            operands = match[3].rstrip().split(", ") if match[3] else []
            code.append(_Place(base, match[1] or "", match[2], operands))
    jumps: dict[int, int] = {}
    depths = [0] * len(code)
    for number, place in enumerate(code):
        if (
            place.base != "BRA"
            or not place.operands
            or not (targets := _TARGET.findall(place.operands[-1]))
        ):
            continue
        jumps[number] = labels.get(targets[-1], len(code))
    for number, start in jumps.items():  # a jump to itself is no loop
        for inside in range(start, number + 1 if start < number else 0):
            depths[inside] += 1
    for place, depth in zip(code, depths, strict=True):
        place.weight = _ITERATIONS ** min(depth, _DEEPEST)
    return code, jumps


class _Walk:
    """Walk over a listing that collects the addresses and branches of lanes."""

    def __init__(self, total: float) -> None:
        self.total = total
        self.values = LaneValues()
        self.arriving: dict[int, LaneValues] = {}
        self.is_reached = True
        self.groups: dict[tuple[str, Lanes, object], _Accesses] = defaultdict(_Accesses)
        self.conflicts: list[tuple[float, float]] = []
        self.divergent: list[float] = []

    def visit(self, number: int, place: _Place, target: int | None) -> None:
        """Process one instruction; ``target`` is the instruction that a jump leads to."""
        if (arriving := self.arriving.pop(number, None)) is not None:
            self.values.meet(arriving, self.is_reached)
            self.is_reached = True
        if place.base in _GLOBAL or place.base in _SHARED:
            address = self.values.address(place.operands)
            if address is not None and address.lanes is not None and address.lanes != SAME:
                self._note(place, address)
        if target is not None and target > number:
            known = self.arriving.get(target)
            if known is None:
                self.arriving[target] = self.values.copy()
            else:
                known.meet(self.values, is_reached=True)
        elif target is not None:
            conditions = [c.lstrip("!") for c in (place.guard, *place.operands[:-1]) if c]
            if any(
                self.values.read(c).lanes is None and self.values.depends_on_data(c)
                for c in conditions
            ):
                self.divergent.append(place.weight / self.total)
        self.values.step(place.base, place.opcode, place.operands)
        if place.base in _ENDS and not place.guard and len(place.operands) <= 1:
            self.is_reached = False

    def _note(self, place: _Place, address: Address) -> None:
        assert address.lanes is not None
        if place.base in _SHARED:
            ratio = conflicts(address.lanes, place.width)
            if ratio >= _WORST and not _is_far(address.lanes):
                self.conflicts.append((ratio, place.weight))
            return
        key = (_GLOBAL[place.base], address.lanes, address.base)
        group = self.groups[key]
        group.offsets[address.offset] = max(place.width, group.offsets.get(address.offset, 0))
        group.weight = max(group.weight, place.weight)
        group.count += 1

    def findings(self) -> Iterator[CodeFinding]:
        """Yield the findings that the walk has collected, one of each kind."""
        scattered: list[tuple[float, str]] = []
        narrow: list[tuple[float, str]] = []
        for (direction, lanes, _), group in self.groups.items():
            together = group.offsets
            whole = sectors(lanes, together)
            least = max(1.0, LANES * sum(together.values()) / SECTOR_BYTES)
            alone = sum(sectors(lanes, {0: w}) for w in together.values())
            excess = (alone - least) * group.weight / self.total
            widest = max(together.values())
            joint = _joint_width(lanes, together)
            if joint > widest:
                count = len(together)
                bytes_ = sum(together.values())
                narrow.append((
                    excess, f"{count} {direction}s of {widest} B each, side by side: one of "
                    f"{joint} B would do" if bytes_ == joint else
                    f"{count} {direction}s of {widest} B, side by side: {joint} B each would do",
                ))  # fmt: skip
            elif whole >= _WORST * least:
                apart = "as far apart as a parameter says"
                if not _is_far(lanes):
                    apart = f"{abs(lanes[1] - lanes[0])} B apart"
                scattered.append((
                    excess, f"neighbouring threads {direction} {widest} B, {apart}: a warp touches"
                    f" {whole / max(1, len(together)):.3g} sectors where "
                    f"{least / len(together):.3g} would do",
                ))  # fmt: skip
            elif widest < _WORD and _is_dense(lanes, widest):
                cost = group.count * group.weight * (1 - widest / _WORD) / self.total
                narrow.append((
                    cost, f"a thread {direction}s {widest} B at a time, of neighbouring elements"
                ))  # fmt: skip
        yield from _worst_finding(UNCOALESCED, scattered)
        yield from _worst_finding(NARROW, narrow)
        if self.conflicts:
            ratio, _ = max(self.conflicts, key=lambda c: c[0] * c[1])
            cost = sum((r - 1) * w for r, w in self.conflicts) / self.total
            more = _and_more(len(self.conflicts))
            yield CodeFinding(
                CONFLICTS, f"{ratio:.3g} times the wavefronts of shared memory{more}", cost
            )
        if self.divergent:
            count = len(self.divergent)
            loops = "a loop" if count == 1 else f"{count} loops"
            yield CodeFinding(
                DIVERGENCE, f"{loops} whose trips data decides, each thread its own",
                sum(self.divergent),
            )  # fmt: skip


def _worst_finding(kind: str, candidates: Sequence[tuple[float, str]]) -> Iterator[CodeFinding]:
    if candidates:
        _, message = max(candidates)
        cost = sum(c for c, _ in candidates)
        yield CodeFinding(kind, message + _and_more(len(candidates)), cost)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _and_more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""


def sectors(lanes: Lanes, widths: Mapping[int, int]) -> float:
    """Return the sectors that a warp touches, with an item of given width at each offset.

    >>> sectors(tuple(range(0, 128, 4)), {0: 4}), sectors(tuple(range(0, 1024, 32)), {0: 4})
    (4.0, 32.0)
    """
    touched = {
        sector
        for offset, width in widths.items()
        for lane in lanes
        for sector in range(
            (lane + offset) // SECTOR_BYTES, (lane + offset + width - 1) // SECTOR_BYTES + 1
        )
    }
    return float(len(touched))


def conflicts(lanes: Lanes, width: int) -> float:
    """Return the wavefronts of a shared-memory access, divided by the fewest possible.

    >>> conflicts(tuple(range(0, 128, 4)), 4), conflicts(tuple(range(0, 4096, 128)), 4)
    (1.0, 32.0)
    """
    together = max(1, LANES * _WORD // (max(width, _WORD)))  # lanes that are served at a time
    words = max(1, width // _WORD)
    wavefronts = 0
    parts = range(0, LANES, together)
    for start in parts:
        banks: dict[int, set[int]] = defaultdict(set)
        for lane in lanes[start : start + together]:
            for word in range(lane // _WORD, lane // _WORD + words):
                banks[word % _BANKS].add(word)
        wavefronts += max(map(len, banks.values()))
    return wavefronts / len(parts)


def _joint_width(lanes: Lanes, widths: Mapping[int, int]) -> int:
    """Return the bytes of one access that could replace several adjacent ones."""
    # Four words side by side: 16 B with threads 16 B apart, 8 B with threads 24 B apart.
    apart = 0
    for lane in lanes:
        apart = gcd(apart, lane)
    ordered = sorted(widths)
    run = longest = widths[ordered[0]]
    for one, other in pairwise(ordered):
        run = run + widths[other] if other == one + widths[one] else widths[other]
        longest = max(longest, run)
    width = WIDEST_ACCESS_BYTES
    while width > longest or apart % width:
        width //= 2
    return width


def _is_far(lanes: Lanes) -> bool:
    return max(map(abs, lanes)) >= FAR


def _is_dense(lanes: Lanes, width: int) -> bool:
    return lanes == tuple(range(0, LANES * width, width))


def _local_memory(code: Sequence[_Place], spill_bytes: int, total: float) -> Iterator[CodeFinding]:
    """Yield findings about local memory: spills have constant addresses, indexed arrays do not."""
    stack = [p for p in code if p.base in ("LDL", "STL")]
    indexed = [p for p in stack if not any(_STACK_POINTER.search(o) for o in p.operands)]
    fixed = sum(p.weight for p in stack if p not in indexed)
    if spill_bytes and fixed:
        yield CodeFinding(SPILLS, f"{spill_bytes} B of registers in local memory", fixed / total)
    if indexed:
        count = len(indexed)
        yield CodeFinding(
            LOCAL_ARRAY,
            f"an array in local memory, as its index is not constant ({count} accesses)",
            sum(p.weight for p in indexed) / total,
        )


def _doubles(code: Sequence[_Place], total: float) -> Iterator[CodeFinding]:
    """Yield a finding for double arithmetic between conversions from and to float."""
    up = any(p.opcode.startswith("F2F.F64.F32") for p in code)
    down = any(p.opcode.startswith("F2F.F32.F64") for p in code)
    doubles = [p for p in code if p.base in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")]
    if up and down and doubles:
        yield CodeFinding(
            DOUBLES,
            f"{_count(len(doubles), 'instruction')} on doubles between conversions from float and "
            "to it: a literal without f, or a function of doubles",
            sum(p.weight for p in doubles) * _DOUBLE_COST / total,
        )


def _calls(code: Sequence[_Place]) -> Iterator[CodeFinding]:
    """Yield a finding for calls of the author's functions that are not inlined."""
    calls = [p for p in code if p.base in ("CALL", "CAL", "JCAL")]
    called = {n for p in calls for n in _CALLED.findall(",".join(p.operands))}
    own = {n.rpartition("$")[2] for n in called if "__internal_" not in n and n[:2] != ".L"}
    own = {n for n in own if not n.startswith(_COMPILERS)}
    named = sorted(without_parameters(demangle(n)) for n in own)
    if any(not _CALLED.search(",".join(p.operands)) for p in calls):
        named.append("a function by its address")
    if named:
        shown = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        yield CodeFinding(CALLS, f"calls {shown}, which is not inlined", 0.0)
