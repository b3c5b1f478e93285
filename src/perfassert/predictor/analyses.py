"""Analyses of compiled code that a session keeps in its memo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perfassert.frontends.cuda.kernels import Analyses, BuiltCode, Rare
from perfassert.frontends.toolchain.ahead import build
from perfassert.frontends.toolchain.binary import Binary, Source
from perfassert.kernel.content import content_digest
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Launch
from perfassert.predictor.memo import Memo, SameObjects

if TYPE_CHECKING:
    from perfassert.frontends.machine.lowering import Lowered
    from perfassert.kernel.program import Program

_INSTRUCTION_BYTES = 3 << 10
"""Estimated memory of one instruction, lowered or in a :class:`Program`."""
_RECORD_BYTES = 128 << 10
"""Estimated memory of the records of one compilation: 700 files with paths of 90 bytes."""


def _binary_bytes(recalled: object) -> int:
    """Return the bytes of what a build recalls: a binary, or facts about the files behind it."""
    return 2 * len(recalled.listing) if isinstance(recalled, Binary) else _RECORD_BYTES


class RecalledAnalyses(Analyses):
    """Analyses whose results are kept in a memo, by the content that they depend on."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo

    def binary(self, source: Source, arch: str) -> Binary:
        """See :class:`~perfassert.frontends.cuda.kernels.Analyses`."""

        def recall(key: str, make: Callable[[], Any]) -> Any:
            return self._memo.recall("binary", key, make, _binary_bytes)

        return build(source, arch, recall)

    def digest(self, code: BuiltCode) -> str:
        """See :class:`~perfassert.frontends.cuda.kernels.Analyses`."""
        hints = code.hints
        known = content_digest(
            code.built.digest, hints.updates_per_thread, hints.trip_counts, hints.assume,
            hints.recorded,
        )  # fmt: skip
        return self._memo.recall(
            "digest", known, lambda: super(RecalledAnalyses, self).digest(code), len
        )

    def bound_digest(
        self, kernel: CompiledKernel, launch: Launch, arch: str, warp_size: int
    ) -> str:
        """See :class:`~perfassert.frontends.cuda.kernels.Analyses`."""
        key = SameObjects((kernel.compiled,)), content_digest(launch, arch, warp_size)
        return self._memo.recall(
            "bound digest",
            key,
            lambda: super(RecalledAnalyses, self).bound_digest(kernel, launch, arch, warp_size),
            len,
        )

    def lower(self, binary: Binary) -> Lowered:
        """See :class:`~perfassert.frontends.cuda.kernels.Analyses`."""
        return self._memo.recall(
            "lower",
            binary.digest,
            lambda: super(RecalledAnalyses, self).lower(binary),
            lambda lowered: _INSTRUCTION_BYTES * len(lowered[1].instructions),
        )

    def program(self, binary: Binary, rare: Rare, executed: Rare) -> Program:
        """See :class:`~perfassert.frontends.cuda.kernels.Analyses`."""
        return self._memo.recall(
            "describe",
            (binary.digest, rare, executed),
            lambda: super(RecalledAnalyses, self).program(binary, rare, executed),
            lambda program: _INSTRUCTION_BYTES * len(program.instructions),
        )
