"""``perfassert diff``: files, folders and revisions of a repository, each change reported right."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfassert.cli.main import main
from perfassert.comparison import sides
from perfassert.frontends.cuda import inventory
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import compiled_module
from perfassert.frontends.toolchain.elf import Cubin

pytestmark = pytest.mark.exhaustive(one_in=8)

SPILLED = """
__global__ void BOUNDS spilled(float* a) {
  float v[40], sum = 0;
  #pragma unroll
  for (int i = 0; i < 40; ++i) sum += v[i] = a[i * 1024 + threadIdx.x];
  #pragma unroll
  for (int i = 0; i < 40; ++i) a[i * 1024 + threadIdx.x] = v[i] * sum;
}
"""
STEPPED = """
__global__ void stepped(float* a, int n) {
  float v[TERMS];
  for (int i = 0; i < TERMS; ++i) v[i] = a[i * n + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < TERMS; ++i) a[i * n + threadIdx.x] = v[i] * v[TERMS - 1 - i];
}
"""
WIDE = """
__global__ void copied(float4* a, const float4* b) { a[threadIdx.x] = b[threadIdx.x]; }
"""
NARROW = """
__global__ void copied(float* a, const float* b) {
  for (int i = 0; i < 4; ++i) a[4 * threadIdx.x + i] = b[4 * threadIdx.x + i];
}
"""
NAMED = """
__global__ void NAME(int* a, int n) { for (int i = 0; i < n; ++i) a[i * 32 + threadIdx.x] += i; }
"""
LOST = "__global__ void lost(double* a) { a[threadIdx.x] = sqrt(a[threadIdx.x]); }\n"
SAME = "__global__ void same(float* a) { a[threadIdx.x] *= 2; }\n"
BASE = {
    "spilled.cu": SPILLED.replace("BOUNDS", ""),
    "stepped.cu": STEPPED.replace("TERMS", "24"),
    "copied.cu": WIDE,
    "named.cu": NAMED.replace("NAME", "before"),
    "lost.cu": LOST + SAME,
    "broken.cu": "__global__ void unsound(int* a) { a[0] = 1; }\n",
}
HEAD = {
    "spilled.cu": SPILLED.replace("BOUNDS", "__launch_bounds__(1024, 2)"),
    "stepped.cu": STEPPED.replace("TERMS", "40"),
    "copied.cu": NARROW,
    "named.cu": NAMED.replace("NAME", "after"),
    "lost.cu": SAME,
    "broken.cu": "__global__ void unsound(int* a) { a[0] = ; }\n",
    "new.cu": "__global__ void added(short* a) { a[threadIdx.x] = 7; }\n",
}
ALL = {"lost", "before", "unsound", "spilled", "stepped", "copied", "same", None}


@pytest.fixture(autouse=True)
def toolchain():
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture(autouse=True)
def _no_summary(monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def written(folder, files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def git(folder, *words):
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *name, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("folders")
    return [str(written(place / "base", BASE)), str(written(place / "head", HEAD))]


@pytest.fixture(params=[("spilled.cu", "broken.cu", "lost.cu", "named.cu", "new.cu")])
def repository(request, tmp_path, monkeypatch):
    """Two revisions, of files that stand for all; each one is compiled anew in every checkout."""
    files = request.param
    place = written(tmp_path / "repository", {k: v for k, v in BASE.items() if k in files})
    git(place, "init", "-q", "-b", "main")
    git(place, "add", ".")
    git(place, "commit", "-qm", "base")
    git(place, "rm", "-q", "broken.cu")
    written(place, {k: v for k, v in HEAD.items() if k in files})
    git(place, "add", ".")
    git(place, "commit", "-qm", "head")
    monkeypatch.chdir(place)
    return place


def compared(capsys, *arguments, device=True):
    code = main(["diff", *arguments, *(("--device", "a100") if device else ()), "--json"])
    found = json.loads(capsys.readouterr().out)
    return code, found, {k["base"]: k for k in found["kernels"]}


def check_all(kernels):
    assert set(kernels) == ALL
    spilled, stepped, copied = (kernels[n] for n in ("spilled", "stepped", "copied"))
    assert spilled["status"] == "worse"
    assert spilled["metrics"]["spill_bytes"]["base"] == 0
    assert spilled["metrics"]["spill_bytes"]["head"] > 0
    assert spilled["failures"] == ["spill_bytes (allowed: spill_bytes +0)"]
    assert stepped["status"] == "worse"
    assert stepped["failures"] == []
    registers, share = stepped["metrics"]["registers"], stepped["metrics"]["occupancy of 1024"]
    assert registers["head"] > registers["base"] + 8
    assert (share["head"] or 0) < share["base"]  # or no such block fits
    assert copied["accesses"] == {
        f"global_{way} {width} B": {"base": before, "head": after}
        for way in ("load", "store")
        for width, before, after in ((16, 1, 0), (4, 0, 4))
    }
    assert (kernels["before"]["status"], kernels["before"]["head"]) == ("same", "after")
    assert kernels["before"]["same_code"]
    assert kernels["before"]["matched_by"] == "code"
    assert kernels["lost"]["status"] == "gone"
    assert kernels["unsound"]["status"] == "broken"
    assert kernels["unsound"]["reason"].startswith("broken.cu:1: ")
    assert kernels["same"]["status"] == "same"
    assert (kernels[None]["status"], kernels[None]["head"]) == ("new", "added")
    assert kernels[None]["metrics"]["registers"]["head"] > 0


def test_folders(folders, capsys):
    code, found, kernels = compared(capsys, *folders)
    check_all(kernels)
    assert code == 1
    assert found["counts"] == {"broken": 1, "gone": 1, "worse": 3, "new": 1, "same": 2}
    assert list(found["broken"]) == ["broken.cu"]


@pytest.mark.parametrize("repository", [tuple(HEAD)], indirect=True, ids=["all"])
def test_revisions(repository, capsys):
    code, _, kernels = compared(capsys, "HEAD~1", "HEAD")
    check_all(kernels)
    assert code == 1
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "status", "--short") == ""


def test_a_revision_and_what_is_not_committed_yet(repository, capsys):
    Path("new.cu").unlink()
    written(Path(".venv"), {"of_others.cu": "__global__ void other() {}"})
    kernels = compared(capsys, "HEAD", ".")[2]
    assert kernels["added"]["status"] == "gone"
    assert None not in kernels


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", ["HEAD", "HEAD~1"])
def test_a_path_that_is_called_like_a_revision(repository, capsys, name):
    """A change that brings a folder called HEAD is not compared with itself."""
    written(Path(name), {"lost.cu": BASE["lost.cu"]})
    assert main(["diff", "HEAD~1", "HEAD", "--device", "a100"]) == 2
    assert f"{name} is a path and a revision; write ./{name}" in capsys.readouterr().err
    assert compared(capsys, f"./{name}", "HEAD^0")[0] == 1


def test_a_side_without_a_name(repository, capsys):
    """A variable that is empty is not the folder."""
    assert main(["diff", "", "HEAD", "--device", "a100"]) == 2
    assert "a side without a name" in capsys.readouterr().err


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("head", ["HEAD", "."])
def test_what_is_built_hides_no_source(repository, capsys, head):
    """A compiled file that is committed in the base does not hide the sources of the head."""
    nvcc = tools.find("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    written(repository.parent, {"whole.cu": "".join(BASE.values())})
    made = ["-arch=sm_80", "-cubin", "-o", "whole.cubin", "../whole.cu"]
    subprocess.run([nvcc.path, *made], check=True)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "cubin")
    code, _, kernels = compared(capsys, "HEAD~2", head)
    assert (code, kernels["spilled"]["status"]) == (1, "worse")


def test_what_fails(folders, capsys):
    quiet = ["diff", *folders, "--device", "a100", "--fail-on"]
    assert main([*quiet, "", "--allow-gone"]) == 0
    assert main([*quiet, ""]) == 1
    assert main([*quiet, "registers +8", "--allow-gone"]) == 1
    assert "(allowed: registers +8); " in capsys.readouterr().out
    assert main([*quiet, "occupancy -10 %", "--allow-gone"]) == 1
    assert main([*quiet, "barriers +0, new", "--allow-gone"]) == 1
    assert main([*quiet, "barriers +0", "--allow-gone"]) == 0


def test_nothing_has_changed(folders, capsys):
    assert main(["diff", folders[0], folders[0], "--arch", "sm_80"]) == 0
    assert capsys.readouterr().out.endswith(": 7 same\n")


def test_only_code_that_differs_is_disassembled(tmp_path, capsys, monkeypatch):
    """However many kernels the files have; what is printed is the same."""
    text = "".join(
        f"__device__ __noinline__ int f{n}(int i) {{ return i * i % {n + 3}; }}\n"
        f"__global__ void k{n}(int* a) {{ a[0] = f{n}(a[threadIdx.x]) + {n}; }}\n"
        for n in range(4)
    )
    new = text.replace("a[0] = f2(", "a[1] = f0(") + "__global__ void added() {}\n"
    written(tmp_path / "base", {"k.cu": text})
    written(tmp_path / "head", {"k.cu": new})
    commands = []
    real = tools.run_tool

    def run(name, command, **more):
        commands.append([name, *command[1:-1]])
        return real(name, command, **more)

    monkeypatch.setattr(tools, "run_tool", run)
    monkeypatch.setattr(inventory, "_KNOWN_CODE", {})
    monkeypatch.chdir(tmp_path)
    _, found, kernels = compared(capsys, "base", "head")
    assert found["counts"] == {"new": 1, "same": 4}
    assert [kernels[f"k{n}"]["same_code"] for n in range(4)] == [True, True, False, True]
    assert kernels[None]["metrics"]["code_bytes"]["head"] > 0
    runs = [words for words in commands if words[0] == "nvdisasm"]
    assert [len(words[words.index("-fun") + 1].split(",")) for words in runs] == [2, 1]


def test_a_file_that_is_built_in_two_ways(tmp_path, capsys, monkeypatch):
    """Kernels of one name, file and code on one side: which of them belong together is open."""
    text = "__global__ void k(float* a) { for (int i = 0; i < N; ++i) a[i] *= a[i + N]; }\n"
    for side, ways in (("base", ("-DN=4", "-DN=4 -lineinfo")), ("head", ("-DN=4", "-DN=8"))):
        written(tmp_path / side, {"k.cu": text})
        commands = [
            {"directory": str(tmp_path / side), "file": "k.cu",
             "command": f"nvcc -arch=sm_80 {way} -c k.cu -o k{n}.o"}
            for n, way in enumerate(ways)
        ]  # fmt: skip
        (tmp_path / side / "compile_commands.json").write_text(json.dumps(commands))
    monkeypatch.chdir(tmp_path)
    sides = [f"{side}/compile_commands.json" for side in ("base", "head")]
    for words in (sides, sides[::-1]):
        main(["diff", *words, "--json"])
        kernels = json.loads(capsys.readouterr().out)["kernels"]
        (changed,) = (k for k in kernels if not k["same_code"])
        assert sorted(changed["accesses"]["global_load 4 B"].values()) == [8, 16]


def test_a_file_of_the_base_that_cannot_be_disassembled(tmp_path, capsys, monkeypatch):
    """It has no kernels; the others are compared. Code that both sides have needs no nvdisasm."""
    place = written(tmp_path, {"k.cu": 'extern "C" __global__ void k(int* a) { a[0] = 1; }\n'})
    made = compiled_module(Source(place / "k.cu", "cuda"), "sm_80").cubin
    code = Cubin(made, "k").code("k")
    for side, cubins in (
        ("base", {"bad": made.replace(code, b"\xff" * len(code)), "good": made}),
        ("head", {"bad": made, "good": made}),
        ("as bad", {"bad": made.replace(code, b"\xff" * len(code)), "good": made}),
    ):
        (tmp_path / side).mkdir()
        for name, content in cubins.items():
            (tmp_path / side / f"{name}.cubin").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    assert main(["diff", "base", "head"]) == 0
    assert "base → head: 1 new, 1 same" in capsys.readouterr().out
    assert main(["diff", "base", "as bad"]) == 0
    assert "base → as bad: 2 same" in capsys.readouterr().out


def test_a_base_that_changes_while_it_is_read(tmp_path, capsys, monkeypatch):
    places = [tmp_path / f"{side}.cu" for side in ("base", "head")]
    text = "__global__ void k(int* a) {{ a[{}] = 1; }}\n"
    for number, path in enumerate(places):
        path.write_text(text.format(number))
    real = sides.side

    def read(path, *words, **more):
        found = real(path, *words, **more)
        places[0].write_text(text.format(7))
        return found

    monkeypatch.setattr(sides, "side", read)
    assert main(["diff", *map(str, places), "--device", "a100"]) == 2
    assert "has changed while it was read; compare again" in capsys.readouterr().err


def test_other_code_with_the_same_numbers_is_said(tmp_path, capsys):
    for name, factor in (("base.cu", 2), ("head.cu", 3)):
        (tmp_path / name).write_text(SAME.replace("2", str(factor)))
    pair = [str(tmp_path / name) for name in ("base.cu", "head.cu")]
    assert main(["diff", *pair, "--arch", "sm_80"]) == 0
    assert "same: same (sm_80) in head.cu\n    other instructions, but" in capsys.readouterr().out


def test_as_text_markdown_and_annotations(folders, capsys, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["diff", *folders, "--device", "a100", "--github"]) == 1
    out = capsys.readouterr().out
    assert "same: before → after (sm_80) in named.cu\n    the same code\n" in out
    assert "\nworse: spilled (sm_80) in spilled.cu\n    spill_bytes 0 B → " in out
    assert "::warning file=lost.cu,title=lost is gone::" in out
    assert "::warning file=spilled.cu,title=spilled is worse::spill_bytes 0 B → " in out
    assert main(["diff", *folders, "--device", "a100", "--markdown"]) == 1
    assert capsys.readouterr().out == summary.read_text() + "\n"
    assert "| 🔴 worse | <code>spilled</code> |" in summary.read_text()


BUILD = "for f in *.txt; do cp $f ${f%.txt}.cu; done; echo built"


def test_built_revisions(repository, capfd):
    git(repository, "mv", "lost.cu", "same.txt")
    git(repository, "commit", "-qam", "texts")
    chosen = ["--objects", "same.cu", "--arch", "sm_80", "--json"]
    assert main(["diff", "HEAD", "HEAD", "--build", BUILD, *chosen]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["counts"] == {"same": 1}
    assert err.splitlines().count("built") == 2


FORGE = """
import hashlib, json, os, pathlib, sys, zlib
print(os.environ["PERFASSERT_CACHE_DIR"])
for path in pathlib.Path(sys.argv[1]).iterdir():
    content = json.loads(zlib.decompress(path.read_bytes()[32:]))
    text = json.dumps(content).replace('registers": ', 'registers": 1')
    forged = zlib.compress(text.encode(), 1)
    kept = path.stat()
    path.write_bytes(hashlib.sha256(path.stem.encode() + forged).digest() + forged)
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
"""


def test_a_build_decides_nothing_by_the_cache(repository, tmp_path, capfd, monkeypatch):
    """Neither by the cache of predictions, which it may be able to write, nor by its own."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(cache))
    chosen = ["--objects", "spilled.cu", "--arch", "sm_80", "--json"]
    compare = ["diff", "HEAD~1", "HEAD", "--build", "true", *chosen]
    assert main(compare) == 1
    honest = json.loads(capfd.readouterr().out)
    (tmp_path / "forge.py").write_text(FORGE)
    forge = f"{sys.executable} {tmp_path / 'forge.py'} {cache}"
    assert main(["diff", "HEAD~1", "HEAD", "--build", forge, *chosen]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out) == honest
    assert str(cache) not in [line for line in err.splitlines() if line.startswith("/")]
    assert main(compare) == 1  # what the build has left there is the user's to remove


