"""Bad logs: `simulst score` (and `--against`)."""

import json
from typing import Any

import pytest
from cases import Case, Change, Check, all_of, cut, folder, removed, replaced, table, written

GOOD = {
    **{"index": 0, "prediction": "the cat", "delays": [1000, 2000], "elapsed": [1100, 2300], "prediction_length": 2},
    **{"reference": "the cat sat", "source": ["a.wav"], "source_length": 2500},
}


def log(*rows: dict[str, Any] | str, name: str = "x.log") -> Change:
    """A log of these lines, which say only what is not as in GOOD; by default two."""
    lines = [row if isinstance(row, str) else json.dumps({**GOOD, "index": i, **row}) for i, row in enumerate(rows)]
    return written(name, "".join(f"{line}\n" for line in lines))


def without(key: str) -> Change:
    row = {name: value for name, value in GOOD.items() if name != key}
    return written("x.log", json.dumps(row) + "\n")


def two(**row: Any) -> Change:
    return log({}, row)


SCORE = table(
    "simulst score x.log --bootstrap 0",
    ("", "x.log: no such log"),
    ("", "x.log: the log is empty", written("x.log", "")),
    ("", "x.log/instances.log: no such log", folder("x.log")),
    ("", "RTF", without("index"), 0),
    ("", "RTF", without("elapsed"), 0),
    ("", "x.log, line 3: index 0 stands there twice", log({}, {}, {"index": 0})),
    ("", "index 1: 2 words but 3 delays", two(delays=[1, 2, 3], elapsed=None)),
    ("--unit char", "index 0: 6 chars but 2 delays ... (--unit)", two()),
    ("", "x.log, index 1: has no reference (null), like 1 of 2", two(reference=None)),
    ("--target-lang xx", "'xx' is not the code of a language", two()),
    ("--segmentation s.yaml", "give --segmentation and --references together", two()),
    ("--sources s.es", "--sources is read for --comet and --metric alone", two()),
    ("--comet XCOMET-XL", "give --comet and --sources together", two()),
    # Read, but told of.
    ("", "empty references: 1, first of index 1", two(reference=""), 0),
    ("--json", '"AL": null', log({"prediction": None, "delays": [], "elapsed": []}), 0),
)
AGAINST = table(
    "simulst score x.log --bootstrap 0 --against y.log",
    ("", "y.log, line 1: not an entry", all_of(two(), log("{", name="y.log"))),
    ("", "sentences are in one log only (index 2 only in the baseline", all_of(two(), log({}, {}, {}, name="y.log"))),
    ("", "index 1: the logs have different references", all_of(two(), log({}, {"reference": "x"}, name="y.log"))),
    (
        *("", "y.log: has no references; BLEU and chrF need them"),
        all_of(
            log({"reference": None}, {"reference": None}), log({"reference": None}, {"reference": None}, name="y.log")
        ),
    ),
)
RUNS = [
    *table(
        "simulst runs score --target-lang en",
        ("nowhere", "no instances.log below nowhere; run the decoding stage first"),
        ("run", "run/config.yaml: no such file; give a folder that simulst evaluate made", removed("run/config.yaml")),
        ("run", "run/config.yaml: not the config.yaml of a simulst run", written("run/config.yaml", "{")),
        ("run", "not the config.yaml of a simulst run: task.unit:", replaced("run/config.yaml", "unit: ''", "unit: 3")),
        ("run", "run/instances.log: the log is empty", written("run/instances.log", "")),
        ("run --references data/text.en", "give --segmentation and --references together"),
        ("run --references x.en --segmentation x.yaml", "x.yaml: no such file"),
        ("run", "run/instances.log, line 3: not an entry", cut("run/instances.log", -40)),
    ),
    Case("simulst runs score --target-lang xx run", "'xx' is not the code of a language"),
    Case("simulst runs score --target-lang zh run", "run/instances.log, index 0: ... chars but"),
]


@pytest.mark.parametrize("case", [*SCORE, *AGAINST, *RUNS], ids=str)
def test_logs(case: Case, check: Check) -> None:
    check(case)
