"""One's own table: each form is read as it is, or refused with one clear sentence."""

from __future__ import annotations

import gzip
import json
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat
from scipy.sparse import csc_matrix

from clusterbook import datasets, evidence
from clusterbook.datasets.loaders import SOURCES
from clusterbook.errors import InputError
from clusterbook.evidence.verdicts import is_stale, present_data

FLOWERS = "length,width,species\n1.5,2,rose\n2.5,-3e-1,lily\n4,7,rose\n"
PLANTS = "plant,height,soil\nP1,1.5,clay\nP2,,sand\nP3,4,\nP4,2.5,clay\n"
SAMPLES = np.arange(6.0).reshape(3, 2)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("CLUSTERBOOK_RUN", raising=False)


@pytest.fixture
def put(tmp_path) -> Callable[..., Path]:
    def write(text: str | bytes, name: str = "my.csv") -> Path:
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return tmp_path / name

    return write


@pytest.fixture
def npz(tmp_path) -> Callable[..., Path]:
    def write(**arrays: object) -> Path:
        np.savez(tmp_path / "my.npz", **arrays)
        return tmp_path / "my.npz"

    return write


def read(path: object, **settings: object) -> datasets.Dataset:
    """The data set, whose notes are its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = datasets.read(path, **settings)
    assert tuple(str(one.message) for one in caught) == data.notes
    assert all(one.category is UserWarning and one.filename == __file__ for one in caught)
    assert data.X.flags.c_contiguous and data.X.dtype == np.float32
    assert data.source.n_features == data.X.shape[1] == len(data.feature_names)
    return data


def refused(path: object, *words: str, **settings: object) -> str:
    """The message of the error: one sentence with these words in it, and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(InputError) as caught:
            datasets.read(path, **settings)
    message = str(caught.value)
    assert message.isprintable()
    for word in words:
        assert word in message, message
    return message


# --- CSV ---------------------------------------------------------------------------------------


FORMS = {
    "plain": FLOWERS, "bom": "\ufeff" + FLOWERS, "windows": FLOWERS.replace("\n", "\r\n"),
    "semicolon": FLOWERS.replace(",", ";"), "tab": FLOWERS.replace(",", "\t"),
    "spaces": FLOWERS.replace(",", " , "), "blank": "\n" + FLOWERS.replace("\n", "\n\n"),
    "quoted": re.sub(r"[^,\n]+", r'"\g<0>"', FLOWERS)}


@pytest.mark.parametrize("form", FORMS)
def test_a_csv_is_read_in_each_of_its_forms(put, form):
    data = read(put(FORMS[form], "MY.CSV" if form == "blank" else "my.csv"), labels="species")
    expected = np.array([[1.5, 2], [2.5, -0.3], [4, 7]], dtype=np.float32)
    np.testing.assert_array_equal(data.X, expected)
    assert data.feature_names == ("length", "width") and data.notes == ()
    assert data.y.tolist() == [1, 0, 1] and data.y.dtype == np.int64
    assert data.classes == ("lily", "rose")
    assert data.image_shape is None and data.train_size is None and data.ids is None
    source = data.source
    assert source.name.lower() == "my.csv" and source.license == "your own" and not source.files
    assert (source.n_samples, source.n_features, source.n_classes) == (3, 2, 2)


