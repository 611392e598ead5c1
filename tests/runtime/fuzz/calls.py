"""Make random calls of a few kernels, valid and invalid, with one of the three readers of tensors.

Run ``python -m tests.runtime.fuzz.calls --seed 1 --count 70000 --reader "exchange API"`` in the root of the checkout. A
call must return the reference's result or raise an allowed error, and the process must not crash, hang or grow.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

import tkjit
from tests.runtime.fuzz import arguments, kernels
from tests.support.memory import resident_bytes
from tkjit.config import Settings
from tkjit.loader import loader_for

READERS = ("TensorImpl", "exchange API", "__dlpack__")
CONTEXTS = [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), torch._C.DisableTorchFunctionSubclass]
PLAIN = (torch.Tensor, torch.nn.Parameter, np.ndarray, arguments.Producer, arguments.Watcher, arguments.Quiet)

# raised by torch's own code for odd tensors; not SystemError, which means that Python's C API was misused
ALLOWED = (arguments.Stop, arguments.Boom, TypeError, RuntimeError, ValueError, BufferError, AssertionError)


class Mistake(Exception):
    """A result or an error that must not occur."""


class Call:
    """A valid call, some of whose arguments are then replaced."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.name = choose.choice(["mix", "mix", "total", "product"])
        self.dtype = choose.choice([torch.float32, torch.float64])
        self.changed: list[str] = []  # the kinds of changes that may have made the call invalid
        self.arguments: dict[str, Any] = getattr(self, f"_{self.name}")()
        self.has_out = False
        self.positional = choose.randrange(3)
        if choose.random() < 0.7:
            for _ in range(choose.choice([1, 1, 1, 2, 3])):
                choose.choice(
                    [self._same, self._same, self._other, self._hook, self._number, self._keyword, self._out]
                )()

    def _tensor(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randint(-9, 9, shape).to(dtype or self.dtype)

    def _mix(self) -> dict[str, Any]:
        m, n = self.choose.randrange(1, 6), self.choose.randrange(1, 9)
        made: dict[str, Any] = {"x": self._tensor(m, n), "acc": self._tensor(m)}
        if self.choose.random() < 0.5:
            made["bias"] = self._tensor(n, dtype=torch.float32)
        for name, value in {"alpha": 2.5, "count": 3, "flag": True}.items():
            if self.choose.random() < 0.5:
                made[name] = value
        self.outputs = {"y": (n,), "z": (m, n)}
        return made

    def _total(self) -> dict[str, Any]:
        n, count = self.choose.randrange(1, 9), self.choose.randrange(1, 5)
        self.outputs = {"y": (n,)}
        return {"xs": [self._tensor(n) for _ in range(count)], "weights": [2.0] * count}

    def _product(self) -> dict[str, Any]:
        n = self.choose.randrange(1, 9)
        self.outputs = {"z": (n,)}
        return {"x": self._tensor(n), "y": self._tensor(n) if self.choose.random() < 0.7 else 2.0}

    # ---- changes

    def _some(self, kind: type) -> str | None:
        fitting = [name for name, value in self.arguments.items() if type(value) is kind]
        return self.choose.choice(fitting) if fitting else None

    def _turned(self, forms: list[Callable[[torch.Tensor], Any]], tensor: torch.Tensor) -> Any:
        form = self.choose.choice(forms)
        try:
            held = tensor.untyped_storage().nbytes() // tensor.element_size()
            is_plain = torch._C._dispatch_keys(tensor) == torch._C._dispatch_keys(torch.zeros(1))
            # torch itself crashes when it reads freed memory, and when it shares a zero tensor without memory
            return form(tensor) if is_plain and held >= tensor.storage_offset() + tensor.numel() else tensor
        except Exception:  # not every form fits an odd tensor
            return tensor

    def _same(self) -> None:
        if name := self._some(torch.Tensor):
            self.arguments[name] = self._turned(arguments.SAME, self.arguments[name])

    def _other(self) -> None:
        name = self._some(torch.Tensor)
        items = self.arguments.get("xs")
        if self.name == "total" and type(items) is list:
            i = self.choose.randrange(len(items))
            if type(items[i]) is torch.Tensor:
                items[i] = self._turned([*arguments.OTHER, *arguments.SAME], items[i])
        elif name:
            self.arguments[name] = self._turned(arguments.OTHER, self.arguments[name])
        self.changed.append("other")

    def _hook(self) -> None:
        """Let one argument's hook change another argument."""
        tensors = [name for name, value in self.arguments.items() if type(value) is torch.Tensor]
        if self.name == "total" or len(tensors) < 2:
            return
        victim, by = self.choose.sample(tensors, 2)
        hook = arguments.changing(self.arguments[victim], self.choose)
        self.arguments[by] = self._turned([lambda t: arguments.Producer(t.numpy(), hook)], self.arguments[by])
        self.changed.append("hook")

    def _number(self) -> None:
        name = self._some(float) or self._some(int) or self._some(bool)
        if name:
            self.arguments[name] = self.choose.choice(arguments.NUMBERS)()
        elif "weights" in self.arguments:
            self.arguments["weights"] = [
                self.choose.choice(arguments.NUMBERS)() for _ in range(self.choose.randrange(20))
            ]
        self.changed.append("number")

    def _keyword(self) -> None:
        match self.choose.randrange(4):
            case 0:
                self.arguments["unknown"] = 1
            case 1:
                self.positional = self.choose.randrange(9)
            case 2:
                self.arguments.pop(self.choose.choice([*self.arguments, None]), None)
            case 3:
                self.arguments["stream"] = self.choose.choice([None, 3, "text", arguments.Attributes(arguments.Boom())])
        self.changed.append("keyword")

    def _out(self) -> None:
        if self.has_out:
            return
        self.has_out = True
        given = {name: self._tensor(*shape) for name, shape in self.outputs.items()}
        for name in given:
            kind = self.choose.random()
            if kind < 0.2:
                given[name] = self._turned(arguments.SAME, given[name])
            elif kind < 0.4:
                given[name] = self._turned(arguments.OTHER, given[name])
                self.changed.append("out")
            elif kind < 0.5 and (other := self._some(torch.Tensor)):
                given[name] = self.arguments[other]
                self.changed.append("shared")
        if self.choose.random() < 0.5:
            self.arguments.update(given)
        else:
            values = tuple(given.values())
            self.arguments["out"] = values if len(values) > 1 else values[0]

    # ---- calling

    def run(self, tally: Counter[str]) -> None:
        kernel = tkjit.load(getattr(kernels, self.name))
        expected = self._expected()
        context = self.choose.choice(CONTEXTS)() if self.choose.random() < 0.1 else nullcontext()
        names = list(self.arguments)[: self.positional]
        keywords = {name: value for name, value in self.arguments.items() if name not in names}
        positional = [self.arguments[name] for name in names]
        try:
            with context:
                if self.choose.random() < 0.02:
                    torch.vmap(lambda v: (kernel(*positional, **keywords), v)[1])(torch.zeros(2, 1))
                    tally["vmap"] += 1
                    return
                result = kernel(*positional, **keywords)
        except tkjit.TkjitError as error:
            self._refused(error, expected, tally)
        except ALLOWED as error:
            if not self.changed and not isinstance(context, (torch.autocast, torch._C.DisableTorchFunctionSubclass)):
                raise Mistake(f"{type(error).__name__}: {error}") from error
            tally[type(error).__name__] += 1
        else:
            self._returned(result, expected, tally)

    def _refused(self, error: tkjit.TkjitError, expected: Any, tally: Counter[str]) -> None:
        if expected is not None and not self.changed:
            raise Mistake(f"a valid call was rejected: {error}") from error
        str(error)
        tally["refused"] += 1

    def _expected(self) -> Any:
        """Return the expected results, or None if the call may be invalid."""
        inputs = {name: value for name, value in self.arguments.items() if name not in (*self.outputs, "out", "stream")}
        if self.name == "product" and "y" in self.arguments:
            inputs["y"] = self.arguments["y"]
        if self.changed and any(kind != "out" for kind in self.changed):
            return None
        try:
            return [value.clone() for value in kernels.reference(self.name, {k: _copied(v) for k, v in inputs.items()})]
        except Exception as error:
            raise Mistake(f"the reference failed: {error!r}") from error

    def _returned(self, result: Any, expected: Any, tally: Counter[str]) -> None:
        tally["returned"] += 1
        if expected is None:
            return
        results = result if isinstance(result, tuple) else (result,)
        for value, right in zip(results, expected, strict=True):
            if isinstance(value, PLAIN) and not torch.equal(_copied(value).to(right.dtype), right):
                raise Mistake(f"wrong: {value} instead of {right}")
        tally["compared"] += 1


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, arguments.Producer):
        return torch.tensor(value.array)
    if isinstance(value, np.ndarray):
        return torch.tensor(value.copy(order="C"))
    if isinstance(value, torch.Tensor):
        return value.detach().as_subclass(torch.Tensor).clone()
    return value


