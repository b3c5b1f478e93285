"""Shared by all tests."""

import pytest
from hypothesis import HealthCheck, settings

import perfassert as pa

pytest_plugins = ["pytester"]

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def loaded():
    """Everything that a prediction needs is imported: pytest's inner runs forget what they import,
    and NumPy cannot be loaded twice."""
    import perfassert.pytest_plugin.session  # noqa: F401

    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(256,))], ["a[x]"])
    assert pa.predict(kernel, pa.Launch(1, 256), "a100").time > 0
