"""What TELL, IDC and DeepCluster share: contract, seeds, threads, files, resume, bad input."""

import functools
import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from _fits import SHAPE, Takes, X, Y, before_steps, everything, generators, make, same, written
from _support import CHECKOUT, PACKAGE, module_of
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info
from torch import nn
from torchvision.models import resnet18

from clusterbook import IDC, TELL, DeepCluster, paths, training
from clusterbook.base import peak_memory
from clusterbook.checkpoints import Checkpoint
from clusterbook.checks import InputError, OutOfTime
from clusterbook.classifier import train_classifier
from clusterbook.metrics import accuracy

KINDS = (TELL, IDC, DeepCluster)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
FLAT = X.copy()
FLAT[:, [4, 9]] = 0.5, 0.0
NAN = np.where(np.eye(60, 64) > 0, np.nan, X)
FCN = {"network": "fcn", "hidden": (16, 12)}


class Vectors(nn.Linear):
    """A network for rows that are no images."""

    n_features, features = 16, nn.Linear.forward

    def __init__(self, shape, **options):
        super().__init__(shape[0], 16, **options)


OWN = {"network": Vectors, "image_shape": None, "n_components": 2, "normalize": False}


class Classifier:
    """The training of a classifier, with its results where the estimators have theirs."""

    labels_ = Y

    def __init__(self, n_clusters, **options):
        self.options = options

    def fit(self, X, y=Y):
        X = X.copy()                    # torch takes no negative strides
        self.network_, self.history_ = train_classifier(X, y, X, y, **self.options)
        return self

    def _fitted(self):
        return {"weights": self.network_.state_dict()}


#: One epoch each: beside other work two threads take seconds for the smallest step.
ONE = {TELL: {**FCN, "epochs": 1}, IDC: {"epochs": 1, "ae_pretrain_epochs": 1},
       DeepCluster: {"epochs": 1, "n_components": 2}, Classifier: {"hidden": [8], "epochs": 1}}
TRAINERS = pytest.mark.parametrize("train", [        # the estimators share one way
    lambda kind=kind, **more: make(kind, **ONE[kind], **more).fit(X).history_
    for kind in (TELL, Classifier)], ids=["TELL", "Classifier"])


@parametrize_with_checks([
    TELL(2, network="fcn", hidden=(8,), embedding_size=2, epochs=2, batch_size=16, random_state=0,
         device="cpu"),
    make(IDC, encdec=(16, 3, 16), clustering_head=16, epochs=12, ae_pretrain_epochs=6,
         start_global_gates_training_on_epoch=9, lr_pretrain=0.05, lr_clustering=0.3, tau=1.0,
         evaluate_every=12, select="last"),
], expected_failed_checks=lambda model: {"check_methods_sample_order_invariance":
                                         "float32 products round by a row's place in them"}
    if isinstance(model, IDC) else {})
@pytest.mark.filterwarnings("ignore:batch_size .* is larger than the data")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@EVERY_KIND
def test_a_fit_is_silent_keeps_its_input_and_follows_its_seed(kind, capfd):
    read_only, before = X.copy(), generators()
    read_only.setflags(write=False)
    with warnings.catch_warnings(action="error"):
        model = make(kind).fit(read_only, Y)
        assert np.array_equal(model.predict(read_only), model.labels_)
    assert np.array_equal(model.predict(X[::-1]), model.labels_[::-1])      # of each row alone
    assert model.transform(X[::-1]) == pytest.approx(model.transform(X)[::-1], abs=1e-5)
    assert capfd.readouterr() == ("", "") and generators() == before
    assert np.array_equal(read_only, X)
    assert model.get_feature_names_out().shape == model.transform(X).shape[1:]
    torch.manual_seed(2)
    again, unseen, other = make(kind).fit(X, Y), make(kind).fit(X), make(kind, random_state=1)
    assert everything(again) == everything(model) and not same(other.fit(X), model)
    assert same(unseen, model) and np.array_equal(unseen.labels_, model.labels_)
    assert not {"acc", "nmi_labels"} & {name for row in unseen.history_.rows for name in row}


