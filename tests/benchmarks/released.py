"""The released training loops of TELL and IDC as they are written, which ours are measured against.

XLearning-SCU/2022-JMLR-TELL at 53df64d and jsvir/idc at 6288558, with their own settings; only the
frameworks around them are left out, which log.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from PIL import Image
from sklearn.metrics import (
    adjusted_rand_score,
    davies_bouldin_score,
    normalized_mutual_info_score,
    silhouette_score,
)
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import ToTensor

from clusterbook.idc.interpretability import greedy_accuracy
from clusterbook.tell import ConvAutoencoder


class _Images(Dataset):
    """As torchvision's MNIST hands out a sample: bytes to a picture to a tensor."""

    def __init__(self, images: np.ndarray):
        self.images, self.transform = images, ToTensor()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(Image.fromarray(self.images[index], mode="L"))


def tell(images: np.ndarray, alpha: float = 0.001) -> None:
    """Two epochs, one of either kind, of bytes (n_samples, 28, 28); loops over samples included."""
    network, layer = ConvAutoencoder((1, 28, 28)), nn.Linear(10, 10, bias=False)
    network.to(memory_format=torch.contiguous_format)
    for part in (network.encoder, network.decoder):
        part[[type(m).__name__ for m in part].index("_ChannelsLast")] = nn.Identity()
    optimizer = torch.optim.Adadelta([*network.parameters(), *layer.parameters()])
    loader = DataLoader(_Images(images), batch_size=256, shuffle=True, drop_last=True)
    for epoch in range(2):
        for batch in loader:
            x = batch.flatten(1)
            z = network.encode(x)
            logits = layer(z) if epoch % 2 == 1 else layer(z.detach())
            soft = functional.softmax(logits.detach(), dim=1)
            delta = torch.zeros(len(x), 10)
            for i in range(len(x)):
                delta[i, torch.argmax(soft[i, :])] = 1
            clustering = 0.01 / alpha * (2 * alpha - torch.mul(delta, logits)).mean()
            reconstruction = functional.mse_loss(x, network.decode(z))
            optimizer.zero_grad()
            (reconstruction + clustering).backward()
            if epoch % 2 == 0:
                layer.weight.grad = functional.normalize(layer.weight.grad, dim=1) * 0.2 * alpha
            else:
                layer.zero_grad()
            optimizer.step()
            layer.weight.data = functional.normalize(layer.weight.data, dim=1) * 2 * alpha
            clustering.item()
            reconstruction.item()


class _Rows(Dataset):
    def __init__(self, X: np.ndarray, y: np.ndarray):
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.X[index]).float(), torch.tensor(self.y[index]).long()


