"""A person's own table: read as it is in each form, or refused with what it takes to go on."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
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
X = [[1.5, 2], [2.5, np.float32(-0.3)], [4, 7]]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("CLUSTERBOOK_RUN", raising=False)


@pytest.fixture
def put(tmp_path) -> Callable[..., Path]:
    def write(text: str | bytes, name: str = "my.csv") -> Path:
        content = text.encode() if isinstance(text, str) else text
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.fixture
def npz(tmp_path) -> Callable[..., Path]:
    def write(**arrays: object) -> Path:
        np.savez(tmp_path / "my.npz", **arrays)
        return tmp_path / "my.npz"

    return write


def refused(path: object, *words: str, **settings: object) -> str:
    """The message of the error, which is one sentence with these words in it."""
    with pytest.raises(InputError) as caught:
        datasets.read(path, **settings)
    message = str(caught.value)
    assert "\n" not in message and re.search("[:;] ", message)
    for word in words:
        assert word in message, message
    return message


# --- CSV ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["plain", "bom", "windows", "semicolon", "tab", "spaces", "blank",
                                  "quoted", "no newline", "capitals"])  # fmt: skip
def test_a_csv_is_read_in_each_of_its_forms(put, form):
    text = {
        "bom": "\ufeff" + FLOWERS,
        "windows": FLOWERS.replace("\n", "\r\n"),
        "semicolon": FLOWERS.replace(",", ";"),
        "tab": FLOWERS.replace(",", "\t"),
        "spaces": FLOWERS.replace(",", " , "),
        "blank": "\n" + FLOWERS.replace("\n", "\n\n"),
        "quoted": re.sub(r"[^,\n]+", r'"\g<0>"', FLOWERS),
        "no newline": FLOWERS.rstrip(),
    }.get(form, FLOWERS)
    path = put(text, "MY.CSV" if form == "capitals" else "my.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = datasets.read(path, labels="species")
    np.testing.assert_array_equal(data.X, np.array(X, dtype=np.float32))
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    assert data.feature_names == ("length", "width")
    assert data.y.tolist() == [1, 0, 1] and data.y.dtype == np.int64
    assert data.classes == ("lily", "rose")
    assert data.image_shape is None and data.train_size is None


def test_what_the_source_of_a_file_says(put, tmp_path, monkeypatch):
    put(FLOWERS)
    monkeypatch.chdir(tmp_path)
    data = datasets.read("my.csv", labels="species")
    source = data.source
    assert source.name == "my.csv" and "my.csv" in source.title
    assert (source.n_samples, source.n_features, source.n_classes) == (3, 2, 2)
    assert source.address == str(tmp_path / "my.csv") and source.license == "your own"
    assert source.content is None and source.embedded_in is None and not source.files
    again = source.loader(source, tmp_path)
    assert datasets.content(again) == datasets.content(data) and again.classes == data.classes


@pytest.mark.parametrize(("separator", "names"), [
    (",", ("weight; kg", "height; cm")), (";", ("weight, kg", "height, cm")), ("\t", ("a, b", "c")),
])  # fmt: skip
def test_the_separator_is_the_one_that_fits_the_rows(put, separator, names):
    rows = [names, ("1", "2"), ("3", "4")]
    data = datasets.read(put("\n".join(separator.join(row) for row in rows)))
    assert data.feature_names == names and data.X.tolist() == [[1, 2], [3, 4]]


def test_a_separator_and_a_line_break_in_quotes(put):
    data = datasets.read(put('"a, ""x""\nb",c\n1,2\n3,4\n'))
    assert data.feature_names == ('a, "x"\nb', "c") and data.X.shape == (2, 2)


def test_numbers_in_the_first_row_are_a_sample(put):
    data = datasets.read(put("1,2.5,7\n3,4,7.5\n"), labels="column 3")
    assert data.feature_names == ("column 1", "column 2")
    assert data.X.tolist() == [[1, 2.5], [3, 4]] and data.classes == ("7", "7.5")


@pytest.mark.parametrize(("first", "names"), [
    ("0,1,2", ("0", "1", "2")), ("1,?,3", ("1", "?", "3")), ("0,2,1", None), ("0,1", None),
])  # fmt: skip
def test_numbers_that_count_the_columns_are_names(put, first, names):
    width = first.count(",") + 1
    data = datasets.read(put(f"{first}\n" + ",".join("5" * width) + "\n" + ",".join("6" * width)))
    assert data.feature_names == (names or tuple(f"column {i + 1}" for i in range(width)))
    assert len(data.X) == (2 if names else 3)


def test_one_column_is_a_table(put):
    data = datasets.read(put("a\n1\n2\n"))
    assert data.X.tolist() == [[1], [2]] and data.feature_names == ("a",)


def test_numbers_come_back_as_they_were_written(put):
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal((50, 20)) * 10.0 ** rng.integers(-30, 30, 20)).astype(np.float32)
    lines = [",".join(f"g{i}" for i in range(20)), *(",".join(map(str, row)) for row in numbers)]
    np.testing.assert_array_equal(datasets.read(put("\n".join(lines))).X, numbers)


# --- labels and features -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["label", "CLASS", "Target", "y"])
def test_a_column_that_says_so_is_taken_for_the_labels(put, name):
    data = datasets.read(put(FLOWERS.replace("species", name)))
    assert data.classes == ("lily", "rose") and data.feature_names == ("length", "width")


def test_without_such_a_column_there_are_no_labels(put, tmp_path):
    data = datasets.read(put("length,labels\n1,0\n2,1\n"))
    assert data.y is None and data.classes == () and data.source.n_classes == 0
    assert data.feature_names == ("length", "labels")
    assert re.fullmatch("[0-9a-f]{64}", datasets.content(data))
    assert data.split(test_share=0.5)[2:] == (None, None)


def test_what_features_names_is_a_feature_in_that_order(put):
    path = put("a,y,b,c\n1,2,3,4\n5,6,7,8\n")
    data = datasets.read(path, features=["c", "y"])
    assert data.feature_names == ("c", "y") and data.X.tolist() == [[4, 2], [8, 6]]
    assert data.y is None
    data = datasets.read(path, features=["c"])  # the labels are found beside them
    assert data.classes == ("2", "6") and data.X.tolist() == [[4], [8]]


def test_columns_that_are_not_used_may_hold_anything(put):
    path = put("a,city,b,city\n1,Paris,inf,x\n5,,,z\n".replace(",city\n", ",note\n"))
    assert datasets.read(path, features=["a"]).X.tolist() == [[1], [5]]


@pytest.mark.parametrize(("labels", "classes", "y"), [
    (("10", "9", "10"), ("9", "10"), [1, 0, 1]),  # by value, not by letter
    (("1.0", "2", "1"), ("1", "2"), [0, 1, 0]),
    (("1.5", "-1", "1.50"), ("-1", "1.5"), [1, 0, 1]),
    (("1", "b", "a"), ("1", "a", "b"), [0, 2, 1]),
    (("1_0", "10", "1_0"), ("10", "1_0"), [1, 0, 1]),
    (("none", "é", "none"), ("none", "é"), [0, 1, 0]),
    (("90071992547409921", "90071992547409922", "90071992547409921"),
     ("90071992547409921", "90071992547409922"), [0, 1, 0]),
    (("9" * 25, "9" * 24 + "8", "9" * 25), ("9" * 24 + "8", "9" * 25), [1, 0, 1]),
])  # fmt: skip
def test_labels_are_numbers_or_text(put, labels, classes, y):
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    data = datasets.read(put("a,kind\n" + rows), labels="kind")
    assert data.classes == classes and data.y.tolist() == y


# --- constant columns --------------------------------------------------------------------------


def test_constant_columns_are_dropped_with_a_warning_or_kept(put):
    # b's values are one value to float32
    path = put("a,b,c,label\n1,16777216,7,x\n2,16777217,7,x\n")
    with pytest.warns(UserWarning, match="left out: 'b', 'c' of my.csv; constant='keep'") as caught:
        data = datasets.read(path)
    assert data.feature_names == ("a",) and data.X.tolist() == [[1], [2]]
    assert data.X.flags.c_contiguous and data.source.n_features == 1
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = datasets.read(path, constant="keep")
    assert kept.feature_names == ("a", "b", "c") and kept.X.shape == (2, 3)
    refused(path, "no feature of", "'b', 'c'", "constant='keep'", features=["b", "c"])
    with pytest.raises(InputError, match="no setting of constant 'kept'; did you mean 'keep'"):
        datasets.read(path, constant="kept")


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "words"), [
    ("My.cvs", ("'my.csv'",)),
    ("ny.csv", ("did you mean 'my.csv'?",)),
    ("something else.mat", ("tables there: 'my.csv'", "check the path")),
    ("nowhere/my.csv", ("its folder can't be listed (No such file", "check the path")),
    ("my.csv/my.csv", ("its folder can't be listed (Not a directory)",)),
    ("x" * 300 + ".csv", ("check the path",)),
])  # fmt: skip
def test_a_missing_file_names_the_absolute_path_and_the_nearest(put, tmp_path, monkeypatch, name,
                                                                words):  # fmt: skip
    put(FLOWERS)
    put("no table", "my.txt")
    monkeypatch.chdir(tmp_path)
    message = refused(name, f"there is no file {tmp_path / name}", *words)
    assert "my.txt" not in message


def test_a_folder_or_another_kind_of_file_is_refused(put, tmp_path):
    refused(tmp_path, str(tmp_path), "is a folder", ".npz or .mat file")
    for name in ("my.xls", "my.npz.gz", "table"):
        refused(put(FLOWERS, name), name, ".npz or .mat file", "save the table as CSV")


@pytest.mark.parametrize(("text", "words"), [
    ("", ("is empty",)),
    ("\n\n", ("is empty",)),
    ("a,b\n", ("(rows: 0, features: 2)", "two rows or more")),
    ("a,b\n1,2\n", ("(rows: 1, features: 2)", "two rows or more")),
    ("label\n1\n2\n", ("(rows: 2, features: 0)", "a feature or more")),
    ("a,b\n1,2\n\n3\n", ("line 4 of", "ragged: 1 instead of 2 values")),
    ("a,b\n1,2\n3,4,5\n", ("line 3 of", "ragged: 3 instead of 2 values")),
    ("a,b,a\n1,2,3\n4,5,6\n", ("same name ('a')",)),
    (",a\n0,2\n1,5\n", ("without a name ('column 1')", "index=False")),
    ("a,city\n1,Paris\n2,Rome\n",
     ("text in 1 of 2 columns: 'city' (such as 'Paris', 2 distinct)", "labels")),
    ("a,b\n1_000,1\n2,3\n", ("'a' (such as '1_000', 2 distinct)",)),
    ("a,b,c\n1,,5\nNA,?,6\nnan,NaN,7\n", ("missing values, counted by column: 'b' (3), 'a' (2);",)),
    ("a,species\n1, \n2,x\n3,?\n", ("missing values, counted by column: 'species' (2);",)),
    ("a,b\ninf,1\n-Infinity,2\n1,1e39\n", ("infinite values", "by column: 'a' (2), 'b' (1);")),
    ("a,label,class\n1,2,3\n4,5,6\n", ("could be the labels ('label', 'class')", "labels='label'")),
    ("a,target\n1,2.5\n4,5\n", ("measurements in 'target' (such as 2.5)", "features")),
    ('a,b\n1,"2\n3,4\n', ("can't be read as .csv: line 3", "quotes")),
    ('a,b\n1,"2"x\n3,4\n', ("can't be read as .csv: line 2", "quotes")),
])  # fmt: skip
def test_a_csv_that_cannot_be_clustered(put, text, words):
    path = put(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(path, str(path), *words, labels="species" if "species" in str(text) else None)


def test_of_many_wrong_columns_five_are_named(put):
    header = ",".join(f"g{i}" for i in range(12))
    counted = "'g4' (2) and 7 more columns"
    text = "'g4' (such as 'x', 1 distinct) and 7 more;"
    for cell, words in (("x", text), ("", counted), ("inf", counted)):
        row = ",".join([cell] * 12)
        message = refused(put(f"{header}\n{row}\n{row}\n"), words)
        assert "g5" not in message
    row = ",".join("1" * 12)
    with pytest.warns(UserWarning, match="'g4' and 6 more of my.csv"):
        datasets.read(put(f"{header}\n{row}\n{row[:-1]}2\n"))


def test_a_column_that_is_not_there_names_the_nearest(put):
    path = put(FLOWERS)
    refused(path, "no 'Specie', which labels names", "did you mean 'species'?", labels="Specie")
    refused(path, "'zz'", "one of 'length', 'width', 'species'", labels="zz")
    refused(path, "no 'lenght', which features names", "did you mean 'length'?",
            features=["width", "lenght"])  # fmt: skip
    refused(path, "can't be both", labels="width", features=["length", "width"])
    refused(path, "features: 0", features=[])
    with pytest.raises(InputError, match=r"a list of names, as in features=\['length'\]"):
        datasets.read(path, features="length")


def test_a_file_that_cannot_be_read(put, monkeypatch):
    path = put(FLOWERS)

    def denied(*args, **settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    refused(path, str(path), "Permission denied", "make it readable")


# --- .npz and .mat -----------------------------------------------------------------------------


def test_an_npz_goes_round(npz):
    samples = np.random.default_rng(0).standard_normal((6, 3))
    data = datasets.read(npz(X=samples, y=np.array([3, 1, 3, 1, 1, 3]), feature_names=list("abc")))
    np.testing.assert_array_equal(data.X, samples.astype(np.float32))
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    assert data.y.tolist() == [1, 0, 1, 0, 0, 1] and data.classes == ("1", "3")
    assert data.feature_names == ("a", "b", "c") and data.source.name == "my.npz"
    chosen = datasets.read(data.source.address, features=["c", "a"])
    np.testing.assert_array_equal(chosen.X, data.X[:, [2, 0]])


def test_the_only_matrix_of_an_npz_is_the_samples(npz):
    samples = np.arange(6).reshape(3, 2)
    data = datasets.read(npz(table=samples, kind=np.array(["x", "z", "x"])), labels="kind")
    assert data.X.tolist() == samples.tolist() and data.classes == ("x", "z")
    assert data.feature_names == ("column 1", "column 2")
    assert datasets.read(npz(X=samples)).y is None
    assert datasets.read(npz(X=samples, y=np.array([[2.0], [1.0], [2.0]]))).classes == ("1", "2")


SAMPLES = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(("arrays", "words"), [
    ({"a": SAMPLES, "b": SAMPLES}, ("which array holds the samples", "'a', 'b'", "call it X")),
    ({}, ("which array holds the samples", "none")),
    ({"X": SAMPLES[0]}, ("shape (2,)", "(rows, features)")),
    ({"X": SAMPLES.astype(str)}, ("type <U32", "real numbers")),
    ({"X": SAMPLES + 1j}, ("type complex128", "real numbers")),
    ({"X": SAMPLES, "y": np.arange(2)}, ("y in", "shape (2,)", "each of 3 rows")),
    ({"X": SAMPLES, "y": np.eye(3)}, ("y in", "shape (3, 3)", "each of 3 rows")),
    ({"X": SAMPLES, "y": np.array(3)}, ("y in", "shape ()")),
    ({"X": SAMPLES, "y": np.array([1, np.nan, 2])}, ("missing values", "column: 'y' (1);")),
    ({"X": SAMPLES, "y": np.array(["a", "", "b"])}, ("missing values", "column: 'y' (1);")),
    ({"X": SAMPLES, "y": np.array([1, 2.5, 2])}, ("measurements in 'y'",)),
    ({"X": SAMPLES, "feature_names": ["a"]}, ("1 feature_names for 2 columns",)),
    ({"X": SAMPLES, "feature_names": ["a", "a"]}, ("same name ('a')",)),
    ({"X": SAMPLES[:1]}, ("rows: 1,", "two rows")),
    ({"X": np.where(SAMPLES == 3, np.nan, SAMPLES)}, ("missing values", "'column 2' (1);")),
    ({"X": np.where(SAMPLES == 2, 1e39, SAMPLES)}, ("infinite values", "'column 1' (1);")),
    ({"X": SAMPLES, "y": np.array([1, "a", None], dtype=object)}, ("can't be read as .npz",
                                                                   "no Python objects")),
])  # fmt: skip
def test_an_npz_that_cannot_be_clustered(npz, arrays, words):
    path = npz(**arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(path, str(path), *words)


def test_an_array_of_labels_that_is_not_there(npz):
    path = npz(X=SAMPLES, species=np.arange(3))
    refused(path, "no 'specis', which labels", "did you mean 'species'?", labels="specis")


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_nothing_is_ever_unpickled(npz, tmp_path):
    mark = tmp_path / "mark"
    refused(npz(X=SAMPLES, y=np.array([Harmful(mark)] * 3, dtype=object)), "can't be read as .npz")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["my.npz", "my.mat"])
@pytest.mark.parametrize("content", [b"", b"no such file", b"PK\x03\x04 cut short", bytes(200)])
def test_a_damaged_file_is_no_traceback(put, name, content):
    refused(put(content, name), f"can't be read as {name[2:]}", "save")


def test_an_array_that_is_no_archive_of_arrays(tmp_path):
    path = tmp_path / "my.npz"
    with path.open("wb") as stream:
        np.save(stream, SAMPLES)
    refused(path, "can't be read as .npz", "numpy.savez")


@pytest.mark.parametrize(("labels", "classes"), [
    (np.array([[4], [2], [4]], dtype=np.uint8), ("2", "4")),
    (np.array([[4.0, 2.0, 4.0]]), ("2", "4")),
    (np.array([["tumor"], ["other"], ["tumor"]], dtype=object), ("other", "tumor")),  # cells
    (np.array(["ill ", "fine", "ill "]), ("fine", "ill")),  # rows of letters
], ids=["column", "row", "cells", "letters"])  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matlab_file_goes_round(tmp_path, labels, classes, sparse):
    path = tmp_path / "my.mat"
    savemat(path, {"X": csc_matrix(SAMPLES) if sparse else SAMPLES, "Y": labels,
                   "feature_names": np.array([["gene a"], ["gene b"]], dtype=object)})  # fmt: skip
    data = datasets.read(path)
    np.testing.assert_array_equal(data.X, SAMPLES)
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    assert data.classes == classes and data.y.tolist() == [1, 0, 1]
    assert data.feature_names == ("gene a", "gene b")


def test_a_matlab_file_without_samples_or_of_version_7_3(tmp_path, put):
    path = tmp_path / "my.mat"
    savemat(path, {"a": SAMPLES, "b": SAMPLES})
    refused(path, "'a', 'b'", "call it X")
    head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    refused(put(head + bytes(400), "my.mat"), "v7.3", "'-v7'")


# --- what people's tables look like --------------------------------------------------------------

PLANTS = "plant,height,soil\nP1,1.5,clay\nP2,,sand\nP3,4,\nP4,2.5,clay\n"
SECOND = "numbers were read with decimal commas"


def noted(path: object, **settings: object) -> datasets.Dataset:
    """The data set, whose notes are its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = datasets.read(path, **settings)
    assert tuple(str(one.message) for one in caught) == data.notes
    assert all(one.category is UserWarning and one.filename == __file__ for one in caught)
    assert data.X.flags.c_contiguous and data.X.dtype == np.float32
    return data