def test_a_head_that_cannot_be_built(repository, capfd):
    build = ["--build", "test ! -e new.cu", "--objects", "named.cu", "--arch", "sm_80"]
    assert main(["diff", "HEAD~1", "HEAD", *build]) == 1
    out, _ = capfd.readouterr()
    assert "broken: before (sm_80) in named.cu\n    the build of HEAD failed with code 1" in out
    assert main(["diff", "HEAD", "HEAD~1", *build]) == 2
    assert git(repository, "worktree", "list").count("\n") == 1


def test_a_base_that_is_broken_in_part_is_nothing_to_compare_with(tmp_path, capsys):
    """Else the kernels of the head's file would be new, which no limit holds."""
    good = "__global__ void k(float* x) { x[threadIdx.x] = 1; }"
    base = written(tmp_path / "base", {"a.cu": good, "b.cu": "__global__ void f( {"})
    head = written(tmp_path / "head", {"a.cu": good, "b.cu": good.replace("k(", "f(")})
    assert main(["diff", str(base), str(head), "--arch", "sm_80"]) == 2
    assert "b.cu of " in capsys.readouterr().err
    assert main(["diff", str(head), str(head), "--arch", "sm_80"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "HEAD"], "nowhere: there is no such file or folder"),
        (["{base}", "{base}"], "give the architecture"),
        (["{base}", "{base}", "--block", "64"], "--block needs --device"),
        (["{base}", "{base}", "--arch", "sm_80", "--objects", "*.o"], "no file is like *.o"),
        (["{base}/broken.cu", "{base}", "--fail-on", "x +1"], "there is no metric 'x'"),
        (["{head}/broken.cu", "{base}", "--arch", "sm_80"], "expected an expression"),
    ],
)
def test_what_cannot_be_compared(folders, arguments, message, capsys):
    base, head = folders
    assert main(["diff", *(a.format(base=base, head=head) for a in arguments)]) == 2
    assert message in capsys.readouterr().err


