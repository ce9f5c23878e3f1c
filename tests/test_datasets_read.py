"""One's own table or folder of images: read as it is, or refused with one clear sentence."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat
from scipy.sparse import csc_matrix

from clusterbook import datasets
from clusterbook.checks import InputError

FLOWERS = "length,width,species\n1.5,2,rose\n2.5,-3e-1,lily\n4,7,rose\n"
SAMPLES = np.arange(6.0).reshape(3, 2)
RNG = np.random.default_rng(0)


@pytest.fixture
def put(tmp_path) -> Callable[..., Path]:
    """Writes a text file, or arrays as .npz."""

    def write(content: object, name: str = "my.csv") -> Path:
        if isinstance(content, dict):
            np.savez(tmp_path / name, **content)
        else:
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


def opened(path: object, **settings: object) -> datasets.Dataset:
    return (datasets.load if f"{path}".startswith("folder:") else datasets.read)(path, **settings)


def read(path: object, **settings: object) -> datasets.Dataset:
    """The data set, whose notes are its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = opened(path, **settings)
    assert tuple(str(one.message) for one in caught) == data.notes
    assert all(one.category is UserWarning and one.filename == __file__ for one in caught)
    assert data.X.flags.c_contiguous and data.X.dtype == np.float32
    assert data.X.shape[1] == len(data.feature_names or data.X[0])
    return data


def refused(path: object, *words: str, **settings: object) -> str:
    """The message of the error: one sentence with these words in it, and no warning."""
    with (warnings.catch_warnings(action="error", category=UserWarning),
          pytest.raises(InputError) as caught):
        opened(path, **settings)
    message = str(caught.value)
    assert message.isprintable()
    assert all(word in message for word in words), message
    return message


COUNTED, OTHERS = [[1, 2], [3, 4]], [[1.5, -2], [0.25, 30]]


@pytest.mark.parametrize(("name", "content", "names", "X", "note"), [
    ("my.csv", "weight; kg,height; cm\n1,2\n3,4\n", ("weight; kg", "height; cm"), COUNTED, ""),
    ("my.csv", '"a, ""x""\nb",c\n1,2\n3,4\n', ('a, "x"\nb', "c"), COUNTED, ""),
    ("my.csv", '\ufeff"a" , "b"\r\n\r\n"1" , "2"\r\n3 , 4', ("a", "b"), COUNTED, ""),
    ("my.csv", "1,2\n3,4\n", ("column 1", "column 2"), COUNTED, ""),  # a sample, not names
    ("my.csv", "0,1\n1,2\n3,4\n", ("0", "1"), COUNTED, ""),  # names: they count
    ("my.csv", "a,b\nTrue,1e25\nFalse,3\n", ("a", "b"), [[1, np.float32(1e25)], [0, 3]], ""),
    ("my.csv", "a;b\n1,5;-2\n,25;3e1\n", ("a", "b"), OTHERS, "decimal commas"),
    # no names, and commas fit too
    ("my.csv", "1,5;-2,0\n0,25;3,0e1\n", ("column 1", "column 2"), OTHERS, "decimal commas"),
    ("my.tsv", "a\tb\n1,5\t-2\n,25\t3e1\n", ("a", "b"), OTHERS, "decimal commas"),
    ("my.csv", "é,b\n1.5,-2\n.25,30\n".encode("cp1252"), ("é", "b"), OTHERS, "not UTF-8"),
    ("my.csv", "é,b\n1.5,-2\n.25,3e1\n".encode("utf-16"), ("é", "b"), OTHERS, ""),
])
def test_a_table_from_another_country_or_program(put, name, content, names, X, note):
    data = read(put(content, name))
    assert data.feature_names == names and data.X.tolist() == X and data.y is None
    assert len(data.notes) == bool(note) and note in "".join(data.notes)


