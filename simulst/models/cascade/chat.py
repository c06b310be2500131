"""What language models are told: an instruction, examples, the sentences before, and the one to translate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulst.background import NOTHING, Background
from simulst.errors import SimulstError
from simulst.models.cascade.translators import Past, Translator

INSTRUCTION = "Translate from {source} to {target}. Write the translation and nothing else."


@dataclass(frozen=True, kw_only=True)
class ChatOptions(Translator):
    """Options of language models that chat.

    instruction: what the model is told; {source} and {target} stand for the languages.
    examples: translations that it is shown, as mappings with the keys `source` and `target`.
    history: so many sentences before the one to translate are shown with their translations.
    """

    instruction: str = INSTRUCTION
    examples: tuple[dict[str, str], ...] = ()
    history: Annotated[int, Field(ge=0)] = 0

    def check(self, path: Path) -> None:
        """Raises SimulstError: an example lacks something. path: of the cascade's file."""
        for example in self.examples:
            if set(example) != {"source", "target"}:
                raise SimulstError(f"{path}: an example must have the keys 'source' and 'target'; found {example!r}.")

    def messages(
        self, source: str, target: str, sentence: str, past: Past, background: Background = NOTHING
    ) -> list[dict[str, str]]:
        """The chat up to the sentence. past: earlier sentences, each with its translation."""
        instruction = self.instruction.replace("{source}", source).replace("{target}", target)
        if background.text or background.target_text:
            instruction += f"\nContext: {' '.join(filter(None, (background.text, background.target_text)))}"
        if background.terms:
            terms = (" = ".join(dict.fromkeys(filter(None, term))) for term in background.terms)
            instruction += f"\nTerms: {'; '.join(terms)}"
        shown = [*((example["source"], example["target"]) for example in self.examples), *past]
        messages = [{"role": "system", "content": instruction}]
        for asked, answered in shown:
            messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
        return [*messages, {"role": "user", "content": sentence}]
