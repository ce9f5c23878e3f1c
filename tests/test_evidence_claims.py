"""Claims, expectations and errata: what their files may say, and how a mistake is named."""

from __future__ import annotations

from statistics import stdev

import pytest
from _support import put

from bookledger import load_claims, load_errata, load_expectations, load_sources
from bookledger.claims import Statistic
from bookledger.wording import spread
from clusterbook.checks import InputError

CLAIMS = """\
# what the sources say
- {id: demo-acc, tier: headline, says: It reaches 95%, source: "Somebody, 2022, Table 1",
   seen: paper, kind: value, profile: demo-paper, metric: acc, statistic: best of 5 by loss,
   value: 0.95, tolerance: 0.02, why: the source's seeds spread that far}
- {id: demo-gain, tier: supporting, says: It gains 17 points, source: s, seen: second-hand,
   where: a report that quotes it, kind: difference, profile: demo-paper, metric: acc,
   minus: kmeans_acc, statistic: mean, value: 17e-2, tolerance: 0.03, why: two deviations}
- {id: demo-below-null, tier: minor, says: The cut lies below its null, source: a table,
   seen: repository, kind: trend, profile: demo-paper, metric: ncut, relation: "<",
   than: null_mean, in: most}
- {id: demo-identity, tier: minor, says: a = b, source: s, seen: paper, kind: exact,
   check: demo-a-b}
- {id: demo-rivals, tier: minor, says: DEC, source: s, seen: paper, kind: value,
   cannot_compare: another's code}
- {id: demo-big, tier: minor, says: ImageNet, source: s, seen: paper, kind: value,
   not_attempted: "12 GPU days"}
- {id: demo-scores, tier: headline, says: Accuracy and NMI of one run, source: s, seen: paper,
   kind: value, profile: demo-paper, statistic: mean, tolerance: 0.02, why: seeds,
   compares: [{id: demo-scores-acc, metric: acc, value: 0.9},
              {id: demo-scores-nmi, metric: nmi, value: 0.8, tolerance: 0.01}],
   replaces: {demo-scores-v: identical to NMI}}
- {id: demo-law, tier: minor, says: a > b, source: s, seen: paper, kind: source-error,
   check: demo-c, quote: "a > b"}
"""
EXPECTED = """\
- {id: demo-acc, says: acc, relation: ">=", bound: 0.9, why: ten seeds gave 0.93 and more}
- {id: demo-close, says: Both agree, relation: equals, tolerance: 1.0e-6, why: float32}
- {id: demo-range, says: between, relation: between, bound: [0, 1], why: by definition}
- {id: demo-flag, says: paired, relation: holds}
"""
ERRATA = """\
- {id: demo-index, title: An index that is <wrong>, grade: text, source: demo-paper,
   where: "Eq. 1 & Eq. 2", stands: The sum runs over k., right: It runs over i.,
   changes: Nothing., claims: [demo-claim], checks: [errata-demo-index], replaces: [demo-older]}
- {id: demo-gone, title: A file that is gone, grade: number, source: demo-code, where: main.py,
   stands: s, right: r, changes: c, not_demonstrated: it is not there, reported: issue 7}
"""
SOURCES = f"""\
- {{id: demo-paper, kind: paper, name: Somebody & others, read: a draft}}
- {{id: demo-code, kind: code, name: some/repository, commit: {"0123456789" * 4},
   url: "https://example.org/some",
   offers: {{a network: unused}}}}
"""
FILES = {"claims": (load_claims, CLAIMS), "expectations": (load_expectations, EXPECTED),
         "errata": (load_errata, ERRATA),
         "sources": (load_sources, SOURCES)}


def folder(tmp_path, text, kind="claims"):
    put(tmp_path, {f"data/{kind}/demo.yaml": text})
    return tmp_path / "data" / kind


def test_claims_are_read_in_order(tmp_path):
    claims = load_claims(folder(tmp_path, CLAIMS))
    assert [claim.id.removeprefix("demo-") for claim in claims] == [
        "acc", "gain", "below-null", "identity", "rivals", "big", "scores", "law"]
    assert (claims[0].chapter, claims[0].tier) == ("demo", "headline")
    assert [claims[i].compares[0].stated for i in (0, 1, 2, 3, 5)] == [
        "acc = 0.95 ± 0.02", "acc − kmeans_acc = 0.17 ± 0.03", "ncut < null_mean in most seeds",
        "demo-a-b", "–"]
    # Keys of the claim are those of each of its numbers, unless a number has its own.
    assert [(one.id, one.statistic, one.tolerance) for one in claims[6].compares] == [
        ("demo-scores-acc", "mean", 0.02), ("demo-scores-nmi", "mean", 0.01)]
    assert claims[6].replaces == {"demo-scores-v": "identical to NMI"}
    assert load_claims(tmp_path / "nowhere") == []
    assert load_claims(folder(tmp_path, "# nothing yet\n")) == []
    (tmp_path / "data" / "claims" / "demo.yaml").write_bytes(b"- id: demo-\xff")
    with pytest.raises(InputError, match=r"demo.yaml: not YAML .*: .*utf-8"):
        load_claims(tmp_path / "data" / "claims")


