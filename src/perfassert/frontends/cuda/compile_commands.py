"""The kernels that a build makes, by its ``compile_commands.json``."""

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
from perfassert.frontends.cuda.inventory import KernelInfo, list_kernels
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
        """Those that say how device code is compiled."""
        return device_options(self.words)

    def kernels(
        self, arch: str | None, toolchain: str | None = None, findings: bool = False
    ) -> tuple[KernelInfo, ...]:
        """Of the object file, where it is built, else of the source; of the source in any case
        where a ``toolchain`` is to compile it."""
        if toolchain is None and self.product is not None and os.path.isfile(self.product):
            return list_kernels(self.product, arch, findings=findings)
        target = arch or _stated_architecture(self.options, self.source)
        return list_kernels(
            self.source, target, findings=findings, options=self.options, toolchain=toolchain
        )


def compile_commands(path: Path) -> list[CompileCommand]:
    """Those of CUDA sources; :class:`KernelSourceError` for what is no compilation database, or has
    no CUDA."""
    cuda = [CompileCommand(*entry) for entry in entries(path) if _is_cuda(entry[0], entry[2])]
    if not cuda:
        raise KernelSourceError(f"{path} has no entry of a .cu file; name the object files instead")
    return cuda


def _is_cuda(source: Path, words: Sequence[str]) -> bool:
    """Tell a source of CUDA by its name, or by the language that the command states for it.

    nvcc is told by ``-x cu``, clang by ``-x cuda``, each in one word or in two.
    """
    if source.suffix == ".cu":
        return True
    languages = [after for word, after in pairwise(words) if word in ("-x", "--x", "--language")]
    languages += [word.removeprefix("-x").lstrip("=") for word in words if word.startswith("-x")]
    return any(language in ("cu", "cuda") for language in languages)


def entries(path: Path) -> list[tuple[Path, Path | None, list[str]]]:
    """Source, product and command line of each; :class:`KernelSourceError` for another file."""
    try:
        return [_entry(entry) for entry in json.loads(read_text(path))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KernelSourceError(f"{path} is no compilation database: {error!r}") from None


def _entry(entry: Mapping[str, Any]) -> tuple[Path, Path | None, list[str]]:
    folder = Path(entry["directory"])
    words = list(entry.get("arguments") or shlex.split(entry["command"]))
    product = entry.get("output")
    if product is None and "-o" in words[:-1]:
        product = words[words.index("-o") + 1]
    placed = words_in(folder, words)
    return folder / entry["file"], folder / product if product else None, placed


def words_in(folder: Path, words: Sequence[str]) -> list[str]:
    """The words of a command that runs in ``folder``: option files opened, include folders whole.

    A folder that is not there says nothing; compilers pass over it, too.
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
    """Those that say how device code is compiled."""
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
    """The one architecture of the command; the last of several."""
    from perfassert.frontends.toolchain.binary import Source
    from perfassert.frontends.toolchain.options import targets

    asked = targets(Source(source, "cuda", options=options))
    real = [str(target.real or target.virtual) for target in asked]
    if not real:
        raise KernelSourceError(f"{source}: its command names no architecture; give --arch")
    return real[-1]
