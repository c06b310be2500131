#!/usr/bin/env bash
# The splits as whole recordings, to measure long streams on (docs/simulstream.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
option pairs text "es-en es-es en-en" "pairs to write"
option tests text tst "splits to write"
voices_options
common_options
stage audio "talks as whole recordings"

stage_audio() { for_each_split write_talks; }

write_talks() {
    python ../../local/talks.py --data "$(data_of "$1" "$2")" --out "$data/$1/talks-$2" --source-lang "${1%-*}" \
        --target-lang "${1#*-}" $redo
}

begin "$@"
run_stages
