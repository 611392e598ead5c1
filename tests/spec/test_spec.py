"""Spec objects: sources by architecture, binding of dims, equality, dtypes."""

import dataclasses
from pathlib import Path

import pytest
from support.specs import F32, PARTS, by_hand, field, read, refusal

import tkjit
from tkjit import In, Kernel, Tensor
from tkjit.spec import BY_NAME, DTYPES, Operator, Source
from tkjit.spec.dtypes import enumerator
from tkjit.spec.expr import Expr


@pytest.mark.parametrize(
    "archs, arch, name",
    [
        (["", "90a"], "90a", "90a"),
        (["", "90a"], "80", ""),
        (["", "90a"], "100a", ""),  # the features of 90a exist on no other architecture
        (["80", "90a"], "90a", "90a"),
        (["80", "90"], "90a", "90"),
        (["80", "90"], "86", "80"),
        (["80", "90a"], "100a", "80"),
        (["80", "100"], "90a", "80"),
        (["80", "100f"], "103a", "100f"),  # all later members of a family have its features
        (["90a"], "80", None),
        (["90"], "80", None),
        (["", "cpu"], "cpu", "cpu"),
        (["", "90a"], "cpu", ""),
        (["90a"], "cpu", "90a"),  # the simulator takes the only source
        (["90a", "80"], "cpu", None),
    ],
)
def test_most_specific_source_for_an_architecture(archs, arch, name):
    spec = by_hand(field(), sources=tuple((a, Source(text=a or "any")) for a in archs))
    found = spec.source_for(arch)
    assert (found and found.text) == (name if name is None else name or "any")


def test_unreadable_source(tmp_path):
    missing = Source(path=tmp_path / "missing.cu")
    assert str(tmp_path / "missing.cu") in refusal(missing.read)
    (tmp_path / "latin.cu").write_bytes(b"// \xe9\n")
    assert "latin.cu" in refusal(Source(path=tmp_path / "latin.cu").read)


def test_required_tensor_binds_a_dim_if_there_is_one():
    spec = by_hand(
        field("bias", "in", F32, "N", optional=True),
        field("x", "in", F32, "M", "N"),
        field("y", "out", F32, "P"),
        derived=(("P", Expr("N + M")),),
    )
    assert spec.dim_names == ("N", "M")
    binder, axis = spec.binder("N")
    assert (binder.name, axis) == ("x", 1)


def test_each_attribute_of_a_part_is_an_attribute_of_the_spec():
    spec = by_hand(field())
    for part, kind in PARTS.items():
        for name in (f.name for f in dataclasses.fields(kind)):
            assert getattr(spec, name) is getattr(getattr(spec, part), name), name
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(spec, name, None)


def test_repr_of_a_spec_has_everything_that_affects_compilation():
    """Warm keys are hashes of the repr, so a part that is missing there would give a stale launcher."""
    text = repr(by_hand(field()))
    shown = {f.name for kind in PARTS.values() for f in dataclasses.fields(kind) if f.repr}
    hidden = {f.name for f in dataclasses.fields(Operator) if not f.repr}
    assert all(f"{name}=" in text for name in shown) and hidden == {
        "benchmark",
        "verification",
        "module",
        "reference",
    }


def test_spec_is_a_frozen_value():
    def f(x: In[Tensor, F32, "N"]): ...

    assert read(f) == read(f)
    assert hash(read(f)) == hash(read(f))
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(f).name = "g"


def test_overloads_share_one_name():
    one, other = by_hand(field()), by_hand(field(), name="other")
    assert Kernel(one, one).specs == (one, one)
    text = refusal(lambda: Kernel(one, other))
    assert "share one name" in text and "scale" in text and "other" in text


def test_every_dtype_exists_in_torch(python):
    names = " ".join(BY_NAME)
    printed = python(
        "import sys, torch\nprint(*(getattr(torch, name).itemsize for name in sys.argv[1].split()))",
        names,
    )
    assert [int(size) for size in printed.split()] == [dtype.size_bytes for dtype in DTYPES]


def test_dtypes_are_in_the_order_of_the_c_enumeration():
    text = (Path(tkjit.__file__).parent / "include/tkjit/arg.h").read_text()
    positions = [text.index(enumerator(dtype)) for dtype in DTYPES]
    assert positions == sorted(positions)
