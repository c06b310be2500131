#!/usr/bin/env bash
# Paper D's system (NAIST at IWSLT 2022) on mini: prefix pairs and a boundary predictor make an offline model simultaneous.
# docs/prefix.md explains it. For one pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_d.sh
default prefix_beam 5
default prefix_limit 2500
default open_end true
default with_whole true
default trained_waits "1 5"
default prefix_config ../../conf/train/mini_prefix.yaml
default wait_config ../../conf/train/mini_wait.yaml
default predictor_model "--mels 40 --channels 16 --embedding 64 --hidden 128 --learning-rate 1e-3 --warmup 200 --max-epochs 30"

dependent_defaults() {
    default wait_beam "$prefix_beam" # as the other models here
    default ratios "$(if [ "$pair" = en-ja ]; then echo none 29 23; else echo none 36 30; fi)"
    default tests tst-COMMON
}

begin "$@"
run_stages
