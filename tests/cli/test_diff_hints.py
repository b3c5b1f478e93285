"""``perfassert diff --launches``: a hint of the base belongs to a loop, whatever its line is."""

import json
import shutil
from pathlib import Path

import pytest

from perfassert.cli.main import main
from tests.frontends.described import missing

pytestmark = [
    pytest.mark.exhaustive(one_in=6),
    pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed"),
]
KERNEL = """\
__global__ void looped(float* a, const int* ends) {
  float s = 0;
  for (int i = 0; i < ends[0]; ++i) s += a[i * 32 + threadIdx.x];
  for (int i = 0; i < ends[1]; ++i) s += 1.f / s;
  a[threadIdx.x] = s;
}
"""
MANY, FEW = KERNEL.splitlines()[2:4]
HEAVY = (
    "  for (int i = 0; i < ends[0]; ++i) { s += a[i * 32 + threadIdx.x]; "
    "for (int j = 0; j < 4; ++j) s = sqrtf(s + 1.f / (s + j)); }"
)
LAUNCHES = """\
schema = 1
[recorded]
device = "a100"
[kernels.looped]
cuda = "k.cu"
name = "looped"
trip_counts = { "k.cu:3" = 1000, "k.cu:4" = 2 }
[[launch]]
kernel = "looped"
grid = [4096]
block = [256]
args = { }
"""
GIVEN = 'trip_counts = { "k.cu:3" = 1000, "k.cu:4" = 2 }'


@pytest.fixture
def change(tmp_path, monkeypatch):
    """Write both sides: the base's files, the head's, and the hints of each."""
    monkeypatch.chdir(tmp_path)

    def write(base, head, hints=GIVEN, of_head=None):
        for side, files, given in (("base", base, hints), ("head", head, of_head or hints)):
            Path(side).mkdir()
            for name, text in files.items():
                Path(side, name).write_text(text)
            Path(side, "launches.toml").write_text(LAUNCHES.replace(GIVEN, given))

    return write


def run(capsys, *options, changed=False):
    given = ["diff", "base", "head", "--launches", "launches.toml", "--arch", "sm_80", "--json"]
    code = main([*given, *options])
    out, err = capsys.readouterr()
    assert out, err
    launches = json.loads(out)["launches"]
    predictions = launches["predictions"]
    assert predictions
    statuses, reasons = ({p[key] for p in predictions} for key in ("status", "reason"))
    return code, statuses, " ".join(reasons), *([launches["changed"]] if changed else [])


def swap(text, one, other):
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


