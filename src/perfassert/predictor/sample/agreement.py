"""Closed forms against executed blocks: the same lanes at the same addresses, as often.

Both say the same of every thread or the closed form is wrong: where each memory instruction goes,
in order, and how often each warp of the block that stands for all issues each instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from perfassert.engines.execution.memory import SPAN_BITS, pointer
from perfassert.engines.execution.result import Execution, Touch
from perfassert.engines.volume.binding import bind_groups, space_groups
from perfassert.engines.volume.groups import AccessGroup, IntArray
from perfassert.engines.volume.warps import BoolArray, lane_addresses
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import InstructionGraph
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WARP_LANES, Kind, Space
from perfassert.source import SourceSpan

_ARRIVALS = (Kind.SYNC_WAIT, Kind.WARP_WAIT, Kind.EXIT)
"""Kinds that each side of a divergent branch executes by itself; graphs count them once."""
_SPACES = {
    "global": (Space.GLOBAL, Space.GENERIC),
    "shared": (Space.SHARED,),
    "local": (Space.LOCAL,),
    "constant": (Space.CONSTANT,),
}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An instruction whose closed form contradicts the executed blocks; ``text``: the message."""

    text: str
    span: SourceSpan | None


class _Places:
    """Places that the warps of executed blocks access, in the order of time.

    Attributes:
        warps: warp of each request, [requests], ascending.
        at: offsets in bytes from the start of the field, [requests, lanes].
        active: lanes that access, at least one of each request.
        whole: True if no access is left out.
    """

    def __init__(self, warps: IntArray, at: IntArray, active: BoolArray, whole: bool) -> None:
        some = active.any(axis=-1)
        order = np.flatnonzero(some)[np.argsort(warps[some], kind="stable")]
        self.warps, self.at, self.active = warps[order], at[order], active[order]
        self.whole = whole

    @property
    def requests(self) -> int:
        """Warp instructions with an active lane."""
        return len(self.warps)

    @cached_property
    def by_thread(self) -> tuple[IntArray, IntArray]:
        """Threads and offsets of all accesses, by thread and then in the order of time."""
        threads = (self.warps[:, None] * WARP_LANES + np.arange(WARP_LANES))[self.active]
        order = np.argsort(threads, kind="stable")
        return threads[order], self.at[self.active][order]

    def distances(self, other: _Places) -> IntArray | None:
        """Return the distances from another's places if both make the same requests, else None."""
        if not np.array_equal(self.warps, other.warps):
            return None
        if not np.array_equal(self.active, other.active):
            return None
        return (self.at - other.at)[self.active]


