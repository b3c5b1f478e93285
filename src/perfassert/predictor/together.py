"""Questions that are asked together: files are read once, later kernels are compiled meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from perfassert.frontends.cuda.kernels import written_source
from perfassert.frontends.toolchain.ahead import build_ahead, read_once
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel


@contextmanager
def ask_together(asked: Iterable[tuple[Kernel, Device | str | Path]]) -> Iterator[None]:
    """Let questions about these kernels, in this order, share one state of each source's files.

    A kernel is compiled from what its files hold at its first question. The sources of later
    questions are compiled ahead.
    """
    sources = [(written_source(kernel), device) for kernel, device in asked]
    wanted = {(id(s), str(device)): (s, device) for s, device in sources if s is not None}
    named = [(s, load_device(device).arch) for s, device in wanted.values()]
    with read_once(), build_ahead(named) if len(named) > 1 else nullcontext():
        yield
