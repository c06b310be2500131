"""What the loop asks of a session, plain or in steps, and what it says that it lacks."""

from __future__ import annotations

from typing import Any

import pytest
from fake import FakeModel, FakeSession, opening

from simulst.calls import Alone, Steps, ask
from simulst.errors import SimulstError
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.search import BeamSearch
from simulst.session import Session, find

ABOUT: Any = ((1,), BeamSearch(1), None)


class Asked:
    """A call."""

    def answer(self) -> Tokens:
        return (1, 2)


class Stepped(FakeSession):
    key = None

    def search(self, *about: Any) -> Steps[Found]:  # type: ignore[override]
        return Found([Hypothesis((yield from ask(Asked())))])


class Returning(Stepped):
    """Its search is no generator, but returns one."""

    def search(self, *about: Any) -> Steps[Found]:  # type: ignore[override]
        return super().search(*about)


def calls_of(session: Session) -> tuple[list[type], Tokens]:
    """The calls of a search, and what it finds."""
    steps, asked, answer = find(session, *ABOUT), [], None
    try:
        while True:
            call = steps.send(answer)
            asked.append(type(call))
            answer = call.answer()
    except StopIteration as end:
        return asked, end.value.best


def test_a_plain_search_is_one_call_and_steps_are_taken() -> None:
    assert calls_of(FakeSession(FakeModel(), opening())) == ([Alone], (1,))
    assert calls_of(Stepped(FakeModel(), opening())) == ([Asked], (1, 2))
    assert calls_of(Returning(FakeModel(), opening())) == ([Alone, Asked], (1, 2))


def test_what_a_session_lacks_is_one_sentence() -> None:
    session = FakeSession(FakeModel(), opening())
    with pytest.raises(SimulstError, match="FakeSession does not have the times at which tokens were spoken"):
        session.end_times((1,))
    with pytest.raises(SimulstError, match="FakeSession does not have an encoder that works in blocks; leave out"):
        Session.block_end(session, 1)
