"""eSpeak NG's voices."""

from __future__ import annotations

import pytest

from simulst.errors import SimulstError
from speech import UNSEEN_VOICES, VOICES, espeak


@pytest.mark.parametrize("voice", [*VOICES, *UNSEEN_VOICES])
def test_every_voice_speaks(voice: str) -> None:
    with espeak() as say:
        assert 0.8 < len(say("Good morning, this is a test.", voice, 160, 50)) / 16000 < 4


def test_a_voice_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SimulstError, match=r"no voice 'en-gb\+m7'"), espeak() as say:
        say("Hello.", "en-gb+m7", 160, 50)