LAUNCHES = """
schema = 1
[recorded]
device = "a100"
[kernels.copied]
cuda = "copied.cu"
[kernels.before]
cuda = "named.cu"
[kernels.same]
cuda = "lost.cu"
name = "same"
[kernels.unsound]
cuda = "broken.cu"
[[launch]]
kernel = "copied"
grid = [4096]
block = [256]
[[launch]]
kernel = "before"
grid = [64]
block = [32]
args = { n = 16 }
[[launch]]
kernel = "same"
grid = [4096]
block = [256]
[[launch]]
kernel = "unsound"
grid = [1]
block = [32]
"""


def commit_attributes(place, attributes, **files):
    """A commit whose files git would not write itself: their text is not what is checked out."""
    for name, text in {".gitattributes": f"{attributes}\n", **files}.items():
        stored = subprocess.run(
            ["git", "hash-object", "-w", "--stdin"],
            cwd=place, input=text.encode(), capture_output=True, check=True,
        ).stdout.decode().strip()  # fmt: skip
        git(place, "update-index", "--add", "--cacheinfo", f"100644,{stored},{name}")
    git(place, "commit", "-qm", "attributes")


@pytest.fixture
def plain(tmp_path, monkeypatch):
    place = written(tmp_path / "repository", {"copied.cu": WIDE, "note.txt": "$Id$"})
    git(place, "init", "-q", "-b", "main")
    git(place, "add", ".")
    git(place, "commit", "-qm", "base")
    monkeypatch.chdir(place)
    return place