@pytest.mark.parametrize(("text", "names", "X"), [
    ("weight; kg,height; cm\n1,2\n3,4\n", ("weight; kg", "height; cm"), [[1, 2], [3, 4]]),
    ("weight, kg;height, cm\n1;2\n3;4\n", ("weight, kg", "height, cm"), [[1, 2], [3, 4]]),
    ("a, b\tc\n1\t2\n3\t4\n", ("a, b", "c"), [[1, 2], [3, 4]]),
    ('"a, ""x""\nb",c\n1,2\n3,4\n', ('a, "x"\nb', "c"), [[1, 2], [3, 4]]),
    ("a\n1\n2\n", ("a",), [[1], [2]]),
    ("1,2.5\n3,4\n", ("column 1", "column 2"), [[1, 2.5], [3, 4]]),  # a sample, not names
    ("0,1,2\n5,6,7\n7,8,9\n", ("0", "1", "2"), [[5, 6, 7], [7, 8, 9]]),  # names: they count
    ("1,?,3\n5,6,7\n7,8,9\n", ("1", "?", "3"), [[5, 6, 7], [7, 8, 9]]),
    ("a,b\nTrue,1e25\nFalse,3\n", ("a", "b"), [[1, np.float32(1e25)], [0, 3]]),
    ("id,a\n4,1\n4,1.5\n5,2\n", ("id", "a"), [[4, 1], [4, 1.5], [5, 2]]),  # no identifiers
    ("kid,id\n4,1.5\n7,2\n", ("kid", "id"), [[4, 1.5], [7, 2]]),
])
def test_separator_names_and_values(put, text, names, X):
    data = read(put(text))
    assert data.feature_names == names and data.X.tolist() == X and data.y is None


@pytest.mark.parametrize(("name", "content", "note"), [
    ("my.csv", "a;b\n1,5;-2\n,25;3e1\n", "decimal commas"),
    ("my.csv", "1,5;-2,0\n0,25;3,0e1\n", "decimal commas"),  # no names, and commas fit too
    ("my.tsv", "a\tb\n1,5\t-2\n,25\t3e1\n", "decimal commas"),
    ("MY.CSV.GZ", gzip.compress(b"a,b\n1.5,-2\n.25,3e1\n", mtime=0), ""),
    ("my.csv", "a,b\r1.5,-2\r.25,3e1\r", ""),
    ("my.csv", "a,b\n1.5,-2\n.25,3e1\n".encode("utf-16"), ""),
    ("my.csv", "é,b\n1.5,-2\n.25,3e1\n".encode("cp1252"), "not UTF-8"),
], ids=["semicolons", "no names", "tabs", "gzip", "old Mac", "UTF-16", "Windows-1252"])
def test_a_table_from_another_country_or_program(put, name, content, note):
    data = read(put(content, name))
    assert data.X.tolist() == [[1.5, -2], [0.25, 30]]
    assert data.feature_names in {("a", "b"), ("é", "b"), ("column 1", "column 2")}
    assert len(data.notes) == bool(note) and note in "".join(data.notes)


NUMBER = st.floats(-(2.0**100), 2.0**100, width=32)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(NUMBER, min_size=width, max_size=width), min_size=2)
    ),
    separator=st.sampled_from(",;\t"), comma=st.booleans(), quoted=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)
def test_any_numbers_go_round(tmp_path_factory, rows, separator, comma, quoted, end, encoding):
    cells = [[f"g{i}" for i in range(len(rows[0]))], *[[repr(one) for one in row] for row in rows]]
    if comma and separator != ",":
        cells = [[cell.replace(".", ",") for cell in row] for row in cells]
    if quoted:
        cells = [[f'"{cell}"' for cell in row] for row in cells]
    path = tmp_path_factory.mktemp("round") / "my.csv"
    path.write_bytes(end.join(separator.join(row) for row in cells).encode(encoding))
    np.testing.assert_array_equal(read(path, constant="keep").X, np.array(rows, dtype=np.float32))


