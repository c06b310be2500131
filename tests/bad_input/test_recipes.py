"""Bad options of the recipes, and of the benchmarks; a handful of commands as processes of their own."""

import pytest
from cases import Case, Check, all_of, table, written

RECIPES = [
    *table(
        "run.sh",
        ("--recipe none", "error: no recipe 'none'; there are: iwslt mini must_c prompts"),
        ("--recipe ../egs/mini", "error: no recipe"),
        (
            "--recipe mini/paper_c",
            "error: no recipe 'mini/paper_c'; there are: mini/extras/full_context mini/extras/guided",
        ),
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
NOT_OURS = "not the config.yaml of a simulst run"
PROCESSES = [
    Case(f"simulst translate none.wav {FAKE}", "none.wav: no such audio file"),
    Case("simulst runs score --target-lang en run", NOT_OURS, written("run/config.yaml", "3")),
    Case(
        f"simulst evaluate --data data --out out {FAKE}",
        "3 of 3 utterances failed",
        all_of(*(written(f"data/u{i}.wav", "no audio") for i in range(3))),
    ),
]


@pytest.mark.parametrize("case", PROCESSES, ids=str)
def test_processes(case: Case, check: Check) -> None:
    """As a shell starts them: what is printed while Python ends, and by other processes, counts as well."""
    check(case.in_a_process())
