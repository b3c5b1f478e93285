"""Kernels of this folder, compiled and executed on arrays."""

import struct
from pathlib import Path

import numpy as np
import pytest

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.frontends.machine.lowering import executable
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build
from perfassert.kernel.launch import Launch

HERE = Path(__file__).parent
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")


def built(path, kernel, arch, **more):
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return build(Source(Path(path), "cuda", kernel, **more), arch)


def compiled(path, kernel, arch, **more):
    return executable(built(path, kernel, arch, **more))


def argument(value, slot, name):
    if value is None or isinstance(value, Region):
        return value
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value).view(np.uint8).reshape(-1)
        return Region(name, content, len(content))
    if isinstance(value, float):
        return struct.pack("<f" if slot.size == 4 else "<d", value)
    return struct.pack("<q", value)[: slot.size]


def launched(code, grid, block, arguments, shared=0, blocks=None, **more):
    launch = Launch(grid, block, shared_bytes=shared)
    given = [
        argument(a, slot, f"arg{i}")
        for i, (a, slot) in enumerate(zip(arguments, code.parameters, strict=True))
    ]
    return execute(code, launch, given, range(launch.blocks) if blocks is None else blocks, **more)


def clean(execution):
    """Nothing was guessed, cut, lost, forced or read outside."""
    assert not execution.guesses
    assert not len(execution.cut)
    assert not execution.lost
    assert not execution.forced
    assert not execution.outside
    assert not any(execution.unknown.values())
    return execution


def array(execution, place, dtype):
    return execution.contents[f"arg{place}"].view(dtype)
