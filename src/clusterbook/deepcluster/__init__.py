# ruff: noqa: F401, F403
"""DeepCluster: visual features learned by alternating k-means and training on its labels.

Caron, Bojanowski, Joulin, Douze, *Deep Clustering for Unsupervised Learning of Visual Features*,
ECCV 2018. `estimator` has one training in its five steps (sections 3.2 to 3.4), `clustering` PCA,
k-means and sampling, `networks` images, networks and linear probes.

Differences from the authors' code
----------------------------------
The code is written for Python 2 and PyTorch 0.1.8, and does not run on a current version.

- Sampling is uniform over the clusters. The released sampler is meant to be, but mixes up two
  orders of the images and draws clusters by nearly their natural shares: ``sampling="natural"`` is
  closer to it. Images of a cluster smaller than its share appear equally often; there they are
  drawn with replacement.
- K-means starts from k-means++ on a random part of the images; there faiss starts from random ones.
- An empty cluster takes part of a random other one, whose center is moved to either side. In the
  paper that center stays; the released code leaves it to faiss, which splits large clusters.
- PCA whitens to variance 1; faiss to 1/n, which the normalization to length 1 undoes. A component
  of rounding noise, and an image of length 0, become 0; there the latter becomes NaN. Of more than
  100,000 images the PCA is fitted to a random part.
- NMI is normalized by the geometric mean of the entropies, as the paper says; the released script
  calls scikit-learn's default, since 0.22 the arithmetic mean.
- After the last epoch the images are clustered once more, by the final network. A last batch of one
  image is left out: batch normalization needs two.
- A killed run resumes after its last epoch; the released code can't on Python 3.
- Images of a folder are turned as the camera noted, which torchvision's reader does not do.
- Pixels are normalized by the data's own means; with ``pixel_statistics="imagenet"`` by ImageNet's.
- Linear probes are fitted by L-BFGS with a penalty, on standardized activations of one view; there
  by gradient descent, for 90 epochs on random crops.
- The small network, `networks.ConvNet`, is not from the paper.

As in the released code, features are those before the last ReLU, computed in evaluation mode; each
epoch has a new classifier, which is trained without momentum; images that are clustered are not
augmented; 200 epochs are the default (500 in the paper's runs).
"""

from .clustering import epoch_indices, fit_reduction, kmeans, reduce, split_empty
from .estimator import DeepCluster as DeepCluster
from .estimator import churn, geometric_nmi
from .measurements import *
from .networks import *

VERSION = 1
"""The version of the method's numbers, raised when they change; see CONTRIBUTING.md."""
