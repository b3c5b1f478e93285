"""``perfassert diff --launches``: whose launches file decides, and what a head's cannot hide."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from perfassert.cli.main import main
from tests.frontends.described import missing

pytestmark = [
    pytest.mark.exhaustive(one_in=8),
    pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed"),
]
FAST = """\
__global__ void copied(float4* a, const float4* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = b[i];
}
"""
SLOW = """\
__global__ void copied(float4* a, const float4* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) for (int k = 0; k < 4; ++k) ((float*)a)[4 * i + k] = ((const float*)b)[4 * i + k];
}
"""
OTHER = "__global__ void other(float* a) { a[threadIdx.x] = 0; }\n"
LOOPED = """\
__global__ void looped(int* a, const int* ends) {
  int sum = 0;
  for (int i = 0; i < ends[0]; ++i) sum += a[i * 32 + threadIdx.x];
  for (int i = 0; i < ends[1]; ++i) sum ^= a[i * 64 + threadIdx.x];
  a[threadIdx.x] = sum;
}
"""
LAUNCHES = """\
schema = 1
[recorded]
device = "a100"
[kernels.copied]
cuda = "copied.cu"
name = "copied"
[[launch]]
kernel = "copied"
grid = [4096]
block = [256]
args = { n = 1048576 }
"""
SECOND = LAUNCHES[LAUNCHES.index("[[launch]]") :]


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """A base with a fast kernel, a head with a slow one, and the same launches file in both."""
    monkeypatch.chdir(tmp_path)
    for side, text in (("base", FAST), ("head", SLOW)):
        Path(side).mkdir()
        Path(side, "copied.cu").write_text(text)
        Path(side, "launches.toml").write_text(LAUNCHES)
    return Path("base"), Path("head")


def run(capsys, *options, sides=("base", "head")):
    given = ["diff", *sides, "--launches", "launches.toml", "--arch", "sm_80", "--json", *options]
    code = main(given)
    out, err = capsys.readouterr()
    found = json.loads(out) if out else {"launches": {"predictions": []}}
    statuses = {
        (p["test"], p["label"].partition(", ")[2]): p["status"]
        for p in found["launches"]["predictions"]
    }
    return code, statuses, found["launches"], err


def edit(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_the_slow_kernel_is_slower(sides, capsys):
    code, statuses, found, _ = run(capsys)
    assert (code, statuses) == (1, {("copied", ""): "slower"})
    assert found["changed"] == []


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(
    "changes",
    [
        [("grid = [4096]", "grid = [1]")],
        [("block = [256]", "block = [1024]"), ("grid = [4096]", "grid = [8]")],
        [("block = [256]", "block = [256]\nshared_bytes = 16384")],
        [("n = 1048576", "n = 1")],
        [("n = 1048576", "n = 1048576, b = { shape = 16 }")],
        [('name = "copied"', 'name = "copied"\ndefines = { SLOW = 0 }')],
        [('name = "copied"', 'name = "copied"\noptions = ["-Xptxas=-O3", "-use_fast_math"]')],
        [('name = "copied"', 'name = "copied"\ninclude_dirs = ["."]')],
        [('name = "copied"', 'name = "copied"\nupdates_per_thread = 64')],
        [('name = "copied"', 'name = "copied"\nconstants = { c = 1 }')],
        [('name = "copied"', 'name = "copied"\ntrip_counts = { "copied.cu:3" = 0 }')],
        [('name = "copied"', 'name = "copied"\nassume = { b = "0" }')],
        [('device = "a100"', 'device = "h100"')],
        [("args = { n = 1048576 }\n", "args = { n = 1048576 }\ncount = 9\n" + SECOND)],
    ],
)
def test_the_head_cannot_describe_it_otherwise(sides, capsys, changes):
    """The base's entry is predicted with the code of both sides."""
    edit(sides[1] / "launches.toml", *changes)
    code, statuses, _, _ = run(capsys)
    assert (code, statuses["copied", ""]) == (1, "slower")
    code, statuses, _, _ = run(capsys, "--allow-gone")
    assert (code, statuses["copied", ""]) == (1, "slower")