CELL = st.one_of(
    st.sampled_from(["1", "2", "1.5", "1,5", "", "NA", "x", "inf", '"', '"a"', '"1,5"', "1e400",
                     "True", "id", "y", "\n", "\r", ";", "\t", "9" * 30, "0x1", "1_0", " ", "\0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=5),
       separator=st.sampled_from(",;\t"), text=st.sampled_from(["refuse", "one-hot"]),
       impute=st.sampled_from([None, "median"]), id_column=st.sampled_from([None, "id"]))
def test_any_text_is_a_data_set_or_one_sentence(tmp_path_factory, rows, separator, **settings):
    path = tmp_path_factory.mktemp("any") / "my.csv"
    path.write_bytes("\n".join(separator.join(row) for row in rows).encode())
    try:
        data = read(path, **settings)
    except InputError as error:
        assert str(error).isprintable()
    else:
        assert np.isfinite(data.X).all() and data.X.shape[1] == len(set(data.feature_names))
        assert data.ids is None or len(set(data.ids)) == len(data.X)


@pytest.mark.parametrize(("labels", "classes", "y"), [
    ("10 9 10", "9 10", [1, 0, 1]),  # by value, not by letter
    ("1.0 2 1", "1 2", [0, 1, 0]), ("1 b a", "1 a b", [0, 2, 1]),
    (f"{10**25 - 1} {10**25 - 2} {10**25 - 1}", f"{10**25 - 2} {10**25 - 1}", [1, 0, 1])])
def test_labels_are_numbers_or_text(put, labels, classes, y):
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels.split()))
    data = read(put("a,kind\n" + rows), labels="kind")
    assert data.classes == tuple(classes.split()) and data.y.tolist() == y


@pytest.mark.parametrize(("text", "id_column", "ids", "features", "classes"), [
    ("id,a,y\n007,1,u\n08,2,v\n", "id", ("007", "08"), ("a",), ("u", "v")),
    (",a\nr1,1\nr2,2\n", "Unnamed: 0", ("r1", "r2"), ("a",), ()),  # as R writes names of rows
    (",a\n3,2\n1,5\n", None, ("3", "1"), ("a",), ()),  # as pandas writes an index
    ("y,b\n1,2\n3,4\n", "y", ("1", "3"), ("b",), ()),  # not taken for the labels
])
def test_identifiers_are_kept_and_are_no_feature(put, text, id_column, ids, features, classes):
    data = read(put(text), id_column=id_column)
    assert (data.ids, data.feature_names, data.classes) == (ids, features, classes)


def test_gaps_are_filled_in_and_text_becomes_features_if_asked(put):
    path = put("plant,height,soil\nP1,1.5,clay\nP2,,sand\nP3,4,\nP4,2.5,clay\n")
    refused(path, "'height (1)', 'soil (1)';", id_column="plant", text="one-hot")
    data = read(path, id_column="plant", text="one-hot", impute="median")
    assert data.feature_names == ("height", "soil=clay", "soil=missing", "soil=sand")
    assert data.X.tolist() == [[1.5, 1, 0, 0], [2.5, 0, 0, 1], [4, 0, 1, 0], [2.5, 1, 0, 0]]
    assert "filled in: 2, in columns 'height (25%)', 'soil (25%)'," in data.notes[0]
    assert "features of 0 and 1: 'soil (3)'" in data.notes[1] and len(data.notes) == 2
    many = put("a,b\n1,2\n,7\n3,9\n10,11\n")  # the median, not the mean
    assert read(many, impute="median").X[:, 0].tolist() == [1, 3, 3, 10]
    rows = "".join(f"{i % 7},person {i}\n" for i in range(30))
    first = read(put("who,a\n" + "".join(f"p {i},{i % 7}\n" for i in range(30)), "first.csv"))
    assert first.ids[:2] == ("p 0", "p 1") and "names the rows" in first.notes[0]
    for few in ("".join(f"{i} mg,{i % 7}\n" for i in range(30)), "x,1\ny,2\nz,4\n"):
        refused(put(f"dose,a\n{few}", "few.csv"), "text in 1 of 2 columns: 'dose (")
    names = put(f"a,who\n{rows}", "names.csv")
    refused(names, "different texts in most rows, as in a column of names: 'who'", text="one-hot")
    assert read(names, text="one-hot", features=["who", "a"]).texts == ("who",)
    coded = read(put("arm,a\n" + "7,0.5\nb,1.5\nc,2\n" * 9, "arms.csv"), text="one-hot")
    assert not any("few whole numbers" in note for note in coded.notes)
    places = read(put("x,y,a\n" + "".join(f"{i},{i % 15},0.5\n" for i in range(60)), "xy.csv"))
    assert "'y' was taken for classes because of its name" in places.notes[0]
    minus = put("a,b\n\N{MINUS SIGN}1.5,2\n3,4\n", "minus.csv")
    assert read(minus).X.tolist() == [[-1.5, 2], [3, 4]]
    for codes in ("10", ["10"], 10):
        assert read(many, impute="median", missing=codes).X[:, 0].tolist() == [1, 2, 3, 2]
    assert read(many, features=pd.Index(["b"])).X.tolist() == [[2], [7], [9], [11]]
    turned = read(many, impute="median", features=["b", "a"])
    assert turned.feature_names == ("b", "a") and turned.X[0].tolist() == [2, 1]


