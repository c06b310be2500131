import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulst.config import TYPES, Decoding, _choices, load_decoding, load_sweep, parse_decoding, parse_values
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Tokens
from simulst.policy.commit import All, Commit, Hold, LocalAgreement, SharedPrefix
from simulst.policy.read import Chunk, Offline
from simulst.policy.segment import Whole
from simulst.policy.stop import CTC, AlignAtt, AnyOf, EndOfSentence, MaxTokens, MaxWords
from simulst.search import BeamSearch

MANY = list(range(1, 201))
READ, COMMIT = "read: {type: chunk, ms: 1000}\n", "commit: {type: all}\n"


@dataclass(frozen=True)
class Called(Commit):
    """One that is called as an option says."""

    name: str
    label = "{name}"

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return ()

    @property
    def files(self) -> tuple[str, ...]:
        return (f"{self.name}.pth",)


@dataclass(frozen=True)
class Named(EndOfSentence):
    """A user's STOP with an option that can be changed."""

    most: dict[str, int]


class NoDataclass:
    pass


def write(folder: Path, text: str) -> Path:
    path = folder / "conf.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_everything(tmp_path: Path) -> None:
    decoding = load_decoding(
        write(
            tmp_path,
            """
            read:   {type: chunk, ms: 500, initial_wait_ms: 2000.5}
            stop:   {type: max_tokens, n: 3}
            commit: {type: shared_prefix, n: 1}
            search: {type: beam, beam: 8, length_penalty: 0, no_repeat_ngram: 3, max_tokens_per_second: 10}
            """,
        )
    )
    assert decoding.read == Chunk(500, 2000.5)
    assert decoding.stop == MaxTokens(3)
    assert decoding.commit == SharedPrefix(1)
    assert decoding.search == BeamSearch(8, 0, 3, 10)
    assert decoding.label == "SP-1_N3_beam8-lp0-ngram3-tps10_500ms-wait2000.5"
    assert decoding.strategy == "SP-1_N3_beam8-lp0-ngram3-tps10"


def test_defaults(tmp_path: Path) -> None:
    decoding = load_decoding(write(tmp_path, READ + "commit: {type: local_agreement}"))
    assert decoding == Decoding(Chunk(1000), LocalAgreement(2), EndOfSentence(), None, Whole())
    assert parse_decoding(decoding.raw, "again") == decoding
    assert list(decoding.raw) == ["read", "commit"]
    assert Decoding(Offline(), All()).label == "offline"


def test_several_stops_at_once(tmp_path: Path) -> None:
    text = READ + "commit: {type: all, whole_words: true}\n"
    text += "stop: {type: any_of, of: [{type: max_words, n: 2}, {type: ctc, threshold: 0.5}]}\n"
    decoding = load_decoding(write(tmp_path, text))
    assert decoding.stop == AnyOf((MaxWords(2), CTC(0.5)))
    assert decoding.label == "allw_W2+CTC+0.5_1000ms"
    assert parse_decoding(decoding.raw, "again") == decoding


def test_files_of_every_part() -> None:
    parts = {"read": {"type": "boundary", "threshold": 0.5, "predictor": "p.pth"}}
    parts |= {"stop": {"type": "ctc_guide", "model": "guide", "threshold": 0}}
    parts |= {"commit": {"type": f"{Called.__module__}:Called", "name": "own", "whole_words": True}}
    assert parse_decoding(parts, "here").files == ("p.pth", "guide", "own.pth")


