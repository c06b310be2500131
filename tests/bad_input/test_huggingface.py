"""Bad Hugging Face models, cascades and translators. What was written before an error stays."""

import json
from pathlib import Path

import huggingface_hub
import pytest
import soundfile
import speaker
from cases import Case, Change, Check, all_of, cut, own, removed, run, table, written

AUDIO = "simulst translate data/u0.wav --decoding la2.yaml --source-lang en --target-lang de"
SAY = "The cat sat. Then the dog came."


def setting(name: str, **values: object) -> Change:
    """A file of JSON with other values."""

    def change() -> None:
        path = own(name)
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


SPEECH = table(
    f"{AUDIO} --model speech",
    ("", "speech: not a model that simulst knows", removed("speech/config.json")),
    ("", "speech: config.json cannot be read", setting("speech/config.json", model_type="unheard_of")),
    ("", "speech: a model of type 'wav2vec2' does not turn", setting("speech/config.json", model_type="wav2vec2")),
    ("", "speech: has no weights (model.safetensors)", removed("speech/model.safetensors")),
    ("", "speech: the weights cannot be read", cut("speech/model.safetensors", 1000)),
    ("", "speech: preprocessor_config.json cannot be read", removed("speech/preprocessor_config.json")),
    ("", "speech: ... tokeniser", removed("speech/tokenizer.json", "speech/tokenizer_config.json")),
    ("--model-option dtype=int4", "option 'dtype': ... 'float32'"),
    ("--model owner/name", "owner/name: no such folder, and the Hugging Face hub did ... the network"),
)


def cascade(**translator: object) -> Change:
    return lambda: speaker.write(Path(), dict(translator), SAY) and None


IBWBS = written("la2.yaml", "read: {type: chunk, ms: 500}\ncommit: {type: all}\nsearch: {type: ibwbs}")
NOT_INCREMENTAL = (
    "search: ibwbs needs a search that goes on from one block of speech ... write 'search: {type: joint_beam}'"
)
CASCADES = table(
    f"{AUDIO} --model cascade.yaml",
    ("", "gone: no such folder", cascade(type="huggingface", model="gone")),
    ("", NOT_INCREMENTAL, all_of(IBWBS, cascade(type="huggingface", model="marian"))),
)  # fmt: skip


@pytest.mark.parametrize("case", [*SPEECH, *CASCADES], ids=str)
def test_huggingface(case: Case, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*args: object, **options: object) -> str:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    check(case)


FAILING = 'read line; case "$line" in *dog*) echo no dogs >&2; exit 1;; esac; echo "$line"'


def test_words_so_far_were_printed(scene: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Before a cascade failed, which it does once the dog comes."""
    written("translate.sh", FAILING)()
    cascade(type="program:Program", command="sh translate.sh")()
    soundfile.write("u1.wav", speaker.audio(SAY), 16000)
    written("hold.yaml", "read: {type: chunk, ms: 200}\ncommit: {type: hold, n: 1}\n")()
    options = "--decoding hold.yaml --source-lang en --target-lang es --model cascade.yaml"
    assert run(f"simulst translate u1.wav {options}") == 1
    out, err = capfd.readouterr()
    assert "The" in out and "cat" in out and "dog" not in out, err
    assert err.strip().endswith("'sh translate.sh' failed with status 1 (no dogs); try it in a shell.")
