# ruff: noqa: F401, F403
r"""IDC: clusters of a table's rows, with the features that each row and each cluster needs.

Svirsky & Lindenbaum, *Interpretable Deep Clustering for Tabular Data*, ICML 2024. An autoencoder
learns to reconstruct a sample from a few of its features, which a gating network chooses for that
sample; a clustering head then partitions the embeddings of the gated samples into compact clusters;
and an auxiliary classifier finds the features that a whole cluster needs.

Differences from the authors' code
----------------------------------
The paper is cited from its submission to ICLR 2024. Where paper and released code differ, the code
is the default, because it gave the published numbers (its configuration for MNIST and its results
are known); ``form="paper"`` selects the paper's form where a difference is marked (*form*).

In the losses:

- Reconstruction is the mean squared error of a feature; in the paper the L1 norm (*form*). All four
  terms have weight 1. Without gates the gated term equals the clean one, which thus counts twice.
- The noise of a gate has standard deviation 0.25; in the paper 0.5 (*form*).
- The sparsity penalty is a mean over features with a sigma of 1, whatever the noise is; in the
  paper a sum with 0.5 (*form*).
- The coding rate of the gates is that of a batch, with the factor d/(m eps), divided by m; the
  paper's formula has single samples, and d (m eps). A random projection is saved with the weights;
  there it is lost.
- The head's compression is weighted by the clusters' sizes, divided by the embedding's size, and
  computed on embeddings of length 1; in the paper a plain sum (*form*). Its precision ``eps`` is
  0.1 and the gates' 1; the paper has one for both.
- The weight of the global gates' penalty is constant and the learning rate 0.01 on MNIST; the paper
  has a rising one, and 0.1.
- The size of the embedding is free; in the paper it is the number of clusters.

In training:

- Numbers of epochs are exact. The released code, by a ``<=``, trains 11 + 290 epochs and 399 of the
  head, while the cosine of its learning rate ends after 300 epochs and rises again.
- In the second training the encoder's weights are frozen, but as in the released code it stays in
  training mode: each batch is normalized by its own statistics, and the running averages, which
  prediction uses, drift from those of the first training (clean, gated and masked inputs mixed) to
  those of the gated samples. With ``batch_norm="gated"`` they are set to the latter once and
  everything is frozen, which is faster; ``"mixed"`` leaves them as they are.
- Clean samples are encoded once a step, not twice: losses and gradients are the same, but
  running averages count clean inputs only once.
- The auxiliary classifier learns the head's clusters from before the head's step, not after.
- The keys ``gtcr_loss`` and ``use_gating``, which the released code never reads, take effect.
- Constant columns are left out (``constant_columns="keep"`` keeps them, as there).

In the reported numbers:

- The kept model is the one with the smallest loss of the head (``select``). The released code
  reports the epoch with the best accuracy on its training data, so it needs the classes; the paper
  speaks of the best silhouette, and of the best accuracy beside it.
- Accuracy uses the optimal matching; there a greedy one (``acc_greedy`` in the history). There the
  column headed Davies-Bouldin index is computed from silhouettes.
- The original's numbers of gates are sums of soft gates; the numbers of open gates stand beside
  them. For the measures of interpretability see `interpretability`.
"""

from .estimator import IDC as IDC
from .interpretability import *
from .losses import *
from .measurements import ExplanationMeasures, baselines, measurements, of_variant, thinned

VERSION = 1
"""The version of the method's numbers, raised when they change; see CONTRIBUTING.md."""
