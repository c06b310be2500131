"""Bad models: folders, weights, options, classes of one's own, language pairs."""

import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
import yaml
from cases import Case, Change, Check, own, removed, replaced, table, written

AUDIO = "simulst translate data/u0.wav --decoding la2.yaml"
LANGUAGES = "--source-lang es --target-lang en"


def own_model(name: str, arguments: str, init: str) -> Change:
    """A model of one's own that is none."""
    lines = ["sample_rate = 16000", f"def __init__({arguments}): {init}", "def session(self, opening): return 3"]
    return written(f"{name}.py", "\n    ".join(["class Model:", *lines]) + "\n")


FAKE = table(
    f"{AUDIO} {LANGUAGES}",
    ("--model la2.yaml", "la2.yaml: a file, not a model folder"),
    ("--model fake:FakeModel --model-option size=3", "fake:FakeModel: got an unexpected keyword argument 'size'"),
    ("--model fake:FakeModel --model-option seed", "--model-option seed: give it as NAME=VALUE"),
    ("--model fake:FakeModel --model-option 'seed=[1, 2]'", "the value must be a number, a word"),
    ("--model fake:FakeModel --model-option token_ms=x", "fake:FakeModel: the model cannot be made with these options"),
    (
        "--model own3:Model",
        "the model cannot be made ... no weights",
        own_model("own3", "self", "raise OSError('no weights')"),
    ),
    ("--model own4:Model", "int is not a session; derive the class from", own_model("own4", "self", "pass")),
    ("--model own6:Model", "'path'; the model has path, n (", own_model("own6", "self, path, n=2", "pass")),
)
ARGUMENTS = [
    *table(
        AUDIO,
        ("--model fake:FakeModel --source-lang es --target-lang xx", "'xx' is not the code of a language"),
        ("--model whisper --source-lang de --target-lang en", "whisper: the model has no language 'de'; it has en, es"),
        ("--model whisper --source-lang es --target-lang ja", "Whisper writes the source language or English, not"),
    )
]


def config(name: str, **changes: Any) -> Change:
    """ESPnet's configuration with other values; None: without the key."""

    def change() -> None:
        path = own(f"{name}/config.yaml")
        values = yaml.safe_load(path.read_text()) | changes
        path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value is not None}))

    return change


def weights(change: Callable[[dict[str, Any]], Any]) -> Change:
    def changed() -> None:
        path = own("espnet/valid.acc.ave.pth")
        content = torch.load(path)
        torch.save(change(content) or content, path)

    return changed


