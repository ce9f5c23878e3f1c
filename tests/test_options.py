"""The tables of what can be changed: nothing is left out, and every command means what it says."""

from __future__ import annotations

import shlex

import nbformat
import pytest
from _support import Book

from clusterbook import paths
from clusterbook.book import options, parameters
from clusterbook.errors import InputError

CHAPTERS = paths.chapters()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_command_sets_its_parameter_to_the_default_that_is_shown(chapter):
    known = parameters.read(chapter)
    table = options.parameter_table(chapter)
    assert [row[0] for row in table.rows] == list(known)
    for row in table.rows:
        *command, name, text, figures, out = shlex.split(row[table.heads.index("Command")])
        assert command == ["clusterbook", "run", chapter, "-p"]
        assert (figures, out) == ("--figures", "out")
        assert name == row[0]
        assert parameters.from_text(known[name], text) == known[name].default


def test_profiles_tell_what_their_records_cost():
    rows = {row[0]: row for chapter in CHAPTERS for row in options.profile_table(chapter).rows}
    assert set(rows) == set(parameters.profiles())
    assert "MiB" in rows["weights-mnist"][2]
    assert rows["deepcluster-imagenet"][2] == "not recorded"


def test_the_page_shows_every_chapter():
    page = nbformat.read(paths.root() / "book" / "parameters.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in page.cells if cell.cell_type == "code")
    for chapter in CHAPTERS:
        assert f'parameter_table("{chapter}")' in code
        assert (f'profile_table("{chapter}")' in code) == bool(parameters.profiles(chapter))


def test_the_table_is_escaped_and_an_unknown_chapter_is_refused(book: Book):
    book.notebook("tiny", parameters='name: str = "<a> b"  # what & why | paper: <none> | nothing')
    table = options.parameter_table("tiny")
    assert "&lt;none&gt;" in table._repr_html_() and "<none>" not in table._repr_html_()
    assert table.rows[0][2] == "clusterbook run tiny -p name '<a> b' --figures out"
    assert str(table).startswith("name\n    Default: '<a> b'\n")
    with pytest.raises(InputError, match="no chapter 'tinny'; did you mean 'tiny'"):
        options.parameter_table("tinny")
