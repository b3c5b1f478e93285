"""Bytes that a bulk copy moves at a launch: the box of a tensor (TMA), or plain bytes.

One instruction copies a whole box, past the registers and the L1. Its bytes are an access with
loops of its own, over the box's rows and pieces of a sector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Protocol

from perfassert.errors import LaunchError
from perfassert.kernel.access import Direction
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.names import Argument, BoxCounter
from perfassert.kernel.program import BulkCopy, MemoryAccess, Program, ProgramInstruction
from perfassert.kernel.tensor_map import TensorMap
from perfassert.source import Assumption, SourceSpan

_PIECE = 32  # bytes that are one element of such an access
_UNIT = 16  # bytes that the size of a plain copy counts in


class Maps(Protocol):
    """Tensor maps of a launch, by the parameter that holds them."""

    @property
    def maps(self) -> Mapping[Argument, TensorMap]: ...


class BoundProgram(Protocol):
    """A program bound to its launch."""

    @property
    def program(self) -> Program: ...
    @property
    def symbols(self) -> ExpressionPool: ...
    @property
    def arguments(self) -> Maps: ...
    def why_undecided(self, value: Expression | None) -> str: ...
    def extremes(self, value: Expression) -> tuple[int, int]: ...
    def assume(self, text: str, span: SourceSpan | None, stands_for: str) -> Assumption: ...


@dataclass(frozen=True, slots=True)
class Box:
    """The access of one bulk copy, with the counts of the loops over its pieces;
    ``clip``: (coordinate, extent) that is not passed."""

    access: MemoryAccess
    loops: Mapping[BoxCounter, int] = field(default_factory=dict)
    clip: tuple[tuple[Expression, int], ...] = ()

    @property
    def pieces(self) -> int:
        """Pieces that one copy is split into: the product of the trip counts of its loops."""
        return prod(self.loops.values())


def box_of_copy(
    launched: BoundProgram, instruction: ProgramInstruction, copy: BulkCopy
) -> tuple[Box, tuple[Assumption, ...]]:
    """Return the box that a copy moves, and the guess that it rests on without a tensor map."""
    s, text = launched.symbols, instruction.text
    if not copy.coordinates:
        return _bytes_box(launched, instruction, copy)
    tensor = None if copy.tensor is None else launched.arguments.maps.get(copy.tensor)
    name = _tensor_name(launched.program, copy.tensor)
    if tensor is not None and len(tensor.box) != len(copy.coordinates):
        raise LaunchError(
            f"the tensor map {name!r} has {len(tensor.box)} axes, "
            f"the copy {text!r} {len(copy.coordinates)}"
        )
    guesses: tuple[Assumption, ...] = ()
    if tensor is None:
        tensor = _guess_tensor_map(
            launched, copy, _expected_bytes(launched, instruction.index) or _PIECE
        )
        message = (
            f"the tensor map {name!r} is not given; boxes are taken to be {_by(tensor.box)} of "
            f"{tensor.item_bytes} B in {_by(tensor.shape)}; say args={{{name!r}: pa.TensorMap(…)}}"
        )
        guesses = (launched.assume(message, instruction.span, "layout"),)
    return _box(s, copy, name, tensor, instruction.index, text), guesses


def _by(extents: Sequence[int]) -> str:
    return "×".join(map(str, extents))


def _tensor_name(program: Program, argument: Argument | None) -> str:
    """Return the name of the tensor behind a map."""
    if argument is None:
        return "tensor"
    parameter = program.parameters[argument.position]
    return parameter.at(argument.offset) if argument.offset else parameter.name


def _bytes_box(
    launched: BoundProgram, instruction: ProgramInstruction, copy: BulkCopy
) -> tuple[Box, tuple[Assumption, ...]]:
    """Return the pieces of a copy of plain bytes; its operand counts them in units of 16."""
    size: int | None = None
    guesses: tuple[Assumption, ...] = ()
    if copy.size is not None and not launched.why_undecided(copy.size):
        size = launched.extremes(copy.size)[1] * _UNIT
    size = size or _expected_bytes(launched, instruction.index)
    if size is None:
        message = f"how much a bulk copy moves depends on data; taken for {_PIECE} B"
        guesses, size = (launched.assume(message, instruction.span, "layout"),), _PIECE
    s, name = launched.symbols, BoxCounter(instruction.index, 0)
    pieces = -(-size // _PIECE)
    address = s.add(copy.address, s.scale(s.variable(name), _PIECE)) if pieces > 1 else copy.address
    access = MemoryAccess(
        copy.field, "global", copy.direction, min(size, _PIECE), address, text=instruction.text
    )
    return Box(access, {name: pieces} if pieces > 1 else {}), guesses


def _box(
    s: ExpressionPool, copy: BulkCopy, name: str, tensor: TensorMap, number: int, text: str
) -> Box:
    """Return the box of a tensor at the copy's coordinates, its rows in pieces of a sector."""
    piece = _piece(tensor)
    address, clip = s.zero, []
    loops: dict[BoxCounter, int] = {}
    axes = zip(copy.coordinates, tensor.box[::-1], tensor.shape[::-1], tensor.byte_strides[::-1],
               tensor.element_strides[::-1], strict=False)  # fmt: skip
    for axis, (place, count, extent, stride, step) in enumerate(axes):
        wide = piece // tensor.item_bytes if axis == 0 else 1
        if count > wide:
            variable = BoxCounter(number, axis)
            loops[variable] = -(-count // wide)
            place = s.add(place, s.scale(s.variable(variable), wide * step))
        address = s.add(address, s.scale(place, stride))
        clip.append((place, extent))
    access = MemoryAccess(name, "global", copy.direction, piece, address, text=text)
    return Box(access, loops, tuple(clip))


def _piece(tensor: TensorMap) -> int:
    """Bytes of a row that are counted together: a sector, or a shorter row as a whole."""
    if tensor.element_strides[-1] != 1:
        return tensor.item_bytes
    return min(tensor.box[-1] * tensor.item_bytes, _PIECE)


def _expected_bytes(launched: BoundProgram, index: int) -> int | None:
    """Return the bytes that the arrival before a copy expects, shared out among its copies."""
    code = launched.program.instructions
    arrivals = [
        i.index for i in code if i.meets is not None and i.meets.arrives and i.meets.bytes
    ]  # fmt: skip
    before = max((i for i in arrivals if i < index), default=None)
    if before is None:
        return None
    after = min((i for i in arrivals if i > index), default=len(code))
    use = code[before].meets
    size = use.bytes.constant if use is not None and use.bytes is not None else None
    loads = [i for i in code[before:after] if i.bulk and i.bulk.direction is Direction.LOAD]
    return size // len(loads) if size and loads else None


def _guess_tensor_map(launched: BoundProgram, copy: BulkCopy, size: int) -> TensorMap:
    """Guess a tensor map where none is given: boxes are as wide as the steps of the coordinates,
    elements as large as the bytes that the barrier expects make them, and the tensor as large as
    the coordinates reach."""
    copies = [i.bulk.coordinates for i in launched.program.instructions
              if i.bulk is not None and i.bulk.tensor == copy.tensor]  # fmt: skip
    axes = list(zip(*(c for c in copies if len(c) == len(copy.coordinates)), strict=True))
    box = [_step(axis) for axis in axes]
    item = size // max(prod(box), 1)
    if item not in (1, 2, 4, 8) or item * prod(box) != size:
        item, box = 1, [size, *(1 for _ in copy.coordinates[1:])]
    ends = [max(launched.extremes(place)[1] for place in axis) for axis in axes]
    shape = [max(high, 0) + wide for high, wide in zip(ends, box, strict=True)]
    return TensorMap(shape[::-1], box[::-1], f"uint{8 * item}")


def _step(places: Sequence[Expression]) -> int:
    """Return the distance of which all distances of these coordinates are multiples."""
    factors = [c for place in places for monomial, c in place.terms if monomial]
    apart = [place.offset() - places[0].offset() for place in places]
    return gcd(*factors, *apart) or 1
