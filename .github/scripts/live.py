"""Write what the live figures need of a recorded network: ``python .github/scripts/live.py``.

`layers` brings a network into few bytes: batch normalization is folded into the convolution before
it, a transposed convolution becomes a convolution of the stretched image, and each weight one of
255 numbers, with a scale for each output channel. ``book/assets/live/live.js`` computes with them.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from bookledger import load_records
from clusterbook import IDC, TELL, DeepCluster, datasets, metrics, paths
from clusterbook.deepcluster import clustering
from clusterbook.weights import coclustering

LIVE = paths.root() / "book" / "assets" / "live"
ACTIVATIONS = {nn.ReLU: "relu", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh"}


def packed(array: Any, kind: str = "<f4") -> str:
    """An array's bytes in base64; its numbers as *kind*, by default float32."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode()


@torch.no_grad()
def layers(network: nn.Sequential) -> list[dict[str, Any]]:
    """The layers of an encoder or decoder in evaluation mode, in the order of computation.

    ``shape`` is (outputs, inputs) or (outputs, inputs, 3, 3), ``stretch`` what a convolution
    multiplies the side of its input by before, ``stride`` what it divides that by. Computed in
    float64: in float32 the last bit of a square root depends on the processor.
    """
    found: list[dict[str, Any]] = []
    for part in network:
        if isinstance(part, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            weight, stride = part.weight.double(), getattr(part, "stride", (1,))[0]
            turned = isinstance(part, nn.ConvTranspose2d)
            if turned:
                weight = weight.transpose(0, 1).flip(2, 3)
            found.append({"weight": weight, "bias": part.bias.double(),
                          "activation": "none", "stretch": stride if turned else 1,
                          "stride": 1 if turned else stride})
        elif isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            factor = part.weight.double() / (part.running_var.double() + part.eps).sqrt()
            last = found[-1]
            last["weight"] *= factor.reshape(-1, *[1] * (last["weight"].ndim - 1))
            last["bias"] = (last["bias"] - part.running_mean) * factor + part.bias
        elif type(part) in ACTIVATIONS:
            found[-1]["activation"] = ACTIVATIONS[type(part)]
    for layer in found:
        weight = layer.pop("weight")
        scale = weight.flatten(1).abs().max(1).values.clamp(min=1e-12) / 127
        steps = (weight.flatten(1) / scale[:, None]).round()
        layer |= {"shape": list(weight.shape), "scale": packed(scale),
                  "bias": packed(layer["bias"]), "weight": packed(steps, "i1")}
    return found


def tell() -> dict[str, Any]:
    """TELL's network of 800 epochs on MNIST, of the first seed, its clusters, stored digits.

    Clusters are in the order of the chapter's figures, by the digits matched to them. ``holds`` has
    each cluster's most frequent digit, and others above a fifth. The digits are the first of each
    class, and of each class the one whose two nearest centers are most nearly equally near.
    """
    record = next(one for one in load_records() if one.profile == "tell-mnist-800")
    home = paths.root() / "data" / "records"
    model = TELL.load(home / f"{record.name}.pt")
    data = datasets.load("mnist")
    with np.load(home / f"{record.name}.npz") as arrays:
        counts = metrics.contingency(data.y, arrays["labels"])      # (digits, clusters)
    order = metrics.match(counts)[:, 1]
    cosines = np.sort(model.transform(data.X) @ model.cluster_centers_.T, axis=1)
    margins = cosines[:, -1] - cosines[:, -2]
    classes = [np.flatnonzero(data.y == digit) for digit in range(len(counts))]
    digits = [int(own[0]) for own in classes] + [int(own[margins[own].argmin()]) for own in classes]
    holds = [", ".join(f"{share:.0%}\u00a0{digit}s" for share, digit in
                       sorted(zip(own, data.classes, strict=True), reverse=True)
                       if share == own.max() or share > 0.2)
             for own in (counts / counts.sum(0)).T[order]]
    return {
        "profile": record.profile, "seed": record.seed,
        "far": round(float(np.quantile(cosines[:, -1], 0.01)), 3),
        "centers": model.cluster_centers_[order].astype(float).round(6).tolist(),
        "holds": holds,
        "digits": [packed((data.X[i] * 255).round(), "u1") for i in digits],
        "encoder": layers(model.network_.encoder), "decoder": layers(model.network_.decoder)}


def short(values: Any) -> list[float]:
    """Numbers with seven digits, as many as float32 has."""
    return [float(f"{value:.7g}") for value in values]


def gated(profile: str, rows: datasets.Dataset, means: np.ndarray, deviations: np.ndarray,
          names: list[str]) -> dict[str, Any]:
    """IDC's network of seed 0, how its rows are scaled, some rows, and what each cluster holds.

    Of two clusters these are the first two rows of the most frequent class, the first of another,
    and the two with the smallest margins; of more, one of each. ``holds`` is a cluster's most
    frequent class, by *names*, and its share.
    """
    record = next(one for one in load_records() if (one.profile, one.seed) == (profile, 0))
    model = IDC.load(paths.root() / "data" / "records" / f"{record.name}.pt", device="cpu")
    X = rows.X.astype(np.float64)
    scaled = ((X - means) / deviations).astype(np.float32)
    logits = model.model_.head(torch.tensor(model.transform(scaled)))
    shares, labels = np.sort(logits.softmax(1).detach().numpy()), logits.argmax(1).numpy()
    margins = shares[:, -1] - shares[:, -2]
    counts = metrics.contingency(labels, rows.y)        # (clusters, classes)
    chosen, many = [], 2 if len(counts) == 2 else 1
    for cluster, own in enumerate(counts):
        members = np.flatnonzero(labels == cluster)
        usual, near = rows.y[members] == own.argmax(), members[margins[members].argsort()]
        chosen += [*members[usual][:many], *members[~usual][:1], *near[:many]]
    return {
        "profile": record.profile, "seed": record.seed,
        "means": short(means), "deviations": short(deviations),
        "least": short(X.min(0)), "largest": short(X.max(0)),
        "holds": [f"{own.max() / own.sum():.0%}\u00a0{names[own.argmax()]}" for own in counts],
        "rows": [{"name": f"{i + 1} ({rows.classes[rows.y[i]]}"
                          f"{', small margin' if margins[i] < 0.9 else ''})",
                  "values": short(X[i])} for i in chosen],
        "gating": layers(model.model_.gating.layers),
        "encoder": layers(model.model_.autoencoder.encoder), "head": layers(model.model_.head)}


def idc() -> dict[str, Any]:
    """IDC's networks of the breast-cancer table and of scikit-learn's digits.

    A group of measurements has one of each kind: ``names`` has all groups' first kind, then all
    groups' second. The digits' pixels are one group, a picture of ``side`` rows.
    """
    table, digits = datasets.load("breast_cancer"), datasets.load("digits")
    X, measured = table.X.astype(np.float64), list(table.feature_names)
    pixels = [f"row {1 + j // 8}, column {1 + j % 8}" for j in range(64)]
    return {
        "breast_cancer": {
            "one": "row", "names": measured, "kinds": ["mean", "error", "worst"],
            "groups": [name.removeprefix("mean ") for name in measured[:10]],
            **gated("idc-breast_cancer", table, X.mean(0), X.std(0), list(table.classes))},
        "digits": {
            "one": "digit", "names": pixels, "groups": ["Pixels"], "side": 8,
            **gated("idc-digits-network", digits, np.zeros(64), np.ones(64),
                    [f"{digit}s" for digit in digits.classes]),
            "least": [0] * 64, "largest": [1] * 64}}


def weights() -> dict[str, Any]:
    """A layer of the kept network of the original's training, with the library's clusters.

    ``ranges`` are the ends of the chart by number of clusters: what the library's shuffles and the
    layer have, and half of that on either side.
    """
    record = next(one for one in load_records() if one.profile == "weights-mnist" and not one.seed)
    stored = torch.load(paths.root() / "data" / "records" / f"{record.name}.pt", weights_only=True)
    W, seed = np.abs(stored["3.weight"].numpy()), record.seed
    labels, cuts, ranges, ticks = {}, {}, {}, {}
    for k in range(2, 9):
        test = coclustering.null_tests(W, k, n_shuffles=50, random_state=seed)["cut"]
        found = coclustering.WeightCoclustering(k, random_state=seed).fit(W)
        labels[k] = [found.row_labels_.tolist(), found.column_labels_.tolist()]
        cuts[k] = float(found.normalized_cut_)
        low, high = np.quantile([*test.null, test.value], [0, 1])
        ranges[k] = [float(end.round(2)) for end in (1.5 * low - high / 2, 1.5 * high - low / 2)]
        low, high = ranges[k]
        step = 0.01 if high - low < 0.08 else 0.02
        ticks[k] = short(np.arange(low + step, high - step / 2, step))
    return {"profile": record.profile, "seed": seed, "cuts": cuts, "ranges": ranges,
            "ticks": ticks, "labels": labels, "weights": packed(W)}


def deepcluster() -> dict[str, Any]:
    """Features of images by the kept network on MNIST and by the same one before its training.

    They are the first two whitened principal components, which are not brought to length 1; the
    corner of each, beyond its points, is where eight centers can start. The
    images are the first 50 of each digit in ``mnist-small``, in their order, 14 × 14 pixels.
    """
    record = next(one for one in load_records()
                  if one.profile == "deepcluster-mnist" and not one.seed)
    trained = DeepCluster.load(paths.root() / "data" / "records" / f"{record.name}.pt",
                               device="cpu")
    data = datasets.load("mnist-small")
    chosen = np.sort(np.concatenate([np.flatnonzero(data.y == digit)[:50] for digit in range(10)]))
    before = clone(trained).set_params(epochs=0, random_state=record.seed).fit(data.X)
    before.pixel_mean_, before.pixel_std_ = trained.pixel_mean_, trained.pixel_std_
    features = [torch.from_numpy(model.features(data.X[chosen])) for model in (before, trained)]
    planes = [clustering.reduce(part, clustering.fit_reduction(part, 2, normalize=False))
              for part in features]
    corner = np.array([[0.6 + 0.13 * (c % 4), 0.9 + 0.13 * (c > 3)] for c in range(8)])
    small = data.X[chosen].reshape(-1, 14, 2, 14, 2).mean((2, 4))
    return {"profile": record.profile, "seed": record.seed, "names": list(data.classes),
            "classes": data.y[chosen].tolist(),
            "corners": [(plane.abs().max().item() * corner).round(5).tolist() for plane in planes],
            "features": [plane.double().numpy().round(5).tolist() for plane in planes],
            "images": packed((small * 255).round(), "u1")}


def script(name: str, content: dict[str, Any]) -> str:
    """The file that a page loads, as a script: a page that is opened from a file loads no other."""
    lines = ",\n".join(f"  {key}: {json.dumps(value)}" for key, value in content.items())
    return ("// Written by .github/scripts/live.py, which says what is in it.\n"
            f"live.networks.{name} = {{\n{lines}\n}};\n")


if __name__ == "__main__":
    for figure in (tell, idc, weights, deepcluster):
        (LIVE / f"{figure.__name__}-weights.js").write_text(
            script(figure.__name__, figure()), encoding="utf-8")
