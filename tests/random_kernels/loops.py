"""Kinds of kernels with loops: over the grid, in threads, along rows, with shared memory."""

from .expressions import INT, UNSIGNED, Extremum, Literal, Rejected, all_of
from .program import Declare, Exchange, For, If, Load, Pointer, Shared, Synchronise, Target, Text


def grid_stride(draw):
    """Loops over the grid, over elements or over rows and columns."""
    draw.launch(1)
    kernel = draw.kernel
    times = draw.between(1, 5)
    n = max(1, draw.extent(0) * times - draw.between(0, draw.extent(0)))
    size = draw.number("n", n)
    step = draw.own("gridDim", 0) * draw.own("blockDim", 0)
    if draw.chance(0.4):
        step = draw.declared("step", step)
    fields = [draw.field("a") for _ in range(draw.between(1, 3))]
    out = draw.field("out", written=True)
    pitch = draw.pick([1, 1, 2, 3])
    columns = draw.number("columns", draw.pick([16, 32, 33, 100]))
    far = draw.number("far", draw.between(0, 100))

    def parts(i):
        inner = [Text("sum = 0.0f;")]
        for field in fields:
            index = draw.pick([
                i, i * pitch, i + far, i // columns, i % columns, i % columns * 64 + i // columns,
                Extremum("min", i + 1, size - 1),
            ])  # fmt: skip
            inner.append(draw.load(field, index))
        return [*inner, draw.store(out, i)]

    if kernel.block_size * kernel.blocks * times > 16384:
        raise Rejected("too large")
    return draw.finish(
        [draw.loop(size, parts, start=draw.place(0), step=step, type_=draw.index, over_grid=True)]
    )


def loops(draw):
    """Draw a kernel whose threads loop over constant, given and thread-dependent bounds."""
    draw.launch(draw.pick([1, 1, 2]))
    i = draw.declared("i", draw.place(0))
    size = max(1, draw.extent(0) - draw.between(0, 9))
    n = draw.number("n", size)
    trips = draw.between(1, 20)
    bound = Literal(trips) if draw.chance(0.4) else draw.number("trips", trips)
    fields = [draw.field("a") for _ in range(draw.between(1, 3))]
    out = draw.field("out", written=True)
    row = draw.own("blockIdx", 1) * draw.own("blockDim", 1) + draw.own("threadIdx", 1)
    shape = draw.pick(["rows", "columns", "both", "triangle", "skip", "nest", "powers", "store"])
    m = draw.number("m", draw.pick([7, 16, 64, 100]))

    def index(k, field):
        return draw.pick([
            i * trips + k, k * n + i, (i + k * 3) % m, i + k, (k + row) * n + i, i // 4 * m + k,
        ])  # fmt: skip

    def body(k):
        inner = [draw.load(field, index(k, field)) for field in fields]
        if shape == "skip":
            test = (k & 1).equals(0) if draw.chance(0.5) else k + i < m + 20
            return [If(test, inner)]
        if shape == "nest":
            again = draw.between(1, 5)
            more = Literal(again) if draw.chance(0.5) else draw.number("again", again)
            far = draw.pick([1, 5, 32])
            parts = lambda j: [draw.load(fields[0], i + k * m + j * far)]  # noqa: E731
            return [*inner, draw.loop(more, parts, name="j")]
        if shape == "store":
            return [*inner, draw.store(out, k * n + i if draw.chance(0.6) else i * trips + k)]
        return inner

    start, end, step = Literal(0), bound, None
    if shape == "triangle":
        end = draw.pick([
            Extremum("min", i + 1, bound), draw.own("threadIdx", 0) % 7 + 1, i % 5 + 1,
            draw.own("blockIdx", 0) % 4 + 1,
        ])  # fmt: skip
    elif shape == "columns":
        step = draw.pick([Literal(2), Literal(3), draw.number("step", 2)])
    elif shape == "rows" and draw.chance(0.3):
        start = draw.number("start", draw.between(0, 3))
    operator = "+"
    if shape == "powers":
        start, step, operator = Literal(1), Literal(2), "*"
        if draw.chance(0.5):
            step, operator = Literal(1), "<<"
    inner = [draw.loop(end, body, start=start, step=step, operator=operator)]
    if shape != "store":
        inner.append(draw.store(out, i + row * draw.number("pitch", draw.extent(0) + 5)))
    return draw.finish(draw.guard([(i, n)], inner))


def block_per_row(draw):
    """A block goes along a row in steps of its width."""
    draw.launch(1)
    columns = draw.between(1, 4) * draw.kernel.block[0] - draw.between(0, 20)
    width = draw.number("columns", max(1, columns))
    pitch = draw.number("pitch", max(1, columns) + draw.pick([0, 1, 16]))
    a, out = draw.field("a"), draw.field("out", written=True)
    b = draw.field("b") if draw.chance(0.5) else None
    row = draw.own("blockIdx", 0)
    if draw.chance(0.6):
        row = draw.declared("row", row)
    pointer = None
    if draw.chance(0.5):
        pointer = Pointer(draw.new("line"), a, row * pitch)
        draw.kernel.body.append(pointer)

    def parts(c):
        place = c if pointer else row * pitch + c
        inner = [draw.load(a, place, pointer.name if pointer else "")]
        if b:
            inner.append(draw.load(b, c))
        return [*inner, draw.store(out, row * pitch + c)]

    start = draw.own("threadIdx", 0)
    step = draw.own("blockDim", 0)
    if draw.chance(0.3):
        step = Literal(draw.kernel.block[0])
    return draw.finish([draw.loop(width, parts, start=start, step=step, name="c")])


