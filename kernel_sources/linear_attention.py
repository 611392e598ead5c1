"""Causal linear attention."""

import tkjit
from tkjit import Align, CExpr, In, Out, Tensor

VARIANTS = {"T": ("bfloat16", "float16"), "D": (64, 128)}
EXAMPLES = [
    {"B": 2, "H": 2, "L": 37, "D": 64},
    {"B": 1, "H": 3, "L": 64, "D": 128, "scale": 1.0},
    {"B": 1, "H": 2, "L": 300, "D": 64},
    {"B": 1, "H": 1, "L": 200, "D": 128},
]
SIZES = [
    {"B": 4, "H": 16, "L": 4096, "D": 128, "initial_state": None},
    {"B": 1, "H": 32, "L": 16384, "D": 128, "initial_state": None},
    {"B": 8, "H": 32, "L": 2048, "D": 64, "initial_state": None},
]


def with_decays_up_to_1(arguments):
    return {} if arguments["g"] is None else {"g": -0.1 * abs(arguments["g"])}


def flash_linear_attention(q, k, v, g, initial_state, scale):
    from fla.ops.simple_gla import chunk_simple_gla

    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    options = {"scale": scale, "g_gamma": g, "initial_state": initial_state, "output_final_state": True}
    return chunk_simple_gla(q, k, v, **options)


def thunderkittens(q, k, v, g, initial_state):
    import torch

    if g is None or initial_state is not None or q.shape[3] != 128:
        raise NotImplementedError("ThunderKittens' kernel has a decay, D = 128 and no initial state")
    # it has no scale either, which makes no difference to its speed
    return tkjit.load("tk_linear_attention")(q, k, k, v, -g, torch.zeros_like(q))


def gradients(grad_o, grad_final_state, q, k, v, g, initial_state, scale, needed):
    found = linear_attention_gradient(grad_o, grad_final_state, q, k, v, g, initial_state, scale)
    grad_g = None
    if g is not None and "g" in needed:
        parts = linear_attention_decay_gradient(grad_o, grad_final_state, q, k, v, g, initial_state, scale)
        grad_g = parts.sum((0, 2))
    grad_state = None if initial_state is None else found.grad_initial_state
    return found.grad_q, found.grad_k, found.grad_v, grad_g, grad_state


def shares(x, repeated):
    """Returns the columns of q, k, v or grad_o for each 64 x 64 elements of a state, as if these were heads."""
    parts = x.unflatten(3, (-1, 64)).movedim(3, 2)
    count = parts.shape[2]
    return parts.unsqueeze(repeated).repeat_interleave(count, repeated).reshape(1, -1, x.shape[2], 64)


def shares_of_state(x):
    return x.unflatten(3, (-1, 64)).unflatten(2, (-1, 64)).movedim(4, 3).reshape(1, -1, 64, 64)


def recurrence(q, k, v, g, initial_state, scale):
    """Computes o and the state after the last element in float32, in chunks."""
    import torch

    q, k, v = (one.float() for one in (q, k, v))
    scale = q.shape[3] ** -0.5 if scale is None else scale
    g = q.new_zeros(q.shape[1]) if g is None else g
    state = q.new_zeros(*q.shape[:2], q.shape[3], q.shape[3]) if initial_state is None else initial_state
    parts = []
    for first in range(0, q.shape[2], 64):
        q_rows, k_rows, v_rows = (one[:, :, first : first + 64] for one in (q, k, v))
        positions = torch.arange(q_rows.shape[2], device=q.device)
        distances = positions[:, None] - positions
        decay = (g[:, None, None] * distances.clamp(min=0)).exp()
        scores = (q_rows @ k_rows.mT * decay).masked_fill(distances < 0, 0)
        passed = (g[:, None] * (positions + 1)).exp()[..., None]
        parts.append(scale * (scores @ v_rows + passed * (q_rows @ state)))
        state = passed[:, -1:] * state + (k_rows * decay[:, -1, :, None]).mT @ v_rows
    return torch.cat(parts, 2) if parts else torch.zeros_like(q), state


@tkjit.kernel(
    "linear_attention.cu",
    entry="linear_attention<T, D>",
    grid="B * H * D // 64",
    block=128,
    shared_memory=CExpr("sizeof(Shared<T, D>)"),
    variants=VARIANTS,
    backward=gradients,
    flops="B * H * L * D * (256 + 4 * D)",
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"flash-linear-attention": flash_linear_attention, "ThunderKittens": thunderkittens},
    prepare=with_decays_up_to_1,
    tolerance=0.015,  # as for bfloat16: the states are float32, but the keys in them are rounded
)
def linear_attention(
    q: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    k: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    v: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    g: In[Tensor, "float32", "H"] | None = None,
    initial_state: In[Tensor, "float32", "B", "H", "D", "D"] | None = None,
    scale: float | None = None,
    *,
    o: Out[Tensor, "T", "B", "H", "L", "D", Align(16)],
    final_state: Out[Tensor, "float32", "B", "H", "D", "D"],
) -> tuple[Tensor, Tensor]:
    """Computes S[t] = exp(g) S[t - 1] + k[t] v[t].T and o[t] = scale * q[t] S[t] for each head.

    Parameters
    ----------
    q, k, v : (B, H, L, D) bfloat16 or float16, with D = 64 or 128
    g : (H,) float32, optional
        The logarithm of each head's decay: finite, and at most 0. By default 0, without decay.
    initial_state : (B, H, D, D) float32, optional
        S before the first element, with a row for each element of a key. By default 0.
    scale : float, optional
        By default, 1 / sqrt(D).

    Returns
    -------
    o : (B, H, L, D) of q's dtype
    final_state : (B, H, D, D) float32
        S after the last element.

    Notes
    -----
    Sums are in float32, and so is the state from chunk to chunk of 64 elements. Tensor cores multiply numbers of q's
    dtype, to which the kernel rounds the state before each chunk, the products of queries and keys, and decayed keys. A
    state beyond 65504 therefore overflows in float16. A NaN or an infinity reaches its whole chunk and all later ones.
    B * H * D / 64 blocks share the work, so a call with few heads leaves multiprocessors idle. Sources: Katharopoulos
    et al., "Transformers are RNNs", 2020; Sun et al., "Retentive Network", 2023.
    """
    o, state = recurrence(q, k, v, g, initial_state, scale)
    return o.to(q.dtype), state


