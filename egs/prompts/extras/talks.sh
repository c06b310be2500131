#!/usr/bin/env bash
# Talks: the test prompts joined to recordings of 10 minutes and more, decoded as streams, and scored by OmniSTEval.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
option pairs text "es-en fr-en it-en ru-en" "pairs to decode"
option pauses text "natural long" "pauses between the prompts: natural; long, also 30 s of silence, noise and music; or both"
option decodings path conf/talks.yaml "decoding configurations"
common_options
stage audio "talks"
stage decode "decoding under all configurations"
stage score "scores of the sentences"
stage results "curves and tables"
system_name=talks

get_ready() { tests=$pauses; }
talks_of() { echo "$data/$1/talks-$2"; }
join_split() { join_prompts "$1" tst "$(talks_of "$1" "$2")" "$2"; }
stage_audio() { for_each_split join_split; }
decode_split() { decode "$(talks_of "$1" "$2")" "$1" "$whisper" "$decodings" "$(runs_of "$1" "$2")"; }
score_split() { score_talks "$(talks_of "$1" "$2")" "$(runs_of "$1" "$2")"; }
runs_of() { echo "$exp/talks/$1-$2"; }
title_of() { echo "$title, ${1/-/→}, talks with $2 pauses"; }
say_more() { if [ "$1" = "$pictured" ]; then more+=(--curve --x LongYAAL); fi; }

begin "$@"
run_stages
