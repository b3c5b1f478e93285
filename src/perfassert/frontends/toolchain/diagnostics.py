"""Conversion of a compiler's log to a :class:`KernelSourceError` with file, line and remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from perfassert.errors import KernelSourceError, printable
from perfassert.system.confined import is_source, outside, read_text

from .matching import find_mixture
from .tools import HEADERS, include_dirs, package_folders

_CUDA = re.compile(r"\((?P<line>\d+)\): (?:catastrophic |fatal )?error(?: #[\w-]+)?: ")
_GCC = re.compile(r":(?P<line>\d+):(?:\d+:)? (?:fatal )?error: ")
_PTX = re.compile(r", line (?P<line>\d+); (?:error|fatal)\s*: ")
"""Text between file name and message: ``_CUDA`` for NVIDIA's front ends, ``_PTX`` for ptxas."""
_NO_MESSAGE = (
    "it failed and said nothing; a limit may have ended what it had started: "
    "PERFASSERT_TOOL_TIMEOUT sets that of processor time"
)
_FEATURE = re.compile(
    r"cannot be compiled for architecture|not supported on \.target|requires \.target"
)
_MACRO = re.compile(r"\b(?:identifier )?[\"']([A-Z][A-Z\d]*(?:_[A-Z\d]+)*)[\"'] is undefined")
_HOST_COMPILER = re.compile(
    r"Failed to preprocess host compiler properties|(?:g\+\+|gcc): not found"
)
_REMOVED = {
    r"texture is not a template"
    r"|\"(?:texture|tex[123]D\w*|cuda(?:Unb|B)indTexture\w*)\" is undefined": (
        "CUDA 12 removed texture references: use texture objects (cudaTextureObject_t), or set "
        "CUDA_HOME to a toolkit of CUDA 11"
    ),
    r"\"__shfl(?:_up|_down|_xor)?\" is undefined": (
        "votes and shuffles name their lanes since CUDA 9: __shfl_sync(0xffffffff, value, lane), "
        "and so __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync"
    ),
    r"\"__(?:any|all|ballot)\" is undefined": (
        "votes and shuffles name their lanes since CUDA 9: __ballot_sync(0xffffffff, predicate), "
        "and so __any_sync, __all_sync"
    ),
    r"\"cudaDevicePropDontCare\" is undefined": (
        "CUDA 12 removed cudaDevicePropDontCare: write cudaDeviceProp prop = {};"
    ),
    r"\"cudaThread(?:Synchronize|Exit)\" is undefined": (
        "CUDA 13 removed functions of threads: write cudaDeviceSynchronize, cudaDeviceReset"
    ),
    r"\"cudaDeviceProp\" has no member \"(?:clockRate|memoryClockRate|computeMode|deviceOverlap"
    r"|kernelExecTimeoutEnabled|singleToDoublePrecisionPerfRatio)\"": (
        "CUDA 13 removed this member: ask cudaDeviceGetAttribute(&value, cudaDevAttr…, device)"
    ),
    r"\"cub[^\"]*\" has no member \"(?:Max|Min|Sum|Difference|Division|Equality)\"": (
        "CCCL 3 removed the function objects of CUB: write cuda::maximum<>{}, cuda::minimum<>{} "
        "(<cuda/functional>), cuda::std::plus<>{} and their like (<cuda/std/functional>), or "
        "compile with toolchain='12.4'"
    ),
    r"\"thrust[^\"]*\" has no member \"(?:unary|binary)_function\"": (
        "CCCL 3 removed thrust::unary_function and binary_function: leave the base class out"
    ),
}
"""Compiler message about a name that a CUDA release removed → the successor of the name.

Source: release notes of CUDA 9, 12 and 13, and the migration guide of CCCL 3.0.
"""
_HEADER = re.compile(r"cannot open source file \"([^\"]+)\"|([\w./+-]+): No such file or directory")
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(\S.*?)\s*$", re.MULTILINE)
_HEADER_SOURCES = {
    "mpi.h": "apt-get install libopenmpi-dev; `mpicc --showme:compile` prints the -I that it needs",
    "boost/": "apt-get install libboost-dev",
    "nvToolsExt.h": "pip install nvidia-nvtx; CUDA 13 has it as <nvtx3/nvToolsExt.h>",
    "torch/": "pip install torch; folders: torch.utils.cpp_extension.include_paths()",
    "ATen/": "pip install torch; folders: torch.utils.cpp_extension.include_paths()",
    "helper_": "NVIDIA's cuda-samples on GitHub; -I to the folder Common in them",
    "c10/": "pip install torch; folders: torch.utils.cpp_extension.include_paths()",
}
"""Prefix of a header's name → where to get the header, for headers that no NVIDIA wheel has."""
_TORCH, _TORCH_API = ("torch/", "ATen/", "c10/"), "torch/csrc/api/include"
_EMPTY_HEADER = (
    "\nif no kernel needs it, an empty file of that name in a folder of include_dirs= or -I stands "
    "for it"
)
_NAME_OF_COMPILERS = re.compile(
    r"__nv_\w+|<[\w -]+>|\./tmpxft_[\w.-]+|(?:ptxas )?application ptx input"
)
"""Names that compilers give to built-in, generated and temporary inputs."""
_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*"
    r"(?:pragma[ \t]+\w|ifndef[ \t]+\w+\s*\n[ \t]*#[ \t]*define\b|include[ \t]*[<\"])",
    re.MULTILINE,
)
_SEARCHED_LENGTH = 16_384  # characters, enough for a long licence before the first directive
_SYSTEM_INCLUDE_DIRS = ("/usr/include", "/usr/lib/gcc", "/usr/local/include")
_RELEASE_MISMATCH = re.compile(
    r"namespace \"(?:thrust|cub|cuda)\b[^\"]*\" has no member"
    r"|CUDA compiler and CUDA toolkit headers are incompatible"
)
_ERROR_WITHOUT_LINE = re.compile(
    r"^(?P<tool>ptxas|nvrtc|nvcc|nvdisasm)\b.*?(?:error|fatal)\s*: (?P<text>.*)$"
)


