#!/usr/bin/env bash
# Acted speech in English and Spanish with text in eight languages, from two games in Debian, and models on it.
#
#   --system S           whisper: Whisper base put online, without training; scratch: a blockwise Conformer with joint
#                        ST-CTC that writes six languages, trained from scratch [$system]
#   --pairs "P ..."      pairs to decode; for scratch: pairs of the model [$pairs]
#   --full               decode all lines of the splits, not only a part of them
#   --model DIR|NAME     another Whisper in CTranslate2 form to decode with: a folder, or a name on the Hugging Face hub
#   --downloads DIR      folder for packages [$downloads]; --models DIR: for models [$models]
#
# Stages of whisper: 1 recordings, texts and data directories  2 model  8 decoding  9 scoring  10 curves, tables
# and findings. The other options and stages are those of scratch; whisper has --tests, --limits, --decodings, --findings,
# --data, --exp, --publish, --jobs, --scheduler, --slurm and --force of them, too. The options and their defaults depend on --system, so try
# `--system scratch --help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

system=whisper
pairs=
full=false
model=
downloads=downloads
models=models
# shellcheck source=../../local/st_options.sh
. ../../local/st_options.sh
ngpu=0
pieces=2000
source_pieces=1000
speeds=1.0
counts="1 3 5"
config=../../conf/train/voices_st.yaml
asr_config=../../conf/train/voices_asr.yaml
dependent_defaults() {
    case $system in
        whisper)
            default pairs "es-en es-es en-en"
            default tests tst
            default decodings conf/sweep.yaml
            default findings ../../conf/findings/paper_a.yaml ;;
        scratch)
            default pairs "en-de en-es en-fr en-it en-pt en-sv"
            default tests "tst tst-other" ;;
        *)
            echo "error: no system '$system'; there are whisper and scratch" >&2
            exit 1 ;;
    esac
    if ! $full; then default limits "--draw 60"; fi
}
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=
whisper=$models/whisper-base

if runs 1; then
    echo "== stage 1: recordings, texts and data directories"
    # shellcheck disable=SC2046
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} python ../../local/prepare_voices.py --downloads "$downloads" \
        --out "$data/corpus" --model "$whisper" --heard "$data/heard" $redo
    python ../../local/prepare_must_c.py --root "$data/corpus" --out "$data" --splits "train dev tst tst-other" \
        --pairs "en-de en-es en-fr en-it en-pt en-ru en-sv es-de es-en es-fr es-it es-ru"
fi
command="./run.sh --recipe voices$(if $full; then echo ' --full'; fi)"

if runs 10; then
    echo "== stage 10: tables of the corpus"
    for page in "$exp/README.md" $(if $publish; then echo README.md; fi); do
        python ../../local/write_counts.py "$data/corpus" --page "$page" \
            --command "./run.sh --recipe voices --stop-stage 1"
    done
fi

if [ "$system" = scratch ]; then
    recipe=voices
    command+=" --system scratch"
    # shellcheck source=../../local/st_stages.sh
    . ../../local/st_stages.sh
    exit
fi

if runs 2; then
    echo "== stage 2: model"
    if [ -n "$model" ]; then whisper=$models/$(basename "$model"); fi
    python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper" ${model:+--model "$model"}
fi

systems=$system
pictured=$pairs
title="Whisper base put online, acted speech"
model_of() { echo "$whisper"; }
data_of() { # transcripts stand beside translations
    case $1 in
        en-en) echo "$data/en-de/$2" ;;
        es-es) echo "$data/es-en/$2" ;;
        *) echo "$data/$1/$2" ;;
    esac
}
runs_of() { echo "$exp/$system$(if $full; then echo /full; fi)/$1/$2"; }
section_of() { echo "$1-$2"; }
sweep_of() { echo "$decodings"; }
options_of() { echo "$limits"; }
# shellcheck source=../../local/whisper_stages.sh
. ../../local/whisper_stages.sh
