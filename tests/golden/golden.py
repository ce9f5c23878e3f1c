"""The committed numbers of the fits, ``numbers/METHOD.json``, with which `make test` compares.

The fits run in double precision, in which all labels and counts are the same, for the seeds 0 to 10
of every fit, with the instructions of AVX-512, AVX2 and SSE4 (``tests/_processors.py``, on an AMD
EPYC); other numbers differ by at most 4e-7 of their root mean square (November 2026). `WITHIN` is
25 times that. In single precision a third of the fits end in other labels.
"""

import hashlib
import json
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from fits import flat

from clusterbook import base, classifier
from clusterbook.checks import one_of

HERE = Path(__file__).parent
NUMBERS = HERE / "numbers"
#: Method → its fits by name; a bfloat16 is none in double precision.
GOLDEN = {path.stem: {name: fit for name, fit in import_module(f"fits.{path.stem}").FITS.items()
                      if "bfloat16" not in name}
          for path in sorted((HERE / "fits").glob("[!_]*.py"))}
LARGE = 200_000     # numbers: of larger arrays every hundredth or so counts
WITHIN = 1e-5       # of a number, or of a root mean square, but at least of 0.001


@contextmanager
def in_double() -> Iterator[None]:
    """Train in double precision, so that the rounding of another processor changes no label."""
    validated, samples = base.DeepClusterer._validated, classifier._samples

    def wide(*given: Any, **more: Any) -> np.ndarray:
        return validated(*given, **more).astype(np.float64)

    def wide_samples(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        X, y = samples(*given)
        return X.double(), y

    with (mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
          mock.patch.object(base.DeepClusterer, "_validated", wide),
          mock.patch.object(classifier, "_samples", wide_samples)):
        torch.set_default_dtype(torch.float64)
        try:
            with mock.patch.object(torch, "set_default_dtype"):     # `seeded` would narrow it
                yield
        finally:
            torch.set_default_dtype(torch.float32)


def numbers(arrays: Mapping[str, np.ndarray]) -> dict[str, list[Any]]:
    """What is committed of a fit: of each part a hash of what is exact in it, and its floats.

    A part is an array, a column of a history, or a part of a network. Of several floats there are
    the mean, the root mean square, and the product with a cosine, which changes when they change
    places; of very many, every hundredth or so counts.
    """
    exact, floats = defaultdict(list), defaultdict(list)
    for name, array in arrays.items():
        part = ".".join(re.sub(r"\[\d+\]", "", name).split(".")[:3])
        if array.dtype.kind != "f":
            exact[part] += [name, array.shape, array.tolist()]
            continue
        x = array.ravel()[::1 + array.size // LARGE].astype(np.float64)
        if not (finite := np.isfinite(x)).all():
            exact[part] += [name, x[~finite].tolist(), np.flatnonzero(~finite).tolist()]
        floats[part].append(np.where(finite, x, 0))
    found = {part: [hashlib.sha256(repr(values).encode()).hexdigest()[:8]]
             for part, values in exact.items()}
    for part, arrays in floats.items():
        x = np.concatenate(arrays)
        wave = np.cos(np.arange(x.size)) / x.size ** 0.5
        kept = x if x.size <= 1 else [x.mean(), np.mean(x ** 2) ** 0.5, x @ wave]
        found[part] = [*found.get(part, ()), *(float(f"{value:.7g}") for value in kept)]
    return found


def golden(method: str, name: str) -> dict[str, list[Any]]:
    """The present `numbers` of a fit in double precision."""
    with in_double(), warnings.catch_warnings(action="ignore"):
        return numbers(dict(flat(GOLDEN[method][name]())))


def stored(method: str) -> dict[str, Any]:
    """The committed numbers of a method: ``fits``, by name, and ``version``, of which they are."""
    path = NUMBERS / f"{method}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {"version": 0, "fits": {}}


def version(method: str) -> int:
    """The present ``VERSION`` of a method."""
    return import_module(f"clusterbook.{method}").VERSION


def differences(before: Mapping[str, list], found: Mapping[str, list]) -> list[str]:
    """In which parts two `numbers` of a fit differ, and how."""
    told = [f"{part}: only {'before' if part in before else 'now'}"
            for part in sorted(before.keys() ^ found.keys())]
    for part in sorted(before.keys() & found.keys()):
        (exact, *old), (also, *new) = ([None, *one] if not one or isinstance(one[0], float) else one
                                       for one in (before[part], found[part]))
        scale = max(abs(new[len(new) // 2]), 1e-3) if new else 0    # the second of three
        if exact != also:
            told.append(f"{part}: other labels, counts or words")
        if len(old) != len(new) or not np.allclose(old, new, 0, WITHIN * scale):
            told.append(f"{part}: {old} before, {new} now")
    return told


def write(methods: Sequence[str] = ()) -> int:
    """Write the golden numbers of methods, by default of all; the status for the shell.

    What still holds stays as it is, and what a version already has is not replaced.
    """
    for method in methods:
        one_of("method with fits", method, GOLDEN)
    refused = []
    for method in methods or GOLDEN:
        committed, present = stored(method), version(method)
        written, wrong = {}, []
        for name in GOLDEN[method]:
            before, found = committed["fits"].get(name, {}), golden(method, name)
            changed = differences(before, found)
            if committed["version"] == present:
                wrong += [f"{name}: {one}" for one in changed if not one.endswith("only now")]
            written[name] = found if changed else before
        refused += wrong
        if not wrong:
            lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}"
                               for name, one in written.items())
            (NUMBERS / f"{method}.json").write_text(
                f'{{"version": {present},\n "fits": {{\n{lines}}}}}\n', encoding="utf-8")
    if refused:
        print(*refused, "These numbers changed: raise VERSION of the method, or mend its code.",
              sep="\n")
    return int(bool(refused))