HEADER = """\
__device__ float work(const float* a, const int* ends, float s) {
  for (int i = 0; i < ends[0]; ++i)
    s += a[i * 32 + threadIdx.x];
  for (int i = 0; i < ends[1]; ++i)
    s += 1.f / s;
  return s;
}
"""
INCLUDING = """\
#include "work.cuh"
__global__ void looped(float* a, const int* ends) { a[threadIdx.x] = work(a, ends, 0); }
"""
OF_HEADER = 'trip_counts = { "work.cuh:2" = 1000, "work.cuh:4" = 2 }'
CALLING = """\
__device__ float work(const float* a, int n, float s) {
  #pragma unroll 1
  for (int i = 0; i < n; ++i) s += a[i * 32 + threadIdx.x];
  return s;
}
__global__ void looped(float* a, const int* ends) {
  float s = work(a, ends[0], 0);
  s = work(a + 1, ends[1], s);
  a[threadIdx.x] = s;
}
"""
OF_CALLS = 'trip_counts = { "k.cu:3#1" = 1000, "k.cu:3#2" = 2 }'
LOADING = """\
__global__ void looped(float* a, const int* index, float* out) {
  int i = index[threadIdx.x];
  int j = index[threadIdx.x + 256];
  out[threadIdx.x] = a[i] + a[j];
}
"""
WIDE, NARROW = LOADING.splitlines()[1:3]
OF_LOADS = 'assume = { "k.cu:2" = "threadIdx.x * 32", "k.cu:3" = "threadIdx.x" }'
LONG = """\
__global__ void looped(float* a, const int* ends) {
  float s = 0;
  for (int i = 0;
       i < ends[0]; ++i) {
    s += a[i * 32 + threadIdx.x];
  }
  for (int i = 0;
       i < ends[1]; ++i) {
    s += 1.f / s;
  }
  a[threadIdx.x] = s;
}
"""
OF_LONG = 'trip_counts = { "k.cu:3" = 1000, "k.cu:7" = 2 }'
ALIKE = """\
__global__ void looped(float* a, const int* ends) {
  float s = 0;
  int n = ends[0];
  for (int i = 0; i < n; ++i) {
    s += a[i * 32 + threadIdx.x];
  }
  n = ends[1];
  for (int i = 0; i < n; ++i) {
    s += 1.f / s;
  }
  a[threadIdx.x] = s;
}
"""
OF_ALIKE = 'trip_counts = { "k.cu:4" = 1000, "k.cu:8" = 2 }'


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("base", "head", "hints", "told"),
    [
        (
            {"k.cu": KERNEL},
            {"k.cu": swap(KERNEL, MANY, FEW).replace(MANY, HEAVY)},
            GIVEN,
            "trip_counts['k.cu:3'] of base (for (int i = 0; i < ends[0]; ++i) s += a[i * 32 + "
            "threadIdx.x];) belongs to no certain line of head: no loop in head is on such a "
            "line; loops of head: k.cu:3, k.cu:4; correct the lines in launches.toml:4: "
            "kernels.looped and give --launches-from head",
        ),
        (
            {"k.cu": KERNEL},
            {"k.cu": KERNEL.replace(f"{MANY}\n{FEW}", f"{FEW.replace('1]', '2]')}\n{HEAVY}")},
            GIVEN,
            "trip_counts['k.cu:4'] of base",
        ),
        (
            {"k.cu": KERNEL},
            {"k.cu": swap(KERNEL, MANY, FEW)},
            GIVEN,
            "the lines of hints are in another order",
        ),
        (
            {"k.cu": INCLUDING, "work.cuh": HEADER},
            {"k.cu": INCLUDING, "work.cuh": swap(HEADER, "ends[0]", "ends[1]")},
            OF_HEADER,
            "trip_counts['work.cuh:2'] of base",
        ),
        (
            {"k.cu": CALLING},
            {"k.cu": swap(CALLING, "ends[0]", "ends[1]").replace("a + 1", "a + 2")},
            OF_CALLS,
            "several loops are on such lines",
        ),
        (
            {"k.cu": LOADING},
            {"k.cu": swap(LOADING, "i =", "j =")},
            OF_LOADS,
            "assume['k.cu:2'] of base",
        ),
        (
            {"k.cu": LONG},
            {"k.cu": swap(LONG, "ends[0]", "ends[1]")},
            OF_LONG,
            "trip_counts['k.cu:3'] of base (for (int i = 0; i < ends[0]; ++i) {)",
        ),
        (
            {"k.cu": ALIKE},
            {"k.cu": swap(ALIKE, "ends[0]", "ends[1]")},
            OF_ALIKE,
            "several loops are on such lines",
        ),
    ],
    ids=["heavier", "before", "swapped", "header", "inlined", "loads", "several lines", "alike"],
)
def test_a_hint_does_not_apply_to_another_loop(change, capsys, base, head, hints, told):
    """The file says nothing new, and its lines are those of other loops."""
    change(base, head, hints)
    code, statuses, reason = run(capsys, "--allow-gone", "--fail-on", "time +900 %")
    assert (code, statuses) == (1, {"incomparable"})
    assert told in reason


def trips(many, few):
    return f'trip_counts = {{ "k.cu:{many}" = 1000, "k.cu:{few}" = 2 }}'


LONGER = [("  a[threadIdx.x] = s", "\n  s = sqrtf(s);\n  a[threadIdx.x] = s")]


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("text", "hints", "changes", "of_head"),
    [
        (KERNEL, GIVEN, [("  float s = 0;", "\n\n  float s = 0;")], trips(5, 6)),
        (KERNEL, GIVEN, [("  float s = 0;", "\n\n  float s = 1;")], trips(5, 6)),
        (KERNEL, GIVEN, [("  float s = 0;", "  float s = 1;\f")], GIVEN),
        (KERNEL, GIVEN, [(FEW, f"\n{FEW.replace(' = ', '  =  ')}"), *LONGER], trips(3, 5)),
        (LONG, OF_LONG, [("    s += 1.f", "    s *= 2;\n    s += 1.f"), *LONGER], OF_LONG),
        (ALIKE, OF_ALIKE, [("  float s = 0;", "\n  float s = 1;")], trips(5, 9)),
        (
            ALIKE,
            OF_ALIKE.replace("1000", "2"),
            [("    s += a", "\n    s += a"), *LONGER],
            trips(4, 9).replace("1000", "2"),
        ),
        (CALLING, OF_CALLS, [("__device__", "\n__device__")], trips("4#1", "4#2")),
        (
            LOADING,
            OF_LOADS,
            [("  int i", "\n\n  int i"), ("a[i] +", "a[i] *")],
            OF_LOADS.replace("k.cu:3", "k.cu:5").replace("k.cu:2", "k.cu:4"),
        ),
    ],
)
def test_a_hint_moves_with_its_line(change, capsys, text, hints, changes, of_head):
    """The head's file has to say the same: it is the next base's."""
    edited = text
    for old, new in changes:
        assert old in edited
        edited = edited.replace(old, new)
    change({"k.cu": text}, {"k.cu": edited}, hints)
    for given in (hints, of_head):
        Path("head/launches.toml").write_text(LAUNCHES.replace(GIVEN, given))
        code, statuses, reason, changed = run(capsys, "--fail-on", "time +10 %", changed=True)
        assert (code, reason) == (int(given != of_head), "")
        assert statuses <= {"same", "within tolerance"}
        assert changed == [
            "looped: the lines in launches.toml:4: kernels.looped are not those of its code; "
            f"write {of_head}"
        ] * (given != of_head)