def test_the_books_own_claims_are_few_and_say_where_they_stand_and_expectations_why():
    claims = load_claims()
    assert 60 <= len(claims) <= 110
    assert 15 <= sum(claim.tier == "headline" for claim in claims) <= 25
    ids = [i for claim in claims for i in
           ({claim.id, *(one.id for one in claim.compares)} | claim.replaces.keys())]
    assert len(ids) == len(set(ids))
    for claim in claims:
        assert claim.seen != "second-hand" or claim.where, f"{claim.id}: what quotes it?"
        for number in claim.compares:
            assert (number.profile or f"{claim.chapter}-").startswith(f"{claim.chapter}-"), number
            assert (number.kind == "source-error") == (claim.quote is not None), number
    for expected in load_expectations():
        assert expected.why or expected.bound is None and not expected.tolerance, expected.id
        assert expected.relation == "equals" or not expected.tolerance, expected.id


# A file, a text in it, its replacement, and words of the message.
FAULTS = [
    ("claims", "metric: acc", "metrics: acc", "metrics: Unexpected keyword"),
    ("claims", "seen: paper", "seen: papers", "claim demo-acc: seen: Input should be"),
    ("claims", "best of 5 by loss", "best of 5 by accuracy",
     "a best is by loss or samples_loss or silhouette or labels, not by 'accuracy'"),
    ("claims", "value: 0.95", "value: .nan", "value.float: Input should be"),
    ("claims", "value: 0.95", 'value: "0.95"', "value.float: Input should be a valid number"),
    ("claims", "value: 0.95", "value: true", "value.float: Input should be a valid number"),
    ("claims", ", why: the source's seeds spread that far", "", "needs why"),
    ("claims", 'relation: "<"', "relation: >=", "needs quotes"),
    ("claims", "in: most", "in: most, tolerance: 1, why: x", "has no key 'tolerance'"),
    ("claims", "id: demo-gain", "id: demo-acc", "begin with 'demo-' and be unique"),
    ("claims", "id: demo-gain", "says: again", "the key 'says' is a duplicate"),
    ("claims", "cannot_compare: another's", "not_attempted: days, cannot_compare: another's",
     "not both"),
    ("claims", 'not_attempted: "', 'tolerance: 1, not_attempted: "', "needs metric"),
    ("claims", "metric: acc", "chapter: demo, metric: acc", "chapter"),
    ("claims", CLAIMS, "id: demo-acc\n", "list of mappings"),
    ("claims", "demo-scores-acc, ", "demo-scores-acc, metrics: 1, ",
     "demo-scores: compares.0.metrics: Unexpected"),
    ("expectations", "bound: [0, 1]", "bound: [1, 0]", "[low, high]"),
    ("expectations", "relation: holds", "relation: holds, bound: 1, why: x", "holds has none"),
    ("sources", "commit: 0", "commit: z", "commit: String should match"),
    ("errata", "grade: text", "grade: a", "erratum demo-index: grade: Input should be"),
]


@pytest.mark.parametrize(("kind", "old", "new", "words"), FAULTS)
def test_a_mistake_is_named_with_file_and_entry(tmp_path, kind, old, new, words):
    load, text = FILES[kind]
    load(folder(tmp_path, text, kind))
    assert old in text
    with pytest.raises(InputError) as caught:
        load(folder(tmp_path, text.replace(old, new, 1), kind))
    assert str(caught.value).startswith(f"data/{kind}/demo.yaml:") and words in str(caught.value)


def test_each_statistic_of_five_published_runs():
    # Table S1 of Peng et al. 2022: accuracy and loss of five runs.
    runs = [({"acc": acc, "loss": loss, "silhouette": silhouette}, acc) for acc, loss, silhouette in
            ((95.16, 0.018138861, 0.1), (95.10, 0.018156468, 0.2), (82.88, 0.018166682, 0.3),
             (82.04, 0.018166506, 0.2), (81.69, 0.018164165, 0.1))]
    for name, expected in {
        "mean": 87.374, "single": 87.374,
        "standard deviation": stdev([95.16, 95.10, 82.88, 82.04, 81.69]),
        "best of 5 by loss": 95.16, "best of 5 by silhouette": 82.88, "best of 5 by labels": 95.16,
    }.items():
        assert Statistic(name).of(runs) == pytest.approx(expected, abs=1e-12), name
    assert Statistic("best of 2 by loss").of(runs[::-1]) == 81.69   # of the first two only
    history = [{"acc": 0.2, "nmi": 0.9, "loss": 3.0}, {"acc": 0.8, "nmi": 0.4, "loss": 2.0},
               {"acc": 0.5, "nmi": 0.5, "loss": 1.0}, {"loss": 0.5}]
    assert Statistic("best epoch by labels").row({}, history)["nmi"] == 0.4
    assert Statistic("best epoch by loss").row({}, history) == {"loss": 0.5}
    assert Statistic("best epoch by labels").row({}, [{"loss": 1.0}]) == {}
    # Mean and deviation have the same decimals.
    assert spread(87.374, 7.0921) == "87.4 ± 7.1"
    assert spread(393.89, 31.2) == "394 ± 31"
    assert (spread(0.5, 0.0), spread(0.123456, None)) == ("0.5", "0.1235")
