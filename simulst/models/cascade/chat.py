"""What language models are told: an instruction, examples, the sentences before, and the one to translate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from simulst.background import NOTHING, Background
from simulst.errors import SimulstError, first_line
from simulst.hypotheses import Tokens
from simulst.languages import unit_of
from simulst.models.cascade.translators import Past, Translator
from simulst.words import split

INSTRUCTION = "Translate from {source} to {target}. Write the translation and nothing else."

MARK = "\ue000"  # a character of nobody, which stands for a message

REMEDY = "give it fewer examples, less history or shorter sentences (most_words)"


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
        instruction = instructed(self.instruction, source, target, background)
        shown = [*((example["source"], example["target"]) for example in self.examples), *past]
        messages = [{"role": "system", "content": instruction}]
        for asked, answered in shown:
            messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
        return [*messages, {"role": "user", "content": sentence}]


@dataclass(frozen=True)
class Prompt:
    """The tokens of a chat, up to where the model's answer begins, and where its last message stands.

    begin, end: of its tokens, if they are asked for.
    ends: the number of its characters up to the end of each of them.
    words: the word (character of zh, ja, ...) of each of them, counted from 0.
    """

    tokens: Tokens
    begin: int = 0
    end: int = 0
    ends: tuple[int, ...] = ()
    words: tuple[int, ...] = ()


class Chat:
    """What the tokeniser of a language model says of its chats.

    path: of the model, for errors. named: the tokens that end a text, as generation_config.json names them.
    ends: the tokens that end an answer. never: tokens that must not be written.

    Raises SimulstError: the model does not chat, or nothing names an end.
    """

    def __init__(self, path: Path, tokenizer: Any, named: int | list[int] | None) -> None:
        self.path, self.tokenizer = path, tokenizer
        if not tokenizer.chat_template:
            raise SimulstError(f"{path}: the tokeniser has no chat template; give a model that was trained to chat.")
        ends = {*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id} - {None}
        if not ends:
            raise SimulstError(f"{path}: generation_config.json names no eos_token_id; add it.")
        # A sentence's translation is one line. What follows it would be an explanation.
        texts = tokenizer.batch_decode([[number] for number in range(len(tokenizer))])
        lines = {number for number, text in enumerate(texts) if "\n" in text}
        self.ends: Tokens = tuple(sorted(ends | lines))
        self.never: Tokens = tuple(set(tokenizer.all_special_ids) - set(self.ends))

    def text(self, tokens: Tokens) -> str:
        """Plain text; a character cut in two ends in U+FFFD."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def spelled(self, text: str) -> Tokens:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def between(self, language: str) -> Tokens:
        """The tokens between two sentences of a language."""
        apart = unit_of(language) == "word" and self.text(self.spelled("a") * 2) == "aa"
        return self.spelled(" ") if apart else ()

    def prompt(self, messages: list[dict[str, str]]) -> Tokens:
        """The tokens of a chat, up to where the model's answer begins."""
        return self.spelled(self._rendered(messages))

    def placed(self, messages: list[dict[str, str]], unit: str = "") -> Prompt:
        """The same, and where the last message stands. unit: "word" or "char" of its language; "": it is not asked for.

        Raises SimulstError: the message is not found in what the template makes of it.
        """
        if not unit:
            return Prompt(self.prompt(messages))
        text, sentence = self._rendered(messages), messages[-1]["content"]
        begin = self._rendered([*messages[:-1], {**messages[-1], "content": MARK}]).find(MARK)
        last = begin + len(sentence)
        if begin < 0 or text[begin:last] != sentence:
            raise SimulstError(
                f"{self.path}: the chat template has no place for the source as it is, so no attention to it can be "
                "read; use a STOP without attention."
            )
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = enumerate(encoded["offset_mapping"])
        places = [(place, min(end, last) - begin) for place, (first, end) in spans if first < last and end > begin]
        ends = tuple(end for _, end in places)
        words = tuple(max(1, len(split(sentence[:end], unit))) - 1 for end in ends)
        return Prompt(tuple(encoded["input_ids"]), places[0][0], places[-1][0] + 1, ends, words)

    def _rendered(self, messages: list[dict[str, str]]) -> str:
        try:
            return rendered(self.path, self.tokenizer, messages)
        except SimulstError:  # the template refuses the role `system`: the first message says it
            [system, asked, *others] = messages
            first = {"role": "user", "content": f"{system['content']}\n\n{asked['content']}"}
            return rendered(self.path, self.tokenizer, [first, *others])


def rendered(path: Path, tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    """What the chat template makes of a chat, up to where the model's answer begins. path: of the model, for errors.

    Raises SimulstError: the template cannot be used.
    """
    # Models that may think before they answer are told not to; other templates do not look at it.
    options |= {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
    try:
        return str(tokenizer.apply_chat_template(messages, **options))
    except Exception as error:  # a template is a program, which may raise anything
        raise SimulstError(f"{path}: the chat template cannot be used ({first_line(error)}).") from error


def instructed(instruction: str, source: str, target: str, background: Background = NOTHING) -> str:
    """An instruction for these languages, with what is known of the recording."""
    told = instruction.replace("{source}", source).replace("{target}", target)
    if background.text or background.target_text:
        told += f"\nContext: {' '.join(dict.fromkeys(filter(None, (background.text, background.target_text))))}"
    if background.terms:
        terms = (" = ".join(dict.fromkeys(filter(None, term))) for term in background.terms)
        told += f"\nTerms: {'; '.join(terms)}"
    return told
