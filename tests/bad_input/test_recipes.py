"""Bad options of the recipes, and of the benchmarks; a handful of commands as processes of their own."""

import pytest
from cases import Case, Check, all_of, table, written

RECIPES = [
    *table(
        "run.sh",
        ("--recipe none", "error: no recipe 'none'; there are: iwslt mini must_c prompts"),
        ("--recipe ../egs/mini", "error: no recipe"),
        ("--recipe mini/../mini", "error: no recipe"),
        (
            "--recipe mini/paper_c",
            "error: no recipe 'mini/paper_c'; there are: mini/extras/full_context mini/extras/guided",
        ),
        ("--recipe mini/corpus", "error: no recipe 'mini/corpus'; there are: mini/extras/full_context"),
        ("--recipe mini/ --stage 1", "error: no recipe 'mini/'; there are: mini/extras/full_context"),
        ("--recipe ''", "error: no recipe"),
        ("--recipe", "error: no recipe ''; there are"),
    ),
    *table(
        "egs/mini/run.sh",
        ("--sise large", "error: unknown option --sise; see"),
        ("--size huge", "error: --size 'huge': give small or large"),
        ("--size", "error: --size needs a value"),
        ("en-de", "error: unexpected argument 'en-de'"),
        ("-x", "error: unexpected argument '-x'"),
        ("--stage foo", "error: --stage 'foo': there is no such stage"),
        ("--stage -1", "error: --stage '-1': there is no such stage"),
        ("--stage 1.5", "error: --stage '1.5': there is no such stage"),
        ("--stage 99999", "error: --stage '99999': there is no such stage"),
        ("--stage 'a[0]'", "error: --stage 'a[0]': there is no such stage"),
        ("--stop-stage ''", "error: --stop-stage '': there is no such stage"),
        ("--stage 12", "error: --stage '12': there is no such stage"),
        ("--stage 98 --stop-stage 99", "error: --stage '98': there is no such stage"),
        ("--only decode --stage 8", "error: --only stands alone"),
        ("--stage decode --stop-stage 3", "error: --stage decode comes after --stop-stage tokens"),
        ("--tau 50", "error: unknown option --tau"),
        ("--train 5e3", "error: --train '5e3' is not a whole number; see"),
        ("--train -1", "error: --train '-1' is not a whole number; see"),
        ("--path x", "error: unknown option --path"),
        ("--PATH x", "error: unknown option --PATH"),
        ("--= x", "error: unknown option --="),
        ("-- x", "error: unknown option --"),
        ("--a[0] x", "error: unknown option --a[0]"),
    ),
    *table(
        "egs/mini/paper_d.sh",
        ("--tau 50", "error: --tau 50: give frames of 10 ms, a multiple of 4"),
        ("--tau ten", "error: --tau 'ten' is not a whole number; see"),
        ("--tau 0", "error: --tau 0: give frames"),
        ("--ratios ''", "error: --ratios '': give values of maxratio, or none for all pairs"),
        ("--wait-encoders none", "error: --wait-encoders none: give bidirectional, unidirectional, or both"),
        (
            "--stage decode --exp none",
            "error: none/en-de/prefix/predictor: missing; ./run.sh --recipe mini/paper_d --stop-stage train makes it",
        ),
    ),
    *table(
        "egs/must_c/run.sh",
        ("--pair en-de", "error: unknown option --pair"),
        ("--stage 0 --stop-stage 0", "error: --stage '0': there is no such stage"),
        ("--version 4", "error: --version '4': give 1 or 2 or 3 or any"),
    ),
    Case("egs/must_c/paper_d.sh --pairs 'en-de en-fr'", "error: 'en-de en-fr': must_c/paper_d is for one pair"),
    *table(
        "egs/prompts/run.sh",
        ("--stage 3 --stop-stage 7", "error: --stage 3: prompts needs no stage 3, tokens; it has 1 data, 5 pretrain"),
        ("--full maybe", "error: unexpected argument 'maybe'"),
        ("--languages de", "error: unknown option --languages"),
    ),
    *table(
        "egs/voices/run.sh",
        ("--stage 3", "error: --stage 3: voices needs no stage 3, tokens; it has 1 data, 5 pretrain"),
        ("--pair en-de", "error: unknown option --pair"),
        ("--unstable", "error: unknown option --unstable"),
    ),
    Case("egs/voices/cascade.sh --pairs en-fr", "error: --pairs 'en-fr': the default translator writes Spanish; give"),
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
