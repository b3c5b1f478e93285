"""Draw the figures of docs/explanation from predictions: ``python docs/figures.py [NAME ...]``.

Every number in a figure comes from perfassert. The example kernel is the ``jacobi.cu`` of
``docs/explanation/model.md``. Text and lines take the colour of the page that includes the figure,
so they are legible on light and dark pages; a figure that is opened by itself follows the system.
``tests/docs/test_figures.py`` compares the committed files with what this script draws.
"""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from math import log2
from pathlib import Path

import perfassert as pa
from perfassert.prediction.prediction import Lane

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "explanation"
sys.path.insert(0, str(ROOT / "examples"))

BLUE, ORANGE, GREEN, RED = "#3f83dd", "#d9821b", "#3a9a5b", "#d3473f"
PURPLE, BROWN, GREY = "#a05fc0", "#96806a", "#8b949e"
DEVICE = "A100-SXM4-40GB"
WIDTH = 400
STANDALONE = (
    "<style>svg{color:#1b1f24}@media(prefers-color-scheme:dark){svg{color:#e4e7ea}}</style>"
)


class Picture:
    """An SVG of 400 units in width, so that text of 11 units is legible on a telephone."""

    def __init__(self, height: float, label: str) -> None:
        self.height = height
        self.label = label
        self.parts: list[str] = []

    def add(self, tag: str, content: str | None = None, **attributes: object) -> None:
        """An element; ``_`` in names of attributes is ``-``."""
        words = " ".join(
            f'{key.replace("_", "-")}="{number(value)}"' for key, value in attributes.items()
        )
        self.parts.append(
            f"<{tag} {words}/>" if content is None else f"<{tag} {words}>{content}</{tag}>"
        )

    def text(self, x: float, y: float, words: str, **attributes: object) -> None:
        """Words whose base line begins, or is anchored, at x, y."""
        self.add("text", escape(words), x=x, y=y, **attributes)

    def legend(self, x: float, y: float, entries: Iterable[tuple[str, float, str]]) -> None:
        """A line of text under each other for each colour, opacity, meaning."""
        for i, (color, opacity, words) in enumerate(entries):
            self.add("rect", x=x, y=y + 15 * i - 9, width=10, height=10, fill=color,
                     fill_opacity=opacity)  # fmt: skip
            self.text(x + 15, y + 15 * i, words)

    def svg(self) -> str:
        """The file's text."""
        return "\n".join(
            [
                '<svg xmlns="http://www.w3.org/2000/svg" '
                f'viewBox="0 0 {WIDTH} {number(self.height)}" role="img" '
                f'aria-label="{escape(self.label)}" fill="currentColor" '
                'font-family="system-ui, sans-serif" font-size="11">',
                STANDALONE,
                *self.parts,
                "</svg>\n",
            ]
        )


def number(value: object) -> str:
    """A coordinate with two decimals at most; other values as they are."""
    if isinstance(value, (int, float)):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value))


# --- the example ---------------------------------------------------------------------------------

_SOURCES = Path(tempfile.mkdtemp())  # a prediction reads its source again when it is explained
atexit.register(shutil.rmtree, _SOURCES, ignore_errors=True)
BLOCK = (64, 8)
GRID = (128, 1024)


@cache
def example_source() -> str:
    """The kernel that docs/explanation/model.md shows."""
    page = (FOLDER / "model.md").read_text("utf-8")
    match = re.search(r"<!-- file: jacobi.cu -->\n```cuda\n(.*?)```", page, re.S)
    assert match is not None, "docs/explanation/model.md shows no jacobi.cu"
    return match[1]


@cache
def example() -> pa.Prediction:
    """The prediction that docs/explanation/model.md explains."""
    path = _SOURCES / "jacobi.cu"
    path.write_text(example_source(), "utf-8")
    return pa.predict(pa.from_cuda(path, "jacobi"), pa.Launch(GRID, BLOCK), DEVICE)