@pytest.mark.parametrize(("name", "content", "note"), [
    ("my.csv", "a;b\n1,5;-2\n,25;3e1\n", SECOND),
    ("my.csv", "1,5;-2,0\n0,25;3,e1\n", SECOND),  # no names, and commas that fit too
    ("my.csv", 'a,b\n"1,5",-2\n"0,25",3e1\n', SECOND),
    ("my.tsv", "a\tb\n1,5\t-2\n,25\t3e1\n", SECOND),
    ("my.tsv", "a\tb\n1.5\t-2\n.25\t3e1\n", ""),
    ("MY.CSV.GZ", gzip.compress(b"a,b\n1.5,-2\n.25,3e1\n"), ""),
    ("my.csv", "a,b\r1.5,-2\r.25,3e1\r", ""),
    ("my.csv", "a,b\n1.5,-2\n.25,3e1\n".encode("utf-16"), ""),
    ("my.csv", "é,b\n1.5,-2\n.25,3e1\n".encode("cp1252"), "not UTF-8"),
])  # fmt: skip
def test_a_table_from_another_country_or_program(put, name, content, note):
    data = noted(put(content, name))
    assert data.X.tolist() == [[1.5, -2], [0.25, 30]]
    assert data.feature_names in {("a", "b"), ("é", "b"), ("column 1", "column 2")}
    assert len(data.notes) == bool(note) and note in "".join(data.notes)


