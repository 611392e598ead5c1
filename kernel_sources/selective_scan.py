"""The recurrence of selective state-space models."""

import tkjit
from tkjit import In, InOut, Out, Tensor

DTYPES = ("float32", "bfloat16", "float16")
EXAMPLES = [
    {"batch": 2, "dim": 3, "G": 1, "L": 37, "N": 16, "delta_softplus": False},
    {"batch": 2, "dim": 20, "G": 2, "L": 300, "N": 3, "delta_softplus": True},
    {"batch": 1, "dim": 2, "G": 1, "L": 1100, "N": 40, "delta_softplus": True},
]
SIZES = [
    {"batch": 8, "dim": 4096, "G": 1, "L": 2048, "N": 16, "z": None, "initial_state": None},
    {"batch": 1, "dim": 4096, "G": 1, "L": 8192, "N": 16, "initial_state": None},
    {"batch": 8, "dim": 2048, "G": 8, "L": 2048, "N": 128, "z": None, "initial_state": None},
]


def with_decays_up_to_1(arguments):
    names = ("delta", "delta_bias")
    return {name: abs(arguments[name]) for name in names if arguments[name] is not None} | {"A": -abs(arguments["A"])}


def with_states(arguments):
    known = arguments | with_decays_up_to_1(arguments)
    names = ("u", "delta", "A", "B", "C", "D", "delta_bias", "delta_softplus", "initial_state")
    _, _, h, _ = wide_scan(*(known[name] for name in names))
    return known | {"states": h[..., ends_of_chunks(known["u"])].mT.contiguous()}


