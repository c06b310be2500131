#!/usr/bin/env bash
# Put a public offline model (Whisper base) online on real recordings: es, fr, it, ru to English.
# Beside it: --recipe prompts/try, one recording; in prompts/extras: forms, low_lag, paper_c, regimes, talks, terms.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
option pairs text "es-en fr-en it-en ru-en" "pairs to decode"
option decodings path "" "decoding configurations; empty: conf/paper_a_es.yaml for es, conf/paper_a_others.yaml for others"
option findings text ../../conf/findings/paper_a.yaml "files of the papers' findings to test (docs/papers.md)" more
common_options
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curve, tables and findings"
tests=tst
seeds=

decode_split() {
    local file=conf/paper_a_others.yaml
    if [ "$1" = es-en ]; then file=conf/paper_a_es.yaml; fi
    decode_prompts "$1" "$whisper" "${decodings:-$file}" "$(runs_of "$1")"
}
runs_of() { echo "$exp/$1"; }

begin "$@"
run_stages