def test_a_file_for_both_sides_needs_no_edit(change, capsys):
    change({"k.cu": KERNEL}, {"k.cu": KERNEL.replace("  float s = 0;", "\n\n  float s = 1;")})
    shutil.copy("base/k.cu", "k.cu")
    shutil.copy("base/launches.toml", "launches.toml")
    for side in ("base", "head"):
        Path(side, "launches.toml").unlink()
    assert run(capsys, "--fail-on", "time +10 %")[0] == 0


def test_a_slower_body_is_slower(change, capsys):
    body = "    s += a[i * 32 + threadIdx.x];\n"
    change(
        {"k.cu": LONG},
        {"k.cu": LONG.replace(body, body + "    s = sqrtf(s) / a[i];\n")},
        OF_LONG,
    )
    assert run(capsys)[:2] == (1, {"slower"})


def test_lines_of_the_head_that_a_person_asks_for(change, capsys):
    """Line numbers of hints refer, for each side, to its file."""
    head = swap(KERNEL, MANY, FEW).replace(MANY, HEAVY)
    lines = 'trip_counts = { "k.cu:3" = 2, "k.cu:4" = 1000 }'
    change({"k.cu": KERNEL}, {"k.cu": head}, GIVEN, lines)
    code, statuses, _ = run(capsys, "--launches-from", "head")
    assert (code, statuses) == (1, {"slower"})


def test_one_launches_file_cannot_be_right_about_both(change, capsys):
    change({"k.cu": KERNEL}, {"k.cu": swap(KERNEL, MANY, FEW)})
    Path("base/launches.toml").rename("launches.toml")
    Path("head/launches.toml").unlink()
    shutil.copy("base/k.cu", "k.cu")
    for launches_from in ("base", "head"):
        code, statuses, reason = run(capsys, "--launches-from", launches_from)
        assert (code, statuses) == (1, {"incomparable"})
        assert "give each side a launches file of its own" in reason


def test_hints_of_another_manner_are_those_of_the_base(change, capsys):
    """A head that launches otherwise cannot give its heavy loop the count of another."""
    head = KERNEL.replace(MANY, "  for (int i = 0; i < ends[2]; ++i) s = sqrtf(s + a[i]);\n" + MANY)
    change(
        {"k.cu": KERNEL}, {"k.cu": head}, GIVEN, 'trip_counts = { "k.cu:3" = 1000, "k.cu:5" = 2 }'
    )
    launches = Path("head/launches.toml")
    launches.write_text(launches.read_text().replace("[4096]", "[8192]"))
    given = ["diff", "base", "head", "--launches", "launches.toml", "--arch", "sm_80", "--json"]
    main(given)
    predictions = json.loads(capsys.readouterr().out)["launches"]["predictions"]
    twice = [p["time"]["head"] for p in predictions]
    assert len(twice) == 2
    assert max(twice) == pytest.approx(2 * min(twice), rel=0.1)


def test_a_line_that_means_something_else_is_not_noticed(change, capsys):
    """A limitation: only the text of the line is compared, not what its names stand for."""
    text = KERNEL.replace("ends[0]", "first").replace("ends[1]", "second")
    names = ("  float s = 0;", "  float s = 0; int first = ends[0], second = ends[1];")
    base = text.replace(*names)
    change({"k.cu": base}, {"k.cu": swap(base, "ends[0]", "ends[1]")})
    assert run(capsys)[0] == 0


def test_an_incomparable_launch_is_annotated(change, capsys):
    change({"k.cu": KERNEL}, {"k.cu": swap(KERNEL, MANY, FEW)})
    given = ["diff", "base", "head", "--launches", "launches.toml", "--arch", "sm_80", "--github"]
    assert main(given) == 1
    assert "::warning" in (out := capsys.readouterr().out)
    assert "cannot be compared in looped: trip_counts['k.cu:3'] of base" in out
