"""A head that foresees divergence, after DiG-SST (Divergence-Guided Simultaneous Speech Translation, AAAI 2024).

The more the distribution of the next token will change with the speech to come, the better it is to wait. What will
come is not known in decoding, so a head learns to expect it from the decoder's last layer. The model itself gives the
labels: it reads its own translation of the whole utterance, over the speech up to the end of each chunk and over all,

    D = KL(p on all speech || p on the speech so far)   of the next token, at each place of the text

and the head learns log(1 + D), as few places have most of the divergence. The paper's policy has Transformer layers of
its own, which are trained with the translation; here the model stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.calls import run_alone
from simulst.config import Decoding
from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import begun, digest_of_files, locked, save_atomically, write_atomically
from simulst.meter import Meter
from simulst.models.espnet.divergence import DivergenceHead, digest_of
from simulst.models.espnet.encoding import open_encoding
from simulst.models.espnet.experiment import DIVERGENCE, Experiment
from simulst.models.espnet.loading import load
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.network.lagging import Chunked
from simulst.models.espnet.options import ESPnetOptions
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Offline
from simulst.prefix.chunks import Grid
from simulst.search import JointBeamSearch
from simulst.stream import Stream

FOLDER, RECORD, LOG = "divergence", "divergence.json", "log.jsonl"
PART, HELD_OUT, BATCH = 50, 10, 4096  # utterances of a file; every so many are held out; places of a batch
PASSES, HIDDEN = 20, 64  # over the examples; size of the hidden layer


@dataclass(frozen=True)
class Examples:
    """Of one utterance: states (n, width) of the decoder, and divergences (n,) in nats."""

    states: Tensor
    targets: Tensor


@torch.inference_mode()
def examples_of(model: ESPnet, samples: np.ndarray, grid: Grid, target: str) -> Examples:
    """samples: (n,) float32, of the whole utterance."""
    assert isinstance(model.decoder, CachedDecoder)
    stream = Stream(
        model.session(Opening(model.languages[0] or "en", target)),
        Decoding(Offline(), All(), search=JointBeamSearch(1, model.search.ctc_weight, model.search.length_bonus)),
    )
    stream.push(samples, finished=True)
    text = (*model.vocabulary.language_prefix(target), *stream.committed)
    encoding, heard = open_encoding(model, Meter()), list[int]()
    for end_ms in [*grid.ends(len(samples) / SAMPLE_RATE * 1000), None]:
        end = len(samples) if end_ms is None else int(end_ms * SAMPLE_RATE / 1000)
        encoding.extend(samples[encoding.length : end], final=end_ms is None)
        run_alone(encoding.encode())
        heard.append(encoding.end)
    frames = torch.cat([model.no_frames, *(part.frames for part in encoding.parts)])
    read, found = torch.tensor([model.vocabulary.sos, *text], device=frames.device), list[tuple[Tensor, Tensor]]()
    for count in dict.fromkeys(reversed([count for count in heard if count])):
        memory = model.decoder.memory()
        memory.append(frames[:count])
        log_p, state = model.decoder.prefill(read, memory, draft=len(text))
        assert state.hidden is not None
        found.append((state.hidden.float(), log_p))
    whole = found[0][1] if found else torch.zeros(0)
    states = [hidden for hidden, _ in found[1:]]
    targets = [(whole.exp() * (whole - log_p)).sum(-1).clamp(min=0) for _, log_p in found[1:]]
    width = frames.shape[1]
    return Examples(torch.cat([torch.zeros(0, width), *states]).cpu(), torch.cat([torch.zeros(0), *targets]).cpu())


def train_divergence(
    experiment: Path,
    checkpoint: str,
    data: Path,
    target: str,
    grid: Grid,
    utterances: int = 1000,
    force: bool = False,
) -> None:
    """Train the head of a model, or go on with that. It becomes divergence.pth in the experiment.

    The folder divergence/ beside it has the examples so far, and log.jsonl with a line for each pass: the loss (of
    log(1 + D)), and on utterances that are held out the loss and the correlation with what the model says.

    data: data directory. utterances: how many of it are used, evenly spread.

    Raises SimulstError: the model is not blockwise, or has no Transformer decoder, or waits by a token; too little
        data; training was begun with other options.
    """
    model, files = load(experiment, ESPnetOptions(checkpoint=checkpoint)), Experiment(experiment, checkpoint)
    if not (model.blockwise and isinstance(model.decoder, CachedDecoder)):
        raise SimulstError(f"{experiment}: give a model with a blockwise encoder and a Transformer decoder.")
    if isinstance(model.decoder.lagging, Chunked):
        raise SimulstError(f"{experiment}: the model waits by its wait token; give the one before it was fine-tuned.")
    known = read_data_dir(data, target)
    chosen = known[:: max(1, len(known) // utterances)][:utterances]
    of = digest_of_files(file for file in files.files() if file.name != DIVERGENCE)
    wanted = {"files": of, "data": str(data), "target": target, **asdict(grid), "utterances": [u.name for u in chosen]}
    out = experiment / FOLDER
    with locked(out):
        begun(out / RECORD, wanted, ("*.pth", LOG), force)
        write_atomically(out / RECORD, json.dumps(wanted))
        examples = _collected(model, chosen, grid, target, out)
        head = _trained(examples, out)
        content = {"of": digest_of(files), "weights": head.state_dict()}
        save_atomically(experiment / DIVERGENCE, content)
    print(f"{experiment / DIVERGENCE}: decode with 'stop: {{type: divergence, threshold: ...}}'")


def _collected(model: ESPnet, utterances: Sequence[Utterance], grid: Grid, target: str, out: Path) -> list[Examples]:
    """The examples of each utterance. Those that were collected before an interruption are read."""
    found: list[Examples] = []
    with tqdm(total=len(utterances), unit="utterance", desc="examples") as bar:
        for start in range(0, len(utterances), PART):
            file, some = out / f"{start:06d}.pth", utterances[start : start + PART]
            if not file.is_file():
                made = []
                for one in some:
                    examples = examples_of(model, load_audio(one.wav, one.start, one.end), grid, target)
                    made.append((examples.states, examples.targets))
                    bar.update()
                save_atomically(file, made)
            found += [Examples(*pair) for pair in torch.load(file, weights_only=True)]
            bar.update(len(found) - bar.n)
    return found


def _trained(examples: Sequence[Examples], out: Path) -> DivergenceHead:
    """The head of the pass with the least loss on what is held out."""
    longer = [one for one in examples if len(one.targets)]
    if len(longer) < 2:
        raise SimulstError(f"{out}: {len(longer)} utterances are longer than the first chunk; give more data.")
    held, learnt = (
        (torch.cat([one.states for one in part]), torch.cat([one.targets for one in part]).log1p())
        for part in (longer[::HELD_OUT], [one for number, one in enumerate(longer) if number % HELD_OUT])
    )
    torch.manual_seed(0)
    head, best, least = DivergenceHead(held[0].shape[1], HIDDEN), {}, float("inf")
    optimiser = torch.optim.Adam(head.parameters(), 1e-3)
    lines: list[str] = []
    for number in range(PASSES):
        losses = []
        for rows in torch.randperm(len(learnt[1])).split(BATCH):
            loss = torch.nn.functional.mse_loss(head(learnt[0][rows]), learnt[1][rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()) * len(rows))
        with torch.no_grad():
            said = head(held[0])
            held_loss = float(torch.nn.functional.mse_loss(said, held[1]))
            correlation = float(torch.corrcoef(torch.stack([said, held[1]]))[0, 1])
        loss_of_pass = sum(losses) / len(learnt[1])
        line = {"pass": number + 1, "loss": loss_of_pass, "held_out": held_loss, "correlation": correlation}
        lines.append(json.dumps(line) + "\n")
        if held_loss < least:
            least, best = held_loss, {name: tensor.clone() for name, tensor in head.state_dict().items()}
    write_atomically(out / LOG, "".join(lines))
    print(f"{out}: {len(learnt[1])} places; held out {least:.3f} (log(1 + D)), {lines[-1].strip()}")
    head.load_state_dict(best)
    return head