def test_names_of_text_name_the_features_of_a_turned_table_before_an_index(put):
    data = read(put(",gene,s,t\n0,TP53,1,2\n1,MYC,3,4\n"), transpose=True)
    assert (data.feature_names, data.ids) == (("TP53", "MYC"), ("s", "t"))
    assert data.X.tolist() == [[1, 3], [2, 4]]
    data = read(put(",s,t\n0,1,2\n1,3,4\n"), transpose=True)
    assert (data.feature_names, data.ids) == (("0", "1"), ("s", "t"))


def test_a_column_without_a_value_is_left_out(put):
    path = put("a,b,c\n1,,5\n2,?,6\n")
    data = read(path)
    assert data.feature_names == ("a", "c")
    assert data.notes[0] == "columns without a value were left out: 'b'"
    refused(path, "missing values, counted by column: 'b (2)'", features=["a", "b"])
    nothing = "a,b\nNA,?\nNA,?\n"
    refused(put(nothing), "rows: 2, features: 0; expected at least 2 and 1")


MEDIAN, BY_ID = {"impute": "median"}, {"id_column": "id"}


@pytest.mark.parametrize(("text", "words", "settings"), [
    ("a,b\n", "rows: 0, features: 2", {}),
    ("a,b\n1,2\n\n3\n", "missing values, counted by column: 'b (1)'", {}),
    ("a,b\n1,5,2,5\n3,5,4,5\n", "row 1 has 4 values, expected 2", {}),
    ("b,,a\n1,0,2\n1,1,5\n", "identifiers in 'Unnamed: 1'", {}),
    ("a,city\n1,Paris\n2,Rome\n", "text in 1 of 2 columns: 'city (2 different, such", {}),
    ("a;b\n1,5;2.500\n2,5;3.500\n", "row 1 of 'b' is '2.500', with a thousands separator", {}),
    ('a,b\n"1,234",2\n"5,678",3\n', "row 1 of 'a' is '1,234', with a thousands sep", {}),
    ("a,b\ninf,1\n-Infinity,2\n1,1e39\n", "no values, counted by column: 'a (2)', 'b (1)';", {}),
    ("a,b,c\n1,,5\nNA,?,6\nnan,8,7\n", "missing values, counted by column: 'a (2)', 'b", {}),
    ("a,b\n,\n,\n", "rows: 0, features: 2", {}),
    ("a,b\n,1\n,2\n", "no values, counted by column: 'a (2)'", MEDIAN | {"features": ["a"]}),
    ("a,y\n1, \n2,x\n3,?\n", "missing labels, counted by column: 'y (2)'", {}),
    ("a,label,class\n1,2,3\n4,5,6\n", "could be labels ('label', 'class')", {}),
    ("id,a\nP1,1\nP2,3\nP1,2\nP1,7\n", "row 3: identifier missing or repeated", BY_ID),
    ("PatientID,a\n4,1\n7,1.5\n", "identifiers in 'PatientID': name it as id_column", {}),
    (FLOWERS, "unknown column: 'Specie'; did you mean 'species'?", {"labels": "Specie"}),
    (FLOWERS, "unknown setting of impute: 'mean'; did you mean 'median'", {"impute": "mean"}),
    (FLOWERS, "name a column twice: 'species'", {"labels": "species", "features": ["species"]}),
    (FLOWERS, "unknown setting of impute: 'none'", {"impute": "none"}),
    (FLOWERS, "unknown column: 'nonsense'", {"features": "nonsense"}),
    ({"a": SAMPLES}, "call the samples X, shape (rows, features), among 'a'", {}),
    ({"X": 1j * SAMPLES}, "X must have real numbers, shape (rows, features), not complex", {}),
    ({"X": SAMPLES[:, None]}, "of shape (3, 1, 2)", {}),
    ({"X": SAMPLES, "y": [1, 2]}, "y has 2 values for 3 rows of X", {}),
    ({"X": SAMPLES, "feature_names": ["a"]}, "feature_names has 1 names for 2 columns of X", {}),
    ({"X": SAMPLES, "y": np.array([{}] * 3)}, "allow_pickle=False", {}),  # nothing is unpickled
])
def test_a_table_that_cannot_be_clustered(put, text, words, settings):
    path = put(text, "my.npz" if isinstance(text, dict) else "my.csv")
    refused(path, str(path) if text != FLOWERS else "", words, **settings)


