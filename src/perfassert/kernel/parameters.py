"""Arguments of kernels that users describe: names of integers in accesses and trip counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from perfassert.errors import LaunchError, close_matches, in_short

if TYPE_CHECKING:
    from perfassert.kernel.launch import Launch


def check_arguments(kernel: str, parameters: Collection[str], launch: Launch) -> None:
    """Raise :class:`LaunchError` for an argument that a described kernel does not have.

    Args:
        kernel: its name.
        parameters: names that its accesses and trip counts use.
        launch: with the arguments; one that is missing is reported where it is used.
    """
    listed = f"its parameters: {', '.join(sorted(parameters)) or 'none'}"
    if not isinstance(launch.args, Mapping):
        if launch.args:
            raise LaunchError(
                f"kernel {in_short(kernel)} takes its arguments by name, not by position; {listed}"
            )
        return
    integers = dict(launch.scalar_args())
    for name, value in launch.args.items():
        if name not in parameters:
            near = close_matches(name, parameters) or f"; {listed}"
            raise LaunchError(f"kernel {in_short(kernel)} has no parameter {in_short(name)}{near}")
        if name not in integers:
            raise LaunchError(
                f"argument {name!r} of kernel {in_short(kernel)} must be an integer, not "
                f"{in_short(value)}"
            )