def test_one_mark_for_decimals_and_none_for_thousands(put):
    refused(put("a;b\n1,5;2.500\n2,5;3.500\n"), "points in 'b'", "one decimal mark")
    for text in ('a,b\n"1,234",2\n"5,678",3\n', "a;b\n1.234,5;2\n2.345,1;3\n"):
        refused(put(text), "text in 1 of 2", "thousands separators")


def test_true_and_false_and_long_integers_are_numbers(put):
    data = datasets.read(put("a,b\nTrue,1" + "0" * 25 + "\nFalse,3\n"))
    assert data.X.tolist() == [[1, np.float32(1e25)], [0, 3]]


def test_identifiers_are_kept_and_are_no_feature(put):
    data = noted(put("id,a,y\n007,1,u\n08,2,v\n"), id_column="id")
    assert data.ids == ("007", "08") and data.feature_names == ("a",) and data.classes == ("u", "v")
    data = noted(put(",a\nr1,1\nr2,2\n"), id_column="column 1")  # as R writes names of rows
    assert data.ids == ("r1", "r2") and data.feature_names == ("a",)
    again = data.source.loader(data.source, Path())
    assert again.ids == data.ids and datasets.content(again) == datasets.content(data)
    assert datasets.read(put("a\n1\n2\n")).ids is None
    data = noted(put("y,b\n1,2\n3,4\n"), id_column="y")  # and not taken for the labels
    assert data.ids == ("1", "3") and data.y is None