@tkjit.kernel(
    "linear_attention_gradient.cu",
    entry="linear_attention_gradient<T, D>",
    grid="3 * B * H * D // 64",
    block=128,
    shared_memory=CExpr("sizeof(Shared<T, D>)"),
    variants=VARIANTS,
    flops="3 * B * H * L * D * (256 + 4 * D)",
    examples=EXAMPLES,
    sizes=SIZES,
    prepare=with_decays_up_to_1,
    tolerance=0.015,  # as for bfloat16: the states are float32, but the keys in them are rounded
)
def linear_attention_gradient(
    grad_o: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    grad_final_state: In[Tensor, "float32", "B", "H", "D", "D"],
    q: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    k: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    v: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    g: In[Tensor, "float32", "H"] | None = None,
    initial_state: In[Tensor, "float32", "B", "H", "D", "D"] | None = None,
    scale: float | None = None,
    *,
    grad_q: Out[Tensor, "T", "B", "H", "L", "D", Align(16)],
    grad_k: Out[Tensor, "T", "B", "H", "L", "D", Align(16)],
    grad_v: Out[Tensor, "T", "B", "H", "L", "D", Align(16)],
    grad_initial_state: Out[Tensor, "float32", "B", "H", "D", "D"],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the gradients of ``linear_attention``, except that of `g`.

    Parameters
    ----------
    grad_o : (B, H, L, D) of q's dtype
    grad_final_state : (B, H, D, D) float32
    q, k, v, g, initial_state, scale
        The arguments of the call.

    Returns
    -------
    grad_q, grad_k, grad_v : (B, H, L, D) of q's dtype
    grad_initial_state : (B, H, D, D) float32
    """
    import torch

    state = torch.zeros_like(grad_final_state) if initial_state is None else initial_state
    with torch.enable_grad():
        inputs = [one.detach().float().requires_grad_() for one in (q, k, v, state)]
        results = recurrence(*inputs[:3], g, inputs[3], scale)
        found = torch.autograd.grad(results, inputs, (grad_o.float(), grad_final_state))
    return *(one.to(q.dtype) for one in found[:3]), found[3]


@tkjit.kernel(
    "linear_attention_decay_gradient.cu",
    entry="linear_attention_decay_gradient<T, D>",
    grid="B * H * PARTS",
    block=128,
    shared_memory=CExpr("2 * sizeof(Chunk<T>)"),
    dims={"PARTS": "D // 64 * (D // 64)"},
    variants=VARIANTS,
    flops="12 * B * H * L * D * D",
    examples=EXAMPLES,
    sizes=SIZES,
    prepare=with_decays_up_to_1,
    tolerance=0.015,
)
def linear_attention_decay_gradient(
    grad_o: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    grad_final_state: In[Tensor, "float32", "B", "H", "D", "D"],
    q: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    k: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    v: In[Tensor, "T", "B", "H", "L", "D", Align(16)],
    g: In[Tensor, "float32", "H"],
    initial_state: In[Tensor, "float32", "B", "H", "D", "D"] | None = None,
    scale: float | None = None,
    *,
    grad_g: Out[Tensor, "float32", "B", "H", "PARTS"],
) -> Tensor:
    """Computes the gradient of ``linear_attention`` with respect to `g`.

    Parameters
    ----------
    grad_o : (B, H, L, D) of q's dtype
    grad_final_state : (B, H, D, D) float32
    q, k, v, g, initial_state, scale
        The arguments of the call.

    Returns
    -------
    grad_g : (B, H, (D / 64)^2) float32
        For each 64 x 64 elements of a state. The sum over the first and last dim is the gradient.
    """
    import torch

    if q.shape[2] == 0:
        return grad_final_state.new_zeros(*q.shape[:2], (q.shape[3] // 64) ** 2)
    state = torch.zeros_like(grad_final_state) if initial_state is None else initial_state
    q, k, v, grad_o = shares(q, 3), shares(k, 3), shares(v, 2), shares(grad_o, 2)
    of_head = q.shape[1] // g.numel() // grad_final_state.shape[0]
    with torch.enable_grad():
        decays = g.detach().repeat_interleave(of_head).repeat(grad_final_state.shape[0]).requires_grad_()
        scale = (64 * of_head**0.5) ** -0.5 if scale is None else scale
        results = recurrence(q, k, v, decays, shares_of_state(state), scale)
        found = torch.autograd.grad(results, decays, (grad_o.float(), shares_of_state(grad_final_state)))[0]
    return found.view(*grad_final_state.shape[:2], of_head)
