#!/usr/bin/env bash
# A tiny speech LLM from random weights: AlignAtt by its self-attention to the audio, beside LA-2, hold-n and wait-k. For one pair.
# Mini's model must be there: its CTC says when words are spoken, by which heads are found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/training.sh
option config path ../../conf/train/mini_speech_llm.yaml "how to train"
option pieces count 700 "pieces of words that it writes" more
decoding_options tst-COMMON ../../conf/decode/speech_llm.yaml ""
option ngpu count 1 "GPUs to train on, with one process for each; 1: a GPU, if there is one; 0: the CPU" where
common_options

stage pretrain "a model that knows nothing"
stage train "training, and the heads that align"
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curve and tables"

system_name=speech_llm

dependent_defaults() { default tests tst-COMMON; }

get_ready() {
    one_pair
    set_places
    llm=$out/speech_llm
    if runs train; then need "$out/st/chosen.pth" "./run.sh --recipe mini --stop-stage choose"; fi
}

stage_pretrain() {
    step "a speech LLM with random weights"
    python local/make_speech_llm.py --data "$data/$pairs/train" --target-lang "$target" --pieces "$pieces" --out "$llm/random" $redo
}

stage_train() {
    step "training, ${llm#"$exp"/}"
    train_alone simulst train finetune --config "$config" --model "$llm/random" --pair "$pairs" --train "$data/$pairs/train" \
        --valid "$data/$pairs/dev" --out "$llm" $redo $([ "$ngpu" -lt 2 ] || echo "--ngpu $ngpu")
    step "heads that align, on dev"
    simulst prefix times --data "$data/$pairs/dev" --model "$out/st" --model-option checkpoint=chosen.pth --target-lang "$target" \
        --out "$llm/dev.ctm"
    simulst models heads --model "$llm/model" --source-lang "$source" --target-lang "$target" --times "$llm/dev.ctm" \
        --audio "$data/$pairs/dev" --count 3
}

decode_split() { decode "$data/$1/$2" "$1" "$llm/model" "$decodings" "$(runs_of "$1" "$2")" --text "tc.$target"; }
runs_of() { echo "$llm/decode/$1/$2"; }

begin "$@"
run_stages
