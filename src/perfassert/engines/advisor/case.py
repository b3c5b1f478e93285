"""Input of the optimizers: the code, the blames for its stalls, and the launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from perfassert.engines.advisor.blame import Blame
from perfassert.engines.advisor.change import Change
from perfassert.engines.advisor.code import Code, CodeInstruction
from perfassert.engines.advisor.rewrites import Rewrite
from perfassert.errors import DeviceFileError
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.roles import Role
from perfassert.kernel.samples import SELECTED, Count, Samples

WORSE = 1.1  # ratio to the ideal sectors or wavefronts up to which nothing is suggested


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """Sectors and wavefronts of an access per warp instruction, and their smallest possible values.

    ``neighbours`` is the number of adjacent elements that a thread accesses with one instruction
    each, although one instruction could access all. ``same`` is True for a load of one element by
    all threads of the launch. ``assumed`` is True if an address depends on data and was replaced by
    an assumption, so that nothing should be suggested for it.
    """

    sectors: float
    ideal_sectors: float
    wavefronts: float
    ideal_wavefronts: float
    neighbours: int = 1
    same: bool = False
    assumed: bool = False

    @property
    def is_dense(self) -> bool:
        """True if the sectors are as few as the bytes need, or one more for lack of alignment."""
        # For example, 32 lanes read 4 bytes each, ideally 4 sectors: 5 sectors (not aligned) are
        # dense, 6 not.
        needed = self.neighbours * self.ideal_sectors
        return self.sectors <= max(WORSE * needed, needed + 1)

    @property
    def is_conflict_free(self) -> bool:
        """True if wavefronts are as few as the bytes need."""
        return self.wavefronts <= WORSE * self.ideal_wavefronts


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of the launch whose effect was predicted.

    ``text`` describes it, and ``speedup`` is the predicted one. ``proof`` says what was changed,
    with both times.
    """

    text: str
    speedup: float
    changes: Mapping[str, object]
    proof: str

    def match(self) -> Match:
        """Return the proposal as a match of an optimizer, with its speedup as the estimate."""
        return Match(self.text, speedup=self.speedup, changes=self.changes, proof=self.proof)


