"""Good inputs: data, tiny models, configurations, a run. A case breaks one of them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path

import numpy as np
import soundfile
import sounds
import tiny_espnet
import tiny_huggingface
import tiny_whisper
import yaml
from cases import run

from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes

SHARED = ("whisper", "espnet", "offline", "predictor", "speech", "llm", "marian")
"""What no command changes, and is large."""
RATE = 16000
TEXTS = {"en": ("the cat sat on", "unbelievable cats", "the cats"), "de": ("der Hund", "die Katze", "der Garten")}


def write(folder: Path) -> None:
    """Fill a folder."""
    noise = np.random.default_rng(0)
    data = folder / "data"
    audio = {f"u{i}": noise.uniform(-0.3, 0.3, RATE + 4000 * i) for i in range(3)}
    texts = {language: dict(zip(audio, lines, strict=True)) for language, lines in TEXTS.items()}
    sounds.write(data, audio, texts | {"lc.rm.en": texts["en"]})
    (data / "segments").write_text("".join(f"u{i} u{i} 0.0 1.0\n" for i in range(3)))
    (data / "utt2spk").write_text("".join(f"u{i} u{i}\n" for i in range(3)))
    (folder / "la2.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: local_agreement}\n")
    (folder / "sweep.yaml").write_text("read: {type: chunk, ms: [500, 800]}\ncommit: {type: local_agreement}\n")
    (folder / "README.md").write_text("# Results\n")
    tiny_whisper.write(folder / "whisper", eos=6)
    espnet(folder / "espnet", "contextual_block_transformer")
    espnet(folder / "offline", "transformer")
    tiny_huggingface.write(folder / "speech", "mbart")
    tiny_huggingface.write_language_model(folder / "llm")
    tiny_huggingface.write_text_model(folder / "marian", "marian")
    (folder / "predictor").mkdir()
    BoundaryPredictor(8, Sizes(8, 2, 4, 4)).save(folder / "predictor/predictor.pth")
    lines = [{"utterance": f"u{i}", "tau": 8, "frames": 100, "offline": "der Hund"} for i in range(3)]
    pairs = [{"frames": 40, "text": "der"}, {"frames": 80, "text": "der Hund"}]
    (folder / "prefixes.jsonl").write_text("".join(json.dumps({**line, "pairs": pairs}) + "\n" for line in lines))
    must_c(folder / "corpus")
    iwslt(folder / "iwslt")
    rows = [f"u{i}.wav\t{en}\t{de}" for i, (en, de) in enumerate(zip(TEXTS["en"], TEXTS["de"], strict=True))]
    (folder / "table.tsv").write_text("path\tsentence\ttranslation\n" + "\n".join(rows) + "\n")
    command = "simulst evaluate --data data --model fake:FakeModel --source-lang es --target-lang en --out run"
    with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        assert run(f"{command} --decoding la2.yaml") == 0


def must_c(root: Path) -> None:
    """Two splits in MuST-C's layout."""
    for split in ("train", "dev"):
        place = root / "en-de/data" / split
        (place / "wav").mkdir(parents=True)
        (place / "txt").mkdir()
        noise = np.random.default_rng(len(split)).uniform(-0.3, 0.3, 3 * RATE)  # splits differ
        soundfile.write(place / f"wav/{split}.wav", noise, RATE, subtype="PCM_16")
        rows = [f"- {{duration: 0.9, offset: {i}.0, speaker_id: spk.1, wav: {split}.wav}}\n" for i in range(3)]
        (place / f"txt/{split}.yaml").write_text("".join(rows))
        for language, texts in TEXTS.items():
            (place / f"txt/{split}.{language}").write_text("".join(f"{text}\n" for text in texts))


def iwslt(root: Path) -> None:
    """Two recordings in the layout of IWSLT's simultaneous track."""
    audio = {name: np.random.default_rng(ord(name)).uniform(-0.3, 0.3, 3 * RATE) for name in ("b", "a")}
    sounds.write_iwslt(root, audio, [("b", 0.0, 1.0), ("b", 1.5, 1.0), ("a", 0.5, 2.0)], TEXTS)
    (root / "context.tsv").write_text("recording\ttext\na\tA.\nb\tB.\n")


def espnet(folder: Path, encoder: str) -> None:
    """A speech translation experiment with random weights, whose tokens lie beside them."""
    made = folder.with_name("made")
    tiny_espnet.write(made, encoder)
    for name in ("tokens.txt", "bpe.model"):
        (made / "data" / name).rename(made / "exp/st" / name)
    (made / "exp/st/valid.acc.ave_3best.pth").replace(made / "exp/st/valid.acc.ave.pth")
    (made / "exp/st/3epoch.pth").unlink()
    (made / "exp/st").rename(folder)
    shutil.rmtree(made)
    config = yaml.safe_load((folder / "config.yaml").read_text()) | {
        "bpemodel": "bpe.model",
        "token_list": "tokens.txt",
    }
    config["train_data_path_and_name_and_type"] = [["dump/text.tc.de", "text", "text"]]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
