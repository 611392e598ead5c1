"""The tutorial: its programs run in order, the commands print what it shows, and its pictures are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.pages import IMAGE, compare_pictures, follow, read_page
from support.sampling import sample

TUTORIAL = Path(__file__).parents[2] / "docs/tutorial"
PAGES = re.findall(r"^(\w[\w-]*)$", (TUTORIAL / "index.md").read_text().split(":maxdepth: 1")[1], re.MULTILINE)


def test_there_are_six_pages_and_each_ends_with_a_picture():
    assert len(PAGES) == 6
    assert all(IMAGE.search((TUTORIAL / f"{page}.md").read_text()) for page in PAGES)


@pytest.mark.compiles
@pytest.mark.parametrize("page", sample(PAGES, "first-kernel", "load", "fast"))
def test_a_page(page, variables, fresh, tmp_path, request):
    for earlier in PAGES[: PAGES.index(page)]:
        follow([step for step in read_page(TUTORIAL / f"{earlier}.md").steps if step.file], tmp_path, variables, fresh)
    steps, unused, not_run = read_page(TUTORIAL / f"{page}.md")
    assert {language for language, _ in unused} <= {"sh"} and not_run == []
    follow(steps, tmp_path, variables, fresh)
    compare_pictures(TUTORIAL / f"{page}.md", tmp_path, update=request.config.getoption("--update-golden"))