@pytest.fixture
def seen(monkeypatch):
    """A caller with two threads, and the number that each training is computed with."""
    numbers, train = [], training.train

    def watched(*arguments, **options):
        numbers.append(torch.get_num_threads())
        return train(*arguments, **options)

    monkeypatch.setattr(training, "train", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield numbers
    torch.set_num_threads(before)


@pytest.mark.parametrize(("step", "asked", "number"), [
    (training.SMALL_STEP, None, 1), (training.SMALL_STEP + 1, None, 2), (0, 3, 3),
    (training.SMALL_STEP + 1, 1, 1)])
def test_the_number_of_threads_follows_the_work_and_whoever_names_one(
        seen, monkeypatch, step, asked, number):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")          # as joblib's workers set it
    before = threadpool_info()
    with pytest.raises(KeyError), training.threads(step, asked) as found:
        assert found == number == torch.get_num_threads()
        assert {pool["num_threads"] for pool in threadpool_info()} == {number}
        raise KeyError
    assert torch.get_num_threads() == 2 and threadpool_info() == before


@TRAINERS
def test_small_work_takes_one_thread_and_a_checkpoint_goes_on_with_its_number(
        seen, train, tmp_path):
    path = tmp_path / "run.pt"
    assert train().threads == 1
    assert set(seen) == {1} and torch.get_num_threads() == 2
    seen.clear()
    train(threads=2, checkpoint=path)
    torch.set_num_threads(1)
    assert train(checkpoint=path).threads == 2
    assert set(seen) == {2}
    with pytest.raises(InputError, match="the parameter 'threads' was 2 and is now 1"):
        train(threads=1, checkpoint=path)


@pytest.mark.parametrize(("kind", "options", "ask"), [
    (TELL, {**FCN, "snapshot_epochs": range(1, 3)}, "partial_fit"),
    (IDC, {"select": "silhouette", "gtcr_projection_dim": 4, "evaluate_every": 1}, "local_gates"),
    (DeepCluster, {"whiten": False, "n_components": None, "epochs": 1}, "features"),
    (DeepCluster, OWN, "features")])
@pytest.mark.filterwarnings("ignore:.*constant")
def test_a_saved_model_comes_back(kind, options, ask, tmp_path):
    model, path = make(kind, **options).fit(FLAT), tmp_path / "model.pt"
    model.save(path)
    before, given = generators(), {} if options is not OWN else {"network": Vectors}
    found = kind.load(path, device="cpu", **given)
    assert generators() == before and same(found, model)
    assert found._settings() == model._settings()
    assert getattr(found, "image_shape", None) == getattr(model, "image_shape", None)   # a tuple
    assert np.array_equal(found.predict(FLAT), model.labels_)
    assert np.array_equal(found.transform(FLAT), model.transform(FLAT))
    known, stored = model._fitted(), found._fitted()
    assert known.keys() == stored.keys()
    for name in ("loss", "used", "kept_epoch", "compression", "inertia"):
        assert known.get(name) == stored.get(name)
    new = FLAT[::-1].copy()
    after, expected = getattr(found, ask)(new), getattr(model, ask)(new)
    assert same(after, expected) if kind is TELL else np.array_equal(after, expected)
    if given:
        with pytest.raises(InputError, match="its network 'Vectors' is a function, which a file"):
            DeepCluster.load(path)
        with pytest.raises(InputError, match="parameter of DeepCluster: 'netwrk'; did you mean"):
            DeepCluster.load(path, netwrk=Vectors)


@pytest.mark.parametrize(("kind", "changed", "ask"), [
    (TELL, {"n_clusters": 4, "alpha": 0.1, "image_shape": None}, "reconstruct_centers"),
    (IDC, {"use_gating": False}, None), (DeepCluster, {"whiten": False, "sobel": False}, None)])
def test_a_model_is_saved_with_the_settings_of_its_fit(kind, changed, ask, tmp_path):
    model = make(kind, **FCN if kind is TELL else {}).fit(X)
    expected = getattr(model, ask)() if ask else model.transform(X)
    model.set_params(**changed).save(tmp_path / "model.pt")
    found = kind.load(tmp_path / "model.pt", device="cpu")
    assert np.array_equal(getattr(found, ask)() if ask else found.transform(X), expected)


def test_a_fit_does_not_depend_on_the_modes_or_threads_of_its_caller():
    fits = {kind: lambda kind=kind, x=X: make(kind, **ONE[kind]).fit(x).transform(X)
            for kind in KINDS}
    expected = {kind: fit() for kind, fit in fits.items()}
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            assert all(np.array_equal(fit(), expected[kind]) for kind, fit in fits.items())
        with torch.inference_mode():
            assert all(np.array_equal(fit(), expected[kind]) for kind, fit in fits.items())
        torch.set_default_device("meta")
        assert all(np.array_equal(fit(), expected[kind]) for kind, fit in fits.items())
        assert torch.get_default_dtype() == torch.float64
        assert torch.get_default_device() == torch.device("meta")
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    tensor = torch.tensor(X, requires_grad=True)
    assert all(np.array_equal(fit(x=tensor), expected[kind]) for kind, fit in fits.items())
    assert make(TELL, **FCN).fit(X).predict(tensor.bfloat16()).shape == (60,)
    with ThreadPoolExecutor(2) as pool:
        for kind, fit in fits.items():
            for found in [*pool.map(lambda _, fit=fit: fit(), range(4))]:
                assert np.array_equal(found, expected[kind])


def test_classes_are_scored_by_fit_predict_and_belong_to_a_checkpoint(tmp_path):
    options = {**ONE[TELL], "checkpoint": tmp_path / "run.pt"}
    model = make(TELL, **options)
    assert np.array_equal(model.fit_predict(X, Y), model.labels_)
    assert model.history_.rows[-1]["acc"] == accuracy(Y, model.labels_)
    assert make(TELL, **options).fit(X, [f"class {y}" for y in Y]).history_.rows[-1]["acc"]
    for others in (np.roll(Y, 1), None):
        with pytest.raises(InputError, match="another run: y differs"):
            make(TELL, **options).fit(X, others)


def test_a_column_constant_in_float32_gives_a_warning():
    short = {**ONE[TELL], "image_shape": None}
    flat = np.c_[X, 1.7e9 + np.arange(60) / 10]
    for given in (flat, torch.from_numpy(flat)):
        with pytest.warns(UserWarning, match="constant in single precision: subtract its mean"):
            make(TELL, **short).fit(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(TELL, **short).fit(np.c_[X, 0.1 + 1e-17 * np.arange(60), np.full(60, 3.0)])


def test_a_partial_is_a_network_with_its_arguments(tmp_path):
    network = functools.partial(Vectors, bias=False)
    model = make(DeepCluster, **OWN | {"network": network}, checkpoint=tmp_path / "run.pt").fit(X)
    model.save(tmp_path / "model.pt")
    assert same(DeepCluster.load(tmp_path / "model.pt", network=network, device="cpu"), model)
    with pytest.raises(InputError, match="the parameter 'network' was .*'bias': False"):
        model.set_params(network=Vectors).fit(X)


@EVERY_KIND
def test_a_refused_fit_leaves_a_model_as_it_was(kind, tmp_path):
    options = {} if kind is IDC else {**OWN, "n_components": 2} if kind is DeepCluster else {
        **FCN, "image_shape": None}
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(64)])
    model = make(kind, **options).fit(table)
    with pytest.raises(InputError, match="exceeds n_samples=2"), warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # of constant columns
        model.fit(FLAT[:2, :9])
    assert np.array_equal(model.predict(table), model.labels_)
    model.save(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="X has 9 features"):
        model.predict(X[:, :9])


