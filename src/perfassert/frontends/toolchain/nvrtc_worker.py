"""Worker that runs NVRTC on one program, in its own process so that a time limit holds.

The worker is a script, not a module of the package. It is started by path with ``python -I``. It
imports only quick modules of the standard library. Request (JSON on standard input):
``library``, ``name`` (file name for diagnostics), ``source`` (path of the text), ``options``,
``expressions``, ``out`` (folder). Response (JSON on standard output): ``status`` of the
compilation, ``log``, ``lowered`` (name expression → mangled name); the folder then has ``ptx`` and
``cubin``, where there are any.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

TYPE_CHECKING = False  # for type checkers, without importing ``typing``
if TYPE_CHECKING:
    from typing import Any


def compile_program(request: dict[str, Any]) -> dict[str, Any]:
    library = load_nvrtc(request["library"])
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()
    with open(request["source"], "rb") as source:
        text = source.read()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), text, raw(request["name"]), 0, None, None
    )
    if status:
        return {"status": status, "log": library.nvrtcGetErrorString(status).decode()}
    for expression in request["expressions"]:
        library.nvrtcAddNameExpression(program, raw(expression))
    options = [raw(option) for option in request["options"]]
    status = library.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    log = fetch(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
    if status:
        stated = library.nvrtcGetErrorString(status).decode()
        return {"status": status, "log": log.strip() or stated}
    for what in ("PTX", "CUBIN"):
        if content := fetch(library, program, what):
            content = content.rstrip(b"\0") if what == "PTX" else content
            with open(os.path.join(request["out"], what.lower()), "wb") as file:
                file.write(content)
    return {
        "status": 0,
        "log": log,
        "lowered": lowered_names(library, program, request["expressions"]),
    }


def load_nvrtc(path: str) -> ctypes.CDLL:
    """Load NVRTC after its library of builtins, which wheels up to CUDA 13.0 do not locate."""
    folder = os.path.dirname(path)
    for name in sorted(os.listdir(folder or ".")):
        if name.startswith("libnvrtc-builtins.so"):
            ctypes.CDLL(os.path.join(folder, name))
    return ctypes.CDLL(path)


def raw(text: str) -> bytes:
    """Encode a text; file names may hold bytes that are no text in the caller's locale."""
    return text.encode("utf-8", "surrogateescape")


def fetch(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) or not size.value:
        return b""
    content = ctypes.create_string_buffer(size.value)
    return b"" if getattr(library, f"nvrtcGet{what}")(program, content) else content.raw


def lowered_names(
    library: ctypes.CDLL, program: ctypes.c_void_p, expressions: list[str]
) -> dict[str, str]:
    names = {}
    for expression in expressions:
        name = ctypes.c_char_p()
        if not library.nvrtcGetLoweredName(program, raw(expression), ctypes.byref(name)):
            names[expression] = (name.value or b"").decode()
    return names


if __name__ == "__main__":
    json.dump(compile_program(json.load(sys.stdin)), sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # without unloading the library
