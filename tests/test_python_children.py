"""Python that lies in a stranger's folder is not imported, by this process or by its children."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from perf_files import COPY

from perfassert.errors import PerfAssertError
from perfassert.system.confined import FOLDER, confining
from perfassert.system.process_pool import process_pool
from perfassert.system.python_children import import_path, isolate_imports, isolated_command

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/perfassert"
COMMAND = Path(sys.executable).with_name("perfassert")
DECOYS = """
__init__ conftest sitecustomize usercustomize test_kernel kernel_test setup decoy noxfile
numpy islpy networkx rich tabulate pluggy pytest _pytest multiprocessing concurrent json pickle
subprocess tomli tomllib perfassert random tempfile asyncio distributed xdist
""".split()
STARTERS = {
    "subprocess": {
        "system/processes.py": "tools, and the isolated children",
        "frontends/recording/session.py": "the program that the user records",
        "lab/measurement/counters.py": "ncu, on the user's own GPU",
        "comparison/revisions.py": "git, and the build command that the user gives",
        "cli/docs.py": "pytest, isolated",
        "cli/doctor.py": "pip, isolated, where the user says so",
        "comparison/environments.py": "uv, pip; modules and tests of the user",
        "system/process_pool.py": "names the type of what start_python returns",
    },
    "multiprocessing": {},
    "ProcessPoolExecutor": {},
    "asyncio": {},
    "pty": {},
    "os.fork": {},
    "os.system": {},
    "os.popen": {},
    "os.posix_spawn": {},
    "os.execv": {"system/sandbox.py": "the launcher becomes the tool"},
    "sys.executable": {
        "cli/doctor.py": "pip, with -I",
        "comparison/environments.py": "pip, with -I",
        "system/processes.py": "the launcher of the sandbox, with -I -S",
        "system/python_children.py": "the command of isolated children",
        "system/sandbox.py": "the launcher starts itself anew, at fixed addresses",
    },
}
"""What starts a process → the files that may use it, each with its reason."""


def write_decoys(folder: Path) -> Path:
    """Modules and packages that leave a mark when they are imported; return the mark's path."""
    mark = folder / "IMPORTED"
    text = f"open({str(mark)!r}, 'a').write(__name__ + chr(10))\n"
    for place in (folder, folder / "kernels", folder / "kernels/inner"):
        place.mkdir(exist_ok=True)
        for name in DECOYS:
            (place / f"{name}.py").write_text(text)
        for name in ("tabulate", "hypothesis", "itanium_demangler"):
            (place / name).mkdir(exist_ok=True)
            (place / name / "__init__.py").write_text(text)
        (place / "decoy.pth").write_text(f"import sys; exec({text!r})\n")
        entry = place / "decoy-1.dist-info"
        entry.mkdir()
        (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: decoy\nVersion: 1\n")
        (entry / "entry_points.txt").write_text("[pytest11]\nd = decoy\n[perfassert]\nd = decoy\n")
        settings = "addopts = -p decoy\npython_files = *.py\npythonpath = .\n"
        (place / "pytest.ini").write_text(f"[pytest]\n{settings}")
        (place / "tox.ini").write_text(f"[pytest]\n{settings}")
        (place / "setup.cfg").write_text(f"[tool:pytest]\n{settings}")
        options = 'addopts = "-p decoy"\npython_files = "*.py"\n'
        (place / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{options}")
    (folder / "kernels/inner/copy.perf.toml").write_text(COPY)
    return mark


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [str(COMMAND), *words], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("confined", ["", "kernels"])
@pytest.mark.parametrize("where", [".", "kernels", "kernels/inner", "kernels/inner/copy.perf.toml"])
def test_only_perf_files_of_a_folder_are_read(tmp_path, confined, where):
    mark = write_decoys(tmp_path)
    variables = {FOLDER: str(tmp_path / confined)} if confined else {}
    done = run(tmp_path, "test", where, "--perf-device=a100", "-q", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert not mark.exists(), mark.read_text()


def test_what_is_no_perf_file_is_no_test(tmp_path):
    mark = write_decoys(tmp_path)
    done = run(tmp_path, "test", "kernels/test_kernel.py", "-q", "--perf-device=a100")
    assert done.returncode in (4, 5)
    assert not mark.exists()
    assert run(tmp_path, "test", "kernels/none.perf.toml").returncode == 2


def test_names_that_look_like_options_are_files(tmp_path):
    mark = write_decoys(tmp_path)
    (tmp_path / "@words").mkdir()
    (tmp_path / "@words/k.perf.toml").write_text(COPY)
    done = run(tmp_path, "test", "@words", "-q", "--perf-device=a100")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True)
    assert not mark.exists()


def test_links_to_folders_are_entered_where_they_are_named_alone(tmp_path):
    """Three links to the folder that they lie in are thousands of paths."""
    kernels, elsewhere = tmp_path / "kernels", tmp_path / "elsewhere"
    for folder in (kernels, kernels / "sub", elsewhere):
        folder.mkdir()
        (folder / "k.perf.toml").write_text(COPY)
    for name in "abc":
        (kernels / name).symlink_to(".")
    (kernels / "d").symlink_to("sub")
    (kernels / "e").symlink_to(elsewhere)
    for named, passed in (("kernels", 2), ("kernels/e", 1), ("kernels/a/d/k.perf.toml", 1)):
        done = run(tmp_path, "test", named, "-q", "--perf-device=a100", **{FOLDER: ""})
        assert f"{passed} passed" in done.stdout, done
    confined = {FOLDER: str(tmp_path.resolve())}
    done = run(tmp_path, "test", "kernels/e", "--perf-device=a100", **confined)
    assert (done.returncode, "is a symbolic link in" in done.stderr) == (2, True), done


@pytest.mark.parametrize("name", ["a::b[", "a\n::error::x[y", "a::b"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_names_that_pytest_takes_for_tests_are_errors(tmp_path, name, kind):
    path = tmp_path / (f"{name}.perf.toml" if kind == "file" else f"{name}/k.perf.toml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(COPY)
    done = run(tmp_path, "test", ".", "--perf-device=a100")
    assert "rename the file or folder" in done.stdout, done
    assert "Traceback" not in done.stdout + done.stderr
    assert "toml_items.py" not in done.stdout
    assert "\n::" not in done.stdout
    assert done.returncode in (1, 2)


def test_exit_codes_are_those_of_pytest(tmp_path):
    (tmp_path / "k.perf.toml").write_text(COPY)
    assert run(tmp_path, "test", ".").returncode == 4  # no device
    (tmp_path / "k.perf.toml").write_text(COPY.replace("dram", "latency"))
    done = run(tmp_path, "test", ".", "--perf-device=a100")
    assert (done.returncode, "limiter" in done.stdout) == (1, True)
    (tmp_path / "k.perf.toml").unlink()
    assert run(tmp_path, "test", ".", "--perf-device=a100").returncode == 5


def test_a_pool_imports_nothing_of_the_working_directory(tmp_path):
    """Kernels that take long to predict have ``rank`` start its pool; here it is asked for."""
    mark = write_decoys(tmp_path)
    code = (
        "from perfassert.system.process_pool import process_pool\n"
        "with process_pool(2) as pool:\n"
        "    print([pool.submit(divmod, 7, n).result() for n in (2, 3)])\n"
    )
    for flags in ((), ("-I",)):
        mark.unlink(missing_ok=True)
        command = [sys.executable, *flags, "-P", "-c", code]
        if sys.version_info < (3, 11):  # has no -P
            command = [sys.executable, "-I", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "[(3, 1), (2, 1)]\n", done.stderr
        assert not mark.exists(), mark.read_text()


def _fail(text):
    raise ValueError(text)


def _end(status):
    os._exit(status)


def _speak():
    print("to nobody")
    return os.getpid()


def test_a_pool_answers_raises_and_survives():
    with process_pool(2) as pool:
        with pytest.raises(ValueError, match="this one"):
            pool.submit(_fail, "this one").result()
        with pytest.raises(RuntimeError, match="ended with status 3"):
            pool.submit(_end, 3).result()
        processes = {pool.submit(_speak).result() for _ in range(8)}
        assert os.getpid() not in processes
        assert 1 <= len(processes) <= 2
    with process_pool(1) as none:
        assert none is None


def test_the_import_path_has_no_folder_of_strangers(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "code")
    odd = ["", ".", "code", str(tmp_path), str(tmp_path / "code"), str(tmp_path / "link")]
    elsewhere = str(tmp_path.parent)
    monkeypatch.setattr(sys, "path", [*odd, elsewhere, *sys.path])
    assert import_path()[:3] == [str(tmp_path / "code"), str(tmp_path / "link"), elsewhere]
    assert import_path([tmp_path / "code"])[0] == elsewhere
    monkeypatch.setenv(FOLDER, str(tmp_path))
    isolate_imports()
    assert sys.path[0] == elsewhere
    assert os.path.dirname(os.__file__) in sys.path


def test_an_environment_below_the_confined_folder_is_refused(monkeypatch):
    monkeypatch.setenv(FOLDER, str(Path(os.__file__).parents[1]))
    with pytest.raises(PerfAssertError, match="make the environment elsewhere"):
        isolate_imports()


def test_children_ignore_the_environment_of_python(tmp_path, monkeypatch):
    mark = write_decoys(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "decoy.py"))
    done = subprocess.run(isolated_command("platform:node"), capture_output=True)
    assert not mark.exists()
    assert done.returncode in (0, 1)  # the name of the host, printed as a message of sys.exit


@pytest.mark.parametrize("link", ["kernels", "above"])
def test_a_confined_folder_that_is_a_link_is_refused(tmp_path, monkeypatch, link):
    (tmp_path / "checkout/real/kernels").mkdir(parents=True)
    target = {"kernels": "..", "above": "real"}[link]
    (tmp_path / "checkout" / link).symlink_to(target)
    named = tmp_path / "checkout" / link / ("" if link == "kernels" else "kernels")
    for spelling in (named, f"{named}/", f"{named}/../{named.name}"):
        monkeypatch.setenv(FOLDER, str(spelling))
        with pytest.raises(PerfAssertError, match=f"{link} is a symbolic link"):
            confining()
    monkeypatch.setenv(FOLDER, str(tmp_path / "checkout/real/kernels"))
    assert confining() == (tmp_path / "checkout/real/kernels").resolve()


def test_processes_start_in_known_places_alone():
    """Another place that starts one needs a reason above, or :func:`start_python`."""
    used: dict[str, set[str]] = {name: set() for name in STARTERS}
    for path in SOURCES.rglob("*.py"):
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for name in _mentioned(node) & STARTERS.keys():
                used[name].add(place)
    assert {name: sorted(places) for name, places in used.items()} == {
        name: sorted(reasons) for name, reasons in STARTERS.items()
    }


def _mentioned(node: ast.AST) -> set[str]:
    """Modules, names and dotted names that a node imports or uses."""
    if isinstance(node, ast.Import):
        return {part for alias in node.names for part in alias.name.split(".")}
    if isinstance(node, ast.ImportFrom):
        return {*str(node.module).split("."), *(alias.name for alias in node.names)}
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        family = node.attr.rstrip("pel") if node.attr.startswith("exec") else node.attr
        return {f"{node.value.id}.{node.attr}", f"{node.value.id}.{family}", node.attr}
    return set()
