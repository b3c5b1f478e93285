"""The exceptions, one class per phase, all under :class:`PerfAssertError`.

A message says where, what, and the next step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

_OLDER_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""Older commands that runners of GitHub and Azure take from anywhere in a line.

Their second sign is spelled as JSON spells it, so that data stay data.
"""


def printable(text: str, lines: bool = True) -> str:
    """Return others' names and messages for people, free of control characters and commands.

    Control characters and marks that turn text around are spelled out. Commands of GitHub or Azure
    are disarmed. ``lines``: True keeps the line ends of the text.
    """
    if text.isprintable() and "::" not in text and "##" not in text:
        return text
    kept = "\n\t" if lines else ""
    spelled = "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)
    spelled = _OLDER_COMMAND.sub(r"#\\u0023", spelled)
    return re.sub(r"^([ \t]*)::", r"\1\\::", spelled, flags=re.MULTILINE)


def in_short(value: object) -> str:
    """Return a user's value as text for a message, cut after 160 characters if it has over 200."""
    try:
        text = repr(value)
    except Exception:  # of an integer of thousands of digits, or of an object of others
        text = f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:160]}… ({len(text)} characters)"


class Interface(Enum):
    """Interface that a user is on, whose words a message uses."""

    PYTHON = "Python"
    COMMAND_LINE = "command line"
    TABLE = "*.perf.toml"
    TOOL = "tools of perfassert serve and mcp"


class PerfAssertError(Exception):
    """Base class of every error that perfassert raises on purpose.

    :class:`ExpectationFailed` is the one exception to that: it is an ``AssertionError``.

    Example:
        >>> import perfassert as pa
        >>> try:
        ...     pa.device("no-such-gpu")
        ... except pa.PerfAssertError as error:
        ...     print(type(error).__name__)
        UnknownDevice
    """

    def __str__(self) -> str:
        return printable(super().__str__())

    def text_for(self, interface: Interface) -> str:
        """Return the message in the words of an interface.

        Args:
            interface: where the message is shown.
        """
        return str(self)


class UnitError(PerfAssertError):
    """Unknown unit, or a comparison of two quantities of different units.

    Raised by :class:`perfassert.Quantity`.

    Example:
        >>> import perfassert as pa
        >>> pa.Quantity("60 us") < "60 MB"
        Traceback (most recent call last):
            ...
        perfassert.UnitError: cannot compare 60 us with '60 MB': the units differ
    """


class DeviceFileError(PerfAssertError):
    """A device file that breaks the schema; the message names file, key and reason.

    Raised by :func:`perfassert.device` and :meth:`perfassert.Device.replace`.

    Example:
        >>> import perfassert as pa
        >>> pa.device("missing.toml")
        Traceback (most recent call last):
            ...
        perfassert.DeviceFileError: missing.toml: cannot be read: No such file or directory
    """


class UnknownDevice(PerfAssertError):
    """Unknown device name; the message lists close matches.

    Raised by :func:`perfassert.device` and by all functions that take a device's name.

    Example:
        >>> import perfassert as pa
        >>> pa.device("L4O")
        Traceback (most recent call last):
            ...
        perfassert.UnknownDevice: unknown device 'L4O'; did you mean 'L4', 'L40', 'L40S'?
    """


class AddressExpressionError(PerfAssertError):
    """An address expression that cannot be parsed or evaluated, or leaves its field.

    A caret marks the column. Raised by :meth:`perfassert.Kernel.from_accesses`,
    :meth:`perfassert.Kernel.from_graph` and :func:`perfassert.predict`.

    Example:
        >>> import perfassert as pa
        >>> field = pa.Field("src", shape=(64, 64))
        >>> pa.Kernel.from_accesses("wrong", [field], loads=["scr[y, x]"])
        Traceback (most recent call last):
            ...
        perfassert.AddressExpressionError: loads[0]: unknown field 'scr'; did you mean 'src'?
          scr[y, x]
          ^
    """


class KernelError(PerfAssertError):
    """A kernel description that contradicts itself.

    Raised by :class:`perfassert.Field`, :meth:`perfassert.Kernel.from_accesses`,
    :meth:`perfassert.Kernel.from_graph`, :func:`perfassert.whatif`, and by the front ends for hints
    such as ``trip_counts`` that are malformed.

    Example:
        >>> import perfassert as pa
        >>> pa.Field("src", shape=(64,), halo=(1, 1))
        Traceback (most recent call last):
            ...
        perfassert.KernelError: field 'src': halo has 2 axes, shape has 1
    """


class KernelSourceError(PerfAssertError):
    """A kernel source, binary or listing that cannot be read or compiled; the place is named.

    Raised by every ``from_…`` function, by :func:`perfassert.kernels`, and by
    :func:`perfassert.predict`, which compiles.

    Example:
        >>> import perfassert as pa
        >>> pa.from_cubin("axpy.cubin", arch="ampere")
        Traceback (most recent call last):
            ...
        perfassert.KernelSourceError: 'ampere' is no architecture; one looks like 'sm_80'
    """


