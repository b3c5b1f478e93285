"""Says what ``pyproject.toml`` cannot: a wheel without the compiled engine is pure, and files are
compiled side by side.

``PERFASSERT_PURE=1`` leaves the engine out where a compiler is at hand. Free-threaded Python has no
stable ABI: its wheel is one for that version.
"""

import os
import shutil
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


class Extensions(build_ext):
    """None where none is wanted."""

    def finalize_options(self) -> None:
        super().finalize_options()
        for extension in self.extensions if FREE_THREADED else ():
            extension.py_limited_api = False
            extension.define_macros = []

    def run(self) -> None:
        if os.environ.get("PERFASSERT_PURE", "0") == "0":
            super().run()

    def build_extensions(self) -> None:
        """With as many compilers at once as there are processors.

        setuptools can build extensions in parallel, but takes the sources of each one by one: here
        both share the compilers. Microsoft's sets itself up at its first file, so it is left alone.
        """
        if self.compiler.compiler_type == "msvc":
            self._replace_microsofts()
        if self.compiler.compiler_type != "unix":
            return super().build_extensions()
        compile_in_turn = self.compiler.compile
        with ThreadPoolExecutor(os.cpu_count()) as compilers:

            def compile_sources(sources: list[str], **options: Any) -> list[str]:
                compiled = [compilers.submit(compile_in_turn, [s], **options) for s in sources]
                return [path for job in compiled for path in job.result()]

            self.compiler.compile = compile_sources
            self.parallel = len(self.extensions)
            super().build_extensions()

    def _replace_microsofts(self) -> None:
        """By LLVM's with the same options: the engines use vectors and builtins that the former
        lacks. Without LLVM it fails, and the wheel is a pure one."""
        self.compiler.initialize()
        self.compiler.cc = shutil.which("clang-cl") or self.compiler.cc
        for extension in self.extensions:
            extension.extra_compile_args = ["/O2", "/std:c++17", "/EHsc"]


class Wheel(bdist_wheel):
    """``py3-none-any`` where the extension, which is optional, was not built."""

    def finalize_options(self) -> None:
        if FREE_THREADED:
            self.py_limited_api = False
        super().finalize_options()

    def run(self) -> None:
        self.run_command("build_ext")
        extensions = self.get_finalized_command("build_ext")
        if not any(Path(path).exists() for path in extensions.get_outputs()):
            self.distribution.ext_modules = None
            self.root_is_pure = True
        super().run()


# A folder of its own: what an earlier build left in build/ would go into the wheel.
with TemporaryDirectory(prefix="perfassert-build-") as build:
    setup(
        cmdclass={"build_ext": Extensions, "bdist_wheel": Wheel},
        options={"build": {"build_base": build}},
    )
