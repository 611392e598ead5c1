"""The pages of the documentation: the files, commands and Python code of each run in order, and print what it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.pages import environment, follow, read_page
from support.pictures import same_picture

DOCS = Path(__file__).parents[2] / "docs"
# run by test_tutorial.py, test_docs.py, test_arguments_page.py, test_migrating.py and test_device_api.py
OTHERS = (
    "tutorial",
    "howto/calling",
    "howto/devices",
    "howto/arguments",
    "howto/migrating",
    "reference/errors",
    "reference/device-api",
)
PAGES = [
    page
    for path in sorted(DOCS.rglob("*.md"))
    if not (page := str(path.relative_to(DOCS).with_suffix(""))).startswith(OTHERS)
]
IMAGE = re.compile(r"\]\(images/([\w.-]+)\)")


@pytest.fixture(scope="module")
def variables(runtime, operators, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a reader whose cache has only what all kernels share."""
    cache = Path(shutil.copytree(runtime, tmp_path_factory.mktemp("reader") / "cache"))
    operators(cache)
    return environment(cache)


@pytest.mark.compiles
@pytest.mark.parametrize("page", [page for page in PAGES if read_page(DOCS / f"{page}.md").steps])
def test_a_page(page, variables, tmp_path, request):
    path = DOCS / f"{page}.md"
    follow(read_page(path).steps, tmp_path, variables)
    for name in IMAGE.findall(path.read_text()):
        drawn, shown = tmp_path / name, path.parent / "images" / name
        if drawn.exists() and request.config.getoption("--update-golden"):
            shutil.copy(drawn, shown)
        assert not drawn.exists() or same_picture(drawn, shown), f"{shown} is outdated; --update-golden draws it again"


def test_blocks_that_are_not_run_give_a_reason():
    reasons = [reason for page in PAGES for reason in read_page(DOCS / f"{page}.md").not_run]
    assert len(reasons) < 30 and all(reason.startswith("needs ") or len(reason) > 15 for reason in reasons)
