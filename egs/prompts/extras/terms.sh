#!/usr/bin/env bash
# Recall of rare words on the es prompts: without context, with terms and a bonus for them, and with the terms as a text in
# Whisper's prompt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
common_options
stage pretrain "the model, which comes trained, in Hugging Face's form"
stage decode "decoding without and with context"
stage score "recall of the terms"
stage results "table"
system_name=terms
pairs=es-en
in_huggingface=true
tests=tst

get_ready() {
    context=$data/es-en/context.tsv
    text=$data/es-en/context_text.tsv
}

write_terms() {
    step "rare words of each recording"
    python ../../local/rare_words.py --data $data/es-en/tst --target-lang en --counted $data/es-en/dev/text.en --out $context
    $rehearsing || sed "1s/terms/target_text/; s/=//g; s/; /, /g" $context > $text
}
decode_split() {
    write_terms
    decode_prompts es-en "$whisper-hf" ../../conf/decode/la2w_1000ms.yaml "$(runs_of)/without"
    decode_prompts es-en "$whisper-hf" conf/terms.yaml "$(runs_of)/with" --context $context
    decode_prompts es-en "$whisper-hf" conf/terms_in_text.yaml "$(runs_of)/in_text" --context $text
}
score_split() { score "$1" "$(runs_of)" --context $context; }
runs_of() { echo "$exp/terms"; }
say_more() { :; }

begin "$@"
run_stages
