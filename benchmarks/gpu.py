"""What a GPU does: the same hypotheses as the CPU, the time of streams alone and together, and training.

    python benchmarks/gpu.py [--device cuda] [--minutes 8] [--out gpu.json]
    python benchmarks/gpu.py --device cpu --size tiny --minutes 2       tries the script itself

Weights are random, the audio is noise, and nothing is fetched. The parts, one after the other, as the time allows:

    hypotheses   an ESPnet model of paper C's size on the device and on the CPU, in float32: the same tokens?
    espnet       the same model under ESPnet's own streaming inference, on the device
    streams      1, 8, 64 and 256 streams in one driver, 640 ms of audio each at a time, for each precision
    whisper      a Hugging Face model of Whisper base's size: the same tokens as on the CPU, and its RTF for each dtype
    training     ESPnet's trainer, with paper C's configuration (mini's `--size large`), for the time that is left

Streams are in real time if all of them together take 640 ms of audio in less than 640 ms. A part that fails is told,
the others still run, and the exit status is 1. The last line is JSON.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
import yaml
from engine_vs_espnet import CHUNK, Clock, decode, decode_espnet, espnet, noise, quiet, write_paper_model
from paper_scale import write_corpus

from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import Positive, run_command
from simulst.config import parse_decoding
from simulst.machine.processor import processor
from simulst.models import load_model
from simulst.search import BWBS
from simulst.streams import open_stream
from simulst.streams.driver import Driver

ROOT = Path(__file__).resolve().parent.parent
COUNTS = (1, 8, 64, 256)
CTC_POLICY = {"read": {"type": "block"}, "stop": {"type": "ctc", "threshold": 0.0}, "commit": {"type": "all"}}
LA2 = {"read": {"type": "chunk", "ms": 1000}, "commit": {"type": "local_agreement", "n": 2}}
OPTIONS = BWBS(6, 0.3, repetition=True)  # as ESPnet has it
TINY: dict[str, Any] = {
    "encoder_conf": {"num_blocks": 2, "output_size": 32, "linear_units": 64},
    "decoder_conf": {"num_blocks": 1, "linear_units": 64},
}
Part = Callable[["Trial"], dict[str, Any]]


class Trial:
    """What the parts have in common.

    folder: for the models. device: torch's name of it. tiny: whether sizes are such that a CPU runs them in seconds.
    """

    def __init__(self, folder: Path, device: str, tiny: bool, seconds: float) -> None:
        self.folder, self.device, self.tiny, self.end = folder, device, tiny, time.monotonic() + seconds
        self.audio = noise(2 if tiny else 10)
        self.model = folder / "espnet"

    @property
    def left(self) -> float:
        """Seconds until the script has to end."""
        return self.end - time.monotonic()

    def load(self, device: str = "", **options: Any) -> Any:
        return load_model(self.model, checkpoint="model.pth", device=device or self.device, **options)

    def timed(self, function: Callable[[], Any]) -> tuple[Any, float]:
        """What a function returns, and its seconds, with all that it has begun on the device."""
        self._wait()
        begin = time.perf_counter()
        found = function()
        self._wait()
        return found, time.perf_counter() - begin

    def _wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def hypotheses(trial: Trial) -> dict[str, Any]:
    there, here = trial.load(), trial.load("cpu")
    decode(there, trial.audio[: 2 * SAMPLE_RATE], OPTIONS)  # what is compiled or filled once
    found, seconds = trial.timed(lambda: decode(there, trial.audio, OPTIONS))
    same = found == decode(here, trial.audio, OPTIONS)
    return {"same": same, "tokens": len(found), "rtf": seconds / _seconds(trial.audio)} | _fails(not same)


def against_espnet(trial: Trial) -> dict[str, Any]:
    ours = trial.load()
    theirs = espnet(Clock(time.perf_counter), trial.model, "model.pth", 6, 0.3, trial.device)
    first = trial.audio[: 2 * SAMPLE_RATE]
    decode(ours, first, OPTIONS)
    decode_espnet(theirs, first)
    mine, seconds = trial.timed(lambda: decode(ours, trial.audio, OPTIONS))
    other, their_seconds = trial.timed(lambda: decode_espnet(theirs, trial.audio))
    found = {"same": mine == other, "times": their_seconds / seconds, "rtf": seconds / _seconds(trial.audio)}
    return found | _fails(mine != other)


def streams(trial: Trial) -> dict[str, Any]:
    decoding = parse_decoding(CTC_POLICY, "the CTC policy")
    found: dict[str, Any] = {}
    for precision in ("float32", "bfloat16"):
        model = trial.load(precision=precision)
        for count in COUNTS:
            if trial.left < 60:
                found["left_out"] = f"{precision} from {count} streams on: the time is up"
                return found
            driver = Driver(most_calls=count)
            together = [open_stream(model, decoding, "en", "de") for _ in range(count)]
            audio = [noise(_seconds(trial.audio), seed) for seed in range(count)]
            rounds = []
            for start in range(0, trial.audio.size, CHUNK):
                final = start + CHUNK >= trial.audio.size
                pushed = [
                    driver.push(stream, samples[start : start + CHUNK], final)
                    for stream, samples in zip(together, audio, strict=True)
                ]
                rounds.append(trial.timed(driver.finish)[1])
                for one in pushed:
                    one.result()
            found[f"{precision} {count}"] = {
                "real_time": bool(np.median(rounds) < CHUNK / SAMPLE_RATE),
                "median_ms": 1000 * float(np.median(rounds)),
                "worst_ms": 1000 * max(rounds),
                "streams_per_rtf": count * _seconds(trial.audio) / sum(rounds),
            }
    return found


def whisper(trial: Trial) -> dict[str, Any]:
    folder = _write_whisper(trial.folder / "whisper", trial.tiny)
    decoding = parse_decoding(LA2, "LA-2")

    def translate(device: str, dtype: str) -> tuple[str, float]:
        model = load_model(folder, device=device, dtype=dtype)
        texts = []
        for samples in (trial.audio[:SAMPLE_RATE], trial.audio):  # the first one warms up
            stream = open_stream(model, decoding, "es", "en")
            _, seconds = trial.timed(partial(stream.push, samples, finished=True))
            texts.append(stream.committed_text)
        return texts[-1], seconds / _seconds(trial.audio)

    here, _ = translate("cpu", "float32")
    found: dict[str, Any] = {}
    for dtype in ("float32", "bfloat16", "float16"):
        text, rtf = translate(trial.device, dtype)
        found[dtype] = {"same": text == here, "rtf": rtf}
    return found | _fails(not found["float32"]["same"])


def training(trial: Trial) -> dict[str, Any]:
    """Steps of ESPnet's trainer until the time is up; then it is interrupted, as by Ctrl-C."""
    folder = trial.folder / "training"
    folder.mkdir()
    config = ROOT / "conf/train/paper_c_st.yaml"
    if trial.tiny:
        smaller = yaml.safe_load(config.read_text())
        smaller |= {section: {**smaller[section], **values} for section, values in TINY.items()}
        config = folder / "train.yaml"
        config.write_text(yaml.safe_dump(smaller))
    options = write_corpus(folder, 20 if trial.tiny else 400, 2 if trial.tiny else 8, 300 if trial.tiny else 4000)
    options |= {"--text": "tc.de", "--config": str(config)}
    options |= {"--source-text": "lc.rm.en", "--source-tokens": options["--tokens"]}
    command = [sys.executable, "-m", "simulst", "train"]
    given = [word for pair in options.items() for word in pair]
    batches = ["--batch_type", "unsorted", "--batch_size", "4" if trial.tiny else "16"]
    stats = [*command, "stats", *given, "--out", str(folder / "stats"), "--", *batches]
    subprocess.run(stats, check=True, stdout=sys.stderr)
    out, gpus = folder / "out", "1" if trial.device.startswith("cuda") else "0"
    train = [*command, "espnet", *given, "--stats", str(folder / "stats"), "--out", str(out), "--ngpu", gpus]
    train += ["--", *batches, "--max_epoch", "1000", "--accum_grad", "1", "--log_interval", "1"]
    process = subprocess.Popen(train, stdout=sys.stderr)
    try:
        process.wait(max(1.0, trial.left - 20))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
    log = (out / "simulst.log").read_text()
    times = [float(found) for found in re.findall(r"train:\d+-\d+batch: .*?train_time=([\d.e+-]+)", log)]
    memory = [float(found) for found in re.findall(r"gpu_max_cached_mem_GB=([\d.]+)", log)]
    losses = [float(found) for found in re.findall(r"train:\d+-\d+batch: .*?[ ,]loss=([\d.e+-]+)", log)]
    found = {"steps": len(times), "seconds_per_step": float(np.median(times[1:])) if len(times) > 1 else None}
    return (
        found | {"loss": [losses[0], losses[-1]] if losses else [], "GB": max(memory, default=None)} | _fails(not times)
    )