CELL = st.one_of(
    st.sampled_from(["1", "2", "1.5", "1,5", "", "NA", "x", "inf", '"', '"a"', '"1,5"', "1e400",
                     "True", "id", "y", "\n", "\r", ";", "\t", "9" * 30, "0x1", "1_0", " ", "\0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=5),
    separator=st.sampled_from(",;\t"), text=st.sampled_from(["refuse", "one-hot"]),
    impute=st.sampled_from([None, "median"]), id_column=st.sampled_from([None, "id"]),
)
def test_any_text_is_a_data_set_or_one_sentence(tmp_path_factory, rows, separator, **settings):
    path = tmp_path_factory.mktemp("any") / "my.csv"
    path.write_bytes("\n".join(separator.join(row) for row in rows).encode())
    try:
        data = read(path, **settings)
    except InputError as error:
        assert str(error).isprintable()
    else:
        names = data.feature_names
        assert np.isfinite(data.X).all() and data.X.shape[1] == len(set(names)) == len(names)
        assert data.ids is None or len(set(data.ids)) == len(data.X)


# --- labels, features, identifiers, gaps, text ---------------------------------------------------


def test_a_column_is_taken_for_the_labels_by_its_name(put):
    for name in ("label", "CLASS", "Target", "y"):
        data = read(put(FLOWERS.replace("species", name)))
        assert data.classes == ("lily", "rose") and data.feature_names == ("length", "width")
    data = read(put("length,labels\n1,0\n2,1\n"))
    assert data.y is None and data.classes == () and data.feature_names == ("length", "labels")


def test_features_are_used_in_the_order_given(put):
    path = put("a,y,b,c\n1,2,3,4\n5,6,7,8\n")
    data = read(path, features=["c", "y"])
    assert data.feature_names == ("c", "y") and data.X.tolist() == [[4, 2], [8, 6]]
    assert data.y is None
    data = read(path, features=["c"])  # the labels are found beside them
    assert data.classes == ("2", "6") and data.X.tolist() == [[4], [8]]
    other = put("id,city,b,note\n1,Paris,inf,x\n5,,,z\n")  # unused columns may hold anything
    assert read(other, features=["id"]).X.tolist() == [[1], [5]]


@pytest.mark.parametrize(("labels", "classes", "y"), [
    (("10", "9", "10"), ("9", "10"), [1, 0, 1]),  # by value, not by letter
    (("1.0", "2", "1"), ("1", "2"), [0, 1, 0]),
    (("1.5", "-1", "1.50"), ("-1", "1.5"), [1, 0, 1]),
    (("1", "b", "a"), ("1", "a", "b"), [0, 2, 1]),
    (("none", "é", "none"), ("none", "é"), [0, 1, 0]),
    (("90071992547409921", "90071992547409922", "90071992547409921"),
     ("90071992547409921", "90071992547409922"), [0, 1, 0]),
    (("9" * 25, "9" * 24 + "8", "9" * 25), ("9" * 24 + "8", "9" * 25), [1, 0, 1]),
])
def test_labels_are_numbers_or_text(put, labels, classes, y):
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    data = read(put("a,kind\n" + rows), labels="kind")
    assert data.classes == classes and data.y.tolist() == y


@pytest.mark.parametrize(("text", "id_column", "ids", "features", "classes"), [
    ("id,a,y\n007,1,u\n08,2,v\n", "id", ("007", "08"), ("a",), ("u", "v")),
    (",a\nr1,1\nr2,2\n", "Unnamed: 0", ("r1", "r2"), ("a",), ()),  # as R writes names of rows
    ("y,b\n1,2\n3,4\n", "y", ("1", "3"), ("b",), ()),  # not taken for the labels
])
def test_identifiers_are_kept_and_are_no_feature(put, text, id_column, ids, features, classes):
    data = read(put(text), id_column=id_column)
    assert (data.ids, data.feature_names, data.classes) == (ids, features, classes)


def test_constant_columns_are_dropped_with_a_warning_or_kept(put):
    # b's values are one value to float32
    path = put("a,b,c,label\n1,16777216,7,x\n2,16777217,7,x\n")
    data = read(path)
    assert data.feature_names == ("a",) and data.X.tolist() == [[1], [2]]
    assert len(data.notes) == 1 and "left out: 'b', 'c'; constant='keep'" in data.notes[0]
    kept = read(path, constant="keep")
    assert kept.feature_names == ("a", "b", "c") and kept.X.shape == (2, 3) and not kept.notes
    refused(path, "no feature", "'b', 'c'", "constant='keep'", features=["b", "c"])


def test_gaps_are_filled_in_and_text_becomes_features_if_asked(put):
    path = put(PLANTS)
    refused(path, "text in 1 of 2", "text='one-hot'", id_column="plant")
    refused(path, "missing values", "'height (1)', 'soil (1)';", "impute='median'",
            id_column="plant", text="one-hot")
    data = read(path, id_column="plant", text="one-hot", impute="median")
    assert data.feature_names == ("height", "soil=clay", "soil=missing", "soil=sand")
    assert data.X.tolist() == [[1.5, 1, 0, 0], [2.5, 0, 0, 1], [4, 0, 1, 0], [2.5, 1, 0, 0]]
    assert "filled in: 2, in columns 'height', 'soil';" in data.notes[0]
    assert "features of 0 and 1: 'soil'" in data.notes[1] and len(data.notes) == 2
    many = put("a,b\n1,2\n,7\n3,9\n10,11\n")  # the median, not the mean
    assert read(many, impute="median").X[:, 0].tolist() == [1, 3, 3, 10]


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "words"), [
    ("My.cvs", "'my.csv'"), ("something else.mat", "tables in its folder: 'my.csv'"),
    ("nowhere/my.csv", "tables in its folder: none"), ("x" * 300 + ".csv", ""),
], ids=["typo", "other", "no folder", "long"])
def test_a_missing_file_names_the_absolute_path_and_the_nearest(put, tmp_path, monkeypatch, name,
                                                                words):
    put(FLOWERS)
    put("no table", "my.txt")
    monkeypatch.chdir(tmp_path)
    message = refused(name, f"there is no file {tmp_path / name}", words)
    assert "my.txt" not in message


