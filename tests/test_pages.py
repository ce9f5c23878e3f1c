"""What the extension `bookledger.pages` makes of documents, of code and of the site's files."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from bookledger import pages
from bookledger.records import Record
from clusterbook.datasets import Dataset


def test_columns_in_print_are_as_wide_as_what_is_in_them():
    page = publish_doctree("== ==== =\na  long\n== ==== =\nbb words c\n== ==== =\n".replace(
        "long", "l" * 40).replace("words", "w" * 20).replace("====", "=" * 40))
    pages.fit_tables(SimpleNamespace(builder=SimpleNamespace(format="latex")), page, "")
    widths = [column["colwidth"] for column in page.findall(pages.nodes.colspec)]
    assert widths == [6, 36, 6], "LaTeX would not break the lines of a long table"


def test_each_equation_of_a_docstring_is_listed_and_every_module_of_a_method():
    text = pages.methods()
    for row in ("4 to 6 | `ClusterLayer.logits` | `clusterbook/tell/layer.py`",
                "13 | `squared_distance` | `clusterbook/tell/layer.py`",
                "1 | `DeepCluster._fit.step` | `clusterbook/deepcluster/estimator.py`"):
        assert f"\n| {row} |\n" in text
    assert len(re.findall(r"(?m)^\| \d.* \|$", text)) > 10
    assert "automodule:: clusterbook.weights\n" in text and "clusterbook.idc.losses" in text


def test_a_signature_has_types_and_not_how_they_are_validated():
    def shown(thing):
        return pages.plain_signature(None, "class", "", thing, None, "", "")

    fields, _ = shown(Record)
    assert fields.startswith("(chapter: str, profile: str, parameters: dict[str, JsonValue], ")
    assert "seed: int, " in fields and "claims: dict[str, str] = ..., " in fields
    assert "beside: pd.DataFrame | None = None, " in shown(Dataset)[0]
    assert shown(Path) is None, "Sphinx's own"


def test_a_formula_is_mathml_and_one_without_is_named_with_its_place(monkeypatch):
    said = []
    monkeypatch.setattr(pages, "getLogger", lambda _: SimpleNamespace(
        warning=lambda *words, location: said.append((words[1], location))))

    def written(node: nodes.Node) -> str:
        page = SimpleNamespace(body=[], starttag=lambda _, kind, __, CLASS: f"<{kind} {CLASS}>")
        with pytest.raises(nodes.SkipNode):
            pages.formula(page, node)
        return "".join(page.body)

    assert re.fullmatch("<span math><math>.*<msub>.*</math></span>",
                        written(nodes.math("", r"\mathcal L_\mathrm{a}")))
    block = nodes.math_block("", r"a &= b \\ c &= d")
    assert re.fullmatch(r'<div math><math display="block">.*(<mtr>.*){2}</math></div>',
                        written(block), re.DOTALL)
    wrong = nodes.math("", r"\unheard{x}<y")
    assert "{x}&lt;y" in written(wrong) and said == [(r"\unheard{x}<y", wrong)]


def test_icons_are_drawn_and_code_has_no_empty_tags():
    import pydata_sphinx_theme

    theme = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
    script = '<script src="_static/{}.js?v=1"></script>'
    files = "".join(map(script.format, ("fontawesome", "searchindex", "doctools")))
    files += '<script type="text/x-thebe-config">{ requestKernel: true }</script>'
    icon = '<button aria-label="Menu"><i class="fas {}" title="x"></i></button>'
    code = ('<summary aria-label="Toggle hidden content">Show code</summary>'
            '<span class="n">a</span><span class="w"> </span><span class="o">=</span>'
            '<span class="s1">&#39;</span><span class="s1">b</span><span class="s1">&#39;</span>')
    made = pages.lighter(files + icon.format("fa-bars fa-lg") + code, theme)
    assert made.startswith(script.format("doctools") + '<button aria-label="Menu"><svg class="')
    assert 'aria-hidden="true"' in made and "title" not in made and " d=\"M" in made
    assert made.endswith('</button><summary>Show code</summary>a <span class="o">=</span>'
                         '<span class="s1">&#39;b&#39;</span>')
    assert "searchindex" in pages.lighter(files, theme, searches=True)
    with pytest.raises(TypeError):
        pages.lighter(icon.format("fa-no-such-thing"), theme)


def test_the_index_has_words_and_decimal_numbers():
    assert pages.Words({}).split("95.16% of v0.1.0, x_1.") == ["95.16", "of", "v0", "1.0", "x_1"]


def test_the_page_lists_the_wheel_where_one_was_made(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(pages.subprocess, "run", lambda command, **_: called.append(command))
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    pages.pack(app)
    assert not called and "`python -m build` makes both" in pages.VIEWS["packages"]()
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "a-1.whl").write_bytes(bytes(2_600_000))
    monkeypatch.setattr(pages, "find_spec", lambda name: SimpleNamespace(origin=name))
    pages.pack(app)
    assert called[0][1:5] == ["-m", "build", "--outdir", tmp_path / "packages"]
    assert pages.VIEWS["packages"]() == (
        '- <a href="../packages/a-1.whl" download>a-1.whl</a>: 3 MB')