def wave() -> Picture:
    """The blocks of a wave on the SMs, in the grid, and what the wave reads."""
    prediction = example()
    device = pa.device(DEVICE)
    per_unit = prediction.occupancy.resident_blocks
    count = per_unit * device.compute_units
    assert prediction.diagnostics["wave_threads"] == count * BLOCK[0] * BLOCK[1]
    first = (prediction.blocks - count) // 2  # the wave in the middle of the grid is evaluated
    units = device.compute_units
    p = Picture(344, f"A wave: {count} blocks on {units} SMs, and in the grid")
    p.text(4, 12, f"{units} SMs with {per_unit} resident blocks each: {count} blocks")
    cells = []
    for unit in range(units):
        x, y = 4 + unit % 27 * 14.6, 20 + unit // 27 * 14.6
        p.add("rect", x=x, y=y, width=13, height=13, fill="none", stroke="currentColor",
              stroke_opacity=0.5, stroke_width=0.6)  # fmt: skip
        cells += [(x + 1.5 + dx, y + 1.5 + dy) for dx in (0, 5.2) for dy in (0, 5.2)][:per_unit]
    marks = "".join(f"M{number(x)} {number(y)}h4.8v4.8h-4.8z" for x, y in cells)
    p.add("path", d=marks, fill=BLUE, fill_opacity=0.75)
    p.text(4, 98, f"The same blocks in the grid of {GRID[0]} × {GRID[1]} blocks. A row of blocks")
    p.text(
        4, 112, f"computes {BLOCK[1]} rows of {GRID[0] * BLOCK[0]} elements; heights are to scale."
    )
    _grid(p, first, count)
    footprint = f"reads and writes {_mega(prediction.diagnostics['wave_footprint_bytes'])}"
    p.legend(
        34,
        287,
        [
            (
                BLUE,
                0.55,
                f"the wave: {count} consecutive blocks; {footprint}",
            ),
            (GREY, 0.45, "y layer: the row of blocks before it"),
            (ORANGE, 1, "element rows that the y layer has loaded already: L2 hits"),
            (RED, 1, "halo below the wave: loaded from DRAM"),
        ],
    )
    return p


def _grid(p: Picture, first: int, count: int) -> None:
    """Rows of blocks around the wave, to scale: 24 units are the 8 rows of an array's block."""
    left, top, wide, tall = 34, 122, 2.8, 24
    columns = GRID[0]
    rows = range(first // columns - 1, first // columns + 5)
    for i, row in enumerate(rows):
        p.text(left - 5, top + i * tall + 16, str(row), text_anchor="end", opacity=0.75)
        p.add("rect", x=left, y=top + i * tall, width=columns * wide, height=tall, fill="none",
              stroke="currentColor", stroke_opacity=0.3, stroke_width=0.5)  # fmt: skip

    def strips(begin: int, end: int) -> list[tuple[float, float, float]]:
        """x, y and width of the parts of rows that blocks begin … end − 1 are."""
        result = []
        for i, row in enumerate(rows):
            low, high = max(begin, row * columns), min(end, (row + 1) * columns)
            if low < high:
                x = left + (low - row * columns) * wide
                result.append((x, top + i * tall, (high - low) * wide))
        return result

    for (begin, end), color, opacity in (
        ((first - columns, first), GREY, 0.45),
        ((first, first + count), BLUE, 0.55),
    ):
        for x, y, width in strips(begin, end):
            p.add("rect", x=x, y=y, width=width, height=tall, fill=color, fill_opacity=opacity)
    point = tall / BLOCK[1]  # a row of the array
    for x, y, width in strips(first, first + columns):  # the wave's upper edge
        p.add("rect", x=x, y=y - point, width=width, height=2 * point, fill=ORANGE)
    for x, y, width in strips(first + count - columns, first + count):  # and its lower one
        p.add("rect", x=x, y=y + tall, width=width, height=point, fill=RED)


def _mega(value: float) -> str:
    return f"{value / 1e6:.2f} MB"


def bytes_per_update() -> Picture:
    """What an update asks for, and what each level of the memory moves for it."""
    prediction = example()
    volumes, updates = prediction.volumes, prediction.updates
    requested = prediction.diagnostics["requested_bytes"] / updates
    levels = [
        ("L1 ↔ warps", requested, float(volumes.l2_store.per_update)),
        ("L2 ↔ L1", float(volumes.l2_load.per_update), float(volumes.l2_store.per_update)),
        ("DRAM ↔ L2", float(volumes.dram_load.per_update), float(volumes.dram_store.per_update)),
    ]
    p = Picture(142, "Bytes per update that are loaded and stored at each level")
    scale = 280 / requested
    for i, (name, load, store) in enumerate(levels):
        y = 8 + 36 * i
        p.text(78, y + 18, name, text_anchor="end")
        for value, color, at in ((load, BLUE, y), (store, ORANGE, y + 14)):
            p.add("rect", x=84, y=at, width=value * scale, height=12, fill=color, fill_opacity=0.7)
            p.text(88 + value * scale, at + 10, f"{value:.2f}".rstrip("0").rstrip("."))
    p.legend(84, 132, [(BLUE, 0.7, "loads, bytes per update")])
    p.legend(290, 132, [(ORANGE, 0.7, "stores")])
    return p


# --- charts --------------------------------------------------------------------------------------

Points = Sequence[tuple[float, float]]
COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED, BROWN)
DASHES = ("none", "6 2", "2 2", "8 2 2 2", "1 3", "12 3")


