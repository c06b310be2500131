"""Good inputs: data, tiny models, configurations, a run. A case breaks one of them."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from pathlib import Path

import numpy as np
import soundfile
import tiny_huggingface
import tiny_pieces
import tiny_whisper
import torch
import yaml
from cases import run

from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes

SHARED = ("whisper", "espnet", "offline", "predictor", "speech", "llm", "marian")
"""What no command changes, and is large."""
RATE = 16000
WIDTH, MELS = 16, 20
TEXTS = {"en": ("the cat sat on", "unbelievable cats", "the cats"), "de": ("der Hund", "die Katze", "der Garten")}


def write(folder: Path) -> None:
    """Fill a folder."""
    noise = np.random.default_rng(0)
    data = folder / "data"
    data.mkdir()
    for i in range(3):
        soundfile.write(data / f"u{i}.wav", noise.uniform(-0.3, 0.3, RATE + 4000 * i), RATE, subtype="PCM_16")
    (data / "wav.scp").write_text("".join(f"u{i} u{i}.wav\n" for i in range(3)))
    (data / "segments").write_text("".join(f"u{i} u{i} 0.0 1.0\n" for i in range(3)))
    (data / "utt2spk").write_text("".join(f"u{i} u{i}\n" for i in range(3)))
    for language, texts in TEXTS.items():
        (data / f"text.{language}").write_text("".join(f"u{i} {text}\n" for i, text in enumerate(texts)))
    (data / "text.lc.rm.en").write_text("".join(f"u{i} {text}\n" for i, text in enumerate(TEXTS["en"])))
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
    (root / "audio").mkdir(parents=True)
    noise = np.random.default_rng(7)
    for name in ("b", "a"):
        soundfile.write(root / f"audio/{name}.wav", noise.uniform(-0.3, 0.3, 3 * RATE), RATE, subtype="PCM_16")
    rows = [("b", 0.0, 1.0), ("b", 1.5, 1.0), ("a", 0.5, 2.0)]
    lines = (f"- {{wav: {name}.wav, offset: {offset}, duration: {seconds}}}\n" for name, offset, seconds in rows)
    (root / "audio-segments.yaml").write_text("".join(lines))
    for language, texts in TEXTS.items():
        (root / f"{language}.txt").write_text("".join(f"{text}\n" for text in texts))
    (root / "context.tsv").write_text("recording\ttext\na\tA.\nb\tB.\n")


def espnet(folder: Path, encoder: str) -> None:
    """A speech translation experiment with random weights, without ESPnet's tasks, which take long to import."""
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
    from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder
    from espnet2.asr.encoder.transformer_encoder import TransformerEncoder

    folder.mkdir()
    pieces = tiny_pieces.train(folder)
    tokens = ["<blank>", "<unk>", *(pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())), "<sos/eos>"]
    (folder / "tokens.txt").write_text("\n".join(tokens) + "\n")
    sizes = {"output_size": WIDTH, "attention_heads": 2, "linear_units": 24, "num_blocks": 1}
    blocks = {"block_size": 40, "hop_size": 16, "look_ahead": 16}
    encoder_conf = {**sizes, **(blocks if encoder.startswith("contextual") else {})}
    decoder_conf = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}
    classes = {"contextual_block_transformer": ContextualBlockTransformerEncoder, "transformer": TransformerEncoder}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = {
            "encoder": classes[encoder](input_size=MELS, **encoder_conf),
            "decoder": TransformerDecoder(len(tokens), WIDTH, **decoder_conf),
            "st_ctc.ctc_lo": torch.nn.Linear(WIDTH, len(tokens)),
        }
    weights = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
    weights |= {"frontend.logmel.melmat": torch.rand(257, MELS), "normalize.mean": torch.zeros(MELS)}
    torch.save(weights | {"normalize.std": torch.ones(MELS)}, folder / "valid.acc.ave.pth")
    config = {
        "frontend": "default",
        "frontend_conf": {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": MELS},
        "normalize": "global_mvn",
        "encoder": encoder,
        "encoder_conf": encoder_conf,
        "decoder": "transformer",
        "decoder_conf": decoder_conf,
        "token_type": "bpe",
        "bpemodel": "bpe.model",
        "token_list": "tokens.txt",
        "src_token_list": ["<blank>", "<unk>", "a", "<sos/eos>"],
        "train_data_path_and_name_and_type": [["dump/text.tc.de", "text", "text"]],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
