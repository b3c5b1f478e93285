"""Answers of ``perfassert explore``: each turns a question into a prediction, both plain data.

Questions come from a form. A kernel is given by address expressions, which are parsed and never
evaluated, or by CUDA source, which is compiled and never run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfassert.cli.init import suggest_tests
from perfassert.cli.rank import shapes
from perfassert.cli.sources import extent_of
from perfassert.cli.values import values
from perfassert.errors import KernelError, LaunchError
from perfassert.facade.prediction import Prediction
from perfassert.frontends.files import OWN, frontend_of
from perfassert.frontends.tables import KernelTableReader
from perfassert.hardware.model import Device
from perfassert.kernel.access import Access
from perfassert.kernel.description import AccessKernel, Kernel
from perfassert.kernel.expression import AXES, to_text
from perfassert.kernel.field import Field
from perfassert.kernel.folding import fold_kernel
from perfassert.kernel.integers import evaluate_integer
from perfassert.kernel.launch import Launch, extent
from perfassert.toml.text import format_string, format_value

Data = Mapping[str, Any]
Extent = tuple[int, int, int]
_NAME = "explored"
_SENT = "kernel.cu"
_KERNEL = ("accesses", "cuda", "kernel")
_KEYS = ("device", "domain", "block", "fold", "args", *_KERNEL)


class _Questions(KernelTableReader):
    """Reader of a question's tables; the key alone is shown as the place of an error."""

    def __init__(self) -> None:
        super().__init__(Path())

    def place(self, key: str) -> str:
        return key

    def expression(self, key: str, value: Any) -> int:
        """Return an expression's value, evaluated at once because there are no names."""
        expression = super().expression(key, value)
        try:
            return evaluate_integer(str(expression), {}, self.error)
        except self.error as error:
            self.fail(key, str(error))


class Explorer:
    """Answers to questions; the last kernel is kept, as the next question is mostly about it.

    ``folder`` is for source that is sent. ``file`` is the command line's, compiled as ``given``.
    ``devices`` are the devices that may be asked for, by name.
    """

    def __init__(
        self, folder: Path, file: Path | None, given: Data, devices: Mapping[str, Device]
    ) -> None:
        self._folder = folder
        self._file = file
        self._given = given
        self._devices = devices
        self._read = _Questions()
        self._last: tuple[str, Kernel] | None = None
        self._predicted: tuple[Data, Prediction] | None = None

    def predict(self, question: Data) -> Data:
        """Return the prediction, its layer conditions, and a test that would keep it."""
        from perfassert.facade.session import predict
        from perfassert.report.html import page_row

        kernel, launch, device = self._read_question(question)
        p = predict(kernel, launch, device)
        self._predicted = question, p
        data = {**p.to_dict(diagnosis=False), "label": p.kernel, "note": ""}
        named = self._file.name if self._file and "cuda" not in question else _SENT
        test = "".join(f"{line}\n" for line in _test(kernel, p, launch, named))
        return {**page_row(data), "layers": _layers(p, device), "test": test}

    def details(self, question: Data) -> Data:
        """Return stalls, advice, timeline and code of the launch, from further simulations."""
        from perfassert.report.diagnosis import diagnosis, machine_code
        from perfassert.report.html import page_row, source_lines
        from perfassert.report.sources import findings, sources

        if self._predicted is None or self._predicted[0] != question:
            self.predict(question)
        assert self._predicted is not None
        p = self._predicted[1]
        own = self._file if "cuda" not in question else None
        root = own.resolve().parent if own else self._folder.resolve()
        data = {
            **p.to_dict(), "label": p.kernel, "note": "", "sources": sources(p, root),
            "findings": findings(p, root), **diagnosis(p, root),
        }  # fmt: skip
        row = page_row(data)
        shown = ("stalls", "advice", "timeline", "waits", "sources", "findings")
        files = source_lines(data["sources"], root)
        code = machine_code(p, root)
        return {**{k: row[k] for k in shown if k in row}, "files": files, "code": code}

    def rank(self, question: Data) -> Data:
        """Rank all block shapes of powers of two with as many threads as the block."""
        from perfassert.ranking.ranking import rank

        kernel, launch, device = self._read_question(question)
        domain = launch.domain or launch.extent
        threads = 1 << (launch.threads_per_block.bit_length() - 1)
        candidates = {
            "×".join(map(str, block)): (kernel, Launch.cover(domain, block, launch.args))
            for block in shapes(threads, domain, device)
        }
        return {"label": kernel.name, "threads": threads, **rank(candidates, device).to_dict()}

    def kernels(self, question: Data) -> Data:
        """Return the kernels in the question's source, each with suggested arguments."""
        from perfassert.frontends.cuda.inventory import kernels

        arch = self._device(question).arch
        path, given = self._source(question)
        infos = [*{i.mangled: i for i in kernels(path, arch, **given)}.values()]
        if not infos:
            raise KernelError(f"{path.name} has no __global__ function")
        made = [frontend_of(str(path)).make(path, i.mangled, **given) for i in infos]
        known = [m.compiled.binary(arch).parameters for m in made]  # type: ignore[union-attr]
        suggestions = suggest_tests(infos, known)
        return {
            "kernels": [
                [k.name, "\n".join(map(_format_argument, k.args.items()))] for k in suggestions
            ]
        }

    def _read_question(self, question: Data) -> tuple[Kernel, Launch, Device]:
        self._read.check_keys("", question, _KEYS)
        device = self._device(question)
        block, domain = (self._extent(question, key) for key in ("block", "domain"))
        written = self._read_text(question, "args").splitlines()
        args = values(filter(str.strip, written), "arguments")
        kernel = self._kernel(question)
        if isinstance(kernel, AccessKernel):
            fold = self._extent(question, "fold")
            domain = _threads(domain, fold)
            names = {k: v for k, v in args.items() if isinstance(v, int)}
            kernel = fold_kernel(kernel, fold, names)
        return kernel, Launch.cover(domain, block, args), device

    def _device(self, question: Data) -> Device:
        name = self._read_text(question, "device")
        if name not in self._devices:
            raise LaunchError(f"device: there is no {name!r} in the list")
        return self._devices[name]

    def _read_text(self, question: Data, key: str) -> str:
        return self._read.string(key, question.get(key, ""))

    def _extent(self, question: Data, key: str) -> Extent:
        return extent(key, extent_of(self._read_text(question, key), key))

    def _kernel(self, question: Data) -> Kernel:
        key = json.dumps({k: question.get(k) for k in _KERNEL}, sort_keys=True)
        if self._last is None or self._last[0] != key:
            self._last = key, self._read_kernel(question)
        return self._last[1]

    def _read_kernel(self, question: Data) -> Kernel:
        if "accesses" not in question:
            path, more = self._source(question)
            name = self._read_text(question, "kernel") or None
            return frontend_of(str(path)).make(path, name, **more)
        given = self._read.accesses("kernel", question["accesses"])
        fields = [Field(**field) for field in given.pop("fields")]
        return Kernel.from_accesses(**{"name": _NAME, **given}, fields=fields)

    def _source(self, question: Data) -> tuple[Path, Data]:
        """Return the command line's file, or a file with the source that was last sent."""
        if "cuda" not in question:
            if self._file is None:
                raise KernelError("no source was sent: choose a .cu file, or give expressions")
            return self._file, self._given
        path = self._folder / _SENT
        try:
            path.write_text(self._read_text(question, "cuda"), "utf-8")
        except UnicodeEncodeError:
            raise KernelError("cuda: has characters that no text can have") from None
        if self._file is None:
            return path, {}
        around = [str(self._file.parent.resolve()), *self._given.get("include_dirs", ())]
        return path, {**self._given, "include_dirs": around}


