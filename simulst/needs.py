"""What a decoding configuration may need of a model. When a stream is opened, this is checked against the session."""

from __future__ import annotations

from enum import Enum


class Need(Enum):
    """A feature of a model. The value is its name in error messages."""

    AUDIO = "the audio of the stream"  # always there: the loop passes it to the policies that need it
    BLOCKS = "an encoder that works in blocks"
    STEPS = "a decoder that is driven token by token"
    INCREMENTAL = "a search that goes on from one block of speech to the next"
    DRAFT = "a decoder that scores a draft of its text in one pass"
    KEPT_BEAM = "hypotheses that are kept from one block of speech to the next"
    LIBRARY_SEARCH = "the beam search of the model's own library"
    CTC = "a CTC layer for the translation"
    ATTENTION = "the decoder's attention to the source"
    ATTENTION_OF_STEPS = "the decoder's attention at all steps before"
    DISTRIBUTION = "the decoder's distribution of the next token"
    DIVERGENCE = "a head that foresees divergence ('simulst train divergence' makes one)"
    SOURCE_WORDS = "a source text whose words a recogniser commits"
    END_TIMES = "the times at which tokens were spoken"
    LEAVING = "a window that audio can leave whose words are no longer needed"