def test_a_file_that_is_not_there_or_no_table(put, tmp_path, monkeypatch):
    put("no table", "my.doc")
    put(FLOWERS)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    message = refused("My.cvs", f"there is no file {tmp_path}/My.cvs; tables", "folder: 'my.csv'")
    assert "my.doc" not in message
    refused("my.doc", str(tmp_path), "save it as .csv, .tsv, .txt, .gct, .xlsx, .parquet, .npz, .m")
    # A relative path begins where the run was started.
    monkeypatch.chdir("below")
    refused("my.csv", f"there is no file {tmp_path / 'below' / 'my.csv'}")
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"chapter": "x", "folder": str(tmp_path)}))
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("my.csv", Path("below/../my.csv"), "~/my.csv"):
        assert len(read(path, labels="species").X) == 3


@pytest.mark.parametrize(("name", "start", "package"), [
    ("my.npz", b"PK\3\4", ""), ("my.mat", b"", ""), ("my.xlsx", b"PK\3\4", "openpyxl"),
    ("my.parquet", b"PAR1\x15", "pyarrow"), ("my.h5ad", b"\x89HDF", "anndata"),
    ("my.csv.gz", b"", "")])
def test_a_damaged_file_or_a_missing_package_is_no_traceback(put, monkeypatch, name, start,
                                                             package):
    for content in (b"\x1f\x8b", b"<html>", b"PK\x03\x04 cut short", b"PAR1" + bytes(200)):
        refused(put(content, name), f"{name} can't be read: ")
    if package:
        monkeypatch.setitem(sys.modules, package, None)
        refused(put(start, name), package, "install")


def test_a_file_under_the_wrong_ending_says_what_it_is(put):
    table, ole = pd.DataFrame({"a": [1, 2], "b": [3, 4]}), bytes.fromhex("d0cf11e0a1b11ae1")
    table.to_excel(book := put(b"", "my.xlsx"), index=False)
    table.to_parquet(flat := put(b"", "flat.parquet"))
    as_text = put(book.read_bytes(), "my.csv")
    refused(as_text, "ends in .csv, but its first bytes are those of .xlsx or .npz files; rename")
    refused(put(flat.read_bytes(), "flat.xlsx"), "those of .parquet files")
    for name in ("my.xlsx", "my.npz", "my.parquet", "my.h5ad"):
        refused(put("a,b\n1,2\n3,4\n", name), "not those of such files; if it is text, name it .c")
    for name in ("my.xlsx", "my.csv"):
        refused(put(ole, name), "it is an .xls workbook, or one with a password")
    for separator in ",\t":                 # texts that begin like other files
        assert read(put("PAR1,b\n1,2\n3,4\n".replace(",", separator))).feature_names[0] == "PAR1"
    assert len(read(put("PK,b,c\n1,2,3\n3,4,5\n")).X) == 2


