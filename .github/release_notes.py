"""Print a version's section of CHANGELOG.md: ``release_notes.py v1.2.3``.

Fails if the tag is not the package's version, if there is no such section, or if news fragments are
left that belong into it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## (\S+) - (\d{4}-\d\d-\d\d)\n(.*?)(?=^## |\Z)", re.M | re.S)


def sections(text: str) -> dict[str, str]:
    """The text of each version's section, newest first."""
    return {version: body.strip() for version, _, body in SECTION.findall(text)}


def package_version() -> str:
    """The version in src/perfassert/version.py."""
    text = (ROOT / "src/perfassert/version.py").read_text("utf-8")
    match = re.search(r'^VERSION = "([^"]+)"$', text, re.M)
    if match is None:
        raise SystemExit("src/perfassert/version.py has no VERSION")
    return match[1]


def fragments() -> list[str]:
    """News fragments that no section has yet."""
    return sorted(p.name for p in (ROOT / "changes").iterdir() if p.name != "README.md")


def notes(tag: str) -> str:
    """What the release of a tag is published with."""
    version = package_version()
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, src/perfassert/version.py has {version}")
    if left := fragments():
        raise SystemExit(f"`make changelog` has not been run: changes/ has {', '.join(left)}")
    text = sections((ROOT / "CHANGELOG.md").read_text("utf-8")).get(version)
    if not text:
        raise SystemExit(f"CHANGELOG.md has no section `## {version} - DATE`")
    return text


if __name__ == "__main__":
    print(notes(sys.argv[1]))
