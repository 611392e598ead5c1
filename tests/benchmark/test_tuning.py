"""``tune`` measures the configurations of a kernel and stores the fastest one, which later calls use."""

from __future__ import annotations

import json

import pytest
import torch

import tkjit
from tkjit import In, Out, SpecError, Tensor, TkjitWarning
from tkjit.cli import main
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import variants_of
from tkjit.spec.variants import configurations_of, configured

pytestmark = pytest.mark.compiles
# the configuration with STEP=2 is much faster than the others
SOURCE = """
template <class T> __global__ void mark(Globals g) {
    for (int i = blockIdx.x * STEP; i < (blockIdx.x + 1) * STEP && i < g.x.cols(); ++i)
        for (int j = 0; j < (STEP == 2 ? 1 : 4000); ++j) ((volatile T*)g.y.raw_ptr)[i] = T(10 * STEP + MORE);
}
"""
SPEC = f'''
import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel(
    """{SOURCE}""",
    entry="mark<T>", grid="cdiv(N, STEP)", block=1, variants={{"T": ("float32", "float64")}},
    tune={{"STEP": (1, 2), "MORE": (3, 4)}}, constraints="STEP + MORE != 6", sizes={{"N": 64}},
    unchecked="y",  # so that a test sees which configuration ran
)
def mark(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...
'''


@pytest.fixture
def spec_file(tmp_path, monkeypatch, cache_with_runtime):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    (tmp_path / "mark.py").write_text(SPEC)
    return tmp_path


def test_calls_tune_only_if_asked(spec_file, fresh, monkeypatch):
    call = "import torch, tkjit; print(tkjit.load('mark')(torch.zeros(3)).tolist())"
    default, tuned = "[13.0, 13.0, 13.0]\n", "[23.0, 23.0, 23.0]\n"
    assert fresh.run(call) == fresh.run(call) == default  # the second time from the warm record
    monkeypatch.setenv("TKJIT_TUNE", "1")
    monkeypatch.setenv("TKJIT_JIT", "0")
    assert fresh.run(call) == default
    monkeypatch.delenv("TKJIT_JIT")
    assert fresh.run(call) == tuned
    before = {path: path.stat().st_mtime_ns for path in (spec_file / "cache").glob("v1/tuned/*/*")}
    assert len(before) == 1 and fresh.run(call) == tuned
    assert {path: path.stat().st_mtime_ns for path in before} == before  # the choice is there, so nothing is measured
    monkeypatch.delenv("TKJIT_TUNE")
    assert fresh.run(call) == tuned


def test_a_call_without_sizes_is_not_tuned(loader, monkeypatch):
    monkeypatch.setenv("TKJIT_TUNE", "1")
    mark = configurations(tune={"STEP": (1, 2), "MORE": (3,)})
    with pytest.warns(TkjitWarning, match="mark has no sizes= for T=float32, so TKJIT_TUNE=1 does not tune it"):
        assert mark(torch.zeros(3)).tolist() == [13.0, 13.0, 13.0]


