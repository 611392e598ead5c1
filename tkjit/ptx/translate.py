"""Translates an ``asm`` statement to C++ that reads the operands, calls the instructions and writes the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeGuard

from tkjit.ptx.grammar import Block, Instruction, Label, Name, PtxError, Registers, Vector, parse
from tkjit.ptx.instructions import Spelling, Unknown, call

# Maps each operand constraint to the C++ type of the operand.
# Source: CUDA C++, "Using Inline PTX Assembly in CUDA", "Constraints"
CONSTRAINTS = {
    "h": "uint16_t",
    "r": "uint32_t",
    "l": "uint64_t",
    "q": "unsigned __int128",
    "f": "float",
    "d": "double",
    "n": "auto",
}
_TEXT = "C"  # the constraint for a constant text that becomes part of the statement
_MOST_STATEMENTS = 4096  # the most combinations of texts to try for one statement with such constraints
_REGISTERS = {
    "pred": "bool",
    **dict.fromkeys(["b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16"], "uint16_t"),
    **dict.fromkeys(["b32", "u32", "s32", "f16x2", "bf16x2", "tf32"], "uint32_t"),
    **dict.fromkeys(["b64", "u64", "s64"], "uint64_t"),
    "b128": "unsigned __int128",
    "f32": "float",
    "f64": "double",
}
_FIRST_WORD = re.compile(
    r"(?:\s|\{|;|//[^\n]*\n|/\*.*?\*/|\.reg[^;]*;|@!?[\w%\[\]]+|[\w$%=]+:(?!:))*([a-z]\w*)([.\s;]?)", re.DOTALL
)
# instructions that have no type
_BARE = frozenset("bra exit ret trap brkpt bar barrier membar fence call activemask nanosleep".split())


class Operand(NamedTuple):
    """An operand of a statement.

    Parameters
    ----------
    constraint : str
        ``"=r"``, ``"+f"``, ``"l"``, ``"n"``.
    expression : str
        The C++ expression.
    name : str
        ``x`` in ``[x] "r"(y)``; empty if the operand has no name.
    """

    constraint: str
    expression: str
    name: str = ""

    @property
    def is_output(self) -> bool:
        return self.constraint.startswith(("=", "+"))

    @property
    def letter(self) -> str:
        return _letter(self.constraint)


@cache
def _letter(constraint: str) -> str:
    return constraint.strip("=+& ")


def _letters(operands: Sequence[Operand]) -> set[str]:
    """Return the constraint letters of all operands. Merge equal ones first: there may be a hundred operands."""
    return set(map(_letter, {operand.constraint for operand in operands}))


def is_ptx(text: str, operands: Sequence[Operand]) -> bool:
    """Whether a statement is PTX. Assembly for the host has other constraints, or no semicolon.

    >>> is_ptx("rdtsc", [Operand("=a", "low")]), is_ptx("bar.sync 0;", []), is_ptx("pause", [])
    (False, True, False)
    """
    letters = _letters(operands)
    if not all(letter in CONSTRAINTS or letter.isdigit() or letter == _TEXT for letter in letters):
        return False
    if _TEXT in letters:
        return True  # the text may be part of the opcode, which is then unknown here
    found = _FIRST_WORD.match(text)
    return found is not None and (found[2] == "." or (found[1] in _BARE and ";" in text))


def translate(text: str, operands: Sequence[Operand], texts: Callable[[], Sequence[str]] = list) -> str:
    """Translate a statement to C++, on one line and without a semicolon.

    Parameters
    ----------
    text : str
        The statement's text, with ``%0`` and the like for its operands.
    texts : callable
        Returns the texts of the source's constant character arrays, to which an operand with the constraint ``C`` may
        refer. Only the C++ compiler knows the array, so the result has a branch for each text that makes the statement
        a known instruction.

    Raises
    ------
    PtxError
        If the text does not parse, or refers to an operand that the statement does not have.

    Examples
    --------
    >>> translate("bar.sync %0;", [Operand("n", "1 + 1")])
    'do { namespace tkjit_ptx = ::tkjit::sim::ptx; [[maybe_unused]] const ::tkjit::sim::Statement tkjit_statement{}; \
const auto tkjit_0 = tkjit_ptx::input_n(1 + 1); \
{ tkjit_ptx::bar_sync<true>(tkjit_ptx::as<uint32_t>(tkjit_0), 0u); } } while (0)'
    >>> translate("bar.%0 0;", [Operand("C", "word")], lambda: ["sync", "no word"])
    'if constexpr (::tkjit::sim::ptx::is_text(word, "sync")) do { namespace tkjit_ptx = ::tkjit::sim::ptx; \
[[maybe_unused]] const ::tkjit::sim::Statement tkjit_statement{}; \
const auto tkjit_0 = tkjit_ptx::input_n(0); { tkjit_ptx::bar_sync<true>(tkjit_ptx::as<uint32_t>(0ll), 0u); } } \
while (0); \
else ::tkjit::sim::ptx::unknown("bar.%0 0; with the text of its constraint C")'
    """
    if not text.strip():
        return '__asm__ __volatile__("" ::: "memory")'
    if _TEXT in _letters(operands):
        chosen = [operand.expression for operand in operands if operand.letter == _TEXT]
        found = texts()
        if len(found) ** len(chosen) > _MOST_STATEMENTS:
            raise PtxError(f"the source has too many constant texts ({len(found)}) to try for {' and '.join(chosen)}")
        return _branches(text, operands, found)
    block = _parsed(text)
    spelling = _Spelling(operands, block)
    body = _render(block, spelling)
    opening = [
        "namespace tkjit_ptx = ::tkjit::sim::ptx;",
        "[[maybe_unused]] const ::tkjit::sim::Statement tkjit_statement{};",
    ]
    outputs = [(i, operand.expression) for i, operand in enumerate(operands) if operand.is_output]
    closing = [f"tkjit_ptx::output(tkjit_out{i}, tkjit_{i});" for i, _ in outputs]
    product = next((one for one in block.walk() if _is(one, "wgmma.mma_async")), None)
    elements = _elements_of_a(product, spelling) if product else []
    loaded = _loaded(block, spelling)
    if product or loaded:  # the race detector has to know which registers they use until they have been waited for
        opening.append("[[maybe_unused]] const ::tkjit::sim::AsynchronousStatement tkjit_asynchronous{};")
        note = "note_sums" if product else "note_loaded"
        noted = [i for i, _ in outputs] if product else loaded
        closing.append(f"tkjit_ptx::{note}({', '.join(f'tkjit_out{i}' for i in noted)});")
    if elements:
        names = [f"tkjit_in{i}" for i in elements]
        opening += [f"auto&& tkjit_in{i} = {operands[i].expression};" for i in elements]
        closing.append(f"tkjit_ptx::note_a<{', '.join(f'decltype({name})' for name in names)}>({', '.join(names)});")
        operands = [one._replace(expression=f"tkjit_in{i}") if i in elements else one for i, one in enumerate(operands)]
    opening += [f"auto&& tkjit_out{i} = {expression};" for i, expression in outputs]
    opening += _values(operands, body)
    return " ".join(["do {", *opening, body, *closing, "} while (0)"])


def _is(statement: object, opcode: str) -> TypeGuard[Instruction]:
    return isinstance(statement, Instruction) and statement.text.startswith(opcode)


def _loaded(block: Block, spelling: _Spelling) -> list[int]:
    """Return the operands that a ``tcgen05.ld`` writes, unless the statement waits for it."""
    loaded: list[int] = []
    for statement in block.walk():
        if _is(statement, "tcgen05.wait::ld"):
            loaded = []
        elif _is(statement, "tcgen05.ld") and isinstance(statement.operands[0], Vector):
            loaded += [spelling.index(part.text) for part in statement.operands[0].parts if part.kind == "operand"]
    return list(dict.fromkeys(loaded))


def _elements_of_a(product: Instruction, spelling: _Spelling) -> list[int]:
    """Return the operands that hold A, if a ``wgmma`` reads it from registers."""
    a = product.operands[1] if len(product.operands) > 1 else None
    parts = a.parts if isinstance(a, Vector) else ()
    return list(dict.fromkeys(spelling.index(part.text) for part in parts if part.kind == "operand"))


def _branches(text: str, operands: Sequence[Operand], texts: Sequence[str]) -> str:
    """Write a branch for each text that the first operand with the constraint ``C`` may refer to.

    The branches for further operands with this constraint are nested in it.
    """
    at = next(i for i, one in enumerate(operands) if one.letter == _TEXT)
    name, expression = operands[at].name, operands[at].expression
    place = re.compile(rf"%{at}(?!\d)" + (rf"|%\[{name}\]" if name else ""))
    others = list(operands)
    others[at] = Operand("n", "0", name)  # a placeholder, so that the other operands keep their numbers
    words = []
    for constant in texts:
        try:
            statement = translate(place.sub(lambda _, constant=constant: constant, text), others, lambda: texts)  # type: ignore[misc]
        except PtxError:
            continue
        if "tkjit_ptx::unknown(" in statement:
            continue
        words.append(f"if constexpr (::tkjit::sim::ptx::is_text({expression}, {_quoted(constant)})) {statement}; else")
    words.append(
        f"::tkjit::sim::ptx::unknown({_quoted(' '.join(text.split()) + ' with the text of its constraint C')})"
    )
    return " ".join(words)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


@cache
def _parsed(text: str) -> Block:
    """Parse a text once; templates repeat the same statement for several types."""
    return parse(text)


def _values(operands: Sequence[Operand], body: str) -> list[str]:
    """Declare a variable for each operand, so that all inputs are read before any output is written.

    An instruction may write an input as well, as in CUTLASS. The statement then changes only its own copy.
    """
    has_tied = any(map(str.isdigit, _letters(operands)))
    tied = (
        {int(operand.letter): operand.expression for operand in operands if operand.letter.isdigit()}
        if has_tied
        else {}
    )
    lines = []
    for i, operand in enumerate(operands):
        letter = operand.letter
        if letter.isdigit():
            letter = operands[int(letter)].letter
        if letter not in CONSTRAINTS:
            raise PtxError(f"PTX has no constraint {operand.constraint!r}")
        kind = CONSTRAINTS[letter]
        if operand.constraint[0] == "+":
            lines.append(_changed(kind, letter, i))
        elif not operand.is_output:
            const = "" if f"tkjit_ptx::set(tkjit_{i}, " in body else "const "
            lines.append(f"{const}{kind} tkjit_{i} = tkjit_ptx::input_{letter}({operand.expression});")
        elif i in tied:
            lines.append(f"{kind} tkjit_{i} = tkjit_ptx::input_{letter}({tied[i]});")
        else:
            lines.append(f"{kind} tkjit_{i}{{}};")
    return lines


@cache
def _changed(kind: str, letter: str, i: int) -> str:
    """Declare the variable of an operand with ``+``. Cached, because a matrix needs a hundred such operands."""
    return f"{kind} tkjit_{i} = tkjit_ptx::input_{letter}(tkjit_out{i});"


class _Spelling(Spelling):
    """Spells a statement's names in C++."""

    def __init__(self, operands: Sequence[Operand], block: Block) -> None:
        self._operands = operands
        self._by_name = {operand.name: i for i, operand in enumerate(operands) if operand.name}
        self._variables = {f"%{i}": f"tkjit_{i}" for i in range(len(operands))}
        self.waits = _waits_in_a_loop(block)

    def variable(self, name: Name) -> str:
        if name.kind != "operand":
            return "ptx_" + re.sub(r"\W", "_", name.text)
        return self._variables.get(name.text) or f"tkjit_{self.index(name.text)}"

    def index(self, text: str) -> int:
        if text[1:].isdigit():
            index = int(text[1:])
        else:
            index = self._by_name.get(text[2:-1], -1) if text.startswith("%[") else int(re.sub(r"\D", "", text))
        if not 0 <= index < len(self._operands):
            raise PtxError(f"{text}: the statement has no such operand")
        return index