@dataclass(frozen=True)
class Case:
    """A kernel and a launch, with samples and blames.

    ``blocks`` are those of the launch, ``threads`` those of a block. ``trips`` holds trip counts of
    loops that are known. ``accesses`` holds facts by instruction. ``most_speedup`` is the speedup
    at which the busiest server would never be idle, None if unknown. ``shapes`` proposes another
    block shape, ``sizes`` larger (True) or smaller blocks, and ``grids`` more blocks; each may
    return None. ``layouts`` returns a layout of the tiles that instructions access, in words and
    checked, or None. ``registers`` and ``spill_bytes`` are per thread, ``shared_bytes`` per block.
    ``sketch`` is True for a kernel by address expressions, of which only accesses and launch are
    facts.
    """

    code: Code
    samples: Samples
    blames: Sequence[Blame]
    device: Device
    occupancy: Occupancy
    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    spill_bytes: int | None = None
    trips: Mapping[int, float] = field(default_factory=dict)
    accesses: Mapping[int, AccessFacts] = field(default_factory=dict)
    most_speedup: float | None = None
    shapes: Callable[[], Proposal | None] = lambda: None
    sizes: Callable[[bool], Proposal | None] = lambda _: None
    grids: Callable[[], Proposal | None] = lambda: None
    layouts: Callable[[frozenset[int]], tuple[str, str] | None] = lambda _: None
    sketch: bool = False

    def limit_speedup(self, speedup: float, units: float = 1.0) -> float:
        """Limit a speedup to what the busiest server allows, on ``units`` times as many SMs."""
        if self.most_speedup is None:
            return speedup
        return min(speedup, max(1.0, self.most_speedup * units))

    @cached_property
    def total(self) -> Count:
        """Number of all samples T, and of the latency samples L."""
        return self.samples.total

    @cached_property
    def active(self) -> Mapping[int, float]:
        """Active samples by instruction."""
        result: dict[int, float] = {}
        for (at, _), count in self.samples.counts.items():
            result[at] = result.get(at, 0.0) + count.all - count.latency
        return result

    @cached_property
    def issue_probability(self) -> float:
        """R_I, the probability that a sampled warp is the one that issues."""
        selected = sum(c.all for (_, why), c in self.samples.counts.items() if why == SELECTED)
        return selected / self.total.all if self.total.all else 0.0

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return -(-self.threads // self.device.warp_size)

    @property
    def warps_per_scheduler(self) -> float:
        """Resident warps per scheduler of a busy SM."""
        resident = min(self.occupancy.resident_blocks, -(-self.blocks // self.device.compute_units))
        return resident * self.warps_per_block / self.device.schedulers_per_unit

    def where(self, *spaces: str) -> frozenset[int]:
        """Return the numbers of the instructions that access one of these memory spaces."""
        return frozenset(i.index for i in self.code.instructions if i.space in spaces)

    def instruction(self, number: int) -> CodeInstruction:
        """Return the instruction with this number."""
        return self.code.instructions[number]

    def of(self, *classes: str) -> Iterator[Blame]:
        """Yield the blames of these classes."""
        return (b for b in self.blames if b.cls in classes)

    def latency(self, number: int) -> float:
        """Return Λ of an instruction's class in cycles, 0 if the device has no such class."""
        try:
            return self.device.operation(self.instruction(number).operation).completion
        except DeviceFileError:
            return 0.0

    def active_in(self, numbers: Iterable[int]) -> float:
        """Sum the active samples of several instructions."""
        return sum(self.active.get(n, 0.0) for n in numbers)

    def loop_body(self, loop: int) -> frozenset[int]:
        """Return the numbers of the instructions in a loop, including nested loops."""
        return self.bodies[loop]

    @cached_property
    def bodies(self) -> Sequence[frozenset[int]]:
        """The result of :meth:`loop_body` for every loop."""
        result: list[set[int]] = [set() for _ in self.code.loops]
        for i in self.code.instructions:
            for loop in self.code.chain(i.loop):
                result[loop].add(i.index)
        return [frozenset(body) for body in result]

    @cached_property
    def mixes_precisions(self) -> bool:
        """True if the code widens floats to doubles."""
        return any(Role.WIDENS in i.roles for i in self.code.instructions)

    @cached_property
    def function_bodies(self) -> Mapping[str, frozenset[int]]:
        """Numbers of the instructions of the kernel ("") and of the functions that it calls."""
        result: dict[str, set[int]] = {}
        for i in self.code.instructions:
            result.setdefault(i.function, set()).add(i.index)
        return {name: frozenset(body) for name, body in result.items()}

    def scope(self, number: int) -> frozenset[int]:
        """Return the instructions of the innermost loop around one, or of its function."""
        instruction = self.instruction(number)
        if instruction.loop >= 0:
            return self.loop_body(instruction.loop)
        return self.function_bodies[instruction.function]

    def place(self, number: int) -> str:
        """Return the line of an instruction, or its number and label; for a sketch its access."""
        i = self.instruction(number)
        if self.sketch:
            return i.label
        return i.span.short if i.span is not None else f"#{number} {i.label}"

    def common_loop(self, a: int, b: int) -> int:
        """Return the innermost loop around both instructions, or -1."""
        # For example, a lies in loops 0 > 1 and b in loops 0 > 2: the result is 0.
        first = self.code.chain(self.instruction(a).loop)
        second = set(self.code.chain(self.instruction(b).loop))
        return next((loop for loop in reversed(first) if loop in second), -1)


@dataclass(frozen=True, slots=True)
class Match:
    """Result of an optimizer: a suggestion, and what it would change.

    ``blames`` hold the samples that the change would remove or hide. ``hidden``, for latency
    hiding, is the number of latency samples that active samples of the scopes can hide. ``speedup``
    is the optimizer's estimate, if it does not follow from the blames. ``rewrites`` change the
    model, and ``changes`` the launch as :func:`perfassert.whatif` takes them; either is simulated
    again. The fastest of the rewrites and their ``alternatives`` counts. ``same_work`` is True if
    no server gets less work, so that the busiest one limits the speedup. ``change`` states rewrites
    of plug-ins in the form of version 0.3. ``proof`` is that of :class:`Proposal`.
    """

    suggestion: str
    blames: Sequence[Blame] = ()
    hidden: float | None = None
    speedup: float | None = None
    changes: Mapping[str, object] | None = None
    same_work: bool = False
    change: Change | None = None
    rewrites: Sequence[Rewrite] = ()
    alternatives: Sequence[Sequence[Rewrite]] = ()
    proof: str | None = None

    @property
    def count(self) -> Count:
        """Matched samples M, and matched latency samples Mᴸ."""
        result = Count()
        for blame in self.blames:
            result = result.plus(blame.count)
        return result


def lines(case: Case, blames: Iterable[Blame], most: int = 3) -> str:
    """Return ``"a.cu:12, a.cu:14"`` of the sources, hottest first; ``""`` if no line is known."""
    heat: dict[str, float] = {}
    for blame in blames:
        if case.instruction(blame.source).span is not None:
            place = case.place(blame.source)
            heat[place] = heat.get(place, 0.0) + blame.count.all
    shown = sorted(heat, key=lambda text: (-heat[text], text))
    return ", ".join(shown[:most]) + (" …" if len(shown) > most else "")
