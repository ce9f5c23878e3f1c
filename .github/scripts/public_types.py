"""A program that uses what the package exposes, for ``mypy --strict``; package.sh checks it."""

from __future__ import annotations

from typing import Any, assert_type

from matplotlib.figure import Figure
from numpy.typing import NDArray

from clusterbook import IDC, TELL, DeepCluster, WeightCoclustering, datasets, figures, metrics
from clusterbook.datasets import Dataset

data = assert_type(datasets.load("digits"), Dataset)
X = assert_type(data.X, NDArray[Any])
assert data.y is not None
model = assert_type(TELL(n_clusters=10, random_state=0).fit(X), TELL)
assert_type(model.predict(X), NDArray[Any])
assert_type(TELL.load("model.pt"), TELL)
assert_type(IDC.load("model.pt"), IDC)
assert_type(DeepCluster.load("model.pt"), DeepCluster)
assert_type(WeightCoclustering(n_clusters=2).fit([X]), WeightCoclustering)
assert_type(metrics.scores(data.y, model.predict(X)), dict[str, float])
figures.show(Figure(), name="one", alt="An empty figure.", caption="Nothing.")
