import gzip
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.log.instance import Instance, check_units
from simulst.log.simuleval import read_unfinished
from simulst.measure import score

ONE = Instance(
    index=0,
    prediction="the cat",
    delays=[1000.0, 2000.0],
    elapsed=[1100.5, 2300.25],
    prediction_length=2,
    reference="the cat sat",
    source=["/data/a.wav"],
    source_length=2500.0,
    name="a",
    reads=[1000.0, 2000.0, 2500.0],
    compute_ms=300.25,
)
SIMULEVAL = {  # as SimulEval 1.1.4 writes it
    "index": 0,
    "prediction": "the cat",
    "delays": [1000, 2000],
    "elapsed": [1100, 2300],
    "prediction_length": 2,
    "reference": "the cat sat",
    "source": ["a.wav", "samplerate: 16000"],
    "source_length": 2500,
}


def write(folder: Path, *rows: Instance | dict[str, Any] | str) -> Path:
    lines = [r.to_json() if isinstance(r, Instance) else r if isinstance(r, str) else json.dumps(r) for r in rows]
    path = folder / "instances.log"
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    ["the cat", "", "a\u2028b c\u0085d", "你好\u3000吗", '"quoted" \\ back', "tab\tand\nline\r\x0bfeed", "😀 \ufffd"],
)
def test_round_trip(tmp_path: Path, text: str) -> None:
    instances = [replace(ONE, prediction=text, reference=text), replace(ONE, index=1, name=text, compute_ms=None)]
    path = write(tmp_path, *instances)
    assert read_log(path) == instances
    assert read_log(tmp_path) == instances
    assert list(read_unfinished(path)) == instances


def test_simuleval_log(tmp_path: Path) -> None:
    [instance] = read_log(write(tmp_path, SIMULEVAL))
    expected = replace(ONE, elapsed=[1100, 2300], source=SIMULEVAL["source"])
    assert instance == replace(expected, name="", reads=[], compute_ms=None)
    assert json.loads(instance.to_json()) == SIMULEVAL


def test_text_logs_of_simuleval_have_no_elapsed_times(tmp_path: Path) -> None:
    row = {key: value for key, value in SIMULEVAL.items() if key not in ("elapsed", "prediction_length")}
    [instance] = read_log(write(tmp_path, row))
    assert (instance.elapsed, instance.prediction_length) == ([], 2)


def test_order_is_by_index(tmp_path: Path) -> None:
    path = write(tmp_path, replace(ONE, index=10), replace(ONE, index=2), "", replace(ONE, index=0))
    assert [instance.index for instance in read_log(path)] == [0, 2, 10]


def test_an_empty_prediction(tmp_path: Path) -> None:
    empty = replace(ONE, prediction="", delays=[], elapsed=[], prediction_length=0)
    [instance] = read_log(write(tmp_path, empty))
    assert instance == empty
    check_units([instance], "word", tmp_path)
    assert read_log(write(tmp_path, {**SIMULEVAL, "prediction": None, "delays": [], "elapsed": []}))[0].prediction == ""


def test_a_half_line_is_dropped_on_resumption(tmp_path: Path) -> None:
    """Also one that ends within a character, or lacks nothing but its newline."""
    path = write(tmp_path, ONE, replace(ONE, index=1))
    whole, last = path.read_bytes(), replace(ONE, index=2, prediction="a\u2028你").to_json().encode()
    for cut in range(1, len(last) + 1):
        path.write_bytes(whole + last[:cut])
        assert [instance.index for instance in read_unfinished(path)] == [0, 1]
    assert list(read_unfinished(tmp_path / "none.log")) == []


def test_a_broken_line_before_the_end_is_no_resumption(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, '{"index": 1, "predic', replace(ONE, index=2))
    with pytest.raises(SimulstError, match=r"line 2: not an entry"):
        list(read_unfinished(path))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("no json", "not an entry of an instances.log"),
        ("null", "not an entry of an instances.log"),
        ({key: value for key, value in SIMULEVAL.items() if key != "delays"}, "has no 'delays'"),
        ({**SIMULEVAL, "index": -1}, "index should be greater than or equal to 0, but is -1"),
        ({**SIMULEVAL, "delays": [1000, float("nan")]}, "delays[1] should be a finite number, but is NaN"),
        ({**SIMULEVAL, "delays": [1000, 10**400]}, "delays[1] should be a valid number, but is 1000"),
        ({**SIMULEVAL, "delays": [1000, 1e300]}, "delays[1] should be less than or equal to 1000000000"),
        ({**SIMULEVAL, "elapsed": [1100]}, "2 delays but 1 elapsed times"),
        ({**SIMULEVAL, "elapsed": [1100, 2300, 2400]}, "2 delays but 3 elapsed times"),
        ({**SIMULEVAL, "source_length": 0}, "source_length should be greater than or equal to 0.01, but is 0"),
        ({**SIMULEVAL, "prediction": ["the", "cat"]}, 'prediction should be a valid string, but is ["the", "cat"]'),
        ({**SIMULEVAL, "reads": [2000, 1000]}, "reads fall"),
        ({**SIMULEVAL, "compute_ms": -1}, "compute_ms should be greater than or equal to 0"),
    ],
)
def test_broken_lines(tmp_path: Path, row: dict[str, Any] | str, words: str) -> None:
    path = write(tmp_path, replace(ONE, index=7), row)
    with pytest.raises(SimulstError) as caught:
        read_log(path)
    assert str(caught.value).startswith(f"{path}, line 2")
    assert words in str(caught.value)