def live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())


def one(seed: int, step: int, tally: Counter[str]) -> None:
    call = None
    try:
        call = Call(random.Random(f"{seed} {step}"))
        call.run(tally)
    except BaseException as error:
        shown = None if call is None else {k: type(v).__name__ for k, v in call.arguments.items()}
        print(
            f"seed {seed}, step {step}: {getattr(call, 'name', '')} {shown} {getattr(call, 'changed', '')}", flush=True
        )
        raise error


def threads(seed: int, count: int, tally: Counter[str]) -> None:
    """Call a kernel from several threads while another changes its tensors. Any TkjitError is allowed."""
    shared = [torch.ones(64) for _ in range(4)]
    ends = threading.Event()

    def calls(number: int) -> None:
        choose = random.Random(f"{seed} thread {number}")
        kernel = tkjit.load(kernels.product)
        for _ in range(count):
            try:
                kernel(choose.choice(shared), choose.choice([choose.choice(shared), 2.0]))
                tally["threads returned"] += 1
            except tkjit.TkjitError:
                tally["threads refused"] += 1

    def changes() -> None:
        choose = random.Random(f"{seed} changes")
        while not ends.is_set():
            try:
                arguments.changing(choose.choice(shared), choose)()
                shared[choose.randrange(4)] = torch.ones(choose.choice([64, 64, 100000]))
            except RuntimeError:
                tally["resize refused"] += 1

    workers = [threading.Thread(target=calls, args=(number,)) for number in range(3)]
    changer = threading.Thread(target=changes)
    for thread in (*workers, changer):
        thread.start()
    for thread in workers:
        thread.join()
    ends.set()
    changer.join()


