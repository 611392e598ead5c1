"""Renders the Go package of an export: a type ``Tensor``, with functions and methods on it."""

from __future__ import annotations

from pathlib import Path

from tkjit.exports.go_call import NUMBERS, Names, call_of_c, type_of
from tkjit.exports.model import Export, documentation, names
from tkjit.exports.names import go_name
from tkjit.exports.templates import filled
from tkjit.spec.c_signature import CParameter, CSignature, Kind

_FILES = Path(__file__).with_name("go")
# the methods that every Tensor has
_METHODS = frozenset(["Bytes", "Close", "DType", "Device", "Sizes", "To", "ToTorch"])


def render_go(export: Export) -> dict[str, str]:
    """Render the files of the package, by their paths in the export."""
    package = export.package_name
    words = {"PACKAGE": package, "LIBRARY": export.name, "MACRO": export.name.upper()}
    return {"go.mod": f"module {package}\n\ngo 1.19\n", **filled(_FILES, words), "kernels.go": _kernels(export)}


def _kernels(export: Export) -> str:
    functions = [line for signature in export.signatures for line in _Function(export.name, signature).render()]
    text = "\n".join(functions)
    imports = ["context", "runtime", *(["unsafe"] if "unsafe." in text else [])]
    lines = [
        f"// Package {export.package_name} provides {names(export.signatures)}, exported by tkjit.",
        "//",
        "// Each function checks its arguments and may return an error; its Must form panics instead. On a GPU it does",
        "// not wait for its kernel; its On form takes the stream to run in. Its Context form waits until the kernel",
        "// or the context is done. Its Into form writes to outputs that you pass.",
        f"package {export.package_name}",
        "",
        f"// #include <{export.name}.h>",
        'import "C"',
        "",
        "import (",
        *(f'\t"{name}"' for name in imports),
        ")",
        "",
        text,
    ]
    return "\n".join(lines).rstrip() + "\n"