def test_lines_of_omnisteval(tmp_path: Path) -> None:
    """They may have no index and no source_length. Lags of sentences need a length, those of recordings don't."""
    one, other = ({k: v for k, v in SIMULEVAL.items() if k not in ("index", "source_length")} for _ in range(2))
    first, second = read_log(write(tmp_path, one, {**other, "prediction": "a dog"}))
    assert (first.index, second.index, second.prediction, first.source_length) == (0, 1, "a dog", 0)
    with pytest.raises(SimulstError, match="index 0: has no source_length, which lags need"):
        score([first, second])
    with pytest.raises(SimulstError, match="line 2: has an index, but lines before it have none"):
        read_log(write(tmp_path, one, SIMULEVAL))
    with pytest.raises(SimulstError, match=r"line 2: not an entry of an instances\.log, it has no 'index'"):
        read_log(write(tmp_path, SIMULEVAL, one))


def test_delays_of_spaces_between_characters(tmp_path: Path) -> None:
    row = {**SIMULEVAL, "prediction": "用 AI 吗", "delays": [1, 2, 3, 4, 5, 6], "elapsed": [7, 8, 9, 10, 11, 12]}
    [instance] = read_log(write(tmp_path, row), "char")
    assert (instance.delays, instance.elapsed, instance.prediction_length) == ([1, 3, 4, 6], [7, 9, 10, 12], 4)
    check_units([instance], "char", "x")
    [in_words] = read_log(write(tmp_path, row), "word")
    assert len(in_words.delays) == 6


