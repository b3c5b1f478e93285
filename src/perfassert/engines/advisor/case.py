"""What optimizers look at: the code, who is to blame for its stalls, and the launch."""

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

WORSE = 1.1  # times the ideal: fewer sectors or wavefronts too many are left alone


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """Per warp instruction: sectors and wavefronts, and what they would be at best.

    ``neighbours``: elements side by side that a thread accesses one by one, in as many
    instructions, where one could; ``same``: whether it is a load of one element by all threads of
    the launch; ``assumed``: something stands for an address that data decides on, so that none of
    this is to be advised on.
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
        """Ask if sectors are as few as the bytes of neighbours need; one more where they are not
        aligned."""
        needed = self.neighbours * self.ideal_sectors
        return self.sectors <= max(WORSE * needed, needed + 1)

    @property
    def is_conflict_free(self) -> bool:
        """Whether wavefronts are as few as the bytes need."""
        return self.wavefronts <= WORSE * self.ideal_wavefronts


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that was predicted: what to say of it, how many times as fast it is, and the proof:
    what was changed, with both times."""

    text: str
    speedup: float
    changes: Mapping[str, object]
    proof: str

    def match(self) -> Match:
        """Return it as what an optimizer found; its speedup is the estimate."""
        return Match(self.text, speedup=self.speedup, changes=self.changes, proof=self.proof)


@dataclass(frozen=True)
class Case:
    """One kernel, launched.

    ``blocks``, ``threads``: of the launch, of a block; ``trips`` of loops where they are known;
    ``accesses`` by instruction; ``most_speedup``: how many times as fast the launch could be before
    its busiest server is never idle, None where that is unknown; ``shapes`` proposes another block
    shape, ``sizes`` larger blocks or smaller ones, ``grids`` more of them, or None; ``layouts``: of
    tiles that instructions access, in words and checked, or None. ``registers``, ``spill_bytes``
    per thread, ``shared_bytes`` per block. ``sketch``: the code is that of a kernel by address
    expressions, of which only accesses and launch are facts.
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
        """No faster than the busiest server allows, on ``units`` times as many units."""
        if self.most_speedup is None:
            return speedup
        return min(speedup, max(1.0, self.most_speedup * units))

    @cached_property
    def total(self) -> Count:
        """All samples T, and the latency samples L."""
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
        """R_I: how often a sampled warp is the one that issues."""
        selected = sum(c.all for (_, why), c in self.samples.counts.items() if why == SELECTED)
        return selected / self.total.all if self.total.all else 0.0

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return -(-self.threads // self.device.warp_size)

    @property
    def warps_per_scheduler(self) -> float:
        """Warps that a scheduler of a busy unit has to choose from."""
        resident = min(self.occupancy.resident_blocks, -(-self.blocks // self.device.compute_units))
        return resident * self.warps_per_block / self.device.schedulers_per_unit

    def where(self, *spaces: str) -> frozenset[int]:
        """Numbers of the instructions that touch one of these memories."""
        return frozenset(i.index for i in self.code.instructions if i.space in spaces)

    def instruction(self, number: int) -> CodeInstruction:
        """By number."""
        return self.code.instructions[number]

    def of(self, *classes: str) -> Iterator[Blame]:
        """Blames of these classes."""
        return (b for b in self.blames if b.cls in classes)

    def latency(self, number: int) -> float:
        """Λ of an instruction's class in cycles."""
        try:
            return self.device.operation(self.instruction(number).operation).completion
        except DeviceFileError:
            return 0.0

    def active_in(self, numbers: Iterable[int]) -> float:
        """Active samples of several instructions."""
        return sum(self.active.get(n, 0.0) for n in numbers)

    def loop_body(self, loop: int) -> frozenset[int]:
        """Numbers of the instructions in a loop, nested ones included."""
        return self.bodies[loop]

    @cached_property
    def bodies(self) -> Sequence[frozenset[int]]:
        """:meth:`loop_body` of every loop."""
        result: list[set[int]] = [set() for _ in self.code.loops]
        for i in self.code.instructions:
            for loop in self.code.chain(i.loop):
                result[loop].add(i.index)
        return [frozenset(body) for body in result]

    @cached_property
    def mixes_precisions(self) -> bool:
        """Ask if float is widened to double on the way."""
        return any(Role.WIDENS in i.roles for i in self.code.instructions)

    @cached_property
    def function_bodies(self) -> Mapping[str, frozenset[int]]:
        """Numbers of the instructions of the kernel ("") and of the functions it calls."""
        result: dict[str, set[int]] = {}
        for i in self.code.instructions:
            result.setdefault(i.function, set()).add(i.index)
        return {name: frozenset(body) for name, body in result.items()}

    def scope(self, number: int) -> frozenset[int]:
        """Instructions of the innermost loop around one, else of its function."""
        instruction = self.instruction(number)
        if instruction.loop >= 0:
            return self.loop_body(instruction.loop)
        return self.function_bodies[instruction.function]

    def place(self, number: int) -> str:
        """The line of an instruction, else its number and label; of a sketch its access."""
        i = self.instruction(number)
        if self.sketch:
            return i.label
        return i.span.short if i.span is not None else f"#{number} {i.label}"

    def common_loop(self, a: int, b: int) -> int:
        """The innermost loop around both, or -1."""
        first = self.code.chain(self.instruction(a).loop)
        second = set(self.code.chain(self.instruction(b).loop))
        return next((loop for loop in reversed(first) if loop in second), -1)


@dataclass(frozen=True, slots=True)
class Match:
    """What an optimizer found.

    ``blames`` with the samples that it would remove or hide; ``hidden`` of latency hiding: how many
    latency samples the active ones of the scopes can hide (else None); ``speedup`` where the
    optimizer has its own estimate; ``rewrites`` of the model, or ``changes`` of the launch as
    :func:`perfassert.whatif` takes them, to be simulated again; ``alternatives`` to the rewrites,
    of which the fastest counts; ``same_work``: no server gets less to do, so that none of them can
    be beaten; ``change``: rewrites as 0.3 stated them, of plug-ins; ``proof``: see
    :class:`Proposal`.
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
        """M, and M^L."""
        result = Count()
        for blame in self.blames:
            result = result.plus(blame.count)
        return result


def lines(case: Case, blames: Iterable[Blame], most: int = 3) -> str:
    """``"a.cu:12, a.cu:14"`` of the sources, the hottest first; ``""`` where no line is known."""
    heat: dict[str, float] = {}
    for blame in blames:
        if case.instruction(blame.source).span is not None:
            place = case.place(blame.source)
            heat[place] = heat.get(place, 0.0) + blame.count.all
    shown = sorted(heat, key=lambda text: (-heat[text], text))
    return ", ".join(shown[:most]) + (" …" if len(shown) > most else "")
