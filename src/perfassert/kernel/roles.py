"""Roles and memory spaces of instructions, which engines use in addition to operation classes.

Front ends derive roles from opcodes. Engines and the predictor see only roles, classes and spaces,
never an opcode.
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
_OUTSIDE_SM = ("global", "local")


class Role(Enum):
    """Role of an instruction; an instruction may have several."""

    __hash__ = object.__hash__  # faster than Enum.__hash__, which is written in Python

    SYNCHRONIZES = "synchronizes"
    """Waits for other warps, or signals its arrival to them."""
    ORDERS_MEMORY = "orders_memory"
    """A memory fence, which waits for no other warp."""
    CALLS = "calls"
    COPIES_ASYNCHRONOUSLY = "copies_asynchronously"
    """Copies from global to shared memory; a later instruction waits for its completion."""
    BYPASSES_L1 = "bypasses_l1"
    """Moves data between the L2 and shared memory without caching it in the L1."""
    READS_L2 = "reads_l2"
    """Loads from the L2 even if the L1 has the data, and caches nothing in the L1."""
    HOLDS_WARP = "holds_warp"
    """Blocks its warp: the warp issues no other instruction before this one is complete."""
    SLEEPS = "sleeps"
    """Completes after the number of nanoseconds in its operand."""
    COMMITS_COPIES = "commits_copies"
    """Closes the group of the preceding asynchronous copies, and completes when they do."""
    WAITS_FOR_COUNTS = "waits_for_counts"
    """Waits until at most a given number of groups of a barrier are incomplete."""
    INTERLOCKS = "interlocks"
    """Makes readers of its result wait in hardware, without a scoreboard or a stall count."""
    APPROXIMATES = "approximates"
    """Computes a function of one float with the accuracy of the special function unit."""
    BEGINS_DIVISION = "begins_division"
    """Begins a division of integers: converts the divisor to a float, rounded up."""
    CORRECTS_QUOTIENT = "corrects_quotient"
    """Compares the remainder of an integer division with the divisor; a division does so twice."""
    TAKES_UPPER_HALF = "takes_upper_half"
    """Multiplies two words and keeps the upper word of the product."""
    BEGINS_DOUBLE_DIVISION = "begins_double_division"
    """Begins a division of doubles: computes a first approximation of the reciprocal."""
    CORRECTS = "corrects"
    """Checks, rounds or saturates: precise functions do so before or after an approximation."""
    WIDENS = "widens"
    """Converts between float and double."""
    BUILDS_CONSTANT = "builds_constant"
    """Makes a constant from literals by arithmetic on zeros, which does not count as a flop."""
    JUMPS = "jumps"
    """Decides where its warp, or some of its threads, continue."""
    IS_GRANTED = "is_granted"
    """Requests or waits for something; its predicate is true if the request was granted.

    A loop that repeats the request until it is granted is assumed to request once.
    """
    WRITES_GLOBAL = "writes_global"
    WRITES_SHARED = "writes_shared"
    IN_LIBRARY = "in_library"
    """Lies in a library routine of the compiler."""


@dataclass(frozen=True, slots=True)
class CountedWait:
    """A wait until at most ``pending`` groups of ``barrier`` are incomplete."""

    barrier: int
    pending: int


def space_of(operation: str) -> str | None:
    """Return the memory space that a class of operations touches, or None.

    Textures and atomics on global memory touch ``"global"``. For a class that a user defines, the
    first word of the name decides, such as ``shared`` in ``shared_gather``.
    """
    return _SPACES.get(operation) or _OWN.get(operation.partition("_")[0])


def node_space(node: Node) -> str | None:
    """Return the memory space that a node states, or else that of its operation class."""
    if node.space is not None:
        return node.space
    return "global" if node.touches_global else space_of(node.operation)


def is_outside_sm(space: str | None) -> bool:
    """Return True for a space outside the SM, whose accesses may go to the L2 or to DRAM.

    Global space includes textures and global atomics; local space includes spilled registers.
    """
    return space in _OUTSIDE_SM
