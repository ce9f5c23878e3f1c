"""Claims and expectations files: what they may say, and how a mistake is named."""

from __future__ import annotations

from statistics import stdev

import pytest

from clusterbook.errors import InputError
from clusterbook.evidence import load_claims, load_expectations
from clusterbook.evidence.claims import statistic
from clusterbook.evidence.views import spread

GOOD = """\
# what the sources say
- id: demo-acc
  says: It reaches 95 %
  source: Somebody, 2022, Table 1
  seen: paper
  kind: value
  profile: demo-paper
  metric: acc
  statistic: best of 5 by loss
  value: 0.95
  tolerance: 0.02
  why: the source's seeds spread that far

- id: demo-gain
  says: It gains 17 points
  source: Somebody, 2022
  seen: second-hand
  where: a report that quotes it
  kind: difference
  profile: demo-paper
  metric: acc
  minus: kmeans_acc
  statistic: mean
  value: 0.17
  tolerance: 0.03
  why: two standard deviations
- id: demo-below-null
  says: The cut lies below its null
  source: a table
  seen: repository
  kind: trend
  profile: demo-paper
  metric: ncut
  relation: "<"
  than: null_mean
  in: most
- {id: demo-identity, says: a = b, source: s, seen: paper, kind: exact, check: demo-a-b}
- {id: demo-typo, says: a > b, source: s, seen: paper, kind: source-error, check: demo-not-a-b}
- {id: demo-rivals, says: DEC, source: s, seen: paper, kind: value, cannot_compare: another's code}
- {id: demo-big, says: ImageNet, source: s, seen: paper, kind: value, not_attempted: "12 GPU days"}
"""


def folder(tmp_path, text, kind="claims"):
    there = tmp_path / "data" / kind
    there.mkdir(parents=True, exist_ok=True)
    (there / "demo.yaml").write_text(text, encoding="utf-8")
    return there


def refusal(tmp_path, text, load=load_claims, kind="claims"):
    with pytest.raises(InputError) as caught:
        load(folder(tmp_path, text, kind))
    return str(caught.value)


def test_a_good_file_is_read_in_its_order(tmp_path):
    claims = load_claims(folder(tmp_path, GOOD))
    assert [claim.id.removeprefix("demo-") for claim in claims] == [
        "acc", "gain", "below-null", "identity", "typo", "rivals", "big",
    ]
    value, difference, trend, exact, *_ = claims
    assert value.chapter == "demo"
    assert (value.value, value.tolerance, value.statistic) == (0.95, 0.02, "best of 5 by loss")
    assert (trend.holds_in, trend.than, trend.relation) == ("most", "null_mean", "<")
    assert value.stated == "acc = 0.95 ± 0.02"
    assert difference.stated == "acc − kmeans_acc = 0.17 ± 0.03"
    assert trend.stated == "ncut < null_mean in most seeds"
    assert exact.stated == "demo-a-b"
    assert claims[-1].stated == "–"


def test_an_absent_or_empty_file_holds_no_claims(tmp_path):
    assert load_claims(tmp_path / "nowhere") == []
    assert load_claims(folder(tmp_path, "# nothing yet\n")) == []


