"""Names in symbolic values: coordinates, arguments, loop counters, variables of the program.

A coordinate or an extent of the launch is a string (``"threadIdx.x"``, ``"blockDim.x"``,
``"laneid"``, :data:`CLUSTERED`), one of those in :mod:`perfassert.kernel.expression` and
:data:`LIMITS`. Each other kind of name is a class, so that no code has to parse names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

Coordinate = str
CLUSTERED: Coordinate = "clustered"
"""1 if the launch has clusters, else 0."""
PARAMETERS: Coordinate = "parameters"
"""The address of the kernel's parameters in constant memory."""


@dataclass(frozen=True, slots=True, order=True)
class Argument:
    """A parameter of the kernel, or the value at ``offset`` bytes in it.

    >>> print(Argument(2), Argument(2, 8))
    argument 2 argument 2 + 8 B
    """

    position: int
    offset: int = 0

    def __str__(self) -> str:
        return f"argument {self.position}" + (f" + {self.offset} B" if self.offset else "")


@dataclass(frozen=True, slots=True, order=True)
class LoopCounter:
    """The number of an iteration of a loop of the program, from 0.

    >>> print(LoopCounter(3))
    k3
    """

    loop: int

    def __str__(self) -> str:
        return f"k{self.loop}"


@dataclass(frozen=True, slots=True, order=True)
class BoxCounter:
    """The number of a piece of the box of a bulk copy, along one axis (0: the innermost)."""

    instruction: int
    axis: int

    def __str__(self) -> str:
        return f"piece of copy {self.instruction} along axis {self.axis}"


@dataclass(frozen=True, slots=True, order=True)
class ConstantWord:
    """A word, at ``offset`` bytes, of a ``__constant__`` variable that only the program fills."""

    variable: str
    offset: int = 0

    def __str__(self) -> str:
        return self.variable + (f"+{self.offset}" if self.offset else "")


@dataclass(frozen=True, slots=True, order=True)
class GlobalVariable:
    """The address of a ``__device__`` variable, stored at byte ``slot`` of constant bank 4."""

    slot: int

    def __str__(self) -> str:
        return f"global {self.slot:#x}"


@dataclass(frozen=True, slots=True, order=True)
class LoopEntry:
    """The value of a register at the top of a loop, while the loop is being solved."""

    loop: int
    register: int

    def __str__(self) -> str:
        return f"register {self.register} at the top of loop {self.loop}"


Counter = Union[LoopCounter, BoxCounter]
"""Counter of the repetitions of an access."""
Name = Union[Coordinate, Argument, LoopCounter, BoxCounter, ConstantWord, GlobalVariable, LoopEntry]

LIMITS: dict[Name, tuple[int, int]] = {
    "threadIdx.x": (0, 1023), "threadIdx.y": (0, 1023), "threadIdx.z": (0, 63),
    "blockDim.x": (1, 1024), "blockDim.y": (1, 1024), "blockDim.z": (1, 64),
    "blockIdx.x": (0, 2**31 - 2), "blockIdx.y": (0, 65534), "blockIdx.z": (0, 65534),
    "gridDim.x": (1, 2**31 - 1), "gridDim.y": (1, 65535), "gridDim.z": (1, 65535),
    "laneid": (0, 31), CLUSTERED: (0, 1),
}  # fmt: skip
"""Least and greatest value of each coordinate and extent.

They are those of the CUDA programming model, the same for every device.
"""


def never_negative(name: Name) -> bool:
    """Return True if the name cannot have a value below 0, for any launch."""
    return isinstance(name, (LoopCounter, BoxCounter)) or name in _INDICES


_INDICES = frozenset((*LIMITS, "warpid")) - {CLUSTERED}


def loaded_name(instruction: int, word: int = 0) -> str:
    """Return the name of an unknown value: a word that an instruction of a program loads."""
    return f"load {instruction}.{word}"
