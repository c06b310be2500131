"""Bad logs: `simulst score` (and `--against`)."""

import gzip
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


NAN, INF = float("nan"), float("inf")
SCORE = table(
    "simulst score x.log --bootstrap 0",
    ("", "x.log: no such log"),
    ("", "x.log: the log is empty", written("x.log", "")),
    ("", "x.log: the log is empty", written("x.log", "\n  \n")),
    ("", "x.log/instances.log: no such log", folder("x.log")),
    ("", "x.log: not UTF-8 (byte 4)", written("x.log", b"RIFF\xff\xfe")),
    ("", "x.log: damaged gzip", written("x.log", gzip.compress(b"{}" * 50)[:-9])),
    ("", "x.log: damaged gzip", written("x.log", gzip.compress(b"{}" * 50)[:12])),
    ("", "x.log, line 1: not an entry of an instances.log (words)", log("words")),
    ("", "x.log, line 2: not an entry of an instances.log", log({}, '{"index": 1, "predic')),
    ("", "x.log, line 1: not an entry of an instances.log", log("[1, 2]")),
    ("", "x.log, line 1: not an entry of an instances.log", log("null")),
    ("", "x.log, line 1: not an entry of an instances.log", log("[" * 100_000)),
    ("", "x.log, line 1: not an entry ... it has no 'index'", log("{}")),
    ("", "RTF", without("index"), 0),
    ("", "it has no 'prediction'", without("prediction")),
    ("", "it has no 'delays'", without("delays")),
    ("", "x.log, index 0: has no source_length, which lags need", without("source_length")),
    ("", "x.log: has no references", without("reference"), 0),
    ("", "RTF", without("elapsed"), 0),
    ("", "x.log, line 3: index 0 stands there twice", log({}, {}, {"index": 0})),
    ("", 'index "0": index should be a valid integer, but is "0"', two(index="0")),
    ("", "index should be a valid integer, but is true", two(index=True)),
    ("", "index should be a valid integer, but is 1.5", two(index=1.5)),
    ("", "index should be greater than or equal to 0, but is -1", two(index=-1)),
    ("", "index should be", two(index=INF)),
    ("", "index should be", two(index=10**30)),
    ("", "index should be a valid integer, but is null", two(index=None)),
    ("", "x.log, line 2, index 1: delays should be a valid list, but is null", two(delays=None)),
    ("", 'delays should be a valid list, but is "12"', two(delays="12")),
    ("", "delays should be a valid list, but is {", two(delays={"0": 1000, "1": 2000})),
    ("", "delays should be a valid list, but is true", two(delays=True)),
    ("", 'delays[0] should be a valid number, but is "soon"', two(delays=["soon", 1])),
    ("", "delays[1] should be a valid number, but is true", two(delays=[1000, True])),
    ("", "delays[1] should be a valid number, but is null", two(delays=[1000, None])),
    ("", "delays[1] should be a valid number, but is {", two(delays=[1000, {}])),
    ("", "delays[1] should be a finite number, but is NaN", two(delays=[1000, NAN])),
    ("", "delays[1] should be a finite number, but is Infinity", two(delays=[1000, INF])),
    ("", "delays[1] should be less than or equal to 1000000000", two(delays=[1000, 1e300])),
    ("", "delays[1] should be", two(delays=[1000, 10**400])),
    ("", "index 1: 2 words but 3 delays", two(delays=[1, 2, 3], elapsed=None)),
    ("", "index 1: 2 words but 0 delays", two(delays=[], elapsed=[])),
    ("", "index 1: 3 words but 2 delays", two(prediction="the cat sat")),
    ("--unit char", "index 0: 6 chars but 2 delays ... (--unit)", two()),
    ("--target-lang zh", "index 0: 6 chars but 2 delays ... (--unit)", two()),
    ("", "2 delays but 1 elapsed times", two(elapsed=[1100])),
    ("", "2 delays but 1 chunk_elapsed times", two(chunk_elapsed=[1100])),
    ("", "elapsed[1] should be a finite number", two(elapsed=[1100, -INF])),
    ("", "elapsed should be a valid list, but is 0", two(elapsed=0)),
    ("", 'elapsed[0] should be a valid number, but is "1"', two(elapsed=["1", 2])),
    ("", "source_length should be a finite number, but is Infinity", two(source_length=INF)),
    ("", "source_length should be a finite number, but is NaN", two(source_length=NAN)),
    ("", "source_length should be greater than or equal to 0.01, but is 0", two(source_length=0)),
    ("", "source_length should be greater than or equal to 0.01, but is -5", two(source_length=-5)),
    ("", 'source_length should be a valid number, but is "2500"', two(source_length="2500")),
    ("", "source_length should be a valid number, but is null", two(source_length=None)),
    ("", "source_length should be a valid number, but is [", two(source_length=[2500])),
    ("", 'prediction should be a valid string, but is ["the"', two(prediction=["the", "cat"])),
    ("", "prediction should be a valid string, but is 7", two(prediction=7)),
    ("", "prediction_length should be a valid integer", two(prediction_length="2")),
    ("", "reference should be a valid string, but is [", two(reference=["the cat sat"])),
    ("", "reference should be a valid string, but is false", two(reference=False)),
    ("", "x.log, index 1: has no reference (null), like 1 of 2", two(reference=None)),
    ("", "name should be a valid string, but is 3", two(name=3)),
    ("", "reads[0] should be a finite number", two(reads=[NAN])),
    ("", "index 1: reads fall", two(reads=[2000, 1000])),
    ("", "reads should be a valid list", two(reads="all")),
    ("", "compute_ms should be a finite number", two(compute_ms=NAN)),
    ("", "compute_ms should be greater than or equal to 0", two(compute_ms=-1)),
    ("", "waited_ms should be greater than or equal to 0", two(waited_ms=-1)),
    ("", "audio should be a valid string", two(audio=["x"])),
    ("", "segments[0] should be a valid list", two(segments=[1, 2])),
    ("", "source_length looks like seconds (index 0: source_length 2.5", log({"source_length": 2.5})),
    ("", "delays look like seconds", log({"delays": [1, 2], "elapsed": []})),
    ("", "delays and source_length look like seconds", log({"delays": [1, 2], "elapsed": [], "source_length": 2.5})),
    ("--target-lang xx", "'xx' is not the code of a language", two()),
    ("--target-lang ''", "'' is not the code of a language", two()),
    ("--unit syllable", "'--unit' ... 'syllable' is not one of", two(), 2),
    ("--bootstrap -1", "'--bootstrap' ... -1 is not in the range", two(), 2),
    ("--bootstrap many", "'--bootstrap' ... 'many' is not a valid integer", two(), 2),
    ("--words", "No such option '--words'", two(), 2),
    ("--segmentation s.yaml", "give --segmentation and --references together", two()),
    ("--comet XCOMET-XL", "give --comet and --sources together", two()),
    ("--sources s.es", "give --comet and --sources together", two()),
    # Read, but told of.
    ("", "of the indices 0 to 4, 3 are missing, first 0", log({"index": 1}, {"index": 4}), 0),
    ("", "no elapsed times, or only 0, in 1 of 2 sentences, first in index 1", two(elapsed=None), 0),
    ("", "no elapsed times, or only 0, in 1 of 2 sentences, first in index 1", two(elapsed=[0, 0]), 0),
    ("", "delays fall ... in 1 of 2 sentences, first in index 1", two(delays=[1000, 900]), 0),
    ("", "delays are negative ... in 1 of 2 sentences", two(delays=[-5, 900]), 0),
    ("", "elapsed times fall in 1 of 2", two(elapsed=[2500, 2300]), 0),
    ("", "elapsed times are less than the delays ... in 1 of 2", two(elapsed=[100, 300]), 0),
    ("", "empty references: 1, first of index 1", two(reference=""), 0),
    ("--bootstrap 20", "one sentence has no 95 % interval", log({}), 0),
    ("", "BLEU", written("x.log", b"\xef\xbb\xbf" + (json.dumps(GOOD) + "\r\n").encode()), 0),
    ("", "BLEU", written("x.log", gzip.compress(json.dumps(GOOD).encode())), 0),
    ("--json", '"AL": null', log({"prediction": None, "delays": [], "elapsed": []}), 0),
)
AGAINST = table(
    "simulst score x.log --bootstrap 0 --against y.log",
    ("", "y.log: no such log", two()),
    ("", "y.log: the log is empty", all_of(two(), written("y.log", ""))),
    ("", "y.log, line 1: not an entry", all_of(two(), log("{", name="y.log"))),
    ("", "y.log, index 0: 1 words but 2 delays", all_of(two(), log({"prediction": "a"}, {}, name="y.log"))),
    ("", "sentences are in one log only (index 2 only in the baseline", all_of(two(), log({}, {}, {}, name="y.log"))),
    ("", "index 1: the logs have different references", all_of(two(), log({}, {"reference": "x"}, name="y.log"))),
    ("", "test needs several sentences, but there is one", all_of(log({}), log({}, name="y.log"))),
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
        ("", "Missing argument 'FOLDERS...'", lambda: None, 2),
        ("nowhere", "no instances.log below nowhere; run the decoding stage first"),
        ("data", "no instances.log below data"),
        ("run", "run/config.yaml: no such file; give a folder that simulst evaluate made", removed("run/config.yaml")),
        ("run", "run/config.yaml: not the config.yaml of a simulst run", written("run/config.yaml", "{")),
        (
            "run",
            "run/config.yaml: not the config.yaml of a simulst run",
            replaced("run/config.yaml", "task:", "task: 3\ntusk:"),
        ),
        (
            "run",
            "not the config.yaml of a simulst run: task.unit: Input should be",
            replaced("run/config.yaml", "unit: ''", "unit: 3"),
        ),
        ("run", "run/instances.log: the log is empty", written("run/instances.log", "")),
        ("run --references data/text.en", "give --segmentation and --references together"),
        ("run --references x.en --segmentation x.yaml", "x.yaml: cannot be read (No such file or directory)"),
        ("run", "run/instances.log, line 3: not an entry", cut("run/instances.log", -40)),
    ),
    Case("simulst runs score run", "Missing option '--target-lang'", status=2),
    Case("simulst runs score --target-lang xx run", "'xx' is not the code of a language"),
    Case("simulst runs score --target-lang zh run", "run/instances.log, index 0: ... chars but"),
]


@pytest.mark.parametrize("case", [*SCORE, *AGAINST, *RUNS], ids=str)
def test_logs(case: Case, check: Check) -> None:
    check(case)
