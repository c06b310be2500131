#!/usr/bin/env bash
# A cascade with a language model on acted speech: Whisper base recognises English, and Qwen2.5-Coder writes other languages.
# With --timed, the language model reads the transcript at the times of its words, so that only its own policy counts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ./whisper.sh
option pairs text "en-de en-fr en-it en-es" "pairs to decode"
option llm text 0.5B "the language model: 0.5B, 1.5B, or the folder of a chat model in Hugging Face's form"
option timed flag false "read the transcript at its times, in place of what Whisper hears"
voices_options
decoding_options tst conf/llm.yaml conf/findings/llm.yaml
common_options

declare -A example=( # of the form of an answer
    [de]="Guten Morgen, wohin gehst du?" [fr]="Bonjour, où vas-tu ?" [it]="Buongiorno, dove vai?" [es]="Buenos días, ¿adónde vas?"
)

set_folders() {
    local pair
    system_name=llm-${llm##*/}
    local heard=$called
    if $timed; then system_name+=-timed heard="The transcript at its times"; fi
    folder=$exp/$system_name$named
    title="$heard and a language model (${llm##*/}), acted speech"
    for pair in $pairs; do
        [ -n "${example[${pair#*-}]:-}" ] || fail "--pairs $pair: no example for this language; add one in egs/voices/llm.sh"
    done
}

stage_pretrain() {
    step "Whisper"
    python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper" ${model:+--model "$model"}
    step "the language model"
    case $llm in
        0.5B | 1.5B) python ../../local/fetch_llm.py --size "$llm" --downloads "$downloads" --out "$models/qwen-$llm" ;;
        *) need "$llm/config.json" "the download of a chat model" ;;
    esac
}

write_cascade() { # for the pair $1 and the split $2, as the file $3
    if $rehearsing; then return; fi
    local place=$llm policy="{read: {type: chunk, ms: 500}, commit: {type: local_agreement, n: 2, whole_words: true}}"
    if [[ $llm = 0.5B || $llm = 1.5B ]]; then place=$models/qwen-$llm; fi
    mkdir -p "$folder"
    cat > "$3" << END
recogniser: $(if $timed; then
        echo "{type: transcript, transcript: $(realpath "$(data_of "$1" "$2")")}"
    else
        echo "{model: $(realpath "$whisper"), decoding: $policy}"
    fi)
translator:
  type: llm
  model: $(realpath "$place")
  examples: [{source: "Good morning, where are you going?", target: "${example[${1#*-}]}"}]
unstable: true
END
}

decode_split() {
    local cascade=$folder/$1-$2.yaml
    write_cascade "$1" "$2" "$cascade"
    decode "$(data_of "$1" "$2")" "$1" "$cascade" "$decodings" "$(runs_of "$1" "$2")"
}
runs_of() { echo "$folder/decode$full_name/$1/$2"; }

begin "$@"
run_stages
