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
    *table(
        "egs/mini/run.sh",
        ("--stage 'a[0]'", "error: --stage 'a[0]': there is no such stage"),
        ("--stage 12", "error: --stage '12': there is no such stage"),
        ("--stage 98 --stop-stage 99", "error: --stage '98': there is no such stage"),
        ("--tau 50", "error: unknown option --tau"),
        ("--train -1", "error: --train '-1' is not a whole number; see"),
        ("--= x", "error: unknown option --="),
        ("--a[0] x", "error: unknown option --a[0]"),
    ),
    *table(
        "egs/mini/paper_d.sh",
        ("--tau 50", "error: --tau 50: give frames of 10 ms, a multiple of 4"),
        ("--tau ten", "error: --tau 'ten' is not a whole number; see"),
        ("--ratios ''", "error: --ratios '': give values of maxratio, or none for all pairs"),
        ("--wait-encoders none", "error: --wait-encoders none: give bidirectional, unidirectional, or both"),
        (
            "--stage decode --exp none",
            "error: none/en-de/prefix/predictor: missing; ./run.sh --recipe mini/paper_d --stop-stage train makes it",
        ),
    ),
    *table(
        "egs/must_c/run.sh",
        ("--version 4", "error: --version '4': give 1 or 2 or 3 or any"),
    ),
    *table(
        "egs/prompts/run.sh",
        ("--stage 3 --stop-stage 7", "error: --stage 3: prompts needs no stage 3, tokens; it has 1 data, 5 pretrain"),
        ("--full maybe", "error: unexpected argument 'maybe'"),
    ),
    *table(
        "egs/voices/run.sh",
        ("--unstable", "error: unknown option --unstable"),
    ),
    Case("egs/voices/cascade.sh --pairs en-fr", "error: --pairs 'en-fr': the default translator writes Spanish; give"),
]
BENCHMARKS = [
    *table(
        "benchmarks/engine_vs_espnet.py",
        ("--experiment nowhere", "nowhere/chosen.pth is missing; run ./run.sh"),
        ("--seconds 0", "'--seconds': 0.0 is not in the range", lambda: None, 2),
    ),
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
    Case("simulst table nowhere", "nowhere: no such folder"),
    Case("simulst score x.log", "x.log: the log is empty", written("x.log", "")),
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
