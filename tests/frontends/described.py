"""Brute-force addresses of a description: every iteration of every loop of one thread."""

from pathlib import Path

import numpy as np

from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build
from perfassert.kernel.names import Argument, LoopCounter

KERNELS = Path(__file__).parent / "kernels"
AXES = "xyz"


def missing():
    """The first tool that is not installed, or None."""
    return next((t for t in ("nvrtc", "nvdisasm") if tools.find(t) is None), None)


def program_of(file, kernel, arch, **how):
    """The description of a kernel of ``kernels/``."""
    return describe(build(Source(KERNELS / file, "cuda", kernel, **how), arch))


def variables(program, arguments, grid, block, place, thread):
    """Values of coordinates, dimensions and integer arguments, as the description names them."""
    names = {"laneid": (thread[0] + block[0] * (thread[1] + block[1] * thread[2])) % 32}
    for i, axis in enumerate(AXES):
        names |= {f"threadIdx.{axis}": thread[i], f"blockIdx.{axis}": place[i],
                  f"blockDim.{axis}": block[i], f"gridDim.{axis}": grid[i]}  # fmt: skip
    for i, parameter in enumerate(program.parameters):
        names[Argument(i)] = 0 if parameter.pointer else arguments[parameter.name]
    return names


def moved(program, names, space="global"):
    """(bytes loaded, bytes stored) by one thread; raises TypeError for what depends on data."""
    symbols = program.symbols
    total = {"LOAD": 0, "STORE": 0}

    def value(expression, counters):
        known = {n: np.asarray(v) for n, v in {**names, **counters}.items()}
        return int(symbols.evaluate(expression, known))

    for block in program.blocks.values():
        if not any(
            a.space == space
            for i in range(block.start, block.stop)
            for a in program.instructions[i].accesses
        ):
            continue
        for counters in iterations(program, program.chain(block.loop), value):
            if not value(block.condition, counters):
                continue
            for index in range(block.start, block.stop):
                instruction = program.instructions[index]
                if instruction.guard is not None and not value(instruction.guard, counters):
                    continue
                for access in instruction.accesses:
                    if access.space == space:
                        value(access.address, counters)  # it has a closed form
                        total[access.direction.name] += access.bytes
    return total["LOAD"], total["STORE"]


def iterations(program, chain, value):
    """Values of the loop counters under which the innermost loop's body runs."""
    found = [{}]
    for number in chain:
        loop = program.loops[number]
        found = [
            {**counters, LoopCounter(number): i}
            for counters in found
            if value(loop.entry, counters)
            for i in range(value(loop.trips, counters))
        ]
    return found
