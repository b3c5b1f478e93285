"""Search, identification and running of NVIDIA's tools.

Wheels come first, then ``CUDA_HOME``, ``PATH`` and ``/usr/local/cuda``, then the tools that Triton
brings, then wheels of other releases in the folders of ``PERFASSERT_TOOLCHAINS``.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.system.environment import environment_number
from perfassert.system.processes import CLOCK_FACTOR, ProcessLimits, TimeLimitReached, run_process

if TYPE_CHECKING:
    from .inputs import Inputs

LOG = logging.getLogger("perfassert.toolchain")
FOLDERS = "PERFASSERT_TOOLCHAINS"
DEFAULT_LIMIT = 60.0  # seconds for one run of one tool
_LONGEST_LIMIT = 1e6  # seconds; a system call takes the limit in milliseconds
_MEMORY_PER_BYTE = (
    2000  # measured: ptxas 160 for the PTX of 120 kernels, nvdisasm 75 for their code
)

_MEMORY = 16 << 30  # bytes of address space for a tool without a limit of its own
_WRITTEN_TOO_MUCH = tuple(filter(None, [getattr(signal, "SIGXFSZ", None)]))
_PASSED_ON = frozenset(
    "PATH HOME TMPDIR TMP TEMP LD_LIBRARY_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH "
    "CPLUS_INCLUDE_PATH CUDA_HOME CUDA_PATH NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS NVCC_CCBIN "
    "INCLUDE LIB LIBPATH "
    "SYSTEMROOT WINDIR SYSTEMDRIVE COMSPEC PATHEXT PROGRAMFILES PROGRAMDATA USERPROFILE "
    "LOCALAPPDATA PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS CONDA_PREFIX NIX_CFLAGS_COMPILE "
    "COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG".split()
)

_HEADERS_OF_ALL = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_CHANGING = (*_FLAGS, *_HEADERS_OF_ALL, "INCLUDE", "NVCC_CCBIN", "NIX_CFLAGS_COMPILE")

_LIBRARIES = (
    "cu13/lib/libnvrtc.so.*[0-9]",
    "cu13/bin/x86_64/nvrtc64_*_0.dll",
    "cu13/bin/nvrtc64_*_0.dll",
    "cuda_nvrtc/lib/libnvrtc.so.*[0-9]",
    "cuda_nvrtc/bin/nvrtc64_*_0.dll",
)
_TOOLKIT_LIBRARIES = ("lib64/libnvrtc.so", "bin/x64/nvrtc64_*_0.dll", "bin/nvrtc64_*_0.dll")
_NEW = "cu13"  # common folder of the wheels from CUDA 13 on
_BINARIES = ("cu13/bin", "cuda_nvcc/bin")
_INCLUDES = ("cu13/include", "cu13/include/cccl", "*/include")  # a wheel of CUDA 12 has its own
_WHEELS = {
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "ptxas": "nvidia-cuda-nvcc",
    "nvcc": "nvidia-cuda-nvcc",
}
HEADERS = {
    "cublas": "nvidia-cublas", "cusparse": "nvidia-cusparse", "cufft": "nvidia-cufft",
    "curand": "nvidia-curand", "cusolver": "nvidia-cusolver", "cudnn": "nvidia-cudnn-cu13",
    "nccl": "nvidia-nccl-cu13", "npp": "nvidia-npp", "nvjpeg": "nvidia-nvjpeg",
    "nvshmem": "nvidia-nvshmem-cu13", "cupti": "nvidia-cuda-cupti", "nvtx3/": "nvidia-nvtx",
    "nvml.h": "nvidia-nvml-dev",
    "thrust/": "nvidia-cuda-cccl", "cub/": "nvidia-cuda-cccl", "cuda/": "nvidia-cuda-cccl",
    "nv/": "nvidia-cuda-cccl",
    "cooperative_groups": "nvidia-cuda-runtime", "cuda_runtime": "nvidia-cuda-runtime",
    "crt/": "nvidia-cuda-crt",
}  # fmt: skip
"""Start of a header's name → the wheel that has it (nvidia-… of PyPI)."""


