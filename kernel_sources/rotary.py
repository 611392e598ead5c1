"""Rotary position embedding."""

import tkjit
from tkjit import In, Out, Tensor


def with_known_positions(arguments):
    positions = arguments.get("positions")
    return {} if positions is None else {"positions": positions % arguments["cos"].shape[0]}


def gradient(grad_y, cos, sin, positions, interleaved):
    return rotary(grad_y, cos, -sin, positions, interleaved), None, None


@tkjit.kernel(
    "rotary.cu",
    entry="rotary<T, interleaved>",
    grid="B * S",
    block=128,
    variants={"T": ("float32", "bfloat16", "float16"), "interleaved": (False, True)},
    constraints=["2 * R <= D", "S <= P"],
    backward=gradient,
    examples=[
        {"B": 2, "S": 3, "H": 2, "D": 64, "R": 32, "P": 5},
        {"B": 1, "S": 4, "H": 3, "D": 21, "R": 9, "P": 4},
    ],
    sizes=[
        {"B": 4, "S": 4096, "H": 32, "D": 128, "R": 64, "P": 4096},
        {"B": 4, "S": 4096, "H": 8, "D": 128, "R": 64, "P": 4096},
        {"B": 4, "S": 4096, "H": 32, "D": 96, "R": 24, "P": 4096},
        {"B": 128, "S": 1, "H": 32, "D": 128, "R": 64, "P": 8192},
    ],
    prepare=with_known_positions,
)
def rotary(
    x: In[Tensor, "T", "B", "S", "H", "D"],
    cos: In[Tensor, "float32", "P", "R"],
    sin: In[Tensor, "float32", "P", "R"],
    positions: In[Tensor, "int64", "B", "S"] | None = None,
    interleaved: bool = False,
    *,
    y: Out[Tensor, "T", "B", "S", "H", "D"],
) -> Tensor:
    """Rotates pairs of elements of each head by angles that depend on the position.

    Parameters
    ----------
    x : (B, S, H, D) float32, bfloat16 or float16
        Queries or keys: S positions of B sequences, with H heads. The first 2 R elements of a head are rotated.
    cos, sin : (P, R) float32
        Of the angle of each position and pair.
    positions : (B, S) int64, optional
        Rows of cos and sin; by default 0, 1, ... in each sequence. The result of a position that is not below P is NaN.
    interleaved : bool
        Whether the pairs are (0, 1), (2, 3), ...; otherwise they are (0, R), (1, R + 1), ...

    Returns
    -------
    y : (B, S, H, D) of x's dtype

    Notes
    -----
    Gradients flow to x only. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
    """
    import torch

    rotated = x[..., : 2 * cos.shape[1]].float()
    at = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2]) if positions is None else positions
    cos, sin = (table.detach()[at][:, :, None] for table in (cos, sin))
    a, b = (rotated[..., ::2], rotated[..., 1::2]) if interleaved else rotated.chunk(2, -1)
    turned = a * cos - b * sin, a * sin + b * cos
    rotated = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat((rotated.to(x.dtype), x[..., rotated.shape[-1] :]), -1)