def _waits_in_a_loop(block: Block) -> bool:
    """Whether the statement contains a loop, which is a jump to an earlier label."""
    seen = set()
    for statement in block.walk():
        if isinstance(statement, Label):
            seen.add(statement.name)
        elif isinstance(statement, Instruction) and statement.opcode == "bra":
            target = statement.operands[0]
            if isinstance(target, Name) and target.text in seen:
                return True
    return False


def _render(block: Block, spelling: _Spelling) -> str:
    words = ["{"]
    labels = [spelling.variable(Name("register", label.name)) for label in block.statements if isinstance(label, Label)]
    if labels:
        words.append(f"__label__ {', '.join(labels)};")
    # registers are declared first, because a goto may not skip a variable's initialisation
    for statement in block.statements:
        if isinstance(statement, Registers):
            words.append(_registers(statement, spelling))
    for statement in block.statements:
        if isinstance(statement, Block):
            words.append(_render(statement, spelling))
        elif isinstance(statement, Label):
            words.append(f"{spelling.variable(Name('register', statement.name))}:;")
        elif isinstance(statement, Instruction):
            words.append(_instruction(statement, spelling))
    return " ".join([*words, "}"])


def _registers(registers: Registers, spelling: _Spelling) -> str:
    if registers.type not in _REGISTERS:
        raise PtxError(f".reg .{registers.type}: no such type")
    names = [f"{spelling.variable(Name('register', name))}{{}}" for name in registers.names]
    return f"{_REGISTERS[registers.type]} {', '.join(names)};"


def _instruction(instruction: Instruction, spelling: _Spelling) -> str:
    try:
        text = call(instruction, spelling)
    except Unknown as reason:
        why = f": {reason}" if str(reason) else ""
        text = f'tkjit_ptx::unknown("{instruction.text}{why}");'
    if instruction.guard is None:
        return text
    is_not = "!" if instruction.guard.is_negated else ""
    guard = spelling.variable(instruction.guard)
    return f"if ({is_not}{guard}) {{ {text} }}"