class TooSlow(KernelSourceError):
    """A tool did not finish in time; a later run may."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An executable, or NVRTC's library; ``version`` is that of its wheel, if any."""

    name: str
    path: str
    version: str | None = None

    def identity(self) -> str:
        """Return a text that changes when the tool changes; no process is started."""
        if self.version is not None:
            return f"{self.name} {self.version}"
        try:
            stat = os.stat(os.path.realpath(self.path))
        except OSError:
            return f"{self.name} {self.path}"
        return f"{self.name} {self.path} {stat.st_size} {stat.st_mtime_ns}"

    def release(self) -> tuple[int, int]:
        """Return the toolkit's release, such as ``(13, 5)``; ``(0, 0)`` if it is unknown."""
        text = self.version or ""
        if not text and self.name == "nvrtc":
            text = os.path.basename(os.path.realpath(self.path)).partition(".so.")[2]
        elif not text:
            text = _stated_release(self.path)
        match = re.search(r"(\d+)\.(\d+)", text)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def __str__(self) -> str:
        major, minor = self.release()
        return f"{self.name} {major}.{minor}" if major else self.name


@dataclass(frozen=True, slots=True)
class ToolRun:
    """Result of a finished process: exit status and output."""

    status: int
    stdout: str
    stderr: str

    @property
    def log(self) -> str:
        return "\n".join(part for part in (self.stderr.strip(), self.stdout.strip()) if part)


def candidates(name: str) -> tuple[Tool, ...]:
    """Return every installed tool of a name in ``_WHEELS``, the preferred one first."""
    env = os.environ
    searched = (env.get("PATH"), env.get("CUDA_HOME"), env.get("CUDA_PATH"), env.get(FOLDERS))
    return _candidates(name, searched)


def find(name: str) -> Tool | None:
    """Return the preferred tool of a name, or ``None``."""
    tools = candidates(name)
    return tools[0] if tools else None


def need(name: str) -> Tool:
    """Return the preferred tool; :class:`ToolchainMissing` with the way to install it."""
    tool = find(name)
    if tool is None:
        raise missing(name)
    return tool


def missing(name: str) -> ToolchainMissing:
    wheel = _WHEELS.get(name.lower(), "")
    package = f" (package {wheel})" if wheel else ""
    return ToolchainMissing(
        f"{name} is not installed{package}; install the CUDA tools with: pip install "
        '"perfassert[cuda]"'
    )


def find_older(name: str, major: int) -> Tool | None:
    """Return the preferred tool of a release before ``major``, which still knows older devices."""
    return next((t for t in candidates(name) if (0, 0) < t.release() < (major, 0)), None)


def host_compiler() -> str | None:
    """Return the C++ compiler that nvcc preprocesses with, or None."""
    return os.environ.get("NVCC_CCBIN") or shutil.which("g++") or shutil.which("cl")


def include_dirs() -> tuple[str, ...]:
    """Return the header folders of runtime and libraries: the wheels' and the toolkits'."""
    kits = [Path(kit) / part for kit in _toolkits() for part in ("include", "include/cccl")]
    return (*wheel_include_dirs(), *(str(path) for path in kits if path.is_dir()))


def headers_of(tool: Tool) -> tuple[str, ...]:
    """Return the header folders of a tool's own release."""
    place = Path(tool.path)
    for root in (*package_folders("nvidia"), *_folders()):
        if root in place.parents:
            if place.relative_to(root).parts[0] == _NEW:
                folders = [root / part for part in _INCLUDES[:2]]
            else:
                folders = [p for p in sorted(root.glob("*/include")) if p.parent.name != _NEW]
            return tuple(str(p) for p in folders if p.is_dir())
    kit = place.parent.parent
    kits = [k for k in (kit, kit.parent) if (k / "include").is_dir()]
    return tuple(str(k / "include") for k in kits[:1])


def wheel_include_dirs() -> tuple[str, ...]:
    """Return the header folders of all installed wheels."""
    folders = [
        str(path)
        for root in package_folders("nvidia")
        for part in _INCLUDES
        for path in sorted(root.glob(part))
        if path.is_dir()
    ]
    return tuple(dict.fromkeys(folders))


def identity() -> tuple[str, ...]:
    """Return the identities of all tools, headers and variables that a result may depend on."""
    names = ("nvrtc", "nvcc", "ptxas", "nvdisasm", "cuobjdump")
    tools = [tool.identity() for name in names for tool in candidates(name)]
    flags = [os.environ.get(name, "") for name in _CHANGING]
    wheels = dict.fromkeys(HEADERS.values())
    return (*tools, *(f"{wheel} {_version(wheel)}" for wheel in wheels), *flags)