def test_a_folder_or_another_kind_of_file_is_refused(put, tmp_path):
    for name in ("my.xls", "table"):
        refused(put(FLOWERS, name), name, ".npz or .mat file: save the table as CSV; datasets.load")
    refused(tmp_path, str(tmp_path), "save the table as CSV")


MEDIAN, HOT = {"impute": "median"}, {"text": "one-hot"}
BY_ID = {"id_column": "id"}


@pytest.mark.parametrize(("text", "words", "settings"), [
    # rows and names
    ("\n\n", "is empty", {}),
    ("a,b\n", "(rows: 0, features: 2)", {}),
    ("a,b\n1,2\n", "(rows: 1, features: 2)", {}),
    ("label\n1\n2\n", "(rows: 2, features: 0)", {}),
    ("a,b\n1,2\n3,4\n", "features: 0", {"features": []}),
    ("a,b\n1,2\n\n3\n", "row 3 is ragged: 1 instead of 2 values", MEDIAN),
    ("a,b\n1,2\n3,4,5\n", "row 3 is ragged: 3 instead of 2 values", {}),
    (",a\n0,2\n1,5\n", "identifiers in 'Unnamed: 0'", {}),  # as pandas writes an index
    ('a,b\n1,"2\n3,4\n', "EOF inside string", {}),
    (b"PK\x03\x04" + bytes(60), "is not text", {}),
    (b"a,b\n1,\x81\n", "can't decode", {}),
    # text and numbers
    ("a,city\n1,Paris\n2,Rome\n", "text in 1 of 2 columns: 'city (such as Paris)'", {}),
    ("a;b\n1,5;2.500\n2,5;3.500\n", "points in 'b': use one decimal mark", {}),
    ('a,b\n"1,234",2\n"5,678",3\n', "'a (such as 1,234)'", {}),
    ("a;b\n1.234,5;2\n2.345,1;3\n", "'a (such as 1.234,5)'", {}),
    ("a,c\n" + "".join(f"{i},c{i % 51}\n" for i in range(99)), "'c (51)'; expected at most 50",
     HOT),
    ("a,c\n1,x\n2,y\n", "too many distinct values for text='one-hot', counted by column: 'c (2)'",
     HOT),
    ("a,c,c=x\n1,x,2\n2,x,3\n5,y,7\n", "same name, counted by column: 'c=x (1)'", HOT),
    ("a,b\ninf,1\n-Infinity,2\n1,1e39\n", "infinite values (or beyond 3.4e38)", {}),
    ("a,b\ninf,1\n-Infinity,2\n1,1e39\n", "by column: 'a (2)', 'b (1)';", {}),
    ("a,b,c\n1,,5\nNA,?,6\nnan,NaN,7\n", "missing values, counted by column: 'b (3)', 'a (2)';",
     {}),
    ("a,b\n,1\n,2\n", "no value at all, counted by column: 'a (2)'", MEDIAN),
    # labels
    ("a,species\n1, \n2,x\n3,?\n", "missing values in 'species' (2)", {"labels": "species"}),
    ("a,y\n1,u\n2,\n", "missing values in 'y' (1)", MEDIAN),
    ("a,label,class\n1,2,3\n4,5,6\n", "could be labels ('label', 'class')", {}),
    # identifiers
    ("id,a\nP1,1\n", "no column 'idd'; did you mean 'id'?", {"id_column": "idd"}),
    ("id,a\nP1,1\nP2,3\nP1,2\nP1,7\n", "repeated identifiers, the first in row 3", BY_ID),
    ("id,a\nP1,1\n,2\nNA,2\n", "identifiers, the first in row 2", BY_ID),
    *[(f"{name},a\n4,1\n7,1.5\n", f"identifiers in {name!r}: name it as id_column", {})
      for name in ("ID", "Sample", "patient_id", "PatientID", "mouse id")],
    # settings
    (FLOWERS, "no column 'Specie'; did you mean 'species'?", {"labels": "Specie"}),
    (FLOWERS, "no column 'lenght'; did you mean 'length'?", {"features": ["width", "lenght"]}),
    (FLOWERS, "a list of names: features=['length']", {"features": "length"}),
    (FLOWERS, "no setting of constant 'kept'; did you mean 'keep'", {"constant": "kept"}),
    (FLOWERS, "no setting of text 'onehot'; did you mean 'one-hot'", {"text": "onehot"}),
    (FLOWERS, "no setting of impute 'mean'; did you mean 'median'", {"impute": "mean"}),
])
def test_a_csv_that_cannot_be_clustered(put, text, words, settings):
    refused(put(text), words, **settings)


