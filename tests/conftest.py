"""Shared by all tests.

``PERFASSERT_REQUIRE_TOOLCHAIN=1``: a test that is skipped because NVIDIA's tools are missing fails.

Of a test that is marked ``exhaustive(one_in=n)`` one set of parameters in n runs by default, and of
the marked tests of a file that have no parameters one in n; ``make test-exhaustive`` runs the
others: all of them, or the part that PART=2/7 names.
"""

import gc
import importlib.util
import os
import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

import perfassert as pa

pytest_plugins = ["pytester"]
NO_TOOLCHAIN = re.compile(
    r"\b(nvrtc|nvdisasm|ptxas|nvcc)\b.* (is missing|is not installed)|perfassert\[cuda\]|"
    r"NVIDIA's compiler is not installed",
    re.I,
)

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


def pytest_addoption(parser):
    parser.addoption(
        "--exhaustive",
        metavar="N/M",
        help="part N of M of what the default run leaves out",
    )
    parser.addoption("--also", metavar="N/M", help="such a part besides the default run")


def pytest_configure(config):
    # Expressions and descriptions of kernels are many objects that live long: looking through them
    # at Python's own thresholds takes a fifth of the time.
    gc.set_threshold(50_000, 20, 50)
    if toolchain_is_required():  # of the examples, too: the ini file says skip
        config.option.perf_no_toolchain = "fail"


def pytest_collection_modifyitems(config, items):
    by_default, others = [], []
    seen = Counter()  # sets of parameters by function, marked tests without parameters by file
    for item in items:
        marker = item.get_closest_marker("exhaustive")
        function, bracket, _ = item.nodeid.partition("[")
        counted = function if bracket else item.path
        first = marker is None or seen[counted] % marker.kwargs["one_in"] == 0
        (by_default if first else others).append(item)
        seen[counted] += marker is not None
    chosen = by_default
    if part := config.getoption("--exhaustive"):
        chosen = part_of(others, "--exhaustive", part)
    elif part := config.getoption("--also"):
        chosen = [*by_default, *part_of(others, "--also", part)]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def part_of(items, option, part):
    number, parts = map(int, part.split("/") if re.fullmatch(r"\d+/\d+", part) else (0, 0))
    if not 1 <= number <= parts:
        raise pytest.UsageError(f"{option} {part}: give a part of them, as 2/7")
    return items[number - 1 :: parts]


def pytest_collection_finish():
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and toolchain_is_required():
        *_, reason = report.longrepr
        if NO_TOOLCHAIN.search(reason):
            report.outcome = "failed"
            report.longrepr = f"PERFASSERT_REQUIRE_TOOLCHAIN is set: {reason}"
    return report


def toolchain_is_required():
    return os.environ.get("PERFASSERT_REQUIRE_TOOLCHAIN", "0") not in ("", "0")


@pytest.fixture(scope="session")
def loaded():
    """Everything that a prediction needs is imported: pytest's inner runs forget what they import,
    and NumPy cannot be loaded twice."""
    import perfassert.pytest_plugin.session  # noqa: F401

    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(256,))], ["a[x]"])
    assert pa.predict(kernel, pa.Launch(1, 256), "a100").time > 0


@pytest.fixture
def nvdisasm_runs(tmp_path, monkeypatch):
    """The runs of nvdisasm, with an empty cache."""
    from perfassert.frontends.toolchain import listing, tools

    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    counted = []
    real = tools.run_tool

    def run(name, *args, **more):
        if name == "nvdisasm":
            counted.append(name)
        return real(name, *args, **more)

    monkeypatch.setattr(tools, "run_tool", run)
    yield counted
    listing.forget_waiting()


@pytest.fixture(scope="session")
def import_text():
    """A function that writes a module's text to a file, where inspect finds it, and imports it."""

    def import_text(path, text):
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return import_text
