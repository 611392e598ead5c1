"""Renders the glue: straight-line code that parses and checks a call, allocates memory and calls the launcher."""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.render.overload import Overload
from tkjit.render.text import repr_text
from tkjit.spec import Spec
from tkjit.spec.schema import has_operator
from tkjit.spec.signature import signature_text
from tkjit.spec.variants import first_variants


def render_glue(specs: Sequence[Spec]) -> str:
    """Render a kernel's glue from its overloads, in the order in which a call tries them."""
    name = specs[0].name
    *firsts, variant_count = first_variants(specs)
    lines = [
        f"// Glue of {name}, rendered by tkjit: parses a call, checks it, allocates outputs and calls the launcher.",
        "// v_x is the argument or the extent x; given_x is the object that was passed for the parameter x, or null.",
        f"#include <{'glue_parallel' if specs[0].is_parallel else 'glue'}.h>",
        "",
        "using namespace tkjit;",
        "using namespace tkjit::glue;",
        "",
        "namespace {",
        "",
    ]
    for index, spec in enumerate(specs):
        lines += Overload(spec, index, firsts[index]).render()
    return "\n".join([*lines, *_module(name, specs, variant_count)]) + "\n"


def _module(name: str, specs: Sequence[Spec], variant_count: int) -> list[str]:
    # operators are used only if every overload has one
    autocast = " | kAutocast" if any(spec.autocast for spec in specs) else ""
    detours = [f"{_detours(spec)}{autocast}" if all(map(has_operator, specs)) else "0" for spec in specs]
    overloads = [
        f"    {{overload_{i}, {repr_text(signature_text(spec))}, {detours[i]}}}," for i, spec in enumerate(specs)
    ]
    signatures = ", ".join(f"&signature_{i}" for i in range(len(specs)))
    numbers = ", ".join(f"numbers_{i}" for i in range(len(specs)))
    size = f"// {_count_text(len(specs), 'overload')}, {_count_text(variant_count, 'variant')}"
    kinds = ", ".join(repr_text("".join("p" if f.is_parallel else "-" for f in spec.struct_fields)) for spec in specs)
    over_devices = ", dispatch_over_devices" if specs[0].is_parallel else ""
    return [
        "const Overload overloads[] = {",
        *overloads,
        "};",
        f"const Signature* const signatures[] = {{{signatures}}};",
        f"const char* const kinds[] = {{{kinds}}};  // a letter for each argument: p for a parallel layout",
        f"const Numbers numbers[] = {{{numbers}}};",
        *(_over_devices(specs[0]) if specs[0].is_parallel else []),
        f"constexpr Contents contents{{{repr_text(name)}, overloads, signatures, kinds, numbers, {len(specs)}, "
        f"{variant_count}{over_devices}}};  {size}",
        "",
        "}  // namespace",
        "",
        "TKJIT_GLUE_MODULE(TORCH_EXTENSION_NAME, contents)",
    ]


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _over_devices(spec: Spec) -> list[str]:
    """Render the function that dispatches a call over several devices."""
    parameters = Overload(spec, 0, 0).parameters
    anchor = next(f.name for f in spec.inputs if f.is_parallel)
    places = ", ".join(str(parameters.index(name)) for name in (anchor, "club", "stream"))
    return [
        "",
        "PyObject* dispatch_over_devices(Call& call) {",
        f"    return dispatch_parallel(call, overloads[0], signature_0, {{{places}}});  // {anchor}, club, stream",
        "}",
        "",
    ]


def _detours(spec: Spec) -> str:
    """Render the flags that decide which calls of an overload become calls of its operator."""
    return "kForOperator | kRequiresGrad" if spec.backward is not None else "kForOperator"
