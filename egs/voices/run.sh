#!/usr/bin/env bash
# Acted speech in English and Spanish with text in eight languages, from two games in Debian: data and a model to begin with.
#
#   --stage N            begin here [1]
#   --stop-stage N       end here [2]
#   --pairs "P ..."      pairs to write data directories for [all: en-de en-es en-fr en-it en-pt en-ru en-sv es-de es-en
#                        es-fr es-it es-ru]
#   --splits "S ..."     and splits [$splits]
#   --model DIR|NAME     another Whisper in CTranslate2 form: a folder, or a name on the Hugging Face hub
#   --data DIR           folder for the data [$data]
#   --downloads DIR      folder for packages [$downloads]
#   --models DIR         folder for models [$models]
#   --force              write the corpus again
#
# Stages have the numbers that they have in every recipe:
#   1 recordings, texts and data directories   2 model
# An interrupted run goes on where it was; what is whole is not done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stage=1
stop_stage=2
pairs="en-de en-es en-fr en-it en-pt en-ru en-sv es-de es-en es-fr es-it es-ru"
splits="train dev tst tst-other"
model=
data=data
downloads=downloads
models=models
force=false
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)}
whisper=$models/whisper-base

if runs 1; then
    echo "== stage 1: recordings, texts and data directories"
    # shellcheck disable=SC2046
    python ../../local/prepare_voices.py --downloads "$downloads" --out "$data/corpus" --model "$whisper" \
        --heard "$data/heard" $($force && echo --force)
    python ../../local/prepare_must_c.py --root "$data/corpus" --out "$data" --pairs "$pairs" --splits "$splits"
fi

if runs 2; then
    echo "== stage 2: model"
    if [ -n "$model" ]; then whisper=$models/$(basename "$model"); fi
    python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper" ${model:+--model "$model"}
fi