class ToolchainMissing(KernelSourceError):
    """A tool or package that a source needs is not installed; the message says how to install it.

    Raised by :func:`perfassert.predict`, :func:`perfassert.kernels` and the front ends. The option
    ``--perf-no-toolchain=skip`` of pytest skips a test that raises it.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.ToolchainMissing, pa.KernelSourceError)
        True
    """


class GraphError(PerfAssertError):
    """An instruction graph that contradicts itself or its latencies; the message names the node.

    Raised by the graph builder, :class:`perfassert.Latency`, :func:`perfassert.simulate` and
    :func:`perfassert.predict`.

    Example:
        >>> import perfassert as pa
        >>> pa.Latency(issue=0, completion=4)
        Traceback (most recent call last):
            ...
        perfassert.GraphError: issue latency must be above 0, not 0
    """


class LaunchError(PerfAssertError):
    """A launch that is impossible as such, or on the device at hand.

    Raised by :class:`perfassert.Launch`, :class:`perfassert.Buffer`, :class:`perfassert.TensorMap`,
    :func:`perfassert.predict` and :func:`perfassert.rank`.

    Example:
        >>> import perfassert as pa
        >>> pa.Launch(grid=(1, 70_000), block=128)
        Traceback (most recent call last):
            ...
        perfassert.LaunchError: the grid has 70000 blocks in y; CUDA launches at most 65535
    """

    exceeds_device = False
    """True if the device at hand, or the code, cannot run the launch, though others may."""

    @classmethod
    def exceeding(cls, message: str) -> LaunchError:
        """Return an error of a launch that the device cannot run.

        Args:
            message: what it exceeds.
        """
        error = cls(message)
        error.exceeds_device = True
        return error


class UnreadOverride(LaunchError, KernelError):
    """Something that is given for a kernel and that nothing in it reads.

    An assumed value, a trip count, a constant or an array's stride. A :class:`LaunchError`; it was
    a :class:`KernelError` in version 0.2.

    Example:
        >>> import perfassert as pa
        >>> from perfassert.errors import UnreadOverride
        >>> issubclass(UnreadOverride, pa.LaunchError)
        True
    """


class MissingArgument(LaunchError):
    """A launch lacks an argument that its kernel needs.

    :meth:`text_for` says how to give it on each interface.

    Args:
        problem: which argument is missing, and for what.
        hint: what to do in Python.
        path: name of the argument, or ``name.member`` in a structure.
        note: what else is missing. Default: nothing.
    """

    def __init__(self, problem: str, hint: str, path: str, note: str = "") -> None:
        super().__init__(f"{problem}; {hint}{note}")
        self.problem = problem
        self.note = note
        name, _, member = path.partition(".")
        entry = f'{{"{name}": {{"{member}": …}}}}' if member else f'{{"{name}": …}}'
        self._steps = {
            Interface.COMMAND_LINE: f"give --arg {path}=…",
            Interface.TABLE: f"give it as args.{path} of the launch",
            Interface.TOOL: f"give it in args, as {entry}",
        }

    def text_for(self, interface: Interface) -> str:
        """Return the message with the step that gives the argument on an interface."""
        if interface is Interface.PYTHON:
            return str(self)
        return printable(f"{self.problem}; {self._steps[interface]}{self.note}")


class PredictionDataError(PerfAssertError):
    """Plain data that is no prediction, or a damaged one; the message names the key.

    Raised by :meth:`perfassert.Prediction.from_dict`.

    Example:
        >>> import perfassert as pa
        >>> pa.Prediction.from_dict({})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        perfassert.PredictionDataError: prediction has no 'threads'; ...
    """


class ExpectationError(PerfAssertError):
    """An expectation that cannot be understood or cannot apply; it neither passes nor fails.

    Raised by :meth:`perfassert.Prediction.expect`, :meth:`perfassert.Ranking.expect` and
    :meth:`perfassert.Perf.no_regression`.

    Example:
        >>> import perfassert as pa
        >>> copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=4096)], loads=["a[x]"])
        >>> pa.predict(copy, pa.Launch(16, 256), "a100").expect(tiem="< 60 us")
        Traceback (most recent call last):
            ...
        perfassert.ExpectationError: unknown metric 'tiem'; did you mean 'time'?
    """


class BaselineError(PerfAssertError):
    """A baseline that is missing, unreadable, or of another model, device file or kernel.

    Raised by :meth:`perfassert.Perf.no_regression`. It is no failed assertion: the test cannot say
    whether the kernel is slower. ``pytest --perf-update`` writes the baseline.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.BaselineError, AssertionError)
        False
    """


