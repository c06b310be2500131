#!/usr/bin/env bash
# Cascades on acted speech: Whisper base recognises under several policies, and Apertium translates.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ./whisper.sh
option pairs text en-es "pairs to decode"
option translator text "{type: apertium:Apertium}" "the translator, as a cascade's file has it (docs/huggingface.md)"
option recognisers path conf/cascade_recognisers.yaml "the recogniser's decoding configurations"
option unstable flag false "also translate the words that the recogniser may still change"
voices_options
decoding_options tst conf/cascade.yaml ""
common_options

system_name=cascade
export PYTHONPATH=$PWD/local:${PYTHONPATH:-} # where the translator is

set_folders() {
    folder=$exp/cascade$named
    title="Cascades on acted speech"
    if runs decode && [ "$pairs" != en-es ] && [[ $given != *" translator "* ]]; then
        fail "--pairs '$pairs': the default translator writes Spanish; give --translator"
    fi
}

write_cascades() { # one for each configuration of the recogniser; prints their names
    mkdir -p "$folder"
    python local/write_cascades.py --model "$whisper" --decodings "$recognisers" --translator "$translator" --out "$folder" \
        $($unstable && echo --unstable)
    if $rehearsing; then echo rehearsal; fi
}

decode_split() {
    local names name sweep
    names=$(write_cascades)
    for name in $names; do
        sweep=$decodings
        if [[ $name = offline* ]]; then sweep=conf/offline.yaml; fi
        decode "$(data_of "$1" "$2")" "$1" "$folder/$name.yaml" "$sweep" "$(runs_of "$1" "$2")/$name"
    done
}
runs_of() { echo "$folder/decode$full_name/$1/$2"; }

say_more() {
    local names
    if [ "$2" = "${tests%% *}" ]; then
        names=$(write_cascades)
        test_findings "$(runs_of "$1" "$2")/${names##*$'\n'}"
        more+=(--curve "${tested[@]}")
    fi
}

begin "$@"
run_stages
