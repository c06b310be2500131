"""Bad decoding configurations: files that are wrong, and what a model can't do."""

import pytest
from cases import Case, Change, Check, all_of, folder, removed, written

READ, COMMIT = "read: {type: chunk, ms: 1000}\n", "commit: {type: all}\n"
BOTH = READ + COMMIT
TYPES = "all, hold, local_agreement, shared_prefix"


def conf(text: str) -> Change:
    return written("c.yaml", text)


FILES: list[tuple[str, Change]] = [
    ("c.yaml: no such configuration file", lambda: None),
    ("c.yaml: a folder; give a configuration file", folder("c.yaml")),
    ("c.yaml: not valid YAML", conf(READ + "commit: {type: all")),
    ("c.yaml: not UTF-8 (byte 5); give a YAML file, in UTF-8", written("c.yaml", "# café".encode("latin-1"))),
    ("c.yaml: not valid YAML", conf(READ + "\tcommit: {type: all}")),
    ("c.yaml: not valid YAML", conf("a: &a [*a, *b]")),
    ("c.yaml: not valid YAML", conf("!!python/object/apply:os.system ['true']")),
    ("c.yaml: not valid YAML (the key 'commit' stands twice, line 3)", conf(BOTH + "commit: {type: hold, n: 2}")),
    ("c.yaml: not valid YAML (the key 'n' stands twice, line 2)", conf(READ + "commit: {type: hold, n: 2, n: 3}")),
    ("c.yaml: holds several documents ('---')", conf(BOTH + "---\n" + BOTH)),
    ("c.yaml: not valid YAML (found unconstructable recursive node", conf(BOTH + "stop: &s {type: any_of, of: [*s]}")),
    ("c.yaml: not valid YAML (month must be", conf(BOTH + "stop: 2020-13-45")),
    ("c.yaml: not valid YAML", conf("[" * 5000)),
    ("late; a list of them is for simulst sweep --decodings", conf("- {read: {type: offline}, commit: {type: all}}")),
    ("c.yaml: unknown key 'wait'; valid keys are read, stop, commit, search", conf(BOTH + "wait: {}")),
    ("c.yaml: unknown key '1'", conf(BOTH + "1: {}")),
    ("c.yaml: the key 'read' is missing; choose a type from chunk, block, wait_k, test_time_wait_k", conf(COMMIT)),
    (f"c.yaml: the key 'commit' is missing; choose a type from {TYPES}", conf(READ)),
    ("c.yaml: 'commit' must be a mapping with a 'type'", conf(READ + "commit: local_agreement")),
    ("c.yaml: 'commit' must be a mapping with a 'type'", conf(READ + "commit: {n: 2}")),
    ("c.yaml: 'commit' must be a mapping with a 'type'", conf(READ + "commit:")),
    ("c.yaml: there is no commit 'la'; choose from " + TYPES, conf(READ + "commit: {type: la}")),
    ("c.yaml: there is no commit '2'", conf(READ + "commit: {type: 2}")),
    ("c.yaml: there is no commit 'None'", conf(READ + "commit: {type: }")),
    ("c.yaml: there is no commit '{}'", conf(READ + "commit: {type: {}}")),
    ("c.yaml: there is no read 'chunck'", conf(COMMIT + "read: {type: chunck}")),
    ("c.yaml: there is no stop 'eos'; choose from end_of_sentence", conf(BOTH + "stop: {type: eos}")),
    ("c.yaml: there is no search 'greedy'; choose from beam", conf(BOTH + "search: {type: greedy}")),
    ("c.yaml: there is no segment 'pauses'; choose from none, pause", conf(BOTH + "segment: {type: pauses}")),
    ("the commit 'no_such_package:Class' cannot be imported", conf(READ + "commit: {type: no_such_package:Class}")),
    ("(simulst.policy.commit has no Nope)", conf(READ + "commit: {type: simulst.policy.commit:Nope}")),
    ("'majority.Majority' is written with a colon, as 'majority:M", conf(READ + "commit: {type: majority.Majority}")),
    ("there is no commit '..x'", conf(READ + "commit: {type: ..x}")),
    ("there is no commit 'all.'", conf(READ + "commit: {type: all.}")),
    ("the commit '.x:Mine' cannot be imported", conf(READ + "commit: {type: .x:Mine}")),
    ("the commit 'fake:FakeModel' is not a dataclass derived from", conf(READ + "commit: {type: fake:FakeModel}")),
    (
        "c.yaml: the commit 'broken_policy:Mine' cannot be imported (ZeroDivisionError: division by zero",
        all_of(written("broken_policy.py", "1 / 0"), conf(READ + "commit: {type: broken_policy:Mine}")),
    ),
    (
        "the commit 'unready_policy:Mine' has no 'label'; write it",
        all_of(
            written(
                "unready_policy.py",
                "from dataclasses import dataclass\nfrom simulst.policy.commit import Commit\n"
                "@dataclass(frozen=True)\nclass Mine(Commit):\n    def stable(self, beams): return ()\n",
            ),
            conf(READ + "commit: {type: unready_policy:Mine}"),
        ),
    ),
    (
        "the commit 'old_policy:Mine': the label of Mine is no text; write one with options in braces",
        all_of(
            written(
                "old_policy.py",
                "from dataclasses import dataclass\nfrom simulst.policy.commit import All\n"
                "@dataclass(frozen=True)\nclass Mine(All):\n    @property\n    def label(self): return 'mine'\n",
            ),
            conf(READ + "commit: {type: old_policy:Mine}"),
        ),
    ),
    (
        "the commit 'bare_policy:Mine' is not a dataclass derived from simulst.policy.commit.Commit",
        all_of(
            written(
                "bare_policy.py",
                "from simulst.policy.commit import All\nclass Mine(All):\n    n: int = 1\n    label = 'mine-{n}'\n",
            ),
            conf(READ + "commit: {type: bare_policy:Mine}"),
        ),
    ),
    ("'hold' has no option 'm'; it has n, whole_words", conf(READ + "commit: {type: hold, m: 2}")),
    ("'all' has no option 'n'; it has last_word", conf(READ + "commit: {type: all, n: 2}")),
    ("'hold' has no option '2'", conf(READ + "commit: {type: hold, n: 2, 2: n}")),
    ("'hold' needs the option 'n'", conf(READ + "commit: {type: hold}")),
    ("'chunk' needs the option 'ms'", conf(COMMIT + "read: {type: chunk}")),
    ("'wait_stride' needs the option 's'", conf(COMMIT + "read: {type: wait_stride, k: 100}")),
    ("'boundary' needs the option 'predictor'", conf(COMMIT + "read: {type: boundary, threshold: 0.5}")),
    ("'pause' needs the option 'seconds'", conf(BOTH + "segment: {type: pause}")),
    ("option 'n': ... integer ... 'two'", conf(READ + "commit: {type: hold, n: two}")),
    ("option 'n': ... integer ... '2'", conf(READ + "commit: {type: hold, n: '2'}")),
    ("option 'n': ... integer ... 2.0", conf(READ + "commit: {type: hold, n: 2.0}")),
    ("option 'n': ... integer ... True", conf(READ + "commit: {type: hold, n: true}")),
    ("option 'n': ... integer ... None", conf(READ + "commit: {type: hold, n: }")),
    ("option 'n': ... integer ... {}", conf(READ + "commit: {type: hold, n: {}}")),
    ("option 'n': ... integer ... inf", conf(READ + "commit: {type: hold, n: .inf}")),
    ("option 'ms': ... number ... True", conf(COMMIT + "read: {type: chunk, ms: true}")),
    ("option 'ms': ... number ... '1 s'", conf(COMMIT + "read: {type: chunk, ms: 1 s}")),
    (
        "option 'whole_words': Input should be a valid boolean; found 1",
        conf(READ + "commit: {type: all, whole_words: 1}"),
    ),
    ("option 'of': ... a list", conf(BOTH + "stop: {type: any_of, of: {type: ctc}}")),
    ("'stop' must be a mapping with a 'type'", conf(BOTH + "stop: {type: any_of, of: [3]}")),
    ("stop: any_of names no STOP", conf(BOTH + "stop: {type: any_of, of: []}")),
    ("there is no stop 'eos'", conf(BOTH + "stop: {type: any_of, of: [{type: eos}]}")),
    ("option 'layers'", conf(BOTH + "stop: {type: align_att, layers: all}")),
    ("option 'layers'", conf(BOTH + "stop: {type: align_att, layers: [1, two]}")),
    ("option 'exact': ... bool ... 'yes'", conf(BOTH + "stop: {type: ctc, threshold: 0.5, exact: 'yes'}")),
    ("option 'predictor': ... string ... 3", conf(COMMIT + "read: {type: boundary, threshold: 0.5, predictor: 3}")),
    ("commit: n is 0 ... at least 1", conf(READ + "commit: {type: hold, n: 0}")),
    ("commit: n is -3", conf(READ + "commit: {type: local_agreement, n: -3}")),
    ("read: ms is -5", conf(COMMIT + "read: {type: chunk, ms: -5}")),
    ("read: ms is nan", conf(COMMIT + "read: {type: chunk, ms: .nan}")),
    ("read: ms is inf", conf(COMMIT + "read: {type: chunk, ms: .inf}")),
    ("read: initial_wait_ms is nan", conf(COMMIT + "read: {type: chunk, ms: 5, initial_wait_ms: .nan}")),
    ("read: initial_wait_ms is -1", conf(COMMIT + "read: {type: chunk, ms: 5, initial_wait_ms: -1}")),
    ("read: k is 0", conf(COMMIT + "read: {type: test_time_wait_k, k: 0}")),
    ("read: unit_ms is nan", conf(COMMIT + "read: {type: test_time_wait_k, k: 1, unit_ms: .nan}")),
    ("read: s is 0", conf(COMMIT + "read: {type: wait_stride, k: 5, s: 0}")),
    ("read: n is 0", conf(COMMIT + "read: {type: block, n: 0}")),
    ("read: threshold is 1.5", conf(COMMIT + "read: {type: boundary, threshold: 1.5, predictor: p}")),
    ("read: threshold is nan", conf(COMMIT + "read: {type: boundary, threshold: .nan, predictor: p}")),
    ("read: frames is 50", conf(COMMIT + "read: {type: boundary, threshold: 1, predictor: p, frames: 50}")),
    ("its label 'offline-a/b' can't name a folder", conf(COMMIT + "read: {type: offline, name: a/b}")),
    ("stop: n is 0", conf(BOTH + "stop: {type: max_tokens, n: 0}")),
    ("stop: n is 0", conf(BOTH + "stop: {type: max_words, n: 0}")),
    ("stop: threshold is not a number", conf(BOTH + "stop: {type: ctc, threshold: .nan}")),
    ("stop: threshold is not a number", conf(BOTH + "stop: {type: ctc_guide, threshold: .nan, model: espnet}")),
    ("'ctc_guide' needs the option 'model'", conf(BOTH + "stop: {type: ctc_guide, threshold: 0}")),
    ("stop: frames is 0", conf(BOTH + "stop: {type: align_att, frames: 0}")),
    ("stop: W1 counts whole words; write 'whole_words: true'", conf(BOTH + "stop: {type: max_words, n: 1}")),
    (
        "stop: guide+0 may end the search within a word, which all-last would write; write 'whole_words: true' instead",
        conf(READ + "commit: {type: all, last_word: true}\nstop: {type: ctc_guide, model: x, threshold: 0}"),
    ),
    (
        "commit: whole_words ... remove one of them",
        conf(READ + "commit: {type: all, last_word: true, whole_words: true}"),
    ),
    ("search: beam is 0", conf(BOTH + "search: {type: beam, beam: 0}")),
    ("search: beam is 1000000000; give 1", conf(BOTH + "search: {type: beam, beam: 1000000000}")),
    ("search: beam is 1000000000; give 1", conf(BOTH + "search: {type: ibwbs, beam: 1000000000}")),
    ("search: length_penalty is nan", conf(BOTH + "search: {type: beam, length_penalty: .nan}")),
    ("search: no_repeat_ngram is -1", conf(BOTH + "search: {type: beam, no_repeat_ngram: -1}")),
    ("search: max_tokens_per_second is 0", conf(BOTH + "search: {type: beam, max_tokens_per_second: 0}")),
    ("search: ctc_weight is 1.5", conf(BOTH + "search: {type: joint_beam, ctc_weight: 1.5}")),
    ("search: ctc_weight is nan", conf(BOTH + "search: {type: joint_beam, ctc_weight: .nan}")),
    ("search: length_bonus is inf", conf(BOTH + "search: {type: joint_beam, length_bonus: .inf}")),
    ("search: max_length_ratio is 0", conf(BOTH + "search: {type: joint_beam, max_length_ratio: 0}")),
    ("option 'seconds': ... greater than 0", conf(BOTH + "segment: {type: pause, seconds: 0}")),
    ("option 'seconds': ... finite", conf(BOTH + "segment: {type: pause, seconds: .inf}")),
    ("option 'seconds': ... ", conf(BOTH + "segment: {type: pause, seconds: .nan}")),
]
WHOLE = [  # a sweep tries what is in a list
    ("c.yaml: a decoding configuration is a mapping with the keys read, stop", conf("")),
    ("c.yaml: a decoding configuration is a mapping", conf("- 1")),
    ("c.yaml: a decoding configuration is a mapping", conf("a string")),
    (
        "option 'ms' has several values, [1, 2]; give one, or use simulst sweep",
        conf(COMMIT + "read: {type: chunk, ms: [1, 2]}"),
    ),
    ("c.yaml: 'read' must be a mapping", conf(COMMIT + "read: [{type: offline}]")),
]
SWEEPS = [
    ("c.yaml: an empty list", conf("[]")),
    ("c.yaml: a grid must be a mapping with the keys read, stop ... found None", conf("")),
    ("c.yaml: a grid must be a mapping ... found 5", conf("- 5")),
    ("c.yaml: a grid must be a mapping ... found 'x'", conf("x")),
    ("c.yaml: 'read' is an empty list", conf(COMMIT + "read: []")),
    (
        "c.yaml: two configurations are called 'all_5ms'",
        conf(COMMIT + "read: [{type: chunk, ms: 5}, {type: chunk, ms: 5.0}]"),
    ),
    ("c.yaml: two configurations are called 'all_5ms'", conf(COMMIT + "read: {type: chunk, ms: [5, 5]}")),
    ("there is no read 'chunck'", conf(COMMIT + "read: [{type: chunk, ms: 5}, {type: chunck, ms: 6}]")),
    ("c.yaml: unknown key 'steps'", conf(BOTH + "steps: [{type: all}]")),
    ("c.yaml: 'read', option 'ms' is an empty list", conf(COMMIT + "read: {type: chunk, ms: []}")),
    ("option 'ms' has several values, [1]", conf(COMMIT + "read: {type: chunk, ms: [[1], 2]}")),
]
FAKE = "--model fake:FakeModel --source-lang es --target-lang en"
TRANSLATE = f"simulst translate data/u0.wav {FAKE} --decoding c.yaml"
EVALUATE = f"simulst evaluate --data data {FAKE} --out out --decoding c.yaml"
SWEEP = f"simulst sweep --data data {FAKE} --out out --decodings c.yaml"
CONFIGURATIONS = [
    *(Case(TRANSLATE, words, broken) for words, broken in [*FILES, *WHOLE]),
    *(Case(EVALUATE, words, broken) for words, broken in [*FILES[::8], *WHOLE[::2]]),
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
        (
            COMMIT + "read: {type: block}",
            "read: block needs ... which this model does not have; write 'read: {type: chunk",
        ),
        (BOTH + "stop: {type: ctc, threshold: 0}", "stop: ctc needs"),
        (BOTH + "stop: {type: align_att, frames: 4, layers: [0]}", "chooses the heads ... leave 'layers' out"),
        (BOTH + "search: {type: joint_beam}", "search: joint_beam needs ... write 'search: {type: beam}'"),
        (BOTH + "search: {type: bwbs}", "search: bwbs needs"),
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
        (BOTH + "stop: {type: align_att, frames: 4, layers: [-3]}", "layers ... -3"),
        (BOTH + "stop: {type: align_att, frames: 4, heads: [7]}", "heads ... 7"),
        (BOUNDARY.replace("frames: 8", "frames: 400"), "learnt boundaries in pieces of 8 frames"),
        (BOUNDARY.replace("predictor.pth", "no.pth"), "predictor/no.pth: no such file"),
    ),
    *can(
        OFFLINE,
        (COMMIT + "read: {type: block}", "read: block needs"),
        (WHOLE_WORDS + GUIDED + "no_model}", "no_model: no such model"),
        (WHOLE_WORDS + GUIDED + "whisper}", "whisper: this kind of model has no CTC layer; give an ESPnet model"),
        (WHOLE_WORDS + GUIDED + "predictor}", "predictor: "),
    ),
    # The guide writes German.
    *can(WHISPER, (WHOLE_WORDS + GUIDED + "espnet}", "stop: the guide espnet")),
    Case(
        "simulst sweep --data data --model espnet --source-lang en --target-lang de --out out --decodings c.yaml",
        "layers ... 99",
        conf(READ + COMMIT + "stop: [{type: end_of_sentence}, {type: align_att, frames: 4, layers: [99]}]"),
    ),
    *(
        Case(
            f"{EVALUATE.replace(FAKE, '--model ' + ESPNET)}",
            f"p.pth: {words}",
            all_of(broken, conf(BOUNDARY.replace("predictor/predictor.pth", "p.pth"))),
        )
        for words, broken in (
            ("no such file", lambda: None),
            ("not a readable checkpoint", written("p.pth", "")),
            ("not a readable checkpoint", written("p.pth", bytes(100))),
            ("not a boundary predictor", lambda: __import__("torch").save({"a": 1}, "p.pth")),
            (
                "not a boundary predictor",
                lambda: __import__("torch").save({"format": "simulst boundary predictor"}, "p.pth"),
            ),
        )
    ),
]


@pytest.mark.parametrize("case", [*CONFIGURATIONS, *NEEDS], ids=str)
def test_configurations(case: Case, check: Check) -> None:
    check(case)
