#!/usr/bin/env bash
# Choice by regime: the best configuration for each range of LongYAAL, on a talk of the es dev prompts (docs/choosing.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
option decodings path conf/regimes.yaml "decoding configurations"
option regimes text "0-2000 2000-4000" "ranges of LongYAAL, in ms"
common_options
stage audio "the talk"
stage decode "decoding under all configurations"
stage score "scores of the sentences"
stage results "the choice, and the table that it is made from"
system_name=regimes
pairs=es-en
tests=dev

get_ready() { talks=$data/es-en/talks-dev; }
join_split() { join_prompts "$1" "$2" $talks natural; }
stage_audio() { for_each_split join_split; }
decode_split() { decode $talks "$1" "$whisper" "$decodings" "$(runs_of)"; }
score_split() { score_talks $talks "$(runs_of)"; }
runs_of() { echo "$exp/regimes"; }
say_more() {
    simulst choose "$(runs_of)" --metric LongYAAL --regimes $regimes --segmentation $talks/talks.yaml \
        --references $talks/talks.en | tee "$exp/regimes.txt"
    more+=(--text "$exp/regimes.txt")
}

begin "$@"
run_stages
