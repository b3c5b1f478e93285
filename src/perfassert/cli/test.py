"""``perfassert test``: runs ``*.perf.toml`` files and imports no Python that lies beside them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from perfassert.cli.command import add_command
from perfassert.errors import PerfAssertError
from perfassert.system.confined import leads_elsewhere
from perfassert.system.python_children import isolate_imports
from perfassert.system.temporary import temporary_folder

if TYPE_CHECKING:
    import pytest

_ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
"""Environment in which only perfassert's plug-in is loaded and no other options apply."""


class _PytestWord(argparse.Action):
    """Action that appends the option to ``pytest_words`` in pytest's form."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        words = [option] if self.nargs == 0 else [option, values]
        if self.nargs != 0 and option.startswith("--"):
            words = [f"{option}={values}"]
        namespace.pytest_words = [*namespace.pytest_words, *words]


class _Options:
    """Stand-in for pytest's parser and group, so that the plug-in adds its options to argparse."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def getgroup(self, *names: str) -> _Options:
        return self

    def addini(self, *words: Any, **attributes: Any) -> None:
        """Ignore an ini option: ini files are not read."""

    def addoption(self, *names: str, **attributes: Any) -> None:
        kept = {k: v for k, v in attributes.items() if k in ("help", "choices", "metavar")}
        if attributes.get("action") in ("store_true", "append_const"):
            kept["nargs"] = 0
        self._group.add_argument(*names, action=_PytestWord, dest=argparse.SUPPRESS, **kept)


def add(commands: Any) -> None:
    """Register the command."""
    from perfassert.pytest_plugin.plugin import pytest_addoption

    parser = add_command(
        commands, "test", "run *.perf.toml files, without importing Python beside them",
        "Runs the tests in *.perf.toml files as pytest does. Nothing else of the folder is used: "
        "no Python, no conftest.py, no ini file, no plug-in but perfassert. For code of strangers, "
        "as a pull request from a fork. Exit codes are pytest's: 0 passed, 1 failed, 4 wrong "
        "usage, 5 no tests.",
        "kernels --perf-device a100", "kernels/stencil.perf.toml -k star --perf-strict",
    )  # fmt: skip
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a folder, a file, or FILE::TEST")
    options = _Options(parser)
    for name, more in (
        ("-k", {"metavar": "EXPRESSION", "help": "run only tests whose names match"}),
        ("-x", {"action": "store_true", "help": "stop after the first failure"}),
        ("-q", {"action": "store_true", "help": "print less"}),
        ("-v", {"action": "store_true", "help": "print a line for each test"}),
        ("-r", {"metavar": "CHARS", "help": "list tests by outcome, as in pytest"}),
        ("--color", {"choices": ("yes", "no", "auto"), "help": "colour the output"}),
        ("--junit-xml", {"metavar": "PATH", "help": "write a JUnit report"}),
    ):
        options.addoption(name, **more)
    pytest_addoption(options)  # type: ignore[arg-type]
    parser.set_defaults(command=_test, pytest_words=[])


def _test(options: argparse.Namespace) -> int:
    paths = [_absolute(path) for path in options.paths]
    isolate_imports([path.partition("::")[0] for path in paths])
    with patch.dict(os.environ, _ENVIRONMENT):
        return run_perf_files(paths, options.pytest_words)


def _absolute(path: str) -> str:
    """Return an argument that pytest cannot take for an option or for a file of arguments."""
    file, separator, test = path.partition("::")
    if not os.path.exists(file):
        raise PerfAssertError(f"{file}: there is no such file or folder")
    if reason := leads_elsewhere(Path(file)):
        raise PerfAssertError(f"{file}: {reason}")
    return f"{os.path.abspath(file)}{separator}{test}"


def run_perf_files(paths: Sequence[str], words: Sequence[str]) -> int:
    """Run pytest over ``*.perf.toml`` files alone; return its exit code."""
    import pytest

    with temporary_folder() as folder:
        settings = folder / "pytest.ini"
        settings.write_text("[pytest]\n")
        fixed = [
            "-c", str(settings), f"--rootdir={os.getcwd()}", "--noconftest",
            "--assert=plain", "-p", "no:cacheprovider", "-p", "perfassert",
        ]  # fmt: skip
        return int(pytest.main([*fixed, *words, *paths], plugins=[_perf_files_only(pytest)]))


def _perf_files_only(pytest: Any) -> object:
    """Return a plug-in that lets only ``*.perf.toml`` files be collected.

    pytest collects a folder with ``__init__.py`` as a package, which it imports, and collects other
    files as its plug-ins decide. This plug-in prevents both. A link to a folder is followed only if
    the command line names it: its target is collected in its own place, or lies outside of what was
    asked.
    """
    from perfassert.pytest_plugin.toml_items import PerfTomlFile

    class PerfFilesOnly:
        @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
            return True if collection_path.is_symlink() and collection_path.is_dir() else None

        @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> Any:
            return pytest.Dir.from_parent(parent, path=path)

        @pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
        def pytest_collect_file(self) -> Generator[None, list[Any], list[Any]]:
            collectors = yield
            return [one for one in collectors if isinstance(one, PerfTomlFile)]

    return PerfFilesOnly()
