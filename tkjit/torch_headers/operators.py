"""Torch's operators as C++ methods and functions, generated from the installed torch's ``native_functions.yaml``.

The stand-ins for torch's headers (``include/tkjit/torch/``) contain no operators. Instead, two macros that precede a
source declare the operators that it mentions: about 20 of torch's 2,600, so compilation stays fast.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torchgen.api.types import Binding
    from torchgen.model import FunctionSchema

_ENTRY = re.compile(r"(?m)^- func: (?P<schema>.+(?:\n    .+)*)(?P<facts>(?:\n .*|\n)*)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_FACT = r"(?m)^  {}: *(.*)$"
_OPTIONS = ("dtype", "layout", "device", "pin_memory")
_OPTION_ACCESSORS = ("dtype_opt", "layout_opt", "device_opt", "pinned_memory_opt")
# types that neither torch's C ABI nor Python can pass
_UNSUPPORTED = re.compile(r"\b(?:Storage|Stream|QScheme|DimVector|ConstQuantizerPtr)\b")
# members of Tensor that the stand-ins define by hand, because they need no dispatcher
_WRITTEN = frozenset(["data_ptr", "item", "is_same"])


class Operator(NamedTuple):
    """One entry of ``native_functions.yaml``.

    Parameters
    ----------
    schema : str
        ``add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor``.
    variants : frozenset of str
        ``function``, ``method``, or both.
    without_defaults : frozenset of str
        The arguments that have a default in Python but not in C++.
    """

    schema: str
    variants: frozenset[str]
    without_defaults: frozenset[str]


def declarations_for(words: Collection[str]) -> str:
    """Return the macros that declare every operator whose name is among the words; empty if there is no such operator.

    Parameters
    ----------
    words : collection of str
        The identifiers of a source and of its headers.

    Examples
    --------
    >>> print(declarations_for({"selu_"}))
    #define TKJIT_TORCH_FUNCTIONS \\
        inline at::Tensor & selu_(at::Tensor & self) { call<void>("aten::selu_", "", self); return self; }
    <BLANKLINE>
    """
    known = operators_by_name()
    # an operator with out= arguments is listed under two names, those of its _out and its _outf function
    overloads = dict.fromkeys(each for word in sorted(known.keys() & set(words)) for each in known[word])
    found = [(variant, text) for each in overloads for variant, text in _declared(each)]
    texts = []
    for variant, macro in (("method", "TKJIT_TORCH_METHODS"), ("function", "TKJIT_TORCH_FUNCTIONS")):
        lines = [text for kind, text in found if kind == variant]
        if lines:
            texts.append(" \\\n    ".join([f"#define {macro}", *lines]) + "\n")
    return "".join(texts)


@cache
def operators_by_name() -> dict[str, tuple[Operator, ...]]:
    """Return the installed torch's operators, by the name of their C++ functions: ``add``, ``add_``, ``add_out``."""
    found: dict[str, list[Operator]] = {}
    for entry in _ENTRY.finditer(description_file().read_text(encoding="utf-8")):
        facts = entry["facts"]
        if re.search(_FACT.format("manual_cpp_binding"), facts) or _UNSUPPORTED.search(entry["schema"]):
            continue
        schema = " ".join(entry["schema"].split()).strip("'\"")
        operator = Operator(
            schema, _listed(facts, "variants") or frozenset(["function"]), _listed(facts, "cpp_no_default_args")
        )
        base = _NAME.match(schema)
        assert base is not None, schema
        if base[0] not in _WRITTEN:
            is_out = "!" in schema.partition(" *, ")[2].partition(") ->")[0]
            names = (f"{base[0]}_out", f"{base[0]}_outf") if is_out else (base[0],)
            for name in names:
                found.setdefault(name, []).append(operator)
    return {name: tuple(operators) for name, operators in found.items()}


def description_file() -> Path:
    """Return the path of the file that describes torch's operators. It comes with torch's code generator, torchgen."""
    import importlib.util

    spec = importlib.util.find_spec("torchgen")
    assert spec is not None and spec.origin is not None, "torch comes with torchgen"
    return Path(spec.origin).parent / "packaged/ATen/native/native_functions.yaml"


