r"""DeepCluster: visual features, learned by alternating k-means with training on its labels.

Caron, Bojanowski, Joulin, Douze, *Deep Clustering for Unsupervised Learning of Visual Features*,
ECCV 2018. All images are clustered by the features that a convolutional network computes; the
network is trained to predict the cluster of augmented images; and again. `images` has what can be
clustered and its augmentation, `networks` the networks and linear probes, `clustering` PCA, k-means
and sampling (sections 3.2 to 3.4 of the paper), `estimator` one training in its five steps and what
a user calls.

Differences from the authors' code
----------------------------------
The code is written for Python 2 and PyTorch 0.1.8, and does not run on a current version.

- Sampling is uniform over the clusters. The released sampler is meant to do the same, but its
  indices count images in the order of the data set, and it is used on a data set ordered by
  cluster: unless the images' order has to do with their clusters, these are drawn by nearly their
  natural shares, so ``sampling="natural"`` is closer to that code. Of a cluster smaller than its
  share each image appears equally often, to within one; there it is drawn with replacement.
- K-means starts from k-means++ on a random part of the images; there from random images. faiss,
  with the released settings, is ``kmeans_backend="faiss"``.
- An empty cluster takes part of a random other one: that one's center is moved to either side, and
  its images are divided between the two (``reassign_empty``). In the paper the other center stays,
  and the empty cluster takes a perturbed copy of it. The released code leaves that to faiss, which
  splits large clusters; its authors have said that nothing prevents empty clusters, and later that
  faiss does. An earlier version ended there in an error.
- PCA whitens to variance 1; faiss by the scatter matrix, to variance 1/n, which the normalization
  to length 1 undoes. A component of rounding noise, and an image of length 0, become 0; there the
  latter becomes NaN. Of more than ``pca_samples`` images the PCA is fitted to a random part, so
  that the features of all images need not be held, 21 GB for ImageNet's, as there.
- NMI is normalized by the geometric mean of the entropies, as the paper says. The released script
  calls scikit-learn's default, which was that until 0.22 and is the arithmetic mean since.
- After the last epoch the images are clustered once more, by the final network; the released code
  ends with the clusters that its last epoch learned.
- A killed run resumes after its last epoch; the released code can't resume on Python 3, where it
  changes a dictionary while looping over it.
- A last batch of one image is left out: batch normalization needs two.
- Pixels are normalized by the data's own means; with ``pixel_statistics="imagenet"`` by ImageNet's.
- Sobel filters are constants of the network, not layers without a gradient.
- Linear probes are fitted by L-BFGS with a penalty, on standardized activations of one view; there
  by gradient descent, for 90 epochs on random crops.
- The small network (`ConvNet`) is not from the paper; its dense layer starts from Kaiming's normal
  weights, those of AlexNet and VGG-16 from a deviation of 0.01, as in the released code.

As in the released code, features are those before the last ReLU, computed in evaluation mode (with
batch normalization's running averages and without dropout); each epoch has a new classifier with
its own optimizer without momentum, while the network's optimizer goes on; images that are clustered
are not augmented; 200 epochs are the default, where the paper's runs had 500.
"""

from __future__ import annotations

from .clustering import (
    Clusters,
    Reduction,
    assign,
    churn,
    epoch_indices,
    fit_reduction,
    geometric_nmi,
    kmeans,
    reduce,
    split_empty,
)
from .estimator import DeepCluster
from .images import augment, clustering_transform, training_transform
from .networks import VGG16, AlexNet, ConvNet, Sobel

__all__ = [
    "AlexNet",
    "Clusters",
    "ConvNet",
    "DeepCluster",
    "Reduction",
    "Sobel",
    "VGG16",
    "assign",
    "augment",
    "churn",
    "clustering_transform",
    "epoch_indices",
    "fit_reduction",
    "geometric_nmi",
    "kmeans",
    "reduce",
    "split_empty",
    "training_transform",
]