class Idc(nn.Module):
    """The networks, losses and steps of ``cfg_mnist.yaml``, for 10 clusters."""

    def __init__(self, n_features: int):
        super().__init__()
        self.encoder = _dense(n_features, 512, 512, 2048, 10)
        self.decoder = _dense(10, 2048, 512, 512, n_features)
        self.head, self.auxiliary = _dense(10, 2048, 10), _dense(n_features, 2048, 10)
        self.local_gates = nn.Sequential(nn.Linear(n_features, 784), nn.Tanh(),
                                         nn.Linear(784, n_features), nn.Tanh()).apply(_small)
        self.global_gates = nn.Embedding(10, n_features)
        nn.init.normal_(self.global_gates.weight, std=0.01)

    def pretraining(self, x: Tensor, weight: float | None) -> Tensor:
        """The loss of the first training; without gates where *weight* is None."""
        gates, loss = torch.ones_like(x), 0
        if weight is not None:
            noise = torch.normal(mean=0, std=0.5, size=x.size())
            mu = self.local_gates(x)
            gates = torch.clamp(mu + 0.5 * noise + 0.5, 0, 1)
            W = gates.T
            p, m = W.shape
            rate = torch.logdet(torch.eye(p) + p / m * W.matmul(W.T)) / 2
            penalty, rate = _penalty(mu), -rate / x.size(0)
            penalty.item(), rate.item()
            loss = weight * penalty + 0.01 * rate
        mask = torch.ones(x.size()).float()
        clean = functional.mse_loss(self.decoder(self.encoder(x)), x)
        gated = functional.mse_loss(self.decoder(self.encoder(x * gates)), x)
        mask[torch.rand(x.size()) < 0.9] = 0
        masked = functional.mse_loss(self.decoder(self.encoder(x * mask)), x)
        e = self.encoder(x)
        e = e * torch.normal(mean=1.0, std=0.01, size=e.size())
        noised = functional.mse_loss(self.decoder(e), x)
        for term in (clean, gated, masked, noised):
            term.item()
        return loss + clean + gated + masked + noised

    def gated(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return x * torch.clamp(self.local_gates(x) + 0.5, 0, 1)

    def compression(self, x: Tensor) -> Tensor:
        """The loss of the head; its gradient runs through the encoder too, which no one uses."""
        z = self.encoder(self.gated(x))
        logprobs = torch.log_softmax(self.head(z), dim=-1)
        gumbel = torch.rand_like(logprobs).log().mul(-1).log().mul(-1)
        Pi = ((logprobs + gumbel) / 100).softmax(dim=1).T.reshape((10, 1, -1))
        W = functional.normalize(z).T
        p, m = W.shape
        unit = torch.eye(p).expand((10, p, p))
        sizes = Pi.sum(2) + 1e-8
        W = W.view((1, p, m))
        rates = torch.logdet(unit + (p / (sizes * 0.1)).view(10, 1, 1)
                             * W.mul(Pi).matmul(W.transpose(1, 2)))
        loss = (sizes.squeeze() * rates / (2 * m)).sum() / z.size(1)
        loss.item()
        return loss

    def of_global_gates(self, x: Tensor) -> Tensor:
        x = self.gated(x)
        y = self.head(self.encoder(x)).argmax(dim=-1)
        noise = torch.normal(mean=0, std=0.5, size=x.size())
        mu = torch.tanh(self.global_gates(y))
        gates = torch.clamp(mu + 0.5 * noise + 0.5, 0, 1)
        penalty = _penalty(torch.tanh(self.global_gates(y)))
        loss = functional.cross_entropy(self.auxiliary(x * gates), y)
        penalty.item(), loss.item()
        return loss + 1e-4 * penalty


def idc(X: np.ndarray, y: np.ndarray, *, epochs: int, pretrained: int, plain: int,
        joint: int) -> None:
    """All of a run: its stages begin after the epochs *plain*, *pretrained* and *joint*."""
    model, data = Idc(X.shape[1]), _Rows(X, y)
    loader = DataLoader(data, batch_size=100, shuffle=True, drop_last=True)
    steps = len(loader)
    first = torch.optim.Adam([*model.encoder.parameters(), *model.decoder.parameters(),
                              *model.local_gates.parameters()], 1e-3)
    second = torch.optim.Adam(model.head.parameters(), 1e-2)
    third = torch.optim.SGD([*model.auxiliary.parameters(), *model.global_gates.parameters()], 1e-2)
    schedules = [CosineAnnealingLR(first, steps * pretrained, 1e-6),
                 CosineAnnealingLR(second, steps * (epochs - pretrained), 1e-6)]
    for epoch in range(epochs):
        model.train()
        rise = 0.5 * (1 + np.cos((epoch - pretrained) * np.pi / (pretrained - plain)))
        for x, _ in loader:
            if epoch <= pretrained:
                descend(first, model.pretraining(x, rise if epoch > plain else None))
                schedules[0].step()
                continue
            descend(second, model.compression(x))
            if epoch >= joint:
                descend(third, model.of_global_gates(x))
            schedules[1].step()
        if epoch % 10 == 9:
            _validate(model.eval(), data, epoch >= pretrained - 1)


@torch.no_grad()
def _validate(model: Idc, data: Dataset, scored: bool) -> None:
    found = []
    for x, y in DataLoader(data, batch_size=100):
        z = model.encoder(model.gated(x))
        torch.clamp(model.local_gates(x) + 0.5, 0, 1).sum(dim=1).median(dim=0)[0].item()
        found.append((model.head(z).argmax(dim=-1), y, z))
    labels, y, z = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
    if not scored:
        return
    greedy_accuracy(y, labels)
    normalized_mutual_info_score(y, labels)
    adjusted_rand_score(y, labels)
    if len(np.unique(labels)) > 1:
        silhouette_score(z, labels)
        davies_bouldin_score(z, labels)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _dense(*widths: int) -> nn.Sequential:
    layers = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-2]).apply(_small)


def _small(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.001)


def _penalty(mu: Tensor) -> Tensor:
    return torch.mean(0.5 - 0.5 * torch.erf((-1 / 2 - mu) / np.sqrt(2)))
