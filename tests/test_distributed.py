"""Several processes: what they compute together is what one computes, and how they end."""

import os
import signal
import sys
from pathlib import Path

import _ranks
import numpy as np
import pytest
import torch
from _fits import written
from _support import SEED, TRAINS, Book, Torchrun, shown, tree, wait_for
from sklearn.metrics import adjusted_rand_score


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What one process computes, what the first and the second of two do, and their folder."""
    folder = tmp_path_factory.mktemp("ranks")
    written(folder / "images", _ranks.digits(61))
    return _ranks.alone(folder), *_ranks.together(folder), folder


def close(one, other, part=1e-5):
    """Whether numbers differ by at most a part of the largest."""
    return float((one - other).abs().max()) <= part * float(other.abs().max())


def test_the_same_features_give_the_same_clusters(found):
    expected, *ranks, _ = found
    for name, (labels, centers, inertia) in expected["clusters"].items():
        for one in ranks:
            assert torch.equal(one["clusters"][name][0], labels), name
            assert close(one["clusters"][name][1], centers), name
            assert one["clusters"][name][2] == pytest.approx(inertia, rel=1e-5, abs=1e-6), name
        assert torch.equal(*(one["clusters"][name][1] for one in ranks)), name
    for one in ranks:       # and the PCA before
        for name, parts in expected["reductions"].items():
            assert all(map(close, one["reductions"][name], parts)), name


def test_batch_statistics_and_their_gradients_are_of_all_images(found):
    expected, *ranks, _ = found
    for one in ranks:
        for name, values in expected["normalized"].items():
            assert close(one["normalized"][name], values), name


def test_one_step_has_the_same_averaged_gradients(found):
    (gradients, weights), *ranks = (one["step"] for one in found[:3])
    assert len(gradients) > 10
    for one in ranks:
        assert all(map(torch.equal, one[1], weights))
        for grad, exact in zip(one[0], gradients, strict=True):
            # Of a bias before batch normalization only rounding is left.
            assert float((grad - exact).abs().max()) < 1e-5 * float(gradients[0].abs().max())


def test_a_training_is_that_of_one_process_and_each_holds_a_part(found):
    expected, first, second = (one["trained"] for one in found[:3])
    assert adjusted_rand_score(expected["labels"], first["labels"]) > 0.9
    assert np.array_equal(first["labels"], second["labels"])
    assert all(map(torch.equal, first["weights"].values(), second["weights"].values()))
    assert [row["loss"] for row in first["rows"]] == pytest.approx(
        [row["loss"] for row in expected["rows"]], rel=1e-2)
    assert [one["held"] for one in (expected, first, second)] == [[303] * 5, [152] * 5, [151] * 5]
    assert (first["assignments"], second["assignments"]) == ((5, 303), (1, 303))
    expected, *ranks = (one["files"] for one in found[:3])
    for one in ranks:
        assert torch.equal(one["statistics"], expected["statistics"])
        assert adjusted_rand_score(expected["labels"], one["labels"]) > 0.9
        assert one["read"] < 0.52 * expected["read"]
    expected, first, second = (one["noise"] for one in found[:3])
    assert not torch.equal(first[0], second[0])             # noise is of each rank,
    assert torch.equal(first[1], second[1]) and torch.equal(first[1], expected[1])  # no more


def test_all_ranks_end_out_of_time_and_resume_from_the_file_that_rank_0_alone_writes(found):
    *ranks, folder = found[1:]
    said = [one.get("command", "it never ended") for one in ranks]
    assert said[0].startswith("stopped after epoch 1 of 4") and said[1] == "None", said
    assert sorted(tree(folder / "checkpoints")) == ["0.json", "0.pt"]
    for one in ranks:
        through, resumed = one["trained"], one["resumed"]
        assert np.array_equal(resumed["labels"], through["labels"])
        assert all(map(torch.equal, resumed["weights"].values(), through["weights"].values()))
        assert len(resumed["held"]) < len(through["held"]), "nothing was resumed"


EPOCHS = "epochs: int = 20  # rounds | paper: 500 | more"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_killed_rank_ends_the_run_and_the_same_command_resumes(
        book: Book, tmp_path, tmp_path_factory):
    book.write("src/trained.py", TRAINS)         # the other rank imports it
    book.notebook("tiny", "from trained import Model\nModel().fit(epochs)",
                  parameters=f"{EPOCHS}\n{SEED}")
    book.profile("tiny-paper", epochs=20)
    temporary = tmp_path_factory.mktemp("temporary")
    (hold := temporary / "hold").touch()         # the second epoch waits as long as it is there
    command = (tmp_path, book.environment(TMPDIR=temporary, HOLD=hold), "tiny", "--profile",
               "tiny-paper", "--record", "records", "--output", "out.ipynb")
    saved, before = book.root / "_build/checkpoints/tiny-paper-seed0/main.pt", tree(tmp_path)
    run = Torchrun(*command)
    wait_for(saved.exists, run.process)
    os.kill(run.rank(1), signal.SIGKILL)
    status, said = run.end()
    assert status not in (0, None), said
    left = {Path(one).name for one in tree(tmp_path, ["__pycache__"]).keys() - before}
    assert not list(temporary.glob("clusterbook-*"))
    assert left <= {"main.pt", "main.json", "clock.json", "tiny-paper-seed0.json"}, left
    hold.unlink()
    status, said = Torchrun(*command).end()
    assert status == 0, said
    assert said.count("tiny-paper-seed0: record in records") == 1, said
    times = int(shown(tmp_path / "out.ipynb").partition("steps: ")[2].split()[0])
    assert 1 <= times < 20, "nothing was resumed"
    record = (tmp_path / "records/tiny-paper-seed0.json").read_text()
    assert '"weight": 41.0' in record, "twenty steps of two ranks"
