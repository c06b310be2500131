import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulst.errors import SimulstError
from simulst.log import Instance, check_units, read_log, read_unfinished, unit_of

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


@pytest.mark.parametrize("cut", [1, 30, -3, -1])
def test_a_half_line_is_dropped_on_resumption(tmp_path: Path, cut: int) -> None:
    last = replace(ONE, index=2, prediction="a\u2028b")
    path = write(tmp_path, ONE, replace(ONE, index=1))
    path.write_bytes(path.read_bytes() + last.to_json().encode()[:cut])
    assert [instance.index for instance in read_unfinished(path)] == [0, 1]


def test_a_line_without_its_newline_is_half(tmp_path: Path) -> None:
    path = tmp_path / "instances.log"
    path.write_text(ONE.to_json(), encoding="utf-8")
    assert list(read_unfinished(path)) == []


def test_half_a_character_at_the_end(tmp_path: Path) -> None:
    path = write(tmp_path, ONE)
    path.write_bytes(path.read_bytes() + replace(ONE, prediction="你").to_json().encode().split(b"\xbd")[0])
    assert list(read_unfinished(path)) == [ONE]


def test_nothing_to_resume(tmp_path: Path) -> None:
    assert list(read_unfinished(tmp_path / "instances.log")) == []


def test_a_broken_line_before_the_end_is_no_resumption(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, '{"index": 1, "predic', replace(ONE, index=2))
    with pytest.raises(SimulstError, match=r"line 2: not an entry"):
        list(read_unfinished(path))


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in SIMULEVAL.items() if name != key}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("no json", "not an entry of an instances.log"),
        ("[1, 2]", "not an entry of an instances.log"),
        ("null", "not an entry of an instances.log"),
        ("{}", "not an entry of an instances.log"),
        (without("delays"), "'delays'"),
        (without("index"), "'index'"),
        (without("source_length"), "'source_length'"),
        ({**SIMULEVAL, "delays": None}, "not an entry"),
        ({**SIMULEVAL, "delays": ["soon", "later"]}, "not an entry"),
        ({**SIMULEVAL, "index": "first"}, "not an entry"),
        ({**SIMULEVAL, "index": float("inf")}, "not an entry"),
        ({**SIMULEVAL, "elapsed": [1100]}, "2 delays but 1 elapsed times"),
        ({**SIMULEVAL, "delays": [1000, float("nan")]}, "not a finite number"),
        ({**SIMULEVAL, "source_length": float("inf")}, "not a finite number"),
        ({**SIMULEVAL, "source_length": 0}, "must be positive"),
    ],
)
def test_broken_lines(tmp_path: Path, row: dict[str, Any] | str, words: str) -> None:
    path = write(tmp_path, replace(ONE, index=7), row)
    with pytest.raises(SimulstError) as caught:
        read_log(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert words in str(caught.value)


def test_an_index_twice(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, replace(ONE, index=1), ONE)
    with pytest.raises(SimulstError, match=f"{path}, line 3: index 0 stands there twice"):
        read_log(path)


def test_missing_and_empty_logs(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"instances.log: no such log"):
        read_log(tmp_path)
    with pytest.raises(SimulstError, match=r"the log is empty"):
        read_log(write(tmp_path, "", " "))
    (tmp_path / "instances.log").write_bytes(b"RIFF\xff\xfe\n")
    with pytest.raises(SimulstError, match=r"not UTF-8"):
        read_log(tmp_path)


def test_check_units() -> None:
    check_units([ONE], "word", "log")
    with pytest.raises(SimulstError, match=r"log, index 0: 6 chars but 2 delays.*--unit"):
        check_units([ONE], "char", "log")


@pytest.mark.parametrize(("language", "unit"), [("en", "word"), ("zh", "char"), ("ja", "char"), ("de", "word")])
def test_unit(language: str, unit: str) -> None:
    assert unit_of(language) == unit


def test_units_and_reference_length() -> None:
    instance = replace(ONE, prediction="你 好\u2028吗", reference=" 你 好 ")
    assert instance.units("char") == ["你", "好", "\u2028", "吗"]
    assert instance.units("word") == ["你", "好", "吗"]
    assert instance.reference_length("char") == 3
    assert instance.reference_length("word") == 4