def test_an_object_that_is_called_is_a_network(tmp_path):
    class Maker:
        def __call__(self, shape):
            return Vectors(shape)

    model = make(DeepCluster, **OWN | {"network": Maker()}, checkpoint=tmp_path / "run.pt").fit(X)
    model.save(tmp_path / "model.pt")
    assert same(DeepCluster.load(tmp_path / "model.pt", network=Maker(), device="cpu"), model)
    with pytest.raises(InputError, match="images of a folder need image_shape"):
        make(DeepCluster, **OWN).fit(str(tmp_path))


@pytest.mark.parametrize("kind", [TELL, IDC, DeepCluster])
def test_a_failed_fit_is_no_fit(kind):
    model = make(kind, n_clusters=10)
    with pytest.raises(InputError, match="exceeds n_samples=3"):
        model.fit(X[:3])
    with pytest.raises(NotFittedError):
        model.predict(X[:3])


def test_a_saved_model_knows_its_columns(tmp_path):
    table = pd.DataFrame(X[:, :6], columns=list("abcdef"))
    model = make(TELL, image_shape=None, network="fcn", hidden=(8,), snapshot_epochs=[1]).fit(table)
    model.save(tmp_path / "model.pt")
    for found in (TELL.load(tmp_path / "model.pt", device="cpu"), model.at(1)):
        found.predict(table)
        with pytest.raises(ValueError, match="feature names should match"):
            found.predict(table[list("fedcba")])


