"""Bad decoding configurations: files that are wrong, and what a model can't do."""

import pytest
from cases import Case, Change, Check, all_of, folder, removed, written

READ, COMMIT = "read: {type: chunk, ms: 1000}\n", "commit: {type: all}\n"
BOTH = READ + COMMIT


def conf(text: str) -> Change:
    return written("c.yaml", text)


def policy(name: str, base: str, line: str) -> Change:
    """A COMMIT of one's own, and a configuration with it."""
    lines = ["from dataclasses import dataclass", "from simulst.policy.commit import All, Commit"]
    lines += ["@dataclass(frozen=True)", f"class Mine({base}):", f"    {line}", ""]
    return all_of(written(f"{name}.py", "\n".join(lines)), conf(READ + f"commit: {{type: {name}:Mine}}"))


FILES: list[tuple[str, Change]] = [
    ("c.yaml: no such configuration file", lambda: None),
    ("c.yaml: cannot be read (Is a directory); give a configuration file", folder("c.yaml")),
    ("c.yaml, line 1: not UTF-8; give a configuration file", written("c.yaml", "# café".encode("latin-1"))),
    ("c.yaml: not valid YAML", conf("!!python/object/apply:os.system ['true']")),
    ("c.yaml: not valid YAML (found unconstructable recursive node", conf(BOTH + "stop: &s {type: any_of, of: [*s]}")),
    ("c.yaml: not valid YAML", conf("[" * 500)),
    ("late; a list of them is for simulst sweep --decodings", conf("- {read: {type: offline}, commit: {type: all}}")),
    ("'unready:Mine' has no 'label'; write it", policy("unready", "Commit", "def stable(self, beams): return ()")),
    ("'old:Mine': the label of Mine is no text", policy("old", "All", "label = property(lambda self: 'mine')")),
    ("option 'layers'", conf(BOTH + "stop: {type: align_att, layers: [1, two]}")),
    ("option 'predictor': ... string ... 3", conf(COMMIT + "read: {type: boundary, threshold: 0.5, predictor: 3}")),
    (
        "stop: guide+0 may end the search within a word, which all-last would write; write 'whole_words: true' instead",
        conf(READ + "commit: {type: all, last_word: true}\nstop: {type: ctc_guide, model: x, threshold: 0}"),
    ),
]
SWEEPS = [
    ("c.yaml: a grid must be a mapping ... found 'x'", conf("x")),
    ("c.yaml: 'read', option 'ms' is an empty list", conf(COMMIT + "read: {type: chunk, ms: []}")),
    ("option 'ms' has several values, [1]", conf(COMMIT + "read: {type: chunk, ms: [[1], 2]}")),
]
FAKE = "--model fake:FakeModel --source-lang es --target-lang en"
TRANSLATE = f"simulst translate data/u0.wav {FAKE} --decoding c.yaml"
EVALUATE = f"simulst evaluate --data data {FAKE} --out out --decoding c.yaml"
SWEEP = f"simulst sweep --data data {FAKE} --out out --decodings c.yaml"
CONFIGURATIONS = [
    *(Case(TRANSLATE, words, broken) for words, broken in FILES),
    *(Case(EVALUATE, words, broken) for words, broken in FILES[::8]),
    *(Case(SWEEP, words, broken) for words, broken in [*FILES[::5], *SWEEPS]),
]


def can(model: str, *rows: tuple[str, str]) -> list[Case]:
    """What a model can't do is told before any audio is decoded. A row: the rest of a configuration, and words."""
    case = f"simulst evaluate --data data --model {model} --out out --decoding c.yaml"
    return [Case(case, words, all_of(conf(text), removed("data/u0.wav"))) for text, words in rows]


WHISPER = "whisper --source-lang es --target-lang en --model-option compute_type=float32"
ESPNET = "espnet --source-lang en --target-lang de"
OFFLINE = "offline --source-lang en --target-lang de"
BOUNDARY = COMMIT + "read: {type: boundary, threshold: 0.5, predictor: predictor/predictor.pth, frames: 8}\n"
WHOLE_WORDS = READ + "commit: {type: all, whole_words: true}\n"
GUIDED = "stop: {type: ctc_guide, threshold: 0, model: "
NEEDS = [
    *can(
        WHISPER,
        (COMMIT + "read: {type: block}", "read: block needs ... which this model does not have; write 'read: {type:"),
        (BOTH + "stop: {type: ctc, threshold: 0}", "stop: ctc needs"),
        (BOTH + "stop: {type: align_att, frames: 4, layers: [0]}", "chooses the heads ... leave 'layers' out"),
        (BOTH + "search: {type: ibwbs}", "search: ibwbs needs"),
        (
            BOTH + "stop: {type: any_of, of: [{type: max_tokens, n: 2}, {type: ctc, threshold: 0}]}",
            "stop: any_of needs",
        ),
    ),
    *can(
        ESPNET,
        (BOTH + "search: {type: beam}", "search: beam needs ... write 'search: {type: joint_beam}'"),
        (BOTH + "stop: {type: align_att, frames: 4, layers: [99]}", "layers ... 99"),
        (BOTH + "stop: {type: align_att, frames: 4, heads: [7]}", "heads ... 7"),
        (BOUNDARY.replace("frames: 8", "frames: 400"), "learnt boundaries in pieces of 8 frames"),
        (BOUNDARY.replace("predictor.pth", "no.pth"), "predictor/no.pth: no such file"),
    ),
    *can(
        OFFLINE,
        (COMMIT + "read: {type: block}", "read: block needs"),
        (WHOLE_WORDS + GUIDED + "no_model}", "no_model: no such model"),
    ),
    Case(
        "simulst sweep --data data --model espnet --source-lang en --target-lang de --out out --decodings c.yaml",
        "layers ... 99",
        conf(READ + COMMIT + "stop: [{type: end_of_sentence}, {type: align_att, frames: 4, layers: [99]}]"),
    ),
]


@pytest.mark.parametrize("case", [*CONFIGURATIONS, *NEEDS], ids=str)
def test_configurations(case: Case, check: Check) -> None:
    check(case)
