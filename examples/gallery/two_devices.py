"""Adds up the gradients of two devices, as data-parallel training does after each step."""

import matplotlib.pyplot as plt
import torch
import tkjit

all_reduce = tkjit.load("all_reduce")


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    devices = [f"cuda:{i}" for i in range(2)] if gpus >= 2 else ["cpu", "cpu"]  # the simulator has any number
    torch.manual_seed(0)
    x, wanted = torch.randn(256, 8), torch.randn(8)
    y = x @ wanted
    # each device has its own copy of the weights, and half of the data
    weights = [torch.zeros(8, device=device) for device in devices]
    parts = [(x[i::2].to(device), y[i::2].to(device)) for i, device in enumerate(devices)]
    signals = [torch.zeros(64, dtype=torch.int32, device=device) for device in devices]
    losses = []
    for _ in range(40):
        errors = [own @ weight - target for (own, target), weight in zip(parts, weights)]
        gradients = [own.T @ error / len(x) for (own, _), error in zip(parts, errors)]
        all_reduce(gradients, signals)  # both devices now have the sum, with the same bits
        assert torch.equal(gradients[0].cpu(), gradients[1].cpu())
        weights = [weight - 0.5 * gradient for weight, gradient in zip(weights, gradients)]
        losses.append(sum(float(error.square().sum()) for error in errors) / len(x))
    plt.figure(figsize=(6, 3), layout="constrained")
    plt.semilogy(losses)
    plt.gca().set(xlabel="step", ylabel="mean squared error", title=" and ".join(devices))
    plt.savefig("two_devices.png")