@pytest.mark.parametrize(("text", "words", "settings"), [
    ("id,a\nP1,1\n", ("no 'idd', which id_column names; did you mean 'id'?",),
     {"id_column": "idd"}),
    ("id,a\nP1,1\nP2,3\nP1,2\nP1,7\n", ("repeated", "'id' (2, the first in row 3, 'P1')"),
     {"id_column": "id"}),
    ("id,a\nP1,1\n,2\nNA,2\n", ("missing", "'id' (2, the first in row 2)"), {"id_column": "id"}),
    ("id,a\nP1,1\nP2,2\n", ("can't be both id_column and a feature",),
     {"id_column": "id", "features": ["id", "a"]}),
    ("id,a\nP1,1\nP2,2\n", ("can't be both id_column and the labels",),
     {"id_column": "id", "labels": "id"}),
    *[(f"{name},a\n4,1\n7,1.5\n", (f"identifier: name it as id_column='{name}'",), {})
      for name in ("id", "ID", "Sample", "patient_id", "PatientID", "mouse id")],
    ("name,a,city\nx,1,P\ny,3,P\n", ("id_column ('name': all values differ)", "2 distinct"), {}),
])  # fmt: skip
def test_identifiers_that_are_none_or_not_named(put, text, words, settings):
    refused(put(text), *words, **settings)


