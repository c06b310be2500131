#!/usr/bin/env bash
# Makes the environment .venv beside this folder. Does nothing where it is already right; safe to interrupt.
#   PYTHON=python3.11 tools/install.sh      choose the interpreter (3.11 or newer)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
venv=.venv
stamp=$venv/.installed

want=$(cat tools/requirements.txt tools/requirements-nodeps.txt tools/constraints.txt setup.py tools/install.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && "$venv/bin/python" -c 'import simulst' 2>/dev/null; then
    exit 0
fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: $python is $("$python" --version 2>&1); set PYTHON to a Python 3.11 or newer." >&2
    exit 1
fi
echo "tools/install.sh: making $venv (about 4 minutes and 6 GB the first time)"
rm -f "$stamp"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip "$@" --disable-pip-version-check; }
pip install --progress-bar on -r tools/requirements.txt -c tools/constraints.txt | { grep -v '^Requirement already' || true; }
pip install --no-deps -r tools/requirements-nodeps.txt
# The build tools are in the environment already; building apart from it would fetch others.
pip install --quiet --no-deps --no-build-isolation --editable .
"$venv/bin/python" -c 'import ctranslate2, espnet2, simuleval, simulst, torch, torchaudio'
echo "$want" > "$stamp"
echo "tools/install.sh: done"
