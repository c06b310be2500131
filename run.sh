#!/usr/bin/env bash
# Runs a recipe, setting up the environment first:
#   ./run.sh [--recipe mini] [--stage NAME] [--stop-stage NAME] [options of the recipe: ./run.sh --recipe mini --help]
# A recipe is a folder of egs/, whose run.sh is run, or one of its other scripts: mini/paper_d, mini/extras/terms.
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
folder=${recipe%%/*}
script=egs/$recipe.sh
if [ "$folder" = "$recipe" ]; then script=egs/$recipe/run.sh; fi
if ! [[ $recipe =~ ^[^/.]+(/[^/.]+)*$ && -x $script ]]; then
    known=$(cd egs && echo */run.sh)
    if [[ $folder =~ ^[^/.]+$ && -x egs/$folder/run.sh ]]; then
        known=$(cd egs && find "$folder" -maxdepth 2 -name "*.sh" -executable | LC_ALL=C sort | paste -sd " ")
    fi
    known=${known//\/run.sh/}
    echo "error: no recipe '$recipe'; there are: ${known//.sh/}" >&2
    exit 1
fi
if ! [[ " ${arguments[*]} " =~ " -h "|" --help " ]]; then tools/install.sh; fi
exec "$script" "${arguments[@]}"
