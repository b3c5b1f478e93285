"""What an instruction does for others to know, beyond its operation class.

Front ends decide it from opcodes; engines and the predictor see roles, classes and spaces only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from perfassert.kernel.graph import Node

_SPACES = {
    "global_load": "global", "global_store": "global", "atomic_global": "global",
    "async_copy": "global", "texture_load": "global", "local_load": "local",
    "local_store": "local", "constant_load": "constant", "shared_load": "shared",
    "shared_store": "shared", "atomic_shared": "shared",
}  # fmt: skip
_OWN = {"global": "global", "texture": "global", "local": "local", "shared": "shared",
        "constant": "constant"}  # fmt: skip
_OFF_CHIP = ("global", "local")


class Role(Enum):
    """One thing that an instruction does; it may do several."""

    __hash__ = object.__hash__  # that of Enum is a function in Python

    SYNCHRONIZES = "synchronizes"
    """Waits for other warps, or tells them that it has come."""
    ORDERS_MEMORY = "orders_memory"
    """A memory fence, which waits for no other warp."""
    CALLS = "calls"
    COPIES_ASYNCHRONOUSLY = "copies_asynchronously"
    """From global to shared memory, complete when a later instruction has counted it."""
    BYPASSES_L1 = "bypasses_l1"
    """Moves data between the L2 and shared memory, and leaves none in the L1."""
    READS_L2 = "reads_l2"
    """Asks the L2, whatever the L1 holds, and leaves nothing in the L1."""
    HOLDS_WARP = "holds_warp"
    """Its warp issues nothing before it is complete."""
    SLEEPS = "sleeps"
    """Complete after as many nanoseconds as its operand says."""
    COMMITS_COPIES = "commits_copies"
    """Closes the group of the asynchronous copies before it, and stands for them."""
    WAITS_FOR_COUNTS = "waits_for_counts"
    """Waits until no more than so many groups of a barrier are pending."""
    INTERLOCKS = "interlocks"
    """Whoever reads its result waits for it, without a barrier or a stall count that says so."""
    APPROXIMATES = "approximates"
    """A function of one float, to the accuracy of the special function unit."""
    BEGINS_DIVISION = "begins_division"
    """Of integers: makes the divisor a float, rounded up."""
    CORRECTS_QUOTIENT = "corrects_quotient"
    """Compares the remainder of integers with the divisor; twice for a quotient."""
    TAKES_UPPER_HALF = "takes_upper_half"
    """Multiplies two whole words, and keeps the upper one of the product."""
    BEGINS_DOUBLE_DIVISION = "begins_double_division"
    """A first approximation of a double's reciprocal."""
    CORRECTS = "corrects"
    """Checks, rounds or saturates, as precise functions do around an approximation."""
    WIDENS = "widens"
    """Between float and double."""
    BUILDS_CONSTANT = "builds_constant"
    """Makes a word out of literals by arithmetic on zeros, which is no work of the kernel."""
    JUMPS = "jumps"
    """Decides where its warp goes on, or which of its threads."""
    IS_GRANTED = "is_granted"
    """Asks or waits for something; its predicate says that it was granted. Who asks in a loop asks
    once."""
    WRITES_GLOBAL = "writes_global"
    WRITES_SHARED = "writes_shared"
    IN_LIBRARY = "in_library"
    """Lies in a routine that the compiler brought along."""


@dataclass(frozen=True, slots=True)
class CountedWait:
    """A wait until at most ``pending`` groups of ``barrier`` are not complete."""

    barrier: int
    pending: int


def space_of(operation: str) -> str | None:
    """The memory that a class of operations touches: textures and atomics lie in ``"global"``.

    Classes that a user made up go by the first word of their name.
    """
    return _SPACES.get(operation) or _OWN.get(operation.partition("_")[0])


def node_space(node: Node) -> str | None:
    """What a node of a graph touches, by its class where it does not say."""
    if node.space is not None:
        return node.space
    return "global" if node.touches_global else space_of(node.operation)


def off_chip(space: str | None) -> bool:
    """Whether it lies behind the L1, so that a result takes as long as memory does: atomics on
    global memory are carried out in the L2, textures and spilled registers come from there."""
    return space in _OFF_CHIP