def test_files_that_hold_no_model_or_a_former_setting_are_refused(tmp_path):
    model = make(TELL, **FCN, checkpoint=tmp_path / "run.pt", threads=1).fit(X)
    link = tmp_path / "latest.pt"
    link.symlink_to(tmp_path / "model.pt")
    model.save(link)
    stored = torch.load(link, weights_only=True)
    assert link.is_symlink() and TELL.load(link, device="cpu").threads == 1

    def load(settings=None, without="", **changed):
        content = {**stored, **changed,
                   "settings": json.dumps(json.loads(stored["settings"]) | (settings or {}))}
        torch.save({name: part for name, part in content.items() if name != without}, link)
        return TELL.load(link, device="cpu")

    assert same(load({"n_init": 1, "learning_rate": None}), model)      # as in data/records
    (tmp_path / "cut.pt").write_bytes(link.read_bytes()[:1000])
    for wrong, says in (
            ({"settings": {"n_init": 5}}, "unexpected keyword argument 'n_init'"),
            ({"clusterbook": "IDC"}, "holds 'IDC'"), ({"settings": {"hidden": [4]}}, "state_dict"),
            *(({"without": part}, part) for part in ("clusterbook", "settings", "weights"))):
        with pytest.raises(InputError, match=f"no model that TELL.save wrote .*{says}"):
            load(**wrong)
    torch.save(nn.Linear(2, 2), tmp_path / "whole.pt")
    for name, says in (("cut", ""), ("run", ""), ("missing", "No such file or directory"),
                       ("whole", "it holds other things than numbers")):
        with pytest.raises(InputError, match=rf"{name}.pt is no model .*\({says}") as error:
            TELL.load(tmp_path / f"{name}.pt")
        assert "weights_only" not in str(error.value)
    for path, says in ((tmp_path, "it is a folder"), ("/dev/full", "it is not a file")):
        with pytest.raises(InputError, match=rf"^the model .* can't be written \({says}\); name a"):
            model.save(path)


class Killed(Exception):
    """Ends a training between two steps, without a last save."""


@pytest.mark.parametrize(("kind", "options", "data", "deaths"), [
    # In the first epoch, a later one, the last; in each stage; steps are counted over all pieces.
    (TELL, {**FCN, "epochs": 4, "init": "samples", "snapshot_epochs": [1, 3]}, X, [2, 8]),
    (TELL, {**FCN, "training": "two-stage", "snapshot_epochs": [1]}, X, [2, 5, 11]),
    (IDC, {"ae_pretrain_epochs": 3, "start_global_gates_training_on_epoch": 4, "epochs": 6}, X,
     [2, 5, 11, 20]),                                   # steps of its epochs: 3; 3, 3; 3; 6, 6
    (IDC, {"epochs": 8, "evaluate_every": 1, "select": "loss", "batch_norm": "gated"}, X, [8, 20]),
    (IDC, {"gtcr_projection_dim": 4, "use_gating": False}, X, [5, 8]),
    # The seeds of images from files are drawn anew.
    (DeepCluster, {"epochs": 3}, X, [1, 5, 9]), (DeepCluster, {"flip": True}, None, [5]),
    (DeepCluster, {"renew_classifier": False}, X, [4]),
    # With all that its two stages know: 6 steps of training, 9 of pruning.
    (Classifier, {"hidden": (8, 8, 8), "bias": True, "init": "glorot", "epochs": 2,
                  "optimizer": "adam", "dropout": 0.3, "l1": 1e-3, "blocks": 2,
                  "block_weight": 0.1, "pruning_epochs": 3}, X, [5, 12])])