@pytest.mark.parametrize(
    ("prediction", "unit", "delays", "text", "left"),
    [
        ("the cat </s>", "word", [1, 2, 3], "the cat", [1, 2]),
        ("the cat</s>", "word", [1, 2], "the cat", [1, 2]),
        ("</s>", "word", [1], "", []),
        ("the cat </s> a dog </s>", "word", [1, 2, 3, 4, 5, 6], "the cat a dog", [1, 2, 4, 5]),
        ("吃 了</s>", "char", [1, 2, 3], "吃 了", [1, 2]),
        ("the cat </s> ", "word", [1, 2, 3], "the cat", [1, 2]),
        ("the <s> cat", "word", [1, 2, 3], "the <s> cat", [1, 2, 3]),
    ],
)
def test_ends_of_sentences_are_no_words(
    prediction: str,
    unit: str,
    delays: list[int],
    text: str,
    left: list[int],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SimulEval 1.0 wrote them into its logs."""
    row = {
        **SIMULEVAL,
        "prediction": prediction,
        "delays": delays,
        "elapsed": [100 + d for d in delays],
        "source_length": 100,
    }
    instance, _ = read_log(write(tmp_path, {**row, "prediction_length": 9}, {**SIMULEVAL, "index": 1}), unit)
    assert (instance.prediction.strip(), instance.delays) == (text, left)
    assert instance.elapsed == [100 + d for d in left]
    assert left == delays or instance.prediction_length == len(left)
    check_units([instance], unit, "x")
    assert ("1 of 2 predictions hold </s>, the first in index 0" in caplog.text) == ("</s>" in prediction)
    [kept] = read_log(write(tmp_path, {**row, "reference": "a </s>"}), unit)
    assert kept.prediction == prediction, "text that is about them"


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    key=st.sampled_from([*SIMULEVAL, "name", "reads", "compute_ms"]),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=4,
    ),
)
def test_any_value_is_refused_or_gives_scores_that_json_knows(tmp_path: Path, key: str, value: Any) -> None:
    try:
        path = write(tmp_path, {**SIMULEVAL, key: value}, replace(ONE, index=1))
        scores = score(read_log(path), path=path)
    except SimulstError as error:
        assert str(error).startswith(str(tmp_path)) and "\n" not in str(error)
    else:
        json.dumps(scores, allow_nan=False)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**SIMULEVAL, "source_length": 2.5}], "source_length looks like seconds (index 0: source_length 2.5,"),
        ([{**SIMULEVAL, "delays": [1, 2], "elapsed": []}], "delays look like seconds"),
        ([{**SIMULEVAL, "delays": [1, 2], "source_length": 2.5}], "delays and source_length look like seconds"),
    ],
)
def test_seconds(tmp_path: Path, rows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(SimulstError) as caught:
        read_log(write(tmp_path, *rows))
    assert words in str(caught.value) and str(caught.value).endswith("give all times in ms.")


def test_a_log_of_text_counts_words(tmp_path: Path) -> None:
    text = {**SIMULEVAL, "delays": [2, 3], "elapsed": [0, 0], "source": "el gato se", "source_length": 3}
    [instance] = read_log(write(tmp_path, text))
    assert (instance.delays, instance.elapsed) == ([2, 3], [])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"index": 1}, {"index": 4}], "of the indices 0 to 4, 3 are missing, first 0"),
        ([{}, {"index": 1, "elapsed": []}], "no elapsed times, or only 0, in 1 of 2 sentences, first in index 1"),
        (
            [{}, {"index": 1, "elapsed": [0, 0]}, {"index": 2, "elapsed": None}],
            "no elapsed times, or only 0, in 2 of 3 sentences",
        ),
        (
            [{}, {"index": 1, "delays": [1000, 900]}],
            "delays fall (a word is written before the one in front of it) in 1 of 2",
        ),
        (
            [{"delays": [-5, 900]}, {"index": 1, "delays": [-1, 1]}],
            "negative (a word is written before its sentence begins) in 2 of 2 sentences, first in index 0",
        ),
        ([{"elapsed": [2500, 2300]}], "elapsed times fall in 1 of 1 sentences"),
        ([{"elapsed": [100, 300]}], "elapsed times are less than the delays"),
        ([{"chunk_elapsed": [1100, 1300]}], "elapsed times are less than the delays"),
        ([{"source_length": 1998}, {"index": 1}], "delays are longer than the recording (source_length is wrong"),
    ],
)
def test_suspicious_logs_are_read_with_a_warning(
    tmp_path: Path, rows: list[dict[str, Any]], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, *({**SIMULEVAL, **row} for row in rows))
    assert len(read_log(path)) == len(rows)
    [record] = caplog.records
    assert record.getMessage().startswith(f"{path}: ") and words in record.getMessage()


def test_rounded_times_are_no_suspicion(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    delays = [1000.0004, 1000.0, 2000.0]
    path = write(tmp_path, {**SIMULEVAL, "prediction": "the cat sat", "delays": delays, "elapsed": [1000, 1000, 2000]})
    assert read_log(path)[0].delays == delays and not caplog.records


def test_texts_are_read_in_one_normal_form(tmp_path: Path) -> None:
    """A word keeps its time, a character has that of the last part that it is made of."""
    word = {**SIMULEVAL, "prediction": "Mu\u0308de Ba\u0308ume", "reference": "mu\u0308de", "terms": ["Ba\u0308ume"]}
    [read] = read_log(write(tmp_path, word))
    assert (read.prediction, read.delays) == ("Müde Bäume", word["delays"])
    assert (read.reference, read.terms) == ("müde", ["Bäume"])
    parts = ["か", "\u3099", "x", "\u1112", "\u1161", "\u11ab", "\u0958", "y"]  # \u0958 becomes two
    delays = [1000.0 + place for place in range(len(parts))]
    by_character = {**SIMULEVAL, "prediction": " ".join(["".join(parts[:3]), "".join(parts[3:])])}
    [read] = read_log(write(tmp_path, {**by_character, "delays": delays, "elapsed": delays}), "char")
    assert read.prediction == "がx 한\u0915\u093cy"
    assert read.delays == read.elapsed == [1001, 1002, 1005, 1006, 1006, 1007]
    assert read.prediction_length == 6


def test_elapsed_times_of_zero_were_not_measured(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, replace(ONE, index=1, elapsed=[0.0, 0.0]))
    assert [instance.elapsed for instance in read_log(path)] == [ONE.elapsed, []]


def test_pipes_gzip_and_byte_order_marks(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, replace(ONE, index=1, prediction="你好"))
    whole, data = read_log(path), path.read_bytes()
    packed = tmp_path / "instances.log.gz"
    for variant in (gzip.compress(data), b"\xef\xbb\xbf" + data, gzip.compress(b"\xef\xbb\xbf" + data)):
        packed.write_bytes(variant)
        assert read_log(packed) == whole
    packed.write_bytes(data.replace(b"\n", b"\r\n"))
    assert read_log(packed) == whole
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(gzip.compress(data)), daemon=True).start()
    assert read_log(tmp_path / "pipe") == whole
    packed.write_bytes(gzip.compress(data)[:-9])
    with pytest.raises(SimulstError, match=r"instances\.log\.gz: damaged gzip"):
        read_log(packed)


def test_units_and_reference_length() -> None:
    instance = replace(ONE, prediction="你 好\u2028吗", reference=" 你 好 ")
    assert instance.units("char") == ["你", "好", "\u2028", "吗"]
    assert instance.units("word") == ["你", "好", "吗"]
    assert instance.reference_length("char") == 3
    assert instance.reference_length("word") == 4
    assert replace(instance, reference=None).reference_length("word") == len(instance.delays)
