"""The tutorial: its programs run in order, the commands print what it shows, and its pictures are current."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.pages import environment, follow, read_page
from support.pictures import same_picture

TUTORIAL = Path(__file__).parents[2] / "docs/tutorial"
PAGES = re.findall(r"^(\w[\w-]*)$", (TUTORIAL / "index.md").read_text().split(":maxdepth: 1")[1], re.MULTILINE)
IMAGE = re.compile(r"\]\(images/([\w.-]+)\)")


@pytest.fixture(scope="module")
def variables(runtime, operators, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a reader whose cache has only what all kernels share."""
    cache = Path(shutil.copytree(runtime, tmp_path_factory.mktemp("reader") / "cache"))
    operators(cache)
    return environment(cache)


def test_there_are_six_pages_and_each_ends_with_a_picture():
    assert len(PAGES) == 6
    assert all(IMAGE.search((TUTORIAL / f"{page}.md").read_text()) for page in PAGES)


@pytest.mark.compiles
@pytest.mark.parametrize("page", PAGES)
def test_a_page(page, variables, tmp_path, request):
    for earlier in PAGES[: PAGES.index(page)]:
        follow([step for step in read_page(TUTORIAL / f"{earlier}.md").steps if step.file], tmp_path, variables)
    steps, unused, not_run = read_page(TUTORIAL / f"{page}.md")
    assert {language for language, _ in unused} <= {"sh"} and not_run == []
    follow(steps, tmp_path, variables)
    for name in IMAGE.findall((TUTORIAL / f"{page}.md").read_text()):
        drawn, shown = tmp_path / name, TUTORIAL / "images" / name
        if drawn.exists() and request.config.getoption("--update-golden"):
            shutil.copy(drawn, shown)
        assert not drawn.exists() or same_picture(drawn, shown), f"{shown} is outdated; --update-golden draws it again"