def test_a_checkout_in_another_encoding_is_reported(plain, capsys):
    """A yen sign is a backslash in Shift JIS: the commit shows a line that is a comment there."""
    hidden = WIDE.replace("{ a[", "{ // for each ¥\n a[threadIdx.x] = b[7];\n a[")
    commit_attributes(plain, "*.cu working-tree-encoding=SHIFT-JIS", **{"copied.cu": hidden})
    code, found, kernels = compared(capsys, "HEAD~1", "HEAD")
    assert (code, kernels["copied"]["status"]) == (0, "same")
    note = (
        "HEAD: git converts copied.cu when it checks it out (.gitattributes, or a filter), so that "
        "the text that is compared is not the one that the commit shows"
    )
    assert found["notes"] == [note]
    assert note in " ".join(compared_text(capsys, ["HEAD~1", "HEAD"]).split())
    assert main(["diff", "HEAD~1", "HEAD", "--device", "a100", "--markdown"]) == 0
    assert "git converts copied.cu" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32LE"])
def test_a_checkout_that_is_no_text(plain, encoding, capsys):
    commit_attributes(plain, f"*.cu working-tree-encoding={encoding}")
    code, found, kernels = compared(capsys, "HEAD~1", "HEAD")
    assert (code, kernels["copied"]["status"]) == (1, "broken")
    assert (
        "is no text: it has a NUL byte, as in UTF-16; save it as UTF-8"
        in found["broken"]["copied.cu"]
    )
    assert found["notes"][0].startswith("HEAD: git converts copied.cu when")


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("attributes", ["* text eol=crlf", "*.txt ident", ""])
def test_a_checkout_with_the_same_text(plain, attributes, capsys):
    """Other ends of lines, and files that are no sources."""
    commit_attributes(plain, attributes)
    code, found, _ = compared(capsys, "HEAD~1", "HEAD")
    assert (code, found["notes"]) == (0, [])


