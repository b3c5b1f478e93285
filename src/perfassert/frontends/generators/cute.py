"""``from_cute``: a kernel from a compiled function of CUTLASS' Python DSL, by its kept PTX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, in_short
from perfassert.frontends.cuda.kernels import CompiledCode, Hints
from perfassert.frontends.generators.generated import warn_if_untested
from perfassert.frontends.toolchain import names
from perfassert.frontends.toolchain.binary import Source
from perfassert.kernel.description import CompiledKernel

_TESTED = ((4, 4), (4, 8))
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)")
_HOW = (
    "set CUTE_DSL_KEEP_PTX=1, CUTE_DSL_ARCH=sm_90a and CUTE_DSL_DUMP_DIR=<a folder that exists> "
    "before cutlass is imported, and pass what cute.compile returns"
)


def from_cute(
    function: Any,
    kernel: Any = None,
    *,
    parameters: Sequence[str] = (),
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Read a kernel from what ``cute.compile`` of CUTLASS' Python DSL returns.

    The kernel is read from the PTX that the compiler kept. Set ``CUTE_DSL_KEEP_PTX=1``,
    ``CUTE_DSL_ARCH`` and ``CUTE_DSL_DUMP_DIR`` before ``cutlass`` is imported; the PTX is for that
    architecture.

    Args:
        function: the result of ``cute.compile``.
        kernel: the function under ``@cute.kernel``, or its name. Default (None): the only one.
        parameters: names of the kernel's parameters, by position. Default: those of the
            function, if the compiler kept all of them.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        A kernel that ptxas compiles for the device that it is predicted on.

    Raises:
        KernelSourceError: no PTX was kept, or it has no such kernel.
        ToolchainMissing: nvidia-cutlass-dsl is installed, but too old.
        KernelError: malformed ``trip_counts``, ``assume`` or ``updates_per_thread``.

    Example:
        >>> from types import SimpleNamespace
        >>> import perfassert as pa
        >>> ptx = ".version 8.0 .target sm_80 .visible .entry kernel_cutlass_scale_0() { ret; }"
        >>> compiled = SimpleNamespace(__ptx__=ptx)  # as cute.compile returns it
        >>> pa.from_cute(compiled, "scale").name
        'scale'
    """
    warn_if_untested("cute", _TESTED, "nvidia-cutlass-dsl")
    text = _kept_ptx(function)
    where = f"{getattr(kernel, '__name__', kernel) or 'cute'}.ptx"
    parameter_counts = {match[1]: match[2].count(".param") for match in _ENTRY.finditer(text)}
    wanted = getattr(kernel, "__name__", kernel)
    chosen = _choose_entry(wanted, list(parameter_counts), where)
    named = tuple(parameters) or _parameter_names(kernel, parameter_counts[chosen])
    hints = Hints.validate(updates_per_thread, trip_counts, assume, None, named)
    source = Source(Path(where), "ptx", chosen, content=text.encode())
    return CompiledKernel(
        name=str(wanted or chosen),
        updates_per_thread=updates_per_thread,
        compiled=CompiledCode(source, hints),
    )


def _kept_ptx(function: Any) -> str:
    """Return the PTX, which the DSL keeps as a text or in a file."""
    if not hasattr(function, "__ptx__"):
        raise KernelSourceError(f"{in_short(function)} is not compiled by CUTLASS' DSL; {_HOW}")
    kept = function.__ptx__
    if isinstance(kept, str) and ".entry" in kept:
        return kept
    if not isinstance(kept, str) or not Path(kept).is_file():
        raise KernelSourceError(f"{in_short(function)} kept no PTX ({in_short(kept)}); {_HOW}")
    return Path(kept).read_text()


def _choose_entry(wanted: str | None, known: list[str], where: str) -> str:
    """Return the kernel by a function's name: the compiler's is ``kernel_cutlass_NAME_types_0``."""
    if wanted is None or wanted in known:
        return names.choose(wanted, known, where)
    fits = [name for name in known if f"_{wanted}_" in name]
    return fits[0] if len(fits) == 1 else names.choose(wanted, known, where)


def _parameter_names(kernel: Any, count: int) -> tuple[str, ...]:
    if not callable(kernel):
        return ()
    own = tuple(signature(kernel).parameters)
    return own if len(own) == count else ()
