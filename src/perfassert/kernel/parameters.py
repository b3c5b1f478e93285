"""Arguments of kernels that users describe: integers in accesses and trip counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from perfassert.errors import LaunchError, in_short

if TYPE_CHECKING:
    from perfassert.kernel.launch import Launch


def check_arguments(kernel: str, parameters: Collection[str], launch: Launch) -> None:
    """Raise :class:`LaunchError` for an argument of a described kernel that is no integer.

    A launch may have further arguments, since kernels of several kinds can share it.

    Args:
        kernel: its name.
        parameters: names that its accesses and trip counts use.
        launch: with the arguments; one that is missing is reported where it is used.
    """
    if not isinstance(launch.args, Mapping):
        return
    integers = dict(launch.scalar_args())
    for name in sorted(parameters):
        if name in launch.args and name not in integers:
            raise LaunchError(
                f"argument {name!r} of kernel {in_short(kernel)} must be an integer, not "
                f"{in_short(launch.args[name])}"
            )
