#!/usr/bin/env bash
# The test bed of offline models at low lag: the prompts of four languages, each alone and pooled. Choose on dev; show tst once.
# --with adds the runs of other recipes that translate to English, such as those of voices under conf/low_lag.yaml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
option pairs text "es-en it-en fr-en ru-en" "pairs to decode"
option tests text dev "splits to decode: dev, tst or both"
option decodings path conf/low_lag.yaml "decoding configurations"
option baseline text LA-2w_1000ms "run to which each pooled one is compared by a paired test" more
option with text "" "folders of further runs, one for each test set, to pool; give one split" more
common_options
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone; of the pooled sentences, too"
stage results "curve and tables"
system_name=low-lag

decode_split() { decode "$data/$1/$2" "$1" "$whisper" "$decodings" "$(runs_of "$1" "$2")"; }
runs_of() { echo "$exp/low-lag/$1-$2"; }

stage_score() {
    for_each_split score_split
    local split pair parts
    for split in $tests; do
        parts=
        for pair in $pairs; do parts+=" $(runs_of "$pair" "$split")"; done
        step "pooled $split"
        simulst runs pool $parts $with --out "$(runs_of pooled "$split")"
    done
}

stage_results() {
    for_each_split write_split
    local split run tested
    for split in $tests; do
        tested=()
        for run in "$(runs_of pooled "$split")"/*/; do
            run=$(basename "$run")
            if [ "$run" != "$baseline" ]; then tested+=(--test "$baseline" "$run"); fi
        done
        write_results "low-lag-pooled-$split" "$(runs_of pooled "$split")" --title "$title, pooled, $split" --curve "${tested[@]}"
    done
}

say_more() { :; }

begin "$@"
run_stages
