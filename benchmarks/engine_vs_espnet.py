"""simulst's blockwise search against ESPnet's Speech2TextStreaming, with the same model, audio and search (BWBS).

    python benchmarks/engine_vs_espnet.py [--size mini|paper] [--seconds 10] [--json]

mini: the model that egs/mini trained (stages 1 to 7), on tst-COMMON.
paper: a model of CUNI-KIT 2023's size (18 blocks, width 256, 6 decoder layers, 4000 units) with random weights, on
noise. The bias of <eos> is set so that a block takes as many decoder steps as it does on speech.

Both systems decode in turns and get chunks of 640 ms, which is one block. The fastest of some rounds counts. With one
thread, time is the thread's processor time, which other work on the machine changes little.

Each part of the time is printed with its floor. The floor is the number of operations / the best rate of our matrix
products on this machine, or the number of bytes / the rate of a plain sum over as many bytes, whichever is longer. For
CTC scores the bytes are those of the posteriors and the forward variables. The last line is JSON.

--kernels also times simulst in the same turns without compiled attention, without compiled products, and without both.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
import torch
import yaml

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.calls import run_alone
from simulst.commands.common import run_command
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.kernels.products import ByTorch
from simulst.machine.processor import processor
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network import decoder, linear
from simulst.models.espnet.network.linear import PRECISIONS, Linear, dtype_of
from simulst.opening import Opening
from simulst.search import BWBS
from simulst.search.ctc import CTCPrefixScorer

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 10240  # samples: one block of 16 frames of 40 ms
UNITS = 4000
END_BIAS = 8.0  # added to the score of <eos> at the paper's size
PRODUCTS = [
    (rows, width, outputs) for rows in (42, 168, 672, 2688) for width in (256, 512) for outputs in (256, 1024, 2048)
]
CACHED = 2**20  # bytes that fit into caches
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}  # bytes per weight


class Clock:
    """Seconds spent in named functions. Time in a nested function counts for the nested function only."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._open: list[float] = []  # for each open call, the time of nested calls

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Time `owner.method` under `name` from now on."""
        function: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            started = self.now()
            self._open.append(0.0)
            try:
                return function(*args, **options)
            finally:
                spent = self.now() - started
                self.seconds[name] += spent - self._open.pop()
                self.calls[name] += 1
                if self._open:
                    self._open[-1] += spent

        setattr(owner, method, timed)


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(["mini", "paper"]), default="mini", show_default=True)
@click.option(
    "--seconds", type=click.FloatRange(1.0), default=10.0, show_default=True, help="Audio to decode, at least 1."
)
@click.option("--beam", type=click.IntRange(1), default=6, show_default=True)
@click.option("--ctc-weight", type=click.FloatRange(0.0, 1.0), default=0.3, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="The fastest one counts.")
@click.option(
    "--precision",
    type=click.Choice(list(PRECISIONS)),
    default="float32",
    show_default=True,
    help="Precision of simulst. Others than float32 change the hypotheses.",
)
@click.option(
    "--experiment", default=ROOT / "egs/mini/exp/en-de/st", type=click.Path(path_type=Path), show_default=True
)
@click.option("--data", default=ROOT / "egs/mini/data/en-de/tst-COMMON", type=click.Path(path_type=Path))
@click.option("--kernels", is_flag=True, help="Also time simulst without compiled kernels.")
@click.option("--json", "only_json", is_flag=True, help="Print the JSON alone.")
def main(
    size: str,
    seconds: float,
    beam: int,
    ctc_weight: float,
    threads: int,
    rounds: int,
    precision: str,
    experiment: Path,
    data: Path,
    kernels: bool,
    only_json: bool,
) -> None:
    """Decode with both systems in turns and compare."""
    print(processor())
    torch.set_num_threads(threads)
    now = time.thread_time if threads == 1 else time.perf_counter
    our_clock, their_clock = Clock(now), Clock(now)
    with tempfile.TemporaryDirectory() as folder, quiet():
        if size == "paper":
            experiment, checkpoint = write_paper_model(Path(folder)), "model.pth"
            utterances = [("noise", noise(seconds))]
        else:
            if not (experiment / "chosen.pth").is_file():
                raise SimulstError(
                    f"{experiment / 'chosen.pth'} is missing; run ./run.sh --recipe mini --stop-stage choose."
                )
            checkpoint = "chosen.pth"
            utterances = list(speech(data, seconds))
        theirs = espnet(their_clock, experiment, checkpoint, beam, ctc_weight)
        ours = simulst(our_clock, experiment, checkpoint, precision, threads)
        others = without_kernels(experiment, checkpoint, precision, threads) if kernels else {}
        without = dict.fromkeys(others, math.inf)
        options = BWBS(beam, ctc_weight, repetition=True)  # as ESPnet has it
        # Warm up with one second of audio: compiled code and buffers.
        first = utterances[0][1][: 2 * SAMPLE_RATE]
        decode(ours, first, options)
        decode_espnet(theirs, first)
        same = {}
        bests: list[tuple[float, dict[str, float], dict[str, int]]] = [(math.inf, {}, {})] * 2
        for _ in range(rounds):
            for name, other_model in others.items():
                started = now()
                for _, samples in utterances:
                    decode(other_model, samples, options)
                without[name] = min(without[name], now() - started)
            totals = [0.0, 0.0]
            for clock in (our_clock, their_clock):
                clock.seconds.clear()
                clock.calls.clear()
            for name, samples in utterances:
                started = now()
                mine = decode(ours, samples, options)
                between = now()
                other = decode_espnet(theirs, samples)
                totals[0] += between - started
                totals[1] += now() - between
                same[name] = mine == other
                if not same[name] and not only_json:
                    print(f"{name}: ours {mine}, ESPnet's {other}", file=sys.stderr)
            for place, clock in enumerate((our_clock, their_clock)):
                bests[place] = min(bests[place], (totals[place], dict(clock.seconds), dict(clock.calls)))
    audio = sum(samples.size for _, samples in utterances) / SAMPLE_RATE
    (our_total, our_parts, our_calls), (their_total, their_parts, their_calls) = bests
    flops = peak(precision)
    floors = floor(theirs.st_model, our_calls, audio, beam, flops, BYTES[precision])
    search = {
        "ours": our_total - our_parts["encoder"],
        "espnet": their_total - their_parts["encoder"] - their_parts["features"],
    }
    result = {
        "size": size,
        "seconds": round(audio, 2),
        "utterances": len(utterances),
        "threads": threads,
        "precision": precision,
        "speedup_search": search["espnet"] / search["ours"],
        "speedup_end_to_end": their_total / our_total,
        "rtf": our_total / audio,
        "rtf_espnet": their_total / audio,
        "rtf_without_compiled": {name: seconds / audio for name, seconds in without.items()},
        "same_hypotheses": all(same.values()),
        "same_share": sum(same.values()) / len(same),
        "decoder_steps": {"ours": our_calls["decoder"], "espnet": their_calls["decoder"]},
        "rtf_parts": {k: v / audio for k, v in our_parts.items()},
        "rtf_parts_espnet": {k: v / audio for k, v in their_parts.items()},
        "rtf_floor": {k: v / audio for k, v in floors.items()},
        "peak_GFLOPS": flops / 1e9,
    }
    if not only_json:
        report(result)
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}))


def decode(model: ESPnet, samples: np.ndarray, options: BWBS) -> list[int]:
    """Decode block by block and commit nothing before the end, as ESPnet does."""
    session = model.session(Opening("en", "de"))
    found: Tokens = ()
    for start in range(0, samples.size, CHUNK):
        session.extend(samples[start : start + CHUNK], final=start + CHUNK >= samples.size)
        found = run_alone(session.search((), options, None)).best
    return list(found)


def decode_espnet(streaming: Any, samples: np.ndarray) -> list[int]:
    found: list[Any] = []
    for start in range(0, samples.size, CHUNK):
        found = streaming(samples[start : start + CHUNK], is_final=start + CHUNK >= samples.size)
    return found[0][2] if found else []


def simulst(clock: Clock, experiment: Path, checkpoint: str, precision: str, threads: int) -> ESPnet:
    model = load_model(experiment, checkpoint=checkpoint, precision=precision, threads=threads)
    assert isinstance(model, ESPnet) and model.decoder is not None
    clock.watch(model, "encode_blocks", "encoder")
    clock.watch(model, "ctc", "ctc layer")
    for method in ("step", "prefill"):
        clock.watch(model.decoder, method, "decoder")
    score = CTCPrefixScorer.score

    def counted(scorer: CTCPrefixScorer, prefixes: Any, candidates: np.ndarray) -> np.ndarray:
        # Two variables of each hypothesis are read, and posteriors of each candidate; of those kept, both are written.
        clock.calls["ctc numbers"] += prefixes.frames * (candidates.size + 4 * len(candidates))
        return score(scorer, prefixes, candidates)

    CTCPrefixScorer.score = counted  # type: ignore
    for method in ("append", "score", "extend", "advance", "force"):
        clock.watch(CTCPrefixScorer, method, "ctc scores")
    return model


def without_kernels(experiment: Path, checkpoint: str, precision: str, threads: int) -> dict[str, Any]:
    """The same model with torch in the place of what is compiled. CTC scores and the search stay compiled."""
    by_torch = {"attention": (decoder, "compiled_attention", lambda: None), "products": (linear, "product", ByTorch)}
    found = {}
    for name, parts in (("attention", ["attention"]), ("products", ["products"]), ("both", list(by_torch))):
        with contextlib.ExitStack() as patches:
            for part in parts:
                patches.enter_context(patch.object(*by_torch[part]))
            found[name] = load_model(experiment, checkpoint=checkpoint, precision=precision, threads=threads)
    return found


def espnet(clock: Clock, experiment: Path, checkpoint: str, beam: int, ctc_weight: float, device: str = "cpu") -> Any:
    from espnet2.bin.st_inference_streaming import Speech2TextStreaming

    # Paths in the configuration are relative to the folder where training ran, which is above this one.
    places = [place for place in experiment.resolve().parents if (place / "data").is_dir()]
    with contextlib.chdir([*places, experiment][0]):
        streaming = Speech2TextStreaming(
            st_train_config=str(experiment / "config.yaml"),
            st_model_file=str(experiment / checkpoint),
            device=device,
            beam_size=beam,
            ctc_weight=ctc_weight,
            lm_weight=0.0,
        )
    streaming.tokenizer = None  # tokens are compared
    clock.watch(streaming, "apply_frontend", "features")
    clock.watch(streaming.st_model.encoder, "forward", "encoder")
    clock.watch(streaming.st_model.decoder, "batch_score", "decoder")
    ctc = streaming.beam_search.scorers.get("ctc")
    if ctc is not None:
        for method in ("batch_score_partial", "extend_prob", "extend_state", "batch_init_state", "select_state"):
            clock.watch(ctc, method, "ctc scores")
    return streaming


def speech(data: Path, seconds: float) -> Iterator[tuple[str, np.ndarray]]:
    left = seconds
    for utterance in read_data_dir(data, "tc.de"):
        if left <= 0:
            return
        audio = load_audio(utterance.wav, utterance.start, utterance.end)
        left -= audio.size / SAMPLE_RATE
        yield utterance.name, audio


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    """Noise whose loudness changes every 0.1 s, as it does in speech."""
    random = np.random.default_rng(seed)
    count = round(seconds * SAMPLE_RATE)
    loudness = np.repeat(random.uniform(0.01, 0.3, count // 1600 + 1), 1600)[:count]
    return (random.normal(0, 1, count) * loudness).astype(np.float32)


def write_paper_model(folder: Path, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
    """Write an ESPnet experiment of the paper's size with random weights. changes: to sections of its configuration."""
    from espnet2.tasks.st import STTask

    tokens = ["<blank>", "<unk>", *(f"w{i}" for i in range(UNITS - 3)), "<sos/eos>"]
    config = yaml.safe_load((ROOT / "conf/train/paper_c_st.yaml").read_text())
    config["frontend_conf"] = {"fs": "16k", "n_fft": 640, "win_length": 640, "hop_length": 160, "n_mels": 80}
    config |= {"specaug": None, "normalize": None, "token_type": "word", "token_list": tokens}
    for section, values in (changes or {}).items():
        config[section] = {**config[section], **values}
    config |= {"src_token_type": "word", "src_token_list": tokens[:9] + tokens[-1:]}
    (folder / "train.yaml").write_text(yaml.safe_dump(config))
    arguments = STTask.get_parser().parse_args(["--config", str(folder / "train.yaml"), "--output_dir", str(folder)])
    torch.manual_seed(0)
    model = STTask.build_model(arguments)
    with torch.no_grad():
        # Make it as certain as a trained model. Otherwise scores differ by less than the rounding of float32.
        model.decoder.output_layer.weight *= 4
        model.decoder.output_layer.bias[-1] += END_BIAS
        model.st_ctc.ctc_lo.weight *= 4
        model.st_ctc.ctc_lo.bias[0] += 12
    (folder / "config.yaml").write_text(yaml.safe_dump(vars(arguments), sort_keys=False))
    torch.save(model.state_dict(), folder / "model.pth")
    return folder