def run(seed: int, count: int, reader: str) -> Counter[str]:
    """Make calls, and compare the memory and the number of tensors in the middle and at the end."""
    warnings.simplefilter("ignore")
    runtime = loader_for(Settings.from_environment()).runtime
    tally: Counter[str] = Counter()
    runtime.read_tensors_through(reader)
    try:
        for step in range(count // 2):
            one(seed, step, tally)
        before, bytes_before = live_tensors(), resident_bytes()
        for step in range(count // 2, count):
            one(seed, step, tally)
        leaked, grown = live_tensors() - before, resident_bytes() - bytes_before
        threads(seed, count // 20, tally)
    finally:
        runtime.read_tensors_through("TensorImpl")
    tally |= Counter({"tensors more": leaked, "MiB more": grown >> 20})
    if leaked > 20 or grown > 48 << 20:
        raise Mistake(f"{leaked} tensors and {grown >> 20} MiB more after {count // 2} calls: {dict(tally)}")
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--reader", choices=READERS, default=READERS[0])
    parser.add_argument("--step", type=int, help="make only this call")
    args = parser.parse_args()
    begun = time.monotonic()
    if args.step is not None:
        loader_for(Settings.from_environment()).runtime.read_tensors_through(args.reader)
        one(args.seed, args.step, Counter())
        return
    tally = run(args.seed, args.count, args.reader)
    print(f"{args.reader}: seed {args.seed}, {args.count} calls in {time.monotonic() - begun:.0f} s: {dict(tally)}")


if __name__ == "__main__":
    sys.exit(main())
