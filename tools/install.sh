#!/usr/bin/env bash
# Makes the environment .venv beside this folder. Does nothing where it is already right. Interrupted, it goes on when it is
# called again.
#   PYTHON=python3.11 tools/install.sh      choose the interpreter (3.11 to 3.13)
#   tools/install.sh --scoring              also .venv-scoring, with COMET; torch is that of .venv
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
venv=.venv
stamp=$venv/.installed
log=$venv/install.log

want=$(cat tools/requirements.txt tools/requirements-nodeps.txt tools/constraints.txt setup.py tools/install.sh | sha256sum | cut -d' ' -f1)
# Of a checkout that was moved or copied, the environment has the simulst of the old place.
ours='import os, simulst; assert os.path.samefile(os.path.dirname(simulst.__file__), "simulst")'
is_right() { [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && "$venv/bin/python" -I -c "$ours" 2>/dev/null; }

case ${1:-} in
    --scoring) ;;
    "") if is_right; then exit 0; fi ;;
    *) echo "error: tools/install.sh has no option '$1'; it has --scoring." >&2; exit 2 ;;
esac

if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; then
    echo "error: $python is $("$python" --version 2>&1); set PYTHON to a Python 3.11, 3.12 or 3.13." >&2
    exit 1
fi

# Two at once, in two shells, would break each other's environment.
mkdir -p "$venv"
exec 9> "$venv/.lock"
held=0
flock --nonblock 9 || held=$?
case $held in
    0) ;;
    1) echo "tools/install.sh: waiting for another one that makes $venv"; flock 9 ;;
    *) echo "tools/install.sh: no locks on this disk; start no second one meanwhile" >&2 ;;
esac

say() { printf '%2d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$1"; }

# Of pip's output on stdin: the packages of 100 MB and more, and when unpacking begins. A dot every ten seconds without.
follow() {
    local line status names dots=false
    while true; do
        status=0
        IFS= read -r -t 10 line || status=$?
        if [ $status -gt 128 ]; then
            printf .
            dots=true
            continue
        fi
        [ $status = 0 ] || break
        case $line in
            *Downloading*" ("*[0-9][0-9][0-9]*" MB)"* | *Downloading*" GB)"*) line=${line##*/} ;;
            "Installing collected packages: "*)
                IFS=, read -ra names <<< "$line"
                [ ${#names[@]} -gt 1 ] || continue
                line="Unpacking ${#names[@]} packages" ;;
            *) continue ;;
        esac
        if $dots; then echo; fi
        dots=false
        say "  ${line##*Downloading }"
    done
    if $dots; then echo; fi
}

# step TITLE COMMAND...: runs it with all that it prints in the log.
step() {
    say "$1"
    shift
    if ! "$@" 2>&1 | tee -a "$log" | follow; then
        echo "error: '$*' failed; all that it printed is in $log, which ends with:" >&2
        sed 's/\x1b\[[0-9;]*m//g; /WARNING: Location .* is ignored/d' "$log" | tail -n 12 >&2
        exit 1
    fi
}

# The user's settings for pip that would install elsewhere are not for this environment.
export PIP_USER=0
unset PIP_TARGET PIP_PREFIX PIP_ROOT

trap 'echo; echo "tools/install.sh: interrupted; call it again to go on" >&2; exit 130' INT
pip=("$venv/bin/python" -m pip --disable-pip-version-check install --progress-bar off)

everything() {
    echo "tools/install.sh: making $venv (the first time about 4 minutes and 6 GB; a first run of mini makes it 8 GB)"
    rm -f "$stamp"
    : > "$log"
    "$venv/bin/python" -m pip --version >> "$log" 2>&1 || step "An empty environment" "$python" -m venv "$venv"
    step "Packages" "${pip[@]}" -r tools/requirements.txt -c tools/constraints.txt
    step "ESPnet and SimulEval" "${pip[@]}" --no-deps -r tools/requirements-nodeps.txt
    # The build tools are in the environment already; building apart from it would fetch others.
    step "simulst" "${pip[@]}" --no-deps --no-build-isolation --editable .
    step "Trying what was installed" "$venv/bin/python" -c \
        'import ctranslate2, espnet2, simuleval, simulst, torch, torchaudio'
    echo "$want" > "$stamp"
}

# COMET wants older versions of some packages; what .venv-scoring has not, it takes from .venv.
scoring() {
    local place=.venv-scoring wanted packages
    packages=$(realpath "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')")
    wanted="$(sha256sum tools/requirements-scoring.txt | cut -d' ' -f1) $packages"
    if [ "$(cat "$place/.installed" 2>/dev/null)" = "$wanted" ]; then return; fi
    echo "tools/install.sh: making $place (a minute and 330 MB)"
    log=$place/install.log
    rm -rf "$place"
    mkdir -p "$place"
    step "An empty environment" "$venv/bin/python" -m venv "$place"
    echo "$packages" > "$(echo "$place"/lib/python3.*/site-packages)/simulst-venv.pth"
    pip=("$place/bin/python" -m pip --disable-pip-version-check install --progress-bar off)
    step "COMET" "${pip[@]}" --no-deps -r tools/requirements-scoring.txt
    step "Trying what was installed" "$place/bin/python" -W ignore -c 'import comet.cli.score'
    echo "$wanted" > "$place/.installed"
}

if ! is_right; then everything; fi
if [ "${1:-}" = --scoring ]; then scoring; fi
say "tools/install.sh: done"