def renamed(old, new):
    return ("[kernels.copied]", f"[kernels.{new}]"), ('kernel = "copied"', f'kernel = "{new}"')


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        (
            {"old.cu": FAST},
            [('"copied.cu"', '"old.cu"')],
            "launches.toml:4: kernels.copied: the launch 'copied' is of old.cu in head, and of "
            "copied.cu in base; name copied.cu, or give --launches-from head if it was moved",
        ),
        (
            {".attic/old.cu": FAST},
            [('"copied.cu"', '".attic/old.cu"')],
            "the launch 'copied' is of .attic/old.cu in head, and of copied.cu in base",
        ),
        (
            {},
            [('"copied.cu"', '"../base/copied.cu"')],
            "launches.toml:4: kernels.copied: the launch 'copied' in head is of ../base/copied.cu, "
            "which lies outside of head and is not compared; name a source of head",
        ),
        (
            {"link.cu": Path("../base/copied.cu")},
            [('"copied.cu"', '"link.cu"')],
            "which lies outside of head",
        ),
        (
            {"old.cu": FAST, "link.cu": Path("old.cu")},
            [('"copied.cu"', '"link.cu"')],
            "the launch 'copied' is of link.cu in head, and of copied.cu in base",
        ),
        (
            {"copied.cu": SLOW + OTHER},
            [('name = "copied"', 'name = "other"')],
            "launches.toml:4: kernels.copied: the launch 'copied' is of other in copied.cu in "
            "head, and copied in copied.cu is what is compared; name copied, or give the launch of "
            "the other a label of its own",
        ),
        (
            {"copied.cu": SLOW + FAST.replace("copied", "copied_before")},
            [('name = "copied"', 'name = "copied_before"')],
            "the launch 'copied' is of copied_before in copied.cu in head, and copied in",
        ),
        (
            {},
            [
                (
                    'cuda = "copied.cu"\nname = "copied"',
                    'name = "copied"\n[kernels.copied.accesses]\n'
                    'fields = [{ name = "a", shape = 1024 }]\nstores = ["a[x]"]',
                )
            ],
            "the launch 'copied' is of no source in head, and of copied.cu in base",
        ),
        ({}, [("schema = 1", "schema = 9")], "schema: must be 1"),
        ({}, [('"copied.cu"', '"none.cu"')], "there is no file 'none.cu'"),
    ],
)  # fmt: skip
def test_an_entry_that_names_other_code(sides, capsys, files, changes, message):
    """The old code under another name was predicted for the new one."""
    for name, content in files.items():
        path = sides[1] / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_text(content)
    edit(sides[1] / "launches.toml", *changes)
    for options in ((), ("--allow-gone",), ("--fail-on", "time +900 %")):
        code, _, _, err = run(capsys, *options)
        assert code == 2
        assert message in err


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("changes", "statuses"),
    [
        (renamed("copied", "copy"), {("copied", ""): "gone", ("copy", ""): "new"}),
        (
            [
                (
                    "args = { n = 1048576 }\n",
                    "args = { n = 1048576 }\n" + SECOND.replace("256", "64"),
                )
            ],
            {("copied", ""): "same", ("copied#2", ""): "new"},
        ),
        (
            [(SECOND, SECOND.replace("256", "64") + SECOND)],
            {("copied", ""): "same", ("copied#2", ""): "new"},
        ),
    ],
)
def test_what_only_one_side_has(sides, capsys, changes, statuses):
    (sides[1] / "copied.cu").write_text(FAST)
    edit(sides[1] / "launches.toml", *changes)
    code, found, launches, _ = run(capsys)
    assert found == statuses
    assert launches["changed"] == []
    assert code == int("gone" in statuses.values())
    assert run(capsys, "--allow-gone")[0] == 0


