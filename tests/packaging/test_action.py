"""The GitHub action step by step, the job for GitLab, and the hooks, on a sample repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=6)

ROOT = Path(__file__).parents[2]
ACTION, COMMENT = ROOT / "action.yml", ROOT / ".github/actions/comment/action.yml"
GITLAB, WORKFLOW = ROOT / "docs/how-to/gitlab-ci.yml", ROOT / "docs/how-to/ci-workflow.yml"
KERNEL = """
__global__ void BOUNDS sums(float* a) {
  float v[40], sum = 0;
  #pragma unroll
  for (int i = 0; i < 40; ++i) sum += v[i] = a[i * 1024 + threadIdx.x];
  #pragma unroll
  for (int i = 0; i < 40; ++i) a[i * 1024 + threadIdx.x] = v[i] * sum;
}
"""
GOOD = KERNEL.replace("BOUNDS", "")
SPILLS = KERNEL.replace("BOUNDS", "__launch_bounds__(1024, 2)")
GH = """#!{python}
import json, os, pathlib, subprocess, sys
words, place = sys.argv[1:], pathlib.Path(os.environ["GH_COMMENTS"])
comments = json.loads(place.read_text())
if words[:2] == ["pr", "view"]:
    asked = words[words.index("--jq") + 1]
    told = json.dumps({{"comments": comments}})
    sys.exit(subprocess.run(["jq", "-r", asked], input=told, text=True).returncode)
if os.environ.get("GH_READ_ONLY"):
    sys.exit("HTTP 403: Resource not accessible by integration")
method, address = words[words.index("--method") + 1 :][:2]
(body,) = (w.removeprefix("body=@") for w in words if w.startswith("body=@"))
text = pathlib.Path(body).read_text()
if method == "POST":
    url = f"https://example.org/pull/7#issuecomment-{{100 + len(comments)}}"
    comments.append({{"viewerDidAuthor": True, "url": url, "body": text}})
else:
    (own,) = (c for c in comments if c["url"].endswith("-" + address.rpartition("/")[2]))
    own["body"] = text
place.write_text(json.dumps(comments))
"""
CURL = """#!{python}
import json, os, pathlib, sys
words, place = sys.argv[1:], pathlib.Path(os.environ["GH_COMMENTS"])
notes = json.loads(place.read_text())
if "--request" not in words:
    sys.exit(print(json.dumps(notes)))
text = pathlib.Path(words[words.index("--data-urlencode") + 1].removeprefix("body@")).read_text()
if words[words.index("--request") + 1] == "POST":
    notes.append({{"id": 5, "body": text}})
else:
    (own,) = (n for n in notes if words[-1].endswith(f"/{{n['id']}}"))
    own["body"] = text
