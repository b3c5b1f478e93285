"""Says what ``pyproject.toml`` cannot: a wheel without the compiled engine is pure.

``PERFASSERT_PURE=1`` leaves the engine out where a compiler is at hand.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class Extensions(build_ext):
    """None where none is wanted."""

    def run(self) -> None:
        if os.environ.get("PERFASSERT_PURE", "0") == "0":
            super().run()


class Wheel(bdist_wheel):
    """``py3-none-any`` where the extension, which is optional, was not built."""

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
