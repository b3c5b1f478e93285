"""Launches: the grid, the block and the arguments with which a kernel is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from types import MappingProxyType
from typing import Any, Union

from perfassert.errors import LaunchError, in_short
from perfassert.kernel.buffer import Buffer as Buffer
from perfassert.kernel.buffer import Share
from perfassert.quantity import to_integer, to_integers
from perfassert.shipped import model_extents, model_integer

Extent = Union[int, Sequence[int]]
Args = Union[Mapping[str, Any], Sequence[Any]]


@dataclass(frozen=True, slots=True, init=False)
class Launch:
    """Grid, block and arguments with which a kernel is started.

    Extents are in (x, y, z) order, whereas the shapes of fields are in C order. A number or a
    shorter tuple is padded with 1. ``Launch(...)`` runs all threads of the grid; :meth:`cover`
    masks the threads outside a domain.

    Args:
        grid: blocks in (x, y, z); at most 2³¹ - 1 in x, 65,535 in y and z.
        block: threads of a block in (x, y, z); at most 1024 in x and y, 64 in z, 1024 together.
        args: kernel parameters, a mapping by name or a sequence by position. Values: integers,
            floats for float parameters, ``None`` for a null pointer, a :class:`Buffer` or an array
            (a buffer that holds it), a :class:`TensorMap`, structures as ``ctypes.Structure``,
            numpy structured scalars, bytes, or mappings by member. Default: none.
        shared_bytes: dynamic shared memory of a block, in bytes. Default: 0.
        domain: threads in (x, y, z); those outside are masked. Default (None): none is masked.
        cluster: blocks of a thread-block cluster in (x, y, z), at most 16, which must divide the
            grid. Default: 1.

    Raises:
        LaunchError: an extent that is not one to three integers above 0, a grid, block or cluster
            that CUDA launches on no device, a grid that is no multiple of the cluster, or ``args``
            of another kind.

    Example:
        >>> import perfassert as pa
        >>> launch = pa.Launch.cover(domain=(640, 500), block=(32, 8), args={"n": 1 << 20})
        >>> launch.grid, launch.blocks, launch.threads
        ((20, 63, 1), 1260, 320000)
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: Mapping[str, Any] | tuple[Any, ...]
    shared_bytes: int
    domain: tuple[int, int, int] | None
    cluster: tuple[int, int, int]

    def __init__(
        self,
        grid: Extent,
        block: Extent,
        args: Args | None = None,
        shared_bytes: int = 0,
        *,
        domain: Extent | None = None,
        cluster: Extent = 1,
    ) -> None:
        frozen: Any
        if args is None or isinstance(args, Mapping):
            frozen = MappingProxyType({name: plain_value(a) for name, a in (args or {}).items()})
        elif isinstance(args, Sequence) and not isinstance(args, str) and len(args) <= _MOST_ARGS:
            frozen = tuple(map(plain_value, args))
        else:
            raise LaunchError(f"args must be a mapping by name or a sequence, not {in_short(args)}")
        object.__setattr__(self, "grid", extent("grid", grid))
        object.__setattr__(self, "block", extent("block", block))
        object.__setattr__(self, "args", frozen)
        shared = to_integer(shared_bytes, "shared_bytes", LaunchError, minimum=0)
        object.__setattr__(self, "shared_bytes", shared)
        object.__setattr__(self, "domain", None if domain is None else extent("domain", domain))
        object.__setattr__(self, "cluster", extent("cluster", cluster))
        _check_size("the grid has", self.grid, "blocks", _GRID_LIMITS)
        _check_size("the block has", self.block, "threads", _BLOCK_LIMITS, _MAX_BLOCK_THREADS)
        _check_size("the cluster has", self.cluster, "blocks", _GRID_LIMITS, _MAX_CLUSTER_BLOCKS)
        if any(n % c for n, c in zip(self.grid, self.cluster, strict=True)):
            shown = map(_by, (self.grid, self.cluster))
            raise LaunchError("a grid of {} blocks is no multiple of clusters of {}".format(*shown))

    @classmethod
    def cover(
        cls,
        domain: Extent,
        block: Extent,
        args: Args | None = None,
        shared_bytes: int = 0,
        *,
        cluster: Extent = 1,
    ) -> Launch:
        """Return a launch with the smallest grid that covers a domain.

        Threads outside the domain are masked, as by ``if (x >= nx) return;``. They access nothing
        and do not count in volumes per thread and per update.

        Args:
            domain: extents to cover in (x, y, z), counted in threads.
            block: threads of a block in (x, y, z).
            args: kernel parameters, as in the constructor. Default: none.
            shared_bytes: dynamic shared memory of a block, in bytes. Default: 0.
            cluster: blocks of a cluster; the grid is a multiple of it. Default: 1.

        Returns:
            The launch, whose :attr:`domain` is set.

        Raises:
            LaunchError: as of the constructor, and for a domain that needs too large a grid.

        Example:
            >>> import perfassert as pa
            >>> launch = pa.Launch.cover(domain=(1000, 500), block=(32, 8))
            >>> launch.grid, launch.extent, launch.threads
            ((32, 63, 1), (1000, 500, 1), 500000)
        """
        covered, shape, unit = (
            extent("domain", domain), extent("block", block), extent("cluster", cluster)
        )  # fmt: skip
        grid = tuple(-(-n // (b * c)) * c for n, b, c in zip(covered, shape, unit, strict=True))
        subject = f"a domain of {_by(covered)} threads in blocks of {_by(shape)} needs"
        _check_size(subject, grid, "blocks", _GRID_LIMITS)
        return cls(grid, shape, args, shared_bytes, domain=covered, cluster=unit)

    @classmethod
    def looping(cls, launch: Launch, grid: tuple[int, ...], domain: Extent) -> Launch:
        """Return a launch whose grid has one block for each iteration of a grid-stride loop.

        Args:
            launch: the launch as it is started.
            grid: blocks in (x, y, z); their number may exceed the limits of a grid.
            domain: threads in (x, y, z); those outside are masked.
        """
        made = cls(1, launch.block, launch.args, launch.shared_bytes, domain=domain)
        object.__setattr__(made, "grid", grid)
        return made

    def freeze(self, share: Share) -> Launch:
        """Return the launch with the current contents of its buffers; see :meth:`Buffer.freeze`.

        Args:
            share: see :data:`Share`; launches with equal contents can share one array.
        """
        args = self.args
        frozen = (
            {name: _freeze_value(value, share) for name, value in args.items()}
            if isinstance(args, Mapping)
            else tuple(_freeze_value(value, share) for value in args)
        )
        made = object.__new__(Launch)
        for name in self.__slots__:
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(
            made, "args", MappingProxyType(frozen) if isinstance(frozen, dict) else frozen
        )
        return made

    def __hash__(self) -> int:
        return hash((self.grid, self.block, self.shared_bytes, self.domain, self.cluster))

    def __reduce__(self) -> tuple[Any, ...]:
        args = dict(self.args) if isinstance(self.args, Mapping) else self.args
        more = (self.shared_bytes, self.domain, self.cluster)
        return (_rebuild, (self.grid, self.block, args, *more))

    @property
    def clustered(self) -> bool:
        """True if thread-block clusters have more than one block."""
        return self.cluster != (1, 1, 1)

    @property
    def blocks(self) -> int:
        """Number of blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads_per_block(self) -> int:
        """Number of threads in a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def extent(self) -> tuple[int, int, int]:
        """Unmasked threads along x, y and z, which is the exclusive end of each coordinate."""
        (gx, gy, gz), (bx, by, bz) = self.grid, self.block
        if self.domain is None:
            return gx * bx, gy * by, gz * bz
        x, y, z = self.domain
        return min(gx * bx, x), min(gy * by, y), min(gz * bz, z)

    @property
    def threads(self) -> int:
        """Number of unmasked threads of the whole launch."""
        x, y, z = self.extent
        return x * y * z

    def working_grid(self, work: Launch) -> tuple[int, int, int]:
        """Return the number of blocks in each direction that have an unmasked thread.

        Args:
            work: this launch with the guards of its code as a domain.
        """
        # A grid of 40 blocks of 32 threads with the guard x < 1000: ⌈1000 / 32⌉ = 32 blocks.
        reach = zip(self.grid, self.block, work.extent, strict=True)
        return tuple(max(1, min(g, -(-e // b))) for g, b, e in reach)  # type: ignore[return-value]

    def describe(self) -> str:
        """Return grid and block as text: ``"grid 40×256×32, block 16×2×16"``."""
        return f"grid {_by(self.grid)}, block {_by(self.block)}"

    def scalar_args(self) -> Iterator[tuple[str, int]]:
        """Yield named integer arguments with their values: address expressions may use them."""
        if isinstance(self.args, Mapping):
            for name, value in self.args.items():
                if not isinstance(value, bool) and hasattr(value, "__index__"):
                    yield name, index(value)


def _freeze_value(value: Any, share: Share) -> Any:
    if isinstance(value, Buffer):
        return value.freeze(share)
    if isinstance(value, Mapping):
        return {name: _freeze_value(inner, share) for name, inner in value.items()}
    return value


_BYTE_OFFSET = re.compile(r"[0-9]{1,9}")


def member_key(text: str) -> int | str:
    """Return the key of a structure's member from its text: a byte offset, or else a name."""
    return int(text) if _BYTE_OFFSET.fullmatch(text) else text


def plain_value(value: Any) -> Any:
    """Convert an argument: arrays to buffers, structures to bytes, library scalars to numbers."""
    import ctypes

    if isinstance(value, (ctypes.Structure, ctypes.Union, ctypes.Array)):
        return bytes(value)
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if isinstance(value, Mapping):
        return {name: plain_value(inner) for name, inner in value.items()}
    if not hasattr(value, "__array_interface__"):
        return value
    if getattr(value, "ndim", 0) > 0:
        return Buffer(data=value)
    return value.tobytes() if value.dtype.fields else value.item()


def _rebuild(
    grid: Extent,
    block: Extent,
    args: Args,
    shared_bytes: int,
    domain: Extent | None,
    cluster: Extent,
) -> Launch:
    made = Launch(1, block, args, shared_bytes, domain=domain)
    object.__setattr__(made, "grid", grid)
    object.__setattr__(made, "cluster", cluster)
    return made


_MOST_ARGS = 2**12
"""Most arguments of a launch: far more than the parameters of a kernel can be."""
_GRID_LIMITS = model_extents("max_grid")
_BLOCK_LIMITS = model_extents("max_block")
_MAX_BLOCK_THREADS = model_integer("max_block_threads")
_MAX_CLUSTER_BLOCKS = model_integer("max_cluster_blocks")
"""The limits above are those of the CUDA programming model, which no device exceeds.

A device may have lower ones: :func:`~perfassert.hardware.occupancy.check_block`.
"""


def _check_size(
    subject: str, extents: Sequence[int], unit: str, limits: Sequence[int], most: int | None = None
) -> None:
    """Raise :class:`LaunchError` for an extent above its limit, or a product above ``most``."""
    for axis, size, limit in zip("xyz", extents, limits, strict=True):
        if size > limit:
            raise LaunchError(f"{subject} {size} {unit} in {axis}; CUDA launches at most {limit}")
    if most is not None and (count := prod(extents)) > most:
        shape = _by(extents)
        raise LaunchError(f"{subject} {count} {unit} ({shape}); CUDA launches at most {most}")


def _by(extents: Sequence[int]) -> str:
    return "×".join(map(str, extents))


def extent(what: str, value: Extent) -> tuple[int, int, int]:
    """Convert one to three positive integers to three, padded with 1.

    Raises :class:`LaunchError` for anything else.
    """
    numbers = to_integers(value, what, LaunchError, minimum=1)
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"{what} must have one to three numbers, not {in_short(value)}")
    return (*numbers, *(1,) * (3 - len(numbers)))  # type: ignore[return-value]
