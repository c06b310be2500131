"""Training on lag and quality: a model with a wait token learns which of its own translations were good, and in time.

Group-relative policy gradient (GRPO, arXiv 2402.03300), as others use it for simultaneous translation (arXiv
2604.21045, 2602.11072). Of each utterance several translations are sampled, as the model would write them while it
hears. Each gets a reward, and tokens become more likely in those that are better than the mean of their group:

    A = (reward - mean of the group) / deviation of the group
    loss = - mean over tokens of min(r A, clip(r, 1 - ε, 1 + ε) A) + β KL,   r = p(token) / p(token) when it was sampled
    KL = q/p - log q/p - 1,   q: the probability by the model that training begins with
    reward = quality + (weight · max(0, 1 - LAAL / most_lag) if quality >= floor)

Only the decoder is trained. Dropout is off, so that p is that of decoding. The frames of a blockwise encoder are the
same in training and in decoding, and the lag is that of the log that decoding would write.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import begun, digest_of_files, locked, save_atomically, write_atomically
from simulst.hypotheses import Tokens
from simulst.languages import unit_of
from simulst.log.instance import Instance
from simulst.measure.latency import instance_latency
from simulst.measure.metric import bleu_for, chrf_for
from simulst.models.espnet.encoding import encode_whole
from simulst.models.espnet.experiment import CONFIG, Experiment
from simulst.models.espnet.loading import decoder_of, load
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.decoder import CachedDecoder, DecoderState
from simulst.models.espnet.network.lagging import Chunked, restrict_decoder
from simulst.models.espnet.options import ESPnetOptions
from simulst.options import Amount, Count, NotNegative, Positive, Share, build_options
from simulst.prefix.chunks import Grid
from simulst.search.beam import Read
from simulst.training.configuration import read_mapping
from simulst.words import Words, completed_by

if TYPE_CHECKING:
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

RECORD, LOG, CHECKPOINT, RESULT = "reinforce.json", "log.jsonl", "checkpoint.pth", "chosen.pth"
PATIENCE = 5  # updates without a difference between rewards, after which training ends


@dataclass(frozen=True)
class Options:
    """What is rewarded, and how training runs. Quality lies between 0 and 1.

    quality: of a sentence, by sacreBLEU.
    floor: the quality from which on the lag counts.
    weight: how much no lag at all is worth, in units of quality.
    most_lag: LAAL in ms from which on a lag is worth nothing.
    updates: how many there are.
    batch: utterances of an update. group: translations of each.
    passes: how often an update's translations are learnt from; with more than one, clipping matters.
    learning_rate: of Adam. clip: ε. kl: β. temperature: of sampling.
    save: a checkpoint is written after so many updates.
    """

    quality: Literal["chrf", "bleu"] = "chrf"
    floor: Share = 0.4
    weight: NotNegative = 0.3
    most_lag: Positive = 4000.0
    updates: Count = 200
    batch: Count = 8
    group: Annotated[int, Field(ge=2)] = 8
    passes: Count = 2
    learning_rate: Positive = 1e-4
    clip: Positive = 0.2
    kl: NotNegative = 0.02
    temperature: Positive = 1.0
    save: Count = 10
    seed: Amount = 0

    def qualities(self, instances: Sequence[Instance], language: str) -> list[float]:
        """Of each sentence."""
        metric = chrf_for(language) if self.quality == "chrf" else bleu_for(language)
        metric.effective_order = True  # type: ignore[union-attr]  # of BLEU: short sentences have no 4-grams
        return [metric.sentence_score(i.prediction, [i.reference or ""]).score / 100 for i in instances]

    def reward(self, quality: float, lag: float | None) -> float:
        """lag: LAAL in ms; None: nothing was written."""
        early = 0.0 if lag is None or quality < self.floor else max(0.0, 1 - max(0.0, lag) / self.most_lag)
        return quality + self.weight * early


class Samples(NamedTuple):
    """n translations, and what their decoder saw.

    frames: (n, T, width); lengths: (n,) how many of them are no padding.
    tokens: (n, L) without <sos>, filled up with <eos>; free: (n, L) which of them the model chose.
    chunks: (n,) how many wait tokens each has.
    log_p: (n, L) log p of the tokens when they were sampled; 0 where the model did not choose.
    """

    frames: Tensor
    lengths: Tensor
    tokens: Tensor
    free: Tensor
    chunks: Tensor
    log_p: Tensor


@dataclass
class _Text:
    """A translation that is being written. free: which tokens were drawn; waits: how many wait tokens it has."""

    tokens: list[int]
    free: list[bool]
    memory: Any
    state: DecoderState | None = None
    waits: int = 0


class Policy:
    """A decoder that writes and waits.

    decoder: ESPnet's, which sees in a whole text what it will have heard (see `restrict_decoder`).
    """

    def __init__(self, decoder: TransformerDecoder, sos: int, eos: int, lagging: Chunked) -> None:
        self.decoder, self._sos, self._eos, self._lagging = decoder, sos, eos, lagging

    def log_p(self, samples: Samples, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
        """log p of each token, (n, L), and the entropy of its distribution; 0 where the model does not choose."""
        read = torch.nn.functional.pad(samples.tokens[:, :-1], (1, 0), value=self._sos)
        logits, _ = self.decoder(samples.frames, samples.lengths, read, torch.full((len(read),), read.shape[1]))
        heard = (read == self._lagging.wait).cumsum(1) >= samples.chunks[:, None]
        scores = torch.log_softmax(self._allowed(logits / temperature, heard), -1)
        entropy = -(scores.exp() * scores.masked_fill(scores.isinf(), 0)).sum(-1)
        chosen = scores.gather(-1, samples.tokens[..., None])[..., 0]
        return chosen.masked_fill(~samples.free, 0), entropy.masked_fill(~samples.free, 0)

    @torch.no_grad()
    def sample(
        self,
        frames: Tensor,
        lengths: Tensor,
        chunks: Tensor,
        begins: Sequence[Tokens],
        most: int,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Samples:
        """Write n translations as in decoding: a wait token ends each chunk, and <eos> comes after the last one.

        frames, lengths, chunks: as in `Samples`. begins: the tokens that each begins with. most: tokens that are no
        wait tokens; a text that has as many only waits.
        """
        decoder, wait = CachedDecoder(self.decoder), self._lagging.wait
        texts = [_Text(list(begin), [False] * len(begin), decoder.memory()) for begin in begins]
        running = [row for row, length in enumerate(lengths.tolist()) if length]
        for text, length, count in zip(texts, lengths.tolist(), chunks.tolist(), strict=True):
            if not length:  # where nothing is heard, nothing is written, as in decoding
                text.tokens += [wait] * count + [self._eos]
                text.free += [False] * (count + 1)
        while running:
            last = [texts[row].waits >= int(chunks[row]) for row in running]
            reads = []
            for row, whole in zip(running, last, strict=True):
                text, heard = texts[row], int(lengths[row])
                if not whole:
                    heard = min(heard, self._lagging.after(text.waits))
                text.memory.append(frames[row, len(text.memory) : heard].float())
                new = [self._sos, *text.tokens] if text.state is None else text.tokens[-1:]
                reads.append(Read(torch.tensor(new), text.state, text.memory, False))
            log_p, states = decoder.read_together(reads)
            scores = torch.log_softmax(self._allowed(log_p / temperature, torch.tensor(last)), -1)
            drawn = torch.multinomial(scores.exp(), 1, generator=generator)[:, 0].tolist()
            for row, whole, token, state in zip(running, last, drawn, states, strict=True):
                text, full = texts[row], len(texts[row].tokens) - texts[row].waits >= most
                text.state = state
                text.tokens.append((self._eos if whole else wait) if full else token)
                text.free.append(not full)
                text.waits += text.tokens[-1] == wait
            running = [row for row in running if texts[row].tokens[-1] != self._eos]
        padded = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        tokens = padded([torch.tensor(text.tokens) for text in texts], padding_value=self._eos)
        free = padded([torch.tensor(text.free) for text in texts], padding_value=False)
        samples = Samples(frames, lengths, tokens, free, chunks, torch.zeros(()))
        return samples._replace(log_p=self.log_p(samples, temperature)[0])

    def text(self, tokens: Tensor) -> list[Tokens]:
        """What each chunk wrote, (L,) → tokens of all chunks."""
        texts: list[list[int]] = [[]]
        for token in tokens.tolist():
            if token == self._eos:
                break
            texts[-1].append(token)
            if token == self._lagging.wait:
                texts.append([])
        return [tuple(text) for text in texts]

    def _allowed(self, logits: Tensor, heard: Tensor) -> Tensor:
        """As in decoding: <eos> only once all was heard, a wait token only before. heard: (...) of logits (..., V)."""
        numbers = torch.arange(logits.shape[-1])
        never = torch.where(heard[..., None], numbers == self._lagging.wait, numbers == self._eos)
        return logits.masked_fill(never, -math.inf)


def policy_loss(
    policy: Policy, samples: Samples, advantages: Tensor, reference: Tensor, options: Options
) -> tuple[Tensor, dict[str, float]]:
    """The loss, and what is shown of it. advantages: (n,); reference: (n, L) log p by the reference model."""
    log_p, entropy = policy.log_p(samples, options.temperature)
    ratio, gain = (log_p - samples.log_p).exp(), advantages[:, None]
    clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
    tokens = samples.free.sum().clamp(min=1)  # none, if nothing was heard
    won = torch.minimum(ratio * gain, clipped * gain).masked_fill(~samples.free, 0).sum() / tokens
    away = reference - log_p
    divergence = (away.exp() - away - 1).sum() / tokens  # 0 where the model did not choose
    shown = {"entropy": float(entropy.detach().sum() / tokens), "kl": float(divergence.detach())}
    return -won + options.kl * divergence, shown


def advantages_of(rewards: Sequence[float], group: int) -> Tensor:
    """Of translations whose groups lie one after the other, (n,)."""
    found = []
    for start in range(0, len(rewards), group):
        part = rewards[start : start + group]
        found += [(reward - fmean(part)) / (pstdev(part) + 1e-6) for reward in part]
    return torch.tensor(found)


def instance_of(model: ESPnet, texts: Sequence[Tokens], ends: Sequence[float], unit: str, reference: str) -> Instance:
    """The log's entry of a translation. texts: what each chunk wrote; ends: of the chunks, ms."""
    words, committed, pieces, delays = Words(model.text, unit), Tokens(), list[str](), list[float]()
    for number, (text, end) in enumerate(zip(texts, ends, strict=True), start=1):
        committed += text
        new = words.write(committed, ends_word=True, final=number == len(texts))
        pieces, delays = pieces + new, delays + [end] * len(new)
    last = [delays[number] for number in completed_by(pieces, unit)]
    return Instance(0, "".join(pieces), last, last, len(last), reference, [""], ends[-1])