@pytest.mark.parametrize(("samples", "labels", "classes"), [
    (SAMPLES, np.array([[4], [2], [4]], dtype=np.uint8), ("2", "4")),
    (csc_matrix(SAMPLES), np.array([[4.0, 2.0, 4.0]]), ("2", "4")),
    (SAMPLES, np.array(["ill ", "fine", "ill "]), ("fine", "ill")),  # rows of letters
], ids=["column", "row, sparse", "letters"])
def test_a_matlab_file_is_read(tmp_path, samples, labels, classes):
    savemat(tmp_path / "my.mat", {"X": samples, "Y": labels, "feature_names": np.array(
        [["gene a"], ["gene b"]], dtype=object)})
    data = read(tmp_path / "my.mat")
    np.testing.assert_array_equal(data.X, SAMPLES)
    assert data.classes == classes and data.y.tolist() == [1, 0, 1]
    assert data.feature_names == ("gene a", "gene b")


def test_a_matlab_file_of_one_row_and_arrays_beside_those_of_npz(put, tmp_path):
    savemat(tmp_path / "one.mat", {"X": SAMPLES[:1]})
    one = datasets.own.read_table(tmp_path / "one.mat", texts=(),
                                  features=["column 1", "column 2"])
    assert one.X.tolist() == [[*SAMPLES[0]]]
    arrays = {"X": SAMPLES, "kind": np.array(["x", "z", "x"]), "who": ["u", "v", "w"],
              "feature_names": [b"gene a", b"gene b"]}
    data = read(put(arrays, "my.npz"), labels="kind", id_column="who")
    assert data.feature_names == ("gene a", "gene b") and data.classes == ("x", "z")
    assert data.ids == tuple("uvw") and data.X.tolist() == SAMPLES.tolist()


def test_what_counting_programs_write_beside_the_samples_is_left_out(put):
    rows = "".join(f"g{i}\tchr1;chr1\t{i * 100}\t{i * 100 + 50}\t+\t50\t{i}\t{i % 3}\n"
                   for i in range(9)) + "__no_feature\t\t\t\t\t\t70\t80\n"
    data = read(put("Geneid\tChr\tStart\tEnd\tStrand\tLength\ta.bam\tb.bam\n" + rows, "fc.txt"),
                transpose=True)
    assert data.ids == ("a.bam", "b.bam") and data.feature_names == tuple(f"g{i}" for i in range(9))
    assert data.X.tolist() == [[*range(9)], [0, 1, 2] * 3]
    said = "\n".join(data.notes)
    assert "'Chr', 'Start', 'End', 'Strand', 'Length'" in said and "'__no_feature'" in said
    times = put("gene,start,mid,end\na,1,2,3\nb,4,5,6\n", "times.csv")
    assert read(times, transpose=True).ids == ("start", "mid", "end")


def test_a_first_row_with_a_class_that_occurs_again_is_a_sample(put):
    flowers = "5.1,3.5,setosa\n4.9,3,setosa\n7,3.2,virginica\n6,3,virginica\n"
    data = read(put(flowers), labels="column 3")
    assert data.X[0].tolist() == pytest.approx([5.1, 3.5]) and len(data.X) == 4
    years = read(put("id,2019,2020\nP1,1,2\nP2,3,4\nP3,5,7\n"), id_column="id")
    assert years.feature_names == ("2019", "2020") and len(years.X) == 3


def test_a_workbook_and_a_parquet_file_with_its_kinds_of_columns(tmp_path):
    frame = pd.DataFrame({
        "a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, False, None], "boolean"),
        "c": pd.Categorical(["u", None, "u"]), "d": np.float32([1.5, 2, 4]),
    }, index=pd.Index(["r1", "r2", "r3"], name="row"))
    frame[["a", "d"]].rename(columns={"d": "y"}).to_excel(tmp_path / "my.xlsx")
    assert read(tmp_path / "my.xlsx", id_column="row", impute="median").classes == ("1.5", "2", "4")
    frame.to_parquet(tmp_path / "my.parquet")
    pd.DataFrame({"a": [[1, 2], [3, 4]], "b": [1, 2]}).to_parquet(tmp_path / "lists.parquet")
    refused(tmp_path / "lists.parquet", "a cell of the column 'a' holds a ndarray, not one value")
    table = {"path": tmp_path / "my.parquet", "id_column": "row"}
    refused(table["path"], "'row (3 different, such as r1)'", "text in 2 of 5")
    refused(table["path"], "missing values, counted by column: 'a (1)', 'b (1)'; remove",
            features=["a", "b", "d"])
    data = read(**table, text="one-hot", impute="median")
    assert data.ids == ("r1", "r2", "r3")
    assert data.feature_names == ("a", "b", "d", "c=missing", "c=u")
    assert data.X.tolist() == [[1, 1, 1.5, 0, 1], [2, 0, 2, 1, 0], [3, 0.5, 4, 0, 1]]


