"""While the runtime is compiled, what else is built once an environment is, too."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from support.waiting import wait_until

from tkjit.cache import Product
from tkjit.config import Settings
from tkjit.errors import CompileError
from tkjit.loader import loader_for
from tkjit.loader.modules import RuntimePlan

pytestmark = pytest.mark.compiles


@pytest.fixture
def compiled(runtime) -> dict[str, object]:
    """The manifest of a runtime that was compiled, and where it lies."""
    loader = loader_for(Settings.from_environment())
    assert loader.runtime
    entry = loader.find(loader.runtime_plan)
    return {**entry.manifest, "path": entry.shared_object}


def there(root: Path, what: str, count: int = 1) -> bool:
    return len(list(root.glob(f"v1/*/{what}/*/[!.]*/manifest.json"))) == count


def test_the_headers_and_the_simulator(compiled, cache, monkeypatch):
    seen = []

    def make(plan, staging):
        # as load_inline does: first the flags, then the compilation
        (staging / "build.ninja").write_text(
            f"cxx = g++\n\ncflags = {compiled['cflags']}\nldflags = {compiled['ldflags']}\n"
        )
        wait_until(lambda: there(cache, "common_headers", 2) and there(cache, "simulator"), 60)
        seen.append(staging)
        shutil.copy(compiled["path"], staging / Path(compiled["path"]).name)
        return Product(compiled["shared_object"], (), {key: compiled[key] for key in ("module", "cflags", "ldflags")})

    monkeypatch.setattr(RuntimePlan, "make", make)
    loader = loader_for(Settings.from_environment())
    assert loader.runtime and len(seen) == 1
    loader.build_shared()
    # the same, by the flags that the finished runtime names
    assert there(cache, "common_headers", 2) and there(cache, "simulator")


def test_an_error_waits_for_nothing(cache, monkeypatch):
    def make(plan, staging):
        raise CompileError("no", what="the runtime", log="", log_path=staging, command="g++")

    monkeypatch.setattr(RuntimePlan, "make", make)
    monkeypatch.setattr("tkjit.loader.loader._GPU", Path("/"))  # no simulator
    begun = time.monotonic()
    with pytest.raises(CompileError):
        loader_for(Settings.from_environment()).runtime  # noqa: B018
    assert time.monotonic() - begun < 5
