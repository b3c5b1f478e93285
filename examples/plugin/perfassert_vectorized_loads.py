"""Loads of 4 bytes per thread that could be wider: what to do, and a metric to hold on to it."""

from dataclasses import replace

from perfassert.engines.advisor.case import Match, lines
from perfassert.engines.advisor.optimizer import STALL_ELIMINATION
from perfassert.expect.metrics import Metric
from perfassert.plugins import hookimpl
from perfassert.quantity import round_significant

SECTOR_BYTES = 32  # CUDA C++ Programming Guide, "Device Memory Accesses"
NARROW, WIDE = 4, 16  # bytes per thread: float, float4


class VectorizedLoads:
    """Waits for 4-byte loads whose neighbours in the warp load the elements beside them.

    A thread that takes four neighbouring elements at once waits once instead of four times: three
    of four waits go, unless the memory is busy all the time before that.
    """

    name, category = "Vectorized Loads", STALL_ELIMINATION

    def match(self, case):
        found = [
            replace(blame, count=blame.count.times(1 - NARROW / WIDE))
            for blame in case.of("memory_dependency")
            if self.narrow(case, blame.source)
        ]
        if not found:
            return None
        where = lines(case, found)
        match = Match(
            "a thread loads 4 bytes, its neighbours the 4 beside them: let each thread take four "
            f"neighbouring elements and load them as one float4{f' ({where})' if where else ''}",
            found,
        )
        rest = case.total.all - match.count.all
        return replace(match, speedup=case.limit_speedup(case.total.all / rest))

    def narrow(self, case, number):
        """Whether an instruction loads 4 bytes per thread, and no sector in vain."""
        facts = case.accesses.get(number)
        if facts is None or case.instruction(number).operation != "global_load":
            return False
        device = case.device
        per_thread = facts.ideal_sectors * device.sector_bytes / device.warp_size
        return per_thread == NARROW and facts.sectors <= facts.ideal_sectors


def sectors_per_request(prediction):
    """Sectors that a warp's load or store asks for on average: 4 for float, 16 for float4."""
    requests = prediction.diagnostics.get("warp_memory_instructions", 0)
    if not requests:
        return None
    moved = prediction.diagnostics["requested_bytes"] + float(prediction.volumes.l2_store.total)
    return round_significant(moved / SECTOR_BYTES / requests)


@hookimpl
def perfassert_optimizers():
    return [VectorizedLoads()]


@hookimpl
def perfassert_metrics():
    needs = "it needs accesses to global memory"
    return [Metric("sectors_per_request", sectors_per_request, needs=needs)]
