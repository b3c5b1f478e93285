"""Links and navigation are complete, and the reference has every option, command and name."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
import yaml

import perfassert as pa
from perfassert.plugins import Hooks

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
API = ROOT / "docs/reference/api.md"
REFERENCE = "\n".join(
    page.read_text("utf-8") for page in sorted(API.parent.glob("*.md")) if page != API
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> list[str]:
    """Targets within the repository."""
    targets = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    return [link for link in targets if "://" not in link]


def linked(page: Path, link: str) -> Path:
    path, _, _ = link.partition("#")
    return (page.parent / path).resolve() if path else page


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page: Path) -> None:
    for link in links(page):
        target, anchor = linked(page, link), link.partition("#")[2]
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link
        # The site has no file from outside of docs/.
        assert not inside_docs(page) or inside_docs(target), link


def inside_docs(path: Path) -> bool:
    return path.is_relative_to(ROOT / "docs")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_links_lead_from_the_readme_to_every_page() -> None:
    reached, pending = set(), [README]
    while pending:
        page = pending.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            pending += [linked(page, link) for link in links(page)]
    assert [name(page) for page in PAGES if page not in reached] == []


def test_the_navigation_has_every_page_once() -> None:
    # BaseLoader constructs no objects, so tags of MkDocs are plain values.
    site = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), yaml.BaseLoader)
    pages = [name(page).removeprefix("docs/") for page in PAGES if inside_docs(page)]
    assert sorted(entries(site["nav"])) == sorted(pages)


def entries(nav: object) -> Iterator[str]:
    """Pages of a navigation: names, titles with a name, and titles with a list of these."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from entries(below)
    elif isinstance(nav, list):
        for below in nav:
            yield from entries(below)


def test_the_api_page_has_every_name_once() -> None:
    names = re.findall(r"^::: perfassert\.([\w.]+)$", API.read_text("utf-8"), re.M)
    assert sorted(names) == sorted(public_names())


def public_names() -> list[str]:
    return [*pa.__all__, *(f"tuning.{name}" for name in pa.tuning.__all__)]


def output_of(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, "--help"], capture_output=True, encoding="utf-8", cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_reference_has_every_option() -> None:
    text = output_of("pytest")
    options = set(re.findall(r"^  (--perf-[a-z-]+)", text, re.M))
    keys = set(re.findall(r"^  (perf_\w+) \(", text, re.M))
    assert len(options) >= 6
    assert {key.replace("_", "-").removesuffix("s") for key in keys} == {
        option.removeprefix("--").removesuffix("s") for option in options
    }
    assert [o for o in sorted(options | keys) if f"`{o}" not in REFERENCE] == []


def test_the_reference_has_every_command() -> None:
    commands = re.findall(r"^    ([a-z]+)\b", output_of("perfassert"), re.M)
    assert len(commands) >= 5
    assert [c for c in commands if not re.search(f"`perfassert {c}[ `]", REFERENCE)] == []


def test_the_reference_has_every_name() -> None:
    missing = [n for n in public_names() if not re.search(rf"`(pa\.)?{n}\b", REFERENCE)]
    assert missing == []


def test_the_plugin_page_has_every_hook() -> None:
    page = (ROOT / "docs/how-to/plugins.md").read_text("utf-8")
    assert [h for h in vars(Hooks) if h.startswith("perfassert_") and h not in page] == []


def test_the_architecture_page_names_what_exists() -> None:
    """The folders and files that the page mentions exist."""
    page = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")
    named = {n for n in re.findall(r"`([\w/.*]+(?:/|\.py|\.toml))`", page) if "NAME" not in n}
    assert len(named) > 30
    places = (ROOT, ROOT / "src/perfassert", *(ROOT / "src/perfassert").glob("*/"))
    below = [*places, *(ROOT / "src/perfassert").glob("*/*/")]
    assert [n for n in sorted(named) if not any([*place.glob(n)] for place in below)] == []


def test_the_changelog_says_each_thing_once() -> None:
    """Merges have doubled sections and lines."""
    lines = [x for x in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if x]
    assert [x for x in lines if x.startswith(("## ", "- ")) and lines.count(x) > 1] == []


def test_the_readme_says_how_right_predictions_are() -> None:
    """The figures are those of the page of accuracy, which ``make accuracy`` writes."""
    page = (ROOT / "docs" / "results" / "accuracy.md").read_text("utf-8")
    rows, share = re.findall(r"^\| all +\| (\d+) +\| ([\d.]+ %)", page, re.M)[0]
    (sentence,) = re.findall(r"<!-- accuracy -->(.*)<!-- end -->", README.read_text("utf-8"))
    assert sentence.startswith(f"{share} of {rows} measured rows lie within the error")
    medians = sorted(_unseen_medians(page))
    (typical,) = re.findall(r"<!-- median -->(.*)<!-- end -->", README.read_text("utf-8"))
    assert typical == (
        f"{median(medians):.1f} % (median of {len(medians)} suites of measurements; the "
        f"best has {medians[0]:.1f} %, the worst {medians[-1]:.1f} %)"
    )


def _unseen_medians(page: str) -> Iterator[float]:
    """Yield the median error of the time of each suite, over rows to which nothing was fitted."""
    for suite in page.split("\n## "):
        unseen = suite.partition("Rows that were used for fitting")[0]
        yield from map(float, re.findall(r"^\| `time` +\| [1-9]\d* +\| ([\d.]+) %", unseen, re.M))