def test_an_entry_that_is_gone(sides, capsys):
    edit(sides[0] / "launches.toml", (SECOND, SECOND + SECOND.replace("n = 1048576", "n = 4096")))
    (sides[1] / "copied.cu").write_text(FAST)
    code, statuses, _, _ = run(capsys)
    assert (code, statuses) == (1, {("copied", ""): "same", ("copied#2", ""): "gone"})


def test_the_order_of_entries_does_not_matter(sides, capsys):
    less = SECOND.replace("n = 1048576", "n = 4096")
    edit(sides[0] / "launches.toml", (SECOND, SECOND + less))
    edit(sides[1] / "launches.toml", (SECOND, less + SECOND))
    code, statuses, found, _ = run(capsys)
    assert set(statuses) == {("copied", ""), ("copied#2", "")}
    assert (code, statuses["copied", ""], found["changed"]) == (1, "slower", [])


def test_a_new_launch_that_cannot_be_predicted_is_listed(sides, capsys):
    (sides[1] / "copied.cu").write_text(FAST)
    more = SECOND.replace("copied", "lost") + '[kernels.lost]\ncuda = "copied.cu"\nname = "lost"\n'
    edit(sides[1] / "launches.toml", (SECOND, SECOND + more))
    code, statuses, found, _ = run(capsys)
    assert (code, statuses) == (0, {("copied", ""): "same"})
    assert found["unknown"] == ["lost: no prediction: head has no kernel called 'lost'"]


def test_another_manner_is_compared_too(sides, capsys):
    """Honest smaller blocks are slower, larger ones faster: both are seen."""
    (sides[1] / "copied.cu").write_text(FAST)
    edit(sides[1] / "launches.toml", ("block = [256]", "block = [32]"), ("[4096]", "[32768]"))
    code, statuses, _, _ = run(capsys)
    own = ("copied", "as each side launches it")
    assert (code, statuses) == (1, {("copied", ""): "same", own: "slower"})
    code, statuses, _, _ = run(capsys, sides=("head", "base"))
    assert (code, statuses) == (0, {("copied", ""): "same", own: "faster"})


def test_launches_of_the_head(sides, capsys):
    """With ``--launches-from head`` both sides get its launch."""
    edit(sides[1] / "launches.toml", ("n = 1048576", "n = 0"))
    code, statuses, found, _ = run(capsys, "--launches-from", "head")
    assert statuses == {("copied", ""): "same"}
    assert found["changed"] == ["copied: other arguments than in the base: n 1048576 → 0"]
    assert code == 1
    assert run(capsys, "--launches-from", "head", "--allow-gone")[0] == 0
    assert run(capsys, "--launches-from", "base", "--allow-gone")[0] == 1


def test_launches_of_whom_without_launches(sides, capsys):
    assert main(["diff", "base", "head", "--arch", "sm_80", "--launches-from", "head"]) == 2
    assert "give --launches FILE" in capsys.readouterr().err


def test_a_source_that_was_moved(sides, capsys):
    """The head's file alone cannot say so; a person can."""
    (sides[1] / "kernels").mkdir()
    (sides[1] / "copied.cu").rename(sides[1] / "kernels" / "copied.cu")
    edit(sides[1] / "launches.toml", ('"copied.cu"', '"kernels/copied.cu"'))
    code, _, _, err = run(capsys)
    assert code == 2
    assert "is of kernels/copied.cu in head, and of copied.cu in base" in err
    code, statuses, _, _ = run(capsys, "--launches-from", "head")
    assert (code, statuses) == (1, {("copied", ""): "slower"})


def test_a_source_that_was_moved_beside_its_old_code(sides, capsys):
    """The old code at another place has the name of the kernel, and is none that runs."""
    (sides[1] / "kernels").mkdir()
    (sides[1] / "copied.cu").rename(sides[1] / "kernels" / "copied.cu")
    (sides[1] / "old.cu").write_text(FAST)
    (sides[1] / "launches.toml").unlink()
    shutil.copy(sides[0] / "launches.toml", "launches.toml")
    shutil.copy(sides[0] / "copied.cu", "copied.cu")
    (sides[0] / "launches.toml").unlink()
    code, statuses, found, _ = run(capsys)
    assert (code, statuses) == (1, {("copied", ""): "broken"})
    (one,) = found["predictions"]
    assert one["reason"] == ("head has 2 kernels called 'copied', and none of them in copied.cu")