def failure(
    tool: str, log: str, where: str, texts: Mapping[str, str] | None = None
) -> KernelSourceError:
    """Return the first error as ``file:line: message``, its source line, and the count of others.

    The source line is the one that the log quotes, with its caret. If the log quotes none, the line
    is taken from ``texts`` (file → text). ``where`` is the place if the log names none.
    """
    lines = log.splitlines()
    errors = [
        (i, readings) for i, line in enumerate(lines) if (readings := _parse_error_line(line))
    ]
    if not errors:
        plain = next((m for line in lines if (m := _ERROR_WITHOUT_LINE.match(line))), None)
        text = "\n".join(line for line in lines if not line.startswith(" ")).strip()
        message = f"{plain['tool']}: {plain['text']}" if plain else f"{tool}: {text or _NO_MESSAGE}"
        return KernelSourceError(f"{where}: {message}{_remedy(log, where)}")
    at, readings = errors[0]
    file, number, text = readings[0]
    if not all(_can_quote(name) for name, _, _ in readings):
        return KernelSourceError(
            f"{file}:{number}: it does not compile; what the compiler says is not shown, as that "
            "is no source file"
        )
    shown = _following(lines[at + 1 :]) or _quote_line(texts or {}, file, number)
    rest = f"\n({len(errors) - 1} more)" if len(errors) > 1 else ""
    hint = "\noption -arch=sm_…a (or f) compiles for features of one architecture"
    rest += hint if _FEATURE.search(text) else ""
    place = f"{file}:{number}: {text.strip()}"
    return KernelSourceError("\n".join([place, *shown]) + rest + _remedy(text, file))


def _parse_error_line(line: str) -> list[tuple[str, int, str]]:
    """Return each possible reading of an error line as file, line number and text.

    Readings differ because ``#line`` can set any file name, even one that looks like a message.
    """
    return [
        (line[: m.start()].removeprefix("ptxas "), int(m["line"]), line[m.end() :])
        for pattern in (_CUDA, _PTX, _GCC)
        for m in pattern.finditer(line, 1)
    ]