class Chart:
    """Lines over a horizontal axis; positions are 0 to 1 along each axis."""

    def __init__(self, p: Picture, y: float, height: float, titles: tuple[str, str]) -> None:
        self.p, self.left, self.top, self.wide, self.tall = p, 34.0, y + 14, 356.0, height
        p.text(4, y + 4, titles[1])
        p.text(self.left + self.wide, self.top + height + 28, titles[0], text_anchor="end")

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Coordinates in the picture."""
        return self.left + x * self.wide, self.top + (1 - y) * self.tall

    def ticks(self, across: Iterable[tuple[float, str]], up: Iterable[tuple[float, str]]) -> None:
        """Grid lines with numbers."""
        for position, words in across:
            x, y = self.at(position, 0)
            self._line(x, y, x, self.top)
            self.p.text(x, y + 14, words, text_anchor="middle", opacity=0.75)
        for position, words in up:
            x, y = self.at(0, position)
            self._line(x, y, x + self.wide, y)
            self.p.text(x - 4, y + 4, words, text_anchor="end", opacity=0.75)

    def _line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.p.add("path", d=f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}",
                   stroke="currentColor", stroke_opacity=0.22, stroke_width=0.7)  # fmt: skip

    def line(self, points: Points, style: int) -> None:
        """One of the lines, in the colour and dashes of its number."""
        places = " ".join(",".join(map(number, self.at(x, y))) for x, y in points)
        self.p.add("polyline", points=places, fill="none", stroke=COLORS[style], stroke_width=1.8,
                   stroke_dasharray=DASHES[style])  # fmt: skip

    def names(self, entries: Sequence[str], y: float, columns: int) -> None:
        """The legend below."""
        for i, words in enumerate(entries):
            x = self.left + i % columns * self.wide / columns
            down = y + i // columns * 15
            self.p.add("path", d=f"M{number(x)} {number(down - 4)}h18", stroke=COLORS[i],
                       stroke_width=1.8, stroke_dasharray=DASHES[i])  # fmt: skip
            self.p.text(x + 22, down, words)


def jacobi_accesses(columns: int, rows: int) -> pa.Kernel:
    """The example's stencil by address expressions, for arrays of any width."""
    return pa.Kernel.from_accesses(
        name="jacobi",
        fields=[pa.Field(name, "float64", (rows, columns), halo=1) for name in ("a", "b")],
        loads=["a[y, x]", "a[y, x - 1]", "a[y, x + 1]", "a[y - 1, x]", "a[y + 1, x]"],
        stores=["b[y, x]"],
        flops=5,
        registers=18,
    )


def row_length() -> Picture:
    """DRAM volume of the example over the length of a row, for blocks of several heights."""
    heights = (2, 4, 8, 16)
    widths = [1 << k for k in range(12, 21)]
    p = Picture(250, "DRAM loads per update over the length of a row, for four block heights")
    chart = Chart(p, 8, 168, ("columns of the array", "DRAM loads in bytes per update"))
    chart.ticks(
        [(i / 8, f"{w >> 10}k" if w < 1 << 20 else "1M") for i, w in enumerate(widths)],
        [((v - 6) / 12, str(v)) for v in (8, 10, 12, 16)],
    )
    for style, height in enumerate(heights):
        points = []
        for i, width in enumerate(widths):
            rows = (1 << 26) // width
            launch = pa.Launch.cover((width, rows), (64, height))
            volumes = pa.predict(jacobi_accesses(width, rows), launch, DEVICE).volumes
            points.append((i / 8, (float(volumes.dram_load.per_update) - 6) / 12))
        chart.line(points, style)
    chart.names([f"64 × {h}" for h in heights], 240, 4)
    return p


