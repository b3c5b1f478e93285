"""Common parts of the tuners: settings, the device at hand, and the line that they log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perfassert.errors import PerfAssertError, RankingError
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.ranking.ranking import Key, Ranking
from perfassert.ranking.selection import Selection, check_share, select

LOG = logging.getLogger("perfassert.tuning")


@dataclass(frozen=True)
class Settings:
    """Settings of a tuner: the share that it keeps, and the device, if it is named."""

    keep: float
    device: Device | str | Path | None

    @classmethod
    def validate(cls, keep: float, device: Device | str | Path | None) -> Settings:
        """Raise an error for what no tuner can use, before it is used."""
        check_share(keep, "keep")
        return cls(keep, None if device is None else load_device(device))

    def target(self, name: str | None = None) -> Device:
        """Return the device that was given, else that of ``name``, else PyTorch's current one.

        Raises :class:`RankingError` if there is none.
        """
        known = self.device if self.device is not None else name or _current_name()
        if known is None:
            raise RankingError("there is no CUDA device; say what to tune for: device='a100'")
        return load_device(known)

    def select(
        self, kernel: str, device: Device, ranking: Ranking | None,
        failures: Mapping[Key, PerfAssertError],
    ) -> Selection:  # fmt: skip
        """Apply the rule, and log what it did."""
        selection = select(ranking, self.keep, failures)
        reason = next((str(e).splitlines()[0] for e in failures.values() if str(e)), "")
        unpredicted = f" (first reason: {reason})" if selection.unpredicted else ""
        LOG.warning("%s on %s: %s%s", kernel, device.name, selection.describe(), unpredicted)
        return selection


def _current_name() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