@pytest.fixture
def photos(tmp_path) -> Path:
    (folder := tmp_path / "my photos").mkdir()
    return folder


@pytest.fixture
def paint(photos) -> Callable[..., np.ndarray]:
    """Writes images below the folder, random unless given, and returns the last one's pixels."""

    def write(*names: str, size: tuple[int, int] = (8, 8), mode: str = "RGB",
              pixels: np.ndarray | None = None, **settings: object) -> np.ndarray:
        for name in names:
            random = RNG.integers(0, 256, (*size, 3), dtype=np.uint8)
            image = random if pixels is None else pixels
            (photos / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).convert(mode).save(photos / name, **settings)
        return image

    return write


def shown(data: datasets.Dataset, number: int) -> np.ndarray:
    """An image of a data set as bytes, (height, width, channels)."""
    pixels = data.X[number].reshape(data.image_shape).transpose(1, 2, 0) * 255
    return np.round(pixels).astype(np.uint8)


def test_subfolders_are_classes_sorted_as_their_images_are(paint, photos, monkeypatch):
    names = ["Bee/1.JPG", "ant/a.png", "ant/x.jpeg", "ant-eater/1.png", "zebra/10.png",
             "zebra/2.png"]
    paint(*reversed(names))
    (photos / ".hidden").mkdir()
    (photos / "ant" / "._a.png").write_bytes(b"of another system")
    (photos / "bat").symlink_to(photos / "zebra")
    data = read(f"folder:{photos}", image_size=8)
    assert data.classes == ("Bee", "ant", "ant-eater", "bat", "zebra")
    assert data.y.tolist() == [0, 1, 1, 2, 3, 3, 4, 4] and data.y.dtype == np.int64
    names[4:4] = ["bat/10.png", "bat/2.png"]
    for i, name in enumerate(names):
        np.testing.assert_array_equal(shown(data, i), np.asarray(Image.open(photos / name)))
    monkeypatch.setattr(Image, "open", None)  # finding images opens none
    assert datasets.find_images(photos).names == names


def test_an_image_is_its_middle_square_turned_and_otherwise_untouched(paint, photos):
    note = Image.Exif()
    note[0x0112] = 6  # the camera was held on its side: turn it a quarter to the right
    turned = paint("3.png", size=(8, 12), exif=note)
    for height, width, top, left in ((8, 12, 0, 2), (13, 8, 2, 0), (8, 8, 0, 0), (8, 11, 0, 1)):
        pixels = paint("10.tif", size=(height, width))
        data = read(f"folder:{photos}", image_size=8)
        np.testing.assert_array_equal(shown(data, 0), pixels[top : top + 8, left : left + 8])
    np.testing.assert_array_equal(shown(data, 1), np.rot90(turned, -1)[2:10])
    assert data.y is None and data.classes == () and data.feature_names is None


def test_resized_and_cropped(paint, photos):
    smooth = np.indices((90, 130)).sum(0)
    pixels = np.stack([smooth, smooth[::-1], smooth[:, ::-1]], -1).astype(np.uint8)
    paint("1.png", "2.png", pixels=pixels)
    resized = Image.fromarray(pixels).resize((46, 32), Image.Resampling.BILINEAR)
    expected = np.asarray(resized.crop((9, 2, 37, 30))).astype(int)
    ours = shown(read(f"folder:{photos}", image_size=28, resize=32), 0)
    assert np.abs(ours - expected).max() <= 3