def tiled(draw):
    """Tiles in shared memory: a product of matrices, a transposition, a line with halo."""
    shape = draw.pick(["product", "transpose", "line", "reduction"])
    if shape == "reduction":
        return _reduction(draw)
    side = draw.pick([8, 16, 4, 32])
    kernel = draw.kernel
    x, y = draw.own("threadIdx", 0), draw.own("threadIdx", 1)
    if shape == "line":
        draw.launch(1)
        width = kernel.block[0]
        tile = Shared("tile", width + 2)
        i = draw.declared("i", draw.place(0))
        n = draw.number("n", draw.extent(0) - draw.between(0, width - 1))
        a, out = draw.field("a"), draw.field("out", written=True)
        t = draw.declared("t", x, INT)
        clear = Text("sum = 0.0f;")
        left, right = draw.load(a, i), draw.load(a, Extremum("max", i, Literal(1)) - 1)
        return draw.finish([
            tile, If(i < n, [left]), Exchange(tile, t + 1, True), clear,
            If(all_of([t.equals(0), i < n]), [right, Exchange(tile, Literal(0), True)]),
            Synchronise(), clear,
            If(i < n, [Exchange(tile, t, False), Exchange(tile, t + 1, False), draw.store(out, i)]),
        ])  # fmt: skip
    tiles = draw.between(1, 3)
    rows = side if shape == "product" or side < 8 else draw.pick([side, side // 4])
    kernel.block = (side, rows, 1)
    kernel.grid = (draw.between(1, 3), draw.between(1, 3), 1)
    tile = Shared("tile", side * (side + 1))
    column = draw.declared("column", draw.own("blockIdx", 0) * Literal(side) + x)
    row = draw.declared("row", draw.own("blockIdx", 1) * Literal(side) + y)
    if shape == "transpose":
        width, height = side * kernel.grid[0], side * kernel.grid[1]
        w, h = draw.number("w", width), draw.number("h", height)
        a, out = draw.field("a"), draw.field("out", written=True)
        inside = lambda j: [  # noqa: E731
            Text("sum = 0.0f;"), draw.load(a, (row + j) * w + column),
            Exchange(tile, (y + j) * (side + 1) + x, True),
        ]  # fmt: skip
        from_x = draw.declared("fx", draw.own("blockIdx", 1) * Literal(side) + x)
        from_y = draw.declared("fy", draw.own("blockIdx", 0) * Literal(side) + y)
        outside = lambda j: [  # noqa: E731
            Text("sum = 0.0f;"), Exchange(tile, x * (side + 1) + y + j, False),
            draw.store(out, (from_y + j) * h + from_x),
        ]  # fmt: skip
        step = Literal(rows)
        return draw.finish([
            tile, draw.loop(Literal(side), inside, step=step), Synchronise(),
            draw.loop(Literal(side), outside, step=step),
        ])  # fmt: skip
    other = Shared("other", side * (side + 1))
    inner = draw.number("inner", side * tiles)
    width = draw.number("width", side * kernel.grid[0])
    a, b, out = draw.field("a", "float"), draw.field("b", "float"), draw.field("out", written=True)
    one, two = Declare("unused", INT, Literal(0)), Text("float part = 0.0f, more = 0.0f;")

    def body(k):
        first = Load(Target(a, row * inner + (k * side + x)), into="part")
        second = Load(Target(b, (k * side + y) * width + column), into="more")
        add = draw.loop(Literal(side), lambda j: [
            Exchange(tile, y * (side + 1) + j, False), Exchange(other, j * (side + 1) + x, False),
        ], name="j")  # fmt: skip
        return [
            two, first, second, Exchange(tile, y * (side + 1) + x, True, "part"),
            Exchange(other, y * (side + 1) + x, True, "more"), Synchronise(), add, Synchronise(),
        ]  # fmt: skip

    count = Literal(tiles) if draw.chance(0.3) else inner // side
    return draw.finish([
        tile, other, one, draw.loop(count, body, type_=INT, name="k"),
        draw.store(out, row * width + column),
    ])  # fmt: skip


def _reduction(draw):
    """Sums of blocks: a loop over the grid, then halves of the threads in shared memory."""
    draw.launch(1)
    kernel = draw.kernel
    width = draw.pick([32, 64, 128, 256])
    kernel.block = (width, 1, 1)
    tile = Shared("tile", width)
    x = draw.own("threadIdx", 0)
    i = draw.place(0)
    n = draw.number("n", draw.extent(0) * draw.between(1, 3) - draw.between(0, width))
    a, out = draw.field("a"), draw.field("out", written=True)
    step = draw.own("blockDim", 0) * draw.own("gridDim", 0)
    half = Literal(width // 2) if draw.chance(0.4) else draw.own("blockDim", 0) // 2
    t = draw.declared("t", x, draw.pick([INT, UNSIGNED]))
    halves = For(
        draw.new("half"), t.type, half, lambda s: s > 0, Literal(1),
        lambda s: [If(t < s, [Exchange(tile, t + s, False), Exchange(tile, t, True)]),
                   Synchronise()], operator=">>",
    )  # fmt: skip
    return draw.finish([
        tile,
        draw.loop(n, lambda k: [draw.load(a, k)], start=i, step=step, type_=draw.index,
                  over_grid=True),
        Exchange(tile, t, True), Synchronise(), halves,
        If(t.equals(0), [draw.store(out, draw.own("blockIdx", 0) * 1)]),
    ])  # fmt: skip
