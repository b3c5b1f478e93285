"""``perfassert record``: run a program without a GPU and record its launches."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.executors import positive, seconds
from perfassert.cli.terminal import progress
from perfassert.errors import RecordError, in_short
from perfassert.frontends.toolchain.names import demangle, without_parameters
from perfassert.toml.text import format_string

if TYPE_CHECKING:
    from perfassert.frontends.recording.execution import Runner, Sampler
    from perfassert.frontends.recording.session import Recording, Request
    from perfassert.hardware.model import Device

_STDERR = 2  # where the program's output goes that must not mix with JSON
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHOWN = 20
"""Most lines of one kind that a summary prints."""
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)I?B?")


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "record", "record the launches of a program without a GPU",
        "Runs a CUDA program on an emulated driver and writes its kernels, launches and arguments "
        "to a launches file, which predict, advise, diff and pytest read.",
        "--device a100 -o launches.toml -- ./simulation --steps 10",
    )  # fmt: skip
    parser.add_argument("--device", required=True, help="what the program is told it runs on")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("launches.toml"), metavar="FILE",
        help="default: launches.toml; code and contents go beside it, and a *.perf.toml for pytest "
        "where there is none",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument(
        "--contents", action="store_true", help="what buffers hold when a kernel is first launched"
    )
    parser.add_argument(
        "--contents-limit", default="256M", metavar="SIZE", help="of all contents (default: 256M)"
    )
    parser.add_argument(
        "--execute", action="store_true",
        help="launches, so that later ones and the host see their results",
    )  # fmt: skip
    parser.add_argument(
        "--execute-limit", default="4G", metavar="N",
        help="instructions of threads that all launches may take together (default: 4G)",
    )  # fmt: skip
    parser.add_argument(
        "--source", action="append", type=Path, default=[], metavar="FILE",
        help="that declares kernels: their parameters are called as there",
    )  # fmt: skip
    parser.add_argument(
        "--memory", default="16G", metavar="SIZE", help="of the device (default: 16G)"
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="after which it is ended"
    )
    parser.add_argument(
        "--max-launches",
        type=positive,
        default=100_000,
        metavar="N",
        help="after which it is ended",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- PROGRAM ARGUMENTS")
    parser.set_defaults(command=_record)


def _record(options: argparse.Namespace) -> int:
    from perfassert.frontends.recording.session import record
    from perfassert.frontends.recording.write import files
    from perfassert.report.files import replace_bytes

    output: Path = options.output
    if output.exists() and not options.force:
        raise RecordError(f"{output} is there already; --force replaces it, -o names another")
    request = _request(options)
    with progress(f"recording {request.command[0]}", alone=False):  # it prints what it likes
        recording = record(request)
    with progress(f"writing {output}"):
        made = files(recording, output.stem)
    for name, content in made.beside.items():
        replace_bytes(output.with_name(name), content)
    replace_bytes(output, made.text.encode())
    test = _test_of(output)
    if not test.exists():
        replace_bytes(test, _test_text(request.device.name, output.name).encode())
    summary = _summary(recording, output)
    print(json.dumps(summary) if options.json else _describe_recording(summary, recording))
    return 0


def _test_of(output: Path) -> Path:
    return output.with_name(f"{output.stem}.perf.toml")


def _test_text(device: str, launches: str) -> str:
    """Return a test file for pytest, with a baseline for each launch."""
    return (
        f"devices = [{format_string(device)}]\n\n"
        "[[test]]\n"
        'name = "recorded"\n'
        f"launches = {format_string(launches)}\n"
        "baseline = true\n"
    )


def _request(options: argparse.Namespace) -> Request:
    from perfassert.frontends.recording.session import Request
    from perfassert.hardware.load import device

    command = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise RecordError("give the program behind --: perfassert record … -- ./app ARGUMENTS")
    limit = size(options.contents_limit, "--contents-limit") if options.contents else 0
    gpu = device(options.device)
    return Request(
        command=tuple(command),
        device=gpu,
        memory_bytes=size(options.memory, "--memory"),
        sources=tuple(_read(path) for path in options.source),
        contents_limit=limit,
        sampler=_sampler(gpu) if limit else None,
        runner=_runner(gpu) if options.execute else None,
        execute_limit=size(options.execute_limit, "--execute-limit"),
        launches=options.max_launches,
        timeout=options.timeout,
        stdout=_STDERR if options.json else None,
    )


def _runner(gpu: Device) -> Runner:
    from perfassert.predictor.sample.running import run

    return partial(run, device=gpu)


def _sampler(gpu: Device) -> Sampler:
    from perfassert.predictor.sample.running import prediction_reads

    return partial(prediction_reads, device=gpu)


def size(text: str, option: str) -> int:
    """Return bytes for a size such as ``"16G"``; units are powers of 1024."""
    match = _SIZE.fullmatch(text.upper())
    if match is None or not int(match[1]):
        raise RecordError(f"{option}: {in_short(text)} is no size, as 512M or 16G")
    return int(match[1]) * _UNITS[match[2]]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise RecordError(f"--source {path}: cannot be read: {error.strerror}") from None


def _summary(recording: Recording, output: Path) -> dict[str, Any]:
    findings = recording.findings
    launches = findings.launches.values()
    return {
        "file": str(output),
        "test": str(_test_of(output)),
        "launches": findings.events,
        "distinct": len(launches),
        "kernels": len({(one.module.digest, one.code.mangled) for one in launches}),
        "contents": len(recording.contents.arrays),
        "contents_left_out": recording.contents.left_out,
        "executed": recording.executed,
        "not_executed": _with_demangled_names(recording.not_executed),
        "status": recording.status,
        "timed_out": recording.late,
        "stopped": findings.stopped,
        "refused": findings.refused,
        "unreadable": _with_demangled_names(findings.failed),
        "device_attributes_unknown": sorted(findings.attributes),
        "arguments_unknown": [
            (without_parameters(demangle(k)), name) for k, name in sorted(findings.unknown)
        ],
    }


def _with_demangled_names(reasons: Mapping[str, str]) -> dict[str, str]:
    return {without_parameters(demangle(name)): why for name, why in reasons.items()}


def _describe_recording(summary: dict[str, Any], recording: Recording) -> str:
    launches, kernels = summary["launches"], summary["kernels"]
    lines = [
        f"{launches} launch{'es' * (launches != 1)} of {kernels} kernel{'s' * (kernels != 1)}, "
        f"{summary['distinct']} distinct: {summary['file']}"
    ]
    lines.append("pytest {test} --perf-update=new writes the baselines of all".format(**summary))
    if summary["executed"]:
        lines.append("{executed} of them executed".format(**summary))
    lines += _first([f"not executed: {n}: {why}" for n, why in summary["not_executed"].items()])
    if summary["stopped"]:
        lines.append("the program was ended: --max-launches")
    elif summary["timed_out"]:
        lines.append("the program was ended: --timeout")
    elif summary["status"]:
        lines.append(
            "the program ended with status {status}: {executed} of {launches} launches were "
            "executed, so it may have missed results of the others".format(**summary)
        )
    lines += _first(
        [f"failed: {call} ({count} times)" for call, count in summary["refused"].items()]
    )
    lines += _first([f"not recorded: {n}: {why}" for n, why in summary["unreadable"].items()])
    lines += _first(
        [
            f"{kernel}: {name} points to no memory that was allocated; left out"
            for kernel, name in summary["arguments_unknown"]
        ]
    )
    if summary["device_attributes_unknown"]:
        shown = ", ".join(_first([*map(str, summary["device_attributes_unknown"])]))
        lines.append(f"device attributes that no device file says, given as 0: {shown}")
    if summary["contents_left_out"]:
        lines.append(
            "contents of {contents_left_out} buffers are beyond --contents-limit".format(**summary)
        )
    return "\n".join(lines)


def _first(items: Sequence[str]) -> list[str]:
    """Return the first items, and a line that says how many more there are."""
    left = len(items) - _SHOWN
    return [*items[:_SHOWN], *([f"… and {left} more (--json has all)"] if left > 0 else [])]