def test_a_file_that_cannot_be_read(put, monkeypatch):
    path = put(FLOWERS)

    def denied(*args, **settings):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", denied)
        refused(path, str(path), "Permission denied")
    whole = gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0)
    for content in (b"a,b\n1,2\n", whole[:-6]):
        refused(put(content, "my.csv.gz"), "my.csv.gz can't be read")


# --- .npz, .mat, Excel and parquet ---------------------------------------------------------------


def test_an_npz_goes_round(npz):
    samples = np.random.default_rng(0).standard_normal((6, 3))
    data = read(npz(X=samples, y=np.array([3, 1, 3, 1, 1, 3]), feature_names=list("abc")))
    np.testing.assert_array_equal(data.X, samples.astype(np.float32))
    assert data.y.tolist() == [1, 0, 1, 0, 0, 1] and data.classes == ("1", "3")
    assert data.feature_names == ("a", "b", "c") and data.source.name == "my.npz"
    gaps = np.float32([[1, 2], [np.nan, 7], [3, 9], [10, 11]])
    assert read(npz(X=gaps), impute="median").X[:, 0].tolist() == [1, 3, 3, 10]


def test_arrays_beside_the_samples_of_an_npz(npz):
    data = read(npz(table=SAMPLES, kind=np.array(["x", "z", "x"])), labels="kind")
    assert data.X.tolist() == SAMPLES.tolist() and data.classes == ("x", "z")
    assert data.feature_names == ("column 1", "column 2") and read(npz(X=SAMPLES)).y is None
    assert read(npz(X=SAMPLES, y=np.array([[2.0], [1.0], [2.0]]))).classes == ("1", "2")
    assert read(npz(X=SAMPLES, who=np.array(["u", "v", "w"])), id_column="who").ids == tuple("uvw")


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_nothing_is_ever_unpickled(npz, tmp_path):
    mark = tmp_path / "mark"
    refused(npz(X=SAMPLES, y=np.array([Harmful(mark)] * 3, dtype=object)), "can't be read")
    assert not mark.exists()


