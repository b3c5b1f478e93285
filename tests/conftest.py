"""Shared by all tests.

``PERFASSERT_REQUIRE_TOOLCHAIN=1``: a test that is skipped because NVIDIA's tools are missing fails.
"""

import os
import re

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


def pytest_configure(config):
    if toolchain_is_required():  # of the examples, too: the ini file says skip
        config.option.perf_no_toolchain = "fail"


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
