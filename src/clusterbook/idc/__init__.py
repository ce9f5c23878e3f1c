r"""IDC: clusters of a table's rows, with the features that each row and each cluster needs.

Svirsky & Lindenbaum, *Interpretable Deep Clustering for Tabular Data*, ICML 2024. An autoencoder
learns to restore a sample from a few of its features, which a gating network chooses for that
sample; a clustering head then divides the embeddings of the gated samples, so that each cluster
takes up little room; and an auxiliary classifier finds the features that a whole cluster needs.
`losses` has gates and losses as pure functions under their equations, `networks` the networks,
`estimator` the training in its four stages and what a user calls, `config` reads the original's
files, and `interpretability` measures what gates tell. The paper's generated data are
`clusterbook.datasets.make_synthetic`.

Differences from the authors' code
----------------------------------
What is said of the paper was read in its submission to ICLR 2024. Where paper and released code
differ, the code is what gave the published numbers (its configuration for MNIST is known, and so
are its results), and is the default; a keyword in brackets asks for the paper's form.

In the losses:

- Reconstruction is the mean squared error of a feature; in the paper the L1 norm
  (``reconstruction="l1"``). All four terms count alike. While there are no gates the gated term is
  the clean one, which so counts twice.
- The noise of a gate has standard deviation 0.25, because the code draws 0.5 and takes half;
  in the paper 0.5 (``gate_noise``).
- The sparsity penalty is a mean over features with a sigma of 1, whatever the noise is, so that it
  lies between 0.309 and 0.933; in the paper a sum with 0.5 (``regularizer="paper"``).
- The coding rate of the gates is that of a batch, with the factor d/(m eps), divided by m; the
  paper's formula has single samples, and d (m eps). Here it is evaluated on the smaller side of the
  matrix by Cholesky's factorization. A random projection is drawn from the run's own seed and saved
  with the weights; there it comes from NumPy's global generator and is lost.
- The head's compression is weighted by the clusters' sizes, divided by the embedding's size, and of
  embeddings of length 1; in the paper a plain sum (``compression="paper"``). Its precision ``eps``
  is 0.1 and the gates' 1; the paper has one for both.
- The weight of the global gates' penalty is constant and the learning rate 0.01 on MNIST; the paper
  has a rising one, and 0.1. The weight of the local gates' rises in both.
- The size of the embedding is free, 10 or 128 in the released configurations; in the paper it is
  the number of clusters.

In training:

- Numbers of epochs are what was asked for: 10 without gates, 290 with them, 400 of the head, the
  last 300 of these with global gates. The released code, by a ``<=``, trains 11 + 290 epochs and
  399 of the head, while the cosine of its learning rate ends after 300, and so turns up again.
- In the second training the encoder's weights are frozen, but as in the released code it stays in
  training mode: each batch is normalized by itself, and the running averages, by which it predicts,
  go on moving, from those of the first training, which mix clean, gated and masked inputs, to those
  of the gated samples. With ``batch_norm="gated"`` they are set to the latter once and everything
  is frozen, which is faster; ``"mixed"`` leaves them as they are.
- Clean samples are encoded once a step, not twice; batch normalization still sees each kind of
  input by itself, so losses and gradients are the same, and only its running averages count clean
  inputs once.
- The auxiliary classifier is taught the clusters that the head found before its step, not after;
  so the head runs once a step, and its running averages move once.
- What no gradient needs is not differentiated; data live in one tensor on the device; nothing is
  read from the device within an epoch.
- The keys ``gtcr_loss`` and ``use_gating``, which the released code never reads, do what they say,
  and so does ``save_seed_checkpoints``, which ends there in an error.
- Constant columns are left out (``constant_columns="keep"`` treats them as there).

In what is reported:

- The model that is kept is the one with the smallest loss of the head (``select``). The released
  code reports the epoch with the best accuracy on the data that it trains on, so it needs the
  classes; the paper speaks of the best silhouette, and of the best accuracy beside it.
- Accuracy is by the best matching; there by a greedy one (``acc_greedy`` in the history). The
  column of the original's table that is headed by the Davies-Bouldin index is computed from the
  silhouettes; here the index is of the embeddings. Both are of embeddings as they are, as there,
  although the head is trained on their directions.
- The original's numbers of gates are sums of soft gates (see `open_features`); the numbers of open
  gates stand beside them.
- What is different in the measures of interpretability stands in `interpretability`.
"""

from __future__ import annotations

from .estimator import IDC
from .interpretability import (
    cluster_features,
    diversity,
    faithfulness,
    generalizability,
    greedy_accuracy,
    open_features,
    selection_f1,
    stability,
    uniqueness,
)
from .losses import (
    compression_paper,
    compression_released,
    gate_coding_loss,
    gumbel_softmax,
    hard_gates,
    open_probability,
    random_projection,
    reconstruction_terms,
    regularizer_paper,
    regularizer_released,
    sparsity_weight,
    stochastic_gates,
    total_coding_rate,
)
from .networks import Autoencoder, GatingNetwork, GlobalGates

__all__ = [
    "IDC",
    "Autoencoder",
    "GatingNetwork",
    "GlobalGates",
    "cluster_features",
    "compression_paper",
    "compression_released",
    "diversity",
    "faithfulness",
    "gate_coding_loss",
    "generalizability",
    "greedy_accuracy",
    "gumbel_softmax",
    "hard_gates",
    "open_features",
    "open_probability",
    "random_projection",
    "reconstruction_terms",
    "regularizer_paper",
    "regularizer_released",
    "selection_f1",
    "sparsity_weight",
    "stability",
    "stochastic_gates",
    "total_coding_rate",
    "uniqueness",
]