PARTS: dict[str, Part] = {
    "hypotheses": hypotheses,
    "espnet": against_espnet,
    "streams": streams,
    "whisper": whisper,
    "training": training,
}


@click.command(help=__doc__)
@click.option("--device", default="cuda", show_default=True, help="torch's name of it.")
@click.option("--size", type=click.Choice(["paper", "tiny"]), default="paper", show_default=True)
@click.option("--minutes", default=8.0, show_default=True, type=Positive(), help="When the script ends.")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Only this one (repeatable).")
@click.option("--out", type=click.Path(path_type=Path), help="File for the JSON, written after each part.")
def main(device: str, size: str, minutes: float, parts: tuple[str, ...], out: Path | None) -> None:
    """Run the parts."""
    result: dict[str, Any] = {"processor": processor(), "device": _name(device), "size": size}
    print(f"{result['processor']}\n{result['device']}", flush=True)
    with tempfile.TemporaryDirectory() as folder, quiet():
        trial = Trial(Path(folder), device, size == "tiny", 60 * minutes)
        trial.model.mkdir()
        write_paper_model(trial.model, TINY if trial.tiny else {})
        for name in parts or PARTS:
            begin = time.monotonic()
            if trial.left < 30:
                found: dict[str, Any] = {"left_out": "the time is up"}
            else:
                try:
                    found = PARTS[name](trial)
                except Exception as error:
                    traceback.print_exc()
                    found = {"failed": f"{type(error).__name__}: {error}"}
            result[name] = _rounded(found | {"seconds": time.monotonic() - begin})
            print(f"{name}: {json.dumps(result[name])}", flush=True)
            if out is not None:
                out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    sys.exit(any("failed" in result[name] for name in parts or PARTS))


