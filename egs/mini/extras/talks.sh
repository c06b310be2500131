#!/usr/bin/env bash
# The talks of mini's test splits as whole recordings, to measure long streams on (docs/simulstream.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
option tests text "" "splits to write"
common_options
stage audio "talks as whole recordings"

stage_audio() { for_each_split write_talks; }

write_talks() {
    python ../../local/talks.py --data "$data/$1/$2" --out "$data/$1/talks-$2" --source-lang en --target-lang "${1#*-}" $redo
}

begin "$@"
run_stages