def read_training(config: Path) -> Options:
    """Raises SimulstError: an unknown option, a value of the wrong type or out of bounds."""
    return build_options(Options, read_mapping(config), str(config), "the training")


def reinforce(
    experiment: Path, checkpoint: str, data: Path, target: str, out: Path, options: Options, force: bool = False
) -> None:
    """Train a model with a wait token on lag and quality, or go on with that.

    `out` becomes an experiment like the model's, whose weights are chosen.pth; log.jsonl has a line for each update.

    data: data directory, with references.

    Raises SimulstError: the model has no wait token, or is not blockwise; `out` was begun with other options or data;
        the reward is constant, or no translation reaches the lag.
    """
    model = load(experiment, ESPnetOptions(checkpoint=checkpoint))
    lagging = model.decoder.lagging if isinstance(model.decoder, CachedDecoder) else None
    if not isinstance(lagging, Chunked):
        raise SimulstError(
            f"{experiment}: the model learnt no wait token; fine-tune it on chunks first (docs/learn.md)."
        )
    if not model.blockwise:
        raise SimulstError(
            f"{experiment}: its encoder encodes all speech again after each chunk, so the decoder would see other "
            "frames in training; give a blockwise model."
        )
    utterances, files = read_data_dir(data, target), Experiment(experiment, checkpoint)
    wanted = {"model": str(experiment), "files": digest_of_files(files.files()), "data": str(data), **asdict(options)}
    del wanted["updates"], wanted["save"]
    with locked(out):
        begun(out / RECORD, wanted, (LOG, CHECKPOINT, RESULT), force)
        write_atomically(out / RECORD, json.dumps(wanted, indent=1))
        for file in (CONFIG, files.config.get("bpemodel")):
            if file:
                (out / Path(file).name).write_bytes(files.read(file))
        _Training(model, lagging, files, utterances, target, out, options).run()


