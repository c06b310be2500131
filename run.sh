#!/usr/bin/env bash
# Runs a recipe, setting up the environment first:
#   ./run.sh [--recipe mini] [--stage N] [--stop-stage N] [options of the recipe: ./run.sh --help]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
recipe=mini
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
        --recipe) recipe=${2:-}; shift $(($# > 1 ? 2 : 1)) ;;
        --recipe=*) recipe=${1#*=}; shift ;;
        *) arguments+=("$1"); shift ;;
    esac
done
if ! [[ $recipe =~ ^[^/.][^/]*$ && -x egs/$recipe/run.sh ]]; then
    echo "error: no recipe '$recipe'; there are: $(cd egs && echo */run.sh | sed "s,/run.sh,,g")" >&2
    exit 1
fi
tools/install.sh
exec "egs/$recipe/run.sh" "${arguments[@]}"
