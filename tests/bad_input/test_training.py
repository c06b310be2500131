"""Bad input of the commands that train: audio archives, tokens, ESPnet, averaging; prefix pairs, the predictor."""

import json

import pytest
import torch
from cases import Case, Change, Check, all_of, audio, removed, replaced, table, written

DUMP = table(
    "local/prepare_data.py dump --data data --out dump --texts 'en lc.rm.en'",
    ("--texts fr", "data: no text in language 'fr'; it has de, en"),
    ("--speeds nan", "'--speeds': 'nan': give numbers above 0", lambda: None, 2),
    ("--speeds '1.0 0.9 1'", "a factor is there twice; remove one of them"),
    ("", "data/utt2spk: no such file", removed("data/utt2spk")),
    ("", "data/utt2spk: has no line for 'u1'", replaced("data/utt2spk", "u1 u1\n", "")),
    ("", "data/text.lc.rm.en: has no line for 'u2'", replaced("data/text.lc.rm.en", "u2", "u3")),
    ("", "dump: is there already, without made_of.json; name another", written("dump/x", "")),
    ("--force", "dump: is there already, without made_of.json; name another", written("dump/x", "")),
    ("", "dump: was begun with texts ['de'], not ['en',", written("dump/made_of.json", '{"texts": ["de"]}')),
    ("", "dump/made_of.json: damaged; use --force", written("dump/made_of.json", "[]")),
)
TOKENS = table(
    "simulst train tokens data/text.en --out tokens --size 20",
    ("--size 3", "data/text.en: 3 unigram pieces are too few"),
    ("--size 100000", "data/text.en: the text does not support 100000 unigram pieces"),
    ("--symbol ''", "data/text.en: SentencePiece failed"),
    ("", "data/text.en: no such file", removed("data/text.en")),
    ("", "data/text.en: no text to learn tokens from", written("data/text.en", "u0\nu1\n")),
    ("", "data/text.en, line 1: not UTF-8", written("data/text.en", b"u0 \xff")),
    ("", "tokens: is there already, without made_of.json", written("tokens/x", "")),
)
TRAIN = "--config conf.yaml --train dump --valid dump --text tc.de --tokens tokens --out exp"
ESPNET = [
    *table(
        f"simulst train espnet {TRAIN}",
        ("--stats stats", "conf.yaml: no such training configuration"),
        ("--stats stats --encoder no.pth", "no.pth: no such weights to begin with; do the ASR pre-training first"),
        ("--stats stats --model no.pth", "no.pth: no such weights to begin with; train that model first"),
        (
            "--stats stats --wait-k 3",
            "the encoder 'contextual_block_conformer'",
            written("conf.yaml", "{encoder: contextual_block_conformer, decoder: transformer}"),
        ),
        ("--stats stats --num-nodes 2 --hosts a,b", "--num-nodes and --hosts: give one", written("conf.yaml", "a: 1")),
        ("--stats stats", "conf.yaml, line 1: not UTF-8", written("conf.yaml", b"\xff\xfe")),
        ("--stats stats", "conf.yaml: not valid YAML (the key 'a' stands twice", written("conf.yaml", "a: 1\na: 2\n")),
        ("--stats stats", "conf.yaml: not a mapping of options", written("conf.yaml", "- 1\n")),
        ("--stats stats", "json: damaged", all_of(written("conf.yaml", "a: 1"), written("exp/simulst.json", "{"))),
    ),
    Case(f"simulst train stats {TRAIN} --writes 2", "belong to --wait-k"),
]
EPOCH = written("espnet/simulst.log", "1epoch results: [valid] acc=0.5")
AVERAGE = table(
    "simulst train average espnet --data data --text de --target-lang de",
    ("", "espnet/simulst.log: no such file; train the model first"),
    ("", "espnet: no checkpoint of a finished epoch", written("espnet/simulst.log", "")),
    ("", "1epoch.pth: not a readable checkpoint", all_of(EPOCH, written("espnet/1epoch.pth", "x"))),
    ("", "1epoch.pth: not a readable checkpoint", all_of(EPOCH, lambda: torch.save([1], "espnet/1epoch.pth"))),
    ("--data data", "--data, --text, --target-lang: give them equally often"),
)


