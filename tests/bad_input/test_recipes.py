"""Bad options of the recipes, and of the benchmarks; a command in a process of its own."""

import sys

import pytest
from cases import Case, Check, emptied, table

RECIPES = [
    *table(
        "run.sh",
        ("--recipe none", "error: no recipe 'none'; there are: iwslt mini must_c prompts"),
        ("--recipe ../egs/mini", "error: no recipe"),
        ("--recipe mini/paper_c", "error: no recipe 'mini/paper_c'; there are: mini/extras/full_context"),
        ("--recipe mini/ --stage 1", "error: no recipe 'mini/'; there are: mini/extras/full_context"),
        ("--recipe", "error: no recipe ''; there are"),
    ),
    Case("egs/voices/cascade.sh --pairs en-fr", "error: --pairs 'en-fr': the default translator writes Spanish; give"),
]
BENCHMARKS = [
    *table("benchmarks/engine_vs_espnet.py", ("--experiment nowhere", "nowhere/chosen.pth is missing; run ./run.sh")),
    *table(
        "benchmarks/long_stream.py",
        ("--experiment nowhere", "nowhere/chosen.pth: missing; run ./run.sh --recipe mini"),
        ("--family whisper --experiment nowhere", "nowhere: missing; run ./run.sh --recipe prompts"),
        ("--family huggingface --experiment nowhere", "makes its own tiny model; leave it out"),
    ),
    *table(
        "benchmarks/prefix_extraction.py",
        ("--model nowhere", "nowhere: no such model folder"),
        ("--model offline --checkpoint no.pth", "offline: the file no.pth is missing"),
    ),
    *table(
        "benchmarks/whisper_talks.py",
        ("--out out --sets speech", "--sets: there is no set speech; choose from prompts, natural"),
        ("--out out --model nowhere", "nowhere: no such model folder"),
        ("--out out --decodings none.yaml", "none.yaml"),
    ),
]


@pytest.mark.parametrize("case", [*RECIPES, *BENCHMARKS], ids=str)
def test_recipes(case: Case, check: Check) -> None:
    check(case)


FAKE = "--model fake:FakeModel --source-lang es --target-lang en --decoding la2.yaml"


def test_a_process_of_its_own(check: Check) -> None:
    """As a shell starts it: what is printed while Python ends, and by other processes, counts as well."""
    command = f"{sys.executable} -m simulst evaluate --data data --out out {FAKE}"
    check(Case(command, "3 of 3 utterances failed", emptied("data/u0.wav", "data/u1.wav", "data/u2.wav")))