def _format_argument(pair: tuple[str, float]) -> str:
    return f"{pair[0]} = {pair[1]}"


def _threads(domain: Extent, fold: Extent) -> Extent:
    """Return the domain in threads; :class:`LaunchError` if an axis is not divisible."""
    for axis, updates, factor in zip(AXES, domain, fold, strict=True):
        if updates % factor:
            raise LaunchError(
                f"folding: {factor} updates of a thread in {axis} do not divide the domain's "
                f"{updates}; choose another"
            )
    x, y, z = (n // f for n, f in zip(domain, fold, strict=True))
    return x, y, z


def _layers(p: Prediction, device: Device) -> list[dict[str, Any]]:
    """Return layer conditions: is the next row's or plane's shared data still in the L2?"""
    layers = []
    for axis in ("y", "z"):
        if not (needed := p.diagnostics.get(f"layer_{axis}_bytes", 0.0)):
            continue
        again = p.volumes.dram_load.parts.get(f"overlap_{axis}", 0.0)
        missed = p.diagnostics[f"layer_{axis}_miss"]
        capacity = device.l2_effective_bytes
        layers.append({"axis": axis, "needed": needed, "held": capacity, "missed": missed,
                      "again": float(again)})  # fmt: skip
    return layers


def _test(kernel: Kernel, p: Prediction, launch: Launch, file: str) -> Iterator[str]:
    """Yield lines of a test in ``*.perf.toml`` whose baseline keeps the prediction."""
    yield "[[test]]"
    yield f"name = {format_string(_NAME)}"
    yield f"devices = {format_value([p.device])}"
    numbers = {k: v for k, v in dict(launch.args).items() if isinstance(v, (int, float))}
    args = f", args = {format_value(numbers)}" if numbers else ""
    domain, block = map(format_value, (launch.domain, launch.block))
    yield f"launch = {{ domain = {domain}, block = {block}{args} }}"
    yield 'baseline = { tolerance = "2 %" }'
    if isinstance(kernel, AccessKernel):
        yield from _accesses(kernel)
    else:
        own = next((n for n, o in OWN.items() if Path(file).suffix in o.suffixes), "cubin")
        yield f"kernel = {{ {own} = {format_string(file)}, name = {format_string(p.kernel)} }}"


def _accesses(kernel: AccessKernel) -> Iterator[str]:
    lists = {
        "fields": [format_value(_field(f)) for f in kernel.fields.values()],
        "loads": [*map(_access_text, kernel.loads)],
        "stores": [*map(_access_text, kernel.stores)],
    }
    yield ""
    yield "[test.kernel.accesses]"
    for key, entries in lists.items():
        yield f"{key} = ["
        yield from (f"  {entry}," for entry in entries)
        yield "]"
    for key in ("flops", "dtype", "registers", "shared_bytes", "updates_per_thread", "ilp"):
        yield f"{key} = {format_value(getattr(kernel, key))}"


def _field(field: Field) -> Data:
    return {"name": field.name, "dtype": field.dtype, "shape": field.shape, "halo": field.halo}


def _access_text(access: Access) -> str:
    return format_string(f"{access.field}[{', '.join(map(to_text, access.subscripts))}]")