def prefixes(text: str) -> Change:
    return written("prefixes.jsonl", text)


GOOD = {"utterance": "u0", "tau": 8, "frames": 100, "offline": "der Hund", "pairs": [{"frames": 40, "text": "der"}]}


def line(**changes: object) -> Change:
    return prefixes(json.dumps(GOOD | changes) + "\n")


BROKEN: list[tuple[str, Change]] = [
    ("prefixes.jsonl: no such file", removed("prefixes.jsonl")),
    ("prefixes.jsonl, line 1: not a line of prefix extraction", prefixes("{\n")),
    ("prefixes.jsonl: 'u9' is not in data", line(utterance="u9")),
]
PAIRS = table(
    "simulst prefix pairs --data data --prefixes prefixes.jsonl --target-lang de --out pairs",
    ("--max-ratio 1", "no pair is left of 6; raise --max-ratio"),
    ("", "prefixes.jsonl: has no pairs", line(pairs=[])),
    ("", "pairs: is there already", written("pairs/x", "")),
    *(("", words, change) for words, change in BROKEN),
)
PREDICTOR = table(
    "simulst prefix predictor --data data --prefixes prefixes.jsonl --valid-data data --valid-prefixes prefixes.jsonl "
    "--out p",
    ("--mels 0", "boundary predictor: mels is 0"),
    ("", "'u0' has 100 frames, fewer than in its extraction", line(frames=500, pairs=[{"frames": 480, "text": "der"}])),
    ("", "tau", line(tau=10)),
    ("--valid-prefixes la2.yaml", "la2.yaml, line 1: not a line of prefix extraction"),
    ("", "p: holds last.pth, but no simulst.json;", written("p/last.pth", "")),
    ("", "p/simulst.json: damaged", written("p/simulst.json", "[]")),
    ("", "p: was begun with", written("p/simulst.json", "{}")),
    *(("", words, change) for words, change in BROKEN),
)
EXTRACT = table(
    "simulst prefix extract --data data --model offline --source-lang en --target-lang de --out pairs",
    ("--beam 1000000000", "option 'beam': Input should be less than or equal to 1000; found 1000000000"),
    ("--model whisper --source-lang es --target-lang en", "whisper: prefix pairs are extracted with an ESPnet model"),
    ("--model fake:FakeModel --source-lang es --target-lang en", "fake:FakeModel: prefix pairs are extracted with"),
    ("--target-lang en", "offline: the model was trained to write 'de', not 'en'"),
    ("", "1 of 1 shards failed ... u9.wav: no such audio file", replaced("data/wav.scp", "u1.wav", "u9.wav")),
    ("", "pairs: was begun with model", written("pairs/extraction.json", '{"model": "x"}')),
    ("", "pairs/extraction.json: damaged", written("pairs/extraction.json", "3")),
)
SIMULEVAL = (
    "simuleval --no-progress-bar --agent-class simulst.serve.simuleval.StreamAgent --model fake:FakeModel "
    "--source-lang es --decoding la2.yaml --source source.txt --target target.txt --output out "
    "--source-segment-size 100"
)
STEREO = all_of(
    written("source.txt", "s.wav\n"), written("target.txt", "the cat\n"), audio("s.wav", [[0.1, 0.1]] * 16000)
)
AGENT = table(
    SIMULEVAL,
    ("--target-lang zh", "--eval-latency-unit is 'word', but the agent writes chars for 'zh'"),
    ("--target-lang en --unit char", "give --eval-latency-unit char"),
    ("--target-lang en --eval-latency-unit char", "give --eval-latency-unit word"),
    ("--target-lang xx", "'xx' is not the code of a language"),
    ("--target-lang en --source-lang de", "the fake has no language 'de'"),
    ("--target-lang en --device cuda", "got an unexpected keyword argument 'device'; the model has"),
    ("--target-lang en --decoding no.yaml", "no.yaml: no such configuration file"),
    ("--target-lang en", "the source has 2 channels and SimulEval does not mix them", STEREO),
)


@pytest.mark.parametrize("case", [*DUMP, *TOKENS, *ESPNET, *AVERAGE, *PAIRS, *PREDICTOR, *EXTRACT, *AGENT], ids=str)
def test_training(case: Case, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    check(case)