def test_a_killed_run_resumes_in_any_stage(kind, options, data, deaths, tmp_path, monkeypatch):
    """It ends like one that was never stopped, and repeats no finished epoch."""
    data = written(tmp_path / "images") if data is None else data
    with before_steps() as steps:
        whole = everything(make(kind, **options).fit(data, Y))
    finished = death = begun = 0                        # steps: saved, fatal, before this piece

    def kill(number, _optimizer):
        if begun + number == death:
            raise Killed

    def saved(checkpoint, *about):
        nonlocal finished
        finished = begun + counted[0]
        save(checkpoint, *about)

    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", saved)
    monkeypatch.setattr(Checkpoint, "due", True)
    kept = {**options, "checkpoint": tmp_path / "run.pt"}
    for death in deaths:
        with before_steps(kill) as counted, pytest.raises(Killed):
            make(kind, **kept).fit(data, Y)
        begun = finished
        assert 0 <= death - finished <= 6               # at most the steps of an epoch are lost
    for left in (steps[0] - finished, 0):               # a finished run is only loaded
        with before_steps() as counted:
            model = make(kind, **kept).fit(data, Y)
        assert counted[0] == left and everything(model) == whole and model.history_.seconds > 0
    with pytest.raises(InputError, match="the data differs"):
        make(kind, **kept).fit(X[::-1])


def test_a_checkpoint_in_small_files_goes_on_like_the_whole_one(tmp_path, monkeypatch):
    tool = module_of(CHECKOUT / "tests" / "checkpoints" / "__main__.py")
    options = {**FCN, "epochs": 6, "snapshot_epochs": [1, 2, 4, 6]}
    whole, packed = everything(make(TELL, **options).fit(X, Y)), tmp_path / "packed"
    for number, epochs in enumerate([2, 2]):
        run, left = tmp_path / f"piece{number}", iter([False] * (epochs - 1) + [True])
        run.mkdir()
        if number:
            tool.unpack(packed, run)
        monkeypatch.setattr(paths, "time_is_up", lambda left=left: next(left))
        with pytest.raises(OutOfTime):
            make(TELL, **options, checkpoint=run / "main-0.pt").fit(X, Y)
        before = {file.name: file.stat().st_mtime_ns for file in packed.glob("*.*.*")}
        tool.pack(run, packed)
        after = {file.name: file.stat().st_mtime_ns for file in packed.glob("*.*.*")}
        assert before.items() <= after.items()          # a snapshot is written once
    assert set(after) == {f"main-0.training.{epoch}" for epoch in (1, 2, 4)}
    last = tmp_path / "last"
    last.mkdir()
    tool.unpack(packed, last)
    monkeypatch.undo()
    assert everything(make(TELL, **options, checkpoint=last / "main-0.pt").fit(X, Y)) == whole


@pytest.mark.parametrize(("kind", "changed", "says"), [
    (TELL, {"hidden": (16, 13)}, r"the parameter 'hidden' was \[16, 12\] and is now \[16, 13\]"),
    (TELL, {"random_state": 1}, "the parameter 'seed' was 0 and is now 1"),
    (TELL, {"random_state": None}, "a checkpoint needs random_state, such as 0"),
    (Classifier, {"dropout": 0.2}, "the parameter 'dropout' was 0.0 and is now 0.2")])
def test_another_runs_checkpoint_is_refused_before_training(tmp_path, kind, changed, says):
    path = tmp_path / "run.pt"
    make(kind, **ONE[kind], checkpoint=path).fit(X)
    before = path.read_bytes()
    with before_steps() as counted, pytest.raises(InputError, match=says):
        make(kind, **{**ONE[kind], "checkpoint": path, **changed}).fit(X)
    assert counted[0] == 0 and path.read_bytes() == before


@EVERY_KIND
def test_a_checkpoint_belongs_to_all_code_of_its_estimator(kind, tmp_path, monkeypatch):
    covered = set()
    monkeypatch.setattr("clusterbook.base.code_hash", lambda *found: covered.update(found) or "")
    make(kind, checkpoint=tmp_path / "run.pt")._checkpoint([X], 0, 1)
    assert covered == {PACKAGE, PACKAGE / kind.__module__.split(".")[1]}


