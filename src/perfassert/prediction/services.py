"""What a prediction asks of the floors above its own, which it does not import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Services(Protocol):
    """Given by the package, which stands above all floors."""

    def check(self, prediction: Any, conditions: Mapping[str, object]) -> None:
        """Raise :class:`~perfassert.ExpectationFailed` unless every condition holds."""


services: Services
"""Set once, when the package is first imported."""
