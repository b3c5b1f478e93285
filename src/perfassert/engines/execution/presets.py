"""Initial content of registers and memory, as a launch sets them before the first instruction."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.collective import LANE, Lanes
from perfassert.engines.execution.memory import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    GlobalMemory,
    Plane,
    Region,
    pointer,
)
from perfassert.engines.execution.provenance import (
    ARGUMENT,
    CONSTANT,
    ORDINARY,
    UNINITIALISED,
    UNTRANSLATED,
    Codes,
    Masks,
)
from perfassert.engines.execution.words import Words
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WARP_LANES, MachineCode, Preset, PresetSource


@dataclass(frozen=True, slots=True)
class PartlyGiven:
    """A structure whose members are partly given: bytes, and 1 for each byte that is known."""

    content: bytes
    known: bytes


ArgumentValue = Union[bytes, PartlyGiven, Region, None]
"""A parameter: its bytes, the buffer that it points to, or None if the launch does not give it."""
_GENERIC = {
    0x18: 0,
    0x1C: SHARED_WINDOW,
    0x20: 0,
    0x24: LOCAL_WINDOW,
}  # words of bank 0 up to sm_89
_STACK_SLACK = 1 << 10
_MAGNITUDE = 8.0  # ordinary numbers lie between 2^-8 and 2^8


class Setting:
    """A launch of machine code on some blocks: the initial state of an execution."""

    def __init__(
        self,
        code: MachineCode,
        launch: Launch,
        arguments: Sequence[ArgumentValue],
        blocks: Sequence[int],
        memory: GlobalMemory | None = None,
    ) -> None:
        self.code = code
        self.launch = launch
        self.blocks = tuple(blocks)
        self.warps_per_block = -(-launch.threads_per_block // WARP_LANES)
        self.warps = self.warps_per_block * len(self.blocks)
        self.block_of = np.repeat(np.arange(len(self.blocks)), self.warps_per_block)
        first = np.tile(np.arange(self.warps_per_block), len(self.blocks)) * WARP_LANES
        self.thread = first[:, None] + LANE.astype(np.int64)
        self.threads: Lanes = self.thread < launch.threads_per_block
        if memory is None:
            regions = list(dict.fromkeys(a for a in arguments if isinstance(a, Region)))
            memory = GlobalMemory(regions, Codes())
        self.memory, self.codes = memory, memory.codes
        self.stack_bytes = -(-(code.local_bytes + _STACK_SLACK) // 16) * 16
        self._bank = self._constant_bank(arguments)
        self.banks = {n: _plane(content, self.codes) for n, content in code.banks.items()}
        self.banks[0] = self._bank_plane()
        for unset in code.unset:
            if unset.bank in self.banks:
                self.banks[unset.bank].taint(CONSTANT, unset.offset, unset.offset + unset.size)
        size = code.shared_base + code.shared_bytes + launch.shared_bytes
        self.shared_bytes = -(-size // 16) * 16
        self._shared: Plane | None = None
        self._local: Plane | None = None

    @property
    def shared(self) -> Plane:
        """Shared memory of all blocks, one after the other."""
        if self._shared is None:
            total = self.shared_bytes * len(self.blocks)
            self._shared = Plane(np.zeros(total, np.uint8), self.codes, UNINITIALISED)
        return self._shared

    @property
    def local(self) -> Plane:
        """Local memory of all threads, one after the other."""
        if self._local is None:
            total = self.stack_bytes * self.warps * WARP_LANES
            self._local = Plane(np.zeros(total, np.uint8), self.codes, UNINITIALISED)
        return self._local

    # Constant bank 0

    def _constant_bank(self, arguments: Sequence[ArgumentValue]) -> dict[int, tuple[int, int]]:
        """Return the word and the provenance at each offset of constant bank 0."""
        bank = {offset: (word, 0) for offset, word in _GENERIC.items()}
        for start, extent in (
            (self.code.block, self.launch.block),
            (self.code.grid, self.launch.grid),
        ):
            bank.update({start + 4 * i: (n, 0) for i, n in enumerate(extent)})
        bank[self.code.stack] = (self.stack_bytes - _STACK_SLACK // 2, 0)
        regions = self.memory.regions
        for slot, argument in zip(self.code.parameters, arguments, strict=False):
            known = b"\1" * slot.size
            if isinstance(argument, Region):
                content = struct.pack("<Q", pointer(regions.index(argument), argument.offset))
            elif argument is None:
                content = known = bytes(slot.size)
            elif isinstance(argument, PartlyGiven):
                content, known = argument.content, argument.known
            else:
                content = argument
            for at in range(0, slot.size, 4):
                unknown = 0 if all(known[at : at + 4]) else ARGUMENT
                word = int.from_bytes(content[at : at + 4].ljust(4, b"\0"), "little")
                bank[(slot.offset + at) & ~3] = _merge_word(bank, slot.offset + at, word, unknown)
        return bank

    def _bank_plane(self) -> Plane:
        size = -(-(max(self._bank) + 4) // 16) * 16
        plane = Plane(np.zeros(size, np.uint8), self.codes)
        offsets = np.array(list(self._bank), np.int64)
        words = np.array([w for w, _ in self._bank.values()], np.uint32)
        masks = np.array([m for _, m in self._bank.values()], np.uint32)
        plane.write(offsets, 4, (words,), masks if masks.any() else None)
        return plane

    # Registers

    def values(self) -> list[Words | None]:
        """Return the registers before the first instruction; None for 0."""
        values: list[Words | None] = [None] * self.code.registers
        for preset in self.code.presets:
            values[preset.register] = self._preset(preset)[0]
        return values

    def unknown(self) -> list[Masks | None]:
        """Return the provenance of registers that are unknown at the start, None if known."""
        marks: list[Masks | None] = [None] * self.code.registers
        for preset in self.code.presets:
            mask = self._preset(preset)[1]
            if mask:
                marks[preset.register] = _scalar(mask)
        return marks

    def _preset(self, preset: Preset) -> tuple[Words, int]:
        if preset.source is PresetSource.LITERAL:
            return _scalar(preset.value), 0
        if preset.source is PresetSource.SPECIAL:
            return self._special(preset.name)
        if preset.source is PresetSource.ORDINARY:
            return self._ordinary(preset), ORDINARY
        if preset.bank == 0:
            word, unknown = self._bank.get(preset.value, (0, 0))
            return _scalar(word), unknown
        content = self.code.banks.get(preset.bank, b"")[preset.value : preset.value + 4]
        unset = any(
            u.bank == preset.bank
            and u.offset < preset.value + 4
            and preset.value < u.offset + u.size
            for u in self.code.unset
        )
        if len(content) < 4 or unset:
            return _scalar(0), CONSTANT
        return _scalar(int.from_bytes(content, "little")), 0

    def _ordinary(self, preset: Preset) -> Words:
        """Return random numbers whose logarithms are uniformly distributed over a wide range."""
        chance = np.random.default_rng(preset.value)
        shape = (self.warps, WARP_LANES)
        numbers = 2.0 ** chance.uniform(-_MAGNITUDE, _MAGNITUDE, shape)
        if preset.signed:
            numbers *= chance.choice((-1.0, 1.0), shape)
        if preset.name == "float":
            return numbers.astype(np.float32).view(np.uint32)
        words = np.ascontiguousarray(numbers).view(np.uint64) >> np.uint64(32 * preset.bank)
        return words.astype(np.uint32)

    def _special(self, name: str) -> tuple[Words, int]:
        kind, _, axis = name.partition(".")
        place = "xyz".find(axis)
        x, y, _ = self.launch.block
        if kind == "threadIdx":
            index = (self.thread % x, self.thread // x % y, self.thread // (x * y))[place]
            return index.astype(np.uint32), 0
        if kind == "blockIdx":
            blocks = np.array(self.blocks, np.int64)[self.block_of][:, None]
            wide, high, _ = self.launch.grid
            where = (blocks % wide, blocks // wide % high, blocks // (wide * high))[place]
            return where.astype(np.uint32), 0
        if kind in ("blockDim", "gridDim"):
            extent = self.launch.block if kind == "blockDim" else self.launch.grid
            return _scalar(extent[place]), 0
        lanes = _LANES.get(name)
        if lanes is None:
            return _scalar(0), UNTRANSLATED
        return np.asarray(lanes, np.uint32).reshape(1, -1), 0


_BIT = np.uint32(1) << LANE
_LANES: dict[str, Any] = {
    "laneid": LANE, "lanemask_eq": _BIT, "lanemask_lt": _BIT - np.uint32(1),
    "lanemask_le": (_BIT - np.uint32(1)) | _BIT, "lanemask_gt": ~((_BIT - np.uint32(1)) | _BIT),
    "lanemask_ge": ~(_BIT - np.uint32(1)), "shared window": SHARED_WINDOW,
    "local window": LOCAL_WINDOW,
}  # fmt: skip


def _scalar(value: int) -> npt.NDArray[np.uint32]:
    return np.full((1, 1), value & 0xFFFFFFFF, np.uint32)


def _merge_word(
    bank: dict[int, tuple[int, int]], offset: int, word: int, unknown: int
) -> tuple[int, int]:
    """Merge a parameter narrower than a word into the word that it shares with others."""
    # For example, a parameter of 2 bytes, 0x1234, at offset 0x162 adds 0x1234_0000 to the word at
    # 0x160.
    shift = 8 * (offset & 3)
    content, marks = bank.get(offset & ~3, (0, 0)) if shift else (0, 0)
    return (content | word << shift) & 0xFFFFFFFF, marks | unknown


def _plane(content: bytes, codes: Codes) -> Plane:
    padded = content.ljust(-(-len(content) // 16) * 16, b"\0")
    return Plane(np.frombuffer(padded, np.uint8).copy(), codes)
