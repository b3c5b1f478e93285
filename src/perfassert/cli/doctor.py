"""``perfassert doctor``: checks of everything that predictions of compiled code need."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perfassert.cli.command import add_command
from perfassert.errors import PerfAssertError
from perfassert.version import VERSION

_OLDEST = (3, 10)
_EXTRA = "perfassert[cuda]"
_TOOLS = ("nvrtc", "nvdisasm", "ptxas", "nvcc", "cuobjdump")
_HEADERS = {"runtime": "cuda_runtime.h", "cccl": "cuda/std/cstdint", "crt": "crt/host_defines.h"}
_LIBRARIES = {
    "cuBLAS": "cublas_v2.h", "cuFFT": "cufft.h", "cuRAND": "curand_kernel.h",
    "cuSOLVER": "cusolverDn.h", "cuSPARSE": "cusparse.h", "cuDNN": "cudnn.h", "NCCL": "nccl.h",
    "NVTX": "nvtx3/nvToolsExt.h",
}  # fmt: skip
"""Headers of libraries that only files including them need."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check: is something there?

    ``remedy`` is the step that brings it; without a remedy, pip installs ``packages``.
    """

    name: str
    ok: bool
    said: str
    remedy: str = ""
    packages: tuple[str, ...] = ()

    @property
    def step(self) -> str:
        """The remedy, or the pip command."""
        return self.remedy or _pip_command(self.packages)


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "doctor", "check the set-up: compilers, cache, devices",
        "Checks what a prediction needs: compilers and disassemblers with their versions, the "
        "compiled engines, the cache, installed plug-ins. Says what to install where one is "
        "missing.",
        "", "--json", "--fix", "--fix --yes",
    )  # fmt: skip
    parser.add_argument(
        "--fix", action="store_true",
        help="print the one pip command that installs what is missing and makes the compiler and "
        "its headers one release",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="with --fix: run that command")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    checks = tuple(run_checks())
    if options.yes and not options.fix:
        raise PerfAssertError("--yes runs the command of --fix; give both")
    if options.fix:
        return _fix(checks, options.yes)
    if options.json:
        print(json.dumps([asdict(check) for check in checks]))
    else:
        print("\n".join(map(_format_check, checks)))
    return 0 if all(check.ok for check in checks) else 1


def _format_check(check: Check) -> str:
    if check.ok:
        return f"ok       {check.name}: {check.said}"
    return f"missing  {check.name}: {check.said}\n         → {check.step}"


def _pip_command(packages: Sequence[str]) -> str:
    return shlex.join(["pip", "install", *packages])


def _fix(checks: Sequence[Check], run: bool) -> int:
    """Print the pip command for all that fails, or run it; list what pip cannot install."""
    failing = [check for check in checks if not check.ok]
    packages = tuple(dict.fromkeys(p for check in failing for p in check.packages))
    for check in failing:
        if not check.packages:
            print(f"{check.name}: {check.said}: {check.remedy}", file=sys.stderr)
    if not packages:
        print("pip has nothing to fix", file=sys.stderr)
        return int(bool(failing))
    print(_pip_command(packages), flush=True)
    if not run:
        return 1
    return subprocess.run([sys.executable, "-I", "-m", "pip", "install", *packages]).returncode


def run_checks() -> Iterator[Check]:
    """Yield every check, from what all predictions need to what few need."""
    yield _python()
    yield _engine()
    yield _devices()
    yield _plugins()
    yield _cache()
    yield _sandbox()
    yield _addresses()
    yield from map(_tool, _TOOLS)
    yield _toolchains()
    for wheel, header in _HEADERS.items():
        yield _header(wheel, header)
    yield _releases()
    yield _libraries()
    yield _host_compiler()


def _python() -> Check:
    written = ".".join(map(str, sys.version_info[:3]))
    oldest = ".".join(map(str, _OLDEST))
    return Check(
        "python", sys.version_info >= _OLDEST, f"{written}, perfassert {VERSION}",
        f"install Python {oldest} or later",
    )  # fmt: skip


def _engine() -> Check:
    from perfassert.engines.pipeline.compiled import available

    if available():
        return Check("compiled engine", True, "built")
    return Check(
        "compiled engine", False, "without it nothing can be predicted",
        "pip install --force-reinstall --no-deps perfassert  # from source: with a C++ compiler",
    )  # fmt: skip


def _devices() -> Check:
    from perfassert.hardware.load import device, devices

    try:
        names = [device(name).name for name in devices()]
    except PerfAssertError as error:
        return Check("devices", False, str(error), "fix the device file, or remove its plug-in")
    return Check("devices", True, f"{len(names)} can be read")


def _plugins() -> Check:
    import warnings

    from perfassert import plugins

    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        names = plugins.names()
    if messages:
        why = "; ".join(str(w.message) for w in messages)
        return Check("plug-ins", False, why, "update or uninstall the package that it is from")
    return Check("plug-ins", True, ", ".join(names) or "none")


def _cache() -> Check:
    from perfassert.frontends.toolchain.cache import folder

    place = folder()
    there = next(p for p in (place, *place.parents) if p.exists())
    ok = there.is_dir() and os.access(there, os.W_OK)
    remedy = f"set PERFASSERT_CACHE_DIR to a folder that can be written; {there} cannot"
    return Check("cache", ok, str(place), remedy)


def _addresses() -> Check:
    """Check that compilers start at the same addresses each time, on which their code depends."""
    from perfassert.system.processes import fixes_addresses

    if fixes_addresses():
        return Check("addresses", True, "compilers lie at the same ones in every run")
    why = "this system does not let a process fix them; code of few kernels can differ between runs"
    return Check("addresses", True, f"random: {why}")


def _sandbox() -> Check:
    """Report the sandbox; never a failure, as tools otherwise run with limits only."""
    from perfassert.system.processes import SANDBOX, mechanisms, mode

    if mode() == "off":
        return Check("sandbox", True, f"off ({SANDBOX})")
    applied = ", ".join(mechanisms())
    return Check(
        "sandbox", True, applied or "none: this system offers neither Landlock nor seccomp"
    )


def _tool(name: str) -> Check:
    from perfassert.frontends.toolchain import tools

    tool = tools.find(name)
    if tool is None:
        return Check(name, False, "not installed", packages=(_EXTRA,))
    return Check(name, True, f"{tool.version or ''} {tool.path}".strip())


def _toolchains() -> Check:
    """Report the toolchains; never a failure: the first one compiles if none is named."""
    from perfassert.frontends.toolchain.toolchains import list_toolchains

    return Check("toolchains", True, ", ".join(list_toolchains()) or "none")


def _header(wheel: str, header: str) -> Check:
    name = f"headers ({wheel})"
    if folder := _folder_of(header):
        return Check(name, True, folder)
    return Check(name, False, f"no <{header}>", packages=(f"nvidia-cuda-{wheel}",))


def _releases() -> Check:
    """Check that nvcc and the headers that it reads are of one release."""
    from perfassert.frontends.toolchain.matching import find_mixture

    mixture = find_mixture()
    if mixture is None:
        return Check(
            "releases", True, "compiler and headers are of one release, as far as installed"
        )
    text = f"of several releases, so that host code may not compile: {mixture}"
    return Check("releases", False, text, packages=(mixture.requirement,))


def _libraries() -> Check:
    """Report the libraries; never a failure: the error of a file that needs one names it."""
    from perfassert.frontends.toolchain.tools import HEADERS

    have = [name for name, header in _LIBRARIES.items() if _folder_of(header)]
    wheels = [
        next(wheel for start, wheel in HEADERS.items() if header.startswith(start))
        for name, header in _LIBRARIES.items()
        if name not in have
    ]
    summary = ", ".join(have) or "none"
    summary += f"; for files that include others: pip install {' '.join(wheels)}" if wheels else ""
    return Check("headers of libraries", True, summary)


def _folder_of(header: str) -> str | None:
    from perfassert.frontends.toolchain import tools

    folders = tools.include_dirs()
    return next((f for f in folders if os.path.exists(os.path.join(f, header))), None)


def _host_compiler() -> Check:
    from perfassert.frontends.toolchain.tools import host_compiler

    compiler = host_compiler()
    return Check(
        "C++ compiler", compiler is not None, compiler or "files with host code need one",
        "apt-get install g++  # or the g++ package of the system",
    )  # fmt: skip
