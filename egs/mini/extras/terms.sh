#!/usr/bin/env bash
# Recall of rare words without and with a bonus for a recording's terms (docs/decoding.md). Needs mini's model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/training.sh
decoding_options tst-COMMON ../../conf/decode/terms.yaml ""
common_options
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "tables"

system_name=terms

dependent_defaults() { default tests tst-COMMON; }

get_ready() {
    set_places
    if runs decode; then need "$out/st/chosen.pth" "./run.sh --recipe mini --stop-stage choose"; fi
}

decode_split() {
    python ../../local/rare_words.py --data "$data/$1/$2" --target-lang "${1#*-}" --counted "$data/$1/train/text.tc.${1#*-}" \
        --out "$data/$1/context.tsv"
    decode_espnet "$1" "$2" "$out/st" chosen.pth "$decodings" --context "$data/$1/context.tsv"
}

runs_of() { echo "$out/terms/$1"; }
score_split() { score "$1" "$(runs_of "$1" "$2")" --context "$data/$1/context.tsv"; }
say_more() { :; }

begin "$@"
run_stages
