"""Buffers of a launch in a TOML file: what is wrong with them is said with its key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfassert.errors import LaunchError, close_matches
from perfassert.kernel.array_files import FILES, file_and_part
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.contents import check_generator
from perfassert.kernel.launch import Launch
from perfassert.toml.tables import TableReader

_CONTENT = ("data", "fill", "alias")
_INSIDE = re.compile(r"[.+\[]")
"""What parts an argument's name from a place in it."""


def made_buffer(reader: TableReader, key: str, given: Mapping[str, Any]) -> Buffer:
    """A :class:`Buffer`; its file is read."""
    if len(several := [k for k in _CONTENT if k in given]) > 1:
        reader.fail(f"{key}.{several[1]}", f"does not go with {several[0]}; give one of them")
    if "seed" in given and "fill" not in given:
        reader.fail(f"{key}.seed", "goes with fill, and there is none")
    for name in ("data", "pages"):
        if name in given:
            _check_file_exists(reader, f"{key}.{name}", given[name])
    for name, least in (("seed", 0), ("alignment", 1)):
        if given.get(name, least) < least:
            reader.fail(f"{key}.{name}", f"must be at least {least}, not {given[name]}")
    try:
        return Buffer(**given)
    except LaunchError as error:
        reader.fail(f"{key}.data" if "data" in given else key, str(error))


def _check_file_exists(reader: TableReader, key: str, place: str) -> None:
    path = Path(file_and_part(place)[0])
    if not os.path.isfile(path):
        near = close_matches(
            path.name, (p.name for p in path.parent.glob("*") if p.suffix in FILES)
        )
        reader.fail(key, f"there is no file {path.name!r}{near}")


def check_buffers(reader: TableReader, key: str, launch: Launch) -> None:
    """Generators are understood, with the launch's integers as names; aliases mean buffers."""
    numbers = dict(launch.scalar_args())
    for at, buffer in _buffers(key, launch.args):
        if buffer.fill is not None:
            try:
                check_generator(buffer, numbers)
            except LaunchError as error:
                reader.fail(f"{at}.fill", str(error))
        elif buffer.alias is not None and isinstance(launch.args, Mapping):
            _check_alias(reader, at, buffer.alias, launch.args)


def _buffers(key: str, args: Any) -> Iterator[tuple[str, Buffer]]:
    """With their keys, those in structures too."""
    if isinstance(args, Buffer):
        yield key, args
    elif isinstance(args, Mapping):
        for name, value in args.items():
            yield from _buffers(f"{key}.{name}", value)
    elif isinstance(args, tuple):
        for i, value in enumerate(args):
            yield from _buffers(f"{key}[{i}]", value)


def _check_alias(reader: TableReader, at: str, alias: str, args: Mapping[str, Any]) -> None:
    """Members of structures are named as the code has them: only their argument is looked up."""
    meant = alias if alias in args else _INSIDE.split(alias)[0]
    if meant not in args:
        near = close_matches(alias, args) or f"; described are: {', '.join(args)}"
        reader.fail(f"{at}.alias", f"there is no argument {alias!r}{near}")
    if not isinstance(args[meant], (Buffer, Mapping)):
        reader.fail(f"{at}.alias", f"{alias!r} is {args[meant]!r}, no buffer")
    chain = [alias]
    while isinstance(buffer := args.get(chain[-1]), Buffer) and buffer.alias is not None:
        if buffer.alias in chain:
            around = " → ".join([*chain, buffer.alias])
            reader.fail(f"{at}.alias", f"is an alias of itself: {around}")
        chain.append(buffer.alias)