def layer_condition() -> Picture:
    """DRAM volume of the 25-point star over the size of a plane (figure 23 of the paper)."""
    from layer_condition import loaded

    depths = (1, 2, 4, 8, 16, 32)
    planes = range(64, 1345, 64)
    p = Picture(285, "DRAM loads per update over the extent of a plane, for six block depths")
    chart = Chart(p, 8, 185, ("extent of the square xy plane", "DRAM loads in bytes per update"))
    across = [(n / 1344, str(n)) for n in (256, 512, 768, 1024, 1280)]
    chart.ticks(across, [(v / 80, str(v)) for v in (0, 8, 24, 40, 72)])
    for style, depth in enumerate(depths):
        chart.line([(n / 1344, min(1, loaded(n, depth) / 80)) for n in planes], style)
    chart.names([f"{depth} deep" for depth in depths], 258, 3)
    return p


def boat_hull() -> Picture:
    """Throughput over resident warps for micro-benchmarks of the pipeline paper (Table II)."""
    from boat_hull import DEPENDENT, TABLE_II, cycles

    warps = range(1, 65)
    p = Picture(480, "Cycles per instruction and share of the peak throughput over resident warps")
    device = "C2050"
    upper = Chart(p, 8, 160, ("resident warps", f"{device}: cycles per warp instruction"))
    lower = Chart(p, 222, 160, ("resident warps", "share of the peak throughput"))
    across = [(n / 64, str(n)) for n in (1, 8, 16, 32, 48, 64)]
    upper.ticks(across, [(k / 10, str(1 << k)) for k in (0, 2, 4, 6, 8, 10)])
    lower.ticks(across, [(v, f"{v:.0%}") for v in (0, 0.5, 1)])
    table = TABLE_II[device]
    for style, (operation, (issue, _)) in enumerate(table.items()):
        times = [cycles(device, operation, w) / w / DEPENDENT for w in warps]
        upper.line([(w / 64, log2(t) / 10) for w, t in zip(warps, times, strict=True)], style)
        lower.line([(w / 64, issue / t) for w, t in zip(warps, times, strict=True)], style)
    names = [f"{name}: λ = {i}, Λ = {c}" for name, (i, c) in table.items()]
    lower.names(names, 444, 2)
    return p


# --- warps over time -----------------------------------------------------------------------------

STALLS = {
    "selected": (GREEN, "issues an instruction"),
    "memory_dependency": (ORANGE, "waits for a load"),
    "memory_throttle": (RED, "memory queue is full"),
    "execution_dependency": (BLUE, "waits for arithmetic"),
    "pipe_busy": (PURPLE, "pipeline or issue slot is busy"),
    "not_selected": (BROWN, "another warp issues"),
    "launch": (GREY, "block is being launched"),
}


