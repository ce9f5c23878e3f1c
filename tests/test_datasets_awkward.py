"""Tables as people have them: as R, Excel, GEO and scanpy write them, each with its outcome."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from bookledger import cli, parameters
from clusterbook import IDC, datasets
from clusterbook.checks import InputError, said

X = np.random.default_rng(0).normal(size=(20, 3)).round(3)


def table(names: str, rows: Iterable = X, end: str = "") -> str:
    lines = [",".join(map(str, row)) + end for row in rows]
    return "\n".join([names, *lines, ""])


def beside(column: Iterable, names: str = "a,b,c") -> str:
    """A table whose last column has these values, again and again."""
    column = [*column]
    return table(names, [(*row[:2], column[i % len(column)]) for i, row in enumerate(X)])


def some(value: str, others: Iterable = range(10, 19)) -> str:
    return beside([*others, value])


GENES = table("gene,u,v,w", [(f"TP{i}", *row) for i, row in enumerate(X)])
R = "".join(f'"r{i}" {a} {b}\n' for i, (a, b, _) in enumerate(X))
FEW = (1, 2, 3, 4)
ROWS = "".join(f"p{i}\tna\t1.5\t{i}\t3\n" for i in range(4))
GEO = """!Series_title\t"Two tissues"
!Sample_title\t"left"\t"right"\t"both"
!Sample_status\t"Public"\t"Public"\t"Public"
!Sample_characteristics_ch1\t"tissue: liver"\t"tissue: lung"\t"tissue: lung"
!Sample_characteristics_ch1\t"age: 7"\t"Sex: male"\t"age: 9"
!series_matrix_table_begin
"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"
"7_at"\t1.5\t2\t3
"8_at"\t4\t5\tnull
!series_matrix_table_end
"""
TURNED, MEDIAN = {"transpose": True}, {"impute": "median"}
BY_GENE, BY_X = {"id_column": "gene"}, {"id_column": "x"}
NOT_ROWS = "20 rows, 3 columns: are rows samples?"

#: Name, content and settings; then shape, some of what is known, and a word of the notes.
READ = [
    ("a.csv", table("1,2,3"), {}, (20, 3), "'1', '2', '3', was read as names"),
    ("a.csv", table("2001,2004,2009", X.round() + 5), {}, (20, 3), "was read as names"),
    ("a.csv", table("0.5,7,1"), {}, (21, 3), ""),
    ("a.csv", table("5,9", [(3, 4.5), (5, 6), (7, 2), (8, 1), (2, 3)]), {}, (6, 2), ""),
    ("a.csv", table("1,3,4,9,12", [(*range(5),)] * 9), {}, (10, 5), ""),
    ("a.csv", table("450,521,610,500", [*np.tile(X[:4, [0, 1, 2, 0]] + 0.5, 1),
                                        *[("NA", "NA", 2, "NA")] * 4]), MEDIAN, (8, 4), "names"),
    ("a.csv", table("100,250", [(1, 2), *X[:8, :2]]), {}, (9, 2), "was read as names"),
    ("a.csv", GENES, BY_GENE, (20, 3), f"{NOT_ROWS} rows are named by 'gene'; if"),
    ("a.csv", GENES.replace("gene,u,v,w", "x,GSM1,GSM2,GSM3"), BY_X, (20, 3), NOT_ROWS),
    ("a.csv", GENES.replace("gene", "x").replace("TP", "ENSG00000000"), BY_X, (20, 3),
     f"{NOT_ROWS} rows look like genes"),
    ("a.csv", GENES, BY_GENE | TURNED, (3, 20), ""),
    ("a.csv", table("TCGA-A1-1,TCGA-A1-2,TCGA-B2-7"), {}, (20, 3), f"{NOT_ROWS} columns look like"),
    ("a.csv", beside(range(1700000000000, 1700000000020)), {}, (20, 3), "precision .* 'c (1 of 20"),
    ("a.csv", beside(range(123456789012345, 123456789012365)), {}, (20, 3), "loses precision"),
    ("a.csv", table("2-Sep,TP53,01. Mrz"), {}, (20, 3), "look like dates .* '2-Sep', '01. Mrz'"),
    ("a.csv", GENES.replace("TP3,", "2024-09-02 00:00:00,"), BY_GENE | TURNED, (3, 20), "dates"),
    ("a.txt", f'"a" "b"\n{R}', {}, (20, 2), ""),
    ("a.tsv", f"a\tb\n{R}".replace(" ", "\t").replace('"', ""), {}, (20, 2), ""),
    ("a.txt", "a b\n" + "".join(f"{3 * i} {i} {row[0]}\n" for i, row in enumerate(X)), {}, (20, 2),
     ""),
    ("a.csv", f'"" "a" "b"\n{R}'.replace(" ", ","), {}, (20, 2), ""),
    ("a.csv", "# made by x, y, z\n! on 3 May\n" + table("a,b,c") + "# end\n", {}, (20, 3),
     "skipped: 3, such as '# made by x,y,z'"),
    ("a.csv", "sep=;\n" + table("a,b,c").replace(",", ";"), {}, (20, 3), "skipped: 1, such"),
    ("a.tsv", "# from a BIOM file\n#OTU ID,S1,S2\n" + table("", [(f"t{i}", i, 2) for i in FEW])[1:],
     {"id_column": "#OTU ID"}, (4, 2), "skipped: 1"),
    ("a.csv", "My study,,\nMade:,2 May,\n" + table("a,b,c"), {}, (20, 3), "skipped: 2"),
    ("a.csv", table("a,b,c").replace(",", "|"), {}, (20, 3), ""),
    ("a.txt", table("a,b,c").replace(",", "  "), {}, (20, 3), ""),
    ("a.csv", beside(["True", "False", ""]), MEDIAN, (20, 3), "filled in: 6"),
    ("a.csv", table("a,b,c,", end=","), {}, (20, 3), "empty columns without a name .*: 1"),
    ("a.csv", table("a,b,c") + ",,\n,,\n", {}, (20, 3), ""),
    ("a.csv", some("-"), MEDIAN | {"missing": ["-"]}, (20, 3), "filled in: 2"),
    ("a.csv", some("-999.0"), MEDIAN | {"missing": ["-999"]}, (20, 3), "filled in: 2"),
    ("a.csv", some("-999"), {}, (20, 3), "-999 occurs 2 times, in 'c'; if"),
    ("a.csv", table("x,z,y"), {}, (20, 3), "'y' has 20 different numbers .* a feature; labels='y'"),
    ("a.csv", beside(FEW, "a,b,subtype"), {}, (20, 3), "'subtype (4 values)'; if .* labels='subt"),
    ("a.txt.gz", gzip.compress(GEO.encode()), MEDIAN, (3, 2), "filled in: 1"),
    ("a.gct", "#1.2\n4\t3\nName\tDescription\ts\tt\tu\n" + ROWS, {}, (3, 4), ""),
    ("a.gct", "#1.3\n4\t3\t1\t1\nid\tgene\ts\tt\tu\ndose\tna\tlow\tlow\thigh\n" + ROWS,
     {"labels": "dose"}, (3, 4), ""),
]
#: Name, content, settings and the sentence.
REFUSED = [
    ("a.csv", table("gene,b,gene"), {}, "columns of the same name, .*'gene (1)'"),
    ("a.csv", table("a;b", [("1,5;2",), ("1.234,56;3",), ("7,5;9",)]), {},
     "row 2 of 'a' is '1.234,56', with a thousands separator"),
    ("a.csv", some('"1,5"', [0.5]), {}, "row 2 of 'c' is '1,5', with another decimal mark"),
    *[("a.csv", some(cell), {"text": text}, f"of 'c' that are no numbers: 2, '{cell}', the first "
       f"in row 10; .* missing=['{cell}'] with impute='median'")
      for cell in ("-", ".", "n.a.", "n.d.", "missing", "<LOD") for text in ("refuse", "one-hot")],
    ("a.csv", some("<0.5"), {}, "is not missing: write, for example, half of the limit"),
    ("a.csv", table("a,b,c") + '1,2,"3\n4,5,6\n', {}, "a quotation mark is not closed, before '3"),
    ("a.csv", table("a,b,c"), {"sheet": "x"}, "sheet is for .xlsx and .h5ad"),
    ("a.csv", GENES.replace("TP3,", "TP2,"), BY_GENE | TURNED, "row 4: identifier .*repeated, TP2"),
    ("a.txt", GEO, TURNED, "its samples are rows already"),
    ("a.txt", GEO, {"labels": "age"} | MEDIAN, "missing labels, counted by column: 'age (1)'"),
    ("a.txt", GEO.replace('"7_at"\t1.5\t2\t3\n"8_at"\t4\t5\tnull\n', ""), {}, "has no values"),
    ("a.gct", "#1.2\n5\t3\nName\tDescription\ts\tt\tu\n" + ROWS, {}, "announces 5 rows and has 4"),
]


def found(words: str, text: str) -> bool:
    """Whether the *words* are in a text in their order; .* stands for any between them."""
    return bool(re.search(".*".join(map(re.escape, words.split(".*"))), text))


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    if name == "a.tsv":
        content = content.replace(",", "\t")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(("name", "content", "settings", "shape", "note"), READ)
def test_a_table_is_read_and_what_is_doubtful_noted(tmp_path, name, content, settings, shape, note):
    with warnings.catch_warnings(action="ignore"):
        data = datasets.read(written(tmp_path, name, content), **settings)
    assert data.X.shape == shape and bool(data.notes) == bool(note), data.notes
    assert found(note, " ".join(data.notes)), data.notes
    assert data.summary()["loaded"] == f"{shape[0]} rows × {shape[1]} features"
    if shape[1] == 3 and name == "a.csv":       # whatever stands around it, the table is the same
        np.testing.assert_allclose(data.X[-20:, :2], (X.round() + 5 if "2001" in content else X)[
            :, :2], rtol=1e-6)


@pytest.mark.parametrize(("name", "content", "settings", "words"), REFUSED)
def test_a_table_is_refused_with_its_cell_row_or_column(tmp_path, name, content, settings, words):
    with (warnings.catch_warnings(action="error"), pytest.raises(InputError) as caught):
        datasets.read(written(tmp_path, name, content), **settings)
    assert found(words, str(caught.value)) and str(caught.value).isprintable(), caught.value


def test_a_format_of_biology_says_what_its_samples_are(tmp_path):
    with warnings.catch_warnings(action="ignore"):
        data = datasets.read(written(tmp_path, "a.txt", GEO), labels="tissue", impute="median")
        other = datasets.read(written(tmp_path, "a.gct", READ[-1][1]), labels="dose")
    assert data.X.tolist() == [[1.5, 4], [2, 5], [3, 4.5]]
    assert data.feature_names == ("7_at", "8_at")
    assert data.ids == ("GSM1", "GSM2", "GSM3") and data.classes == ("liver", "lung")
    assert data.understood["offered as labels"] == "'title', 'age'" and data.y.tolist() == [0, 1, 1]
    assert (other.ids, other.y.tolist()) == (("s", "t", "u"), [1, 1, 0])
    assert other.X[1].tolist() == [0, 1, 2, 3]


def test_an_annotated_matrix_is_read_as_scanpy_left_it(tmp_path):
    anndata = pytest.importorskip("anndata")
    if hasattr(anndata.settings, "allow_write_nullable_strings"):
        anndata.settings.allow_write_nullable_strings = True
    counts = np.random.default_rng(0).poisson(1.0, (12, 5)).astype(np.float32)
    cells = anndata.AnnData(csr_matrix(counts), obs=pd.DataFrame(
        {"kind": pd.Categorical(list("ab") * 6)}, index=[f"c{i}" for i in range(12)]))
    cells.raw, cells.layers["twice"] = cells, 2 * cells.X
    cells[:, :3].copy().write_h5ad(tmp_path / "a.h5ad")
    data = datasets.read(tmp_path / "a.h5ad", labels="kind")
    assert data.X.tolist() == counts[:, :3].tolist() and data.ids[1] == "c1"
    assert data.classes == ("a", "b") and data.feature_names == ("0", "1", "2")
    for layer, values in (("raw", counts), ("twice", 2 * counts[:, :3])):
        assert datasets.read(tmp_path / "a.h5ad", sheet=layer).X.tolist() == values.tolist()
    with pytest.raises(InputError, match="unknown layer of the file: 'Raw'; did you mean 'raw'"):
        datasets.read(tmp_path / "a.h5ad", sheet="Raw")


def test_a_workbook_says_which_sheet_and_row_was_read(tmp_path):
    book = openpyxl.Workbook()
    for line in (["Read me first"], ["patients", 20]):
        book.active.append(line)
    values = [["Experiment 7"], [], ["who", "a", "b"]]
    values += [[f"p{i}", *row[:2]] for i, row in enumerate(X)]
    for line in values:
        book.create_sheet("values") if "values" not in book.sheetnames else None
        book["values"].append(line)
    book.save(tmp_path / "a.xlsx")
    with warnings.catch_warnings(action="ignore"):
        data = datasets.read(tmp_path / "a.xlsx", id_column="who")
    np.testing.assert_allclose(data.X, X[:, :2], rtol=1e-6)
    assert data.understood["sheet"] == "'values' from row 3, of 'Sheet', 'values'"
    assert found("'values' was read, from row 3; .* sheet='NAME'", data.notes[-1])
    book["values"]["B5"] = "#DIV/0!"
    book.save(tmp_path / "error.xlsx")
    with pytest.raises(InputError, match=r"missing values, counted by column: 'a \(1\)'"):
        datasets.read(tmp_path / "error.xlsx", id_column="who")
    with pytest.raises(InputError, match="unknown sheet: 'value'; did you mean 'values'"):
        datasets.read(tmp_path / "a.xlsx", sheet="value")
    with pytest.raises(InputError, match="unknown column: 'who'"):
        datasets.read(tmp_path / "a.xlsx", sheet="Sheet", id_column="who")
    book = openpyxl.Workbook()
    for line in (["gene", "s", "gene"], [datetime(2024, 9, 2), 1.5, 2], ["TP53", 1, 2.5]):
        book.active.append(line)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=r"columns of the same name, .*'gene \(1\)'"):
        datasets.read(tmp_path / "a.xlsx")
    book.active["C1"] = "t"
    book.save(tmp_path / "a.xlsx")
    with pytest.warns(UserWarning, match="dates .*'2024-09-02 00:00:00'"):
        datasets.read(tmp_path / "a.xlsx", id_column="gene", transpose=True)


def test_the_command_says_what_is_understood_or_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a.csv", some("-"))
    written(tmp_path, "b.csv", beside(["x", "y"]))
    assert cli.main(["data", "a.csv", "-p", "missing", "-,x", "-p", "impute", "median"]) == 0
    out = capsys.readouterr().out
    for words in ("20 rows × 3 features", "separator .*comma", "values .*2", "filled in: 2"):
        assert found(words, out), out
    for words, says in ((["a.csv"], "-p missing - .*-p impute median"),
                        (["b.csv"], "use -p text one-hot"), (["c.csv"], "there is no file"),
                        (["a.csv", "-p", "transpose", "maybe"], "transpose takes bool"),
                        (["a.csv", "-p", "txt", "x"], "did you mean 'text'")):
        assert cli.main(["data", *words]) == 2
        out, err = capsys.readouterr()
        assert not out and err.count("\n") == 1 and found(says, err), err
    assert "text='one-hot'" in str(pytest.raises(InputError, datasets.read, "b.csv").value)
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"chapter": "idc_table"}))
    assert "-p text one-hot" in str(pytest.raises(InputError, datasets.read, "b.csv").value)


def test_the_options_are_the_notebook_s_parameters():
    known = parameters.read("idc_table").parameters
    assert {name: known[name].default for name in datasets.OPTIONS} == datasets.OPTIONS


def test_a_sparse_matrix_and_a_foreign_file_get_sentences_of_their_own():
    with pytest.raises(InputError, match="X is a sparse matrix, .* give X.toarray"):
        IDC(2).fit(csr_matrix(X))
    torch = "Weights only load failed; re-run with weights_only=False"
    assert said(RuntimeError(torch)) == "it holds other things than numbers"


def test_codes_of_groups_and_labels_that_name_every_row_are_noted(tmp_path):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(60, 300))).add_prefix("v")
    for column, says in ((("subtype", np.arange(60) % 4), "'subtype .4 values.'"),
                         (("label", [f"n{i}" for i in range(60)]), "60 classes in 60 rows")):
        wide.assign(**dict([column])).to_csv(tmp_path / "a.csv", index=False)
        with pytest.warns(UserWarning, match=says):
            datasets.read(tmp_path / "a.csv")
    twice = pd.DataFrame(rng.normal(size=(40, 3)), columns=[*"uvw"])
    pd.concat([twice, twice]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(UserWarning, match="40 of 80 rows repeat an earlier row"):
        datasets.read(tmp_path / "a.csv")