def _listed(facts: str, name: str) -> frozenset[str]:
    found = re.search(_FACT.format(name), facts)
    return frozenset(re.findall(r"\w+", found[1].replace("'", ""))) if found else frozenset()


def _declared(operator: Operator) -> Iterator[tuple[str, str]]:
    """Yield the variant and the definition of each C++ function of an operator."""
    from torchgen import local
    from torchgen.model import FunctionSchema

    with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
        schema = FunctionSchema.parse(operator.schema)
        for variant in ("method", "function"):
            is_method = variant == "method"
            if variant not in operator.variants or (is_method and schema.is_out_fn()):
                continue
            # torchgen's "faithful" signature has out= last, and separate parameters for dtype, layout and device
            has_two = schema.is_out_fn() or schema.arguments.tensor_options is not None
            for is_faithful in (False, True) if has_two else (False,):
                yield variant, _definition(operator, schema, is_method=is_method, is_faithful=is_faithful)


def _definition(operator: Operator, schema: FunctionSchema, *, is_method: bool, is_faithful: bool) -> str:
    from torchgen.api import cpp

    given: list[Binding] = cpp.arguments(
        schema.arguments,
        faithful=is_faithful,
        symint=False,
        method=is_method,
        cpp_no_default_args=set(operator.without_defaults),
    )
    listed = ", ".join(binding.decl() for binding in given)
    name = cpp.name(schema, faithful_name_for_out_overloads=is_faithful)
    result = cpp.returns_type(schema.returns, symint=False).cpp_type()
    called = f'"aten::{schema.name.name}", "{schema.name.overload_name}"'
    arguments = ", ".join([called, *_passed(schema, given, is_method=is_method)])
    head = f"{'' if is_method else 'inline '}{result} {name}({listed}){' const' if is_method else ''}"
    return f"{head} {{ {_body(schema, result, arguments, given, is_method=is_method)} }}"


def _body(schema: FunctionSchema, result: str, arguments: str, given: list[Binding], *, is_method: bool) -> str:
    outputs = [argument.name for argument in schema.arguments.out]
    if result == "void":
        return f"call<std::tuple<>>({arguments});"
    if outputs:
        returned = outputs[0] if len(outputs) == 1 else f"{result}{{{', '.join(outputs)}}}"
        handles = "void" if len(outputs) == 1 else f"std::tuple<{', '.join(['at::Tensor'] * len(outputs))}>"
        return f"call<{handles}>({arguments}); return {returned};"
    if result in ("at::Tensor &", "const at::Tensor &"):  # in place
        reference = "const_cast<at::Tensor &>(*this)" if is_method else "self"
        return f"call<void>({arguments}); return {reference};"
    options = next((binding.name for binding in given if binding.nctype.type.cpp_type() == "at::TensorOptions"), None)
    expression = f"call<{result}>({arguments})"
    return (
        f"return with_options({expression}, {options});"
        if options and result == "at::Tensor"
        else f"return {expression};"
    )


def _passed(schema: FunctionSchema, given: list[Binding], *, is_method: bool) -> Iterator[str]:
    """Yield the schema's arguments in order, each as a C++ expression of the function's parameters."""
    from torchgen.model import SelfArgument, TensorOptionsArguments

    names: dict[str, Any] = {binding.name: binding for binding in given}
    for argument in [*schema.arguments.all]:
        if isinstance(argument, SelfArgument):
            yield "*this" if is_method else argument.argument.name
        elif isinstance(argument, TensorOptionsArguments):
            if "options" in names:
                yield from (f"options.{accessor}()" for accessor in _OPTION_ACCESSORS)
            else:
                yield from _OPTIONS
        elif argument.name == "memory_format" and "options" in names:
            yield "memory_format ? memory_format : options.memory_format_opt()"
        else:
            yield argument.name
    yield from (argument.name for argument in schema.arguments.out if argument not in schema.arguments.all)
