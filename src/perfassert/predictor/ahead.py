"""Several predictions are asked for: the kernels of the later ones are compiled meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from perfassert.frontends.cuda.kernels import written_source
from perfassert.frontends.toolchain.ahead import build_ahead
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel


def compile_ahead(
    asked: Iterable[tuple[Kernel, Device | str | Path]],
) -> AbstractContextManager[None]:
    """Return a context in which the sources of these predictions are compiled ahead in order."""
    sources = [(written_source(kernel), device) for kernel, device in asked]
    wanted = {(id(s), str(device)): (s, device) for s, device in sources if s is not None}
    if len(wanted) < 2:
        return nullcontext()
    return build_ahead([(s, load_device(device).arch) for s, device in wanted.values()])
