"""Threads and addresses as integer sets (islpy), for exact bounds; the tests use them as oracle.

The text passed to isl is built from integers of this package, never from user input.
"""

from __future__ import annotations

from threading import Lock

import islpy

from perfassert.kernel.affine import Affine, Quotient
from perfassert.kernel.expression import AXES
from perfassert.kernel.launch import Launch

_NAMES = {f"{kind}Idx.{a}": f"{kind[0]}{a}" for kind in ("thread", "block") for a in AXES}
SPACE = "[tx, ty, tz, bx, by, bz]"
_ISL_LOCK = Lock()  # isl is not thread-safe, and free-threaded Python does not serialize the calls


def ends(form: Affine, launch: Launch) -> tuple[int, int]:
    """Return the least and the greatest value of a form among the threads of a launch."""
    with _ISL_LOCK:
        return _ends(islpy.PwAff(as_isl(form)).intersect_domain(thread_set(launch)))


def _ends(values: islpy.PwAff) -> tuple[int, int]:
    return values.min_val().to_python(), values.max_val().to_python()


def _format_affine(form: Affine) -> str:
    parts = [str(form.constant)]
    for symbol, coefficient in form.terms:
        if isinstance(symbol, Quotient):
            parts.append(
                f"{coefficient} * floor(({_format_affine(symbol.dividend)}) / {symbol.divisor})"
            )
        elif isinstance(symbol, str):
            parts.append(f"{coefficient} * {_NAMES[symbol]}")
        else:
            raise AssertionError("hand-written expressions have no calls")
    return " + ".join(parts)


def as_isl(form: Affine) -> str:
    """Return a form as an isl function of thread and block indices, global coordinates split."""
    return f"{{ {SPACE} -> [({_format_affine(form)})] }}"


def thread_set(launch: Launch) -> islpy.Set:
    """Return the set of all unmasked threads of the launch."""
    rules = []
    for i, axis in enumerate(AXES):
        block, grid, extent = launch.block[i], launch.grid[i], launch.extent[i]
        rules.append(f"0 <= t{axis} < {block} and 0 <= b{axis} < {grid}")
        rules.append(f"t{axis} + {block} * b{axis} < {extent}")
    return islpy.Set(f"{{ {SPACE} : {' and '.join(rules)} }}")
