"""Executed blocks whose shared memory is too small: a launch that fails on a device."""

from __future__ import annotations

from perfassert.engines.execution.result import Execution
from perfassert.errors import LaunchError
from perfassert.frontends.cuda.kernels import BuiltCode
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import Space


def require_shared_memory(run: Execution, code: BuiltCode, launch: Launch) -> None:
    """Raise :class:`LaunchError` if executed threads access more shared memory than a block has.

    Addresses that unknown data decides are not considered, nor is a listing, which may not state
    how much it has.
    """
    if code.is_listing:
        return
    beyond = {o.instruction for o in run.outside if o.region == "shared memory"} - set(run.guesses)
    own = run.code.shared_bytes
    needed = own + launch.shared_bytes
    for touch in run.touches:
        if touch.instruction in beyond and touch.memory.space is Space.SHARED:
            last = int(touch.addresses[touch.lanes].max(initial=0))
            needed = max(needed, last + touch.memory.bytes - run.code.shared_base)
    if needed > own + launch.shared_bytes:
        raise LaunchError(
            f"threads access {needed} bytes of shared memory, and a block has {own} of the "
            f"kernel's arrays and {launch.shared_bytes} of the launch: give "
            f"shared_bytes={needed - own}, or fewer threads per block"
        )
