"""Optimizers that change the launch (GPA Table II, eqs. 6 to 10)."""

from __future__ import annotations

from dataclasses import dataclass

from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.estimators import Parallelism, parallel, stall_elimination
from perfassert.engines.advisor.liveness import max_live_registers
from perfassert.engines.advisor.optimizer import PARALLEL
from perfassert.engines.advisor.rewrites import (
    ResizeBlocks,
    Rewrite,
    SetRegisters,
    SetSharedBytes,
)
from perfassert.hardware.occupancy import occupancy

_LIGHTER = 1.02  # ratio of warps on the busiest SM below which no prediction is made
_NEARLY = 1.1  # ratio to the fewest warps; within it the largest blocks win (launch cost, sharing)


class BlockIncrease:
    """Optimizer for launches whose blocks are too few or too large for the SMs.

    There are fewer blocks than SMs, or the blocks are distributed unevenly, or a loop strides by
    the grid and too few blocks hide latencies, or large blocks leave room on an SM.
    """

    name, category = "Block Increase", PARALLEL

    def match(self, case: Case) -> Match | None:
        units, warps = case.device.compute_units, case.warps_per_block
        if (more := case.grids() or case.sizes(False)) is not None:
            return more.match()
        if warps < 2:
            return None
        # Blocks of w warps, and warps on the busiest SM with them. For example, 10 blocks of 8
        # warps on 8 SMs put 16 warps on the busiest one. 16 blocks of 5 warps put 10 on each SM,
        # the fewest.
        split = {w: -(-case.blocks * warps // w) for w in range(warps, 0, -1)}
        loads = {w: -(-split[w] // units) * w for w in split}
        width = max(w for w in loads if loads[w] <= _NEARLY * min(loads.values()))
        load, before = loads[width], loads[warps]
        if before <= _LIGHTER * load:
            return None
        schedulers = case.device.schedulers_per_unit
        old, new = case.warps_per_scheduler, load / schedulers
        resident = min(old, new)
        factor = without_contention(case, resident / old, resident)
        speedup = parallel(
            case.issue_probability,
            Parallelism(old, before / schedulers),
            Parallelism(resident, new),
            factor,
        )
        return Match(
            f"{self.say(case)}: make {split[width]} blocks of {width * case.device.warp_size} "
            "threads of them",
            speedup=case.limit_speedup(speedup, max(units / case.blocks, before / load)),
            rewrites=(ResizeBlocks(width * case.device.warp_size),),
        )

    def say(self, case: Case) -> str:
        units, blocks = case.device.compute_units, case.blocks
        if blocks < units:
            return f"{blocks} blocks leave {units - blocks} of {units} compute units idle"
        most, mean = -(-blocks // units), blocks / units
        return (
            f"of {blocks} blocks the busiest compute unit has {most}, {most / mean:.3g} times as "
            "many as the mean"
        )


class ThreadIncrease:
    """Optimizer for blocks with too few threads.

    The number of blocks limits the occupancy, or the launch of blocks takes time.
    """

    name, category = "Thread Increase", PARALLEL

    def match(self, case: Case) -> Match | None:
        if (larger := case.sizes(True)) is not None:
            return larger.match()
        most = case.device.max_threads_per_block
        if case.occupancy.limited_by != "blocks" or case.threads >= most:
            return None
        threads, best = case.threads, case.occupancy
        while threads * 2 <= most:
            wider = occupancy(
                case.device, threads * 2, case.registers, _shared_bytes(case, threads * 2)
            )
            if wider.fraction <= best.fraction and threads >= case.device.warp_size:
                break
            threads, best = threads * 2, wider
        lanes = min(1.0, case.threads / case.device.warp_size)  # fraction of a warp in use
        if threads == case.threads:
            return None
        total = case.blocks * case.warps_per_block
        executed = total * lanes  # a full warp does the work of several partly used ones
        # At most the warps of the launch are resident.
        share = executed / (case.device.compute_units * case.device.schedulers_per_unit)
        resident = min(best.warps_per_unit / case.device.schedulers_per_unit, share)
        speedup = parallel(
            case.issue_probability,
            Parallelism(case.warps_per_scheduler, total),
            Parallelism(resident, executed),
            without_contention(case, lanes, resident),
        )
        return Match(
            f"blocks of {case.threads} threads fill {case.occupancy.fraction:.0%} of the warp "
            f"slots: use {threads} threads per block ({best.fraction:.0%})",
            speedup=case.limit_speedup(speedup, 1 / lanes),
            rewrites=(ResizeBlocks(threads),),
        )


def without_contention(case: Case, share: float, warps: float) -> float:
    """Return f, the speedup from fewer stalls of warps that compete.

    They compete for pipes, for the memory queue and for issue slots. A fraction ``share`` of the
    warps is left and keeps that fraction of the stalls. With one warp per scheduler there are no
    such stalls.
    """
    # For example, 40 of 100 samples are such stalls. If half of the warps are left, 20 samples
    # disappear: f = 100 / 80 = 1.25.
    contended = sum(b.count.all for b in case.of("pipe_busy", "memory_throttle", "not_selected"))
    gone = 1.0 if warps <= 1 else max(0.0, 1 - share)
    return stall_elimination(case.total.all, contended * gone)


def _shared_bytes(case: Case, threads: int) -> int:
    return case.shared_bytes * threads // case.threads


class OccupancyIncrease:
    """Optimizer for occupancy limited by registers or shared memory, if it leaves too few warps."""

    name, category = "Occupancy Increase", PARALLEL

    def match(self, case: Case) -> Match | None:
        limit = case.occupancy.limited_by
        if limit not in ("registers", "shared memory", "shared"):
            return None
        resident = case.occupancy.resident_blocks
        if -(-case.blocks // case.device.compute_units) <= resident:
            return None
        cuts = _cuts(case)
        if not cuts:
            return None
        old = case.warps_per_scheduler
        total = case.blocks * case.warps_per_block
        most = max(cut.blocks for cut in cuts)
        speedup = parallel(
            case.issue_probability,
            Parallelism(old, total),
            Parallelism(old * most / resident, total),
        )
        how = ", ".join(f"{cut.text} lets {cut.blocks} reside" for cut in cuts)
        return Match(
            f"{resident} blocks reside on a unit, limited by {limit}: {how}",
            speedup=case.limit_speedup(speedup),
            rewrites=(cuts[0].rewrite,),
            alternatives=[(cut.rewrite,) for cut in cuts[1:]],
        )


@dataclass(frozen=True, slots=True)
class _Cut:
    """A reduction of what limits occupancy, in words, and the blocks that reside with it."""

    text: str
    blocks: int
    rewrite: Rewrite


def _cuts(case: Case) -> list[_Cut]:
    """Return the smallest reductions that let more blocks reside.

    Registers are not reduced below those that are live at a time. For shared memory there is a
    second reduction, after which something else is the limit.
    """
    resident, device = case.occupancy.resident_blocks, case.device
    if case.occupancy.limited_by == "registers":
        for registers in range(case.registers - 1, max(15, max_live_registers(case.code) - 1), -1):
            reached = occupancy(device, case.threads, registers, case.shared_bytes)
            if reached.resident_blocks > resident:
                text = f"{registers} instead of {case.registers} registers per thread"
                return [_Cut(text, reached.resident_blocks, SetRegisters(registers))]
        return []
    # For example, 60 KiB per block let 2 blocks reside, and without shared memory 5 would. The
    # reductions are to the sizes that let 3 and 5 reside.
    without = occupancy(device, case.threads, case.registers, 0).resident_blocks
    cuts: list[_Cut] = []
    for blocks in sorted({resident + 1, without}):
        room = device.shared_bytes_per_unit // blocks - device.shared_reserved_bytes
        room = max(0, room - room % device.shared_allocation_unit)
        reached = occupancy(device, case.threads, case.registers, room)
        if reached.resident_blocks > resident:
            text = f"{room} instead of {case.shared_bytes} B of shared memory per block"
            text = f"{room} B" if cuts else text
            cuts.append(_Cut(text, reached.resident_blocks, SetSharedBytes(room)))
    return cuts


class BlockShape:
    """Optimizer for block shapes: another shape moves less data or fills the SMs better."""

    name, category = "Block Shape", PARALLEL

    def match(self, case: Case) -> Match | None:
        better = case.shapes()
        return None if better is None else better.match()
