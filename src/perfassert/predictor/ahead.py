"""Several predictions are asked for: what the later ones need is compiled before they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.frontends.cuda.kernels import PerLaunch, written_source
from perfassert.frontends.toolchain import ahead
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import CompiledKernel, Kernel
from perfassert.kernel.launch import Launch

Asked = tuple[Kernel, Launch, "Device | str | Path"]
"""Kernel, launch and device of a prediction."""


def compile_ahead(asked: Iterable[Asked]) -> AbstractContextManager[None]:
    """Return a context in which the sources of these predictions are compiled ahead in order.

    What a compiler in this process makes is compiled at once, one after the other.
    """
    wanted = _compile_per_launch(asked)
    return ahead.build_ahead(wanted) if len(wanted) > 1 else nullcontext()


def compile_together(asked: Iterable[Asked]) -> None:
    """Compile what these predictions need, for one run of nvdisasm that reads the code of all.

    What cannot be compiled is left to its prediction, which says why.
    """
    wanted = _compile_per_launch(asked)
    if len(wanted) > 1:
        ahead.compile_together(wanted)


def _compile_per_launch(asked: Iterable[Asked]) -> Sequence[ahead.Wanted]:
    """Compile what is compiled for each launch anew; return the sources of the others."""
    wanted: dict[ahead.Wanted, None] = {}
    archs: dict[str, str] = {}
    for kernel, launch, device in asked:
        if not isinstance(kernel, CompiledKernel):
            continue
        if str(device) not in archs:
            archs[str(device)] = load_device(device).arch
        code, arch = kernel.compiled, archs[str(device)]
        source = written_source(kernel)
        if source is not None:
            wanted[source, arch] = None
        elif isinstance(code, PerLaunch):
            with suppress(PerfAssertError):
                code.compile_for_later(kernel.spell_out(launch), arch)
    return list(wanted)
