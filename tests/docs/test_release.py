"""CHANGELOG.md, CITATION.cff, news fragments and the release workflow agree with the package."""

from __future__ import annotations

import importlib.util
import re
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from perfassert.version import VERSION

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
PAPERS = ("Analytical performance estimation", "The Pipeline Performance Model", "GPA: A GPU")


@pytest.fixture(scope="module")
def release_notes() -> ModuleType:
    path = ROOT / ".github" / "release_notes.py"
    spec = importlib.util.spec_from_file_location("release_notes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_newest_section_is_of_this_version(release_notes: ModuleType) -> None:
    sections = release_notes.sections(CHANGELOG)
    assert len(sections) == CHANGELOG.count("\n## ")  # each heading is `## VERSION - DATE`
    assert next(iter(sections)) == VERSION
    dates = [date.fromisoformat(d) for d in re.findall(r"^## \S+ - (\S+)$", CHANGELOG, re.M)]
    assert dates == sorted(dates, reverse=True)


def test_sections_have_the_kinds_of_keep_a_changelog(release_notes: ModuleType) -> None:
    for version, text in release_notes.sections(CHANGELOG).items():
        kinds = re.findall(r"^### (.*)$", text, re.M)
        assert kinds, version
        assert kinds == [kind for kind in KINDS if kind in kinds], version


def test_notes_of_a_release(release_notes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_notes, "fragments", list)
    assert release_notes.notes(f"v{VERSION}").startswith("Version ") or "### " in (
        release_notes.notes(f"v{VERSION}")
    )
    with pytest.raises(SystemExit, match="the tag is v0.0.1"):
        release_notes.notes("v0.0.1")
    monkeypatch.setattr(release_notes, "fragments", lambda: ["1.fixed.md"])
    with pytest.raises(SystemExit, match="make changelog"):
        release_notes.notes(f"v{VERSION}")


def test_news_fragments_have_a_type_and_a_text(release_notes: ModuleType) -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
    assert [kind["name"] for kind in table["type"]] == list(KINDS)
    assert table["start_string"] in CHANGELOG
    types = {kind["directory"] for kind in table["type"]}
    for name in release_notes.fragments():
        assert re.fullmatch(r"(\+[\w-]+|\d+)\.(\w+)\.md", name), name
        assert name.split(".")[-2] in types, name
        assert (ROOT / "changes" / name).read_text("utf-8").strip(), name


def test_citation() -> None:
    assert CITATION["version"] == VERSION
    released = CITATION["date-released"]
    assert f"\n## {VERSION} - {released}\n" in CHANGELOG
    titles = [paper["title"] for paper in CITATION["references"]]
    assert all(any(t.startswith(paper) for t in titles) for paper in PAPERS)
    for paper in CITATION["references"]:
        assert paper["authors"]
        assert paper["year"]
        assert paper.get("doi") or paper.get("url")


def test_the_release_workflow_builds_everything_before_it_publishes() -> None:
    # BaseLoader: `on` is no boolean.
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    workflow = yaml.load(text, yaml.BaseLoader)
    jobs = workflow["jobs"]
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert workflow["permissions"] == {"contents": "read"}
    assert jobs["publish"]["needs"] == ["source", "wheels"]
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    assert jobs["github"]["needs"] == "publish"
    may_write = [n for n, job in jobs.items() if "write" in job.get("permissions", {}).values()]
    assert may_write == ["publish", "github"]  # no job that builds can publish
    assert not re.search(r"secrets\.", text)
