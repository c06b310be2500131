#!/usr/bin/env bash
# Whisper base learns to write six languages from acted English speech, and is put online.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ./whisper.sh
option pairs text "$six_pairs" "pairs of the model"
option config path ../../conf/train/whisper_finetune.yaml "how to train"
option compare flag false "stages 8 to 10: decode all lines offline, with and without fine-tuning, and test the differences"
voices_options
decoding_options "tst tst-other" conf/paper_a.yaml ../../conf/findings/paper_a.yaml
common_options
stage train "fine-tuning, and conversion to CTranslate2"

system_name=finetune
in_huggingface=true

set_folders() {
    folder=$exp/finetuned$named
    title="$called, fine-tuned on acted speech"
    pictured=en-de
    if $compare; then limits=; fi
}

stage_train() {
    local parts=() pair
    step "fine-tuning"
    for pair in $pairs; do parts+=(--pair "$pair" --train "$data/$pair/train" --valid "$data/$pair/dev"); done
    OMP_NUM_THREADS=$(cores) simulst train finetune --config "$config" --model "$whisper-hf" --out "$folder" $redo "${parts[@]}"
    step "conversion to CTranslate2"
    if [ ! "$folder/ctranslate2/model.bin" -nt "$folder/model/config.json" ]; then
        python -m ctranslate2.converters.transformers --model "$folder/model" --output_dir "$folder/ctranslate2" \
            --copy_files tokenizer.json --quantization int8 --force
    fi
}

decode_split() {
    local sweep=conf/others.yaml
    if $compare; then sweep=conf/offline.yaml; elif [ "$1 $2" = "en-de ${tests%% *}" ]; then sweep=$decodings; fi
    # Whisper base, too, is asked for German by the token of the language.
    decode "$(data_of "$1" "$2")" "$1" "$whisper" conf/offline.yaml "$(runs_of "$1" "$2")/base" --model-option other_targets=true
    decode "$(data_of "$1" "$2")" "$1" "$folder/ctranslate2" "$sweep" "$(runs_of "$1" "$2")/finetuned" \
        --model-option other_targets=true
}
runs_of() { echo "$folder/$($compare && echo all-lines || echo "decode$full_name")/$1/$2"; }

say_more() {
    more+=(--test base/offline finetuned/offline)
    if [[ $1 = "$pictured" && $2 = "${tests%% *}" ]]; then
        test_findings "$(runs_of "$1" "$2")/finetuned"
        more+=(--curve "${tested[@]}")
    fi
}

stage_results() {
    local differences=() pair split
    if ! $compare; then
        for_each_split write_split
        return
    fi
    step "all lines, with and without fine-tuning"
    for pair in $pairs; do
        for split in $tests; do differences+=(--test "$pair/$split/base/offline" "$pair/$split/finetuned/offline"); done
    done
    write_results "finetune$named-all-lines" "$folder/all-lines" "${differences[@]}"
}

begin "$@"
run_stages
