#!/usr/bin/env bash
# The es prompts with the same weights in CTranslate2's and in Hugging Face's form, with the texts that are equal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
common_options
stage pretrain "the model, which comes trained, in both forms"
stage decode "decoding in each form and precision"
stage score "scores, again, from the logs alone"
stage results "table"
system_name=forms
pairs=es-en
in_huggingface=true
tests=tst

decode_split() {
    local form forms="ctranslate2-int8 ctranslate2-float32 huggingface-float32"
    if grep -qwE "avx512_bf16|amx_bf16|bf16" /proc/cpuinfo; then forms+=" huggingface-bfloat16"; fi
    for form in $forms; do
        step "the same weights in $form"
        case $form in
            ctranslate2-*) decode_prompts "$1" "$whisper" conf/forms.yaml "$(runs_of)/$form" \
                --model-option "compute_type=${form#*-}" ;;
            *) decode_prompts "$1" "$whisper-hf" conf/forms_huggingface.yaml "$(runs_of)/$form" \
                --model-option "dtype=${form#*-}" ;;
        esac
    done
}
runs_of() { echo "$exp/forms"; }
say_more() { more+=(--equal-texts); }

begin "$@"
run_stages