def _name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def _seconds(audio: np.ndarray) -> float:
    return audio.size / SAMPLE_RATE


def _fails(wrong: bool) -> dict[str, str]:
    return {"failed": "see what stands beside this"} if wrong else {}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


def _write_whisper(folder: Path, tiny: bool) -> Path:
    """A model of Whisper base's size with random weights, in Hugging Face's form, and a vocabulary of made-up words."""
    import transformers
    from tokenizers import Tokenizer, models

    names = ["<|endoftext|>", "<|startoftranscript|>", "<|es|>", "<|en|>", "<|translate|>", "<|transcribe|>"]
    names.append("<|notimestamps|>")
    count = 300 if tiny else 51865
    words = {f"w{number}": number for number in range(count - len(names))}
    pieces = Tokenizer(models.WordLevel(words, unk_token="w0"))
    pieces.add_special_tokens(names)
    roles: dict[str, Any] = {f"{role}_token": names[0] for role in ("bos", "eos", "unk", "pad")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **roles)
    ids: dict[str, Any] = {name: tokenizer.convert_tokens_to_ids(name) for name in names}
    ends: dict[str, Any] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), ids[names[0]])
    sizes: dict[str, Any] = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6}
    sizes |= {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    sizes |= {"encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
    if tiny:
        sizes = {name: {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2}.get(name, 4) for name in sizes}
    start: dict[str, Any] = {"decoder_start_token_id": ids[names[1]]}
    torch.manual_seed(0)
    # Spread out, so that rounding decides nothing.
    config: Any = transformers.WhisperConfig(vocab_size=count, init_std=0.1, **sizes, **start, **ends)
    model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(
        **start,
        **ends,
        suppress_tokens=[ids[names[1]]],
        begin_suppress_tokens=[ids[names[0]]],
        no_timestamps_token_id=ids[names[-1]],
        lang_to_id={name: ids[name] for name in names[2:4]},
        task_to_id={"translate": ids[names[4]], "transcribe": ids[names[5]]},
        is_multilingual=True,
    )
    for part in (model, tokenizer, transformers.WhisperFeatureExtractor()):
        part.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    run_command(main)
