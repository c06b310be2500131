#!/usr/bin/env bash
# Paper C's searches, BWBS and IBWBS (CUNI-KIT at IWSLT 2023, table 1), on the es prompts, by Whisper in Hugging Face's form.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
option decodings path conf/paper_c.yaml "decoding configurations"
option findings text ../../conf/findings/paper_c_full_context.yaml "files of the papers' findings to test (docs/papers.md)" more
common_options
stage pretrain "the model, which comes trained, in Hugging Face's form"
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "table and findings"
system_name=paper_c
pairs=es-en
in_huggingface=true
tests=tst
seeds=

decode_split() { decode_prompts "$1" "$whisper-hf" "$decodings" "$(runs_of)"; }
runs_of() { echo "$exp/full-context"; }
say_more() {
    test_findings "$(runs_of)"
    more+=("${tested[@]}")
}

begin "$@"
run_stages
