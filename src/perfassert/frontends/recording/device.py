"""Attributes of the device, as the CUDA runtime reports them to a program."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from perfassert.hardware.model import Device
from perfassert.toml.tables import loads


def attributes(device: Device) -> Iterator[tuple[int, int]]:
    """Yield pairs of a ``cudaDeviceAttr`` number and its value on the device."""
    text = files("perfassert.frontends.recording").joinpath("attributes.toml").read_text("utf-8")
    table = loads(text)
    common = table["common"]
    capability = int(device.arch.removeprefix("sm_").rstrip("af"))
    derived = {
        "capability_major": capability // 10,
        "capability_minor": capability % 10,
        "clock_khz": device.clock_hz / 1e3,
        "shared_bytes_per_block_by_default": common["default_shared_bytes_per_block"],
    }
    for number, key in table["device"].items():
        yield int(number), int(derived[key] if key in derived else getattr(device, key))
    for number, value in common.items():
        if number.isdigit():
            yield int(number), value