def configurations(**options):
    @tkjit.kernel(
        SOURCE, entry="mark<T>", grid="cdiv(N, STEP)", block=1, variants={"T": ("float32", "float64")}, **options
    )
    def mark(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...

    return mark


def test_a_choice_is_used_by_the_next_process_and_shown(spec_file, fresh, capsys):
    call = "import torch, tkjit; print(tkjit.load('mark')(torch.zeros(3)).tolist())"
    assert fresh.run(call) == "[13.0, 13.0, 13.0]\n"  # the default
    assert fresh.run(call) == "[13.0, 13.0, 13.0]\n"  # from the warm record
    assert main(["tune", "mark", "--types", "float32", "--device", "cpu", "--rounds", "3"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    target = loader_for(Settings.from_environment()).target("cpu").name
    assert first == f"mark (T=float32) on cpu ({target}): STEP=2, MORE=3"
    assert len(others) == 3 and others[0].startswith("  STEP=2, MORE=3: ") and others[0].endswith("(1.00)")
    assert fresh.run(call) == "[23.0, 23.0, 23.0]\n"
    assert fresh.run(call.replace("torch.zeros(3)", "torch.zeros(3).double()")) == "[13.0, 13.0, 13.0]\n"
    assert main(["show", "mark"]) == 0
    out = capsys.readouterr().out
    assert "tune: STEP in 1, 2; MORE in 3, 4" in out and f"tuned: mark (T=float32) on cpu ({target}): STEP=2" in out
    bundle = spec_file / "bundle"
    assert main(["bundle", "mark", "--device", "cpu", "--types", "float32", "--output", str(bundle)]) == 0
    assert [json.loads(path.read_text())["configuration"] for path in bundle.glob("v1/tuned/mark-*/*.json")] == [
        {"STEP": 2, "MORE": 3}
    ]
    capsys.readouterr()
    assert main(["cache", "clear", "mark"]) == 0
    assert capsys.readouterr().out.endswith(", and 1 tuned configurations\n")
    assert fresh.run(call) == "[13.0, 13.0, 13.0]\n"


def test_a_kernel_that_is_loaded_after_tuning_uses_the_choice(cache_with_runtime):
    kernel = configurations(tune={"STEP": (1, 2), "MORE": (3,)}, sizes={"N": 64}, unchecked="y")
    loaded = tkjit.load(kernel)
    assert loaded(torch.zeros(1)).item() == 13
    tkjit.tune(kernel, types=["float32"], device="cpu", rounds=3)
    assert tkjit.load(kernel)(torch.zeros(1)).item() == 23


@pytest.mark.slow
def test_a_tuned_kernel_is_checked(session_cache):
    kernel = configurations(tune={"STEP": (2, 1), "MORE": (3,)})
    assert tkjit.testing.check(kernel, torch.zeros(5), modes=["memory"]).findings == []


def test_a_damaged_or_outdated_choice_is_ignored(spec_file, fresh):
    call = "import torch, tkjit; print(tkjit.load('mark')(torch.zeros(1)).item())"
    loader = loader_for(Settings.from_environment())
    directory = loader.tuned.directory(tkjit.find("mark").specs[0])
    directory.mkdir(parents=True)
    choice = {"kernel": "mark", "variant": "T=float32", "device": "cpu", "target": loader.target("cpu").name}
    (directory / "damaged.json").write_text('{"kernel": "mark"')
    (directory / "list.json").write_text(json.dumps({**choice, "configuration": ["STEP", 2]}))
    (directory / "other.json").write_text(json.dumps({**choice, "configuration": {"STEP": 9, "MORE": 3}}))
    assert fresh.run(call) == "13.0\n"


def test_a_choice_for_another_device_with_the_same_target_is_used_if_there_is_none_for_this_one(cache):
    from tkjit.loader.tuned import Choice

    kernel = configurations(tune={"STEP": (1, 2), "MORE": (3,)})
    spec, tuned = kernel.specs[0], loader_for(Settings.from_environment()).tuned
    variant = variants_of(spec)[0]
    tuned.store(spec, Choice("mark", str(variant), "an H100", "sm_90a", {"STEP": 2, "MORE": 3}))
    assert tuned.find(spec, variant, "sm_90a", "an H200").configuration == {"STEP": 2, "MORE": 3}
    tuned.store(spec, Choice("mark", str(variant), "an H200", "sm_90a", {"STEP": 1, "MORE": 3}))
    assert tuned.find(spec, variant, "sm_90a", "an H200").configuration == {"STEP": 1, "MORE": 3}
    assert tuned.find(spec, variant, "sm_80", "an A100") is None
    assert tuned.find(spec, variants_of(spec)[1], "sm_90a", "an H100") is None


def test_a_configuration_that_does_not_compile_is_skipped(session_cache):
    kernel = configurations(tune={"STEP": (1, 2), "MORE": (3,)})
    source = kernel.specs[0].sources[0][1].text.replace("template", 'static_assert(STEP == 1, "no"); template')

    @tkjit.kernel(
        source, entry="mark<T>", grid="N", block=1, variants={"T": ("float32",)}, tune={"STEP": (1, 2), "MORE": 3}
    )
    def mark(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...

    (choice,) = tkjit.tune(mark, {"N": 8}, device="cpu", rounds=1)
    assert choice.configuration == {"STEP": 1, "MORE": 3} and list(choice.failed) == ["STEP=2, MORE=3"]


def test_a_configuration_with_other_results_is_skipped(session_cache):
    kernel = configurations(tune={"STEP": (1, 2), "MORE": (3,)}, sizes={"N": 8})
    (choice,) = tkjit.tune(kernel, types=["float32"], device="cpu", rounds=1)
    assert choice.configuration == {"STEP": 1, "MORE": 3}
    assert choice.failed == {"STEP=2, MORE=3": "its results differ from those of STEP=1, MORE=3"}


def test_configurations_meet_the_constraints_and_the_first_is_the_default():
    spec = configurations(tune={"STEP": (1, 2, 4), "MORE": (3, 4)}, constraints=["STEP * MORE > 3", "N > 1"]).specs[0]
    variant = variants_of(spec)[0]
    found = [dict(one) for one in configurations_of(spec, variant)]
    assert found[0] == {"STEP": 1, "MORE": 4} and len(found) == 5
    assert str(configured(spec, variant)) == "T=float32, STEP=1, MORE=4"
    assert str(configured(spec, variant, {"STEP": 4, "MORE": 3})) == "T=float32, STEP=4, MORE=3"
    assert str(configured(spec, variant, {"STEP": 5, "MORE": 3})) == "T=float32, STEP=1, MORE=4"  # not an option
    assert [expr.text for expr in spec.constraints] == ["N > 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": {"STEP": ()}}, "tune['STEP'] is (); expected integers, the default first"),
        ({"tune": {"STEP": "1"}}, "tune['STEP'] is '1'; expected integers"),
        ({"tune": ("STEP",)}, "tune is ('STEP',); expected the options of each constant"),
        ({"tune": {"N": (1, 2), "STEP": 1}}, "N in tune= is also a dim, a variant or a parameter"),
        ({"tune": {"STEP": (1, 2)}, "constraints": "STEP < N"}, "N in 'STEP < N': a condition on constants of tune="),
        ({"tune": {"STEP": (1, 2)}, "dims": {"P": "N * STEP"}}, "STEP is chosen by tuning, so only the launch can"),
        ({"tune": {"class": (1, 2), "STEP": 1}}, "the name class cannot be used in C++"),
    ],
)
def test_wrong_options_are_rejected(options, message):
    with pytest.raises(SpecError) as raised:
        configurations(**options)
    assert message in str(raised.value)


def test_a_kernel_without_configurations_cannot_be_tuned():
    with pytest.raises(SpecError, match="axpy has no tune=, so there is nothing to choose"):
        tkjit.tune("axpy", {"N": 8}, device="cpu")
    impossible = configurations(tune={"STEP": (1, 2)}, constraints="STEP > 2")
    with pytest.raises(SpecError, match="mark: the constraints leave no configuration for T=float32"):
        impossible(torch.zeros(3))
