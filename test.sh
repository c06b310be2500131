#!/usr/bin/env bash
# Sets up the environment if it is absent, checks the code's form and types, and runs the tests, several at once.
#   ./test.sh [core] [pytest options, such as -n 0 for one after the other]
# core: only the tests of the core, whose folders are in tests/test_structure.py, without checks of form and types.
# Up to five tests that fail run once more, alone; those that pass then are named, and do not count as failures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
cores() { .venv/bin/python -c "from simulst.machine.threads import available_cores; print(available_cores())"; }
# What numba compiles for a minute in a fresh checkout: once, by a test that needs all of it, and not in each worker.
compile_kernels() {
    compgen -G "simulst/kernels/__pycache__/*.nbc" > /dev/null ||
        .venv/bin/python -m pytest -n 0 tests/models/espnet/test_without_kernels.py > /dev/null || true
}
if [ "${1:-}" = core ]; then
    shift
    tools/install.sh
    rooms=$(cd tests && ../.venv/bin/python -c "from test_structure import CORE; print(*(f'tests/{room}' for room in CORE))")
    # shellcheck disable=SC2086 # a list
    set -- -m "not long" tests/test_*.py $rooms "$@"
    compile_kernels
    workers=$(($(cores) + 1))
else
    tools/install.sh --scoring
    # Beside the checks. What pytest compiles is used by all workers, too.
    compile() {
        compile_kernels
        [ -d tests/__pycache__ ] || .venv/bin/python -m pytest -n 0 --collect-only > /dev/null || true
    }
    compile &
    .venv/bin/python -m ruff check .
    # What servers of `simulst verify` compile, where they keep it: here, as `compile` takes longer than the type check.
    [ -d .venv/numba ] || NUMBA_CACHE_DIR=.venv/numba .venv/bin/python -c "import librosa; librosa.resample, librosa.util.localmax"
    .venv/bin/python -m mypy
    wait $!
    workers=$(($(cores) + 2))
fi
# More than processors, as some tests wait for processes to start.
workers=$((workers < 8 ? workers : 8))
# A file's tests share its fixtures, so they go to one worker; tests/conftest.py puts the slow files first.
set -- -n "$workers" --dist loadfile --no-loadscope-reorder "$@"
# Options that end the tests at a failure, or choose them by earlier ones: no second run.
if [[ " $* " =~ \ (-[a-z]*x\ |--(exitfirst|maxfail|lf|last-failed|ff|failed-first|sw|stepwise)) ]]; then
    exec .venv/bin/python -m pytest "$@"
fi
failures=.pytest_cache/v/cache/lastfailed # pytest's record, as JSON
rm -f "$failures"
status=0
.venv/bin/python -m pytest "$@" || status=$?
[ "$status" = 1 ] && [ -f "$failures" ] || exit "$status" # other numbers: nothing was tested to the end
mapfile -t failed < <(.venv/bin/python -c "import json; print(*json.load(open('$failures')), sep='\n')")
[ "${#failed[@]}" -le 5 ] || exit 1
echo "What failed runs once more, alone."
.venv/bin/python -m pytest "$@" --last-failed -n 0 || exit 1
[ "$(< "$failures")" = "{}" ] || exit 1 # one of them was not found again
for test in "${failed[@]}"; do
    echo "$test failed beside other tests and passed alone: it depends on a quiet machine, and is to be mended."
done
