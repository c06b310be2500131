"""config.yaml of a run: written and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulst.config import parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.runs.folder import CONFIG, RunConfig, Task, check_same, new_run_config, read_run_config, write_run_config

LA2: dict[str, Any] = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "local_agreement", "n": 2}}
WRITTEN = "source_type target_type decoding label strategy curve task weights files code utterances names context"
"""Keys of the first version with all of them, in order."""

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
tasks = st.builds(
    Task,
    words,
    words,
    words,
    st.dictionaries(words, st.none() | st.booleans() | st.integers() | words, max_size=3).map(
        lambda found: tuple(found.items())
    ),
    st.sampled_from(["", "word", "char"]),
)
configs = st.builds(
    RunConfig,
    decoding=st.dictionaries(words, words, max_size=2).map(lambda more: {**more, **LA2}),
    label=words,
    strategy=words,
    curve=st.tuples(words, st.none() | st.floats(allow_nan=False)),
    task=tasks,
    weights=words,
    files=st.dictionaries(words, words, max_size=2),
    code=st.dictionaries(words, words, max_size=2),
    utterances=st.integers(0, 10**6),
    **dict.fromkeys(("names", "context", "date", "commit", "processor"), words),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(config=configs)
def test_what_is_written_is_read(tmp_path: Path, config: RunConfig) -> None:
    write_run_config(tmp_path, config)
    assert read_run_config(tmp_path) == config
    check_same(tmp_path, read_run_config(tmp_path), config)
    check_same(tmp_path, config, replace(config, date="later", commit="other", processor="faster"))


def test_the_form(tmp_path: Path) -> None:
    """SimulEval scores the folder; other programs know these keys."""
    task = Task("model", "es", "en", (("threads", 2),))
    config = new_run_config(parse_decoding(LA2, "test"), task, "abc", [Utterance("a", Path("a.wav"), "A.")])
    write_run_config(tmp_path, config)
    written = yaml.safe_load((tmp_path / CONFIG).read_text())
    assert list(written) == [*WRITTEN.split(), "date", "commit", "processor"]
    assert written["source_type"] == "speech" and written["target_type"] == "text"
    assert written["curve"] == ["LA-2", 500.0] and written["decoding"] == LA2 == config.decoding
    assert written["task"]["options"] == {"threads": 2} and written["task"]["unit"] == ""
    assert written["date"] and written["processor"] and config.read == LA2["read"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": "x"}, "holds a run whose 'label' is 'LA-2_500ms', not 'x'; give another --out, or use --force"),
        ({"weights": "other"}, "holds a run of another model under the same name"),
        ({"context": "some"}, "holds a run of another context under the same name"),
        ({"files": {"p.pth": "x"}}, "another predictor or guide under the same name (changed: p.pth)"),
    ],
)
def test_another_run(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    task = Task("model", "es", "en")
    config = new_run_config(parse_decoding(LA2, "test"), task, "abc", [Utterance("a", Path("a.wav"), "A.")])
    config = replace(config, files={"p.pth": "p"})
    with pytest.raises(SimulstError) as error:
        check_same(tmp_path, config, replace(config, **change))
    assert str(error.value).startswith(f"{tmp_path}: ") and words in str(error.value)


def test_one_model_under_two_paths(tmp_path: Path) -> None:
    decoding, data = parse_decoding(LA2, "test"), [Utterance("a", Path("a.wav"), "A.")]
    one, other = (new_run_config(decoding, Task(path, "es", "en"), "abc", data) for path in ("m", "../w/m"))
    check_same(tmp_path, one, other)
    with pytest.raises(SimulstError, match="'task'"):
        check_same(tmp_path, replace(one, weights=""), replace(other, weights=""))
