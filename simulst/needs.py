"""What a decoding configuration may need of a model; compared with what a session gives when a stream is opened."""

from __future__ import annotations

from enum import Enum


class Need(Enum):
    """The name of something, in the words of an error."""

    AUDIO = "the audio of the stream"  # the loop gives it to the policies that need it
    BLOCKS = "an encoder that works in blocks"
    STEPS = "a decoder that is driven token by token"
    LIBRARY_SEARCH = "the beam search of the model's own library"
    CTC = "a CTC layer for the translation"
    ATTENTION = "the decoder's attention to the source"
    END_TIMES = "the times at which tokens were spoken"
