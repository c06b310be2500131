#!/usr/bin/env bash
# A blockwise Conformer with joint ST-CTC for six languages, trained from scratch on two hours of acted English speech.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
option pairs text "$six_pairs" "pairs of the model"
option readings count 0 "the training data also has N synthetic readings of each line, for each pair in other voices; data, model \
and results get folders of their own"
option compare flag false "stages 8 to 10: decode all lines of the splits, and test the difference that readings make"
voices_options
. ../../local/systems/paper_c.sh
default config ../../conf/train/voices_st.yaml
default asr_config ../../conf/train/voices_asr.yaml
default pieces 2000
default source_pieces 1000
default speeds 1.0
default search_weights dev
default counts "1 3 5"
default ngpu 0
default tests "tst tst-other"
default findings "" # two hours give a model too weak for them

check_options() {
    drop_recognition
    decoded=decode$full_name
    variant=scratch
    lines=$data                                                    # data without readings
    compared=$exp/scratch${system:+/$system}/${pairs// /+}/all-lines # one folder for both models
    model=lines
    if [ "$readings" != 0 ]; then
        variant+=-readings$readings
        model=readings$readings
        data=$data/readings$readings
        exp=$exp/readings$readings
    fi
    variant+=$full_name
    if $compare; then limits="" decodings=conf/compare_scratch.yaml; fi
}

stage_data() {
    local pair split
    make_corpus "$lines"
    [ "$readings" != 0 ] || return 0
    for pair in $pairs; do
        for split in dev $tests; do
            $rehearsing || [ -d "$lines/$pair/$split" ] || fail "$lines/$pair/$split: no such folder; give splits of the corpus to --tests"
        done
    done
    for pair in $pairs; do
        step "$readings readings of each line of $pair"
        python local/add_readings.py --data "$lines/$pair/train" --out "$data/$pair/train" --source-lang en \
            --readings "$readings" --seed "$pair" --jobs "$jobs" $redo
        for split in dev $tests; do ln -sfnr "$lines/$pair/$split" "$data/$pair/$split"; done
    done
}

runs_of() { if $compare; then echo "$compared/$1/$2/$model"; else echo "$out/$decoded/$1/$2"; fi; }

stage_results() {
    local differences=() pair split name=scratch${system:+-$system}
    if ! $compare; then
        for_each_split write_split
        return
    fi
    step "all lines, with and without readings"
    for pair in $pairs; do
        for split in $tests; do
            differences+=(--test "$pair/$split/lines/offline" "$pair/$split/readings$((readings > 0 ? readings : 1))/offline")
        done
    done
    if [ "$pairs" != "$six_pairs" ]; then name+=-$set; fi
    write_results "$name-all-lines" "$compared" "${differences[@]}"
}

begin "$@"
run_stages
