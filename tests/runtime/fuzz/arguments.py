"""Valid and invalid arguments of all kinds, and hooks that misbehave."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.hooks import Number, Producer, Stop, raising
from tkjit import In


class Boom(Exception):
    """An error from a hook. It may reach the caller only as the cause of a TkjitError."""


class Watcher(torch.Tensor):
    """A subclass that sees calls, through the ``__torch_function__`` that it inherits."""


class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Proxy:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return NotImplemented


class Attributes:
    """An object that raises the given error for every attribute."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "_error", error)

    def __getattribute__(self, name):
        raise object.__getattribute__(self, "_error")


class List(list):
    def __init__(self, items: list, hook: Callable[[], object]) -> None:
        super().__init__(items)
        self.hook = hook

    def __iter__(self):
        self.hook()
        return super().__iter__()


# replacements of a tensor that a kernel accepts as well
SAME: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.numpy(),
    lambda t: Producer(t.numpy()),
    lambda t: torch.cat([t.flatten(), t.flatten()])[t.numel() :].view(t.shape),
    lambda t: torch.nn.Parameter(t, requires_grad=False),
    lambda t: t.as_subclass(Watcher),
    lambda t: t.as_subclass(Quiet),
    lambda t: torch._lazy_clone(t) if hasattr(torch, "_lazy_clone") else t,
    lambda t: t.clone().share_memory_(),
]


def _freed(t: torch.Tensor) -> torch.Tensor:
    t = t.clone()
    t.untyped_storage().resize_(0)
    return t


def _fake(t: torch.Tensor) -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(t.shape, dtype=t.dtype)


def _used(t: torch.Tensor) -> Any:
    capsule = t.numpy().__dlpack__()
    torch.from_dlpack(Producer(t.numpy(), result=capsule))
    return Producer(t.numpy(), result=capsule)


# replacements of a tensor, most of which a kernel rejects
OTHER: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.to(torch.float16),
    lambda t: t.to(torch.complex64),
    lambda t: t.to(torch.int32),
    lambda t: t.bool().numpy(),
    lambda t: t.unsqueeze(0),
    lambda t: t.expand(2, 1, 1, *t.shape),
    lambda t: t.flatten()[:-1],
    lambda t: t.new_empty((0,) * t.dim()),
    lambda t: t.new_zeros((*t.shape, 2))[..., 0],
    lambda t: t.numpy()[..., ::-1],
    lambda t: t.numpy()[::-1],
    lambda t: t.numpy().astype(">f4"),
    lambda t: np.array(["a", None], dtype=object),
    lambda t: _read_only(t.numpy().copy()),
    lambda t: t.clone().requires_grad_(),
    lambda t: t.to("meta"),
    lambda t: torch._to_functional_tensor(t),
    lambda t: t.to_sparse(),
    lambda t: torch.zeros(t.shape, dtype=torch.complex64).conj().imag,
    lambda t: torch.view_as_complex(torch.zeros(*t.shape, 2)).conj(),
    lambda t: torch._efficientzerotensor(t.shape),
    lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
    _freed,
    _fake,
    _used,
    lambda t: Producer(t.numpy(), raising(Boom())),
    lambda t: Producer(t.numpy(), raising(Stop())),
    lambda t: Producer(t.numpy(), result=7),
    lambda t: Producer(t.numpy(), result=t.numpy().__dlpack__),
    lambda t: Attributes(Boom()),
    lambda t: Attributes(Stop()),
    lambda t: Proxy(),
    lambda t: Proxy,
    lambda t: torch.Tensor,
    lambda t: None,
    lambda t: 3,
    lambda t: 3.5,
    lambda t: "text",
    lambda t: [t],
    lambda t: (t, t),
    lambda t: List([t], raising(Boom())),
    lambda t: In,
    lambda t: object(),
]

# replacements of a number; the first are valid for a float, an int or a bool
NUMBERS: list[Callable[[], Any]] = [
    lambda: np.float32(2),
    lambda: torch.tensor(2),
    lambda: torch.tensor(2.0),
    lambda: True,
    lambda: np.bool_(True),
    lambda: 2,
    lambda: Number(lambda: None),
    lambda: Number(raising(Boom())),
    lambda: Number(raising(Stop())),
    lambda: np.array([2.0]),
    lambda: torch.ones(2),
    lambda: torch.tensor(2.0, requires_grad=True),
    lambda: torch.tensor(2, device="meta"),
    lambda: "2",
    lambda: b"2",
    lambda: 2j,
    lambda: 2**70,
    lambda: float("nan"),
    lambda: None,
    lambda: [2],
    lambda: Attributes(Boom()),
    lambda: Proxy(),
    lambda: Producer(np.array(True), raising(Boom())),
]


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def changing(t: torch.Tensor, choose: random.Random) -> Callable[[], object]:
    """Return a hook that changes another argument.

    It does not resize shared memory or zero tensors, nor replace the data of functional tensors, because torch itself
    crashes then.
    """
    if t.layout != torch.strided or t.is_shared() or t._is_zerotensor() or torch._is_functional_tensor(t):
        return lambda: t.set_(torch.zeros(3))
    return choose.choice(
        [
            lambda: t.untyped_storage().resize_(0),
            lambda: t.resize_(10000),
            lambda: t.set_(torch.zeros(3)),
            lambda: setattr(t, "data", torch.zeros(2, 2, 2)),
        ]
    )
