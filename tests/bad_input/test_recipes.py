"""Bad options of the recipes, and of the benchmarks; a handful of commands as processes of their own."""

import pytest
from cases import Case, Check, all_of, table, written

RECIPES = [
    *table(
        "run.sh",
        ("--recipe none", "error: no recipe 'none'; there are: mini must_c prompts"),
        ("--recipe ../egs/mini", "error: no recipe"),
        ("--recipe ''", "error: no recipe"),
        ("--recipe", "error: no recipe ''; there are"),
    ),
    *table(
        "egs/mini/run.sh",
        ("--sise large", "error: unknown option --sise; see"),
        ("--size huge", "error: no size 'huge'; there are small and large"),
        ("--size", "error: --size needs a value"),
        ("en-de", "error: unexpected argument 'en-de'"),
        ("-x", "error: unexpected argument '-x'"),
        ("--stage foo", "error: --stage 'foo' is no stage's number"),
        ("--stage -1", "error: --stage '-1' is no stage's number"),
        ("--stage 1.5", "error: --stage '1.5' is no stage's number"),
        ("--stage 99999", "error: --stage '99999' is no stage's number"),
        ("--stop-stage ''", "error: --stop-stage '' is no stage's number"),
        ("--stage 12", "error: there is no stage from 12 to 10 in this recipe"),
        # Far above the last stage, so that a new stage does not make this a command that runs.
        ("--stage 98 --stop-stage 99", "error: there is no stage from 98 to 99 in this recipe"),
        ("--stage 12 --stop-stage 12 --tau 50", "error: --tau 50: give frames of 10 ms, a multiple of 4"),
        ("--stage 16 --stop-stage 16 --ratios ''", "error: --ratios '': stage 16 has a table of them; give values"),
        (
            "--stage 15 --stop-stage 15 --exp none",
            "error: none/en-de/prefix: no such folder; run stages 11 to 14 first",
        ),
        ("--stage 12 --stop-stage 12 --tau ten", "error: --tau 'ten' is not a whole number; see"),
        ("--stage 12 --stop-stage 12 --tau 0", "error: --tau 0: give frames"),
        (
            "--stage 12 --stop-stage 12 --tau 48",
            "error: --units 100: give frames of 10 ms, a multiple of 4 and at most --tau",
        ),
        ("--stage 15 --stop-stage 15 --units '100 50'", "error: --units 50: give frames of 10 ms, a multiple of 4"),
        ("--train 5e3", "error: --train '5e3' is not a whole number; see"),
        ("--train -1", "error: --train '-1' is not a whole number; see"),
        ("--path x", "error: unknown option --path"),
        ("--PATH x", "error: unknown option --PATH"),
        ("--= x", "error: unknown option --="),
        ("-- x", "error: unknown option --"),
        ("--a[0] x", "error: unknown option --a[0]"),
    ),
    *table(
        "egs/must_c/run.sh",
        ("--pair en-de", "error: unknown option --pair"),
        (
            "--stage 12 --stop-stage 12 --pairs 'en-de en-fr'",
            "error: stages 11 to 16 and 18 are for one pair of languages",
        ),
        ("--stage 0 --stop-stage 0", "error: there is no stage from 0 to 0"),
    ),
    *table(
        "egs/prompts/run.sh",
        ("--stage 3 --stop-stage 7", "error: there is no stage from 3 to 7"),
        ("--full maybe", "error: unexpected argument 'maybe'"),
        ("--languages de", "error: unknown option --languages"),
    ),
    *table(
        "egs/voices/run.sh",
        ("--stage 3 --stop-stage 7", "error: there is no stage from 3 to 7"),
        ("--pair en-de", "error: unknown option --pair"),
        ("--unstable", "error: --unstable is only for --training cascade, and this is --training none"),
        ("--training finetune --translator cat", "error: --translator is only for --training cascade"),
        ("--training scratch --readings x", "error: --readings 'x' is not a whole number; see"),
        ("--training cascade --readings 1", "error: --readings is only for --training scratch"),
        ("--training scratch --model small", "error: --model is not for --training scratch, which begins without"),
        ("--training cascade --pairs en-fr", "error: --pairs 'en-fr': the default translator writes Spanish; give"),
        ("--config ../../conf/train/mini_st.yaml", "error: --config is not for --training none, which trains nothing"),
        ("--training all", "error: no training 'all'; there are none, cascade, finetune and scratch"),
    ),
]
BENCHMARKS = [
    *table(
        "benchmarks/engine_vs_espnet.py",
        ("--experiment nowhere", "nowhere/chosen.pth is missing; run ./run.sh"),
        ("--seconds 0", "'--seconds': 0.0 is not in the range", lambda: None, 2),
        ("--beam 0", "'--beam'", lambda: None, 2),
        ("--precision int4", "'--precision'", lambda: None, 2),
    ),
    *table(
        "benchmarks/long_stream.py",
        ("--experiment nowhere", "nowhere/chosen.pth: missing; run ./run.sh --recipe mini"),
        ("--family whisper --experiment nowhere", "nowhere: missing; run ./run.sh --recipe prompts"),
        ("--family huggingface --experiment nowhere", "makes its own tiny model; leave it out"),
        ("--minutes 0", "'--minutes'", lambda: None, 2),
        ("--threads 0", "'--threads'", lambda: None, 2),
    ),
    *table(
        "benchmarks/prefix_extraction.py",
        ("--model nowhere", "nowhere: no such model folder"),
        ("--model offline --data nowhere", "nowhere: no such data directory"),
        ("--model offline --checkpoint no.pth", "offline: the file no.pth is missing"),
        ("--tau 0", "'--tau'", lambda: None, 2),
    ),
    *table(
        "benchmarks/whisper_talks.py",
        ("--out out --sets speech", "--sets: there is no set speech; choose from prompts, natural"),
        ("--out out --model nowhere", "nowhere: no such model folder"),
        ("--out out --decodings none.yaml", "none.yaml"),
        ("--out out --minutes 0", "'--minutes'", lambda: None, 2),
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
