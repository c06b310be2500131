"""A paper's configuration at its full size: training steps and decoding on the CPU, with their memory and time.

    python benchmarks/paper_scale.py conf/train/paper_c_st.yaml [--steps 20] [--seconds 4] [--utterances 2]
    python benchmarks/paper_scale.py conf/train/paper_a_st.yaml [--steps 5] [--seconds 3] [--utterances 1] [--decoded 2]

Weights are random, of the shape that the configuration or the released models have; the audio is noise, and the texts
are random. ESPnet's own trainer trains ESPnet's models, the library's those of Hugging Face's, as `simulst train` does.
Then utterances are decoded by local agreement. With --steps 0, Hugging Face's are only decoded, in a third of the
memory. The last line is JSON:

    million             weights of the model; trained: those that are trained
    training_GiB        the most memory of the training, with Adam's state and the program's own (baseline_GiB)
    seconds_per_step    the median, without the first step
    decoding_GiB, RTF   of the decoding; most_GiB: of the whole program

docs/experiments has the figures. What a GPU keeps for a second of audio is benchmarks/blockwise_training.py's matter.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
import yaml

from simulst.audio.units import SAMPLE_RATE
from simulst.config import parse_decoding
from simulst.machine.processor import processor
from simulst.models import load_model
from simulst.session import Model
from simulst.streams import open_stream

GIB = 1 << 30
SHAPES: dict[str, dict[str, Any]] = {  # of the models that the configurations name
    "facebook/mbart-large-50": {
        "vocab_size": 250054,
        "d_model": 1024,
        "decoder_layers": 12,
        "decoder_attention_heads": 16,
        "decoder_ffn_dim": 4096,
        "max_position_embeddings": 1024,
        "scale_embedding": True,
    },
    "large speech encoder": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "feat_extract_norm": "layer",
        "do_stable_layer_norm": True,
        "conv_bias": True,
    },
}
TYPES = {"facebook/wav2vec2-large-lv60": "wav2vec2", "microsoft/wavlm-large": "wavlm"}
DECODING = {"read": {"type": "chunk", "ms": 1000}, "commit": {"type": "local_agreement", "n": 2}}


def memory() -> float:
    """The most memory of this process so far, or of one that it has waited for, in GiB."""
    found = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(found) * 1024 / GIB


def noise(seconds: float, seed: int) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))).astype(np.float32)


def decode(model: Model, count: int, seconds: float, search: dict[str, Any], target: str = "de") -> float:
    """The real-time factor of `count` utterances. A random model hardly ever ends a text: it gets 5 tokens a second."""
    search = {"type": "joint_beam", "max_length_ratio": 0.1 if search["beam"] == 8 else 0.2, **search}
    begin = time.perf_counter()
    for seed in range(count):
        stream = open_stream(model, parse_decoding({**DECODING, "search": search}, "here"), "en", target)
        stream.push(noise(seconds, seed), finished=True)
    return (time.perf_counter() - begin) / (count * seconds)


# ---- ESPnet


def write_corpus(folder: Path, count: int, seconds: float, pieces: int) -> dict[str, str]:
    """A dumped corpus and tokens of a vocabulary of so many pieces. Returns options of `simulst train`."""
    from kaldiio import WriteHelper

    from simulst.audio.read import as_int16
    from simulst.training.tokens import train_tokens

    random = np.random.default_rng(0)
    syllables = [a + b for a in "bdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er", "in")]
    words = ["".join(random.choice(syllables, random.integers(1, 5))) for _ in range(40000)]
    texts = [" ".join(random.choice(words, round(2.5 * seconds))) for _ in range(count)]
    (folder / "words").write_text("".join(f"{i} {' '.join(words[i : i + 10])}\n" for i in range(0, len(words), 10)))
    train_tokens([folder / "words"], folder / "tokens", pieces, "bpe")
    for split in ("train", "dev"):
        place = folder / split
        place.mkdir()
        names = [f"u{number:03d}" for number in range(count if split == "train" else 2)]
        with WriteHelper(f"ark,scp:{place / 'audio.ark'},{place / 'wav.scp'}", write_function="soundfile") as write:
            for number, name in enumerate(names):
                write(name, (SAMPLE_RATE, as_int16(noise(seconds, number))))
        rows = {"utt2num_samples": str(round(seconds * SAMPLE_RATE)), "utt2spk": "s"}
        for name, value in rows.items():
            (place / name).write_text("".join(f"{one} {value}\n" for one in names))
        for language in ("tc.de", "lc.rm.en"):
            (place / f"text.{language}").write_text("".join(f"{n} {t}\n" for n, t in zip(names, texts, strict=False)))
    return {"--train": str(folder / "train"), "--valid": str(folder / "dev"), "--tokens": str(folder / "tokens")}


def run_espnet(
    config: Path, conf: dict[str, Any], steps: int, seconds: float, utterances: int, pieces: int, decoded: int
) -> Any:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = write_corpus(folder, steps * utterances, seconds, pieces)
        recognition = "ctc_weight" in conf["model_conf"]
        options |= {"--text": "lc.rm.en" if recognition else "tc.de", "--config": str(config)}
        options |= (
            {"--task": "asr"} if recognition else {"--source-text": "lc.rm.en", "--source-tokens": options["--tokens"]}
        )
        command = [sys.executable, "-m", "simulst", "train"]
        given = [word for pair in options.items() for word in pair]
        extra = ["--", "--batch_type", "unsorted", "--batch_size", str(utterances), "--num_workers", "0"]
        subprocess.run([*command, "stats", *given, "--out", str(folder / "stats"), *extra], check=True)
        baseline = memory()
        extra += ["--max_epoch", "1", "--accum_grad", "1", "--log_interval", "1", "--use_tensorboard", "false"]
        where = ["--stats", str(folder / "stats"), "--out", str(folder / "out")]
        subprocess.run([*command, "espnet", *given, *where, *extra], check=True)
        log = (folder / "out/simulst.log").read_text()
        times = [float(t) for t in re.findall(r"1epoch:train:\d+-\d+batch: .*?train_time=([\d.e+-]+)", log)]
        found = {
            "million": float(re.findall(r"Total Number of model parameters: ([\d.]+)", log)[0]),
            "steps": len(times),
            "baseline_GiB": baseline,
            "training_GiB": memory(),
            "seconds_per_step": statistics.median(times[1:]),
        }
        before = memory_now()
        model = load_model(folder / "out", 1)
        weight = conf["model_conf"]["ctc_weight" if recognition else "st_mtlalpha"]
        rtf = decode(model, decoded, seconds, {"beam": 6, "ctc_weight": weight}, "en" if recognition else "de")
        return found | {"decoding_GiB": memory_now() - before, "RTF": rtf}


# ---- Hugging Face's


def memory_now() -> float:
    """The memory of this process, in GiB."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024 / GIB


