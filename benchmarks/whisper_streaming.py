"""simulst against ufal/whisper_streaming, with the same weights, recordings, chunk sizes, beam and threads, in one run.

    pip install faster-whisper==1.2.1          (the peer needs it)
    git clone the peer's repository to PEER
    python benchmarks/whisper_streaming.py --peer PEER [--limit 40] [--chunks 1 2]

Both systems decode each utterance in turns, so other work on the machine slows both equally. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from processor import processor
from tqdm import tqdm

from simulst.config import Decoding
from simulst.data.audio import load_audio
from simulst.data.datadir import Utterance, read_data_dir, shorter_than
from simulst.log import Instance
from simulst.metrics.score import compare, score_instances
from simulst.models import load_model
from simulst.policy.commit import LocalAgreement, WholeWords
from simulst.policy.read import Chunk
from simulst.runs import decode_utterance
from simulst.search import BeamSearch
from simulst.units import SAMPLE_RATE

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ("BLEU", "BLEU_low", "BLEU_high", "AL", "LAAL", "LAAL_CA", "RTF", "length_ratio")


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, type=Path, help="checkout of ufal/whisper_streaming")
    parser.add_argument("--model", default=ROOT / "egs/prompts/models/whisper-base", type=Path)
    parser.add_argument("--data", default=ROOT / "egs/prompts/data", type=Path)
    parser.add_argument("--languages", nargs="+", default=["es"])
    parser.add_argument("--set", default="tst")
    parser.add_argument("--chunks", nargs="+", type=float, default=[1.0, 2.0], metavar="SECONDS")
    parser.add_argument("--limit", type=int, default=40, help="utterances per language")
    parser.add_argument("--max-seconds", type=float, default=20.0, help="leave out longer utterances")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--initial-wait", type=float, default=0.0, metavar="SECONDS", help="initial wait of simulst")
    parser.add_argument(
        "--part-words", action="store_true", help="simulst also commits parts of words, as in the paper"
    )
    arguments = parser.parse_args()
    print(processor())

    summary = {}
    model = load_model(arguments.model, threads=arguments.threads)
    agreement = LocalAgreement(2)
    for chunk in arguments.chunks:
        logs = {name: list[Instance]() for name in ("peer", "ours")}
        for language in arguments.languages:
            peer = load_peer(arguments.peer, arguments.model, language, arguments.threads)
            decoding = Decoding(
                read=Chunk(chunk * 1000, arguments.initial_wait * 1000),
                commit=agreement if arguments.part_words else WholeWords(agreement),
                search=BeamSearch(beam=5),
            )
            utterances = read_data_dir(arguments.data / f"{language}-en" / arguments.set, "en")
            utterances = shorter_than(utterances, arguments.max_seconds)[: arguments.limit]
            for utterance in tqdm(utterances, desc=f"{language} {chunk:g} s"):
                index = len(logs["ours"])
                logs["peer"].append(run_peer(peer, utterance, index, chunk))
                logs["ours"] += decode_utterance(model, (language, "en"), utterance, index, [decoding])
        row: dict[str, Any] = {name: score_instances(log, bootstrap=1000) for name, log in logs.items()}
        test = compare(logs["peer"], logs["ours"])
        for name in ("peer", "ours"):
            print(f"{chunk:g} s {name}: " + "  ".join(f"{key} {row[name][key]:.2f}" for key in SHOWN))
        print(
            f"{chunk:g} s BLEU difference {test['BLEU_difference']:+.2f} (p = {test['BLEU_p']:.3f}, paired bootstrap)"
        )
        summary[f"{chunk:g}"] = {
            **{name: {key: row[name][key] for key in SHOWN} for name in logs},
            "BLEU_p": test["BLEU_p"],
            "RTF_ratio": row["ours"]["RTF"] / row["peer"]["RTF"],
        }
    print(json.dumps(summary))


def load_peer(checkout: Path, model: Path, language: str, threads: int) -> Any:
    """The peer's online processor, on the CPU in int8. (Its own code uses CUDA.)"""
    sys.path.insert(0, str(checkout))
    import whisper_online
    from faster_whisper import WhisperModel

    class OnCpu(whisper_online.FasterWhisperASR):
        def load_model(self, modelsize: Any = None, cache_dir: Any = None, model_dir: Any = None) -> WhisperModel:
            return WhisperModel(str(model_dir), device="cpu", compute_type="int8", cpu_threads=threads)

    recogniser = OnCpu(language, model_dir=str(model))
    recogniser.set_translate_task()
    return whisper_online.OnlineASRProcessor(recogniser)


def run_peer(online: Any, utterance: Utterance, index: int, chunk: float) -> Instance:
    """Give one utterance to the peer chunk by chunk, as in its own simulation, and log its words."""
    audio = load_audio(utterance.wav, utterance.start, utterance.end)
    online.init()
    step = round(chunk * SAMPLE_RATE)
    words: list[str] = []
    delays: list[float] = []
    elapsed: list[float] = []
    spent = 0.0
    for start in range(0, audio.size, step):
        piece = audio[start : start + step]
        last = start + step >= audio.size
        started = time.perf_counter()
        online.insert_audio_chunk(piece.astype(np.float32))
        text = online.process_iter()[2]
        if last:
            text += online.finish()[2]
        spent += time.perf_counter() - started
        new = text.split()
        words += new
        delay = (start + piece.size) * 1000 / SAMPLE_RATE
        delays += [delay] * len(new)
        elapsed += [delay + spent * 1000] * len(new)
    return Instance(
        index=index,
        prediction=" ".join(words),
        delays=delays,
        elapsed=elapsed,
        prediction_length=len(words),
        reference=utterance.reference,
        source=[str(utterance.wav)],
        source_length=audio.size * 1000 / SAMPLE_RATE,
        name=utterance.name,
        compute_ms=spent * 1000,
    )


if __name__ == "__main__":
    main()
