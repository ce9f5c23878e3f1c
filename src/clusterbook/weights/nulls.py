"""Null models: what the same weights would show without their arrangement.

A search for clusters always finds some. Whether a layer has clusters is a question about the same
search on the same weights in random places (Filan et al., arXiv:2103.03386, section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..checks import as_seed
from ..errors import InputError
from ..progress import bar
from .coclustering import WeightCoclustering, as_weights, normalized_cut, share_inside


def shuffle(W: ArrayLike, random_state=None, *, keep_zeros: bool = False) -> np.ndarray:
    """Permute a layer's weights: the same values, no structure.

    Parameters
    ----------
    W : array-like of shape (n_rows, n_columns)
    random_state : int, RandomState instance or None
    keep_zeros : bool
        Permute the non-zero weights among their own places only, so that a pruned layer keeps its
        pattern of connections (the "layer_nonzero" null of Filan et al.).

    Returns
    -------
    ndarray of shape (n_rows, n_columns)

    Examples
    --------
    >>> np.sort(shuffle([[1, 2], [3, 4]], 0), axis=None)
    array([1., 2., 3., 4.])
    """
    W = as_weights(W).copy()
    rng = check_random_state(random_state)
    places = W != 0 if keep_zeros else np.ones(W.shape, dtype=bool)
    W[places] = rng.permutation(W[places])
    return W


@dataclass(frozen=True)
class NullTest:
    """One value against its distribution under a null model.

    Attributes
    ----------
    value : float
        Of the network.
    null : ndarray of shape (n_shuffles,)
        Of the shuffled networks, or of other random versions.
    larger : bool
        Whether large values are the remarkable ones; by default small ones are.
    """

    value: float
    null: np.ndarray
    larger: bool = False

    @cached_property
    def z(self) -> float:
        """Effect size: distance from the null's mean in its standard deviations.

        Negative below the mean; 0 where the value and the whole null are one number.
        """
        # Of equal numbers, mean and deviation are off by a rounding error: look at the range.
        if _equal(self.null, self.null[0]).all():
            distance = self.value - self.null[0]
            return 0.0 if _equal(distance, 0) else float(np.copysign(np.inf, distance))
        return float((self.value - self.null.mean()) / self.null.std(ddof=1))

    @cached_property
    def p(self) -> float:
        """Share of values at least as remarkable, the network's own counted: (r + 1) / (n + 1)."""
        beyond = self.null >= self.value if self.larger else self.null <= self.value
        beyond |= _equal(self.null, self.value)
        return float((1 + beyond.sum()) / (1 + len(self.null)))

    @property
    def smallest_p(self) -> float:
        """The smallest p that this many shuffles can give, however strong the effect."""
        return 1 / (1 + len(self.null))


def _equal(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Equal but for rounding: the same quantity summed in another order is a tie."""
    return np.isclose(a, b, rtol=1e-9, atol=1e-12)


def check_shuffles(number: int) -> None:
    """Refuse a null model of fewer than two values: it would have no spread."""
    if number < 2:
        raise InputError(f"a null model needs at least 2 random versions to have a spread, "
                         f"not {number}")


def _share_of_squares(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike) -> float:
    return share_inside(W, row_labels, column_labels, power=2)


#: What is measured of a clustered layer, and whether large values are the remarkable ones.
STATISTICS: dict[str, tuple[Callable[..., float], bool]] = {
    "cut": (normalized_cut, False),
    "share": (share_inside, True),
    "share_of_squares": (_share_of_squares, True),
}


def null_tests(
    W: ArrayLike,
    n_clusters: int = 2,
    *,
    n_shuffles: int = 50,
    keep_zeros: bool = False,
    method: str = "joint",
    random_state: int | None = None,
    progress: bool | None = None,
) -> dict[str, NullTest]:
    """Are a layer's best clusters better than those of its own weights in random order?

    The network and every shuffle are clustered anew by the same estimator, so that both sides have
    had the same chance to find blocks. Neurons without weights are left out first: a shuffle would
    bring them back, and compare the layer with larger ones.

    Parameters
    ----------
    W : array-like of shape (n_rows, n_columns)
    n_clusters, method
        See `WeightCoclustering`.
    n_shuffles : int
        At least 2; p can't be smaller than 1 / (n_shuffles + 1).
    keep_zeros : bool
        See `shuffle`.
    random_state : int or None
        Decides the shuffles and the starts of the clustering.
    progress : bool, optional
        Show a bar; by default only where a person watches.

    Returns
    -------
    dict of str to NullTest
        ``cut``: the normalized cut, small for good clusters; ``share`` and ``share_of_squares``:
        the share of the absolute and of the squared weight inside clusters, large for good ones.

    Raises
    ------
    InputError
        For fewer than 2 shuffles, and for what `WeightCoclustering` refuses.
    """
    check_shuffles(n_shuffles)
    seed = as_seed(random_state)
    rng = check_random_state(seed)

    def measured(weights: np.ndarray) -> list[float]:
        found = WeightCoclustering(n_clusters, method, random_state=seed).fit(weights)
        return [float(statistic(weights, found.row_labels_, found.column_labels_))
                for statistic, _ in STATISTICS.values()]

    W = as_weights(W)
    W = W[np.ix_(W.any(1), W.any(0))]
    values = measured(W)
    shuffles = bar(range(n_shuffles), "shuffles", progress=progress)
    null = np.array([measured(shuffle(W, rng, keep_zeros=keep_zeros)) for _ in shuffles])
    return {name: NullTest(values[i], null[:, i], larger)
            for i, (name, (_, larger)) in enumerate(STATISTICS.items())}


def null_test(W: ArrayLike, n_clusters: int = 2, **options) -> NullTest:
    """The test of the normalized cut alone; see `null_tests` for the parameters."""
    return null_tests(W, n_clusters, **options)["cut"]
