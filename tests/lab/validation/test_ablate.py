"""The table of mechanisms: measurements of a GPU that lacks one name it."""

import pytest
from copy_suite import HEADER, SUITE, write

import perfassert as pa
from perfassert.cli.main import main
from perfassert.errors import SuiteError
from perfassert.lab.validation.ablate import MECHANISMS, text, validate_ablations
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite


def measured_on(device):
    """Rows of a copy whose times are those of ``device``."""
    for mega in (1, 4, 16):
        for threads in (64, 256):
            n = mega * 1_000_000
            fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
            kernel = pa.Kernel.from_accesses("copy", fields, loads=["b[x]"], stores=["a[x]"])
            p = pa.predict(kernel, pa.Launch.cover(n, threads), device)
            yield ("copy", mega, threads, float(p.time) * 1e6, 8e6 * mega)


@pytest.mark.parametrize("name", ["launch and drain of blocks", "DRAM takes over gradually"])
def test_a_mechanism_that_the_gpu_lacks(tmp_path, name):
    device = pa.device("A100-SXM4-40GB").replace(**MECHANISMS[name])
    suite = read_suite(write(tmp_path, SUITE, list(measured_on(device)), HEADER))
    found = validate_ablations(suite, read_rows(suite))
    assert found[name].summary.mean == pytest.approx(0, abs=1e-6)
    assert found[""].summary.mean > 2e-5
    head, _, nothing, *rows = str(text(found)).splitlines()
    assert head.split()[0] == "off"
    assert nothing.startswith("nothing")
    assert len(rows) == len(MECHANISMS)
    assert rows[-1].startswith(name)  # the one that hurts


@pytest.mark.parametrize("name", pa.devices())
def test_every_device_can_do_without_each(name):
    for off in MECHANISMS.values():
        pa.device(name).replace(**off)


def test_command(tmp_path, capsys):
    rows = list(measured_on(pa.device("A100-SXM4-40GB")))[:1]
    path = str(write(tmp_path, SUITE, rows, HEADER))
    assert main(["validate", path, "--jobs", "1", "--ablate"]) == 0
    assert "fills into the L1" in capsys.readouterr().out
    assert main(["validate", path, "--ablate", "--json"]) == 2


def test_a_suite_without_times(tmp_path):
    begin, end = SUITE.index("[[metric]]"), SUITE.index("[[metric]]", SUITE.index("[[metric]]") + 1)
    suite = read_suite(
        write(tmp_path, SUITE[:begin] + SUITE[end:], [("copy", 1, 64, 1, 8e6)], HEADER)
    )
    with pytest.raises(SuiteError, match="--ablate: the suite has no metric 'time'"):
        validate_ablations(suite, read_rows(suite))
