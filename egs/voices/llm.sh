#!/usr/bin/env bash
# A cascade with a language model on acted speech: Whisper base recognises English, and Qwen2.5-Coder writes other languages.
# With --folder, the language model reads the transcript of IWSLT's talks at its times, so that only its own policy counts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ./whisper.sh
option pairs text "en-de en-fr en-it en-es" "pairs to decode"
option llm text 0.5B "the language model: 0.5B, 1.5B, or the folder of a chat model in Hugging Face's form"
option dtype text float32 "of the language model's numbers; bfloat16 on a processor that computes in it"
option folder path "" "the organisers' folder of IWSLT (MCIF): read its transcript at its times, in place of this speech"
voices_options
decoding_options tst conf/llm.yaml conf/findings/llm.yaml
common_options

declare -A example=( # of the form of an answer
    [de]="Guten Morgen, wohin gehst du?" [fr]="Bonjour, où vas-tu ?" [it]="Buongiorno, dove vai?" [es]="Buenos días, ¿adónde vas?"
)

dependent_defaults() {
    if [ -z "$folder" ]; then return; fi
    default pairs "en-de en-it"
    default tests "$(basename "$folder")"
    default limits "--streams 16"
    default findings "" # they are about the lag of sentences
    full_name=
}

check_options() {
    [ -z "$folder" ] || [ -z "$model" ] || fail "--model $model: with --folder no Whisper is used; leave one of the two out"
}

stage_data() {
    if [ -z "$folder" ]; then
        make_corpus "$data"
        return
    fi
    step "the transcript and its times"
    python ../iwslt/local/prepare_iwslt.py "$folder" "$data/$tests" --without-audio $redo
}

set_folders() {
    local pair
    system_name=llm-${llm##*/}
    local heard="$called and a language model (${llm##*/}), acted speech"
    if [ -n "$folder" ]; then
        heard="The transcript of talks at its times, and a language model (${llm##*/})"
        axis=LongYAAL
    fi
    decoded=$exp/$system_name$named
    title=$heard
    for pair in $pairs; do
        [ -n "${example[${pair#*-}]:-}" ] || fail "--pairs $pair: no example for this language; add one in egs/voices/llm.sh"
    done
}

stage_pretrain() {
    if [ -z "$folder" ]; then
        step "Whisper"
        python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper" ${model:+--model "$model"}
    fi
    step "the language model"
    case $llm in
        0.5B | 1.5B) python ../../local/fetch_llm.py --size "$llm" --downloads "$downloads" --out "$models/qwen-$llm" ;;
        *) need "$llm/config.json" "the download of a chat model" ;;
    esac
}

write_cascade() { # for the pair $1 and the split $2, as the file $3
    if $rehearsing; then return; fi
    local draft=true place=$llm policy="{read: {type: chunk, ms: 500}, commit: {type: local_agreement, n: 2, whole_words: true}}"
    if [[ $llm = 0.5B || $llm = 1.5B ]]; then place=$models/qwen-$llm; fi
    if [ -n "$folder" ]; then draft=false; fi # each step of a transcript brings new words, so no draft would be used again
    mkdir -p "$decoded"
    cat > "$3" << END
recogniser: $(if [ -n "$folder" ]; then
        echo "{type: transcript, transcript: $(realpath "$data/$2")}"
    else
        echo "{model: $(realpath "$whisper"), decoding: $policy}"
    fi)
translator:
  type: llm
  model: $(realpath "$place")
  dtype: $dtype
  draft: $draft
  examples: [{source: "Good morning, where are you going?", target: "${example[${1#*-}]}"}]
unstable: true
END
}

decode_split() {
    local cascade=$decoded/$1-$2.yaml spoken=$data/$2
    if [ -z "$folder" ]; then spoken=$(data_of "$1" "$2"); fi
    write_cascade "$1" "$2" "$cascade"
    decode "$spoken" "$1" "$cascade" "$decodings" "$(runs_of "$1" "$2")"
}
runs_of() { echo "$decoded/decode$full_name/$1/$2"; }

score_split() {
    local sentences=()
    if [ -n "$folder" ]; then sentences=(--segmentation "$data/$2/talks.yaml" --references "$data/$2/talks.${1#*-}"); fi
    score "$1" "$(runs_of "$1" "$2")" "${sentences[@]}"
}

begin "$@"
run_stages
