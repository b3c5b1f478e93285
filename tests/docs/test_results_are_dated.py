"""Each page of results says of which model and day it is; one of the present model, or of an older.

A change of the model makes the pages fail that claim to be of the present one: remake them by the
commands that they name, or say that the model has changed since.
"""

import re
from pathlib import Path

import pytest

from perfassert.version import MODEL_VERSION

PAGES = sorted((Path(__file__).parents[2] / "docs/results").glob("*.md"))
LINE = re.compile(
    r"^(?:Model version (?P<generated>\d+), \d{4}-\d\d-\d\d"
    r"|Results of (?:no model|model (?P<only>\d+)|models \d+ to (?P<last>\d+)), "
    r"\d{1,2} \w+ \d{4}(?P<older>; the model has changed since)?\.$)",
    re.MULTILINE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_model_and_day(page):
    head = "\n".join(page.read_text("utf-8").splitlines()[:12])
    (line,) = LINE.finditer(head)
    if line["generated"]:
        assert line["generated"] == MODEL_VERSION
    elif newest := line["only"] or line["last"]:
        assert bool(line["older"]) is (newest != MODEL_VERSION)
