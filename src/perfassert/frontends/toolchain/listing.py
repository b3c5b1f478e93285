"""Listings of nvdisasm, cut to the code that one kernel executes.

A listing is kept in a canonical form, which does not depend on what else nvdisasm has read: code
and encodings are one blank apart, and labels that nothing refers to are left out.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.source import file_name
from perfassert.system.temporary import temporary_folder

from . import cache, tools
from .diagnostics import failure
from .elf import Cubin
from .merged import kind_of, may_be_merged, merge, module_of, prefix

_COMMAND = ("-c", "-hex", "-gi")
_BANNER = re.compile(r"^//-{3,} (\S+)\s+-{3,}$", re.MULTILINE)
_CALLED = re.compile(r"`\(([^)\n]+)\)")
_LABEL = re.compile(r"\.L_x_\d+\b")
_LABEL_LINE = re.compile(r"^(\.L_x_\d+):\n", re.MULTILINE)
_JUMPS_BY_TABLE = re.compile(r"\b(?:BR|JM)XU?\b")
_WHOLE = 1 << 17  # bytes of code that are disassembled within about a second
_PADDING = re.compile(r"[ \t]+(?=/\* 0x[0-9a-f]+ \*/$)", re.MULTILINE)
_PLACE = re.compile(r'//## File "([^"]+)"')


_Texts = Mapping[str, str]
"""Function → its section of a listing."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A module whose listing will be needed: where the cache keeps it, and its size."""

    entry: str
    content: bytes
    code_bytes: int


class _Queue:
    """Modules that the next run of nvdisasm for code of their kind reads, too."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[object, dict[str, _Waiting]] = {}

    def add(self, kind: object, module: _Waiting) -> None:
        with self._lock:
            self._waiting.setdefault(kind, {})[module.entry] = module

    def take(self, kind: object, code_bytes: int) -> list[_Waiting]:
        """Remove modules, the oldest first, up to so much code."""
        taken = []
        with self._lock:
            waiting = self._waiting.get(kind, {})
            for module in list(waiting.values()):
                code_bytes -= module.code_bytes
                if code_bytes < 0:
                    break
                taken.append(waiting.pop(module.entry))
        return [module for module in taken if not cache.has(module.entry)]

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()


_queue = _Queue()


def disassemble(
    nvdisasm: tools.Tool, cubin: Cubin, content: bytes, kernel: str, *, alone: bool
) -> str:
    """Return the listing of ``kernel`` with encodings, and source lines with inlining.

    A module of moderate size is disassembled once for all of its kernels, together with modules
    that wait for it unless ``alone``: a file that no compiler of ours has made could be such that
    nvdisasm misreads others beside it.
    """
    small = cubin.code_bytes() <= _WHOLE
    wanted = [] if small else ["-fun", ",".join(map(str, cubin.code_symbols(kernel)))]
    entry = _entry(nvdisasm, content, wanted)

    def make() -> _Texts:
        if alone or not small or not may_be_merged(content):
            return sections(_run_nvdisasm(nvdisasm, content, wanted, cubin.where))
        others = _queue.take(_kind(nvdisasm, content), _WHOLE - cubin.code_bytes())
        own = _Waiting(entry, content, cubin.code_bytes())
        return _disassemble_together(nvdisasm, own, others, cubin.where)

    texts = cache.remember(entry, make, _read_texts, dict)
    return cut(texts, kernel, cubin.where)


def disassemble_later(nvdisasm: tools.Tool, cubin: Cubin, content: bytes) -> None:
    """Have the next run of nvdisasm for such code read this module, too, if its listing is new."""
    entry = _entry(nvdisasm, content, [])
    if cubin.code_bytes() <= _WHOLE and may_be_merged(content) and not cache.has(entry):
        _queue.add(_kind(nvdisasm, content), _Waiting(entry, content, cubin.code_bytes()))


def forget_waiting() -> None:
    """Drop the modules that wait: nobody will need them."""
    _queue.clear()


def _entry(nvdisasm: tools.Tool, content: bytes, wanted: Sequence[str]) -> str:
    digest = hashlib.sha256(content).hexdigest()
    return cache.key(["listing", digest, nvdisasm.identity(), *_COMMAND, *wanted])


def _kind(nvdisasm: tools.Tool, content: bytes) -> object:
    return nvdisasm.identity(), kind_of(content)


def _disassemble_together(
    nvdisasm: tools.Tool, own: _Waiting, others: Sequence[_Waiting], where: str
) -> _Texts:
    """Return the sections of a module, and store those of others that the same run has read.

    Modules with jumps through tables are left out: nvdisasm names their targets in a run by itself.
    """
    by_module: Sequence[_Texts] = ()
    if others:
        with suppress(KernelSourceError, ValueError, IndexError, struct.error):
            merged = merge([own.content, *(other.content for other in others)])
            text = _run_nvdisasm(nvdisasm, merged, [], where, targets=False)
            by_module = split(text, 1 + len(others))
    for module, texts in zip(others, by_module[1:], strict=False):
        if _is_complete(texts):
            cache.store(module.entry, texts)
    if by_module and _is_complete(by_module[0]):
        return by_module[0]
    return sections(_run_nvdisasm(nvdisasm, own.content, [], where))


def _is_complete(texts: _Texts) -> bool:
    """Return True if a module was listed, and has no jumps whose targets only another run names."""
    return bool(texts) and not any(map(_JUMPS_BY_TABLE.search, texts.values()))


def split(text: str, count: int) -> Sequence[_Texts]:
    """Return the sections of each of ``count`` modules that :func:`.merged.merge` has merged."""
    by_module: list[dict[str, str]] = [{} for _ in range(count)]
    for merged_name, section in sections(text).items():
        number, name = module_of(merged_name) or (count, merged_name)
        if number < count:
            by_module[number][name] = section.replace(prefix(number), "")
    return by_module


def _run_nvdisasm(
    nvdisasm: tools.Tool, content: bytes, wanted: Sequence[str], where: str, *, targets: bool = True
) -> str:
    with temporary_folder() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(content)
        text = run_nvdisasm(nvdisasm, [*_COMMAND, *wanted], path, where, targets=targets)
    text = _PADDING.sub(" ", "\n".join(map(str.rstrip, text.split("\n"))))
    return _BANNER.sub(r"//--- \1 ---", text)


def run_nvdisasm(
    nvdisasm: tools.Tool, options: Sequence[str], path: Path, where: str, *, targets: bool = True
) -> str:
    """Return the output of nvdisasm; ``targets``: with those of jumps through tables.

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
    return run() if targets and _JUMPS_BY_TABLE.search(text) else text


def _read_texts(data: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in data.items()}


def cut(texts: Mapping[str, str], kernel: str, where: str) -> str:
    """Return the section of ``kernel`` and those of the functions that it calls, transitively.

    Labels are renumbered, since nvdisasm's numbers depend on the rest of the module. Those that
    nothing refers to are left out, unless there are jumps through tables, which may lead there.
    """
    if kernel not in texts:
        raise KernelSourceError(f"{where}: the listing has no section .text.{kernel}")
    wanted = called_functions(texts, kernel)
    text = "\n".join(texts[name].rstrip("\n") + "\n" for name in wanted)
    if not _JUMPS_BY_TABLE.search(text):
        uses = Counter(_LABEL.findall(text))
        text = _LABEL_LINE.sub(lambda m: m[0] if uses[m[1]] > 1 else "", text)
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
