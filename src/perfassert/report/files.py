"""Writing of reports: a file is replaced at once, and never something that is no file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from perfassert.errors import ReportError
from perfassert.system.confined import leads_elsewhere


def replace_file(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, as :func:`replace_bytes` writes."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to a file and make its folders.

    A link is followed unless another user may have made it.

    Raises :class:`ReportError` where that cannot be, with what was there left as it was.
    """
    if reason := leads_elsewhere(path):
        raise ReportError(f"{path}: {reason}")
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise ReportError(f"{path}: is not a file, so it is left alone; name another path")
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as file:  # under a name that nobody has put a link at
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror or error}") from None