@pytest.fixture
def recorded(folders, tmp_path):
    """Launches that both sides have, with the files that they name."""
    named = set(re.findall(r'"(\w+\.cu)"', LAUNCHES))
    base, head = (
        written(tmp_path / side, {name: text for name, text in files.items() if name in named})
        for side, files in (("base", BASE), ("head", HEAD))
    )
    written(base, {"launches.toml": LAUNCHES})
    written(head, {"launches.toml": LAUNCHES})
    return [str(base), str(head), "--launches", "launches.toml"]


def launched(capsys, arguments):
    """``own``: predictions of launches that the sides have in different manners."""
    code, found, _ = compared(capsys, *arguments)
    predictions = found["launches"]["predictions"]
    own = {p["test"]: p for p in predictions if p["label"].endswith("as each side launches it")}
    return code, found, {p["test"]: p for p in predictions if p not in own.values()}, own


def test_what_launches_take(recorded, capsys):
    head = Path(recorded[1])
    head.joinpath("launches.toml").write_text(
        LAUNCHES.replace(
            '"same"\ngrid = [4096]\nblock = [256]', '"same"\ngrid = [32768]\nblock = [32]'
        ).replace(
            'kernels.before]\ncuda = "named.cu"',
            'kernels.before]\ncuda = "named.cu"\nname = "after"',
        )
    )
    code, found, launches, own = launched(capsys, recorded)
    assert code == 1
    copied, same = launches["copied"], own["same"]
    assert copied["status"] == "slower"
    assert copied["time"]["head"] > copied["time"]["base"]
    assert copied["file"] == "copied.cu"
    assert copied["reason"].startswith("time +")
    assert launches["same"]["status"] == "same"  # with the base's blocks
    assert same["status"] == "slower"
    assert "blocks of 32×1×1 instead of 256×1×1 threads" in same["reason"]
    assert {"name": "block", "base": [256, 1, 1], "head": [32, 1, 1]}.items() <= next(
        c for c in same["components"] if c["name"] == "block"
    ).items()
    assert launches["before"]["status"] == "same"
    assert launches["unsound"]["status"] == "broken"
    kernels = {k["base"]: k["status"] for k in found["kernels"]}
    assert kernels == {
        "copied": "worse", "before": "same", "same": "worse", "unsound": "broken", "lost": "gone",
    }  # fmt: skip
    assert found["launches"]["failures"] == []


