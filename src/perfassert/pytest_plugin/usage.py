"""Devices of the run that are none: gathered while collecting, told at its end."""

from __future__ import annotations

import pytest

USAGE = pytest.StashKey[list[str]]()
