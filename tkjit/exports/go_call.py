"""Renders calls from Go to C: the names and types of parameters, and how each argument is passed."""

from __future__ import annotations

from typing import NamedTuple

from tkjit.exports.names import GO_KEYWORDS, unique
from tkjit.spec.c_signature import CParameter, CSignature, Kind

# words with a meaning in Go, and names that the rendered functions use
_TAKEN = GO_KEYWORDS | frozenset(
    "any append bool byte cap complex complex128 complex64 copy delete error false float32 float64 int int16 "
    "int32 int64 int8 len make new nil panic print recover string true uint uint16 uint32 uint64 uint8 "
    "runtime unsafe context pointers errorOf first firstOf must newHandle waitFor deviceOf cStrings ctx stream cStream "
    "err done ended result cResult outcome t i v".split()
)
NUMBERS = {Kind.INT: ("int64", "C.int64_t"), Kind.FLOAT: ("float64", "C.double"), Kind.BOOL: ("bool", "C.bool")}
_ITEMS = {Kind.INTS: ("int64", "C.int64_t"), Kind.FLOATS: ("float64", "C.double"), Kind.BOOLS: ("bool", "C.bool")}


class _Passed(NamedTuple):
    """How one argument is passed: the lines before the call, the values to pass, and the lines after the call."""

    before: list[str]
    values: list[str]
    after: list[str]


class Names:
    """The names in one overload's functions. They never clash, whatever the parameters are called."""

    def __init__(self, signature: CSignature) -> None:
        taken = set(_TAKEN)
        self._local: dict[str, str] = {}
        self._in_c: dict[str, str] = {}
        self._handle: dict[str, str] = {}
        for p in signature.parameters:
            self._local[p.name] = _add(_spelled(p.name), taken)
        for p in signature.parameters:
            name = self._local[p.name]
            self._in_c[p.name] = _add(f"c{name[:1].upper()}{name[1:]}", taken)
            self._handle[p.name] = _add(f"{name}Handle", taken)

    def local(self, p: CParameter) -> str:
        return self._local[p.name]

    def in_c(self, p: CParameter) -> str:
        """Return the variable that holds an argument in its C form."""
        return self._in_c[p.name]

    def handle(self, p: CParameter) -> str:
        """Return the variable that holds the handle of a new output."""
        return self._handle[p.name]


def _add(name: str, taken: set[str]) -> str:
    name = unique(name, taken)
    taken.add(name)
    return name


def _spelled(name: str) -> str:
    """Spell a name as Go does: ``isCausal`` for ``is_causal``."""
    first, *others = name.split("_")
    spelled = first.lower() if not others and len(first) == 1 else first[:1].lower() + first[1:]
    return spelled + "".join(word[:1].upper() + word[1:] for word in others) or "x"


def type_of(p: CParameter) -> str:
    kinds = {
        Kind.TENSOR: "Tensor",
        Kind.TENSORS: "[]Tensor",
        Kind.STR: "string",
        Kind.DTYPE: "DType",
        Kind.DEVICE: "Device",
        Kind.SEED: "Seed",
        Kind.STRS: "[]string",
        **{kind: f"[]{go}" for kind, (go, _) in _ITEMS.items()},
        **{kind: go for kind, (go, _) in NUMBERS.items()},
    }
    pointer = p.is_optional and p.kind in (Kind.TENSOR, Kind.STR, *NUMBERS)
    return f"{'*' if pointer else ''}{kinds[p.kind]}"


def call_of_c(symbol: str, signature: CSignature, names: Names, *, into: bool = False) -> list[str]:
    """Return the lines that call a C function and set ``err``, and ``result`` if the function returns one.

    Parameters
    ----------
    into : bool
        Whether the outputs are parameters of the Go function; otherwise they are new handles.
    """
    before = ["\tcStream, err := stream.acquire()", *_RETURNS, "\tdefer stream.release()"]
    passed: list[str] = []
    after: list[str] = []
    for p in signature.parameters:
        if p.kind is Kind.OUTPUT and not into:
            passed.append(f"{names.handle(p)}.c")
            continue
        argument = _argument(signature.name, p, names.local(p), names.in_c(p))
        before += argument.before
        passed += argument.values
        after += argument.after
    if signature.result:
        go, c = NUMBERS[signature.result]
        before.append(f"\tvar cResult {c}")
        passed.append("&cResult")
        after.append(f"\tresult = {go}(cResult)")
    return [*before, f"\terr = errorOf({symbol}({', '.join([*passed, 'cStream'])}))", *after]


def _argument(function: str, p: CParameter, name: str, c: str) -> _Passed:
    keep = [f"\truntime.KeepAlive({name})"]
    if p.kind is Kind.TENSORS:
        skip = ["\t\tif t.h == nil {", "\t\t\tcontinue", "\t\t}"] if p.field.has_optional_items else []
        lines = [
            f"\t{c} := make([]*C.tkjit_tensor, len({name}))",
            f"\tfor i, t := range {name} {{",
            *skip,
            *(f"\t{line}" for line in _acquired(function, f"{c}[i]", "t", p.name, declared=True)),
            "\t}",
        ]
        return _Passed(lines, [f"first({c})", f"C.int64_t(len({name}))"], keep)
    if p.kind not in (Kind.TENSOR, Kind.OUTPUT):
        return _value(p, name, c)
    if not p.is_optional:
        return _Passed(_acquired(function, c, name, p.name), [c], keep)
    acquired = [f"\t{line}" for line in _acquired(function, c, f"(*{name})", p.name, declared=True)]
    return _Passed([f"\tvar {c} *C.tkjit_tensor", f"\tif {name} != nil {{", *acquired, "\t}"], [c], keep)


_RETURNS = ["\tif err != nil {", "\t\treturn", "\t}"]


def _acquired(function: str, c: str, name: str, shown: str, *, declared: bool = False) -> list[str]:
    assign = "=" if declared else ":="
    acquire = f'\t{c}, err {assign} {name}.acquire("{function}", "{shown}")'
    return [acquire, *_RETURNS, f"\tdefer {name}.release()"]


def _value(p: CParameter, name: str, c: str) -> _Passed:
    match p.kind:
        case Kind.STR:
            given = name if p.is_optional else f"&{name}"
            return _Passed([f"\t{c}, err := cStrings({given})", *_RETURNS, f"\tdefer {c}.free()"], [f"{c}.one()"], [])
        case Kind.STRS:
            lines = [f"\t{c}, err := cStrings(pointers({name})...)", *_RETURNS, f"\tdefer {c}.free()"]
            return _Passed(lines, [f"{c}.all()", f"C.int64_t(len({name}))"], [])
        case Kind.DTYPE:
            return _Passed([], [f"C.tkjit_dtype({name})"], [])
        case Kind.DEVICE:
            return _Passed([], [f"{name}.c()"], [])
        case Kind.SEED:
            return _Passed([], [f"C.uint64_t({name}.Seed)", f"C.uint64_t({name}.Offset)"], [])
    if p.kind in _ITEMS:
        pointer = f"(*{_ITEMS[p.kind][1]})(unsafe.Pointer(firstOf({name})))"
        return _Passed([], [pointer, f"C.int64_t(len({name}))"], [f"\truntime.KeepAlive({name})"])
    kind = NUMBERS[p.kind][1]
    if not p.is_optional:
        return _Passed([], [f"{kind}({name})"], [])
    lines = [f"\tvar {c} *{kind}", f"\tif {name} != nil {{", f"\t\tv := {kind}(*{name})", f"\t\t{c} = &v", "\t}"]
    return _Passed(lines, [c], [])
