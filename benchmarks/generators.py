"""Three kernels of each generator's own tutorial, written anew: how they come in, and how long it
takes without a GPU.

Prints a table: seconds from the call to the prediction on an A100, with empty caches (the first
kernel of a generator pays for the generator's start); accesses whose addresses have a closed form,
those that executed blocks stand in for, and those that are guessed; ``confidence``. Each
generator has a process of its own; one that is not installed is left out, with the reason.
``python benchmarks/generators.py [numba warp ...]`` needs the extras that it names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import perfassert as pa
from perfassert.kernel.description import CompiledKernel
from perfassert.predictor.sample.executed import bind_question
from perfassert.predictor.session import DEFAULT
from perfassert.report.tables import table

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "examples/generated"
DEVICE = "A100-SXM4-40GB"
Case = tuple[str, Callable[[], tuple[Any, pa.Launch]]]
INSTALL = {
    "Numba": "cuda,numba",
    "Warp": "cuda,warp",
    "pystencils": "cuda,pystencils",
    "CuPy": "cuda,cupy",
    "Triton": "cuda,triton",
    "CuTe": "cuda,cute",
    "torch.compile": "cuda,triton",
    "Helion": "cuda,triton",
}
HEADER = (
    "generator",
    "install",
    "kernel",
    "seconds",
    "closed",
    "executed",
    "guessed",
    "confidence",
)


def numba() -> Iterator[Case]:
    """A sum, a product in tiles, a transposition."""
    made = import_module("kernels.numba_kernels")
    matrix = "float32[:, ::1]"
    n, side = 1 << 24, 1024
    yield (
        "axpy",
        lambda: (
            pa.from_numba(made.axpy, "void(float32, float32[::1], float32[::1])"),
            pa.Launch(n // 256, 256, {"a": 2.0, "x": n, "y": n}),
        ),
    )
    yield (
        "transpose",
        lambda: (
            pa.from_numba(made.transpose, f"void({matrix}, {matrix})"),
            pa.Launch((side // 16,) * 2, (16, 16), dict.fromkeys(("src", "dst"), (side, side))),
        ),
    )
    yield (
        "matmul in tiles",
        lambda: (
            pa.from_numba(made.matmul, f"void({matrix}, {matrix}, {matrix})"),
            pa.Launch((side // 16,) * 2, (16, 16), dict.fromkeys("abc", (side, side))),
        ),
    )


def warp() -> Iterator[Case]:
    """A sum, a step of diffusion, one of particles."""
    made = import_module("kernels.warp_kernels")
    n, shape = 1 << 22, (2048, 2048)
    yield (
        "axpy",
        lambda: (
            pa.from_warp(made.axpy),
            pa.Launch(n // 256, 256, {"a": 2.0, "x": n, "y": n}),
        ),
    )
    args = {"dim": shape, "rate": 0.1, "old": shape, "new": shape}
    yield "diffuse", lambda: (pa.from_warp(made.diffuse), pa.Launch(n // 256, 256, args))
    step = {"dt": 0.01, "gravity": [0.0, 0.0, -9.81]}
    yield (
        "integrate, vectors",
        lambda: (
            pa.from_warp(made.integrate),
            pa.Launch(n // 256, 256, {"x": n, "v": n, "step": step}),
        ),
    )


def pystencils() -> Iterator[Case]:
    """A star, a lattice gas, a lattice-Boltzmann step; generated code."""
    import pystencils as ps

    examples = import_module("test_pystencils_kernels")
    lattice = import_module("kernels.lattice_boltzmann")
    config = ps.CreateKernelConfig(target=ps.Target.CUDA)

    def generate(steps: Any) -> Any:
        return pa.from_pystencils(ps.create_kernel(steps, config))

    cube = pa.Launch.cover((128, 128, 128), (32, 4, 2))
    yield "star, 7 points", lambda: (generate(examples.star()), cube)
    plane = pa.Launch.cover((512, 512), (128, 1))
    yield "lattice gas, 9 directions", lambda: (generate(examples.stream()), plane)
    yield "lattice Boltzmann, 19", lambda: (generate(lattice.pull_and_relax(130)), cube)


def cupy() -> Iterator[Case]:
    """Raw kernels: a sum, a template, complex numbers."""
    examples = import_module("test_cupy_kernels")
    n = 1 << 24
    launch = pa.Launch(n // 256, 256)
    turned = pa.Launch(n // 256, 256, {"angle": 0.5})
    with_count = pa.Launch(n // 256, 256, {"n": n})
    yield "add", lambda: (pa.from_cupy(examples.SUM), with_count)
    yield "a template", lambda: (pa.from_cupy(examples.MODULE, "pick<float, 2>"), launch)
    yield "complex numbers", lambda: (pa.from_cupy(examples.COMPLEX), turned)


def triton() -> Iterator[Case]:
    """Tutorials 02, 03 and 05; a transposition in Gluon."""
    softmax = import_module("kernels.triton_softmax").softmax
    matmul = import_module("kernels.triton_matmul").matmul
    layer_norm = import_module("kernels.triton_layer_norm").layer_norm
    gluon = import_module("kernels.gluon_transpose")
    rows = dict.fromkeys(("target", "source", "weight", "bias"), "*fp32")
    two = dict.fromkeys(("target", "source"), "*fp32")
    yield (
        "02, softmax",
        lambda: (
            pa.from_triton(softmax, {**two, "columns": "i32", "pitch": "i32"}, {"BLOCK": 1024}),
            pa.Launch(1 << 15, 128, {"columns": 1024, "pitch": 1024}),
        ),
    )
    products = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", "k": "i32"}
    yield (
        "03, matmul",
        lambda: (
            pa.from_triton(matmul, products, {"M": 64, "N": 64, "K": 32}),
            pa.Launch((32, 32), 128, {"n": 2048, "k": 2048}),
        ),
    )
    yield (
        "05, layer norm",
        lambda: (
            pa.from_triton(
                layer_norm, {**rows, "columns": "i32", "epsilon": "fp32"}, {"BLOCK": 1024}
            ),
            pa.Launch(4096, 128, {"columns": 4096, "epsilon": 1e-5}),
        ),
    )
    layouts = {"TILE": 32, "rows": gluon.ROWS, "columns": gluon.COLUMNS}
    yield (
        "Gluon, transpose",
        lambda: (
            pa.from_triton(gluon.transpose, {**two, "n": "i32"}, layouts),
            pa.Launch((64, 64), 128, {"n": 2048}),
        ),
    )


def cute() -> Iterator[Case]:
    """A sum, a scaling, a transposition."""
    made = import_module("kernels.cute_kernels")
    launches = {
        "add": pa.Launch(made.COUNT // made.BLOCK, made.BLOCK, {"n": made.COUNT}),
        "scale": pa.Launch(made.COUNT // made.BLOCK, made.BLOCK, {"factor": 2.0}),
        "transpose": pa.Launch((made.SIDE // 32, made.SIDE // 8), (32, 8), {"pitch": made.SIDE}),
    }
    compiled: dict[str, Any] = {}

    def case(name: str) -> Callable[[], tuple[Any, pa.Launch]]:
        def make() -> tuple[Any, pa.Launch]:
            if not compiled:
                compiled.update(made.compiled())
            return pa.from_cute(*compiled[name]), launches[name]

        return make

    for name in launches:
        yield name, case(name)


def torch_compile() -> Iterator[Case]:
    """Files by hand in the layout of PyTorch's."""

    def case(file: str, number: int) -> Callable[[], tuple[Any, pa.Launch]]:
        def make() -> tuple[Any, pa.Launch]:
            launched = pa.from_inductor(GENERATED / file, sizes={"s0": 2048})[number]
            return launched.kernel, launched.launch

        return make

    yield "pointwise: bias, relu", case("inductor_rows.py", 0)
    yield "persistent reduction: softmax", case("inductor_rows.py", 1)
    yield "reduction: sums of columns", case("inductor_columns.py", 0)


