"""Options of a search that a decoding configuration leaves open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulst.needs import Need
from simulst.search import BWBS, IBWBS, BeamSearch, JointBeamSearch, JointOptions, SearchOptions

CTC = frozenset({Need.STEPS, Need.CTC})
NO_CTC = frozenset({Need.STEPS})
CHOSEN = JointBeamSearch(beam=3, ctc_weight=0.1, length_bonus=1.0)


@pytest.mark.parametrize(
    ("given", "usual", "gives", "weights"),
    [
        (JointBeamSearch(), CHOSEN, CTC, (0.1, 1.0)),
        (IBWBS(), CHOSEN, CTC, (0.1, 1.0)),
        (BWBS(), CHOSEN, CTC, (0.1, 1.0)),
        (IBWBS(ctc_weight=0.2), CHOSEN, CTC, (0.2, 0.0)),  # they were chosen together, so neither is taken alone
        (IBWBS(length_bonus=0.5), CHOSEN, CTC, (0.3, 0.5)),
        (IBWBS(ctc_weight=0.0, length_bonus=0.0), CHOSEN, CTC, (0.0, 0.0)),
        (JointBeamSearch(), JointBeamSearch(), CTC, (0.3, 0.0)),
        (JointBeamSearch(), JointBeamSearch(), NO_CTC, (0.0, 0.0)),
        (JointBeamSearch(), BeamSearch(), NO_CTC, (0.0, 0.0)),
        (JointBeamSearch(ctc_weight=0.3), JointBeamSearch(), NO_CTC, (0.3, 0.0)),  # which is refused then
    ],
)
def test_what_is_open_is_the_models(
    given: JointOptions, usual: SearchOptions, gives: frozenset[Need], weights: tuple[float, float]
) -> None:
    filled = given.filled(usual, gives)
    assert (filled.ctc_weight, filled.length_bonus) == weights
    assert type(filled) is type(given) and filled.beam == given.beam
    more = {IBWBS: {Need.INCREMENTAL}, BWBS: {Need.KEPT_BEAM}}.get(type(given), set())
    assert filled.needs == (CTC if weights[0] else NO_CTC) | more


@pytest.mark.parametrize("given", [None, True, False])
def test_ibwbs_detects_repetitions_with_blockwise_encoders(given: bool | None) -> None:
    options = IBWBS(repetition=given)
    assert options.filled(CHOSEN, CTC | {Need.BLOCKS}).repetition is (given is not False)
    assert options.filled(CHOSEN, CTC).repetition is (given is True)


@pytest.mark.parametrize("given", [True, False])
def test_bwbs_detects_repetitions_unless_it_is_told_not_to(given: bool) -> None:
    assert BWBS().repetition
    for gives in (CTC, CTC | {Need.BLOCKS}):
        assert BWBS(repetition=given).filled(CHOSEN, gives).repetition is given


def test_the_length_is_bounded_as_is_usual_for_the_model() -> None:
    usual = JointBeamSearch(max_length_ratio=0.5)
    assert IBWBS(beam=2).filled(usual, CTC).length_ratio == 0.5
    assert JointBeamSearch(max_length_ratio=2.0).filled(usual, CTC).length_ratio == 2.0
    assert JointBeamSearch().filled(JointBeamSearch(), CTC).length_ratio == 1.0
    assert JointBeamSearch().filled(BeamSearch(), CTC).length_ratio == 1.0
    assert JointBeamSearch().label == "" == replace(JointBeamSearch(), max_length_ratio=None).label


def test_a_librarys_search_has_nothing_open() -> None:
    assert BeamSearch(beam=2).filled(CHOSEN, CTC) == BeamSearch(beam=2)
