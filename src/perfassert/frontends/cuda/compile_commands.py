"""Kernels of a build, listed from its ``compile_commands.json``."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.inventory import DESCRIBED, Detail, KernelInfo, list_kernels
from perfassert.system.confined import read_text

_SEPARATE = frozenset(("-D", "-U", "-std", "-arch", "-gencode", "-maxrregcount", "-include"))
_KEPT = ("-I", "-D", "-U", "-std", "--std", "-arch", "--gpu-arch", "-gencode", "--generate-code",
         "-maxrregcount", "--maxrregcount", "-use_fast_math", "--use_fast_math", "-include",
         "-ftz", "--ftz", "-fmad", "--fmad", "-prec-", "--prec-",
         "--extended-lambda", "-extended-lambda", "--expt-", "-expt-")  # fmt: skip
_FILES = ("--options-file", "-optf")
_CLANG_ARCH = re.compile(r"--(?:cuda-gpu|offload)-arch=(sm_\w+)")
_INCLUDE = re.compile(r"(-I|-isystem=?|--include-path=?|--system-include=?)(.*)")


@dataclass(frozen=True, slots=True)
class CompileCommand:
    """A CUDA source of a build: ``product`` is the object file, ``words`` the command line."""

    source: Path
    product: Path | None
    words: Sequence[str]

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the command that decide how device code is compiled."""
        return device_options(self.words)

    def kernels(
        self, arch: str | None, toolchain: str | None = None, detail: Detail = DESCRIBED
    ) -> tuple[KernelInfo, ...]:
        """Return the kernels of the object file if it is built, else of the source.

        With a ``toolchain``, the source is compiled in any case.
        """
        if toolchain is None and self.product is not None and os.path.isfile(self.product):
            return list_kernels(self.product, arch, detail=detail)
        target = arch or _stated_architecture(self.options, self.source)
        return list_kernels(
            self.source, target, detail=detail, options=self.options, toolchain=toolchain
        )


def compile_commands(path: Path) -> list[CompileCommand]:
    """Return the commands that compile CUDA sources.

    Raises :class:`KernelSourceError` for a file that is no compilation database or has no CUDA.
    """
    cuda = [CompileCommand(*entry) for entry in entries(path) if _is_cuda(entry[0], entry[2])]
    if not cuda:
        raise KernelSourceError(f"{path} has no entry of a .cu file; name the object files instead")
    return cuda


def _is_cuda(source: Path, words: Sequence[str]) -> bool:
    """Return True for a CUDA source, by the file's name or by the language in the command.

    nvcc is told by ``-x cu``, clang by ``-x cuda``, each in one word or in two.
    """
    if source.suffix == ".cu":
        return True
    languages = [after for word, after in pairwise(words) if word in ("-x", "--x", "--language")]
    languages += [word.removeprefix("-x").lstrip("=") for word in words if word.startswith("-x")]
    return any(language in ("cu", "cuda") for language in languages)


def entries(path: Path) -> list[tuple[Path, Path | None, list[str]]]:
    """Return source, product and words of each command; :class:`KernelSourceError` if malformed."""
    try:
        return [_read_command(entry) for entry in json.loads(read_text(path))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KernelSourceError(f"{path} is no compilation database: {error!r}") from None


def _read_command(entry: Mapping[str, Any]) -> tuple[Path, Path | None, list[str]]:
    folder = Path(entry["directory"])
    words = list(entry.get("arguments") or shlex.split(entry["command"]))
    product = entry.get("output")
    if product is None and "-o" in words[:-1]:
        product = words[words.index("-o") + 1]
    placed = words_in(folder, words)
    return folder / entry["file"], folder / product if product else None, placed


def words_in(folder: Path, words: Sequence[str]) -> list[str]:
    """Return the words of a command that runs in ``folder``, with absolute include folders.

    The words of option files are inserted. An include folder that does not exist is left out, as
    compilers pass over it, too.
    """
    read: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in _FILES and left:
            left[:0] = shlex.split(read_text(folder / left.pop(0)))
        elif match := _INCLUDE.fullmatch(word):
            named = match[2] or (left.pop(0) if left else "")
            read += [f"-I{folder / named}"] if os.path.isdir(folder / named) else []
        else:
            read.append(word)
    return read


def device_options(words: Sequence[str]) -> tuple[str, ...]:
    """Return the options that decide how device code is compiled."""
    kept: list[str] = []
    for at, word in enumerate(words):
        if match := _CLANG_ARCH.fullmatch(word):
            kept.append(f"-arch={match[1]}")
        elif word in _SEPARATE and at + 1 < len(words):
            kept.append(f"{word} {words[at + 1]}")
        elif word.startswith(_KEPT) and word not in _SEPARATE:
            kept.append(word)
    return tuple(kept)


def _stated_architecture(options: tuple[str, ...], source: Path) -> str:
    """Return the architecture that the command states; the last one if there are several."""
    from perfassert.frontends.toolchain.binary import Source
    from perfassert.frontends.toolchain.options import targets

    asked = targets(Source(source, "cuda", options=options))
    real = [str(target.real or target.virtual) for target in asked]
    if not real:
        raise KernelSourceError(f"{source}: its command names no architecture; give --arch")
    return real[-1]