@pytest.mark.parametrize("launches_from", ["base", "head"])
def test_a_kernel_that_was_renamed(sides, capsys, launches_from):
    edit(sides[1] / "copied.cu", ("copied", "copy"))
    edit(sides[1] / "launches.toml", ('name = "copied"', 'name = "copy"'))
    (sides[0] / "copied.cu").write_text(SLOW)
    code, statuses, found, _ = run(capsys, "--launches-from", launches_from)
    assert (code, statuses) == (0, {("copied", ""): "same"})
    assert found["changed"] == []


TRIPS = 'trip_counts = {{ "copied.cu:{}" = 64, "copied.cu:{}" = 4 }}'


@pytest.fixture
def loops(sides):
    for side in sides:
        (side / "copied.cu").write_text(LOOPED)
        edit(side / "launches.toml", ('name = "copied"', 'name = "looped"\n' + TRIPS.format(3, 4)),
             ("args = { n = 1048576 }\n", ""))  # fmt: skip
    return sides


def test_trip_counts_move_with_their_lines(loops, capsys):
    edit(loops[1] / "copied.cu", ("  int sum", "\n\n  int sum"))
    edit(loops[1] / "launches.toml", (TRIPS.format(3, 4), TRIPS.format(5, 6)))
    code, statuses, found, _ = run(capsys)
    assert (code, statuses) == (0, {("copied", ""): "same"})
    assert found["changed"] == []


def test_trip_counts_stay_with_their_loops(loops, capsys):
    edit(loops[1] / "launches.toml", (TRIPS.format(3, 4), TRIPS.format(4, 3)))
    code, statuses, found, _ = run(capsys, "--fail-on", "time +900 %")
    assert (code, statuses) == (1, {("copied", ""): "same"})
    assert found["changed"] == [
        "copied: other arguments than in the base: trip_counts [64, 4] → [4, 64]"
    ]


def git(*words):
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *name, *words], capture_output=True, check=True)


def test_a_source_that_the_build_generates(sides, capfd):
    """A source that is no file of the revision is compared as the build generates it."""
    git("init", "-q", "-b", "main")
    for side, text in (("base", FAST), ("head", SLOW)):
        Path("copied.txt").write_text(text)
        Path("launches.toml").write_text(LAUNCHES.replace("copied.cu", "made/copied.cu"))
        git("add", "copied.txt", "launches.toml")
        git("commit", "-qm", side)
    build = ["--build", "mkdir -p made && cp copied.txt made/copied.cu", "--objects", "made/*.cu"]
    code, statuses, _, _ = run(capfd, *build, sides=("HEAD~1", "HEAD"))
    assert (code, statuses) == (1, {("copied", ""): "slower"})
    edit(Path("launches.toml"), ("made/copied.cu", "old.cu"))
    Path("old.cu").write_text(FAST)
    git("add", "old.cu", "launches.toml")
    git("commit", "-qm", "old")
    code, _, _, err = run(capfd, *build, sides=("HEAD~2", "HEAD"))
    assert code == 2
    assert "is of old.cu in HEAD, and of made/copied.cu in HEAD~2" in err


def test_launches_of_recorded_code(sides, capsys):
    """``perfassert record`` keeps a copy of the code beside the file; its name has its digest."""
    for side, digest in zip(sides, ("1a2b", "3c4d"), strict=True):
        (side / "code").mkdir()
        (side / "copied.cu").rename(side / "code" / "copied.cu")
        (side / f"launches.{digest}.ptx").write_text(".version 8.0\n.target sm_80\n")
        edit(side / "launches.toml", ('cuda = "copied.cu"', f'ptx = "launches.{digest}.ptx"'))
    code, statuses, _, _ = run(capsys, "--objects", "code/*.cu")
    assert (code, statuses) == (1, {("copied", ""): "slower"})