class _Function:
    """Renders the functions of one overload."""

    def __init__(self, library: str, signature: CSignature) -> None:
        self.signature = signature
        self.symbol = f"C.{library}_{signature.name}"
        self.name = go_name(signature)
        self.names = Names(signature)
        self.inputs = [p for p in signature.parameters if p.kind is not Kind.OUTPUT]
        self.outputs = signature.outputs
        self.result = signature.result

    def render(self) -> list[str]:
        return [
            *self._comment(),
            *self._plain(),
            *self._must(),
            *self._method(),
            *self._on(),
            *self._into(),
            *self._context(),
        ]

    # ---- signatures

    def _comment(self) -> list[str]:
        first, *others = documentation(self.signature)
        text = f"{self.name}: {first}"
        return [f"// {text}", *(f"//\t{line}" if line.strip() else "//" for line in others)]

    def _parameters(self, parameters: list[CParameter]) -> str:
        return ", ".join(f"{self.names.local(p)} {type_of(p)}" for p in parameters)

    def _results(self, *, error: bool = True, named: bool = False) -> str:
        kinds = [(self.names.local(p), "Tensor") for p in self.outputs]
        kinds += [("result", NUMBERS[self.result][0])] if self.result else []
        kinds += [("err", "error")] if error else []
        if named:
            return f"({', '.join(f'{name} {kind}' for name, kind in kinds)})"
        listed = ", ".join(kind for _, kind in kinds)
        return f"({listed})" if len(kinds) > 1 else listed

    def _arguments(self, *before: str) -> str:
        return ", ".join([*before, *map(self.names.local, self.inputs)])

    # ---- functions

    def _plain(self) -> list[str]:
        head = f"func {self.name}({self._parameters(self.inputs)}) {self._results()} {{"
        return [head, f"\treturn {self.name}On({self._arguments('nil')})", "}", ""]

    def _must(self) -> list[str]:
        values = [*(self.names.local(p) for p in self.outputs), *(["result"] if self.result else [])]
        head = f"func Must{self.name}({self._parameters(self.inputs)})"
        call = f"{self.name}({self._arguments()})"
        comment = f"// Must{self.name} is like {self.name}, but panics if there is an error."
        if not values:
            return [comment, f"{head} {{", f"\tmust({call})", "}", ""]
        return [
            comment,
            f"{head} {self._results(error=False)} {{",
            f"\t{', '.join(values)}, err := {call}",
            "\tmust(err)",
            f"\treturn {', '.join(values)}",
            "}",
            "",
        ]

    def _method(self) -> list[str]:
        """Return the function as a method of its first tensor."""
        if not self.inputs or self.name in _METHODS:
            return []
        first, *others = self.inputs
        if first.kind is not Kind.TENSOR or first.is_optional:
            return []
        receiver = f"({self.names.local(first)} Tensor)"
        return [
            f"// {self.name} calls the function {self.name} with this tensor as its first argument.",
            f"func {receiver} {self.name}({self._parameters(others)}) {self._results()} {{",
            f"\treturn {self.name}({self._arguments()})",
            "}",
            "",
        ]

    def _on(self) -> list[str]:
        """Return the function that runs in a stream and allocates its outputs."""
        parameters = ", ".join(filter(None, ["stream *Stream", self._parameters(self.inputs)]))
        head = f"func {self.name}On({parameters}) {self._results(named=True)} {{"
        comment = f"// {self.name}On is like {self.name}, but runs in a stream; nil is the default stream."
        if not self.outputs:
            return [comment, head, *call_of_c(self.symbol, self.signature, self.names), "\treturn", "}", ""]
        allocations = []
        for p in self.outputs:
            allocations += [
                f"\t{self.names.handle(p)}, err := newHandle()",
                "\tif err != nil {",
                "\t\treturn",
                "\t}",
            ]
        closed = [f"\t\t{self.names.handle(p)}.close()" for p in self.outputs]
        values = ", ".join(f"{self.names.handle(p)}.made()" for p in self.outputs)
        tail = [", result" if self.result else "", ", nil"]
        return [
            comment,
            head,
            *allocations,
            *call_of_c(self.symbol, self.signature, self.names),
            "\tif err != nil {",
            *closed,
            "\t\treturn",
            "\t}",
            f"\treturn {values}{''.join(tail)}",
            "}",
            "",
        ]

    def _into(self) -> list[str]:
        if not self.outputs:
            return []
        outputs = ", ".join(f"{self.names.local(p)} Tensor" for p in self.outputs)
        parameters = ", ".join(filter(None, ["stream *Stream", self._parameters(self.inputs), outputs]))
        results = f"(result {NUMBERS[self.result][0]}, err error)" if self.result else "(err error)"
        return [
            f"// {self.name}Into is like {self.name}On, but writes to outputs that you pass.",
            f"func {self.name}Into({parameters}) {results} {{",
            *call_of_c(self.symbol, self.signature, self.names, into=True),
            "\treturn",
            "}",
            "",
        ]

    def _context(self) -> list[str]:
        """Return the function that waits until the kernel or a Go context is done.

        If the context is done first, all tensors stay alive until the kernel no longer needs them.
        """
        device = self._device()
        if not device:
            return []
        values = [*(self.names.local(p) for p in self.outputs), *(["result"] if self.result else [])]
        named = self._results(named=True)
        parameters = ", ".join(["ctx context.Context", "stream *Stream", self._parameters(self.inputs)])
        assigned = ", ".join([*(f"ended.{name}" for name in values), "ended.err"])
        taken = ", ".join(["ended." + name for name in [*values, "err"]])
        kinds = [*((self.names.local(p), "Tensor") for p in self.outputs)]
        kinds += [("result", NUMBERS[self.result][0])] if self.result else []
        kinds.append(("err", "error"))
        width = max(len(name) for name, _ in kinds)
        fields = [f"\t\t{name:<{width}} {kind}" for name, kind in kinds]
        return [
            f"// {self.name}Context is like {self.name}On, but waits for the kernel. If ctx is done first, it returns",
            "// the error of ctx, and the tensors stay alive until the kernel no longer needs them.",
            f"func {self.name}Context({parameters}) {named} {{",
            "\tif err = ctx.Err(); err != nil {",
            "\t\treturn",
            "\t}",
            "\ttype outcome struct {",
            *fields,
            "\t}",
            "\tdone := make(chan outcome, 1)",
            "\tgo func() {",
            "\t\tvar ended outcome",
            f"\t\t{assigned} = {self.name}On({self._arguments('stream')})",
            "\t\tif ended.err == nil {",
            f"\t\t\tended.err = waitFor(stream, {device})",
            "\t\t}",
            *(f"\t\truntime.KeepAlive({self.names.local(p)})" for p in self._kept()),
            "\t\tdone <- ended",
            "\t}()",
            "\tselect {",
            "\tcase ended := <-done:",
            f"\t\treturn {taken}",
            "\tcase <-ctx.Done():",
            "\t\terr = ctx.Err()",
            "\t\treturn",
            "\t}",
            "}",
            "",
        ]

    def _device(self) -> str:
        """Return the expression for the device on which a call runs; empty if no argument determines the device."""
        for kind, text in ((Kind.TENSOR, "{}.Device()"), (Kind.TENSORS, "deviceOf({})"), (Kind.DEVICE, "{}")):
            for p in self.inputs:
                if p.kind is kind and not p.is_optional:
                    return text.format(self.names.local(p))
        return ""

    def _kept(self) -> list[CParameter]:
        return [p for p in self.inputs if p.kind in (Kind.TENSOR, Kind.TENSORS)]


def call_text(package: str, signature: CSignature) -> str:
    """Return an example call: ``y, err := layers.Softmax(x)``."""
    names = Names(signature)
    inputs = [p for p in signature.parameters if p.kind is not Kind.OUTPUT]
    results = [*map(names.local, signature.outputs), *(["result"] if signature.result else []), "err"]
    passed = ", ".join(f"&{names.local(p)}" if p.is_optional else names.local(p) for p in inputs)
    return f"{', '.join(results)} := {package}.{go_name(signature)}({passed})"