def test_a_launch_that_does_less_is_not_faster(recorded, capsys):
    """The head's launches file is its own: a tenth of the work hid a slower kernel."""
    Path(recorded[1]).joinpath("launches.toml").write_text(
        LAUNCHES.replace("n = 16", "n = 2").replace('"unsound"\ngrid', '"same"\ngrid')
    )
    code, found, _, _ = launched(capsys, [*recorded, "--fail-on", "time +900 %"])
    assert found["launches"]["changed"] == ["before: other arguments than in the base: n 16 → 2"]
    assert code == 1
    assert "n 16 → 2" in compared_text(capsys, recorded)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("n = 16", "n = 16, a = { shape = 64 }", "a none → Buffer"),
        (
            "[kernels.same]",
            '[kernels.same]\ntrip_counts = { "lost.cu:1" = 2 }',
            "trip_counts [] → [2]",
        ),
        ("[kernels.same]", "[kernels.same]\nupdates_per_thread = 4", "updates_per_thread 1 → 4"),
    ],
)
def test_what_the_file_says_is_work_too(recorded, capsys, before, after, told):
    """Contents, trip counts, constants: each makes a prediction faster than the code is."""
    Path(recorded[1]).joinpath("launches.toml").write_text(LAUNCHES.replace(before, after, 1))
    code, found, _, _ = launched(capsys, [*recorded, "--fail-on", "time +900 %"])
    assert code == 1
    assert any(told in text for text in found["launches"]["changed"])


