"""A loop without a model that tunes five kernels by asking `perfassert serve`, as an agent may.

    python benchmarks/scripted_agent.py

From the first value of each choice it proposes the neighbours of the best configuration so far,
one choice changed at a time, asks for each, keeps the fastest, and stops where no neighbour is
faster, or where the headroom says that nothing is left. All configurations are asked for
afterwards: the share is the best predicted time of all, divided by that of the configuration that
the agent ends with.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from agents import Server
from tabulate import tabulate

REPOSITORY = Path(__file__).parents[1]
ENOUGH = 1.02  # headroom
Configuration = Mapping[str, Any]


@dataclass(frozen=True)
class Space:
    """Choices of a kernel, values in their order, and the question for a configuration."""

    source: str
    choices: dict[str, list[Any]]
    question: Callable[[Any], dict[str, Any]]

    def configurations(self) -> Iterator[Configuration]:
        for values in product(*self.choices.values()):
            yield dict(zip(self.choices, values, strict=True))

    def neighbours(self, of: Configuration) -> Iterator[Configuration]:
        """Yield the configurations that differ in one choice.

        A number changes to its next or previous value, a name to any other one.
        """
        for name, values in self.choices.items():
            at = values.index(of[name])
            named = isinstance(of[name], str)
            near = values if named else values[max(at - 1, 0) : at + 2]
            yield from ({**of, name: other} for other in near if other != of[name])


def cover(domain: tuple[int, ...], step: tuple[int, ...]) -> list[int]:
    return [-(-size // s) for size, s in zip(domain, step, strict=True)]


def star(c: Any) -> dict[str, Any]:
    domain, block = (512, 512, 256), (c["x"], c["y"], c["z"])
    sizes = dict(zip(("nx", "ny", "nz"), domain, strict=True))
    return {"grid": cover(domain, block), "block": [*block], "args": sizes}


def seven_points(c: Any) -> dict[str, Any]:
    size, block = 512, (c["x"], c["y"])
    planes = size if c["kernel"] == "star3d" else 1
    return {
        "kernel": c["kernel"], "grid": [*cover((size, size), block), planes], "block": [*block, 1],
        "args": {"nx": size, "ny": size, "nz": size},
    }  # fmt: skip


def transpose(c: Any) -> dict[str, Any]:
    size = 8192
    return {
        "kernel": c["kernel"], "grid": [size // 32, size // 32], "block": [32, c["y"]],
        "args": {"rows": size, "columns": size},
    }  # fmt: skip


def product_of_matrices(c: Any) -> dict[str, Any]:
    size, tile = 2048, c["TILE"]
    registers = [f"--maxrregcount={c['registers']}"] if c["registers"] else []
    return {
        "grid": [size // tile] * 2, "block": [tile, tile], "args": {"n": size},
        "defines": {"TILE": tile}, "options": registers,
    }  # fmt: skip


def convolution(c: Any) -> dict[str, Any]:
    step = (c["block_size_x"] * c["tile_size_x"], c["block_size_y"] * c["tile_size_y"])
    return {
        "grid": cover((4096, 4096), step), "block": [c["block_size_x"], c["block_size_y"]],
        "defines": dict(c),
    }  # fmt: skip


SPACES = {
    "25-point star: block shape": Space(
        "examples/kernels/star3d25pt.cu",
        {"x": [256, 128, 64, 32, 16, 8], "y": [1, 2, 4, 8, 16], "z": [1, 2, 4, 8]},
        star,
    ),
    "7-point star: plain or marching, block shape": Space(
        "validation/kernels/stencils.cu",
        {
            "kernel": ["star3d", "star3d_march"],
            "x": [256, 128, 64, 32, 16], "y": [1, 2, 4, 8, 16],
        },
        seven_points,
    ),
    "transpose: variant, rows of threads": Space(
        "examples/kernels/transpose.cu",
        {
            "kernel": ["transpose_naive", "transpose_tiled", "transpose_padded"],
            "y": [32, 16, 8, 4, 2, 1],
        },
        transpose,
    ),
    "matrix product: tile, limit of registers": Space(
        "examples/kernels/matmul.cu",
        {"TILE": [4, 8, 16, 32], "registers": [0, 32, 24]},
        product_of_matrices,
    ),
    "15 × 15 convolution: block, tile": Space(
        "examples/kernels/convolution.cu",
        {
            "block_size_x": [16, 32, 64], "block_size_y": [2, 4, 8],
            "tile_size_x": [1, 2, 4], "tile_size_y": [1, 2, 4],
        },
        convolution,
    ),
}  # fmt: skip


class Oracle:
    """Answers from the server, with their number and size."""

    def __init__(self, server: Server, space: Space) -> None:
        self.server, self.space = server, space
        self.answers: dict[str, dict[str, Any]] = {}
        self.bytes = 0

    def ask(self, configuration: Configuration) -> dict[str, Any]:
        """The answer for a configuration; one that cannot be launched takes forever."""
        key = json.dumps(configuration)
        if key not in self.answers:
            question = {"source": Path(self.space.source).name, "device": "a100"}
            self.server.write("predict", question | self.space.question(configuration))
            answer = self.server.read()
            self.bytes += len(json.dumps(answer))
            self.answers[key] = answer.get("result") or {"time": float("inf"), **answer}
        return self.answers[key]


def tune(space: Space, oracle: Oracle) -> dict[str, Any]:
    """The answer for the configuration that the agent ends with."""
    best = {name: values[0] for name, values in space.choices.items()}
    while oracle.ask(best)["time"] == float("inf") or oracle.ask(best)["headroom"] > ENOUGH:
        fastest = min(space.neighbours(best), key=lambda c: oracle.ask(c)["time"])
        if oracle.ask(fastest)["time"] >= oracle.ask(best)["time"]:
            break
        best = dict(fastest)
    return {"configuration": best, **oracle.ask(best)}


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kernel, space in SPACES.items():
            shutil.copy(REPOSITORY / space.source, folder)
            server = Server(folder)
            oracle = Oracle(server, space)
            start = perf_counter()
            final = tune(space, oracle)
            seconds, asked, size = perf_counter() - start, len(oracle.answers), oracle.bytes
            first = next(iter(oracle.answers.values()))
            everything = [oracle.ask(c)["time"] for c in space.configurations()]
            rows.append(
                (
                    kernel, len(everything), asked, f"{seconds:.1f}", size // asked,
                    f"{first['time'] / final['time']:.2f}",
                    f"{min(everything) / final['time']:.1%}",
                    f"{final['headroom']:.2f}", final["confidence"],
                    " ".join(f"{k}={v}" for k, v in final["configuration"].items()),
                )
            )  # fmt: skip
            server.close()
    heads = (
        "kernel", "configurations", "questions", "seconds", "bytes an answer", "speedup",
        "of the optimum", "headroom", "confidence", "ends with",
    )  # fmt: skip
    print(tabulate(rows, heads, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
