"""``perfassert serve``: questions and answers as lines of JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from queue import Queue
from threading import Thread
from typing import Any, BinaryIO, TextIO

from perfassert.cli.command import add_command

_LONGEST = 1 << 20
"""Largest number of bytes of a line; a longer line is answered with an error."""
_WAITING = 1 << 14
"""Largest number of questions that are read ahead of the answers."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands,
        "serve",
        "answer questions of programs, as lines of JSON",
        'Reads a question on each line of standard input, {"id": 1, "tool": "predict", '
        '"arguments": {...}}, and writes an answer, {"id": 1, "result": {...}} or {"id": 1, '
        '"error": "..."}. The tool "tools" lists the others with the schemas of their arguments. '
        "Only files below the working directory are read.",
        "",
    )
    parser.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    from perfassert.cli.tools import confine

    confine()
    # Output of libraries and compilers goes to standard error, so that it cannot mix with answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)
    return 0


def serve(questions: BinaryIO, answers: TextIO) -> None:
    """Answer every line in order; return at the end of ``questions``.

    A thread reads ahead, so that a client may write all of its questions before it reads an answer.
    """
    waiting: Queue[bytes | None] = Queue(_WAITING)

    def read() -> None:
        for line in _read_lines(questions):
            waiting.put(line)
        waiting.put(None)

    Thread(target=read, name="perfassert questions", daemon=True).start()
    while (line := waiting.get()) is not None:
        if line.strip():
            print(json.dumps(answer(line)), file=answers, flush=True)


def _read_lines(questions: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of a line above the limit, only the first ``_LONGEST + 1`` bytes are kept."""
    while line := questions.readline(_LONGEST + 1):
        yield line
        while len(line) > _LONGEST and not line.endswith(b"\n"):
            line = questions.readline(_LONGEST + 1)


def answer(line: bytes) -> dict[str, Any]:
    """Return the answer to one line; any failure becomes the answer's ``error``.

    >>> answer(b'{"id": 7, "tool": "predcit"}')
    {'id': 7, 'error': "unknown tool 'predcit'; did you mean 'predict'?"}
    """
    from perfassert.cli.tool_calls import call_tool, describe_tools, error_text

    if len(line) > _LONGEST:
        return {"id": None, "error": f"the line has more than {_LONGEST} bytes"}
    try:
        question = json.loads(line)
    except (ValueError, RecursionError):
        return {"id": None, "error": "the line is not valid JSON"}
    if not isinstance(question, dict):
        return {"id": None, "error": 'a question is an object: {"id": 1, "tool": "predict", …}'}
    number = question.get("id")
    if question.get("tool") == "tools":
        return {"id": number, "result": {"tools": describe_tools()}}
    try:
        return {"id": number, "result": call_tool(question.get("tool"), question.get("arguments"))}
    except Exception as error:
        return {"id": number, "error": error_text(error)}
