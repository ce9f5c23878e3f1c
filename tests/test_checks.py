"""The floor of the library: argument checks, where files are, and atomic writes."""

import math
import os
from unittest.mock import Mock

import numpy as np
import pytest
from _fits import generators

from clusterbook import checks, paths
from clusterbook.checks import InputError, unknown
from clusterbook.paths import write_atomically

IMAGES = np.linspace(0, 1, 32).reshape(2, 16)


@pytest.mark.parametrize(("call", "good", "bad"), [
    (lambda value: checks.whole("k", value, 1), [1, np.int64(3)], [0, -1, 1.0, True, "1", None]),
    (lambda value: checks.number("rate", value), [1e-9, 3, np.float32(2)],
     [0, -1.0, math.nan, math.inf, True, "1", None]),
    (lambda value: checks.number("rate", value, zero=True), [0, 0.0, 1], [-1e-9, math.nan]),
    (lambda value: checks.one_of("network", value, ("cnn", "fcn")), ["cnn"], ["cmn", None]),
    (checks.image_shape, [(1, 8, 8), [3, 4, 4]], [
        (28, 28), (1, 0, 28), (1, -4, 4), 784, None, (1, 8, 8, 1), (1, "a", 8), (1, 8.5, 8), "888",
        (True, 8, 8)]),
    (lambda X: checks.pixels(X, (1, 4, 4)), [IMAGES], [
        IMAGES - 0.01, IMAGES + 0.01, 255 * IMAGES, IMAGES[:, :15]]),
    (checks.as_seed, [0, 2**32 - 1, np.int64(7), None], [-1, 2**32, 1.5, True, "0", np.random]),
])
def test_argument_checks(call, good, bad):
    for value in good:
        call(value)
    for value in bad:
        with pytest.raises(InputError):
            call(value)


def test_an_unknown_name_suggests_the_nearest_one():
    error = unknown("set", "mnits", ["mnist", "digits"])
    assert isinstance(error, ValueError)                        # as scikit-learn expects
    assert "did you mean 'mnist'? Known: digits, mnist" in str(error)
    assert "did you mean" not in str(unknown("set", "xyz", ["mnist"]))


def test_a_seed_is_itself_and_a_generator_is_drawn_from():
    assert checks.as_seed(np.int64(7)) == 7 and checks.as_seed(None) != checks.as_seed(None)
    for make in (np.random.RandomState, np.random.default_rng):
        source = make(0)
        first, second = checks.as_seed(source), checks.as_seed(source)
        assert first != second and first == checks.as_seed(make(0))


def test_a_random_state_is_itself_and_numpys_global_generator_stays_as_it_was():
    own, before = np.random.RandomState(3), generators()
    assert checks.as_random_state(own) is own
    for given in (3, np.random.default_rng(3), None):
        assert isinstance(checks.as_random_state(given), np.random.RandomState)
    assert checks.as_random_state(3).randint(2**31) == own.randint(2**31)
    assert generators() == before


def test_folders_are_those_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERBOOK_DATA", "~/somewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.data_home() == tmp_path / "somewhere"
    monkeypatch.delenv("CLUSTERBOOK_DATA")
    assert paths.data_home() == paths.root() / "data"
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert paths.data_home() == tmp_path / "cache" / "clusterbook"
    for name in ("CLUSTERBOOK_CHECKPOINTS", "CLUSTERBOOK_RUN"):
        monkeypatch.delenv(name, raising=False)
    assert paths.checkpoint("main-0") is None and paths.run_context() == {}
    monkeypatch.setenv("CLUSTERBOOK_CHECKPOINTS", str(tmp_path))
    assert paths.checkpoint("main-0") == tmp_path / "main-0.pt"
    monkeypatch.setenv("CLUSTERBOOK_RUN", '{"chapter": "tell"}')
    assert paths.run_context() == {"chapter": "tell"}


@pytest.mark.parametrize("temporary", [None, "run.tmp"])
def test_a_file_is_written_whole_or_not_at_all(monkeypatch, tmp_path, temporary):
    path = tmp_path / "new" / "run.pt"
    temporary = temporary and path.with_name(temporary)
    write_atomically(path, b"first, ", b"whole", temporary=temporary)
    assert path.read_bytes() == b"first, whole" and path.stat().st_mode & 0o044 == 0o044

    for error, expected in ((OSError(28, "No space left on device"), InputError),
                            (KeyboardInterrupt("No space left"), KeyboardInterrupt)):
        for call in ("fsync", "replace"):
            with monkeypatch.context() as patched, pytest.raises(expected, match="No space left"):
                patched.setattr(os, call, Mock(side_effect=error))
                write_atomically(path, b"second", temporary=temporary)
    assert path.read_bytes() == b"first, whole" and os.listdir(path.parent) == ["run.pt"]
    with pytest.raises(InputError, match="it is a folder"):
        write_atomically(path.parent, b"second")
    with pytest.raises(InputError, match="can't be written"):
        write_atomically(path / "below" / "a file", b"second")
