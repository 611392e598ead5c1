"""Trains a small transformer with an attention kernel of its own, in which distant words count less (ALiBi)."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
// A thread computes one row. It keeps the largest score so far, and rescales its sums when it meets a larger one.
__global__ void attend(Globals g) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y, rows = g.q.rows(), size = g.q.cols();
    if (row >= rows) return;
    float most = -INFINITY, total = 0, sums[32] = {};
    for (int col = 0; col <= row; ++col) {
        float score = -g.slope * (row - col);
        for (int d = 0; d < size; ++d) score += g.q(0, head, row, d) * g.k(0, head, col, d) * rsqrtf(size);
        const float larger = fmaxf(most, score), scale = expf(most - larger), weight = expf(score - larger);
        most = larger;
        total = total * scale + weight;
        for (int d = 0; d < size; ++d) sums[d] = sums[d] * scale + weight * g.v(0, head, col, d);
    }
    for (int d = 0; d < size; ++d) g.y(0, head, row, d) = sums[d] / total;
}
"""


def reference(q, k, v, slope):
    row = torch.arange(q.shape[-2], device=q.device)
    scores = q @ k.mT * q.shape[-1] ** -0.5 - slope * (row[:, None] - row)
    return scores.masked_fill(row[:, None] < row, -torch.inf).softmax(-1) @ v


def gradients(grad_y, q, k, v, slope):
    with torch.enable_grad():
        inputs = [one.detach().requires_grad_() for one in (q, k, v)]
        return torch.autograd.grad(reference(*inputs, slope), inputs, grad_y)


@tkjit.kernel(SOURCE, entry="attend", grid="cdiv(L, 64), H", block=64, backward=gradients, constraints="D <= 32")
def attend(
    q: In[Tensor, "float32", "H", "L", "D"],
    k: In[Tensor, "float32", "H", "L", "D"],
    v: In[Tensor, "float32", "H", "L", "D"],
    slope: float,
    y: Out[Tensor, "float32", "H", "L", "D"],
) -> Tensor:
    """Computes causal attention whose scores fall by slope for each word of distance."""
    return reference(q, k, v, slope)


class Block(torch.nn.Module):
    def __init__(self, words, size=32, slope=0.5):
        super().__init__()
        self.embedding, self.slope = torch.nn.Embedding(words, size), slope
        self.qkv, self.last = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, words)

    def forward(self, text):  # (batch, length) to (batch, length, words)
        x = self.embedding(text)
        q, k, v = (part.contiguous() for part in self.qkv(x).chunk(3, -1))
        return self.last(x + attend(q, k, v, self.slope))


if __name__ == "__main__":
    text = "the quick brown fox jumps over the lazy dog and runs through the dark wood. " * 4
    words = sorted(set(text))
    codes = torch.tensor([words.index(letter) for letter in text])
    batch = codes.unfold(0, 65, 16)
    torch.manual_seed(0)
    model = Block(len(words))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    plt.figure(figsize=(6, 3), layout="constrained")
    plt.plot(losses)
    plt.gca().set(xlabel="step", ylabel="loss per letter", ylim=(0, None))
    plt.savefig("transformer.png")