@pytest.mark.parametrize("text", [
    "id,a\n4,1\n4,1.5\n5,2\n", "id,a\n4.5,1\n4,1.5\n", "kid,a\n4,1\n7,2\n",
])  # fmt: skip
def test_other_numbers_are_features_whatever_their_name(put, text):
    assert datasets.read(put(text)).feature_names == tuple(text.split("\n")[0].split(","))


def test_an_identifier_may_be_a_feature_if_somebody_says_so(put):
    path = put("id,a\n4,1\n7,1.5\n")
    assert datasets.read(path, features=["id", "a"]).feature_names == ("id", "a")


def test_gaps_are_filled_in_and_text_becomes_features_if_asked(put):
    path = put(PLANTS)
    refused(path, "text in 1 of 2", "text='one-hot'", id_column="plant")
    refused(path, "missing values", "'height' (1), 'soil' (1);", "impute='median'",
            id_column="plant", text="one-hot")  # fmt: skip
    data = noted(path, id_column="plant", text="one-hot", impute="median")
    assert data.feature_names == ("height", "soil=clay", "soil=missing", "soil=sand")
    assert data.X.tolist() == [[1.5, 1, 0, 0], [2.5, 0, 0, 1], [4, 0, 1, 0], [2.5, 1, 0, 0]]
    assert "filled in: 2, by column 'height' (1), 'soil' (1)" in data.notes[0]
    assert "'soil' became 3 features" in data.notes[1] and len(data.notes) == 2


