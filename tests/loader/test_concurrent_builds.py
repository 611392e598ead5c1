"""The parts that launchers share are built while the runtime compiles."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.waiting import wait_until

from tkjit.cache import Product
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.loader.modules import RuntimePlan

pytestmark = pytest.mark.compiles


@pytest.fixture
def compiled(runtime) -> dict[str, object]:
    """The manifest of a compiled runtime, and the path of its shared object."""
    loader = loader_for(Settings.from_environment())
    assert loader.runtime
    entry = loader.find(loader.runtime_plan)
    return {**entry.manifest, "path": entry.shared_object}


def has_entries(root: Path, what: str, count: int = 1) -> bool:
    return len(list(root.glob(f"v1/*/{what}/*/[!.]*/manifest.json"))) == count


@pytest.mark.slow
def test_the_simulator_and_the_launchers_header_are_built_at_the_same_time(compiled, cache, monkeypatch):
    seen = []

    def make(plan, staging):
        wait_until(lambda: has_entries(cache, "common_headers") and has_entries(cache, "simulator"), 60)
        seen.append(staging)
        shutil.copy(compiled["path"], staging / Path(compiled["path"]).name)
        return Product(compiled["shared_object"], (), {key: compiled[key] for key in ("module", "cflags", "ldflags")})

    monkeypatch.setattr(RuntimePlan, "make", make)
    loader = loader_for(Settings.from_environment())
    assert loader.runtime and len(seen) == 1
    loader.build_shared()  # adds the header of glue, because this runtime was not built by load_inline
    assert has_entries(cache, "common_headers", 2) and has_entries(cache, "simulator")


def test_the_header_of_glue_is_compiled_while_the_runtime_is(compiled, cache, monkeypatch):
    def make(plan, staging):
        rules = f"cflags = {compiled['cflags']}\nldflags = {compiled['ldflags']}\n"
        (staging / "build.ninja").write_text(rules)  # as load_inline writes it before it compiles
        wait_until(lambda: has_entries(cache, "common_headers", 2), 60)
        shutil.copy(compiled["path"], staging / Path(compiled["path"]).name)
        return Product(compiled["shared_object"], (), {key: compiled[key] for key in ("module", "cflags", "ldflags")})

    monkeypatch.setattr(RuntimePlan, "make", make)
    loader = loader_for(Settings.from_environment())
    assert loader.runtime
    loader.build_shared()
    assert has_entries(cache, "common_headers", 2), "the header was compiled again for other flags"