def run_huggingface(conf: dict[str, Any], steps: int, seconds: float, utterances: int, decoded: int) -> Any:
    import transformers
    from torch.utils.data import DataLoader

    from simulst.models.huggingface import relative
    from simulst.models.huggingface.architectures import Architecture
    from simulst.models.huggingface.model import HuggingFace
    from simulst.models.huggingface.options import HuggingFaceOptions
    from simulst.training.configuration import FineTuning
    from simulst.training.freezing import change_settings, freeze
    from simulst.training.new_model import TOKENS, learn_pieces
    from simulst.training.speech_text import IGNORED
    from simulst.training.trainer import Trainer, _arguments

    parts = conf.pop("new_model")
    settings = conf.pop("settings")
    changed = {"accumulate": 1, "dtype": "float32", "average": tuple(conf["average"]), "ctc_weight": 0.0}
    options = FineTuning(**conf | changed)
    kind = parts["encoder"].get("model_type", TYPES[parts["encoder"]["name"]])
    encoder_config = transformers.AutoConfig.for_model(kind, **SHAPES["large speech encoder"])
    decoder_config = transformers.MBartConfig(**SHAPES[parts["decoder"]["name"]], is_decoder=True)
    decoder_config.add_cross_attention = True
    joined = transformers.SpeechEncoderDecoderConfig.from_encoder_decoder_configs(encoder_config, decoder_config)
    change_settings(joined, settings, "settings")
    assert relative.RelativeConfig.model_type
    baseline = memory()
    model = transformers.SpeechEncoderDecoderModel(config=joined)
    model.config.decoder_start_token_id = model.config.eos_token_id = 2
    model.config.pad_token_id = 1
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=2, eos_token_id=2, pad_token_id=1)
    freeze(model, not options.train_features, options.encoder_layers)
    tokens = torch.randint(4, SHAPES[parts["decoder"]["name"]]["vocab_size"], (utterances, round(5 * seconds)))
    audio = torch.from_numpy(np.stack([noise(seconds, number) for number in range(utterances)]))
    batch = {
        "input_values": audio,
        "attention_mask": torch.ones(audio.shape, dtype=torch.long),
        "decoder_input_ids": tokens,
        "decoder_attention_mask": torch.ones_like(tokens),
        "labels": tokens.roll(-1, 1).masked_fill(torch.arange(tokens.shape[1]) == tokens.shape[1] - 1, IGNORED),
    }
    times: list[float] = []

    class Timed(transformers.TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.begin = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter() - self.begin)
            print(f"step {len(times)}: {times[-1]:.1f} s, {memory():.1f} GiB", flush=True)

    found: dict[str, float] = {
        "million": sum(p.numel() for p in model.parameters()) / 1e6,
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad) / 1e6,
        "baseline_GiB": baseline,
    }
    if steps:
        with tempfile.TemporaryDirectory() as out:
            loader: Any = DataLoader([0] * steps, collate_fn=lambda _: dict(batch))  # type: ignore[arg-type]
            arguments = _arguments(options, Path(out), steps)
            Trainer(model, arguments, loader, options, lambda loss, count: None, [Timed()]).train()
        found |= {"steps": steps, "training_GiB": memory(), "seconds_per_step": statistics.median(times[1:])}
    model.zero_grad(set_to_none=True)
    pieces = learn_pieces(["ein Hund und eine Katze " * 3], 30, TOKENS)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), TOKENS, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **names)
    tokenizer.add_special_tokens({"additional_special_tokens": ["en_XX", "de_DE"]})
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True)
    architecture = Architecture("random", model.eval(), extractor, tokenizer, HuggingFaceOptions())
    rtf = decode(HuggingFace(architecture), decoded, seconds, {"beam": 8, "ctc_weight": 0.0})
    return found | {"most_GiB": memory(), "RTF": rtf}


@click.command(help=__doc__)
@click.argument("config", type=click.Path(exists=True, path_type=Path))
@click.option("--steps", default=20, show_default=True, help="Training steps.")
@click.option("--seconds", default=4.0, show_default=True, help="Length of an utterance.")
@click.option("--utterances", default=2, show_default=True, help="Utterances in a batch.")
@click.option("--pieces", default=4000, show_default=True, help="The vocabulary of an ESPnet model.")
@click.option("--decoded", default=2, show_default=True, help="Utterances to decode.")
def main(config: Path, steps: int, seconds: float, utterances: int, pieces: int, decoded: int) -> None:
    """Train, decode, and print what it took."""
    print(processor())
    torch.set_num_threads(1)
    conf = yaml.safe_load(config.read_text(encoding="utf-8"))
    if "new_model" in conf:
        found = run_huggingface(conf, steps, seconds, utterances, decoded)
    else:
        found = run_espnet(config, conf, steps, seconds, utterances, pieces, decoded)
    found = {"config": config.name, "audio_per_step": utterances * seconds, **found}
    print(json.dumps({name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}))


if __name__ == "__main__":
    main()
