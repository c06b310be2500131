"""A loaded ESPnet2 model. It opens sessions, and guides for the sessions of other models."""

from __future__ import annotations

from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.models.espnet.guide import ESPnetGuide
from simulst.models.espnet.parts import Parts
from simulst.models.espnet.session import ESPnetSession
from simulst.models.espnet.vocabulary import check_trained
from simulst.models.espnet.window import WindowedESPnetSession
from simulst.opening import Opening


class ESPnet(Parts):
    """A speech translation (or recognition) model."""

    @property
    def language_pairs(self) -> dict[str, tuple[str, ...]]:
        """Spoken → written language; empty if they are not known."""
        source, target = self.languages
        return {source: (target,)} if source and target else {}

    def session(self, opening: Opening) -> ESPnetSession:
        """Open a new utterance. Raises SimulstError: a language that the model was not trained for."""
        kind = WindowedESPnetSession if self.window_frames else ESPnetSession
        return kind(self, opening, self._language(*opening.languages))

    def guide(self, opening: Opening) -> ESPnetGuide:
        """Open a new utterance for the CTC layer alone (see simulst/policy/ctc_guide.py).

        Raises SimulstError: there is no CTC layer, or a language that the model was not trained for.
        """
        if not self.has_ctc:
            raise SimulstError(
                f"{self.path}: the model has no CTC layer for the translation; train it with st_mtlalpha above 0, or "
                "give another one."
            )
        return ESPnetGuide(self, self._language(*opening.languages), opening.meter)

    def _language(self, source: str, target: str) -> Tokens:
        """The unwritten tokens that every text begins with."""
        check_trained(self.path, self.languages, source, target)
        try:
            return self.vocabulary.language_prefix(target)
        except SimulstError as error:
            raise SimulstError(f"{self.path}: {error}") from error