@pytest.mark.parametrize(("text", "words", "settings"), [
    ("a,b\n,1\n,2\n", ("no value at all in 'a'",), {"impute": "median"}),
    ("a,y\n1,u\n2,\n", ("missing values", "'y' (1)"), {"impute": "median"}),
    ("a,b\n1,2\n3\n4,5\n", ("line 3 of", "ragged"), {"impute": "median"}),
    ("a,c\n" + "".join(f"{i},c{i % 51}\n" for i in range(99)), ("'c' (51)", "at most 50"),
     {"text": "one-hot"}),
    ("a,c\n1,x\n2,y\n", ("too many distinct", "'c' (2)", "id_column"), {"text": "one-hot"}),
    ("a,c,c=x\n1,x,2\n2,x,3\n5,y,7\n", ("same name ('c=x')",), {"text": "one-hot"}),
    ("a,b\n1,2\n3,4\n", ("no setting of text 'onehot'; did you mean 'one-hot'",),
     {"text": "onehot"}),
    ("a,b\n1,2\n3,4\n", ("no setting of impute 'mean'; did you mean 'median'",),
     {"impute": "mean"}),
    ("a,b\n" + "9" * 400 + ",2\n3,4\n", ("infinite values", "'a' (1)"), {}),
])  # fmt: skip
def test_what_cannot_be_filled_in_or_made_a_feature(put, text, words, settings):
    refused(put(text), *words, **settings)