class RankingError(PerfAssertError):
    """A ranking that has no answer: no candidate, one twice, or one that was not ranked.

    Raised by :func:`perfassert.rank`, :func:`perfassert.rank_autotune` and
    :class:`perfassert.Ranking`.

    Example:
        >>> import perfassert as pa
        >>> pa.rank([(32, 8), (256, 1)], "a100")
        Traceback (most recent call last):
            ...
        perfassert.RankingError: a list of blocks or launches needs kernel=
    """


class SamplesError(PerfAssertError):
    """Measured samples that cannot be read, or are of another binary; the message names the line.

    Raised by :func:`perfassert.read_samples` and :func:`perfassert.advise`.

    Example:
        >>> import perfassert as pa
        >>> pa.read_samples("missing.csv")
        Traceback (most recent call last):
            ...
        perfassert.SamplesError: missing.csv: cannot be read: No such file or directory
    """


class PerfFileError(PerfAssertError):
    """A ``*.perf.toml`` file that cannot be used; the message names file, line, key and reason.

    Raised when pytest collects the file.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.PerfFileError, pa.PerfAssertError)
        True
    """


class RecordError(PerfAssertError):
    """A program that cannot be recorded, or a launches file that cannot be used.

    Raised by :func:`perfassert.launches`, ``perfassert record`` and ``--launches``. The message
    names the place and the reason.

    Example:
        >>> import perfassert as pa
        >>> pa.launches("missing.toml")
        Traceback (most recent call last):
            ...
        perfassert.RecordError: missing.toml: cannot be read: No such file or directory
    """


class SuiteError(PerfAssertError):
    """A validation suite or its data that cannot be used; the message names file, key and reason.

    Raised by ``perfassert validate`` and ``perfassert measure``.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.SuiteError, pa.PerfAssertError)
        True
    """


class PluginError(PerfAssertError):
    """A plug-in that contradicts another one or fails at its work; the message names it.

    Raised where what the plug-in adds (devices, metrics, optimizers, reports, generators) is used.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.PluginError, pa.PerfAssertError)
        True
    """


class PerfAssertWarning(UserWarning):
    """Something that a passing run must not hide; the message says what and where.

    pytest shows it for a test whose prediction is a guess, unless ``--perf-assumptions`` says
    ``error`` or ``allow``.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.PerfAssertWarning, UserWarning)
        True
    """


class PluginWarning(PerfAssertWarning):
    """A plug-in, or a part of what it adds, that is not in use; the message says why.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.PluginWarning, pa.PerfAssertWarning)
        True
    """


class ReportError(PerfAssertError):
    """A report that cannot be written, or a file that cannot be read or compared.

    Raised by ``--perf-report``, ``perfassert compare`` and ``perfassert docs``.

    Example:
        >>> import perfassert as pa
        >>> issubclass(pa.ReportError, pa.PerfAssertError)
        True
    """


def check_kind(
    value: object, kind: type | tuple[type, ...], what: str, error: type[PerfAssertError]
) -> None:
    """Raise ``error`` where an argument, which users know as ``what``, is of another kind."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(_KINDS.get(k.__name__, k.__name__) for k in kinds)
        raise error(f"{what} must be {wanted}, not {in_short(value)}")


_KINDS = {
    "Mapping": "a mapping", "Sequence": "a list", "str": "a text", "Kernel": "a Kernel",
    "PathLike": "a path", "Prediction": "a prediction", "PredictionValues": "a prediction",
}  # fmt: skip


class ExpectationFailed(AssertionError):
    """Failure of at least one expectation; the message is a table of metrics and verdicts.

    An ``AssertionError``, so that pytest reports a failed test. Raised by
    :meth:`perfassert.Prediction.expect`, :meth:`perfassert.Ranking.expect` and
    :meth:`perfassert.Perf.no_regression`.

    Example:
        >>> import perfassert as pa
        >>> copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=4096)], loads=["a[x]"])
        >>> try:
        ...     pa.predict(copy, pa.Launch(16, 256), "a100").expect(registers=16)
        ... except pa.ExpectationFailed as failure:
        ...     print("registers" in str(failure), isinstance(failure, AssertionError))
        True True
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def close_matches(
    word: object, known: Iterable[str], suggestions: Mapping[str, str] | None = None
) -> str:
    """``"; did you mean 'a', 'b'?"`` or an empty string.

    ``suggestions`` has what is suggested in place of a known name, if it is not the name itself.
    """
    from difflib import get_close_matches

    folded = {name.lower(): name for name in known if isinstance(name, str)}
    lower = str(word).lower() if isinstance(word, str) else in_short(word)
    names = [folded[m] for m in get_close_matches(lower, folded, n=3, cutoff=0.5)]
    near = [(suggestions or {}).get(name, name) for name in names]
    return f"; did you mean {', '.join(repr(n) for n in near)}?" if near else ""


_BASES = (PerfAssertError, ExpectationFailed, PluginWarning)
for _public in list(globals().values()):
    if isinstance(_public, type) and issubclass(_public, _BASES):
        _public.__module__ = "perfassert"  # the name under which users know and catch it
