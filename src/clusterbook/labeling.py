"""From a table to scaled features, from clusters to a saved model, and new rows into clusters.

A model is one ``.npz`` file without pickled objects: the preparation, and what a method needs to
label rows that it has not seen.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.mixture import GaussianMixture

from . import datasets, table
from .checks import InputError, one_of, said, whole
from .datasets import dataset, formats, own
from .datasets.dataset import listed
from .idc import IDC
from .paths import as_csv, write_atomically

HEAD = "row,cluster,margin\n"       # of the labels of new rows
FORMAT = "clusterbook model of a table, 1"
HOW = {"IDC": "by its network", "k-means": "by the nearest center",
       "Ward": "by the nearest centroid of Ward's clusters; Ward itself labels no new rows",
       "Gaussian mixture": "by the posterior"}
OUTSIDE = 0.2, 10   # share and number of new values that are rarely outside a range by chance
_MIXTURE = ("weights_", "means_", "precisions_cholesky_")


@dataclass(frozen=True)
class Preparation:
    """What turns the columns of a table, in its own units, into scaled features."""

    log2: bool                  # of each value plus 1
    reference: np.ndarray       # sorted values that each row gets, (n_columns,); or none
    kept: np.ndarray            # the columns that are clustered, as numbers
    shift: np.ndarray           # of each kept column, before it is divided by its scale
    scale: np.ndarray
    low: np.ndarray             # the smallest and largest value of each column in the table
    high: np.ndarray

    def __call__(self, units: ArrayLike) -> np.ndarray:
        """Rows in the table's units, (n_rows, n_columns), as float32 (n_rows, n_kept).

        Raises InputError for a DataFrame, whose columns could be in another order.
        """
        if isinstance(units, pd.DataFrame):
            raise InputError("give an array with the columns in the model's order: "
                             "frame[list(model.names)].to_numpy()")
        values = _transformed(units, self.log2, self.reference)[:, self.kept]
        return np.asarray((values - self.shift) / self.scale, dtype=np.float32)


def prepare(units: ArrayLike, *, log2: bool = False, quantile: bool = False,
            most_variable: int = 0, scaler: str = "standard") -> Preparation:
    """Learn a preparation from a table, (n_rows, n_columns); its steps in the order of arguments.

    With *quantile* each row gets the same distribution of values, the mean one (Bolstad et al.,
    Bioinformatics 19, 2003). *most_variable* columns, those of the largest variance by then, are
    kept; 0 keeps all. *scaler* is ``standard`` or ``minmax``.

    Raises InputError if a value is below 0 and its logarithm is asked for, here or of new rows.
    """
    one_of("scaler", scaler, ("standard", "minmax"))
    whole("most_variable", most_variable, 0)
    values = _transformed(units, log2, np.array([]))
    reference = np.sort(values, axis=1).mean(0) if quantile else np.array([])
    values = _transformed(units, log2, reference)
    kept = np.arange(values.shape[1])
    if 0 < most_variable < len(kept):
        kept = np.sort(np.argsort(-values.var(0), kind="stable")[:most_variable])
    values = values[:, kept]
    shift, scale = ((values.mean(0), values.std(0)) if scaler == "standard"
                    else (values.min(0), np.ptp(values, axis=0)))
    varies = scale > 1e-12 * np.abs(values).max(0)      # in any unit
    return Preparation(log2, reference, kept, shift, np.where(varies, scale, 1),
                       np.min(units, axis=0), np.max(units, axis=0))


def _transformed(units: ArrayLike, log2: bool, reference: np.ndarray) -> np.ndarray:
    values = np.asarray(units, dtype=np.float64)
    if log2 and values.min() < 0:
        raise InputError(f"log2(x + 1) needs values of at least 0, and the smallest is "
                         f"{values.min():.3g}; leave log2 out if logarithms were taken before")
    values = np.log2(values + 1) if log2 else values
    if not len(reference):
        return values
    return np.interp(rankdata(values, axis=1) - 1, np.arange(len(reference)), reference)


@dataclass
class Model:
    """A method's clusters of a table, for its rows and for new ones."""

    method: str                             # a key of `HOW`
    names: Sequence[str]                    # the columns that are needed, in order
    preparation: Preparation
    fitted: Any                             # an IDC, a GaussianMixture, or centers, (k, n_kept)
    reading: Mapping[str, Any] = field(default_factory=dict)    # settings of `datasets.read`

    def label(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Clusters of scaled rows, and margins from 0, between two clusters, to 1; (n_rows,) each.

        For two clusters or more. The margin is 1 - d1 / d2 with distances to the nearest two
        centers, or the difference of the two largest probabilities.
        """
        if isinstance(self.fitted, np.ndarray):
            distances = cdist(X, self.fitted)
            first, second = np.sort(distances, axis=1)[:, :2].T
            return distances.argmin(1), 1 - first / np.maximum(second, 1e-12)
        shares = self.fitted.predict_proba(X)
        second, first = np.sort(shares, axis=1)[:, -2:].T
        return shares.argmax(1), first - second

    def save(self, path: Path) -> None:
        """Write the model to a file; see `load`. Raises InputError if it can't be written."""
        arrays = {"clusterbook": np.array(FORMAT), "names": np.array(self.names, dtype=str),
                  "about": np.array(json.dumps({"method": self.method, "read": self.reading})),
                  **{f"prepare_{name}": np.asarray(value)
                     for name, value in vars(self.preparation).items()}}
        if isinstance(self.fitted, np.ndarray):
            arrays["centers"] = self.fitted
        elif isinstance(self.fitted, GaussianMixture):
            arrays |= {name: getattr(self.fitted, name) for name in _MIXTURE}
            arrays["kind"] = np.array(self.fitted.covariance_type)
        else:
            with tempfile.TemporaryDirectory() as folder:
                self.fitted.save(Path(folder, "idc.pt"))
                arrays["network"] = np.frombuffer(Path(folder, "idc.pt").read_bytes(), np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(path, buffer.getvalue(), noun="the model")


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a file of `Model.save`; InputError if it is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = dict(file)
        if str(found["clusterbook"]) != FORMAT:
            raise ValueError("it has another format")
        about = json.loads(str(found["about"]))
        preparation = Preparation(bool(found["prepare_log2"]), *(
            found[f"prepare_{name}"]
            for name in ("reference", "kept", "shift", "scale", "low", "high")))
        if "centers" in found:
            fitted = found["centers"]
        elif "network" in found:
            fitted = IDC.load(io.BytesIO(found["network"].tobytes()), device="cpu")
        else:
            fitted = GaussianMixture(len(found["weights_"]), covariance_type=str(found["kind"]))
            for name in _MIXTURE:
                setattr(fitted, name, found[name])
        return Model(about["method"], tuple(map(str, found["names"])), preparation, fitted,
                     about["read"])
    except Exception as error:          # numpy reports damage by half a dozen types
        raise InputError(f"{path} is no model that a run of idc_table wrote ({said(error)}); name "
                         "its file …-model.npz") from error


def fit(method: str, X: np.ndarray, k: int, seed: int, rows: np.ndarray, idc: IDC) -> Any:
    """What `Model` needs of a method, from scaled rows; Ward's clusters are those of *rows*."""
    if method == "IDC":
        return idc
    if method == "Gaussian mixture":
        return table.fitted_mixture(X, k, seed)
    X = X[rows] if method == "Ward" else X
    labels = table.METHODS[method](table.reduced(X), k, seed)
    return np.stack([X[labels == c].mean(0, dtype=np.float64) for c in np.unique(labels)])


def beside(data: datasets.Dataset, path: Path | None = None
           ) -> tuple[dict[str, np.ndarray], str]:
    """What is known about a table's rows besides features, as groups; and how a file was joined.

    The groups are texts, (n_rows,), by name: the classes, as ``class``; columns beside the
    features, such as ``obs`` of an .h5ad file, where one named ``class`` becomes ``class (beside)``
    if there are classes; those of a second file, by the first column that has all identifiers of
    the table, or, where it has none, by the order of the rows. Numeric columns with more than ten
    values become quarters of the rows. A missing value counts as one more. Columns with one value,
    or with more than half as many values as rows, are left out. Raises InputError if the rows can't
    be joined.
    """
    n_rows, how = len(data.X), ""
    frames = [pd.DataFrame() if data.beside is None else data.beside]
    found = {} if data.y is None else {"class": np.array(data.classes)[data.y]}
    if found:           # a column of that name is something else
        frames[0] = frames[0].rename(columns={"class": "class (beside)"})
    if path:
        second, how = _joined(path, data.ids, n_rows)
        known = {*found, *frames[0]}
        frames.append(second.rename(columns={name: f"{name} ({path.name})" for name in second
                                             if name in known}))
    for name, column in ((name, frame[name]) for frame in frames for name in frame):
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.notna().eq(column.notna()).all() and numbers.nunique() > 10:
            column = pd.qcut(numbers, 4, duplicates="drop")
        groups = column.astype(object).where(column.notna(), "missing").astype(str)
        if 1 < groups.nunique() <= n_rows / 2:
            found[name] = groups.to_numpy()
    return found, how


def _joined(path: Path, ids: Sequence[str] | None, n_rows: int) -> tuple[pd.DataFrame, str]:
    """The columns of a second file in the order of the table's rows, and how they were joined."""
    try:
        frame = formats.read(path, None).frame
    except Exception as error:          # a damaged file can break its reader anywhere
        raise InputError(f"the metadata {path} can't be read: {said(error)}") from error
    frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    frame, how = formats.cleaned(frame, formats.MISSING), (
        "by the order of the rows, because the table does not name its rows")
    if ids:
        if frame.empty:
            raise InputError(f"the metadata {path} has no rows")
        key = max(frame, key=lambda name: len({*ids} & {*frame[name].astype(str)}))
        absent = [one for one in ids if one not in {*frame[key].astype(str)}]
        if absent or frame[key].duplicated().any():
            why = (f"none has {ids[0]!r}; add a column of them" if len(absent) == len(ids) else
                   f"{key!r} lacks {len(absent):,} of {len(ids):,}: {listed(absent)}" if absent
                   else f"{key!r} repeats some")
            raise InputError(f"no column of {path.name} has each identifier of the table once; "
                             f"{why}")
        frame = frame.set_index(frame[key].astype(str)).drop(columns=key).loc[[*ids]]
        how = f"by the column {key!r}"
    if len(frame) != n_rows:
        raise InputError(f"{path.name} has {len(frame):,} rows, the table {n_rows:,}; give one for "
                         "each, in the same order, or name id_column")
    return frame, how


def apply(model: str, new: str) -> list[str]:
    """Label the rows of a table by a saved model, into ``NEW-labels.csv`` in this folder.

    Rows are named as in the first table, or else by the first column that is not used and has
    another text in each row. Returns what was done, and what to doubt, in sentences. Raises
    InputError if a column of the model is missing, or had numbers and has text now.
    """
    kept, target = load(model), Path(f"{Path(new).stem}-labels.csv")
    if target.exists() and not target.read_bytes().startswith(HEAD.encode()):
        raise InputError(f"{target} exists and holds other things; move it")
    texts = [text for text in kept.reading.get("texts", ())
             if any(name.startswith(f"{text}=") for name in kept.names)]
    made = tuple(f"{text}=" for text in texts)
    columns = [*(name for name in kept.names if not name.startswith(made)), *texts]
    given = {name: value for name, value in kept.reading.items()
             if name not in ("labels", "impute")} | {"features": columns, "texts": texts}
    with warnings.catch_warnings(action="ignore", category=UserWarning):    # told below
        context = copy_context()
        context.run(dataset.TYPED.set, True)
        found = context.run(own.read_table, new, **given)
    values = pd.DataFrame(found.X, columns=found.feature_names)
    values = values.reindex(columns=list(kept.names), fill_value=0)
    labels, margin = kept.label(kept.preparation(values.to_numpy()))
    named = [column for _, column in found.beside.items() if column.is_unique
             and column.notna().all() and pd.to_numeric(column, errors="coerce").isna().all()]
    frame = pd.DataFrame({"row": found.ids or (named[0] if named else range(len(labels))),
                          "cluster": labels, "margin": margin})
    write_atomically(target, as_csv(frame, float_format="%.4g").encode(), noun="the labels")
    sizes = ", ".join(f"{c}: {n}" for c, n in frame["cluster"].value_counts().sort_index().items())
    low, high = kept.preparation.low, kept.preparation.high
    share = ((values < 2 * low - high) | (values > 2 * high - low)).mean()      # a range beyond it
    foreign = [*share.index[share >= 0.5]]
    outside = ((values < low) | (values > high)).loc[:, [
        not name.startswith(made) for name in kept.names]].to_numpy()
    unseen = [name for name in found.feature_names if name not in values]
    done = [f"{len(frame):,} row{'s' * (len(frame) > 1)} labeled with the clusters of "
            f"{kept.method}, {HOW[kept.method]}. Rows of cluster {sizes}."]
    if foreign or (outside.sum() >= OUTSIDE[1] and outside.mean() > OUTSIDE[0]):
        done.append(f"Are the units the same? {outside.mean():.0%} of the values lie outside the "
                    "range of their column in the first table" + (
                        f", and at least half of the rows far outside it in {len(foreign):,} of "
                        f"{len(share):,} columns: {listed(foreign)}" if foreign else "") + ".")
    if unseen:
        done.append("Texts that the first table did not have count as none of its own: "
                    f"{listed(unseen)}.")
    unused = [name for name in found.beside if found.ids or not named or name != named[0].name]
    if unused:
        done.append(f"Columns that are not used: {listed(unused)}.")
    done += [f"Note: {note}." for note in found.notes]
    means = ("A margin of 0 is between two clusters, 1 well inside one; it does not tell whether a "
             "row is like any row of the first table." if np.ptp(margin) > 1e-6 or len(frame) == 1
             else f"All margins are {margin[0]:.2g}, so they do not say which rows are certain.")
    return [*done, means, f"Written: {target}"]