@pytest.mark.parametrize(("arrays", "words", "settings"), [
    ({"a": SAMPLES, "b": SAMPLES}, "call the samples X, shape (rows, features), among 'a', 'b'",
     {}),
    ({"X": SAMPLES + 1j}, "text in 2 of 2 columns", {}),
    ({"X": SAMPLES, "y": np.arange(2)}, "y has shape (2,)", {}),
    ({"X": SAMPLES, "y": np.eye(3)}, "y has shape (3, 3)", {}),
    ({"X": SAMPLES, "y": np.array(3)}, "y has shape ()", {}),
    ({"X": SAMPLES, "y": np.array([1, np.nan, 2])}, "missing values in 'y' (1)", {}),
    ({"X": SAMPLES, "feature_names": ["a"]}, "Length mismatch", {}),
    ({"X": SAMPLES, "feature_names": ["a", "a"]}, "columns of the same name", {}),
    ({"X": SAMPLES[:1]}, "rows: 1,", {}),
    ({"X": np.where(SAMPLES == 3, np.nan, SAMPLES)}, "missing values, counted by column: 'column 2 "
     "(1)';", {}),
    ({"X": SAMPLES, "species": np.arange(3)}, "no column 'specis'", {"labels": "specis"}),
    ({"X": SAMPLES, "who": np.array(["u", " ", "w"])}, "identifiers, the first in row 2",
     {"id_column": "who"}),
])
def test_an_npz_that_cannot_be_clustered(npz, arrays, words, settings):
    path = npz(**arrays)
    refused(path, str(path), words, **settings)


