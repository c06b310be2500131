#!/usr/bin/env bash
# Acted speech in English and Spanish with text in eight languages, from two games in Debian. This script puts Whisper base online
# on it. Beside it: --recipe voices/cascade (it recognises, a command translates), voices/llm (a language model translates),
# voices/finetune (it learns to write six languages), voices/extras/talks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ./whisper.sh
option pairs text "es-en es-es en-en" "pairs to decode"
voices_options
decoding_options tst conf/paper_a.yaml ../../conf/findings/paper_a.yaml
common_options

set_folders() { title="$called put online, acted speech"; }

decode_split() { decode "$(data_of "$1" "$2")" "$1" "$whisper" "$decodings" "$(runs_of "$1" "$2")"; }
runs_of() { echo "$exp/whisper$named/decode$full_name/$1/$2"; }

stage_data() {
    make_corpus "$data"
    step "tables of the corpus"
    mkdir -p "$exp"
    python local/write_counts.py "$data/corpus" --out "$exp/corpus.json"
    command="./run.sh --recipe voices --only data" write_results corpus --table "$exp/corpus.json" --title "The corpus"
}

begin "$@"
run_stages