def warp_timeline() -> Picture:
    """The warps of one scheduler: the first set of blocks, and its first instructions."""
    lanes = example().timeline
    p = Picture(496, "Warps of one scheduler over cycles, coloured by what they do")
    end = next(s.start for s in lanes[0] if s.reason == "drain")
    whole = -(-max(s.end for lane in lanes for s in lane if s.end <= 1.4 * end) // 100) * 100
    p.text(4, 12, f"The {len(lanes)} warps of one scheduler, from the start of the launch")
    _lanes(p, lanes, (0, whole), 20, 11, 300)
    begin = next(s.start for s in lanes[0] if s.reason == "selected")
    y = 20 + 11 * len(lanes) + 44
    p.text(4, y, f"Cycles {begin} to {begin + 120}, eight of these warps")
    _lanes(p, lanes[:8], (begin, begin + 120), y + 8, 13, 20)
    p.legend(34, y + 150, [(color, 0.9, words) for color, words in STALLS.values()])
    p.height = y + 150 + 15 * len(STALLS) - 8
    return p


def _lanes(
    p: Picture, lanes: Sequence[Lane], window: tuple[int, int], y: float, tall: float,
    step: int,
) -> None:  # fmt: skip
    """One row for each warp; the spans of a reason are one path."""
    low, high = window
    scale = (WIDTH - 50) / (high - low)
    paths: dict[str, list[str]] = {}
    for i, lane in enumerate(lanes):
        if i % 5 == 0 or len(lanes) <= 8:
            p.text(28, y + i * tall + tall - 2, str(i), text_anchor="end", opacity=0.75)
        for span in _merged(lane, low, high):
            x, width = 34 + (span[0] - low) * scale, (span[1] - span[0]) * scale
            middle = y + (i + 0.5) * tall
            paths.setdefault(span[2], []).append(f"M{number(x)} {number(middle)}h{number(width)}")
    for reason in STALLS:
        if reason in paths:
            p.add("path", d="".join(paths[reason]), stroke=STALLS[reason][0], stroke_width=tall - 2,
                  stroke_opacity=0.9)  # fmt: skip
    bottom = y + len(lanes) * tall
    for cycle in range(-(-low // step) * step, high + 1, step):
        x = 34 + (cycle - low) * scale
        p.add("path", d=f"M{number(x)} {number(y)}V{number(bottom + 3)}", stroke="currentColor",
              stroke_opacity=0.3, stroke_width=0.5)  # fmt: skip
        p.text(x, bottom + 14, str(cycle), text_anchor="middle", opacity=0.75)
    p.text(WIDTH - 6, bottom + 27, "cycles", text_anchor="end", opacity=0.75)


def _merged(lane: Lane, low: int, high: int) -> list[tuple[int, int, str]]:
    """Spans within a window, neighbours of one reason joined."""
    result: list[tuple[int, int, str]] = []
    for span in lane:
        begin, end = max(span.start, low), min(span.end, high)
        reason = span.reason
        if begin >= end or reason not in STALLS:
            continue
        if result and result[-1][1] == begin and result[-1][2] == reason:
            result[-1] = (result[-1][0], end, reason)
        else:
            result.append((begin, end, reason))
    return result


def blame() -> Picture:
    """Source lines, and arrows from the line that is waited for to the line that waits."""
    waits = [w for w in example().diagnosis.waits if w.line != w.for_line]
    lines = example_source().splitlines()
    shown = range(min(w.for_line for w in waits) - 1, max(w.line for w in waits) + 1)
    y = {line: 22 + 22 * i for i, line in enumerate(shown)}
    p = Picture(
        22 * len(shown) + 34, "Arrows from lines that are waited for to the line that waits"
    )
    for line in shown:
        p.text(92, y[line] + 4, str(line), text_anchor="end", opacity=0.75)
        p.text(98, y[line] + 4, lines[line - 1].strip(), font_family="ui-monospace, monospace",
               font_size=11)  # fmt: skip
    widest = max(w.share for w in waits)
    for w in sorted(waits, key=lambda w: w.share):
        begin, end = y[w.for_line], y[w.line]
        color = STALLS[w.stall][0]
        bend = 72 - 0.36 * abs(end - begin)
        curve = f"M76 {begin}C{number(bend)} {begin} {number(bend)} {end} 68 {end}"
        p.add("path", d=curve, fill="none", stroke=color, stroke_width=1 + 5 * w.share / widest)
        p.text(4, begin + 4, f"{w.share:.1%}")
    p.add("path", d=f"M67 {end - 6}L77 {end}L67 {end + 6}Z", fill=color)
    p.text(4, p.height - 6, "share of all warp samples; the arrow's width is proportional to it")
    return p


FIGURES: dict[str, Callable[[], Picture]] = {
    "wave": wave,
    "bytes-per-update": bytes_per_update,
    "row-length": row_length,
    "layer-condition": layer_condition,
    "boat-hull": boat_hull,
    "warp-timeline": warp_timeline,
    "blame": blame,
}


def path_of(name: str) -> Path:
    """Where a figure is committed."""
    return FOLDER / f"{name}.svg"


if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        path_of(name).write_text(FIGURES[name]().svg(), "utf-8")
        print(f"wrote {path_of(name).relative_to(ROOT)}")