COMMITS = "all, hold, local_agreement, shared_prefix"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["read, stop, commit, search, segment"]),
        (READ + COMMIT + "wait: {}", ["'wait'", "read, stop, commit, search"]),
        (COMMIT, ["'read' is missing", "chunk, block, wait_k, test_time_wait_k, wait_stride, boundary, offline"]),
        (READ, ["'commit' is missing", COMMITS]),
        (READ + "commit: local_agreement", ["'commit'", "'type'", COMMITS, "local_agreement"]),
        (READ + "commit: {type: la}", ["no commit 'la'", COMMITS, "module:Name"]),
        (READ + COMMIT + "stop: {type: any_of, of: [{type: eos}]}", ["no stop 'eos'", "end_of_sentence"]),
        (
            READ + COMMIT + "stop: {type: any_of, of: {type: ctc}}",
            ["'stop' of type 'any_of'", "'of'", "Input should be a list"],
        ),
        (READ + COMMIT + "stop: {type: any_of, of: [3]}", ["'stop' must be a mapping", "3"]),
        (READ + "commit: {type: all, whole_words: 1}", ["'commit'", "'whole_words'", "valid boolean"]),
        (READ + COMMIT + "segment: {type: pause}", ["'segment'", "'pause'", "needs the option 'seconds'"]),
        (READ + "commit: {type: hold, m: 2}", ["'commit'", "'hold'", "'m'", "it has n, whole_words."]),
        (READ + "commit: {type: hold, n: two}", ["'commit'", "'n'", "integer", "'two'"]),
        (COMMIT + "read: {type: chunk, ms: [1, 2]}", ["'read'", "'ms'", "several values, [1, 2]", "simulst sweep"]),
        (READ + COMMIT + "commit: {type: hold, n: 2}", ["not valid YAML", "the key 'commit' stands twice, line 3"]),
        (READ + COMMIT + "---\n" + READ + COMMIT, ["several documents", "a file of its own"]),
        (COMMIT + "read: {type: wait_k, k: 3}", ["(writes: 1)", "max_tokens, n: 1", "test_time_wait_k"]),
        (COMMIT + "read: {type: wait_k, k: 3}\nstop: {type: max_tokens, n: 2}", ["writes: 1", "n: 1"]),
        (
            "commit: {type: all}\nread: {type: wait_k, k: 3}\nstop: {type: max_tokens, n: 1}\nlate: {type: skip}",
            ["late: wait_k", "late: {type: wait}"],
        ),
        (READ + COMMIT + f"stop: {{type: {__name__}:Named, most: {{a: 1}}}}", ["'stop'", "can't be hashed", "frozen"]),
        (READ + f"commit: {{type: {__name__}:NoDataclass}}", ["commit", "NoDataclass", "not a dataclass"]),
    ],
)
def test_bad_files(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SimulstError) as caught:
        load_decoding(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


POSITIVE, SHARE, COUNT, AMOUNT = (0, -1, math.nan, math.inf), (-0.1, 1.1, math.nan), (0, -1), (-1,)


@pytest.mark.parametrize(
    ("key", "kind", "option", "values"),
    [
        ("read", "chunk", "ms", POSITIVE),
        ("read", "chunk", "initial_wait_ms", POSITIVE[1:]),
        ("read", "block", "n", COUNT),
        ("read", "test_time_wait_k", "k", COUNT),
        ("read", "test_time_wait_k", "unit_ms", POSITIVE),
        ("read", "wait_k", "writes", COUNT),
        ("read", "wait_stride", "s", COUNT),
        ("read", "boundary", "threshold", SHARE),
        ("read", "boundary", "frames", (0, -4, 50)),
        ("stop", "max_tokens", "n", COUNT),
        ("stop", "max_words", "n", COUNT),
        ("stop", "ctc", "threshold", (math.nan,)),
        ("stop", "ctc_guide", "threshold", (math.nan,)),
        ("stop", "align_att", "frames", COUNT),
        ("stop", "align_att", "words", AMOUNT),
        ("stop", "entropy", "most", (-0.1, math.nan)),
        ("stop", "divergence", "threshold", (-0.1, math.nan)),
        ("commit", "hold", "n", COUNT),
        ("commit", "local_agreement", "n", COUNT),
        ("commit", "local_agreement", "most_behind", AMOUNT),
        ("commit", "local_agreement", "most_behind_seconds", POSITIVE[1:]),
        ("commit", "shared_prefix", "n", COUNT),
        ("segment", "attention", "words", COUNT),
        ("segment", "pause", "seconds", (*POSITIVE, "long")),
        ("search", "beam", "beam", (*COUNT, 1001)),
        ("search", "beam", "length_penalty", POSITIVE[2:]),
        ("search", "beam", "max_tokens_per_second", POSITIVE),
        ("search", "joint_beam", "beam", (*COUNT, 1001)),
        ("search", "joint_beam", "ctc_weight", SHARE),
        ("search", "joint_beam", "length_bonus", POSITIVE[2:]),
        ("search", "joint_beam", "max_length_ratio", POSITIVE),
        ("search", "joint_beam", "terms_bonus", POSITIVE[1:]),
        ("search", "ibwbs", "no_repeat_ngram", AMOUNT),
        ("search", "ibwbs", "step_back", AMOUNT),
    ],
)
def test_numbers_out_of_bounds(key: str, kind: str, option: str, values: Sequence[float]) -> None:
    """In a file, and of a class that is called in Python."""
    known = {"ms": 1, "k": 1, "s": 1, "predictor": "p", "model": "m", "threshold": 0.5}
    cls = TYPES[key][kind]
    options = {name: value for name, value in known.items() if name in cls.__dataclass_fields__}
    parts = {"read": {"type": "offline"}, "commit": {"type": "all"}}
    for value in values:
        with pytest.raises(SimulstError, match=f"here: '{key}' of type '{kind}', option '{option}': Input should"):
            parse_decoding(parts | {key: {"type": kind, **options, option: value}}, "here")
        with pytest.raises(SimulstError, match=f"{cls.__name__}, option '{option}': Input should"):
            cls(**options | {option: value})


def test_sweep(tmp_path: Path) -> None:
    decodings = load_sweep(
        write(
            tmp_path,
            """
            - read: [{type: chunk, ms: 500}, {type: chunk, ms: 1000}]
              commit: [{type: hold, n: 3}, {type: local_agreement}]
              search: {type: beam, beam: 2}
            - read: {type: offline}
              commit: {type: all}
            """,
        )
    )
    assert [d.label for d in decodings] == [
        "hold-3_beam2_500ms",
        "LA-2_beam2_500ms",
        "hold-3_beam2_1000ms",
        "LA-2_beam2_1000ms",
        "offline",
    ]
    assert [d.commit for d in decodings[:2]] == [Hold(3), LocalAgreement(2)]
    assert [d.search for d in decodings] == [BeamSearch(2)] * 4 + [None]


def test_lists_inside_of_a_part_are_tried_too(tmp_path: Path) -> None:
    text = """
        read: {type: chunk, ms: [500, 1000], initial_wait_ms: [0, 2000]}
        commit: [{type: hold, n: [3, 6]}, {type: all}]
        stop: {type: align_att, frames: [4, 8], layers: [0, 1]}
    """
    decodings = load_sweep(write(tmp_path, text))
    assert len(decodings) == 4 * 3 * 2
    assert {decoding.read for decoding in decodings} == {Chunk(ms, wait) for ms in (500, 1000) for wait in (0, 2000)}
    assert {decoding.commit for decoding in decodings} == {Hold(3), Hold(6), All()}
    assert {decoding.stop for decoding in decodings} == {AlignAtt(frames, (0, 1)) for frames in (4, 8)}


def test_one_configuration_is_a_sweep(tmp_path: Path) -> None:
    path = write(tmp_path, READ + COMMIT)
    assert load_sweep(path) == [load_decoding(path)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[]", ["empty list", "read, stop, commit, search"]),
        ("", ["must be a mapping", "read, stop, commit, search"]),
        (COMMIT + "read: []", ["'read' is an empty list"]),
        (COMMIT + "read: [{type: chunk, ms: 5}, {type: chunk, ms: 5.0}]", ["two configurations", "'all_5ms'"]),
        ("commit: [{type: all}, {type: all}]\nread: {type: offline}", ["two configurations", "'offline'"]),
        (f"read: {{type: chunk, ms: {MANY}, initial_wait_ms: {MANY}}}\n" + COMMIT, ["40000 configurations", "10000"]),
        (f"read: {{type: chunk, ms: {MANY}}}\ncommit: {{type: hold, n: {MANY}}}", ["40000 configurations"]),
        (f"- read: {{type: chunk, ms: {MANY}}}\n  commit: {{type: hold, n: {MANY}}}\n" * 9, ["40000 configurations"]),
        (
            f"search: {{type: beam, beam: {MANY}, length_penalty: {MANY}, no_repeat_ngram: {MANY}}}\n"
            + f"read: {{type: chunk, ms: {MANY}, initial_wait_ms: {MANY}}}\n"
            + f"commit: {{type: hold, n: {MANY}}}",
            ["64000000000000 configurations or more; list fewer values"],
        ),
    ],
)
def test_bad_sweeps(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SimulstError) as caught:
        load_sweep(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert [part for part in parts if part not in str(caught.value)] == []


@given(
    grids=st.lists(
        st.dictionaries(
            st.sampled_from(["ms", "initial_wait_ms"]), st.lists(st.integers(1, 9), min_size=1, max_size=4)
        ),
        min_size=1,
        max_size=3,
    ),
    n=st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_as_many_are_counted_as_are_built(grids: list[dict[str, list[int]]], n: list[int]) -> None:
    parts = [{"type": "chunk", "ms": 1, **grid} for grid in grids]
    count, found = _choices("read", parts, "here")
    assert count == len(list(found))
    assert _choices("commit", {"type": "hold", "n": n}, "here")[0] == len(n)


@pytest.mark.parametrize("name", ["../../evil", "a/b", "/tmp/evil", ".hidden", "two\nlines", "x" * 250])
def test_a_label_leads_nowhere(name: str) -> None:
    """Of any part, also of your own: it names a folder below --out."""
    own = {"type": f"{Called.__module__}:Called", "name": name}
    inside = {"read": {"type": "offline", "name": f"a{name}"}, "commit": {"type": "all"}}
    for changed in ({"commit": own}, *([] if name == ".hidden" else [inside])):
        with pytest.raises(SimulstError, match=r"its label '.*' (can't name a folder|is longer than 200 bytes)"):
            parse_decoding({"read": {"type": "chunk", "ms": 500}, **changed}, "here")


PLACES = """
- read: {type: wait_k, k: $k, unit_ms: 280, name: $name}
  stop: {type: max_tokens, n: 1}
  commit: {type: all}
- read: {type: chunk, ms: [500, $ms]}
  commit: {type: all}
"""


def test_a_sweep_takes_values_when_it_is_run(tmp_path: Path) -> None:
    path = write(tmp_path, PLACES)
    decodings = load_sweep(path, parse_values(["k=[1, 3]", "name=both", "ms=1000"]))
    assert [decoding.read.label for decoding in decodings] == ["wait-1-both", "wait-3-both", "500ms", "1000ms"]
    written = load_sweep(
        write(tmp_path, PLACES.replace("$k", "[1, 3]").replace("$name", "both").replace("$ms", "1000"))
    )
    assert decodings == written and [one.raw for one in decodings] == [one.raw for one in written]


def test_an_empty_list_takes_its_grid_away(tmp_path: Path) -> None:
    decodings = load_sweep(write(tmp_path, PLACES), parse_values(["k=[]", "name=both", "ms=1000"]))
    assert [decoding.read.label for decoding in decodings] == ["500ms", "1000ms"]


def test_values_that_are_missing_or_wrong(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"yaml: '\$k' has no value; give it as --set k=VALUE"):
        load_sweep(write(tmp_path, PLACES), {"name": "x"})
    for pair, message in (
        ("k", "--set k: give it as NAME=VALUE"),
        ("k=[1", r"--set k=\[1: the value is no valid YAML"),
    ):
        with pytest.raises(SimulstError, match=message):
            parse_values([pair])