class _Training:
    """Training in a folder."""

    def __init__(
        self,
        model: ESPnet,
        lagging: Chunked,
        files: Experiment,
        utterances: Sequence[Utterance],
        target: str,
        out: Path,
        options: Options,
    ) -> None:
        self._model, self._utterances, self._out, self._options = model, utterances, out, options
        self._target, self._unit, self._files = target, unit_of(target), files
        self._grid = Grid(lagging.first_ms, lagging.ms)
        decoder = decoder_of(files.config, files.weights(), model.vocabulary, model.encoder.width)
        vocabulary = model.vocabulary
        self._policies = []
        for part in (decoder, copy.deepcopy(decoder)):
            restrict_decoder(part, lagging)
            self._policies.append(Policy(part, vocabulary.sos, vocabulary.eos, lagging))
        self._policy, self._reference = self._policies
        self._optimiser = torch.optim.Adam(decoder.parameters(), options.learning_rate, betas=(0.9, 0.98))
        self._said: set[str] = set()
        self._still = 0  # updates without a difference between rewards
        self._early = False  # whether a translation was ever early enough

    def run(self) -> None:
        done = self._resumed()
        with tqdm(total=self._options.updates, initial=done, unit="update", desc=self._out.name) as bar:
            for number in range(done, self._options.updates):
                line = {"update": number + 1, **self._update(number)}
                with (self._out / LOG).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                shown = (f"{key} {value:.3g}" for key, value in line.items() if key not in ("update", "empty"))
                bar.set_postfix_str(", ".join(shown), refresh=False)
                bar.update()
                if (number + 1) % self._options.save == 0 or number + 1 == self._options.updates:
                    self._save(number + 1)
        print(f"{self._out}: {self._options.updates} updates, weights in {RESULT}")

    def _update(self, number: int) -> dict[str, float]:
        options, generator = self._options, torch.Generator().manual_seed(self._options.seed * 1_000_003 + number)
        chosen = torch.randperm(len(self._utterances), generator=generator)[: options.batch].tolist()
        samples, instances = self._written([self._utterances[one] for one in chosen], number, generator)
        qualities = options.qualities(instances, self._target)
        lags = [(instance_latency(instance, self._unit) or {}).get("LAAL") for instance in instances]
        rewards = [options.reward(quality, lag) for quality, lag in zip(qualities, lags, strict=True)]
        self._check(rewards, qualities, instances, number)
        advantages = advantages_of(rewards, options.group)
        with torch.no_grad():
            reference, _ = self._reference.log_p(samples, options.temperature)
        for _ in range(options.passes):
            loss, shown = policy_loss(self._policy, samples, advantages, reference, options)
            self._optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._policy.decoder.parameters(), 1.0)
            self._optimiser.step()
        empty_texts = fmean(not instance.delays for instance in instances)
        self._tell_of_collapse(empty_texts, instances, shown["entropy"])
        line = {"reward": fmean(rewards), "quality": fmean(qualities)}
        line |= {"LAAL": fmean(one for one in lags if one is not None)} if empty_texts < 1 else {}
        length = fmean(instance.prediction_length for instance in instances)
        return {**line, "length": length, "empty": empty_texts, **shown}

    def _written(
        self, utterances: Sequence[Utterance], number: int, generator: torch.Generator
    ) -> tuple[Samples, list[Instance]]:
        """Translations of each utterance, one group after the other, and what the log would say of them."""
        group, lags = self._options.group, list(self._model.vocabulary.lags.values())
        audio = [load_audio(one.wav, one.start, one.end) for one in utterances]
        frames = [torch.cat(encode_whole(self._model, one)).clone() for one in audio]  # no tensors of inference
        ends = [[*self._grid.ends(one.seconds * 1000), one.seconds * 1000] for one in utterances]
        begins = [lags[(number + place) % len(lags)] for place in range(len(utterances))]
        repeated = torch.arange(len(utterances)).repeat_interleave(group)
        samples = self._policy.sample(
            torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)[repeated],
            torch.tensor([len(one) for one in frames])[repeated],
            torch.tensor([len(one) - 1 for one in ends])[repeated],
            [begins[one] for one in repeated.tolist()],
            max(8, int(self._model.search.length_ratio * max(map(len, frames)) / 2)),
            self._options.temperature,
            generator,
        )
        instances = [
            instance_of(self._model, self._policy.text(row), ends[one], self._unit, utterances[one].reference)
            for row, one in zip(samples.tokens, repeated.tolist(), strict=True)
        ]
        return samples, instances

    def _check(
        self, rewards: Sequence[float], qualities: Sequence[float], instances: Sequence[Instance], number: int
    ) -> None:
        """Raise SimulstError if there is nothing to learn."""
        options, group = self._options, self._options.group
        apart = [max(rewards[n : n + group]) - min(rewards[n : n + group]) for n in range(0, len(rewards), group)]
        self._still = 0 if max(apart) > 1e-9 else self._still + 1
        if self._still == PATIENCE:
            raise SimulstError(
                f"{self._out}: for {PATIENCE} updates, all translations of an utterance had the same reward, so that "
                "nothing is learnt; raise 'temperature' or 'group', or begin with a model that translates."
            )
        good = [value >= options.floor for value in qualities]
        self._early |= any(r > q for r, q in zip(rewards, qualities, strict=True)) or not options.weight
        if number + 1 == PATIENCE and any(good) and not self._early:
            raise SimulstError(
                f"{self._out}: no translation has a lag below {options.most_lag:g} ms; raise 'most_lag', or give a "
                "model with shorter chunks."
            )
        if number + 1 == PATIENCE and not any(good):
            self._say(f"no translation has a quality of {options.floor:g}, so the lag does not count; lower 'floor'.")

    def _tell_of_collapse(self, empty_texts: float, instances: Sequence[Instance], entropy: float) -> None:
        lengths = {instance.prediction_length for instance in instances}
        if empty_texts > 0.5:
            self._say("most translations are empty, the model only waits; raise 'floor' or 'kl', lower 'weight'.")
        elif len(lengths) == 1 and len(instances) > self._options.group:
            self._say("all translations have one length; raise 'kl', or lower 'learning_rate'.")
        if entropy < 0.01:
            self._say("the model hardly varies any more; raise 'kl' or 'temperature', or stop here.")

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            tqdm.write(f"{self._out}: {sentence}")

    def _save(self, done: int) -> None:
        decoder = self._policy.decoder.state_dict()
        state = {"done": done, "decoder": decoder, "optimiser": self._optimiser.state_dict()}
        save_atomically(self._out / CHECKPOINT, state)
        whole = self._files.weights() | {f"decoder.{name}": tensor for name, tensor in decoder.items()}
        save_atomically(self._out / RESULT, whole)

    def _resumed(self) -> int:
        """How many updates are done."""
        file = self._out / CHECKPOINT
        if not file.is_file():
            (self._out / LOG).unlink(missing_ok=True)
            return 0
        state = torch.load(file, weights_only=True)
        self._policy.decoder.load_state_dict(state["decoder"])
        self._optimiser.load_state_dict(state["optimiser"])
        lines = (self._out / LOG).read_text(encoding="utf-8").splitlines()[: state["done"]]
        write_atomically(self._out / LOG, "".join(f"{line}\n" for line in lines))
        return int(state["done"])
