"""Listings of nvdisasm, cut to the code that one kernel executes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.source import file_name
from perfassert.system.temporary import temporary_folder

from . import cache, tools
from .diagnostics import failure
from .elf import Cubin

_COMMAND = ("-c", "-hex", "-gi")
_BANNER = re.compile(r"^//-{3,} (\S+)\s+-{3,}$", re.MULTILINE)
_CALLED = re.compile(r"`\(([^)\n]+)\)")
_LABEL = re.compile(r"\.L_x_\d+\b")
_JUMPS_BY_TABLE = re.compile(r"\b(?:BR|JM)XU?\b")
_WHOLE = 1 << 17  # bytes of code that are disassembled within about a second
_PLACE = re.compile(r'//## File "([^"]+)"')


def disassemble(nvdisasm: tools.Tool, cubin: Cubin, content: bytes, kernel: str) -> str:
    """Return the listing of ``kernel`` with encodings, and source lines with inlining.

    A module of moderate size is disassembled once for all of its kernels.
    """
    small = cubin.code_bytes() <= _WHOLE
    wanted = [] if small else ["-fun", ",".join(map(str, cubin.code_symbols(kernel)))]
    digest = hashlib.sha256(content).hexdigest()
    entry = cache.key(["listing", digest, nvdisasm.identity(), *_COMMAND, *wanted])
    texts = cache.remember(
        entry,
        lambda: sections(_run_nvdisasm(nvdisasm, content, wanted, cubin.where)),
        _read_texts,
        dict,
    )
    return cut(texts, kernel, cubin.where)


def _run_nvdisasm(nvdisasm: tools.Tool, content: bytes, wanted: Sequence[str], where: str) -> str:
    with temporary_folder() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(content)
        text = run_nvdisasm(nvdisasm, [*_COMMAND, *wanted], path, where)
    return "\n".join(map(str.rstrip, text.split("\n")))


def run_nvdisasm(nvdisasm: tools.Tool, options: Sequence[str], path: Path, where: str) -> str:
    """Return the output of nvdisasm.

    Its data-flow analysis, a fifth of its start-up time, only names the targets of jumps through
    tables. It therefore runs only for code that has such jumps; other output is identical.
    """

    def run(*more: str) -> str:
        done = tools.run_tool(
            "nvdisasm",
            [nvdisasm.path, *options, *more, str(path)],
            folder=path.parent,
            limit=tools.reading_limit(size),
            memory=tools.reading_memory(size),
        )
        if done.status:
            raise failure("nvdisasm", done.log, where)
        return done.stdout

    size = path.stat().st_size
    text = run("--no-dataflow")
    return run() if _JUMPS_BY_TABLE.search(text) else text


def _read_texts(data: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in data.items()}


def cut(texts: Mapping[str, str], kernel: str, where: str) -> str:
    """Return the section of ``kernel`` and those of the functions that it calls, transitively.

    Labels are renumbered, since nvdisasm's numbers depend on the rest of the module.
    """
    if kernel not in texts:
        raise KernelSourceError(f"{where}: the listing has no section .text.{kernel}")
    wanted = called_functions(texts, kernel)
    text = "\n".join(texts[name].rstrip("\n") + "\n" for name in wanted)
    numbers: dict[str, str] = {}
    return _LABEL.sub(lambda m: numbers.setdefault(m[0], f".L_x_{len(numbers)}"), text)


def called_functions(texts: Mapping[str, str], kernel: str) -> list[str]:
    """Return the kernel and the functions that it calls, transitively."""
    wanted = [kernel]
    for name in wanted:  # the list grows during the loop
        for function in _CALLED.findall(texts.get(name, "")):
            if function in texts and function not in wanted:
                wanted.append(function)
    return wanted


def sections(text: str) -> dict[str, str]:
    """Return function name → its section of the listing."""
    starts = [*_BANNER.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        start[1].removeprefix(".text."): text[start.start() : end]
        for start, end in zip(starts, ends, strict=False)  # no section without a banner
        if start[1].startswith(".text.")
    }


def mentioned_files(text: str) -> set[str]:
    """Return the files that the listing's line comments mention."""
    return set(map(file_name, _PLACE.findall(text)))