def helion() -> Iterator[Case]:
    """Files by hand in the layout of Helion's."""
    floats = dict.fromkeys(("x", "y", "out"), "*fp32")
    halves = dict.fromkeys(("x", "y", "out"), "*fp16")
    two = dict.fromkeys(("x", "out"), "*fp32")
    sizes = {"m": 8192, "x.size(0)": 8192, "x.size(1)": 1024, "out.stride(0)": 1,
             "x.stride(0)": 1024, "x.stride(1)": 1}  # fmt: skip
    exponents, rows, product = (
        GENERATED / f"helion_{name}.py" for name in ("exponents", "row_sums", "matmul")
    )
    yield "pointwise", lambda: pa.from_helion(exponents, floats)
    yield "sums of rows, dynamic", lambda: pa.from_helion(rows, two, sizes=sizes)
    yield "matmul", lambda: pa.from_helion(product, halves)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "Numba": numba, "Warp": warp, "pystencils": pystencils, "CuPy": cupy, "Triton": triton,
    "CuTe": cute, "torch.compile": torch_compile, "Helion": helion,
}  # fmt: skip


def measure(name: str) -> Iterator[tuple[str, ...]]:
    """A row for each kernel of a generator."""
    for title, make in CASES[name]():
        start = time.perf_counter()
        kernel, launch = make()
        prediction = pa.predict(kernel, launch, DEVICE)
        seconds = time.perf_counter() - start
        shown = map(str, count_accesses(kernel, launch))
        extra = f"perfassert[{INSTALL[name]}]"
        yield name, extra, title, f"{seconds:.1f}", *shown, str(prediction.confidence)


