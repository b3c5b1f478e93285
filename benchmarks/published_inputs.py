"""Inputs in the formats and sizes of Rodinia's, which are not in the repositories of its sources.

Values are made up, the same ones each time; where the original is known to have a property that
decides what kernels do, its generator follows it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_SEED = 7


def graph(folder: Path) -> list[str]:
    """A million nodes of two to ten edges, six on average, as Rodinia's graph1MW_6.

    The first node and its neighbours have 256 each, so that the fourth launch, whose contents are
    recorded, is of the widest frontier.
    """
    draw, nodes, wide = random.Random(_SEED), 1_000_000, 256
    degrees = [wide if node <= wide else draw.randint(2, 10) for node in range(nodes)]
    with (folder / "graph.txt").open("w") as out:
        out.write(f"{nodes}\n")
        start = 0
        for degree in degrees:
            out.write(f"{start} {degree}\n")
            start += degree
        out.write(f"\n0\n\n{start}\n")
        out.writelines(f"{n + 1 if n < wide else draw.randrange(nodes)} 1\n" for n in range(start))
    return ["graph.txt"]


def keys(folder: Path) -> list[str]:
    """A million keys, and the queries of Rodinia's command.txt."""
    write_lines(folder / "keys.txt", (1_000_000, *range(1_000_000)))
    (folder / "command.txt").write_text("j 6000 3000 \n k 10000 \n")
    return ["file", "keys.txt", "command", "command.txt"]


def mesh(folder: Path) -> list[str]:
    """97,046 cells with four neighbours each, most of them near, and a boundary."""
    draw, cells, side = random.Random(_SEED), 97_046, 311
    with (folder / "mesh.txt").open("w") as out:
        out.write(f"{cells}\n")
        for cell in range(cells):
            near = (cell - side, cell + 1, cell + side, cell - 1)
            around = [n + 1 if 0 <= n < cells else -1 for n in near]
            normals = [f"{n} {draw.random():.4f} {draw.random():.4f} {draw.random():.4f}"
                       for n in around]  # fmt: skip
            out.write(f"{draw.random():.4f} {' '.join(normals)}\n")
    return ["mesh.txt"]


def video(folder: Path) -> list[str]:
    """Uncompressed grey frames of 656×744."""
    width, height, frames = 656, 744, 10
    frame = random.Random(_SEED).randbytes(width * height)

    def chunk(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    main = struct.pack("<14I", 40_000, 0, 0, 0, frames, 0, 1, 0, width, height, 0, 0, 0, 0)
    stream = struct.pack("<4s4sIHHIIIIIIIIHHHH", b"vids", b"DIB ", 0, 0, 0, 0, 1, 25, 0, frames,
                         0, 0, 0, 0, 0, width, height)  # fmt: skip
    bitmap = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 0, len(frame), 0, 0, 0, 0)
    streams = chunk(b"LIST", b"strl" + chunk(b"strh", stream) + chunk(b"strf", bitmap))
    head = chunk(b"LIST", b"hdrl" + chunk(b"avih", main) + streams)
    body = chunk(b"LIST", b"movi" + chunk(b"00db", frame) * frames)
    (folder / "frames.avi").write_bytes(chunk(b"RIFF", b"AVI " + head + body))
    return ["frames.avi", str(frames)]


def temperatures(folder: Path) -> list[str]:
    """Temperature and power of 512×512 cells; two iterations, in pyramids of two."""
    draw = random.Random(_SEED)
    write_lines(
        folder / "temperature.txt", (f"{300 + 40 * draw.random():.3f}" for _ in range(512**2))
    )
    write_lines(folder / "power.txt", (f"{draw.random() / 100:.6f}" for _ in range(512**2)))
    return ["512", "2", "2", "temperature.txt", "power.txt", "output.txt"]


def symbols(folder: Path) -> list[str]:
    """A MiB of bytes with an entropy of 2.2 bits."""
    weights = [0.62**n for n in range(64)]
    data = bytes(random.Random(_SEED).choices(range(64), weights, k=1 << 20))
    (folder / "symbols.in").write_bytes(data)
    return ["symbols.in"]


def points(folder: Path) -> list[str]:
    """Write as many points of 34 features as kdd_cup has."""
    draw = random.Random(_SEED)
    features = [" ".join(f"{draw.random():.4f}" for _ in range(34)) for _ in range(1000)]
    write_lines(folder / "points.txt", (f"{n} {features[n % 1000]}" for n in range(494_020)))
    return ["-o", "-i", "points.txt"]


def image(folder: Path) -> list[str]:
    """Write a grey image of 502×458 to the place where srad expects it."""
    draw = random.Random(_SEED)
    place = folder / "../../../data/srad"
    place.mkdir(parents=True, exist_ok=True)
    values = " ".join(str(draw.randrange(256)) for _ in range(502 * 458))
    (place / "image.pgm").write_text(f"P2\n502 458\n255\n{values}\n")
    return []


def write_lines(path: Path, lines: Iterable[object]) -> None:
    """Write one item per line."""
    with path.open("w") as out:
        out.writelines(f"{line}\n" for line in lines)


INPUTS: Mapping[str, Callable[[Path], list[str]]] = {
    f.__name__: f for f in (graph, keys, mesh, video, temperatures, symbols, points, image)
}
"""By name: writes the files into a folder, returns the arguments that name them."""