def header_folders() -> tuple[Path, ...]:
    """Return the header folders of the host compiler that belong to neither source nor tools."""
    named = [part for v in _HEADERS_OF_ALL for part in os.environ.get(v, "").split(os.pathsep)]
    return tuple(path for path in map(Path, (*named, "/usr/local/include")) if path.is_absolute())


def added_flags() -> list[str]:
    """Return the options that the environment adds to nvcc's."""
    return [word for name in _FLAGS for word in os.environ.get(name, "").split()]


def time_limit() -> float:
    """Return the processor seconds of one tool: ``PERFASSERT_TOOL_TIMEOUT``, else 60."""
    return environment_number(
        "PERFASSERT_TOOL_TIMEOUT", DEFAULT_LIMIT,
        f"seconds above 0, at most {_LONGEST_LIMIT:.0f}", 1e-3, _LONGEST_LIMIT, KernelSourceError,
    )  # fmt: skip


def reading_limit(size: int) -> float:
    """Return the seconds for a tool that reads ``size`` bytes of code; damaged code can hang it.

    Measured: 0.4 MB/s with all outputs; the limit allows for a quarter of that rate.
    """
    if os.environ.get("PERFASSERT_TOOL_TIMEOUT"):
        return time_limit()
    return 9.0 + size / 1e5


def reading_memory(size: int) -> int:
    """Return the memory limit in bytes for a tool that reads ``size`` bytes.

    Damaged input such as ``.reg .b64 %rd<0x7fffffff>`` in PTX makes a tool allocate all memory.
    """
    return (1 << 30) + _MEMORY_PER_BYTE * size


def run_tool(
    name: str,
    command: Sequence[str],
    *,
    folder: str | Path | None = None,
    reads: Iterable[str | Path] = (),
    script: bool = False,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    limit: float | None = None,
    memory: int | None = None,
    inputs: Inputs | None = None,
) -> ToolRun:
    """Run one tool, as :func:`perfassert.system.processes.run_process` does.

    Args:
        name: name in messages.
        command: the program and its arguments.
        folder: working folder, the only one that it writes to.
        reads: the files and folders of sources that it may read.
        script: True for a Python script of perfassert.
        stdin: text that it reads.
        environment: variables of its own, besides those of ours that tools need.
        limit: seconds of processor time; :func:`time_limit` where none is given.
        memory: bytes of address space.
        inputs: record of the files that it opens, looks for or starts.

    Raises:
        TooSlow: it did not finish in time.
        ToolchainMissing: it cannot be started.
        KernelSourceError: it wrote more than a tool may.
    """
    seconds = time_limit() if limit is None else limit
    bounds = ProcessLimits(seconds, _MEMORY if memory is None else memory)
    LOG.debug("run %s: %s", name, command)
    watch = inputs.watch(folder) if inputs is not None else None
    try:
        done = run_process(
            command,
            bounds,
            {**_environment(folder), **(environment or {})},
            folder=folder,
            reads=(*_installations(), *reads),
            script=script,
            stdin=stdin,
            watch=watch,
        )
    except OSError as error:
        raise ToolchainMissing(f"{name} cannot be started: {error}") from error
    except TimeLimitReached:
        raise TooSlow(
            f"{name} did not finish within {seconds:g} s of processor time, or "
            f"{CLOCK_FACTOR * seconds:g} s, and was ended; PERFASSERT_TOOL_TIMEOUT sets the limit"
        ) from None
    if inputs is not None:
        inputs.finish(watch)
    if -done.status in _WRITTEN_TOO_MUCH:
        raise KernelSourceError(
            f"{name} wrote more than {bounds.file_bytes >> 20} MB; it was ended"
        )
    return ToolRun(done.status, done.stdout, done.stderr)


def _installations() -> tuple[Path, ...]:
    """Return the folders of all tools and headers; a tool may be a script that starts another."""
    return (*versioned_folders(), *toolkit_folders())


def versioned_folders() -> tuple[Path, ...]:
    """Return the folders of wheels, whose versions are in :func:`identity`."""
    return (*package_folders("nvidia"), *package_folders("triton"), *_folders())


