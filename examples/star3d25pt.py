"""The range-four 3D 25-point star stencil of the Warpspeed paper (§5.2)."""

import perfassert as pa

DOMAIN = (640, 512, 512)
"""Updates in x, y and z."""
REACH = 4


def star3d25pt(domain=DOMAIN, fold=(1, 1)):
    """The kernel for a domain (nx, ny, nz); ``fold``: updates per thread in (y, z)."""
    nx, ny, nz = domain
    fold_y, fold_z = fold
    shape = (nz, ny, nx)
    sources, targets = {}, []
    for j in range(fold_y):
        for k in range(fold_z):
            for dz, dy, dx in star():
                sources[f"src[{fold_z} * z + {k + dz}, {fold_y} * y + {j + dy}, x + {dx}]"] = None
            targets.append(f"dst[{fold_z} * z + {k}, {fold_y} * y + {j}, x]")
    updates = fold_y * fold_z
    return pa.Kernel.from_accesses(
        name="star3d25pt" if updates == 1 else f"star3d25pt_{fold_y}y{fold_z}z",
        fields=[pa.Field(name, "float64", shape, halo=REACH) for name in ("src", "dst")],
        loads=list(sources),
        stores=targets,
        flops=25 * updates,
        registers=32,
        updates_per_thread=updates,
    )


def star(reach=REACH):
    """The offsets (z, y, x) of a star, its center first."""
    yield (0, 0, 0)
    for distance in (*range(-reach, 0), *range(1, reach + 1)):
        yield (distance, 0, 0)
        yield (0, distance, 0)
        yield (0, 0, distance)


def threads(domain=DOMAIN, fold=(1, 1)):
    """The domain in threads, for ``Launch.cover``."""
    return (domain[0], domain[1] // fold[0], domain[2] // fold[1])
