"""A transposition in Gluon: a tile is read by rows, turned in shared memory, written by rows."""

# ruff: noqa: N803 (constants in capitals, as Triton's authors have them)
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])


@gluon.jit
def transpose(target, source, n, TILE: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr):
    down, along = gl.program_id(0) * TILE, gl.program_id(1) * TILE
    i = gl.arange(0, TILE, layout=gl.SliceLayout(1, rows))
    j = gl.arange(0, TILE, layout=gl.SliceLayout(0, rows))
    tile = gl.load(source + (down + i[:, None]) * n + along + j[None, :])
    turned = gl.convert_layout(tile, columns)
    i = gl.arange(0, TILE, layout=gl.SliceLayout(1, columns))
    j = gl.arange(0, TILE, layout=gl.SliceLayout(0, columns))
    gl.store(target + (along + j[None, :]) * n + down + i[:, None], turned)