class Agreement:
    """A kernel bound to a launch, beside an execution of some of its blocks.

    ``effective_launch``: the launch that its volumes are of; ``iterations``: of the loops around an
    access at most so many are looked at, the first ones. ``compared``, ``counted``: accesses and
    instructions so far.
    """

    def __init__(
        self,
        kernel: BoundKernel,
        launch: Launch,
        effective_launch: Launch,
        run: Execution,
        iterations: int = 1 << 20,
    ) -> None:
        self.kernel, self.launch, self.effective_launch, self.run = (
            kernel,
            launch,
            effective_launch,
            run,
        )
        self.iterations = iterations
        self.blocks = tuple(_position(b, launch) for b in run.blocks)
        self.pointers = {r.name: pointer(i) for i, r in enumerate(run.regions)}
        self.touches: dict[int, list[Touch]] = {}
        for touch in run.touches:
            address = run.code.instructions[touch.instruction].address
            self.touches.setdefault(address, []).append(touch)
        self.unknown = {run.code.instructions[place].address for place in run.guesses}
        self.compared = self.counted = 0

    def differences(self) -> Iterator[Disagreement]:
        """Yield every instruction on which execution and closed form differ."""
        for group in bind_groups(self.kernel, self.effective_launch):
            yield from self._group(group, "global", self.effective_launch)
        for space in ("shared", "local", "constant"):
            for group in space_groups(self.kernel, self.launch, space):
                yield from self._group(group, space, self.launch)
        if not len(self.run.cut):
            yield from self._counts()

    # Addresses

    def _group(
        self, group: AccessGroup, space: str, effective_launch: Launch
    ) -> Iterator[Disagreement]:
        closed: _Places | None = None
        for member, offset in zip(group.members, group.offsets, strict=True):
            access = self.kernel.bound[member]
            start = self.pointers.get(access.field) if space == "global" else 0
            address = self.kernel.program.instructions[access.instruction].address
            if start is None or access.rests_on or address in self.unknown:
                continue
            executed = self._executed_places(access, address, start)
            self.compared += 1
            if not executed.requests and not executed.whole:
                continue  # warps were cut before
            closed = closed or self._closed_form_places(group, effective_launch)
            difference = self._compare_places(access, closed, int(offset), executed)
            if difference is not None:
                yield difference

    def _closed_form_places(self, group: AccessGroup, effective_launch: Launch) -> _Places:
        """Return the closed form's places of the blocks that each executed block is run for."""
        most = self.iterations // _iterations(group) or 1  # else what is seen first is not first
        all_standing = [
            _represented_blocks(block, self.launch, effective_launch) for block in self.blocks
        ]
        standing = [blocks[:most] for blocks in all_standing]
        lanes = lane_addresses(
            group, [b for s in standing for b in s], effective_launch, WARP_LANES, self.iterations
        )
        rows = lanes.addresses.shape[1]
        warps = -(-self.launch.threads_per_block // WARP_LANES)
        block = np.repeat(np.arange(len(standing)), [len(s) for s in standing])
        warp = block[:, None] * warps + np.arange(rows) % warps
        whole = bool((lanes.weight == 1.0).all()) and standing == all_standing
        shape = -1, WARP_LANES
        at, active = lanes.addresses.reshape(shape), lanes.active.reshape(shape)
        return _Places(warp.reshape(-1), at, active, whole)

    def _executed_places(self, access: BoundAccess, address: int, start: int) -> _Places:
        touches = [
            t for t in self.touches.get(address, ()) if t.memory.space in _SPACES[access.space]
        ]
        if not touches:
            none = np.empty((0, WARP_LANES), np.int64)
            return _Places(none[:, 0], none, none != 0, not len(self.run.cut))
        at = np.concatenate([t.addresses.astype(np.int64) for t in touches])
        active = np.concatenate([t.lanes for t in touches])
        if access.space == "global":
            active &= at >> SPAN_BITS > 0
        warps = np.concatenate([t.warps for t in touches])
        return _Places(warps, at - start, active, not len(self.run.cut))

    def _compare_places(
        self, access: BoundAccess, closed: _Places, offset: int, executed: _Places
    ) -> Disagreement | None:
        """Compare places and return their disagreement, or None.

        Where either is not whole, the first places of each thread are compared.
        """
        far = executed.distances(closed)
        if far is not None and not _from_one_start(access, far - offset).any():
            return None
        count = self.run.warps_per_block * len(self.blocks) * WARP_LANES
        threads_of, places = executed.by_thread
        threads_by, forms = closed.by_thread
        expected, observed = (np.bincount(t, minlength=count) for t in (threads_by, threads_of))
        missing = observed < expected if executed.whole else np.zeros(count, np.bool_)
        missing = missing | (observed > expected if closed.whole else np.zeros(count, np.bool_))
        common = np.minimum(expected, observed)
        far = places[_first(threads_of, common)] - forms[_first(threads_by, common)] - offset
        far = _from_one_start(access, far)
        if missing.any():
            observation = f"touch memory {int(observed.sum())} times, and {int(expected.sum())} by"
        elif far.any():
            observation = f"go elsewhere {np.count_nonzero(far)} times of {len(far)} than by"
        elif closed.whole and executed.whole and closed.requests != executed.requests:
            observation = f"make {executed.requests} requests, and {closed.requests} by"
        else:
            return None
        return Disagreement(
            f"{self._executed_threads()} {observation} the closed form of {access.text!r}",
            access.span,
        )

    def _executed_threads(self) -> str:
        return f"threads of {len(self.blocks)} executed block{'s' * (len(self.blocks) != 1)}"

    # How often

    def _counts(self) -> Iterator[Disagreement]:
        """Instructions that a warp of the standing block issues more or less often."""
        if self.kernel.standing not in self.blocks:
            return
        first = self.blocks.index(self.kernel.standing) * self.run.warps_per_block
        executed = self.run.executed[first : first + self.run.warps_per_block]
        done: dict[int, IntArray] = {}
        for number, instruction in enumerate(self.run.code.instructions):
            if any(o.kind in _ARRIVALS for o in instruction.operations):
                continue
            done[instruction.address] = done.get(instruction.address, 0) + executed[:, number]
        expected = _issue_counts(self.kernel, self.run.warps_per_block)
        for address, (counts, span) in expected.items():
            own = done.get(address)
            self.counted += own is not None
            if own is not None and not np.array_equal(own, counts):
                yield Disagreement(
                    f"the warps of block {self.kernel.standing} issue an instruction "
                    f"{int(own.sum())} times, and {int(counts.sum())} by the graph",
                    span,
                )


def _from_one_start(access: BoundAccess, far: IntArray) -> IntArray:
    """Return distances less the first one, unless in global memory.

    Where an array starts in another memory is the compiler's choice.
    """
    return far - far[0] if access.space != "global" and len(far) else far


def _issue_counts(kernel: BoundKernel, warps: int) -> dict[int, tuple[IntArray, SourceSpan | None]]:
    """Return by address how often each warp issues an instruction, where no guess decides that."""
    counted: dict[int, tuple[IntArray, SourceSpan | None]] = {}
    trips = {-1: np.ones(warps, np.int64)}
    guessed = set()
    for node in kernel.graph.nodes:
        around = (kernel.graph.loops[x] for x in kernel.graph.chain(node.loop))
        if node.rests_on or any(loop.rests_on for loop in around):
            guessed.add(kernel.program.instructions[node.program].address)
        counts = _times(kernel.graph, node.loop, trips).copy()
        if node.warps is not None:
            counts[[w for w in range(warps) if w not in node.warps]] = 0
        address = kernel.program.instructions[node.program].address
        before = counted.get(address)
        counted[address] = (counts if before is None else before[0] + counts, node.span)
    return {address: counts for address, counts in counted.items() if address not in guessed}


def _times(graph: InstructionGraph, loop: int, known: dict[int, IntArray]) -> IntArray:
    if loop not in known:
        own = graph.loops[loop]
        each = np.array(own.each or graph.trips(loop), np.int64)
        known[loop] = _times(graph, own.parent, known) * each
    return known[loop]


def _position(block: int, launch: Launch) -> tuple[int, int, int]:
    nx, ny, _ = launch.grid
    return block % nx, block // nx % ny, block // (nx * ny)


def _represented_blocks(
    block: tuple[int, int, int], launch: Launch, effective_launch: Launch
) -> Sequence[tuple[int, ...]]:
    """Return the blocks of a wider grid whose work a loop over the grid does in this one."""
    axes = (
        range(b, w, n) for b, n, w in zip(block, launch.grid, effective_launch.grid, strict=True)
    )
    return [place[::-1] for place in product(*reversed(tuple(axes)))]


def _iterations(group: AccessGroup) -> int:
    """Return the number of iterations of the loops around an access, per thread."""
    ranges = dict(group.ranges)
    return prod(ranges[s][1] - ranges[s][0] + 1 for s in group.loops)


def _first(threads: IntArray, counts: IntArray) -> BoolArray:
    """Return a mask of the first ``counts`` places of each thread."""
    if len(threads) == counts.sum():
        return np.ones(len(threads), np.bool_)
    start = np.searchsorted(threads, np.arange(len(counts)))
    rank = np.arange(len(threads)) - start[threads]
    mask: BoolArray = rank < counts[threads]
    return mask