@pytest.mark.parametrize(("content", "words"), [
    ("<!DOCTYPE html>\n<html><body>Not found</body></html>", ("web page",)),
    (bytes(range(256)), ("is not text",)),
    (b"PK\x03\x04" + bytes(60), ("is not text",)),
    ("a,b\n1,2\n".encode("utf-16-le"), ("is not text", "UTF-8")),
    (b"a,b\n1,\x81\n", ("is not text",)),
    ('"a,b\n1,2\n', ("line 2", "quotes")),
    ("1,\n\r,1\n", ("differ in length",)),
])  # fmt: skip
def test_a_csv_that_is_none(put, content, words):
    refused(put(content), "can't be read as .csv: ", *words)


def test_a_damaged_gzip_file(put):
    whole = gzip.compress(b"a,b\n1,2\n3,4\n")
    for content in (b"a,b\n1,2\n", whole[:-6], whole[:12] + b"x" + whole[13:]):
        refused(put(content, "my.csv.gz"), "can't be read as .csv.gz", "compress it again")


def test_a_name_that_is_not_utf_8(put, tmp_path):
    name = os.fsdecode(b"caf\xe9.csv")
    try:
        data = datasets.read(put("a,b\n1,2\n3,4\n", name))
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    shown = [data.source.name, data.source.title, data.source.address]
    assert all(one.isprintable() and r"caf\udce9.csv" in one for one in shown)
    assert datasets.content(data.source.loader(data.source, tmp_path)) == datasets.content(data)
    message = refused(put("a,b\n1,2\n3\n", name), "ragged", r"caf\udce9.csv")
    assert message.isprintable()
    assert refused(tmp_path / os.fsdecode(b"\xe8.csv"), "there is no file").isprintable()


def test_a_data_set_of_the_book_is_no_file():
    message = refused("wine", "load('wine')", features=["alcohol"])
    assert "features" in message


# --- Excel and parquet ---------------------------------------------------------------------------


def sheets(path: Path, **frames: pd.DataFrame) -> Path:
    with pd.ExcelWriter(path) as book:
        for name, frame in frames.items():
            frame.to_excel(book, sheet_name=name, index=False, header=False)
    return path


def test_the_first_sheet_of_a_workbook(tmp_path):
    cells = pd.DataFrame([[None] * 4, [None, "id", "a", "kind"], [None, 7, 1.5, "x"], [None] * 4,
                          [None, 8, "?", 3]])  # fmt: skip
    path = sheets(tmp_path / "my.xlsx", table=cells, notes=cells)
    data = noted(path, id_column="id", labels="kind", impute="median", constant="keep")
    assert data.ids == ("7", "8") and data.classes == ("3", "x")
    assert data.X.tolist() == [[1.5], [1.5]] and data.feature_names == ("a",)
    assert "first sheet ('table')" in data.notes[0] and "'notes'" in data.notes[0]
    assert "filled in: 1" in data.notes[1]
    one = sheets(tmp_path / "one.xlsx", table=pd.DataFrame([[1, 2.5], [3, 4]]))
    assert noted(one).X.tolist() == [[1, 2.5], [3, 4]]
    refused(sheets(tmp_path / "no.xlsx", table=pd.DataFrame()), "is empty")
    dates = pd.DataFrame([["a", "b"], [1, pd.Timestamp("2020-02-01")], [2, pd.NaT]])
    refused(sheets(tmp_path / "dates.xlsx", table=dates), "text in 1 of 2", "2020-02-01")


def test_a_parquet_file_with_its_kinds_of_columns(tmp_path):
    frame = pd.DataFrame({
        "a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, False, None], "boolean"),
        "c": pd.Categorical(["u", None, "u"]), "d": np.float32([1.5, 2, 4]),
    }, index=pd.Index(["r1", "r2", "r3"], name="row"))  # fmt: skip
    frame.to_parquet(tmp_path / "my.parquet")
    read = {"path": tmp_path / "my.parquet", "id_column": "row"}
    refused(read["path"], "'row'", "all values differ", "text in 2 of 5")
    message = refused(**read, text="one-hot")
    assert "missing values" in message and "'a' (1), 'b' (1), 'c' (1)" in message
    assert "infinite" not in message
    data = noted(**read, text="one-hot", impute="median")
    assert data.ids == ("r1", "r2", "r3")
    assert data.feature_names == ("a", "b", "d", "c=missing", "c=u")
    assert data.X.tolist() == [[1, 1, 1.5, 0, 1], [2, 0, 2, 1, 0], [3, 0.5, 4, 0, 1]]


