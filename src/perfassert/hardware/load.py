"""Device files: found by name, alias or path, read and checked once per process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.errors import DeviceFileError, UnknownDevice, in_short
from perfassert.hardware.extend import assemble_device, chain
from perfassert.hardware.model import Device
from perfassert.shipped import device_folder, read_head, read_table
from perfassert.system.confined import outside

if TYPE_CHECKING:
    from perfassert.plugins import Contributions


def device(name: str | Path | Device) -> Device:
    """Load a device by its name, by an alias, or by the path of a TOML file.

    Args:
        name: a shipped name or alias, case-insensitive (``"a100"`` is A100-SXM4-40GB), one of a
            plug-in, the path of a ``.toml`` file, or a :class:`Device`, which is returned.

    Returns:
        The device. A file is read and checked once in a process, until it changes.

    Raises:
        UnknownDevice: no device has that name or alias; close matches are listed.
        DeviceFileError: a file that cannot be read or breaks the schema.

    Example:
        >>> import perfassert as pa
        >>> gpu = pa.device("a100")
        >>> gpu.name, gpu.arch, gpu.compute_units
        ('A100-SXM4-40GB', 'sm_80', 108)
    """
    if isinstance(name, Device):
        return name
    if not isinstance(name, (str, PathLike)):
        raise UnknownDevice(f"a device is a name or the path of a file, not {in_short(name)}")
    text = str(name)
    if text.endswith(".toml"):
        if reason := outside(Path(text)):
            raise DeviceFileError(reason)
        return load_device(Path(text))
    return load_device(_find_file(text))


_MAKERS_AND_LINES = frozenset(("nvidia", "geforce", "tesla", "quadro"))


def _find_file(text: str) -> Path:
    """Find the file of a device by its name or alias, or by what its driver calls it."""
    path = _shipped_files().get(_short_name(text)) or _plugin_files().get(text)
    if path is None:
        hint = _suggest_names(text) or f"; known: {', '.join(devices())}"
        if "," in text:
            hint = ": name each device by itself, in an ini file on a line of its own"
        raise UnknownDevice(f"unknown device {text!r}{hint}{_plugin_files().note()}")
    return path


def _short_name(text: str) -> str:
    """The name without makers and lines: ``NVIDIA GeForce RTX 2080 Ti`` is rtx-2080-ti."""
    return "-".join(w for w in text.lower().split() if w not in _MAKERS_AND_LINES)


def devices() -> tuple[str, ...]:
    """List the names of all devices, of shipped files and of plug-ins.

    Returns:
        Names without aliases, sorted.

    Example:
        >>> import perfassert as pa
        >>> "A100-SXM4-40GB" in pa.devices()
        True
    """
    shipped = (path.stem for path in device_folder().glob("*.toml"))
    return tuple(sorted({*shipped, *(path.stem for path in _plugin_files().values())}))


def device_of(arch: str) -> Device | None:
    """Load the first device of an architecture, ``"sm_90a"`` or ``"sm_90"``; None without one."""
    return next((d for d in map(device, devices()) if d.arch == arch.rstrip("af")), None)


def _suggest_names(text: str) -> str:
    """Names of devices whose name or alias is like ``text``."""
    from difflib import get_close_matches

    known = {**_shipped_files(), **{k: path for k, (_, path) in _plugin_files().by_name.items()}}
    near = get_close_matches(text.lower(), known, n=6, cutoff=0.5)
    names = list(dict.fromkeys(known[alias].stem for alias in near))[:3]
    return f"; did you mean {', '.join(repr(n) for n in names)}?" if names else ""


def _plugin_files() -> Contributions[Path]:
    """Names and aliases of the device files of plug-ins."""
    from perfassert.plugins import gather

    return gather("perfassert_devices", _read_plugin_files, _shipped_files())


def _read_plugin_files(plugin: str, locations: Any) -> Iterator[tuple[str, Path]]:
    if isinstance(locations, (str, Path)):
        raise DeviceFileError(f"{str(locations)!r} stands alone; give a list of files or folders")
    for place in map(Path, locations):
        files = sorted(place.glob("*.toml")) if place.is_dir() else [place]
        if not files:
            raise DeviceFileError(f"{place}: there is no *.toml in it")
        for path in files:
            table = read_table(path)
            if table.get("name") != path.stem:
                raise DeviceFileError(f"{path}: name: must be that of the file, {path.stem!r}")
            names = {path.stem.lower(), *(str(a).lower() for a in table.get("aliases", ()))}
            yield from ((name, path) for name in sorted(names))


@lru_cache(maxsize=1)
def _shipped_files() -> dict[str, Path]:
    """Lower-cased name or alias → file."""
    files: dict[str, Path] = {}
    for path in sorted(device_folder().glob("*.toml")):
        files[path.stem.lower()] = path
        for alias in read_head(path).get("aliases", ()):
            files[str(alias).lower()] = path
    return files


def load_device(path: Path) -> Device:
    """Read and check one device file, and those that it extends."""
    _digest(path)  # before its place is looked for, which some names do not have
    place = path.resolve()
    loaded, fresh = None, _load(place, (_digest(path),))
    while loaded is None or loaded.files != fresh.files:  # an edited file may extend another one
        loaded, fresh = fresh, _load(place, tuple(map(_digest, fresh.files)))
    return fresh.device


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A device with the files that it comes from."""

    device: Device
    files: tuple[Path, ...]


@lru_cache(maxsize=64)
def _load(path: Path, digests: tuple[str, ...]) -> _Loaded:  # they keep it from being stale
    readers = chain(path, _base)
    return _Loaded(assemble_device(readers), tuple(r.path for r in readers))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # NUL
        raise DeviceFileError(f"{path}: cannot be read: {error}") from None


def _base(name: str, path: Path) -> Path:
    """The file that ``path`` extends: by a path relative to it, or as :func:`device` finds it."""
    if name.endswith(".toml"):
        named = path.parent / name
        if (reason := outside(named)) and not outside(path):
            raise DeviceFileError(f"{path}: extends: {reason}")
        return named
    try:
        return _find_file(name)
    except UnknownDevice as error:
        raise DeviceFileError(f"{path}: extends: {error}") from None
