"""Example kernels: what the values of a device are judged by.

Listings of kernels in ``examples/kernels`` and ``validation/kernels``, as NVRTC 13 compiles them
for sm_80; on other devices the same code is predicted. Sizes are small: a few waves of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfassert.frontends.access_graph import ARITHMETIC
from perfassert.frontends.cuda.kernels import Hints
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.launch import Launch

_ARCH = "sm_80"
_FOLDER = Path(__file__).parent / "listings"
_N = 1 << 22
_LAUNCHES = {
    "saxpy": Launch(_N // 256, 256, {"n": _N}),
    "gather": Launch(_N // 256, 256, {"n": _N}),
    "star3d25pt": Launch.cover((128, 64, 64), (16, 2, 8), {"nx": 128, "ny": 64, "nz": 64}),
    "transpose": Launch((32, 32), (32, 8), {"rows": 1024, "columns": 1024}),
    "histogram": Launch(128, 256, {"n": 1 << 18}),
    "matmul": Launch((16, 16), (16, 16), {"n": 256}),
    "matmul_wmma": Launch((8, 2), (32, 4), {"n": 128}),
    "softmax": Launch(512, 256),
}
EXAMPLES = tuple(_LAUNCHES)


@dataclass(frozen=True, eq=False)
class BoundCode:
    """Code that has been bound to the only launch that it is ever predicted for."""

    kernel: BoundKernel
    work: Launch

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[BoundKernel, Launch]:
        """What :class:`~perfassert.frontends.cuda.kernels.CompiledCode` would find again."""
        return self.kernel, self.work


@dataclass(frozen=True, slots=True)
class Example:
    """A kernel, its launch, and the classes of operations that it has; of matrix instructions both
    the variant and the class that it may be derived from."""

    kernel: Kernel
    launch: Launch
    operations: frozenset[str]


def example(name: str, warp_size: int) -> Example:
    """One of :data:`EXAMPLES`, with its code bound."""
    path, launch = _FOLDER / f"{name}.sass", _LAUNCHES[name]
    binary = from_fixture(path.read_text(encoding="utf-8"), None, _ARCH, path.name)
    code, work = Hints.checked(1, None, None).bind(binary, launch, warp_size)
    operations = {*(n.operation for n in code.graph.nodes), ARITHMETIC[code.dtype]}
    classes = {name.partition(".")[0] for name in operations}
    return Example(
        CompiledKernel(name=name, compiled=BoundCode(code, work)),
        launch,
        frozenset(operations | classes),
    )
