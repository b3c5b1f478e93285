"""One exception per phase, all under :class:`PerfAssertError`.

A message says where, what, and the next step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_OLDER_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""Commands that runners of GitHub and Azure take from anywhere in a line. Its second sign is
spelled as JSON spells it, so that data stay data."""


def printable(text: str, lines: bool = True) -> str:
    """Names and messages of others, for people: control characters and marks that turn text around
    are spelled out, nothing is a command to GitHub or Azure; ``lines``: those of the text stay."""
    if text.isprintable() and "::" not in text and "##" not in text:
        return text
    kept = "\n\t" if lines else ""
    spelled = "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)
    spelled = _OLDER_COMMAND.sub(r"#\\u0023", spelled)
    return re.sub(r"^([ \t]*)::", r"\1\\::", spelled, flags=re.MULTILINE)


def in_short(value: object) -> str:
    """For messages: a value of a user as it was written; of hundreds of digits, the start."""
    try:
        text = repr(value)
    except Exception:  # of an integer of thousands of digits, or of an object of others
        text = f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:160]}… ({len(text)} characters)"


class PerfAssertError(Exception):
    """Base of every error that perfassert raises on purpose."""

    def __str__(self) -> str:
        return printable(super().__str__())


class UnitError(PerfAssertError):
    """A unit is unknown, or two quantities of unlike units meet."""


class DeviceFileError(PerfAssertError):
    """A device file breaks the schema; the message names file, key and reason."""


class UnknownDevice(PerfAssertError):
    """No device has that name; the message lists close matches."""


class AddressExpressionError(PerfAssertError):
    """An address expression cannot be parsed or evaluated; the column is marked."""


class KernelError(PerfAssertError):
    """A kernel description contradicts itself."""


class KernelSourceError(PerfAssertError):
    """A kernel source, binary or listing cannot be read or compiled; the place is named."""


class ToolchainMissing(KernelSourceError):
    """A tool that this source needs is not installed; the message says how to install it."""


class GraphError(PerfAssertError):
    """An instruction graph contradicts itself or its latencies; the message names the node."""


class LaunchError(PerfAssertError):
    """A launch is impossible as such or on the device at hand."""


class MissingArgument(LaunchError):
    """A launch lacks an argument that its kernel needs.

    ``problem`` says which and for what; ``hint`` what to do in Python, ``option`` what to give on
    the command line, where :attr:`command_line_text` is shown; ``note``: what else is missing.
    """

    def __init__(self, problem: str, hint: str, option: str, note: str = "") -> None:
        super().__init__(f"{problem}; {hint}{note}")
        self.command_line_text = f"{problem}; give {option}{note}"


class PredictionDataError(PerfAssertError):
    """Plain data is no prediction, or a damaged one; the message names the key."""


class ExpectationError(PerfAssertError):
    """An expectation cannot be understood or cannot apply; it never passes."""


class BaselineError(PerfAssertError):
    """A baseline is missing, unreadable, or of another model or device file."""


class RankingError(PerfAssertError):
    """A ranking is asked for in a way that has no answer."""


class SamplesError(PerfAssertError):
    """Measured samples cannot be read, or are of another binary; the message names the line."""


class PerfFileError(PerfAssertError):
    """A ``*.perf.toml`` file cannot be used; the message names file, line, key and reason."""


class RecordError(PerfAssertError):
    """A program cannot be recorded, or a launches file cannot be used; the message says why."""


class SuiteError(PerfAssertError):
    """A validation suite or its data cannot be used; the message names file, key and reason."""


class PluginError(PerfAssertError):
    """A plug-in contradicts another one or fails at its work; the message names it."""


class PerfAssertWarning(UserWarning):
    """Something that a green run must not hide; the message says what and where."""


class PluginWarning(PerfAssertWarning):
    """A plug-in, or a part of what it adds, is not in use; the message says why."""


class ReportError(PerfAssertError):
    """A report cannot be written, or a file is none that can be read or compared."""


def check_kind(
    value: object, kind: type | tuple[type, ...], what: str, error: type[PerfAssertError]
) -> None:
    """Raise ``error`` where an argument, which users know as ``what``, is of another kind."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(_KINDS.get(k.__name__, k.__name__) for k in kinds)
        raise error(f"{what} must be {wanted}, not {in_short(value)}")


_KINDS = {"Mapping": "a mapping", "Sequence": "a list", "str": "a text", "Kernel": "a Kernel"}


class ExpectationFailed(AssertionError):
    """At least one expectation does not hold; the message is a table."""

    def __str__(self) -> str:
        return printable(super().__str__())


def close_matches(word: object, known: Iterable[str]) -> str:
    """``"; did you mean 'a', 'b'?"`` or an empty string."""
    from difflib import get_close_matches

    folded = {name.lower(): name for name in known if isinstance(name, str)}
    lower = str(word).lower() if isinstance(word, str) else in_short(word)
    near = [folded[m] for m in get_close_matches(lower, folded, n=3, cutoff=0.5)]
    return f"; did you mean {', '.join(repr(n) for n in near)}?" if near else ""


_BASES = (PerfAssertError, ExpectationFailed, PluginWarning)
for _public in list(globals().values()):
    if isinstance(_public, type) and issubclass(_public, _BASES):
        _public.__module__ = "perfassert"  # the name under which users know and catch it
