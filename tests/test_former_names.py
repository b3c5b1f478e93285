"""Names of version 0.2 that work for one more release, each with a warning."""

import pytest

import perfassert as pa
from perfassert.cli.main import main

FIELDS = [pa.Field("a", shape=1 << 16), pa.Field("index", "int32", shape=1 << 16)]
ASSUMED = {"index[x]": "x * 7 % 65536"}
TEST = """
[[test]]
name = "gather"
devices = ["a100"]
launch = {{ domain = 65536, block = 256 }}
expect = {{ confidence = "!guessed" }}
[test.kernel.accesses]
fields = [{{ name = "a", shape = 65536 }}, {{ name = "index", dtype = "int32", shape = 65536 }}]
loads = ["a[index[x]]"]
{key} = {{ "index[x]" = "x * 7 % 65536" }}
"""


def gather(**assumed):
    return pa.Kernel.from_accesses("gather", FIELDS, ["a[index[x]]"], **assumed)


def test_proxies_are_assumed_values():
    with pytest.warns(DeprecationWarning, match="proxies is called assume now") as warned:
        former = gather(proxies=ASSUMED)
    assert warned[0].filename == __file__
    launch = pa.Launch.cover(1 << 16, 256)
    assert pa.predict(former, launch, "a100") == pa.predict(gather(assume=ASSUMED), launch, "a100")


def test_both_names_are_one_too_many():
    with pytest.raises(TypeError, match="proxies is the former name of assume"):
        gather(proxies=ASSUMED, assume=ASSUMED)


def test_every_generator_takes_the_former_name():
    for name in pa.__all__:
        if name.startswith("from_"):
            with (
                pytest.warns(DeprecationWarning, match="proxies is called assume now"),
                pytest.raises((pa.PerfAssertError, TypeError)),
            ):
                getattr(pa, name)(proxies={})


def test_files_have_the_former_key(pytester):
    pytester.makefile(".perf.toml", new=TEST.format(key="assume"), old=TEST.format(key="proxies"))
    result = pytester.runpytest("-q", "-W", "default")
    assert result.parseoutcomes()["passed"] == 2
    result.stdout.fnmatch_lines(["*DeprecationWarning: proxies is called assume now*"])


def test_the_option_of_the_command_line(tmp_path, capsys):
    path = tmp_path / "gather.cu"
    path.write_text(
        'extern "C" __global__ void gather(const float* a, const int* index, float* out)\n'
        "{ int x = blockIdx.x * 256 + threadIdx.x; out[x] = a[index[x]]; }\n"
    )
    launch = ["--device", "a100", "--grid", "64", "--block", "256"]
    status = main(["predict", str(path), *launch, "--proxy", "index=x"])
    written = capsys.readouterr()
    if "pip install" in written.err:
        pytest.skip(written.err)
    assert status == 0
    assert "perfassert: warning: --proxy is called --assume now" in written.err