@TRAINERS
def test_a_path_device_or_number_of_threads_that_cannot_be_is_refused(train, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    for options, says in (
            ({"checkpoint": ""}, "^checkpoint must be the path of a file, such as 'run.pt'"),
            ({"checkpoint": tmp_path / "file" / "run.pt"}, "^the checkpoint .* can't be written"),
            ({"checkpoint": tmp_path / "run.json"}, "would replace .*run.json to say how far"),
            ({"checkpoint": tmp_path / "mine.pt"}, "would replace .*mine.json to say how far"),
            ({"device": "meta"}, "^torch can't use the device 'meta' .*; use 'cpu' or 'auto'$"),
            ({"threads": 0}, "threads must be a whole number of at least 1")):
        with pytest.raises(InputError, match=says):
            train(**options)


@pytest.mark.parametrize(("kind", "options", "says"), [
    *((kind, {"n_clusters": 61}, "n_clusters=61 exceeds n_samples=60; ask for") for kind in KINDS),
    (TELL, {"image_shape": (1, 28, 28)}, r"\(1, 28, 28\) has 784 values, but X has 64 features"),
    (TELL, {"image_shape": (1, 2, 32)}, "divisible by 4, but are 2 and 32"),
    (TELL, {"network": "cnn", "image_shape": None}, "image_shape must be three positive whole"),
    *((kind, {"n_clusters": 0}, "n_clusters must be a whole number of at least 1, not 0")
      for kind in KINDS),
    (TELL, {"epochs": -1}, "epochs must be a whole number of at least 0, not -1"),
    (TELL, {"clustering_weight": -0.1}, "clustering_weight must be a number at least 0, not -0.1"),
    (IDC, {"batch_size": 1}, "batch_size must be a whole number of at least 2, not 1"),
    (IDC, {"tau": 0}, "tau must be a number above 0, not 0"),
    (DeepCluster, {"learning_rate": "fast"}, "learning_rate must be a number above 0, not 'fast'"),
    (TELL, {"alpha": 0}, "alpha must be a number above 0, not 0"),
    *((TELL, {**FCN, name: value}, f"{name} must be a list of whole numbers of at least 1, not")
      for name, value in (("hidden", 500), ("hidden", (8, 0)), ("snapshot_epochs", "1"))),
    (TELL, {"normalize_gradients": "no"}, "normalize_gradients must be True or False, not 'no'"),
    (TELL, {"snapshot_epochs": (1, 3)}, r"from 1 to the 2 epochs of training, not \(1, 3\)"),
    (TELL, {"training": "two stage"}, "unknown training: 'two stage'; did you mean 'two-stage'"),
    (IDC, {"epochs": 1}, "ae_pretrain_epochs=2 and epochs=1 must not decrease.*pretrain_epochs=0"),
    *((DeepCluster, {"network": network}, f"{name} is no function .* a name: convnet, alexnet")
      for network, name in ((resnet18(), "ResNet"), (resnet18, "resnet18"))),
    (IDC, {"mask_percentage": 1.0}, "mask_percentage is a fraction from 0 to below 1"),
    (IDC, {"select": "best"}, "unknown select: 'best'.*Known: last, loss, silhouette"),
    *((IDC, {name: widths}, "must be positive whole numbers, the head's") for name, widths in (
        ("encdec", ()), ("clustering_head", (10, 8)), ("aux_classifier", (8, 8)))),
    (IDC, {"encdec": "512"}, "encdec must be a list of whole numbers of at least 1, not '512'"),
    (DeepCluster, {"n_components": 61}, "n_components=61 exceeds n_samples=60"),
    (DeepCluster, {"network": "alex"}, "unknown network: 'alex'; did you mean 'alexnet'"),
    (DeepCluster, {"network": "alexnet"}, "at least 63 x 63 pixels, .* have 8 x 8"),
    (DeepCluster, {"image_shape": None}, "image_shape must be three"),
    *((DeepCluster, {"crop_scale": scale}, "crop_scale must be None or the smallest and largest")
      for scale in ((0.5, 2.0), 0.5, "ab", ())),
    (DeepCluster, {"pixel_statistics": "imagenet"}, "needs images of 3 channels")])
def test_settings_out_of_range_are_refused_before_training(kind, options, says):
    with before_steps() as counted, pytest.raises(InputError, match=says):
        make(kind, **options).fit(X)
    assert counted[0] == 0


@EVERY_KIND
def test_images_that_are_no_rows_are_refused_with_what_to_give(kind):
    shape = "" if kind is IDC else r" and image_shape=\(1, 8, 8\)"
    for images in (X.reshape(60, 1, 8, 8), torch.tensor(X).view(60, 8, 8)):
        with pytest.raises(InputError, match=rf"give X.reshape\(len\(X\), -1\){shape}$"):
            make(kind, **{} if kind is IDC else {"image_shape": None}).fit(images)
    last = X.reshape(20, 8, 8, 3)                      # as PIL and matplotlib have colors
    with pytest.raises(InputError, match=r"X.transpose\(0, 3, 1, 2\).reshape\(len\(X\), -1\)" + (
            "$" if kind is IDC else r" and image_shape=\(3, 8, 8\)$")):
        make(kind, **{} if kind is IDC else {"image_shape": None}).fit(last)


def test_tell_warns_where_one_feature_decides():
    wide = X * np.r_[1000, np.ones(63)].astype(np.float32)
    with pytest.warns(UserWarning, match="a feature varies .* scale X before"):
        make(TELL, image_shape=None, network="none", epochs=1).fit(wide)
    # In float32 the deviation of a constant column is not always 0.
    constant = np.c_[np.tile(X[:, 20:24], (17, 1)), np.full((1020, 6), 0.1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(TELL, image_shape=None, network="none", epochs=1).fit(constant)
        # An image whose border is almost black is no table to scale.
        make(TELL, epochs=1).fit(X * np.r_[1, np.full(63, 0.01)].astype(np.float32))


def test_tell_begins_at_samples_that_have_a_direction():
    blank = np.r_[np.zeros((40, 64)), X[:20]].astype(np.float32)
    few = make(TELL, image_shape=None, network="none", init="samples", epochs=1).fit(blank)
    with pytest.raises(InputError, match=f"needs {few.n_clusters} rows that are not 0"):
        few.fit(blank[:41])


@EVERY_KIND
def test_data_that_cannot_be_used_are_refused_before_and_after_training(kind):
    bad = [(NAN, "NaN"), (X[:, :60], "features")]
    bad += [(2 * X, "divide bytes by 255"), (X - 0.01, "pixels")] if kind is not IDC else []
    model = make(kind).fit(X)
    full = X / X.max()      # scaling is off by rounding
    np.testing.assert_array_equal(model.predict(full * np.float32(1 + 2e-7)), model.predict(full))
    with before_steps() as counted:
        for rows, y, says in (*((rows, None, says) for rows, says in bad if len(rows.T) == 64),
                              (X[:1], None, "1 sample"), (X, Y[:-1], "inconsistent numbers"),
                              (X, np.full(60, np.nan), "NaN")):
            with pytest.raises(ValueError, match=says):
                make(kind).fit(rows, y)
        for rows, says in bad:
            for ask in ("predict", "transform", "partial_fit" if kind is TELL else "predict"):
                with pytest.raises(ValueError, match=says):
                    getattr(model, ask)(rows)
    assert counted[0] == 0


@pytest.mark.slow
def test_peak_memory_does_not_depend_on_earlier_fits(monkeypatch):
    wanted, rows = {"large": 200, "small": 1}, np.ones((2**20, 8))
    estimators = {name: Takes(size) for name, size in wanted.items()}
    if sys.platform.startswith("linux"):
        taken = peak_memory(estimators, rows)
        assert list(taken) == list(wanted)
        for name, size in wanted.items():
            assert size <= taken[name] < size + 12, name        # without the 64 MB of data
    monkeypatch.setattr(sys, "platform", "darwin")              # nothing is made up
    assert np.isnan(list(peak_memory(estimators, rows).values())).all()


@pytest.mark.parametrize(("model", "data", "small"), [
    (TELL(image_shape=SHAPE), (1797, 64), True),
    (TELL(image_shape=SHAPE, network="fcn"), (1797, 64), True),
    (TELL(image_shape=(1, 28, 28)), (70_000, 784), False),
    (IDC(encdec=[128, 128, 256, 10, 256, 128, 128], gates_hidden_dim=64, aux_classifier=256,
         clustering_head=[10, 256], batch_size=100), (1797, 64), True),
    (IDC(encdec=[64, 64, 10, 64, 64], gates_hidden_dim=64, aux_classifier=64,
         clustering_head=[10, 256], batch_size=250), (5000, 100), True),
    (IDC(), (10_000, 784), False),
    (DeepCluster(30, n_components=32, batch_size=128), (1000, SHAPE), True),
    (DeepCluster(30, n_components=32, batch_size=64), (1000, (3, 32, 32)), False),
])
def test_digits_and_tables_are_small_and_mnist_is_not(model, data, small):
    before = generators()
    assert (0 < model._step_size(*data) <= training.SMALL_STEP) == small
    assert generators() == before
