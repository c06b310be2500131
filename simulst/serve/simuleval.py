"""simulst as a SimulEval agent.

    simuleval --agent simulst/serve/simuleval.py --model DIR --source-lang es --target-lang en \\
        --decoding conf/decode/la2_1000ms.yaml --source source.txt --target target.txt \\
        --source-segment-size 100 --output OUT

(or `--agent-class simulst.serve.simuleval.StreamAgent`). `simulst export` writes source.txt and target.txt.
Targets counted in characters (zh, ja, ...) also need SimulEval's `--eval-latency-unit char`.
"""

from __future__ import annotations

import logging
from argparse import ArgumentParser, Namespace

import numpy as np
import soxr
from simuleval.agents import SpeechToTextAgent
from simuleval.agents.actions import Action, ReadAction, WriteAction
from simuleval.agents.states import AgentStates
from simuleval.data.segments import Segment
from simuleval.utils import entrypoint

from simulst.background import NOTHING, known_of_all
from simulst.config import load_decoding
from simulst.errors import SimulstError, one_sentence
from simulst.languages import unit_of
from simulst.models.registry import check_languages, load_model, parse_options
from simulst.streams import open_stream, skipped_steps

logger = logging.getLogger(__name__)


@entrypoint
class StreamAgent(SpeechToTextAgent):
    """Decodes one utterance after the other. SimulEval cuts the audio into segments and passes them on.

    Predictions and delays equal those of `simulst evaluate` on the same audio, if it is 16 kHz mono and the positions
    at which READ decodes are multiples of the segment size. SimulEval gives each word the end time of a segment. So
    delays are rounded up to segments if READ decodes between them. This also happens once an utterance fills the
    model's window, because the window moves by parts of a segment. Other sample rates are resampled on the fly. The
    filter holds the newest samples back, which adds one or two segments of 100 ms (`simulst export` avoids this). The
    words are always the same.

    Raises SimulstError: the errors of `load_model`, `load_decoding`, `known_of_all` and `Stream`; SimulEval counts
        another latency unit; audio with several channels.
    """

    def __init__(self, args: Namespace) -> None:
        # Without SimulEval's parser there may be no defaults.
        self._unit = getattr(args, "unit", None) or unit_of(args.target_lang)
        counted = getattr(args, "eval_latency_unit", None) or getattr(args, "latency_unit", self._unit)
        if counted not in (self._unit, "spm"):
            raise SimulstError(
                f"--eval-latency-unit is '{counted}', but the agent writes {self._unit}s for '{args.target_lang}'; "
                f"give --eval-latency-unit {self._unit}, or another --unit."
            )
        options = parse_options(getattr(args, "model_option", None) or [])
        if getattr(args, "device", "cpu") != "cpu":
            options.setdefault("device", args.device)
        self._decoding = load_decoding(args.decoding)
        self._languages = args.source_lang, args.target_lang
        context = getattr(args, "context", None)
        self._background = known_of_all(context) if context else NOTHING
        check_languages(args.model, options, *self._languages)
        self._model = load_model(args.model, **options)
        super().__init__(args)  # calls reset()

    @classmethod
    def from_args(cls, args: Namespace) -> StreamAgent:
        """What SimulEval's command calls: from here on, bad input ends it in one sentence, not in a stack trace."""
        one_sentence("simuleval: ")
        return cls(args)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add simulst's options, named as in `simulst evaluate`. SimulEval has none of these names."""
        parser.add_argument(
            "--model", required=True, help="Model folder or file, or the name of a class (module:Name)."
        )
        parser.add_argument("--source-lang", required=True, help="Language spoken, such as es.")
        parser.add_argument("--target-lang", required=True, help="Language written, such as en.")
        parser.add_argument("--decoding", required=True, help="Decoding configuration (YAML).")
        parser.add_argument("--unit", choices=["word", "char"], help="Latency unit; by default by target language.")
        parser.add_argument(
            "--model-option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="Option of the model family, such as compute_type=float32 (repeatable).",
        )
        parser.add_argument("--context", help="Table (TSV); its line * says what is known of all recordings.")

    def reset(self) -> None:
        """Begin a new utterance; SimulEval calls this at the start and after each one."""
        super().reset()
        self._stream = open_stream(
            self._model, self._decoding, *self._languages, self._unit, background=self._background
        )
        self._resampler: soxr.ResampleStream | None = None
        self._pushed = 0  # how many items of states.source have been pushed

    def policy(self, states: AgentStates | None = None) -> Action:
        """Push what is new in the source; write what became final. states: our own, which SimulEval need not give."""
        if not self.states.source:
            return WriteAction("", finished=True) if self.states.source_finished else ReadAction()
        finished = self.states.source_finished
        words = self._stream.push(self._new_samples(finished), finished)
        if finished and (slow := skipped_steps(self._stream)):
            logger.warning("%s", slow)
        text = "".join(word.text for word in words)
        return WriteAction(text, finished) if text or finished else ReadAction()

    def pop(self, states: AgentStates | None = None) -> Segment:
        """What was written. SimulEval 1.1.4's default for its language is a type, which its remote agent can't send."""
        segment = super().pop(states)
        if not isinstance(segment.tgt_lang, str):
            segment.tgt_lang = None
        return segment

    def to(self, device: str, *args: object, **kwargs: object) -> None:
        """Do nothing: the model stays on its device (--device or --model-option device=...)."""

    def _new_samples(self, finished: bool) -> np.ndarray:
        """The samples that have come since the last call, (n,) float32, at the model's sample rate."""
        samples = np.asarray(self.states.source[self._pushed :], dtype=np.float32)
        self._pushed = len(self.states.source)
        if samples.ndim > 1:
            raise SimulstError(
                f"the source has {samples.shape[1]} channels and SimulEval does not mix them; "
                "convert it to mono, for example with simulst export."
            )
        rate = self.states.source_sample_rate
        if rate == self._model.sample_rate:
            return samples
        if self._resampler is None:
            self._resampler = soxr.ResampleStream(rate, self._model.sample_rate, 1, dtype="float32")
        return self._resampler.resample_chunk(samples, last=finished)
