"""Values on the command line."""

import re

import numpy as np
import pytest

import perfassert as pa
from perfassert.cli.values import value, values
from perfassert.errors import LaunchError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("100", 100), ("-3", -3), ("0x10", 16), ("1e6", 10**6), ("4096*256", 4096 * 256),
        ("(1 + 2) * 3", 9), ("ceil_div(7, 2)", 4), ("1.5", 1.5), ("1.0", 1.0), ("-2.5e-3", -0.0025),
        ("null", None), ("None", None), ("1, 2,3", [1, 2, 3]),
        ("123456789012345678", 123456789012345678),
    ],
)  # fmt: skip
def test_values(text, meant):
    found = value(text, "--arg n")
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize("text", ["", "n", "1 +", "__import__('os')", "1/2", "nan()", "2 ** 40"])
def test_what_is_no_value(text):
    with pytest.raises(LaunchError, match="--arg n"):
        value(text, "--arg n")


def test_members_of_structures():
    given = ["n=1e3", "cfg.n=5", "cfg.box.low[1]=2*3", "raw.8=7"]
    assert values(given, "--arg") == {
        "n": 1000, "cfg": {"n": 5, "box.low[1]": 6}, "raw": {8: 7},
    }  # fmt: skip
    for wrong in (["n"], ["=3"], ["a=1", "a.b=2"]):
        with pytest.raises(LaunchError):
            values(wrong, "--arg")


def test_buffers_are_written_as_in_python_or_by_what_they_hold(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(5, dtype=np.int32))
    found = values(
        ["rows=Buffer(65, fill='arange % 7', seed=2)", f"at=@{tmp_path / 'rows.npy'}",
         "grid=Buffer((4, 8), 'float64')"], "--arg",
    )  # fmt: skip
    assert found["rows"] == pa.Buffer(65, fill="arange % 7", seed=2)
    assert found["at"].data.tolist() == [0, 1, 2, 3, 4]
    assert found["grid"] == pa.Buffer((4, 8), "float64")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=@none.npy", "--arg a: none.npy cannot be read"),
        ("a=Buffer(open('x'))", "cannot be read; write Buffer(65"),
        ("a=Buffer(65, size=3)", "a Buffer does not take this"),
        ("a=Buffer(65, fill='arange', data=[1])", "one of data, fill and alias"),
        ("a=Buffer(65", "cannot be read"),
    ],
)
def test_a_buffer_that_is_none_is_told_with_its_argument(text, said):
    with pytest.raises(pa.PerfAssertError, match=re.escape(said)) as error:
        values([text], "--arg")
    assert "--arg a" in str(error.value)