def count_accesses(kernel: CompiledKernel, launch: pa.Launch) -> tuple[int, int, int]:
    """Accesses to memory by where their address is from: closed form, execution, guess."""
    device = pa.device(DEVICE)
    described, _ = bind_question(DEFAULT.ask(kernel, launch, device))
    accesses = [a for a in described.bound if a.space in ("global", "shared")]
    guessed = sum(bool(a.rests_on) for a in accesses)
    executed = sum(a.touched is not None for a in accesses)
    return len(accesses) - guessed - executed, executed, guessed


def in_a_process(name: str) -> list[tuple[str, ...]]:
    """With caches of its own, which are empty."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"XDG_CACHE_HOME": folder, "PERFASSERT_CACHE_DIR": f"{folder}/perfassert",
               "TRITON_CACHE_DIR": f"{folder}/triton", "WARP_CACHE_PATH": f"{folder}/warp",
               "CUTE_DSL_ARCH": "sm_80", "CUTE_DSL_KEEP_PTX": "1",
               "CUTE_DSL_DUMP_DIR": folder}  # fmt: skip
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], env={**os.environ, **own},
            capture_output=True, text=True, cwd=ROOT / "examples",
        )  # fmt: skip
    rows = [line for line in done.stdout.splitlines() if line.startswith("[[")]
    if rows:
        return [tuple(row) for row in json.loads(rows[-1])]
    reason = (done.stderr.strip().splitlines() or ["?"])[-1]
    return [(name, f"perfassert[{INSTALL[name]}]", f"left out: {reason}", *[""] * 5)]


def main() -> None:
    """The table, or with ``--one NAME`` its rows as JSON."""
    if sys.argv[1:2] == ["--one"]:
        sys.path[0] = str(ROOT / "examples")  # beside this file is a kernels.py
        print(json.dumps(list(measure(sys.argv[2]))))
        return
    wanted = {name.lower() for name in sys.argv[1:]}
    rows = [row for name in CASES if not wanted or name.lower() in wanted
            for row in in_a_process(name)]  # fmt: skip
    print(table(HEADER, rows))


if __name__ == "__main__":
    main()
