"""Draw data/mnist-small.npz: 500 of each digit of MNIST's 60,000 training digits, in random order.

``python tests/mnist_small`` needs MNIST; ``clusterbook data mnist`` fetches it.
"""

from pathlib import Path

import numpy as np

from clusterbook import datasets

TARGET = Path(__file__).resolve().parents[2] / "data" / "mnist-small.npz"


def draw() -> dict[str, np.ndarray]:
    """Bytes of the pixels, classes, and the rows of MNIST that they are."""
    mnist, rng = datasets.load("mnist"), np.random.default_rng(0)
    y = mnist.y[:60_000]
    rows = rng.permutation(np.concatenate(
        [rng.choice(np.flatnonzero(y == digit), 500, replace=False) for digit in range(10)]))
    return {"X": np.round(mnist.X[rows] * 255).astype(np.uint8), "y": y[rows].astype(np.uint8),
            "rows": rows.astype(np.int32)}


if __name__ == "__main__":
    np.savez_compressed(TARGET, **draw())
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")
