"""Random kernels whose guards and trip counts depend on blocks, threads and arguments.

``guarded(seed, number)`` is always the same one. Nothing depends on data, so that executing every
block says what the launch does.
"""

from dataclasses import dataclass
from random import Random

import perfassert as pa

SIZE = 1 << 22
PREAMBLE = 'extern "C" __global__ void {name}(const float* a, float* out, int n, int m)\n'


@dataclass(frozen=True)
class Guarded:
    """A kernel and one launch of it."""

    name: str
    text: str
    launch: pa.Launch


def guarded(seed, number):
    """The kernel of that number."""
    draw = Random(f"{seed}/{number}")
    block = draw.choice([(32, 1), (64, 1), (128, 1), (256, 1), (32, 4), (16, 16), (96, 1)])
    two = block[1] > 1 or draw.random() < 0.4
    grid = (draw.choice([5, 37, 64, 97, 128]), draw.choice([1, 3, 16, 19]) if two else 1)
    n, m = draw.randint(1, grid[0] * block[0]), draw.randint(1, 40)
    lines = [
        "  int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;",
        "  int i = bx * blockDim.x + tx, j = by * blockDim.y + ty;",
        "  int w = gridDim.x * blockDim.x, at = j * w + i; float v = 0.f;",
    ]
    for _ in range(draw.randint(1, 3)):
        lines += statement(draw, block, grid, draw.random() < 0.75)
    lines.append("  out[at] = v;")
    name = f"guarded_{number}"
    text = PREAMBLE.format(name=name) + "{\n" + "\n".join(lines) + "\n}\n"
    args = {"a": pa.Buffer((SIZE,)), "out": pa.Buffer((SIZE,)), "n": n, "m": m}
    return Guarded(name, text, pa.Launch(grid, block, args))


def statement(draw, block, grid, guard):
    body = loop(draw) if draw.random() < 0.7 else [f"    v += a[{place(draw)}];"]
    return [f"  if ({condition(draw, block, grid)}) {{", *body, "  }"] if guard else body


def loop(draw):
    start = draw.choice(["0", "0", "0", "bx", "tx", "ty", "bx % 7", "tx / 32"])
    end = draw.choice(["m", "17", "64", "bx + 1", "m + tx", "tx + 1", "by * 3 + 2", "min(bx, m)"])
    step = draw.choice(["1", "1", "1", "3", "blockDim.x"])
    inside = draw.choice(["v += a[k * w + at];", "v = v * 1.01f + k;", "v += a[at + k];"])
    return ["#pragma unroll 1", f"    for (int k = {start}; k < {end}; k += {step}) {inside}"]


def place(draw):
    return draw.choice(["at", "j", "i", "2 * at", "at + m", "bx", "(j * 33 + i) * 2"])


def condition(draw, block, grid):
    part = draw.choice([modulo, exactly, threshold, diagonal, of_thread, of_argument])
    text = part(draw, block, grid)
    if draw.random() < 0.25:
        other = draw.choice([modulo, threshold, of_thread])(draw, block, grid)
        text = f"({text}) {draw.choice(['&&', '||'])} ({other})"
    return text


def modulo(draw, block, grid):
    of = draw.choice([2, 3, 4, 5, 7, 8, 12, 16])
    return f"{draw.choice(['bx', 'bx', 'by', 'bx + by'])} % {of} == {draw.randrange(of)}"


def exactly(draw, block, grid):
    axis = draw.choice([0, 0, 1])
    return f"{'by' if axis else 'bx'} == {draw.randrange(grid[axis])}"


def threshold(draw, block, grid):
    return draw.choice(
        ["bx < {0}", "bx >= {0}", "bx >= gridDim.x - 1", "i < {1}", "j > {2}"]
    ).format(draw.randrange(grid[0]), draw.randrange(grid[0] * block[0]), draw.randrange(grid[1]))


def diagonal(draw, block, grid):
    return draw.choice(["bx >= by", "bx + by < {0}", "i > j", "((bx ^ by) & 1) == 0"]).format(
        draw.randrange(sum(grid))
    )


def of_thread(draw, block, grid):
    return draw.choice(
        ["tx < {0}", "tx % {1} == 0", "(ty * blockDim.x + tx) / 32 == 1", "tx == 0", "ty < 2"]
    ).format(draw.randrange(1, block[0] + 1), draw.randint(2, 5))


def of_argument(draw, block, grid):
    return draw.choice(["i < n", "bx < m", "n > {0}", "bx % (m + 1) == 0"]).format(
        draw.randrange(2000)
    )
