"""Tests of the cost of imports: only the standard library is loaded until a name is used."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "islpy", "networkx", "tabulate", "rich", "tomli", "pluggy", "pytest")


def modules_after(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_package_imports_only_the_standard_library():
    assert not modules_after("import perfassert") & set(HEAVY)


def test_names_load_what_they_need():
    code = "import perfassert as pa\npa.Launch; pa.Field; pa.Quantity; pa.devices(); pa.Kernel"
    assert not modules_after(code) & {"numpy", "islpy", "networkx", "tabulate", "pytest"}
    loaded = modules_after("import perfassert as pa\npa.tuning.triton_prune(device='a100')")
    assert not loaded & {"torch", "triton", "helion", "kernel_tuner"}


def test_a_comparison_of_code_loads_no_engine():
    path = Path(__file__).parent / "frontends" / "fixtures" / "loop.cubin"
    code = (
        f"from perfassert.cli.main import main\nmain(['diff', '--', {str(path)!r}, {str(path)!r}])"
    )
    loaded = modules_after(code)
    assert not {m for m in loaded if m.startswith(("perfassert.engines", "perfassert.predictor"))}
    assert "networkx" not in loaded


def test_a_described_kernel_loads_no_front_end():
    code = (
        "import perfassert as pa\n"
        "field = pa.Field('a', 'float32', shape=(4096,))\n"
        "kernel = pa.Kernel.from_accesses('copy', [field], loads=['a[x]'], stores=['a[x]'])\n"
        "pa.predict(kernel, pa.Launch.cover((4096,), block=128), 'a100')"
    )
    loaded = modules_after(code)
    fronts = {m for m in loaded if m.startswith("perfassert.frontends.")}
    assert fronts == {"perfassert.frontends.access_graph"}
    assert "networkx" not in loaded
    assert "islpy" not in loaded


def test_public_functions_survive_imports_of_everything():
    """No module shares its name with a public function of the package."""
    code = (
        "import perfassert as pa, pkgutil, importlib\n"
        "for m in pkgutil.walk_packages(pa.__path__, 'perfassert.'):\n"
        "    try:\n"
        "        importlib.import_module(m.name)\n"
        "    except ModuleNotFoundError as missing:\n"
        "        assert missing.name == 'triton'  # code for it stands in\n"
        "assert all(not hasattr(getattr(pa, n), '__path__') for n in pa.__all__)\n"
        "assert callable(pa.device) and callable(pa.rank) and callable(pa.predict)"
    )
    modules_after(code)


def test_unknown_attribute():
    import perfassert as pa

    with pytest.raises(AttributeError, match="no_such_name"):
        pa.no_such_name  # noqa: B018 - the access itself is under test
    assert {"predict", "tuning"} <= {*dir(pa)}


def test_collecting_without_perf_imports_no_engine(pytester):
    pytester.makepyfile("def test_nothing(): pass")
    pytester.makeconftest(
        """
        import sys
        def pytest_unconfigure():
            heavy = [m for m in sys.modules if m in ("numpy", "islpy", "networkx", "tabulate")]
            heavy += [m for m in sys.modules if m.startswith("perfassert.engines")]
            assert not heavy, heavy
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:randomly", "-p", "no:hypothesispytest")
    assert result.ret == 0
