"""The oracle: enumerates every thread and evaluates every expression, slowly and plainly."""

from itertools import product


class Index:
    """``threadIdx`` and its like, for evaluating an expression's text with Python itself."""

    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z


def block_order(grid):
    """Blocks in launch order, x fastest."""
    for z, y, x in product(*(range(n) for n in reversed(grid))):
        yield (x, y, z)


def threads_of(launch, block):
    """Unmasked threads of one block in warp order: (linear index, names)."""
    nx, ny, nz = launch.block
    for linear, (tz, ty, tx) in enumerate(product(range(nz), range(ny), range(nx))):
        x, y, z = (b * n + t for b, n, t in zip(block, launch.block, (tx, ty, tz), strict=True))
        if all(p < e for p, e in zip((x, y, z), launch.extent, strict=True)):
            yield linear, {
                "x": x, "y": y, "z": z,
                "threadIdx": Index(tx, ty, tz), "blockIdx": Index(*block),
                "blockDim": Index(*launch.block), "gridDim": Index(*launch.grid),
                **dict(launch.scalar_args()),
            }  # fmt: skip


def subscripts_of(text):
    """The code of what stands in the brackets of ``name[…]``, a tuple."""
    return compile(text[text.index("[") :].replace("[", "(", 1)[:-1] + ",)", text, "eval")


def address(field, code, names):
    """Byte address of one access, where element [0, …] lies at the field's offset."""
    place = zip(eval(code, {}, names), field.strides, strict=True)
    return field.offset + sum(s * stride for s, stride in place)


def addresses(kernel, field, texts, launch, blocks):
    """The set of addresses at which ``blocks`` access the field through ``texts``."""
    own = kernel.fields[field]
    codes = [subscripts_of(text) for text in texts]
    return {
        address(own, code, names)
        for block in blocks
        for _, names in threads_of(launch, block)
        for code in codes
    }


def granules(starts, item_bytes, granularity):
    """The set of granules that items at these addresses touch."""
    found = set()
    for start in starts:
        found.update(range(start // granularity, (start + item_bytes - 1) // granularity + 1))
    return found


def touched(kernel, field, texts, launch, blocks, granularity):
    """The set of granules that ``blocks`` touch through ``texts``."""
    starts = addresses(kernel, field, texts, launch, blocks)
    return granules(starts, kernel.fields[field].item_bytes, granularity)


def warp_sectors(kernel, field, texts, launch, sector=32, warp_size=32):
    """Sectors per warp instruction, summed over all warps of the launch."""
    total = 0
    codes = [subscripts_of(text) for text in texts]
    for block in block_order(launch.grid):
        warps = {}
        for linear, names in threads_of(launch, block):
            warps.setdefault(linear // warp_size, []).append(names)
        for lanes in warps.values():
            for code in codes:
                own = kernel.fields[field]
                total += len({address(own, code, names) // sector for names in lanes})
    return total
