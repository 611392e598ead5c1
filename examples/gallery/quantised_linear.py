"""Replaces the weights of a linear layer by numbers of 4 bits, and shows how little the results change."""

import matplotlib.pyplot as plt
import torch
import tkjit

quant_matmul = tkjit.load("quant_matmul")


class QuantisedLinear(torch.nn.Module):
    """A linear layer with weights of 4 bits, and a scale for each 128 of a row."""

    def __init__(self, linear):
        super().__init__()
        groups = linear.weight.detach().float().unflatten(1, (-1, 128))
        scales = groups.abs().amax(-1, keepdim=True) / 7
        digits = ((groups / scales).round().clamp(-8, 7) + 8).flatten(1).to(torch.uint8)
        self.register_buffer("weight", digits[:, 0::2] | digits[:, 1::2] << 4)  # two in a byte
        self.register_buffer("scales", scales[..., 0].to(torch.bfloat16))
        self.bias = linear.bias

    def forward(self, x):
        return quant_matmul(x, self.weight, self.scales) + self.bias


if __name__ == "__main__":
    torch.manual_seed(0)
    linear = torch.nn.Linear(512, 256, dtype=torch.bfloat16)
    quantised = QuantisedLinear(linear)
    x = torch.randn(16, 512, dtype=torch.bfloat16)
    with torch.no_grad():
        expected, found = linear(x).float(), quantised(x).float()
    error = (found - expected).norm() / expected.norm()
    sizes = [sum(one.nbytes for one in module.state_dict().values()) / 1024 for module in (linear, quantised)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.bar(["bfloat16", "4 bits"], sizes)
    left.set(ylabel="KiB")
    right.plot(expected.flatten(), found.flatten(), ".", ms=2)
    right.set(xlabel="bfloat16", ylabel="4 bits", title=f"relative error {error:.0%}")
    figure.savefig("quantised_linear.png")