def test_images_in_gray_and_in_color_of_each_kind(paint, photos):
    paint("0.png", mode="L")
    paint("1.png", mode="LA")
    gray, first = read(f"folder:{photos}", image_size=8), Image.open(photos / "0.png")
    assert gray.image_shape == (1, 8, 8)
    np.testing.assert_array_equal(shown(gray, 0)[..., 0], first)
    pixels = paint("3.png")
    paint("4.png", pixels=pixels, mode="RGBA")
    paint("5.tif", pixels=pixels, mode="CMYK")
    data = read(f"folder:{photos}", image_size=8)
    for i, image in zip((0, 2, 3, 4), [np.stack([first] * 3, -1), *[pixels] * 3], strict=True):
        np.testing.assert_array_equal(shown(data, i), image)


def test_a_sample_knows_its_places_and_all_classes(paint, photos):
    paint(*(f"{name}/{i}.png" for name in "abc" for i in range(3)))
    every = read(f"folder:{photos}")
    some, again = (read(f"folder:{photos}", most=2) for _ in range(2))
    assert some.rows.tolist() == again.rows.tolist() == sorted(some.rows) and len(some.X) == 2
    assert some.rows.tolist() != [0, 1], "a random part"
    np.testing.assert_array_equal(some.X, every.X[some.rows])
    np.testing.assert_array_equal(some.y, every.y[some.rows])
    assert some.classes == every.classes == ("a", "b", "c")


def test_what_cannot_be_read_is_named(paint, photos):
    paint("ant/1.png", "ant/3.png", "bee/1.png", "bee/more/2.png")
    (photos / "ant/IMG_1.HEIC").write_bytes(b"of a telephone")
    (photos / "read me.txt").write_text("about them")
    with pytest.warns(UserWarning, match="was read; left out: 'read me.txt', 'ant/IMG_1.HEIC', "
                                         "'bee/more/2.png'$"):
        assert datasets.load(f"folder:{photos}", image_size=8).y.tolist() == [0, 0, 1]
    paint("ant/2.jpg", size=(64, 64), quality=95)
    (photos / "ant/2.jpg").write_bytes((photos / "ant/2.jpg").read_bytes()[:1500])
    (photos / "bee/0.png").write_bytes(b"")
    (photos / "bee/3.png").symlink_to(photos / "nowhere.png")
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(photos / "bee/deep.png")
    refused(f"folder:{photos}", "has 4 images that can't be read: ",
            "ant/2.jpg (image file is truncated", "bee/0.png (cannot identify image",
            "bee/deep.png (more than 8 bits a channel, mode I;16; save it with 8)",
            "bee/3.png ([Errno 2] No such file")


@pytest.mark.parametrize(("names", "settings", "words"), [
    (["x.png", "cat/1.png"], {}, "has images ('x.png') beside folders ('cat'): move all into"),
    (["1.png"], {}, "images: '1.png'"), ([], {}, "they end in .jpg, .jpeg"),
    (["train/cat/1.png", "test/cat/1.png"], {}, "other files: 'test/cat/1.png', 'train/cat/1.png'"),
    (["cat/1.png", "cat/2.png", "dog/1.heic"], {}, "subfolders without any: 'dog'; other files"),
    (["1.png", "2.png"], {"image_size": (64, 64)}, "image_size must be a whole number of at leas"),
    (["1.png", "2.png"], {"size": 8}, "unknown setting of a folder: 'size'"),
    (["1.png", "2.png"], {"most": 1}, "most must be a whole number of at least 2"),
    (["1.png", "2.png"], {"resize": 20}, "resize must be a whole number of at least 64, not 20")])
def test_folders_and_settings_that_cannot_be_are_refused(paint, photos, names, settings, words):
    for name in names:
        paint(name, **({"format": "png"} if name.endswith("heic") else {}))
    refused(f"folder:{photos}", words, **settings)
    refused(f"folder:{photos}s", f"there is no folder {photos}s")
    if settings:
        with pytest.raises(InputError, match="can be set for 'folder:PATH' only, not 'digits'"):
            datasets.load("digits", **settings)