def authors_selective_scan(u, delta, A, B, C, D, z, delta_bias, delta_softplus, initial_state):
    import selective_scan_cuda  # a module of the package mamba-ssm

    if initial_state is not None:
        raise NotImplementedError("mamba-ssm scans from states of zeros")
    out, _, *gated = selective_scan_cuda.fwd(u, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return gated[0] if gated else out


def authors_gradient(grad_y, u, delta, A, B, C, D, z, delta_bias, delta_softplus, initial_state):
    import selective_scan_cuda

    if initial_state is not None or z is not None or u.shape[2] > 2048:
        raise NotImplementedError("mamba-ssm needs results of its own forward kernel for such a call")
    inputs = u, delta, A, B, C, D, None, delta_bias
    return selective_scan_cuda.bwd(*inputs, grad_y, None, None, None, delta_softplus, False)


def scanned(decay, added):
    """Returns h[t] = decay[t] * h[t - 1] + added[t] along the last dim."""
    import torch

    h, length, distance = added, added.shape[-1], 1
    while distance < length:  # h and decay are those of `distance` elements together
        h = h + decay * torch.nn.functional.pad(h, (distance, 0))[..., :length]
        decay = decay * torch.nn.functional.pad(decay, (distance, 0), value=1.0)[..., :length]
        distance *= 2
    return h


def wide_scan(u, delta, A, B, C, D, delta_bias, delta_softplus, initial_state):
    """Returns y before the gate, the decays and the states, and u, the steps, B and C of each channel in float32."""
    import torch

    of_group = u.shape[1] // B.shape[1]
    u, step, B, C = u.float(), delta.float(), *(one.float().repeat_interleave(of_group, 1) for one in (B, C))
    step = step if delta_bias is None else step + delta_bias[:, None]
    step = torch.nn.functional.softplus(step) if delta_softplus else step
    decay = (step[:, :, None] * A[:, :, None]).exp()
    added = (step * u)[:, :, None] * B
    if initial_state is not None:
        added[..., :1] += decay[..., :1] * initial_state[..., None]
    h = scanned(decay, added)
    y = (h * C).sum(2)
    return y if D is None else y + D[:, None] * u, decay, h, (u, step, B, C)


def ends_of_chunks(u):
    import torch

    return torch.arange(256, u.shape[2] + 256, 256, device=u.device).clamp(max=u.shape[2]) - 1


def sums_of_slices(terms, groups):
    """Returns the sums over the channels whose gradients a block of ``selective_scan_gradient`` computes."""
    import torch

    batch, dim, *matrix = terms.shape
    slices = min(-(-dim // groups // 8), max(1, 264 // max(1, batch * groups)))
    of_group = terms.view(batch * groups, -1, *matrix)
    padding = -of_group.shape[1] % (8 * slices)
    return torch.nn.functional.pad(of_group, (0, 0, 0, 0, 0, padding)).unflatten(1, (-1, slices, 8)).sum((1, 3))


def gradients(grad_y, grad_states, u, delta, A, B, C, D, z, delta_bias, delta_softplus, initial_state, states):
    import torch

    grad_z = None if z is None else torch.empty_like(z)
    found = selective_scan_gradient(
        grad_y, grad_states, u, delta, A, B, C, states, D, z, delta_bias, grad_z, delta_softplus, initial_state
    )
    return (
        found.grad_u,
        found.grad_delta,
        found.grad_A.sum(0),
        found.grad_B.sum(1).view(B.shape).to(B.dtype),
        found.grad_C.sum(1).view(C.shape).to(C.dtype),
        None if D is None else found.grad_D.sum(0),
        grad_z,
        None if delta_bias is None else found.grad_delta_bias.sum(0),
        None if initial_state is None else found.grad_initial_state,
    )


@tkjit.kernel(
    "selective_scan.cu",
    entry="selective_scan<T>",
    grid="cdiv(batch * dim, 4)",
    block=128,
    shared_memory="32 * N",
    variants={"T": DTYPES},
    constraints=["G >= 1", "dim % max(G, 1) == 0", "N <= 256"],
    backward=gradients,
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"mamba-ssm": authors_selective_scan},
    prepare=with_decays_up_to_1,
)
def selective_scan(
    u: In[Tensor, "T", "batch", "dim", "L"],
    delta: In[Tensor, "T", "batch", "dim", "L"],
    A: In[Tensor, "float32", "dim", "N"],
    B: In[Tensor, "T", "batch", "G", "N", "L"],
    C: In[Tensor, "T", "batch", "G", "N", "L"],
    D: In[Tensor, "float32", "dim"] | None = None,
    z: In[Tensor, "T", "batch", "dim", "L"] | None = None,
    delta_bias: In[Tensor, "float32", "dim"] | None = None,
    delta_softplus: bool = False,
    initial_state: In[Tensor, "float32", "batch", "dim", "N"] | None = None,
    *,
    y: Out[Tensor, "T", "batch", "dim", "L"],
    states: Out[Tensor, "float32", "batch", "dim", "cdiv(L, 256)", "N"],
) -> tuple[Tensor, Tensor]:
    """Computes Mamba's selective scan: h[t] = exp(delta[t] A) h[t - 1] + delta[t] B[t] u[t], y[t] = C[t] h[t] + D u[t].

    Each channel has N states h. To go on with a sequence, pass the last states of its first part:
    ``selective_scan(..., initial_state=states[:, :, -1].contiguous())``.

    Parameters
    ----------
    u, delta : (batch, dim, L) float32, bfloat16 or float16
        The inputs and the steps of `dim` channels. Everything is computed in float32.
    A : (dim, N) float32, with N up to 256
        The rates of the states: finite, and usually negative.
    B, C : (batch, G, N, L) of u's dtype
        Each of the G groups serves dim / G channels. ``B[:, None]`` makes one group of a (batch, N, L) tensor.
    D : (dim,) float32, optional
    z : (batch, dim, L) of u's dtype, optional
        If given, y is multiplied by silu(z).
    delta_bias : (dim,) float32, optional
        Is added to delta.
    delta_softplus : bool
        Whether the steps are softplus(delta + delta_bias) instead of delta + delta_bias.
    initial_state : (batch, dim, N) float32, optional
        The states before the first element. By default 0.

    Returns
    -------
    y : (batch, dim, L) of u's dtype
    states : (batch, dim, ceil(L / 256), N) float32
        The states after each 256 elements and after the last one, ``states[:, :, -1]``.

    Notes
    -----
    After an infinite element, the states of its channel are infinite or NaN. The parameters are those of the package
    mamba-ssm. Source: Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.
    """
    import torch

    y, _, h, _ = wide_scan(u, delta, A, B, C, D, delta_bias, delta_softplus, initial_state)
    y = y if z is None else y * torch.nn.functional.silu(z.float())
    return y.to(u.dtype), h[..., ends_of_chunks(u)].mT


@tkjit.kernel(
    "selective_scan_gradient.cu",
    entry="selective_scan_gradient<T>",
    # a block computes several channels of a group, eight at a time: up to two blocks for each multiprocessor of an H100
    grid="batch * G * SLICES",
    block=256,
    shared_memory="36864 + 96 * N",
    dims={
        "TILES": "cdiv(dim // max(G, 1), 8)",
        "SLICES": "min(TILES, max(1, 264 // max(1, batch * G)))",
    },
    variants={"T": DTYPES},
    constraints=["G >= 1", "dim % max(G, 1) == 0", "N <= 256"],
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"mamba-ssm": authors_gradient},
    prepare=with_states,
)
def selective_scan_gradient(
    grad_y: In[Tensor, "T", "batch", "dim", "L"],
    grad_states: In[Tensor, "float32", "batch", "dim", "cdiv(L, 256)", "N"],
    u: In[Tensor, "T", "batch", "dim", "L"],
    delta: In[Tensor, "T", "batch", "dim", "L"],
    A: In[Tensor, "float32", "dim", "N"],
    B: In[Tensor, "T", "batch", "G", "N", "L"],
    C: In[Tensor, "T", "batch", "G", "N", "L"],
    states: In[Tensor, "float32", "batch", "dim", "cdiv(L, 256)", "N"],
    D: In[Tensor, "float32", "dim"] | None = None,
    z: In[Tensor, "T", "batch", "dim", "L"] | None = None,
    delta_bias: In[Tensor, "float32", "dim"] | None = None,
    grad_z: InOut[Tensor, "T", "batch", "dim", "L"] | None = None,
    delta_softplus: bool = False,
    initial_state: In[Tensor, "float32", "batch", "dim", "N"] | None = None,
    *,
    grad_u: Out[Tensor, "T", "batch", "dim", "L"],
    grad_delta: Out[Tensor, "T", "batch", "dim", "L"],
    grad_A: Out[Tensor, "float32", "batch", "dim", "N"],
    grad_B: Out[Tensor, "float32", "batch * G", "SLICES", "N", "L"],
    grad_C: Out[Tensor, "float32", "batch * G", "SLICES", "N", "L"],
    grad_D: Out[Tensor, "float32", "batch", "dim"],
    grad_delta_bias: Out[Tensor, "float32", "batch", "dim"],
    grad_initial_state: Out[Tensor, "float32", "batch", "dim", "N"],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Computes the gradients of ``selective_scan``.

    Parameters
    ----------
    grad_y : (batch, dim, L) of u's dtype
    grad_states : (batch, dim, ceil(L / 256), N) float32
    u, delta, A, B, C, D, z, delta_bias, delta_softplus, initial_state
        The arguments of the call.
    states : (batch, dim, ceil(L / 256), N) float32
        A result of the call.
    grad_z : (batch, dim, L) of u's dtype, optional
        Is set to the gradient of `z`.

    Returns
    -------
    grad_u, grad_delta : (batch, dim, L) of u's dtype
    grad_A : (batch, dim, N) float32; its sum over the batch is the gradient of `A`
    grad_B, grad_C : (batch * G, SLICES, N, L) float32
        Their sums over the second dim, which depends on the sizes, are the gradients of `B` and `C`.
    grad_D, grad_delta_bias : (batch, dim) float32; their sums over the batch are the gradients
    grad_initial_state : (batch, dim, N) float32

    Notes
    -----
    The states are computed again in each chunk of 256 elements. No sum depends on the order in which blocks run.
    """
    import torch

    F = torch.nn.functional
    groups = B.shape[1]
    y, decay, h, (u, step, B, C) = wide_scan(u, delta, A, B, C, D, delta_bias, delta_softplus, initial_state)
    grad = grad_y.float()
    if z is not None:
        if grad_z is not None:
            grad_z.copy_(torch.ops.aten.silu_backward(grad * y, z.float()))
        grad = grad * F.silu(z.float())
    of_h = grad[:, :, None] * C
    of_h[..., ends_of_chunks(u)] += grad_states.mT
    of_h = scanned(F.pad(decay, (0, 1), value=1.0)[..., 1:].flip(-1), of_h.flip(-1)).flip(-1)
    of_before = of_h * decay
    of_exponent = of_before * F.pad(h, (1, 0))[..., :-1]
    if initial_state is not None:
        of_exponent[..., :1] += of_before[..., :1] * initial_state[..., None]
    of_input = (of_h * B).sum(2)
    of_step = (of_exponent * A[:, :, None]).sum(2) + of_input * u
    if delta_softplus:
        of_step = of_step * -(-step).expm1()
    of_u = of_input * step if D is None else of_input * step + D[:, None] * grad
    slices = sums_of_slices(of_h * (step * u)[:, :, None], groups), sums_of_slices(grad[:, :, None] * h, groups)
    of_A = (of_exponent * step[:, :, None]).sum(-1)
    sums = of_A, *slices, (grad * u).sum(-1), of_step.sum(-1)
    return of_u.to(grad_y.dtype), of_step.to(grad_y.dtype), *sums, of_before[..., :1].sum(-1)