def zipped(**files: str) -> Change:
    def change() -> None:
        with zipfile.ZipFile("model.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(name.replace("_", "."), content)

    return change


PTH = "espnet/valid.acc.ave.pth"
ESPNET = table(
    f"{AUDIO} --model espnet --source-lang en --target-lang de",
    ("", "espnet: not a model that simulst knows", removed("espnet/config.yaml")),
    ("", "espnet: its configuration is not valid YAML", written("espnet/config.yaml", "a: [1\ntoken_list: x\n")),
    ("", "espnet: its configuration: token_list: Field required", written("espnet/config.yaml", "a: '\ntoken_list: '")),
    ("", "espnet: no weights (such as valid.acc.ave.pth)", removed(PTH)),
    ("--model-option checkpoint=no.pth", "espnet: the file no.pth is missing"),
    ("--model-option checkpoint=3", "option 'checkpoint': ... string ... 3"),
    ("--model-option checkpoint=tokens.txt", "espnet: tokens.txt cannot be read"),
    ("", f"espnet: {PTH.split('/')[1]} cannot be read", written(PTH, "")),
    ("", "valid.acc.ave.pth holds more than weights", weights(lambda w: {"model": w, "epoch": 3})),
    ("", "the weights lack", weights(lambda w: {1: torch.zeros(2)})),
    ("", "espnet: the file tokens.txt is missing", removed("espnet/tokens.txt")),
    ("", "do not fit", written("espnet/tokens.txt", "<blank>\n<unk>\n<sos/eos>\n")),
    ("", "espnet/tokens.txt, line 1: not UTF-8", written("espnet/tokens.txt", b"\xff\xfe")),
    ("", "espnet: the file bpe.model is missing", removed("espnet/bpe.model")),
    ("", "espnet: bpe.model is not a SentencePiece model", written("espnet/bpe.model", "no model")),
    ("", "bpe.model is not the SentencePiece model of these tokens", replaced("espnet/tokens.txt", "▁", "X")),
    ("", "token_type: 'phn' is not implemented", config("espnet", token_type="phn")),
    ("", "config.yaml names no bpemodel", config("espnet", bpemodel=None)),
    ("", "espnet: ", config("espnet", token_list=[])),
    ("", "espnet: its configuration: encoder: Input should be a valid string", config("espnet", encoder=["x"])),
    ("", "the weights and config.yaml do not fit", config("espnet", encoder_conf={"sizes": 3})),
    ("", "espnet: ", config("espnet", model_conf=[1])),
    ("", "frontend: the model was trained on audio of 8000 Hz", config("espnet", frontend_conf={"fs": "8k"})),
    ("", "espnet: ", config("espnet", frontend_conf={"fs": "fast"})),
    ("", "espnet: ", config("espnet", train_data_path_and_name_and_type=3)),
    ("--model-option threads=-1", "espnet: the model, option 'threads': ... greater than or equal to 0; found -1"),
    ("--model-option window=.nan", "option 'window': ... finite number"),
    ("--model-option window=2", "window: 2 s is too short"),
    ("--model-option precision=int4", "option 'precision': ... 'float32'"),
    ("--model-option device=abc", "this machine has no device 'abc'"),
    ("--model-option beam=3", "the model has no option 'beam'; it has device, threads, checkpoint"),
    ("--model model.zip", "model.zip: not a zip that ESPnet packed", written("model.zip", "PK")),
    ("--model model.zip", "model.zip: ", zipped(meta_yaml="[1]")),
)
WINDOW = [
    Case(
        f"{AUDIO} --model offline --source-lang en --target-lang de --model-option window=9",
        "only blockwise encoders have a window",
    )
]
WHISPER = table(
    f"{AUDIO} --model whisper {LANGUAGES}",
    ("", "whisper: not a model that simulst knows", removed("whisper/model.bin")),
    ("", "whisper: the file tokenizer.json is missing", removed("whisper/tokenizer.json")),
    ("", "whisper: the file config.json is missing", removed("whisper/config.json")),
    ("", "whisper: its vocabulary and tokenizer.json do not fit", written("whisper/vocabulary.json", "[]")),
    ("", "whisper/vocabulary.json: another kind of file; fetch", written("whisper/vocabulary.json", "{}")),
    ("", "whisper/config.json: not valid JSON", written("whisper/config.json", "{")),
    ("", "whisper/config.json: lang_ids: Field required; fetch", written("whisper/config.json", '{"a": 1}')),
    ("", "whisper: tokenizer.json is broken", written("whisper/tokenizer.json", "{}")),
    ("", "no token <|startofprev|>", replaced("whisper/tokenizer.json", "<|startofprev|>", "<|start|>")),
    ("", "whisper: CTranslate2 cannot load the model", written("whisper/model.bin", "")),
    ("--model-option threads=-1", "whisper: the model, option 'threads': ... greater than or equal to 0"),
    ("--model-option padding_seconds=.nan", "option 'padding_seconds': ... found nan"),
    ("--model-option silence_seconds=1e9", "option 'silence_seconds': ... found"),
    ("--model-option compute_type=int3", "Invalid compute type: int3); on cpu, compute_type may be auto, default, "),
    ("--model-option device=cuda", "whisper: CTranslate2 cannot load the model"),
)


@pytest.mark.parametrize("case", [*FAKE, *ARGUMENTS, *ESPNET, *WINDOW, *WHISPER], ids=str)
def test_models(case: Case, check: Check) -> None:
    check(case)