# A text of GOOD, its replacement, the line of the mistake, and words of the message.
FAULTS = [
    ("  metric: acc\n  stat", "  metrics: acc\n  stat", 8, "did you mean 'metric'?"),
    ("  seen: paper\n", "  seen: papers\n", 5,
     "claim 'demo-acc': seen: Input should be 'paper', 'repository' or 'second-hand'"),
    ("kind: value\n  profile", "kind: valu\n  profile", 6, "kind: Input should be 'value'"),
    ("best of 5 by loss", "best of 5 by accuracy", 9, "there is no statistic"),
    ("best of 5 by loss", "best of 1 by loss", 9, "there is no statistic"),
    *[("value: 0.95", f"value: {text}", 10, "value.float: Input should be") for text in
      ("95%", "9.5e-1x", ".nan", "true", "[1]")],
    ("value: 0.95", "value: 2022-99-99", 10, "month must be"),
    ("tolerance: 0.02", "tolerance: -0.02", 11, "greater than or equal to 0"),
    ("  why: the source's seeds spread that far\n", "", 2, "'why' is missing"),
    ("  why: the source's seeds spread that far\n", "  why: ''\n", 12, "why: String should have"),
    ("  metric: acc\n  statistic: best", "  statistic: best", 2, "'metric' is missing"),
    ("  source: Somebody, 2022, Table 1\n", "", 2, "source: Field required"),
    ("  where: a report that quotes it\n", "", 14, "'where', the document"),
    ("  minus: kmeans_acc\n", "", 14, "'minus' is missing"),
    ("  in: most\n", "", 27, "'in' is missing"),
    ("  in: most\n", "  in: some\n", 36, "'all' or 'most'"),
    ('relation: "<"', 'relation: "="', 34, "relation: Input should be"),
    ('relation: "<"', "relation: >", 34, "in quotes"),
    ('relation: "<"', "relation: >=", 34, "needs quotes"),
    ("than: null_mean", "than: [1]", 35, "than.float: Input should be a valid number"),
    ("  in: most\n", "  in: most\n  tolerance: 1\n  why: x\n", 37, "has no key 'tolerance'"),
    ("id: demo-gain", "id: demo-acc", 14, "duplicate id (first on line 2)"),
    ("id: demo-gain", "id: other-gain", 14, "begins with its chapter, 'demo-'"),
    ("id: demo-gain", "id: demo-Gain", 14, "only small letters"),
    ("id: demo-gain", "says: again", 15, "duplicate key "),
    ("- id: demo-gain\n ", "-", 14, "id: Field required"),
    ("profile: demo-paper", "profile: paper", 7, "must begin with 'demo-'"),
    ("kind: exact, check: demo-a-b", "kind: exact", 37, "'check' is missing"),
    ("cannot_compare: another's", "not_attempted: days, cannot_compare: another's", 39, "not both"),
    ('not_attempted: "', 'tolerance: 1, not_attempted: "', 40, "'profile' is missing"),
    ("  metric: acc\n  st", "  chapter: demo\n  metric: acc\n  st", 8, "no key 'chapter'"),
    ("kind: exact, check", "section: , kind: exact, check", 37, "section has no value"),
    ("says: It gains 17 points", "says: It gains: 17 points", 15, "not valid YAML"),
    ("  kind: difference", "\tkind: difference", 19, "not valid YAML"),
    ("says: It gains 17 points", "says: !!python/none x", 15, "not valid YAML"),
    ("- {id: demo-identity", "- just text\n- {id: demo-identity", 37, "must be a mapping"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), FAULTS)
def test_a_fault_is_named_with_file_and_line(tmp_path, old, new, line, words):
    assert old in GOOD
    message = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert message.startswith(f"data/claims/demo.yaml:{line}: ")
    assert words in message
    assert str(tmp_path) not in message


def test_a_number_may_have_an_exponent(tmp_path):
    found = load_claims(folder(tmp_path, GOOD.replace("value: 0.95", "value: 95e-2")
                               .replace("than: null_mean", "than: 1e-3")))
    assert (found[0].value, found[2].than) == (0.95, 0.001)


def test_a_file_that_is_no_list_or_no_text_is_refused(tmp_path):
    assert "must be a list" in refusal(tmp_path, "id: demo-acc\n")
    there = folder(tmp_path, "")
    (there / "demo.yaml").write_bytes(b"- id: demo-\xff")
    with pytest.raises(InputError, match="utf-8"):
        load_claims(there)