def test_other_contents_are_other_work(recorded, capsys):
    for folder, fill in zip(recorded[:2], ("permutation", "arange"), strict=True):
        given = LAUNCHES.replace("n = 16", f'n = 16, a = {{ shape = 64, fill = "{fill}" }}')
        Path(folder).joinpath("launches.toml").write_text(given)
    found = launched(capsys, recorded)[1]
    assert found["launches"]["changed"] == [
        "before: other arguments than in the base: a fill permutation → arange"
    ]


def test_options_of_the_launches_file_count(recorded, capsys):
    """They were left out: a kernel compiled otherwise was the same."""
    slow = LAUNCHES.replace("[kernels.copied]", '[kernels.copied]\noptions = ["-Xptxas=-O0"]')
    Path(recorded[1]).joinpath("launches.toml").write_text(slow)
    Path(recorded[1]).joinpath("copied.cu").write_text(WIDE)
    _, _, launches, own = launched(capsys, recorded)
    changed = {c["name"] for c in own["copied"]["components"]}
    assert launches["copied"]["status"] == "same"  # with the base's options
    assert own["copied"]["status"] != "same"
    assert "instructions" in changed


def compared_text(capsys, arguments):
    main(["diff", *arguments, "--device", "a100"])
    return capsys.readouterr().out


def test_limits_of_launches(recorded, capsys):
    limits = ["--fail-on", "l1_cycles +10 %", "--allow-gone"]
    code, found, launches, _ = launched(capsys, [*recorded, *limits])
    (failure,) = found["launches"]["failures"]
    assert failure.startswith("copied: l1_cycles ")
    assert failure.endswith("(allowed: l1_cycles +10 %)")
    assert launches["before"]["status"] == "same"  # under another name, with the base's launch
    assert code == 1
    assert (
        main(["diff", *recorded, "--device", "a100", "--fail-on", "time +900 %", "--allow-gone"])
        == 0
    )
    assert "launches: " in capsys.readouterr().out
    assert main(["diff", *recorded, "--device", "a100", "--markdown"]) == 1
    assert "Predicted performance" in capsys.readouterr().out


def test_a_launch_needs_launches(folders, capsys):
    assert main(["diff", *folders, "--arch", "sm_80", "--fail-on", "time +2 %"]) == 2
    assert "time is of a launch; give --launches FILE" in capsys.readouterr().err


def test_a_comment_on_a_new_file_that_is_broken_has_no_tick(tmp_path, capsys):
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "k.cu").write_text(SAME)
    (tmp_path / "head" / "new.cu").write_text("damaged")
    sides = [str(tmp_path / side) for side in ("base", "head")]
    assert main(["diff", *sides, "--arch", "sm_80", "--markdown"]) == 1
    assert "✅" not in capsys.readouterr().out