def peak(precision: str) -> float:
    """Operations per second of our linear layers, at the best size."""
    rates = []
    for rows, width, outputs in PRODUCTS:
        layer = Linear(torch.rand(outputs, width) - 0.5, torch.zeros(outputs), precision)
        seconds = best_of(partial(layer, torch.rand(rows, width).to(dtype_of(precision))))
        rates.append(2 * rows * width * outputs / seconds)
    return max(rates)


def reading_rate(size: int) -> float:
    """Bytes per second if `size` bytes are read repeatedly, possibly from caches."""
    return size / best_of(torch.rand(size // 4).sum)


def best_of(function: Callable[[], Any], times: int = 15) -> float:
    """The shortest time of `times` calls, in seconds."""
    now = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = []
    for _ in range(times):
        started = now()
        function()
        seconds.append(now() - started)
    return min(seconds)


def floor(model: Any, calls: dict[str, int], audio: float, beam: int, flops: float, size: int) -> dict[str, float]:
    """The least seconds for the work of each part of ESPnet's model: matrix products, and reading CTC scores.

    size: bytes per weight of the encoder and the decoder.
    """
    encoder = model.encoder
    weights = sum(p.numel() for p in encoder.encoders.parameters() if p.dim() > 1)
    frames = encoder.block_size + 2  # with the two context vectors
    operations = 2.0 * calls["encoder"] * frames * weights
    height, rate = encoder.embed.out.in_features / encoder.output_size(), SAMPLE_RATE / 160
    for factor, conv in ((2, encoder.embed.conv[0]), (4, encoder.embed.conv[2])):
        operations += 2.0 * conv.weight.numel() * height * 4 / factor * rate / factor * audio
    read = sum(p.numel() for name, p in model.decoder.named_parameters() if p.dim() > 1 and "embed" not in name)
    steps = calls["decoder"]
    reading = size * read * steps / reading_rate(size * read)
    encoding = size * weights * calls["encoder"] / reading_rate(size * weights)
    floors = {"encoder": max(operations / flops, encoding), "decoder": max(2 * beam * read * steps / flops, reading)}
    if calls.get("ctc layer"):
        layer = model.st_ctc.ctc_lo.weight.numel()
        reading = 4 * layer * calls["ctc layer"] / reading_rate(4 * layer)
        floors["ctc layer"] = max(2 * audio * rate / 4 * layer / flops, reading)
        floors["ctc scores"] = 8 * calls["ctc numbers"] / reading_rate(CACHED)
    return floors


def report(result: dict[str, Any]) -> None:
    print("{utterances} utterances, {seconds:.1f} s, size {size}, {threads} threads".format(**result))
    names = sorted({*result["rtf_parts"], *result["rtf_parts_espnet"]})
    print(f"{'RTF of':<12} {'ours':>8} {'ESPnet':>8} {'floor':>8}")
    for name in names:
        cells = [result[key].get(name) for key in ("rtf_parts", "rtf_parts_espnet", "rtf_floor")]
        print(f"{name:<12} " + " ".join(f"{'–' if cell is None else format(cell, '.4f'):>8}" for cell in cells))
    print(f"{'all':<12} {result['rtf']:>8.4f} {result['rtf_espnet']:>8.4f}")
    print(f"search {result['speedup_search']:.1f} times, end to end {result['speedup_end_to_end']:.1f} times as fast")
    for name, rtf in result["rtf_without_compiled"].items():
        ratios = result["rtf_espnet"] / rtf, rtf / result["rtf"]
        print(
            "without compiled {}: RTF {:.4f}, {:.1f} times ESPnet's speed, {:.2f} times our time".format(
                name, rtf, *ratios
            )
        )
    print(f"same hypotheses: {100 * result['same_share']:.1f} % of utterances")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide ESPnet's log messages and warnings."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


if __name__ == "__main__":
    run_command(main)