EXPECTED = """\
- {id: demo-acc, says: acc, relation: ">=", bound: 0.9, why: ten seeds gave 0.93 and more}
- id: demo-close
  says: Both agree
  relation: equals
  tolerance: 1.0e-6
  why: float32
- {id: demo-range, says: between, relation: between, bound: [0, 1], why: by definition}
- {id: demo-flag, says: paired, relation: holds}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('">="', "'=>'", 1, "relation: Input should be"),
        (", why: ten seeds gave 0.93 and more", "", 1, "needs its reason"),
        ("bound: 0.9", "bound: [0, 1]", 1, ">= can't have the bound"),
        ("bound: 0.9", "bound: high", 1, "bound.float: Input should be"),
        ("tolerance: 1.0e-6", "tolerance: -1", 5, "greater than or equal to 0"),
        ("bound: [0, 1]", "bound: 1", 7, "[low, high]"),
        ("bound: [0, 1]", "bound: [0, 1, 2]", 7, "bound.float: Input should be"),
        ("bound: [0, 1]", "bound: [1, 0]", 7, "[low, high]"),
        ("relation: holds", "relation: holds, bound: 1, why: x", 8, "has no bound"),
        ("relation: holds", "relation: holds, tolerance: 1, why: x", 8, "'equals' only"),
        ("relation: holds", "relations: holds", 8, "did you mean 'relation'?"),
        ("relation: holds", "bound: 1", 8, "relation: Field required"),
    ],
)
def test_a_fault_in_an_expectation_is_named_with_its_line(tmp_path, old, new, line, words):
    assert old in EXPECTED
    assert len(load_expectations(folder(tmp_path, EXPECTED, "expectations"))) == 4
    message = refusal(tmp_path, EXPECTED.replace(old, new), load_expectations, "expectations")
    assert message.startswith(f"data/expectations/demo.yaml:{line}: ")
    assert words in message


# Table S1 of Peng et al. 2022: accuracy and loss of five runs.
RUNS = [
    ({"acc": 95.16, "loss": 0.018138861, "silhouette": 0.1}, 95.16),
    ({"acc": 95.10, "loss": 0.018156468, "silhouette": 0.2}, 95.10),
    ({"acc": 82.88, "loss": 0.018166682, "silhouette": 0.3}, 82.88),
    ({"acc": 82.04, "loss": 0.018166506, "silhouette": 0.2}, 82.04),
    ({"acc": 81.69, "loss": 0.018164165, "silhouette": 0.1}, 81.69),
]


@pytest.mark.parametrize(("name", "expected"), [
    ("mean", 87.374), ("single", 87.374), ("median", 82.88), ("minimum", 81.69),
    ("maximum", 95.16), ("standard deviation", stdev([95.16, 95.10, 82.88, 82.04, 81.69])),
    ("best of 5 by loss", 95.16), ("best of 5 by silhouette", 82.88),
    ("best of 5 by labels", 95.16),
])
def test_each_statistic_of_five_published_runs(name, expected):
    assert statistic(name).of(RUNS) == pytest.approx(expected, abs=1e-12)


def test_best_of_n_looks_at_the_first_n_runs_only():
    assert statistic("best of 2 by loss").of(RUNS[::-1]) == 81.69


def test_the_best_epoch_is_the_row_that_the_selector_prefers():
    history = [{"acc": 0.2, "nmi": 0.9, "loss": 3.0}, {"acc": 0.8, "nmi": 0.4, "loss": 2.0},
               {"acc": 0.5, "nmi": 0.5, "loss": 1.0}, {"loss": 0.5}]
    assert statistic("best epoch by labels").row({}, history)["nmi"] == 0.4
    assert statistic("best epoch by loss").row({}, history) == {"loss": 0.5}
    assert statistic("best epoch by labels").row({}, [{"loss": 1.0}]) is None


@pytest.mark.parametrize(("mean", "sd", "text"), [
    (87.374, 7.0921, "87.4 ± 7.1"), (393.89, 31.2, "394 ± 31"), (0.5, 0.0, "0.5 ± 0"),
    (0.123456, None, "0.1235"),
])
def test_mean_and_deviation_have_the_same_decimals(mean, sd, text):
    assert spread(mean, sd) == text
