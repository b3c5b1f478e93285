"""Compilation by nvcc's commands, run here without the shell that nvcc itself would use.

nvcc prints its commands (``--dryrun``) for placeholder names of perfassert's own. The user's texts
then replace the placeholders in the words of these commands. So a path, a macro's value or a folder
of headers is one argument of one program, whatever characters it has.

Example of what nvcc prints, shortened::

    #$ CICC_PATH=/usr/local/cuda/bin/../nvvm/bin
    #$ gcc -E -x c++ -I"PERFASSERT_FOLDERS" -D "PERFASSERT_MACROS" -m64 "main.cu" -o "main.cpp1.ii"
    #$ "$CICC_PATH/cicc" --orig_src_file_name "main.cu" "main.cpp1.ii" -o "main.ptx"
    #$ ptxas -arch=sm_80 -m64 "main.ptx" -o "main.cubin"
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from perfassert.errors import KernelSourceError
from perfassert.source import encode_file_name

from . import tools
from .inputs import Inputs
from .options import HostArguments

INSTANCE = "instantiate.cu"
"""Name of the file in the private folder with the code that is appended to a source."""
_MAIN = "main.cu"
_FOLDERS, _MACROS = "PERFASSERT_FOLDERS", "PERFASSERT_MACROS"
_LINE = re.compile(r"#\$ (?:(\w+)=)?(.*)")
_VARIABLE = re.compile(r"\$(\w+)")
_SAFE_WORD = re.compile(r"[\w+=:,.@%^~/-]*", re.ASCII)
_ORIGIN = ("--orig_src_file_name", "--orig_src_path_name")
_MARKER = re.compile(rb'^(# \d+ ")((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_ESCAPE = re.compile(rb"\\(\d{3}|.)")
_PERCENT_CODES = {b'"': b"%22", b"\\": b"%5C", b"n": b"%0A", b"012": b"%0A", b"015": b"%0D"}
_SHELL_CHARACTERS = re.compile(r"[\"$%&|<>^`!;\r\n]")
_KEPT = ("PATH", "LD_LIBRARY_PATH")
_CLEANING = ("rm", "erase", "del")  # skipped: the whole folder is removed later


@dataclass(frozen=True, slots=True)
class Compilation:
    """A run of nvcc.

    ``path`` is compiled for ``arch`` (``"sm_80"``: machine code, ``"compute_90"``: PTX) in the
    private folder ``folder``. ``options`` are nvcc's own. ``host`` has the preprocessor's options,
    which may be any text. ``appended`` is code that is added behind the source. ``reads`` are the
    folders of headers. ``inputs`` records the files that the commands open.
    """

    nvcc: tools.Tool
    path: Path
    arch: str
    folder: Path
    options: tuple[str, ...]
    host: HostArguments
    appended: str = ""
    reads: tuple[str, ...] = ()
    inputs: Inputs | None = None


class Product(NamedTuple):
    """Machine code or PTX of one run of nvcc.

    ``code`` is empty if a compiler failed. ``log`` is the compilers' output. ``preprocessor`` is
    the path of the host's compiler, which preprocessed the source; empty on Windows, where nvcc
    starts it.
    """

    code: bytes
    log: str
    preprocessor: str = ""


def compile_with_nvcc(compilation: Compilation, limit: float | None = None) -> Product:
    """Return what nvcc makes of a source.

    Raises:
        KernelSourceError: an option cannot be one of nvcc's, or a tool does not finish.
        ToolchainMissing: nvcc or the host's compiler cannot be started.
    """
    product = "ptx" if compilation.arch.startswith("compute") else "cubin"
    main, included = compilation.path, compilation.host.includes
    if compilation.appended:
        main = compilation.folder / INSTANCE
        main.write_text(compilation.appended)
        included = (*included, "-include", str(compilation.path))
    out = compilation.folder / f"out.{product}"
    texts = _PlaceholderTexts.of(compilation, (*included, str(main)))
    variables: dict[str, str] = {}
    if os.name == "nt":
        commands = [_whole_command(compilation, product, (*included, str(main)))]
        log = ""
    else:
        variables, commands, log = _commands(compilation, product, limit)
    host = ""
    for command in commands:
        words = texts.place_texts(command)
        if "-E" in words:
            host = shutil.which(words[0], path=variables.get("PATH")) or ""
        if preprocessed := _preprocessed_file(words):
            _encode_names(compilation.folder / preprocessed)
        run = _run_command(compilation, Path(words[0]).name, words, variables, limit)
        log = "\n".join(filter(None, (log, run.log)))
        if run.status:
            return Product(b"", log)
    return Product(out.read_bytes() if out.exists() else b"", log, host)


def preprocessor(compilation: Compilation) -> Callable[[str, Inputs | None], str]:
    """Return a function that preprocesses the source's present text behind nvcc's headers.

    The function takes an option of the host's preprocessor, which may be empty, and the record of
    the files that are opened. It raises :class:`KernelSourceError` if the preprocessor fails.

    Raises:
        KernelSourceError: the host's compiler is none that nvcc knows.
    """
    _, commands, log = _commands(compilation, "ptx", None)
    command = next((c for c in commands if "-E" in c), None)
    if command is None:
        raise KernelSourceError(f"nvcc's preprocessor cannot be asked: {log[:200]}")
    texts = _PlaceholderTexts.of(compilation, (str(compilation.path),))
    at = command.index("-E") + 1

    def preprocess(option: str, inputs: Inputs | None) -> str:
        asked = texts.place_texts([*command[:at], *filter(None, (option,)), *command[at:]])
        watched = replace(compilation, inputs=inputs)
        run = _run_command(watched, Path(asked[0]).name, asked, {}, None)
        made = compilation.folder / asked[-1]
        if run.status or not made.is_file():
            raise KernelSourceError(f"nvcc's preprocessor cannot be asked: {run.log[:200]}")
        return made.read_text(errors="replace")

    return preprocess


def _commands(
    compilation: Compilation, product: str, limit: float | None
) -> tuple[dict[str, str], list[list[str]], str]:
    """Return nvcc's environment variables, its commands as words, and its output on failure.

    No part of the result contains a text of the user's.
    """
    words = [
        f"-{product}",
        f"-arch={compilation.arch}",
        "-o",
        f"out.{product}",
        *compilation.options,
    ]
    words += [f"-I{_FOLDERS}", f"-D{_MACROS}", _MAIN]
    for word in words:
        if _SAFE_WORD.fullmatch(word) is None:
            raise KernelSourceError(f"option {word!r}: no option of nvcc's has such letters")
    (compilation.folder / _MAIN).touch()
    dry = replace(compilation, inputs=None)
    run = _run_command(dry, "nvcc", [_plain_path(compilation), "--dryrun", *words], {}, limit)
    if run.status:
        return {}, [], run.log
    variables: dict[str, str] = {}
    commands = []
    for line in run.stderr.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is not None and match[1]:
            variables[match[1]] = match[2]
        elif match is not None:
            split = shlex.split(match[2])
            if split and split[0] not in _CLEANING:
                commands.append([_VARIABLE.sub(lambda m: variables[m[1]], w) for w in split])
    return {name: variables[name] for name in _KEPT if name in variables}, commands, ""


def _whole_command(compilation: Compilation, product: str, main: Sequence[str]) -> list[str]:
    """Return the command of nvcc with all texts, for Windows, where commands print differently.

    Raises :class:`KernelSourceError` for a text with characters that a command line interprets.
    """
    texts = [*compilation.host.folders, *compilation.host.macros, *main]
    for text in texts:
        if _SHELL_CHARACTERS.search(text):
            raise KernelSourceError(f"{text!r}: nvcc on Windows takes no such letters; rename it")
    words: list[str] = []
    for word in compilation.host.folders:
        of_nvcc = word.startswith(("-I", "-isystem")) or words[-1:] == ["-isystem"]
        words.append(word if of_nvcc else f"-Xcompiler={word}")
    made = [
        f"-{product}",
        f"-arch={compilation.arch}",
        "-o",
        f"out.{product}",
        *compilation.options,
    ]
    return [compilation.nvcc.path, *made, *words, *compilation.host.macros, *main]


@dataclass(frozen=True, slots=True)
class _PlaceholderTexts:
    """Texts that replace the placeholders, the source's path, and its name in messages."""

    placeholders: Mapping[str, Sequence[str]]
    main: Sequence[str]
    origin: str

    @classmethod
    def of(cls, compilation: Compilation, main: Sequence[str]) -> _PlaceholderTexts:
        """Return the texts of a compilation whose source is named by ``main``."""
        host = compilation.host
        placeholders = {f"-I{_FOLDERS}": host.folders, _MACROS: host.macros}
        return cls(placeholders, main, encode_file_name(str(compilation.path)))

    def place_texts(self, command: Sequence[str]) -> list[str]:
        """Return the command with the user's texts in place of placeholders, one word each."""
        words: list[str] = []
        for word in command:
            if words and words[-1] in _ORIGIN:
                words.append(self.origin)
            elif word in self.placeholders:
                if words[-1] == "-D":
                    words.pop()
                words += self.placeholders[word]
            elif word == _MAIN:
                words += self.main
            else:
                words.append(word)
        return words


