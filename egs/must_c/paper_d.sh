#!/usr/bin/env bash
# Paper D's system (NAIST at IWSLT 2022) on MuST-C: prefix pairs and a boundary predictor make an offline model simultaneous.
# docs/prefix.md explains it. For one pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_d.sh

default asr true
default speeds 1.0
default counts 1

dependent_defaults() {
    if [ "$speeds" != "0.9 1.0 1.1" ]; then own_audio=speeds-${speeds// /-}; fi # the other systems' speeds
    if [ "$pairs" = en-ja ]; then # section 3.1
        local dropout="--encoder_conf dropout_rate=0.2 --decoder_conf dropout_rate=0.2"
        default offline_options "--patience 32 $dropout --keep_nbest_models 50" # all of them: the last ten are averaged
        default wait_options "$offline_options"
        default prefix_options "$dropout --max_epoch 20 --keep_nbest_models 20"
        default averaged last
        default counts 10
        default trained_waits "5 7 9 11 13 15 17 19 21 23 25 27 31"
    fi
}

begin "$@"
run_stages