place.write_text(json.dumps(notes))
"""


def git(place: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *own, *words], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path):
    """Its branch ``main`` has one kernel."""
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    place = tmp_path / "origin"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    commit(place, "main", GOOD)
    return place


def commit(place: Path, branch: str, text: str) -> None:
    git(place, "checkout", "-q", "-B", branch)
    (place / "sums.cu").write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", "change")


def value(expression: str, known: dict[str, Any]) -> str:
    """Evaluate ``${{ … }}``: a name, or comparisons joined by ``&&``."""
    if "&&" in expression:
        return str(all(value(part, known) == "True" for part in expression.split("&&")))
    for operator in ("==", "!="):
        left, found, right = (part.strip() for part in expression.partition(operator))
        if found:
            same = value(left, known) == right.strip("'")
            return str(same == (operator == "=="))
    return str(known[expression.strip()])


def filled(text: Any, known: dict[str, Any]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda m: value(m[1], known), str(text))


class Runner:
    """Does what GitHub's does with a composite action; ``uses`` is left out."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.comments = place / "comments.json"
        self.comments.write_text("[]")
        self.bin = place / "bin"
        self.bin.mkdir()
        for name, text in (("gh", GH), ("curl", CURL)):
            command = self.bin / name
            command.write_text(text.format(python=sys.executable))
            command.chmod(command.stat().st_mode | stat.S_IXUSR)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(
                [str(self.bin), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "GH_COMMENTS": str(self.comments),
            "GITHUB_REPOSITORY": "a/b",
            "PERFASSERT_CACHE_DIR": str(place.parent / "cache"),  # of all tests
        }

    def checkout(self, origin: Path, branch: str) -> Path:
        """Return a checkout of a pull request as by actions/checkout: shallow, merged with the
        base."""
        git(origin, "checkout", "-q", "--detach", "main")
        git(origin, "merge", "-q", "--no-ff", "-m", "merge", branch)
        git(origin, "update-ref", "refs/pull/7/merge", "HEAD")
        git(origin, "checkout", "-q", "main")
        work = self.place / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        git(work, "init", "-q")
        git(work, "remote", "add", "origin", origin.as_uri())
        git(work, "fetch", "-q", "--depth=1", "origin", "refs/pull/7/merge")
        git(work, "checkout", "-q", "--detach", "FETCH_HEAD")
        return work

    def run(self, work: Path, **inputs: str) -> tuple[int, str, str]:
        """Compare in one job, comment in another: exit code of the first, what was printed, its
        summary."""
        code, printed, summary = self.take(ACTION, work, inputs)
        artifact = self.place / "perfassert-comment"
        artifact.mkdir(exist_ok=True)
        if (self.place / "perfassert-diff.md").exists():
            (self.place / "perfassert-diff.md").replace(artifact / "perfassert-diff.md")
            commented, said, _ = self.take(COMMENT, self.place, {})
            assert commented == 0, said
            printed += said
        return code, printed, summary

    def take(self, action: Path, work: Path, inputs: dict[str, str]) -> tuple[int, str, str]:
        """Exit code of an action's last step that ran, what was printed, the job's summary."""
        described = yaml.safe_load(action.read_text("utf-8"))
        defaults = {k: i.get("default", "") for k, i in described["inputs"].items()}
        given = {**defaults, "install": "", **{k.replace("_", "-"): v for k, v in inputs.items()}}
        known: dict[str, Any] = {f"inputs.{k}": v for k, v in given.items()}
        known |= {"github.event_name": "pull_request", "github.base_ref": "main",
                  "github.event.pull_request.number": "7", "github.token": "secret",
                  "runner.temp": str(self.place)}  # fmt: skip
        if "inputs.token" in known:
            known["inputs.token"] = filled(known["inputs.token"], known)
        summary = self.place / "summary.md"
        summary.write_text("")
        printed = ""
        for step in described["runs"]["steps"]:
            if "uses" in step or ("if" in step and value(step["if"], known) != "True"):
                continue
            outputs = self.place / "outputs"
            outputs.write_text("")
            environment = {k: filled(v, known) for k, v in step.get("env", {}).items()}
            files = {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
            assert "${{" not in step["run"]  # inputs never become part of a script
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=work / filled(step.get("working-directory", "."), known),
                env={**self.environment, **environment, **files},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            printed += done.stdout
            for line in outputs.read_text().splitlines():
                name, _, told = line.partition("=")
                known[f"steps.{step['id']}.outputs.{name}"] = told
            if done.returncode:
                return done.returncode, printed, summary.read_text()
        return 0, printed, summary.read_text()

    def told(self) -> list[dict[str, Any]]:
        return list(json.loads(self.comments.read_text()))


@pytest.mark.skipif(not shutil.which("jq"), reason="jq stands in for that of gh")
def test_pull_requests_of_a_repository(origin, tmp_path):
    runner = Runner(tmp_path)
    other = {
        "viewerDidAuthor": False,
        "url": "#issuecomment-1",
        "body": "<!-- perfassert: diff -->",
    }
    runner.comments.write_text(json.dumps([other]))  # somebody pretends to be us

    commit(origin, "change", "// A comment.\n" + GOOD)
    code, printed, summary = runner.run(runner.checkout(origin, "change"), arch="sm_80")
    assert code == 0, printed
    assert "1 same" in summary
    foreign, own = runner.told()
    assert (foreign, "1 same" in own["body"]) == (other, True)

    commit(origin, "change", SPILLS)
    work = runner.checkout(origin, "change")
    code, printed, summary = runner.run(work, arch="sm_80")
    assert code == 1, printed
    assert "::warning file=sums.cu" in printed
    assert "::error::perfassert" in printed
    assert re.search(r"spill_bytes 0 B → \d+ B", summary)
    foreign, worse = runner.told()
    assert (worse["url"], foreign) == (own["url"], other)
    assert "1 worse" in worse["body"]

    runner.environment["GH_READ_ONLY"] = "1"  # as in a pull request from a fork
    code, printed, summary = runner.run(work, arch="sm_80")
    assert (code, runner.told()) == (1, [foreign, worse])
    assert "::notice::perfassert: this token may not comment" in printed
    assert "1 worse" in summary
    del runner.environment["GH_READ_ONLY"]

    commit(origin, "change", GOOD)
    code, printed, _ = runner.run(runner.checkout(origin, "change"), arch="sm_80", objects="*.cu\n")
    assert code == 0, printed
    _, mended = runner.told()
    assert (mended["url"], "1 same" in mended["body"]) == (own["url"], True)

    work = runner.checkout(origin, "change")
    code, printed, _ = runner.run(work, base="no-such-revision", arch="sm_80")
    assert code != 0  # an empty revision was once taken for the folder: all the same
    assert "no-such-revision" in printed
    _, failed = runner.told()
    assert (failed["url"], "✅" in failed["body"]) == (own["url"], False)
    assert "## ❌ GPU kernels: nothing was compared" in failed["body"]


def test_a_token_that_the_checkout_left_is_an_error(origin, tmp_path):
    runner = Runner(tmp_path)
    commit(origin, "change", GOOD)
    work = runner.checkout(origin, "change")
    git(work, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic secret")
    code, printed, _ = runner.run(work, arch="sm_80")
    assert code == 2
    assert "persist-credentials: false" in printed


def test_the_installer_is_no_module_of_the_pull_request(origin, tmp_path):
    """``python -m pip`` looks for modules in the folder that it is started in."""
    runner = Runner(tmp_path)
    commit(origin, "change", GOOD)
    work = runner.checkout(origin, "change")
    (work / "pip").mkdir()
    (work / "pip" / "__main__.py").write_text("open('made', 'w')")
    (work / "json.py").write_text("open('made', 'w')")
    for step in yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"]:
        if "pip install" in step.get("run", ""):
            done = subprocess.run(
                ["bash", "-c", step["run"].replace("install", "--version #")], cwd=work,
                env=runner.environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert done.stdout.startswith("pip ")
    assert not (work / "made").exists()


def jobs() -> dict[str, dict[str, Any]]:
    """Return the jobs that this project publishes, by name, as {text, secret}."""
    found: dict[str, dict[str, Any]] = {}
    for path in (ACTION, COMMENT):
        found[str(path.relative_to(ROOT))] = yaml.safe_load(path.read_text("utf-8"))
    for name, job in yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"].items():
        found[f"ci-workflow {name}"] = job
    for name, job in yaml.safe_load(GITLAB.read_text("utf-8")).items():
        found[f"gitlab {name}"] = job
    return found


@pytest.mark.parametrize("name", jobs())
def test_no_job_builds_and_has_a_token(name):
    """Code of a pull request can read whatever its job can."""
    text = json.dumps(jobs()[name])
    runs_code = any(
        word in text
        for word in ("perfassert diff", "pytest", "actions/checkout", "pip install", "make ")
    )
    has_token = any(
        word in text for word in ("github.token", "secrets.", "GH_TOKEN", "PRIVATE-TOKEN", "write")
    )
    assert runs_code != has_token
    if '"uses": "actions/checkout' in text:
        assert '"persist-credentials": false' in text
    assert all("-I" in part[:4] for part in re.split(r"\bpython3? ", text)[1:])


def test_the_workflow_gives_no_rights_but_reading():
    assert yaml.safe_load(WORKFLOW.read_text("utf-8"))["permissions"] == {"contents": "read"}


def test_the_jobs_for_gitlab(origin, tmp_path):
    runner = Runner(tmp_path)
    job, note_job = yaml.safe_load(GITLAB.read_text("utf-8")).values()
    commit(origin, "change", SPILLS)
    work = tmp_path / "gitlab"
    git(tmp_path, "clone", "-q", "--branch", "change", str(origin), str(work))
    given = {
        **job["variables"], **runner.environment, "PERFASSERT_INSTALL": "",
        "PERFASSERT_DEVICE": "a100", "CI_JOB_NAME": "perf", "CI_PROJECT_URL": str(origin),
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(origin, "rev-parse", "main"),
        "CI_JOB_TOKEN": "secret", "CI_REPOSITORY_URL": "https://gitlab-ci-token:secret@x/y.git",
    }  # fmt: skip

    def run(script: list[str], place: Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-e", "-c", "\n".join(script)], cwd=place, env={**given, **more},
            capture_output=True, text=True,
        )  # fmt: skip

    runner.comments.write_text(json.dumps([{"id": 5, "body": "<!-- perfassert: perf -->\nbefore"}]))
    done = run(job["script"], work)
    assert done.returncode == 1, done.stderr
    assert "1 worse" in done.stdout
    assert "secret" not in git(work, "remote", "-v")
    assert runner.told()[0]["body"].endswith("before")  # this job has no token
    refused = run(job["script"], work, PERFASSERT_TOKEN="secret")
    assert refused.returncode == 2
    assert "environment scope perfassert-note" in refused.stdout

    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(work / "perfassert.md", bare)
    done = run(note_job["script"], bare, PERFASSERT_TOKEN="secret")
    assert done.returncode == 0, done.stderr
    (note,) = runner.told()
    assert note["body"].startswith("<!-- perfassert: perf -->\n## ")

    assert job["cache"] == note_job["cache"] == []


def test_the_hook_reads_perf_files(tmp_path):
    hooks = {
        h["id"]: h for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    }
    hook = hooks["perf-toml"]
    good = (
        (ROOT / "docs/reference/perf-toml.md")
        .read_text("utf-8")
        .partition("```toml\n")[2]
        .partition("```")[0]
    )
    texts = {"good": good, "bad": good.replace("block =", "blok =")}
    for name, text in texts.items():
        (tmp_path / f"{name}.perf.toml").write_text(text, "utf-8")
        assert re.search(hook["files"], f"{name}.perf.toml")
    command = [sys.executable, *hook["entry"].split()[1:], "-p", "no:cacheprovider"]
    command += [f"{name}.perf.toml" for name in texts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout
    assert "good.perf.toml::copy[A100-SXM4-40GB-128]" in done.stdout
    assert re.search(r"^ERROR bad.perf.toml", done.stdout, re.M)
    assert "ERROR good" not in done.stdout
