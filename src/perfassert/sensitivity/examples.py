"""Example kernels: what the values of a device are judged by.

Kernels of ``examples/kernels``, compiled for sm_80; on other devices the same code is predicted.
Sizes are small: a few waves of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfassert.frontends.access_graph import ARITHMETIC
from perfassert.frontends.cuda.kernels import CompiledCode, from_cuda
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.launch import Launch
from perfassert.shipped import shipped_folder

_ARCH = "sm_80"
_N = 1 << 22  # elements of the fields
_LAUNCHES = {
    "saxpy": Launch(_N // 256, 256, {"n": _N}),
    "gather": Launch(_N // 256, 256, {"n": _N}),
    "star3d25pt": Launch.cover((128, 64, 64), (16, 2, 8), {"nx": 128, "ny": 64, "nz": 64}),
    "transpose": Launch((32, 32), (32, 8), {"rows": 1024, "columns": 1024}),
    "histogram": Launch(128, 256, {"n": 1 << 18}),
    "matmul": Launch((16, 16), (16, 16), {"n": 256}),
    "gemm_cp_async": Launch((8, 8), 128, {"n": 1024, "k": 256}, shared_bytes=3 * 256 * 32 * 2),
    "softmax": Launch(512, 256, {"n": 2048}),
}
_KERNELS = {"transpose": "transpose_tiled"}
EXAMPLES = tuple(_LAUNCHES)


@dataclass(frozen=True, eq=False)
class BoundCode:
    """Code that has been bound to the only launch that it is ever predicted for."""

    kernel: BoundKernel
    work: Launch

    def bind(self, launch: Launch, arch: str, warp_size: int) -> tuple[BoundKernel, Launch]:
        """Return the stored result instead of binding the code again for the same launch."""
        return self.kernel, self.work


@dataclass(frozen=True, slots=True)
class Example:
    """A kernel, its launch, and the classes of operations that it has; of matrix instructions both
    the variant and the class that it may be derived from."""

    kernel: Kernel
    launch: Launch
    operations: frozenset[str]


def example(name: str, warp_size: int) -> Example:
    """Return one of :data:`EXAMPLES` with its code bound; may raise :class:`ToolchainMissing`."""
    folder = shipped_folder("example_kernels", "examples/kernels")
    kernel, launch = _KERNELS.get(name, name), _LAUNCHES[name]
    compiled = from_cuda(folder / f"{name}.cu", kernel=kernel).compiled
    assert isinstance(compiled, CompiledCode)
    code, work = compiled.bind(launch, _ARCH, warp_size)
    operations = {*(n.operation for n in code.graph.nodes), ARITHMETIC[code.dtype]}
    classes = {name.partition(".")[0] for name in operations}
    return Example(
        CompiledKernel(name=name, compiled=BoundCode(code, work)),
        launch,
        frozenset(operations | classes),
    )
