"""Every demonstration of an erratum fails once the defect in it is repaired.

All repairs are made at once, in one run of each audit page's last section: a check that holds then
would hold whatever the source says, and demonstrates nothing.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat

from bookledger import load_expectations, page

PAGES = sorted((Path(__file__).resolve().parents[1] / "book" / "audit").glob("*.ipynb"))

#: check -> what stands in its demonstration, or in what this one uses, and what the repair is.
REPAIRS = {
    "tell-eq-eight": ("- beta[:3])", "- beta[:, None])"),
    "tell-decoupled": ("tied = -(w ** 2).sum(1) / 4 +", "tied ="),
    "tell-theorem-two": ("(2 - (unit @ weight.T).max(1)", "(2 - (unit @ weight.T).min(1)"),
    "tell-theorem-one": ("tau, x = 0.01,", "tau, x = 10.0,"),
    "tell-theorem-one-terms": ("terms = z.softmax(0) * (2 - z)", "terms = 2 - z"),
    "tell-theorem-one-z": ("(outputs - 2) / tau)", "outputs / tau)"),
    "tell-lemma-two": ("eta / gradient * gradient ", "eta * gradient / np.linalg.norm(gradient) "),
    "tell-other-algorithm": ("moved = moved / np.linalg.norm(moved)", "moved = 1 * moved"),
    "tell-hyper-parameters": ("optimizer=torch.optim.Adadelta",
                              "optimizer=lambda rows: torch.optim.SGD(rows, lr=1.0)"),
    "tell-lambda": ("code = reconstruction.mean() + 0.01 * clustering.mean()",
                    "code = (reconstruction.sum() + 0.01 * clustering.sum()) / batch / pixels"),
    "tell-printed-scale": ("0.01 * (2 - delta * 2 * cosine).mean()", "2 - 2 * cosine"),
    "tell-internal": ("other = rng.permutation(digits.y)", "other = digits.y"),
    "tell-membership": ("rng.random((4, 784))", "rng.random((4, 10))"),
    "tell-kmeans-row": ('table_1 = {"k-means": (78.32, 77.75, 70.53)}',
                        'table_1 = {"k-means": (55.34, 53.20, 40.28)}'),
    "tell-raw-row": ('("acc", 0.5534), ("nmi", 0.5320), ("ari", 0.4028)',
                     '("acc", 0.5349), ("nmi", 0.4999), ("ari", 0.3668)'),
    "tell-zac": ("lowest >= 0.1 > 0.0524", "lowest >= 0.1 > 0.1524"),
    "tell-one-seed-ablation": ("abs(81.08 -", "abs(61.08 -"),
    "tell-adam-rows": ("relative_step(0.001, torch.optim.Adam,",
                       "relative_step(0.001, torch.optim.SGD,"),
    "tell-code-matching": ("class_of[labels - labels.min()]", "class_of[labels]"),
    "tell-code-more-clusters": ("k = len(set(y))", "k = len(set(y) | set(labels))"),
    "tell-code-decoding": ("decoder.train(mode)", "decoder.train(False)"),
    "tell-code-centers": ("self.layer, self.centers = torch.nn.Linear(10, 10, bias=False), "
                          "torch.rand(10, 10)",
                          "self.layer = torch.nn.Linear(10, 10, bias=False)\n"
                          "        self.register_buffer('centers', torch.rand(10, 10))"),
    "tell-code-zero-gradients": ("torch.zeros(4) if zeros else None", "None"),
    "tell-code-resume": ("saved = epoch if", "saved = epoch + 1 if"),
    "tell-code-ten": ("torch.zeros(256, 10)", "torch.zeros(256, 5)"),
    "tell-notebook-scores": ("0.9516 - max(accuracies)", "0.7 - max(accuracies)"),
    "tell-notebook-pictures": ("[12, 37, 72]", "[37, 12, 72]"),
    "tell-notebook-names": ("names = [numbers.randint(0, 100) for", "names = [epoch for"),
    "tell-head-loss": ("(2 * alpha - chosen).mean() / alpha", "(2 * alpha - chosen).sum()"),
    "tell-head-alpha": None,  # by the same repair
    "tell-head-scaled": ("(0.5 / alpha * head_weight(3", "(0.5 * head_weight(3"),
    "tell-head-gradient": ("F.normalize(parameter.grad, dim=1) * 0.2 * alpha",
                           "F.normalize(parameter.grad, dim=1) * 0.1"),
    "tell-head-soft": ("head_weight(ten, 0.001).T)", "head_weight(ten, 10.0).T)"),
    "idc-kmeans-floor": ("KMeans(4, n_init=10, random_state=0).fit_predict(X))",
                         "rng.integers(0, 4, len(y)))"),
    "idc-diversity-of-paper": ("[1 - ordered / (K * (K - 1) / 2)", "[1 - ordered / (K * (K - 1))"),
    "idc-diversity-released": ("for a in features for b in features)",
                               "for i, a in enumerate(features) for j, b in enumerate(features)"
                               " if i != j)"),
    "idc-lambda-product": ("lambda B: 8 * B * eps", "lambda B: 8 / (B * eps)"),
    "idc-single-gram": ("coding_rate(z[None], 1.0)", "coding_rate(gates, 1.0)"),
    "idc-maximize": ("return sum(\n        coding_rate(dir",
                     "return -sum(\n        coding_rate(dir"),
    "idc-gates-rate-opens": ("coding_rate(2 * gates,", "coding_rate(gates,"),
    "idc-epochs": ("epoch <= 300", "epoch < 300"),
    "idc-reconstruction": ("np.abs(feature[:, None] - guesses).sum(0)",
                           "((feature[:, None] - guesses) ** 2).sum(0)"),
    "idc-regularizer": ("[norm.cdf(mu + 0.5),", "[norm.cdf((mu + 0.5) / 0.25),"),
    "idc-head-weights": ("(sizes * rates)[1] / (sizes * rates).sum()", "rates[1] / rates.sum()"),
    "idc-temperature": ("scale * logits / 100", "scale * logits"),
    "idc-best-epoch": ("max(accuracies) - accuracies[-1]", "accuracies[-1] - accuracies[-1]"),
    "idc-frozen": ("frozen.train()(batch)", "frozen.eval()(batch)"),
    "idc-mixed-statistics": ("for inputs in (batch, batch * mask):  #",
                             "for inputs in (batch,):  #"),
    "idc-dbi": ("np.mean(sorted(silhouettes)[:10])", "np.mean(sorted(indices)[:10])"),
    "idc-global-gates": ("rng.normal(0, 0.01, (10, 784))", "rng.normal(-1, 0.01, (10, 784))"),
    "idc-local-gates": ("gates[:, :30] = 0.5", "gates[:, :30] = 1.0"),
    "idc-greedy": ("return right / np.sum(table)", "return metrics.accuracy(classes, clusters)"),
    "idc-accuracy-ten": ("def cost_matrix(counts, k=10)", "def cost_matrix(counts, k=4)"),
    "idc-faithfulness": ("mask[feature] = 0", "mask = 1.0 * (np.arange(len(mask)) != feature)"),
    "idc-ten-thousand": ("for i in range(10_000)", "for i in range(len(few))"),
    "idc-equal-samples": ("[[0.0], [0.0], [1.0]]", "[[0.0], [0.5], [1.0]]"),
    "idc-learning-rate": ("T_max=300,", "T_max=301,"),
    "idc-silhouette-lengths": ("on_circle * lengths[:, None]", "on_circle"),
    "idc-biases": ("in vars(linear).keys()", "in dict(linear.named_parameters())"),
    "idc-projection": ("self.plain = torch.randn(4, 2)",
                       "self.register_buffer('plain', torch.randn(4, 2))"),
    "idc-unordered-classes": ("set(sorted(['zygote',", "sorted(set(['zygote',"),
    "deepcluster-sampler": ("of_reassigned = np.repeat(np.arange(6), sizes)",
                            "of_reassigned = labels"),
    "deepcluster-empty-list": ("rng.choice([], 10,", "rng.choice([1], 10,"),
    "deepcluster-zero-row": ("features / np.linalg.norm(features, axis=1)[:, None]",
                             "features / (1e-9 + np.linalg.norm(features, axis=1)[:, None])"),
    "deepcluster-whitening-rank": ("rng.normal(size=(100, 300))", "rng.normal(size=(1000, 300))"),
    "deepcluster-nmi-default": ('average_method="geometric"', 'average_method="arithmetic"'),
    "deepcluster-resume": ("for key in state:", "for key in list(state):"),
    "deepcluster-article-resize": ("v2.Resize(256)", "v2.Resize((256, 256))"),
    "deepcluster-article-filters": ("[part.out_channels\n", "[part.kernel_size[0]\n"),
    "deepcluster-article-contrast": ("[2, 0, -2]", "[2, 1, -2]"),
    "deepcluster-article-trained": ("as_printed.weight.data.copy_(sobel)",
                                    "as_printed.weight.data.copy_(sobel)\n"
                                    "as_printed.weight.requires_grad_(False)"),
    "deepcluster-unmatched": ("(numbers == digits.y).mean()",
                              "metrics.accuracy(digits.y, numbers)"),
    "weights-original-pairs": ("for labels in (found,",
                               "for labels in ((together.row_labels_, together.column_labels_),"),
    "weights-original-dead-neuron": ("W[3] = 0", "W[3] = 1"),
    "weights-original-first-vector": ("np.abs(U[:, 0])", "np.abs(U[:, 1])"),
    "weights-original-seed": ("    layer = torch.nn.Linear(128",
                              "    torch.manual_seed(0)\n    layer = torch.nn.Linear(128"),
    "weights-l1-for-l2": ("rate * weight.abs().sum()", "rate * weight.square().sum()"),
    "weights-label-entropy": ("[entropy(labels) for", "[entropy(np.bincount(labels)) for"),
    "weights-inter-columns": ("1 - mask]", "~mask]"),
    "weights-nmi-side": ('side="left"):', 'side="right"):'),
    "weights-rescaling": ("np.repeat([10.0, 1.0], 4)", "np.repeat([1.0, 1.0], 4)"),
    "weights-arpack": ("svd_method=solver", 'svd_method="randomized"'),
}


def run(sources: list[str]) -> dict[str, bool]:
    """Each check of the cells and whether it holds; nothing else is shown."""
    names, held = {"__name__": "errata", "evidence": page("errata")}, {}
    for source in sources:
        tree = ast.parse(source)
        shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        call = ast.unparse(shown) if shown else ""
        if found := re.match(r"evidence\.check\('([^']+)'", call):
            held[found[1]] = bool(eval(call, names))
    return held


def demonstrations(path: Path) -> list[str]:
    """The code cells below the heading Errata."""
    cells = nbformat.read(path, as_version=4).cells
    start = next(i for i, cell in enumerate(cells) if cell.source.startswith("## Errata"))
    return [cell.source for cell in cells[start:] if cell.cell_type == "code"]


def test_every_demonstration_fails_once_its_defect_is_repaired():
    held: dict[str, bool] = {}
    for path in PAGES:
        cells = demonstrations(path)
        for name, repair in REPAIRS.items():
            if repair is None or not name.startswith(f"{path.stem}-"):
                continue
            there = [i for i, source in enumerate(cells) if repair[0] in source]
            assert len(there) == 1 and cells[there[0]].count(repair[0]) == 1, f"{name}: {there}"
            cells[there[0]] = cells[there[0]].replace(*repair)
        held |= run(cells)
    assert set(held) == {f"errata-{name}" for name in REPAIRS}
    assert set(held) == {e.id for e in load_expectations() if e.chapter == "errata"}
    assert not [name for name, holds in held.items() if holds]