@pytest.mark.parametrize(("name", "package"), [("my.xlsx", "openpyxl"), ("my.parquet", "pyarrow")])
def test_a_damaged_workbook_and_a_missing_package(put, monkeypatch, name, package):
    for content in (b"", b"<html>", b"PK\x03\x04 cut short", b"PAR1" + bytes(40)):
        refused(put(content, name), f"can't be read as {name[2:]}", "save")
    monkeypatch.setitem(sys.modules, package, None)
    refused(put(b"", name), f"needs {package}", f"pip install {package}", "as CSV")


def test_identifiers_in_a_file_of_arrays(npz):
    data = noted(npz(X=SAMPLES, who=np.array(["u", "v", "w"])), id_column="who")
    assert data.ids == ("u", "v", "w") and data.feature_names == ("column 1", "column 2")
    refused(npz(X=SAMPLES, who=np.arange(2)), "who in", "each of 3 rows", id_column="who")
    blank = npz(X=SAMPLES, who=np.array(["u", " ", "w"]))
    refused(blank, "missing identifiers", "'who' (1, the first in row 2)", id_column="who")


# --- any table at all ----------------------------------------------------------------------------

NUMBER = st.floats(-(2.0**100), 2.0**100, width=32)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(NUMBER, min_size=width, max_size=width), min_size=2)
    ),
    separator=st.sampled_from(",;\t"), comma=st.booleans(), quoted=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)  # fmt: skip
def test_any_numbers_go_round(tmp_path_factory, rows, separator, comma, quoted, end, encoding):
    cells = [[f"g{i}" for i in range(len(rows[0]))], *[[repr(one) for one in row] for row in rows]]
    if comma := comma and separator != ",":
        cells = [[cell.replace(".", ",") for cell in row] for row in cells]
    if quoted:
        cells = [[f'"{cell}"' for cell in row] for row in cells]
    path = tmp_path_factory.mktemp("round") / "my.csv"
    path.write_bytes(end.join(separator.join(row) for row in cells).encode(encoding))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = datasets.read(path, constant="keep")
    np.testing.assert_array_equal(data.X, np.array(rows, dtype=np.float32))


CELL = st.one_of(
    st.sampled_from(["1", "2", "1.5", "1,5", "", "NA", "x", "inf", '"', '"a"', '"1,5"', "1e400",
                     "True", "id", "y", "\n", "\r", ";", "\t", "9" * 30, "0x1", "1_0", " ", "\0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=5),
    separator=st.sampled_from(",;\t"), text=st.sampled_from(["refuse", "one-hot"]),
    impute=st.sampled_from([None, "median"]), id_column=st.sampled_from([None, "column 1"]),
)  # fmt: skip
def test_any_text_is_a_data_set_or_one_sentence(tmp_path_factory, rows, separator, **settings):
    path = tmp_path_factory.mktemp("any") / "my.csv"
    path.write_bytes("\n".join(separator.join(row) for row in rows).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = datasets.read(path, **settings)
        except InputError as error:
            assert str(error).isprintable()
        else:
            names = data.feature_names
            assert np.isfinite(data.X).all() and data.X.shape[1] == len(set(names)) == len(names)
            assert data.ids is None or len(set(data.ids)) == len(data.X)


def test_pandas_is_imported_for_a_table_only():
    code = ("import sys\nfrom clusterbook import datasets\n"
            "print('pandas' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- where a relative path begins, and what a record keeps -------------------------------------


def test_a_relative_path_begins_where_the_run_was_started(put, tmp_path, monkeypatch):
    put(FLOWERS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    refused("my.csv", f"there is no file {elsewhere / 'my.csv'}")
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"chapter": "x", "folder": str(tmp_path)}))
    assert len(datasets.read("my.csv", labels="species").X) == 3
    assert len(datasets.read(Path("elsewhere/../my.csv"), labels="species").X) == 3
    refused("your.csv", f"there is no file {tmp_path / 'your.csv'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(datasets.read("~/my.csv", labels="species").X) == 3


@pytest.mark.parametrize("labels", ["species", None])
def test_a_record_of_a_table_that_the_book_does_not_know(put, tmp_path, monkeypatch, labels):
    data = datasets.read(put(FLOWERS), labels=labels, features=["length", "width"])
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
