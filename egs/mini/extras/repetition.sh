#!/usr/bin/env bash
# Searches with and without the detection of repeated tokens, and the ranking of the last block, on dev (CUNI-KIT at IWSLT 2023,
# table 1). Needs mini's model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/training.sh
decoding_options dev ../../conf/decode/paper_c_repetition.yaml ""
common_options
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "tables"

system_name=repetition

dependent_defaults() { default tests dev; }

get_ready() {
    set_places
    if runs decode; then need "$out/st/chosen.pth" "./run.sh --recipe mini --stop-stage choose"; fi
}

decode_split() { decode_espnet "$1" "$2" "$out/st" chosen.pth "$decodings"; }
runs_of() { echo "$out/repetition/$1"; }
say_more() { :; }

begin "$@"
run_stages
