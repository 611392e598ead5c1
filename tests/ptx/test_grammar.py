"""Parsing the text of an ``asm`` statement: registers, labels, instructions, and syntax errors."""

from __future__ import annotations

import pytest

from tkjit.ptx import Operand, PtxError, is_ptx, translate
from tkjit.ptx.grammar import Address, Instruction, Label, Name, Pair, Registers, Vector, parse


def only(text: str) -> Instruction:
    (statement,) = parse(text).statements
    assert isinstance(statement, Instruction)
    return statement


def test_an_instruction_has_an_opcode_modifiers_and_operands():
    found = only("ld.global.L1::no_allocate.v2.f32 {%0, %1}, [%2+-8];")
    assert (found.opcode, found.modifiers) == ("ld", ("global", "L1::no_allocate", "v2", "f32"))
    first, second = Name("operand", "%0"), Name("operand", "%1")
    assert found.operands == (Vector((first, second)), Address(Name("operand", "%2"), -8))
    assert found.text == "ld.global.L1::no_allocate.v2.f32"


@pytest.mark.parametrize(
    "text, operand",
    [
        ("a.b -1;", Name("number", "-1")),
        ("a.b 0f3F800000;", Name("number", "0f3F800000")),
        ("a.b 0x10U;", Name("number", "0x10U")),
        ("a.b _;", Name("sink", "_")),
        ("a.b !p;", Name("register", "p", True)),
        ("a.b %%laneid;", Name("special", "%%laneid")),
        ("a.b %[name];", Name("operand", "%[name]")),
        ("a.b x|p;", Pair(Name("register", "x"), Name("register", "p"))),
        (
            "a.b [%0, {%1, 2}];",
            Address(Name("operand", "%0"), 0, (Name("operand", "%1"), Name("number", "2"))),
        ),
    ],
)
def test_operands_are_parsed(text, operand):
    assert only(text).operands == (operand,)


def test_registers_labels_and_guards_are_parsed():
    block = parse("{ .reg .pred p, q; .reg .b32 t<3>; // a comment\n AGAIN: @!p bra /* back */ AGAIN; }")
    registers, more, label, branch = block.walk()
    assert registers == Registers("pred", ("p", "q")) and more == Registers("b32", ("t0", "t1", "t2"))
    assert label == Label("AGAIN")
    assert isinstance(branch, Instruction) and branch.guard == Name("register", "p", True)


@pytest.mark.parametrize(
    "text, message",
    [
        ("mov.u32 %0, 1", "expected ',' or ';', found the end"),
        ("{ mov.u32 %0, 1;", "expected '}', found the end"),
        ("mov.u32 %0 1;", "expected ',' or ';', found '1;'"),
        (".shared .b32 x;", "expected an instruction or .reg, found '.shared .b32 x;'"),
        ("ld.b32 %0, [%1;", "expected ']', found ';'"),
        ("mov.u32 %0, +;", "expected an operand, found '+;'"),
        (".reg .what x;", ".reg .what: no such type"),
        ("mov.u32 %2, 1;", "%2: the statement has no such operand"),
    ],
)
def test_a_syntax_error_shows_the_place(text, message):
    with pytest.raises(PtxError) as raised:
        translate(text, [Operand("=r", "x")])
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "text, constraints, expected",
    [
        ("bar.sync 0;", [], True),
        ("{\n.reg .pred p;\n@p bra DONE;\nDONE:\n}", [], True),
        ("trap;", [], True),
        ("mov.u32 %0, 1", ["=r"], True),  # a syntax error, which is reported later
        ("rdtsc", ["=a", "=d"], False),
        ("pause", [], False),
        ("lock; addl $0, 0(%%rsp)", [], False),
        ("mfence", [], False),
        ("cpuid", ["=a", "=b"], False),
    ],
)
def test_statements_for_a_device_are_recognised(text, constraints, expected):
    assert is_ptx(text, [Operand(each, "x") for each in constraints]) is expected


def test_an_empty_text_is_a_compiler_fence():
    assert translate("", []) == '__asm__ __volatile__("" ::: "memory")'


def test_inputs_are_read_before_outputs_are_written():
    text = translate("mov.b32 %0, %1;", [Operand("=r", "a"), Operand("r", "b")])
    assert text.index("input_r(b)") < text.index("output(tkjit_out0")


def test_an_unsupported_instruction_becomes_a_trap_with_its_name():
    assert 'unknown("tcgen05.shift.cta_group::1.down")' in translate(
        "tcgen05.shift.cta_group::1.down [%0];", [Operand("r", "0")]
    )
    assert 'unknown("ld.global.mystery.b32: unsupported modifier .mystery")' in translate(
        "ld.global.mystery.b32 %0, [%1];", [Operand("=r", "a"), Operand("l", "b")]
    )


@pytest.mark.parametrize(
    "types, more, is_known",
    [
        ("m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 1", True),
        ("m64n8k8.f32.tf32.tf32", ", 1, 1", True),
        ("m64n8k8.f32.tf32.tf32", ", 1, 1, 0, 1", False),  # ptxas, like tkjit, transposes only 16-bit elements
        ("m64n8k32.f32.e4m3.e4m3", ", 1, 1, 0, 1", False),
        ("m64n8k32.s32.s8.s8", "", True),
        ("m64n8k32.s32.s8.s8", ", 1, 1", False),
    ],
)
def test_the_types_of_a_wgmma_decide_its_immediates(types, more, is_known):
    text = f"wgmma.mma_async.sync.aligned.{types} {{%0, %1, %2, %3}}, %4, %4, 1{more};"
    constraint = "+r" if ".s32." in types else "+f"
    operands = [*(Operand(constraint, f"d{i}") for i in range(4)), Operand("l", "descriptor")]
    assert ("unknown(" not in translate(text, operands)) == is_known