@pytest.mark.parametrize(("labels", "classes"), [
    (np.array([[4], [2], [4]], dtype=np.uint8), ("2", "4")),
    (np.array([[4.0, 2.0, 4.0]]), ("2", "4")),
    (np.array([["tumor"], ["other"], ["tumor"]], dtype=object), ("other", "tumor")),  # cells
    (np.array(["ill ", "fine", "ill "]), ("fine", "ill")),  # rows of letters
], ids=["column", "row", "cells", "letters"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matlab_file_goes_round(tmp_path, labels, classes, sparse):
    path = tmp_path / "my.mat"
    savemat(path, {"X": csc_matrix(SAMPLES) if sparse else SAMPLES, "Y": labels,
                   "feature_names": np.array([["gene a"], ["gene b"]], dtype=object)})
    data = read(path)
    np.testing.assert_array_equal(data.X, SAMPLES)
    assert data.classes == classes and data.y.tolist() == [1, 0, 1]
    assert data.feature_names == ("gene a", "gene b")


@pytest.mark.parametrize("name", ["my.npz", "my.mat", "my.xlsx", "my.parquet"])
def test_a_damaged_file_is_no_traceback(put, name):
    for content in (b"", b"<html>", b"PK\x03\x04 cut short", b"PAR1" + bytes(200)):
        refused(put(content, name), f"{name} can't be read: ")
    if name == "my.mat":
        head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
        refused(put(head + bytes(400), name), "v7.3")


@pytest.mark.parametrize(("name", "package"), [("my.xlsx", "openpyxl"), ("my.parquet", "pyarrow")])
def test_a_missing_package_is_named(put, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    refused(put(b"", name), package, "install")


def sheets(path: Path, **frames: pd.DataFrame) -> Path:
    with pd.ExcelWriter(path) as book:
        for name, frame in frames.items():
            frame.to_excel(book, sheet_name=name, index=False, header=False)
    return path


def test_the_first_sheet_of_a_workbook(tmp_path):
    cells = pd.DataFrame([[None, "id", "a", "kind"], [None, 7, 1.5, "x"], [None] * 4,
                          [None, 8, "?", 3]])
    path = sheets(tmp_path / "my.xlsx", table=cells, notes=cells)
    data = read(path, id_column="id", labels="kind", impute="median", constant="keep")
    assert data.ids == ("7", "8") and data.classes == ("3", "x")
    assert data.X.tolist() == [[1.5], [1.5]] and data.feature_names == ("a",)
    assert "first sheet ('table')" in data.notes[0] and "'notes'" in data.notes[0]
    assert "filled in: 1" in data.notes[1]
    one = sheets(tmp_path / "one.xlsx", table=pd.DataFrame([[1, 2.5], [3, 4]]))
    assert read(one).X.tolist() == [[1, 2.5], [3, 4]]
    refused(sheets(tmp_path / "no.xlsx", table=pd.DataFrame()), "too small to cluster")
    dates = pd.DataFrame([["a", "b"], [1, pd.Timestamp("2020-02-01")], [2, pd.NaT]])
    refused(sheets(tmp_path / "dates.xlsx", table=dates), "text in 1 of 2", "2020-02-01")


def test_a_parquet_file_with_its_kinds_of_columns(tmp_path):
    frame = pd.DataFrame({
        "a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, False, None], "boolean"),
        "c": pd.Categorical(["u", None, "u"]), "d": np.float32([1.5, 2, 4]),
    }, index=pd.Index(["r1", "r2", "r3"], name="row"))
    frame.to_parquet(tmp_path / "my.parquet")
    table = {"path": tmp_path / "my.parquet", "id_column": "row"}
    refused(table["path"], "'row (such as r1)'", "text in 2 of 5")
    message = refused(**table, text="one-hot")
    assert "missing values" in message and "'a (1)', 'b (1)', 'c (1)'" in message
    data = read(**table, text="one-hot", impute="median")
    assert data.ids == ("r1", "r2", "r3")
    assert data.feature_names == ("a", "b", "d", "c=missing", "c=u")
    assert data.X.tolist() == [[1, 1, 1.5, 0, 1], [2, 0, 2, 1, 0], [3, 0.5, 4, 0, 1]]


# --- relative paths, and what a record keeps -----------------------------------------------------


def test_a_relative_path_begins_where_the_run_was_started(put, tmp_path, monkeypatch):
    put(FLOWERS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    refused("my.csv", f"there is no file {elsewhere / 'my.csv'}")
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"chapter": "x", "folder": str(tmp_path)}))
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("my.csv", Path("elsewhere/../my.csv"), "~/my.csv"):
        assert len(read(path, labels="species").X) == 3


def test_a_record_of_a_table_that_the_book_does_not_know(put, tmp_path, monkeypatch):
    data = read(put(FLOWERS), features=["length", "width"])
    context = {"chapter": "weights", "profile": "weights-mine", "seed": 0, "parameters": {}}
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps(context))
    monkeypatch.setenv("CLUSTERBOOK_RECORDS", str(tmp_path / "records"))
    evidence.record({"acc": 0.5}, data=data)
    (found,) = evidence.load_records(tmp_path / "records")
    assert found.data == {"name": "my.csv", "sha256": datasets.content(data)}
    assert str(tmp_path) not in found.path.read_text()
    assert "my.csv" not in present_data() and data.source.name not in SOURCES
    code = {"weights": found.code}
    assert not is_stale(found, code, present_data())
    assert is_stale(found, code, {"my.csv": datasets.content(replace(data, X=data.X + 1))})
