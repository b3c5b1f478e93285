"""Cases of a ``*.perf.toml`` file, each for some devices."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch

EVERY_DEVICE = ""
"""The key of a reason that holds for all devices."""
LONGEST_ID = 80
"""Characters of a test's id, behind its file: what a line of a terminal shows."""
_LEAST_NAME = 20  # characters of the name that long parameters leave
_DIGITS = 6  # of the digest that tells ids apart whose first characters agree
Reasons = Mapping[str, str]
"""Device → why a case is skipped on it, or expected to fail."""


@dataclass(frozen=True)
class Header:
    """Common part of a test and a ranking.

    ``parameters``: the ids of this case's parameters. ``devices``: names or paths of device
    files; None: whatever the run is for. ``key``: the table of the file, ``line``: where it is.
    ``locate``: key → ``"saxpy.perf.toml:12: test[0].expect.time"``.
    """

    name: str
    parameters: tuple[str, ...]
    devices: tuple[str, ...] | None
    skip: Reasons
    xfail: Reasons
    key: str
    line: int
    locate: Callable[[str], str]
    allow_guesses: bool = False

    def case_id(self, device: str) -> str:
        """``"saxpy[A100-SXM4-40GB-128]"``: the device first, as pytest has it of Python tests.

        A longer id than :data:`LONGEST_ID` is cut; a digest of the whole follows its name.
        """
        whole = self.whole_id(device)
        if len(whole) <= LONGEST_ID:
            return whole
        digest = f"~{hashlib.sha256(self.whole_id('').encode()).hexdigest()[:_DIGITS]}"
        parameters = "-".join((device, *self.parameters))
        left = LONGEST_ID - len(digest) - len("[]")
        name = self.name[: max(left - len(parameters), _LEAST_NAME)]
        return f"{name}{digest}[{parameters[: left - len(name)]}]"

    def whole_id(self, device: str) -> str:
        """The id in whole, which it was up to version 0.3."""
        return f"{self.name}[{'-'.join((device, *self.parameters))}]"

    def place(self, key: str) -> str:
        """Return the place of a key of this test, for errors."""
        return self.locate(f"{self.key}.{key}")


@dataclass(frozen=True)
class TestCase:
    """A test case: a kernel, a launch, and the expectations.

    ``baseline``: arguments of ``no_regression``, if a baseline is checked. ``kernel_key`` and
    ``launch_key``: keys in the file where kernel and launch are described.
    """

    __test__ = False  # not a test class for pytest

    header: Header
    kernel: Kernel
    launch: Launch
    expect: Mapping[str, Any]
    baseline: Mapping[str, Any] | None
    kernel_key: str
    launch_key: str


@dataclass(frozen=True)
class RankCase:
    """Candidates by label, and the claims: arguments of :meth:`Ranking.expect`; ``tolerance``: that
    of a baseline, where one is asked for."""

    header: Header
    candidates: Mapping[str, tuple[Kernel, Launch]]
    claims: Mapping[str, Any]
    tolerance: str | None = None


Case = Union[TestCase, RankCase]
