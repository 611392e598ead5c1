"""The pages of the documentation: the files, commands and Python code of each run in order, and print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import compare_pictures, follow, read_page

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
# each takes over five seconds, in which it compiles kernels that have tests of their own
SLOW = {
    *("explanation/checker", "explanation/tiles", "howto/bind", "howto/hugging-face", "howto/shared-caches"),
    *("howto/torch-sources", "howto/tuning", "howto/verifying"),
}
PAGES = [
    page
    for path in sorted(DOCS.rglob("*.md"))
    if not (page := str(path.relative_to(DOCS).with_suffix(""))).startswith(OTHERS)
]


@pytest.mark.compiles
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())
        for page in PAGES
        if read_page(DOCS / f"{page}.md").steps
    ],
)
def test_a_page(page, variables, fresh, tmp_path, request):
    path = DOCS / f"{page}.md"
    follow(read_page(path).steps, tmp_path, variables, fresh)
    compare_pictures(path, tmp_path, update=request.config.getoption("--update-golden"))


def test_all_other_blocks_are_of_languages_that_this_test_cannot_run():
    """Their own tests are in tests/exports and tests/extensions; commands in ``sh`` blocks are only shown."""
    left = {language for page in PAGES for language, _ in read_page(DOCS / f"{page}.md").unused}
    assert left == {"c", "cpp", "cuda", "go", "rust", "sh", "text", "toml"}
