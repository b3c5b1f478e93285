"""``perfassert explore``: a local page to try expressions and launches."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.errors import KernelSourceError, LaunchError
from perfassert.system.temporary import temporary_folder

if TYPE_CHECKING:
    from perfassert.hardware.model import Device


MOST_TEXT = 500_000  # bytes of a file that is shown to be edited
_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>perfassert explore</title>
<a href="{address}">Explore a kernel</a>
"""


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "explore",
        "open a local page: type address expressions, move the launch, see why",
        "Serves a page on this machine that predicts as you type: address expressions or CUDA "
        "source, grid and block, device.",
        "", "stencil.cu --device h100",
    )  # fmt: skip
    parser.add_argument("source", nargs="?", type=Path, help="a .cu or .ptx file to begin with")
    parser.add_argument(
        "--device", default="A100-SXM4-40GB", metavar="NAME",
        help="to begin with: a name, an alias or a device file (default: %(default)s)",
    )  # fmt: skip
    add_compilation(parser)
    parser.add_argument("--port", type=int, default=0, help="default: one that is free")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--json", action="store_true", help="print the address as JSON")
    parser.set_defaults(command=_explore)


def _explore(options: argparse.Namespace) -> int:
    from perfassert.cli.explored import Explorer
    from perfassert.cli.local_server import LocalServer

    source: Path | None = options.source
    if source is not None and not source.is_file():
        raise KernelSourceError(f"{source}: there is no such file")
    devices = _devices(options.device)
    with temporary_folder() as folder:
        explorer = Explorer(folder, source, compilation_of(options), devices)
        answers = {
            "predict": explorer.predict, "details": explorer.details, "rank": explorer.rank,
            "kernels": explorer.kernels,
        }  # fmt: skip
        try:
            server = LocalServer(options.port, explore_page(source, devices), answers, str(folder))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LaunchError(f"--port {options.port}: {reason}; give another") from None
        with server:
            address = server.address
            shown = f"{address}  (Ctrl-C ends it; who knows the address may ask)"
            print(json.dumps({"address": address}) if options.json else shown, flush=True)
            if options.open:
                server.redirect = _open_browser(address, folder)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return 0
    return 0


def _open_browser(address: str, folder: Path) -> Path:
    """Open the page through a file that redirects to it, and return that file.

    The command line of a browser is visible to every user of the machine. The folder of the file is
    accessible to its user only.
    """
    from threading import Thread
    from webbrowser import open as open_browser

    file = folder / "open.html"
    with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
        stream.write(_REDIRECT.format(address=address))
    # A browser in the terminal stays in the foreground, and the page has to be served meanwhile.
    Thread(target=open_browser, args=(file.as_uri(),), daemon=True).start()
    return file


def _devices(first: str) -> Mapping[str, Device]:
    """Return all devices by name, the given one first."""
    from perfassert.hardware.load import device, devices

    own = device(first)
    return {own.name: own, **{name: device(name) for name in devices() if name != own.name}}


def explore_page(source: Path | None, devices: Mapping[str, Device]) -> str:
    """Return the HTML page that the browser loads, with the kernel's source in it."""
    from perfassert.kernel.field import ITEM_BYTES
    from perfassert.report.page import page
    from perfassert.version import VERSION

    data = {
        "version": VERSION,
        "devices": list(devices),
        "dtypes": list(ITEM_BYTES),
        "file": source.name if source else None,
        "source": _read_source(source) if source else "",
    }
    return page("explore", "Explore a kernel", data, "prediction", "machine", served=True)


def _read_source(source: Path) -> str:
    """Return CUDA source for the page's editor; empty for other files and above ``MOST_TEXT``."""
    from perfassert.system.confined import read_text

    if source.suffix not in (".cu", ".cuh") or source.stat().st_size > MOST_TEXT:
        return ""
    return read_text(source, errors="replace")
