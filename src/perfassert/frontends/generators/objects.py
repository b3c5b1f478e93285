"""``from_source_object``, ``from_cupy``: kernels from objects that hold text or code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, in_short
from perfassert.frontends.cuda.kernels import (
    CompiledCode,
    Hints,
    from_cubin,
    from_ptx,
)
from perfassert.frontends.generators.generated import warn_if_untested
from perfassert.frontends.toolchain.source_settings import AnyPath, source_of
from perfassert.kernel.description import CompiledKernel

_TESTED = ((13,), (13,))
_CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x")
_ELF = b"\x7fELF"
_SUFFIXES = {"cuda": ".cu", "ptx": ".ptx", "cubin": ".cubin"}


def from_source_object(
    held: Any,
    kernel: str | None = None,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: AnyPath | Sequence[AnyPath] = (),
    options: Sequence[str] = (),
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> CompiledKernel:
    """Read a kernel from an object that holds CUDA source, PTX or machine code.

    Args:
        held: an object whose ``.ptx`` is PTX, or whose ``.code`` is CUDA source, PTX or machine
            code, as text or bytes.
        kernel: its name, as for :func:`from_cuda`. Default (None): the object's ``.name`` where the
            text has a kernel of that name, else the only one.
        defines: macro → value, of CUDA source. Default: none.
        include_dirs: folders of headers, of CUDA source; a single one may stand alone. Default:
            none.
        options: options of the compiler. Default: none.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.
        constants: ``__constant__`` symbol → what the program writes there before the launch.

    Returns:
        A kernel that is compiled for the device that it is predicted on.

    Raises:
        KernelSourceError: the object holds neither text nor code, or a setting is of another kind.
        KernelError: malformed ``trip_counts``, ``assume``, ``constants`` or
            ``updates_per_thread``.

    Example:
        >>> from types import SimpleNamespace
        >>> import perfassert as pa
        >>> text = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
        >>> pa.from_source_object(SimpleNamespace(code=text, name="twice")).name
        'twice'
    """
    kind, content = _kind_and_content(held)
    named = getattr(held, "name", None)
    if kernel is None and isinstance(named, str) and named.partition("<")[0].encode() in content:
        kernel = named or None
    shown = kernel or type(held).__name__
    hints = Hints.validate(updates_per_thread, trip_counts, assume, constants)
    place = Path(_file_stem(shown) + _SUFFIXES[kind])
    source = source_of(
        place, kind, kernel, defines=defines, include_dirs=include_dirs, options=options
    )
    source = replace(source, content=content)
    return CompiledKernel(
        name=shown, updates_per_thread=updates_per_thread, compiled=CompiledCode(source, hints)
    )


def _kind_and_content(source: Any) -> tuple[str, bytes]:
    """Return the kind of an object's text or code, and its bytes."""
    ptx, code = (getattr(source, name, None) for name in ("ptx", "code"))
    if isinstance(ptx, (str, bytes)) and ptx:
        return "ptx", _to_bytes(ptx)
    if not isinstance(code, (str, bytes)) or not code:
        raise KernelSourceError(
            f"{in_short(source)} has no text: neither .ptx nor .code is a string; pass an object "
            "that has one, or a file to from_cuda, from_ptx or from_cubin"
        )
    content = _to_bytes(code)
    if content.startswith(_ELF):
        return "cubin", content
    if b".entry" in content and b".target" in content:
        return "ptx", content
    if not isinstance(code, str) and b"__global__" not in content:
        raise KernelSourceError(
            f"{in_short(source)}: its .code is neither CUDA source nor PTX nor machine code that "
            f"runs as it is ({getattr(source, 'code_type', 'unknown')})"
        )
    return "cuda", content


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _file_stem(name: str) -> str:
    """Return a name with only the characters of a file name."""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in name)[:80]


def from_cupy(
    held: Any,
    kernel: str | None = None,
    *,
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> CompiledKernel:
    """Read a kernel from a ``cupy.RawKernel`` or ``cupy.RawModule``.

    It is compiled from ``.code`` and ``.options``, or from ``.file_path``; CuPy is not used.

    Args:
        held: the ``RawKernel`` or ``RawModule``. Elementwise, reduction and fused kernels have no
            text before they are launched.
        kernel: name of the kernel. Default (None): the object's own name, else the only one.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.
        constants: ``__constant__`` symbol → what the program writes there before the launch.

    Returns:
        A kernel that is compiled for the device that it is predicted on.

    Raises:
        KernelSourceError: neither a ``RawKernel`` nor a ``RawModule``.
        ToolchainMissing: CuPy is installed, but too old.
        KernelError: malformed ``trip_counts``, ``assume``, ``constants`` or
            ``updates_per_thread``.

    Example:
        >>> from types import SimpleNamespace
        >>> import perfassert as pa
        >>> text = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
        >>> raw = SimpleNamespace(code=text, name="twice", options=())  # as cupy.RawKernel has it
        >>> pa.from_cupy(raw).name
        'twice'
    """
    if type(held).__module__.partition(".")[0] == "cupy":
        warn_if_untested("cupy", _TESTED, *_CUPY)
    hints: dict[str, Any] = {
        "updates_per_thread": updates_per_thread, "trip_counts": trip_counts,
        "assume": assume, "constants": constants,
    }  # fmt: skip
    path, own = getattr(held, "file_path", None), getattr(held, "name", None)
    if not getattr(held, "code", None) and path:
        make = from_ptx if Path(path).suffix == ".ptx" else from_cubin
        return make(path, kernel or own or None, **hints)
    if not isinstance(getattr(held, "code", None), str):
        raise KernelSourceError(
            f"{in_short(held)} is neither a RawKernel nor a RawModule of CuPy: it has no .code; an "
            "ElementwiseKernel or a fused function has none before it is launched"
        )
    return from_source_object(
        held, kernel, options=_options(held), include_dirs=_headers(), **hints
    )


def _options(source: Any) -> tuple[str, ...]:
    """Return CuPy's options without those of linking, which CuPy does itself."""
    options = getattr(source, "options", ())
    return tuple(o for o in options if o not in ("-dc", "--device-c", "-rdc=true"))


def _headers() -> tuple[str, ...]:
    """Return the folder for ``#include <cupy/…>``, without importing CuPy."""
    package = find_spec("cupy")
    if package is None or package.origin is None:
        return ()
    folder = Path(package.origin).parent / "_core" / "include"
    return (str(folder),) if folder.is_dir() else ()
