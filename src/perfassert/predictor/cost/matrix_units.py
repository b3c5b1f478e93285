"""Costs of matrix instructions beside their pipeline: shared operands, and a queue of products.

A started product (``tcgen05.mma``) is handed over: its thread goes on at once. Shared memory is
read, then the unit multiplies; a commit is complete so long after all that was started before it.
How many may be started and not done is not known; the queue is taken to be deep enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from perfassert.hardware.matrix import STARTED, WARPS_OF_A_GROUP, MatrixVariant
from perfassert.hardware.model import Device
from perfassert.kernel.graph import Latency, Node

MATRIX_QUEUE = "matrix queue"
"""The pipeline that started products are issued to."""
HANDED_OVER = "matrix hand-over"
"""The server after which a started product's thread may use its registers again."""
_SLOT = 1  # cycle, in which a thread issues
_GRAIN = 16  # derived costs are multiples of 1/16 cycle, so that periods exist


def operand_bytes(operation: str) -> float:
    """Return the bytes that one warp's part of a matrix instruction reads from shared memory."""
    variant = MatrixVariant.from_name(operation)
    if variant is None:
        return 0.0
    return variant.shared_bytes / (WARPS_OF_A_GROUP if variant.unit == "wgmma" else 1)


class MatrixUnits:
    """Demands of the matrix instructions among ``operations``; ``read``: the server for operands.

    ``variants`` are those instructions.
    """

    def __init__(self, operations: Iterable[str], device: Device, read: str) -> None:
        self.device = device
        self.read = read
        self.variants = [v for name in operations if (v := MatrixVariant.from_name(name))]
        started = [v for v in self.variants if v.unit == STARTED]
        self.started = {self.device.operation(v.name).pipeline for v in started}
        self.overlapped = max((self._cycles(v.second_bytes) for v in started), default=0.0)

    def add_product(self, node: Node) -> Node | None:
        """Add the demands of a matrix product; return None for a node of another kind."""
        variant = MatrixVariant.from_name(node.operation)
        if variant is None or variant.unit != STARTED:
            read = self._cycles(operand_bytes(node.operation))
            if read:
                return node._replace(demands=((self.read, read),))
            return self._commit(node) if self.started else None
        own = self.device.operation(node.operation)
        read = self._cycles(variant.shared_bytes)
        latency = Latency(_SLOT, own.completion, MATRIX_QUEUE)
        demands = (
            (HANDED_OVER, 1 / _GRAIN),
            (self.read, read),
            (own.pipeline, _round_to_grain(own.issue)),
        )
        return node._replace(latency=latency, demands=tuple(d for d in demands if d[1]))

    def _commit(self, node: Node) -> Node | None:
        """Return the commit, which completes a fixed time after the products started before it.

        That time is the latency of one product, less the part already counted for reading the
        operand while the unit multiplies.
        """
        own = self.device.operations.get(node.operation)
        if own is None or own.pipeline not in self.started:
            return None
        after = max(1.0, own.completion - self.overlapped)
        latency = Latency(own.issue, after, MATRIX_QUEUE)
        demands = ((own.pipeline, 1 / _GRAIN),)
        return node._replace(latency=latency, demands=demands, produces=True)

    def _cycles(self, bytes_: float) -> float:
        return _round_to_grain(bytes_ / self.device.l1_bytes_per_cycle)


def _round_to_grain(cycles: float) -> float:
    return round(cycles * _GRAIN) / _GRAIN
