# ruff: noqa: F401, F403
r"""TELL: k-means as the last layer of an encoder, with centers that a decoder draws.

Peng, Li, Tsang, Zhu, Lv, Zhou, *XAI Beyond Classification: Interpretable Neural Clustering*,
JMLR 23(6), 2022. An autoencoder maps a sample to a point on the unit sphere; a linear layer whose
rows are the cluster centers compares it with all of them; the largest output names the cluster.
`layer` has the layer, its losses (section 2.2 of the paper) and the autoencoders (section 4.2),
`estimator` the training (sections 2.3 and 4.1).

Differences from the authors' code
----------------------------------
- The data live in one tensor on the device; the one-hot assignment and its loop over samples are
  one maximum. Losses, gradients and steps are the same: the tests hold a literal transcription.
- A batch normalization sees the centers only in evaluation mode. The released code decodes them in
  training mode and so moves its running statistics.
- The centers are saved with the layer's weights; there ``tSNE.py`` predicts with random ones.
- In epochs that leave the centers alone their gradient is removed, so the optimizer's averages of
  them stay, as in the released code from PyTorch 2.0 on; under the paper's 1.7 they decayed.
- A resumed run goes on after its last epoch; the released code repeats that epoch.
- Two-stage training, fixed features, online data and Adam have no released code; where the paper
  leaves them open, the estimator's docstring says what is done.
- One fit is one start. The paper takes the one with the smallest clustering loss, ``loss_``, of
  five.
"""

from .estimator import TELL as TELL
from .layer import *
from .measurements import baselines, measurements, of_variant, online

VERSION = 1
"""The version of the method's numbers, raised when they change; see CONTRIBUTING.md."""
