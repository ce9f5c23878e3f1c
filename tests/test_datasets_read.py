"""A person's own table: read as it is in each form, or refused with what it takes to go on."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from clusterbook import datasets, evidence
from clusterbook.datasets.table import SOURCES
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
