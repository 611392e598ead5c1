"""``docs/howto/questions.md``: every kernel runs, and the quoted errors occur in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiles
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/questions.md").read_text()
QUESTIONS = dict(re.findall(r"^## (How do I .*?\?)$(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE))
IMPORTS, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TEXTS = re.findall(r"^\| `(.*?)`", PAGE.partition("## Errors by their text")[2], re.MULTILINE)
VALUES = re.compile(r"<typename T>|2 \* D|tkjit: ")  # parts that the code fills in


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_runs(question):
    (code,) = re.findall(r"```python\n(.*?)```", QUESTIONS[question], re.DOTALL)
    assert "assert " in code
    exec(IMPORTS + code, {"__name__": "an_answer"})


def test_the_texts_of_errors_are_the_codes():
    code = "\n".join(
        path.read_text() for path in sorted((ROOT / "tkjit").rglob("*")) if path.suffix in (".py", ".h", ".in")
    )
    plain = re.sub(r'"\s*f?"', "", code)
    assert len(TEXTS) > 10
    assert [text for text in TEXTS if not all(part.strip(" ,") in plain for part in VALUES.split(text))] == []
