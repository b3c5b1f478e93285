"""Isolated Python: the import path of a child process, and of this one where sources are confined.

A child of ours runs with ``-I``: it neither searches the working directory nor reads ``PYTHON*``
variables. Its ``sys.path`` is given to it explicitly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.system.confined import FOLDER, confining


def isolated_command(target: str, *arguments: str) -> list[str]:
    """Return the command that calls a function in an isolated child and exits with its result.

    Args:
        target: ``"module:function"``, importable there; the function takes no arguments.
        arguments: what the child finds in ``sys.argv[1:]``.

    Example:
        >>> isolated_command("perfassert.system.pool_worker:main")[1:3]
        ['-I', '-X']
    """
    module, _, function = target.partition(":")
    code = (
        f"import sys; sys.path[:] = {import_path()!r}; "
        f"from {module} import {function}; sys.exit({function}())"
    )
    return [sys.executable, "-I", "-X", "utf8", "-c", code, *arguments]


def import_path(untrusted: Iterable[str | Path] = ()) -> list[str]:
    """Return the entries of ``sys.path`` that a stranger's checkout does not decide.

    Relative entries, ``""``, the working directory, and whatever lies in an untrusted or confined
    folder are left out. The interpreter's own folders and its site folders always remain.
    """
    try:
        excluded = [Path.cwd().resolve()]
    except OSError:  # the working directory was removed
        excluded = []
    roots = [Path(folder).resolve() for folder in untrusted]
    if (confined := confining()) is not None:
        roots.append(confined)
    own = _interpreter_folders()
    kept = []
    for entry in sys.path:
        if not os.path.isabs(entry):
            continue
        real = Path(entry).resolve()
        outside = real not in excluded and not any(real.is_relative_to(root) for root in roots)
        if outside or any(real.is_relative_to(folder) for folder in own):
            kept.append(entry)
    return kept


def isolate_imports(untrusted: Sequence[str | Path] = ()) -> None:
    """Reduce this process's ``sys.path`` to :func:`import_path`.

    Raises:
        PerfAssertError: the Python environment itself lies in a confined or untrusted folder, so
            that whoever writes there decides what is imported.
    """
    roots = [*map(Path, untrusted)]
    if (confined := confining()) is not None:
        roots.append(confined)
    for folder in _interpreter_folders():
        for root in roots:
            if folder.is_relative_to(root.resolve()):
                named = f"{root}, which {FOLDER} names" if root == confined else str(root)
                raise PerfAssertError(
                    f"the Python environment {folder} lies in {named}: files there decide what "
                    "Python imports; make the environment elsewhere"
                )
    sys.path[:] = import_path(untrusted)


def _interpreter_folders() -> tuple[Path, ...]:
    """Return the folders of the interpreter's library and of its installed packages."""
    import site  # imported by Python itself, unless it was started with -S
    import sysconfig

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {*map(sysconfig.get_path, names), *site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    return tuple(Path(folder).resolve() for folder in sorted(folders))