def toolkit_folders() -> tuple[Path, ...]:
    """Return the folders of toolkits that are no wheels."""
    return tuple(map(Path, _toolkits()))


def _environment(folder: str | Path | None) -> dict[str, str]:
    """Return the tool's environment: only needed variables, as others may hold secrets."""
    kept = {k: v for k, v in os.environ.items() if k.upper() in _PASSED_ON}
    return {**kept, "LC_ALL": "C", **({"TMPDIR": str(folder)} if folder else {})}


@lru_cache(maxsize=32)
def _candidates(name: str, searched: tuple[str | None, ...]) -> tuple[Tool, ...]:
    del searched  # only a key of the cache; read again below
    finder = _libraries if name == "nvrtc" else _executables
    unique: dict[str, Tool] = {}
    for tool in finder(name):
        unique.setdefault(os.path.realpath(tool.path), tool)
    return tuple(unique.values())


def _libraries(name: str) -> list[Tool]:
    def find_in_wheels(roots: Sequence[Path]) -> list[Tool]:
        return [
            Tool(name, str(path), _version(_wheel(name, pattern), str(root.parent)))
            for root in roots
            for pattern in _LIBRARIES
            for path in sorted(root.glob(pattern))
        ]

    kits = [
        Tool(name, str(path))
        for kit in _toolkits()
        for pattern in _TOOLKIT_LIBRARIES
        for path in sorted(Path(kit).glob(pattern))
    ]
    return find_in_wheels(package_folders("nvidia")) + kits + find_in_wheels(_folders())


def _wheel(name: str, part: str) -> str:
    """Return the name of the wheel that has this tool."""
    return _WHEELS[name] + ("" if part.startswith(_NEW) else "-cu12")


def _executables(name: str) -> list[Tool]:
    def find_in_wheels(roots: Sequence[Path]) -> list[Tool]:
        return [
            Tool(name, path, _version(_wheel(name, part), str(root.parent)))
            for root in roots
            for part in _BINARIES
            if (path := shutil.which(name, path=str(root / part)))
        ]

    tools = find_in_wheels(package_folders("nvidia"))
    places = [str(Path(kit) / "bin") for kit in _toolkits()]
    triton = [str(root / "backends" / "nvidia" / "bin") for root in package_folders("triton")]
    for place in (*places[:-1], None, places[-1], *triton):
        if path := shutil.which(name, path=place):
            tools.append(Tool(name, path))
    return tools + find_in_wheels(_folders())


def _toolkits() -> tuple[str, ...]:
    named = [os.environ[key] for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    return (*named, "/usr/local/cuda")


def _folders() -> tuple[Path, ...]:
    """Return the folders of wheels outside this environment."""
    named = os.environ.get(FOLDERS, "").split(os.pathsep)
    return tuple(Path(folder) / "nvidia" for folder in named if folder)


def package_folders(name: str) -> tuple[Path, ...]:
    """Return the folders of a package without importing it."""
    return _package_on(name, tuple(sys.path))


@lru_cache(maxsize=16)
def _package_on(name: str, import_path: tuple[str, ...]) -> tuple[Path, ...]:
    del import_path  # only a key of the cache; find_spec reads it
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None
    return tuple(map(Path, spec.submodule_search_locations or ())) if spec else ()


def wheel_version(wheel: str) -> str | None:
    """Return the version of a wheel in this environment; None if it is not installed."""
    return _version(wheel)


@lru_cache(maxsize=64)
def _version(wheel: str, place: str | None = None) -> str | None:
    """Return the version of a wheel in this environment or in a folder."""
    places = sys.path if place is None else [place]
    distribution = next(iter(metadata.distributions(name=wheel, path=places)), None)
    return None if distribution is None else distribution.version


@lru_cache(maxsize=16)
def _stated_release(path: str) -> str:
    text = run_tool(Path(path).name, [path, "--version"]).stdout
    match = re.search(r"release (\d+\.\d+)", text)
    return match[1] if match else ""


def predefined_macros(path: str) -> str:
    """Return the definitions of macros that a host's compiler has without any header."""
    run = run_tool(Path(path).name, [path, "-E", "-dM", "-x", "c++", os.devnull])
    if run.status:
        raise KernelSourceError(f"{path} does not say its macros: {run.log[:200]}")
    return run.stdout
