"""Sorts with Thrust, whose headers are bound at run time: no wrapper, no build script."""

import matplotlib.pyplot as plt
import numpy as np
import tkjit

thrust = tkjit.bind("thrust/host_vector.h", "thrust/sort.h", "thrust/scan.h", namespaces="thrust")


if __name__ == "__main__":
    heights = np.random.default_rng(0).normal(171, 9, 2000)
    sample = thrust.host_vector(float)(heights)
    thrust.sort(sample.begin(), sample.end())  # compiles sort for this iterator, once
    ordered = np.asarray(sample)  # a view of the vector's memory
    assert (ordered == np.sort(heights)).all()

    totals = thrust.host_vector(float)(np.zeros(len(heights)))
    thrust.inclusive_scan(sample.begin(), sample.end(), totals.begin())
    assert np.allclose(np.asarray(totals), np.cumsum(ordered))

    plt.figure(figsize=(6, 3), layout="constrained")
    plt.plot(ordered, np.arange(1, len(ordered) + 1) / len(ordered))
    plt.gca().set(xlabel="height (cm)", ylabel="share that is at most as tall")
    plt.savefig("thrust_sort.png")