def _can_quote(file: str) -> bool:
    """Return True if a message about the file may be shown.

    The message quotes the file. A source can include any file or name it by ``#line``, even one
    that holds secrets. A relative name refers to a temporary folder that no longer exists.
    """
    if _NAME_OF_COMPILERS.fullmatch(file):
        return True
    path = Path(file)
    if is_source(path):
        return not outside(path)
    if not path.is_absolute():
        return False
    own = any(Path(folder) in path.parents for folder in (*include_dirs(), *_SYSTEM_INCLUDE_DIRS))
    return own or _is_header(path)


def _is_header(path: Path) -> bool:
    """Return True if a file without a suffix is a library's header, such as ``__config``.

    Such a header has a preprocessor directive near its start. Files of settings or secrets do not.
    """
    real = path.resolve()
    if path.suffix or real.suffix or real.name.startswith(".") or outside(path):
        return False
    try:
        return _DIRECTIVE.search(read_text(path, errors="replace")[:_SEARCHED_LENGTH]) is not None
    except OSError:
        return False


def _empty_submodules(file: str) -> list[str]:
    """Return the paths in the file's repository of submodules that are not checked out."""
    root = next((f for f in Path(file).resolve().parents if (f / ".gitmodules").is_file()), None)
    if root is None or outside(root / ".gitmodules"):
        return []
    paths = _SUBMODULE.findall(read_text(root / ".gitmodules", errors="replace"))
    return [p for p in paths if not (root / p).is_dir() or not any((root / p).iterdir())]


def _remedy(message: str, file: str) -> str:
    """Return a known remedy: a package to install, an option to add, a submodule to check out.

    ``file`` is the source or header that the message is about.
    """
    of_toolkit = any(Path(folder) in Path(file).parents for folder in include_dirs())
    if (of_toolkit or _RELEASE_MISMATCH.search(message)) and (mixture := find_mixture()):
        return (
            f"\nthe compiler and its headers are of several releases: {mixture}; "
            "`perfassert doctor --fix` prints the command that makes them one"
        )
    if _HOST_COMPILER.search(message):
        return (
            "\nthe file has host code, for which nvcc needs a C++ compiler: "
            "apt-get install g++, or options=('-ccbin=…',)"
        )
    if remedy := next((fix for text, fix in _REMOVED.items() if re.search(text, message)), ""):
        return f"\n{remedy}"
    if _RELEASE_MISMATCH.search(message):
        return (
            "\nthe source was written for another release of CUDA's libraries (CCCL) than the one "
            "that is installed: compile it by its own toolkit, with toolchain='12.4' or "
            "--toolchain 12.4; `perfassert doctor` lists those that are installed"
        )
    if macro := _MACRO.search(message):
        given = f"-D {macro[1]}=…, in tests defines={{{macro[1]!r}: …}}"
        return f"\nif it is a macro of the build: {given}"
    match = _HEADER.search(message)
    if match is None:
        return ""
    header = match[1] or match[2]
    if wheel := next((w for start, w in HEADERS.items() if header.startswith(start)), ""):
        return f"\n<{header}> comes with: pip install {wheel}"
    if header.startswith(_TORCH) and (folders := package_folders("torch")):
        inside = folders[0] / "include"
        return f"\n<{header}> comes with PyTorch: -I {inside} -I {inside / _TORCH_API}"
    if way := next((w for start, w in _HEADER_SOURCES.items() if header.startswith(start)), ""):
        return f"\n<{header}> comes with: {way}{_EMPTY_HEADER}"
    if empty := _empty_submodules(file):
        return (
            f"\nsubmodules are not checked out: {', '.join(map(printable, empty))}; "
            "git submodule update --init, then -I (include_dirs=) for where the header lies"
        )
    return (
        f"\ngive the folder of {header!r} with include_dirs=, or -I on the command line; "
        f"`make -n` and compile_commands.json show how the project compiles it{_EMPTY_HEADER}"
    )


def _following(lines: list[str]) -> list[str]:
    """Return the indented lines below a message: the source line and the caret."""
    shown: list[str] = []
    for line in lines[:6]:
        if not line.startswith(" "):
            break
        shown.append(line.rstrip())
    return shown


def _quote_line(texts: Mapping[str, str], file: str, line: int) -> list[str]:
    lines = texts.get(file, "").split("\n")
    return [f"  {lines[line - 1].strip()}"] if 0 < line <= len(lines) and lines[line - 1] else []
