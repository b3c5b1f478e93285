"""Both engines must pass what executes code."""

import pytest

from perfassert.engines.execution.compiled import available


@pytest.fixture(params=["compiled", "numpy"])
def engine(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr("perfassert.engines.execution.execute.available", lambda: False)
    elif not available():
        pytest.skip("the compiled engine was not built")
    return request.param