def _preprocessed_file(command: Sequence[str]) -> str:
    """Return the file that the host's preprocessor wrote and a command reads, or ``""``."""
    return next((word for word in command if word.endswith(".ii") and word != command[-1]), "")


def _encode_names(file: Path) -> None:
    """Encode file names in line markers as :func:`perfassert.source.encode_file_name` does."""
    if not file.is_file() or b"\\" not in (text := file.read_bytes()):
        return

    def encode_marker(marker: re.Match[bytes]) -> bytes:
        name = _ESCAPE.sub(lambda m: _PERCENT_CODES.get(m[1], m[0]), marker[2])
        return marker[1] + name + b'"'

    file.write_bytes(_MARKER.sub(encode_marker, text))


def _plain_path(compilation: Compilation) -> str:
    """Return a path of nvcc without special characters, by way of a link if necessary."""
    path = os.path.abspath(compilation.nvcc.path)
    if _SAFE_WORD.fullmatch(path):
        return path
    link = compilation.folder / "toolkit"
    if not link.is_symlink():
        link.symlink_to(Path(path).parent.parent)
    return f"./toolkit/{Path(path).parent.name}/{Path(path).name}"


def _run_command(
    compilation: Compilation,
    name: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    limit: float | None,
) -> tools.ToolRun:
    return tools.run_tool(
        name,
        command,
        folder=compilation.folder,
        reads=(
            *compilation.reads,
            str(compilation.path.parent),
            str(Path(compilation.nvcc.path).parent.parent),
        ),
        environment={**variables, "TMPDIR": "."},
        limit=limit,
        inputs=compilation.inputs,
    )
