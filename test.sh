#!/usr/bin/env bash
# Sets up the environment if it is absent, checks the code's form and types, and runs the tests.
#   ./test.sh [pytest options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
tools/install.sh
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
.venv/bin/python -m ruff check .
.venv/bin/python -m mypy
exec .venv/bin/python -m pytest "$@"
