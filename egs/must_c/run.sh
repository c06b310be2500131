#!/usr/bin/env bash
# Paper C's systems (CUNI-KIT at IWSLT 2023) on MuST-C: blockwise Conformer, joint ST-CTC, ASR pre-training, blockwise search.
#
#   --root DIR           where MuST-C was unpacked: DIR/en-de/data/train/{txt,wav}, ... [downloads]
#   --pairs "P ..."      language pairs, such as "en-de" or "en-de en-ja"; several give one multilingual model [en-de]
#   --stage N            begin here [1]
#   --stop-stage N       end here [10]
#   --on-error E         drop (and count) or stop at faulty segments [drop]
#   --pieces N           target pieces [4000; the paper: 8000 for en-zh]; --source-pieces N [4000]
#   --token-kind K       unigram, bpe or char [unigram]
#   --speeds "S ..."     factors of speed perturbation [0.9 1.0 1.1]
#   --asr true|false     train for recognition first and take that encoder [true]
#   --config FILE        ESPnet's training configuration [../../conf/train/paper_c_st.yaml]
#   --asr-config FILE    the same for stage 5 [../../conf/train/paper_c_asr.yaml]
#   --train-options "."  options for ESPnet's trainer in stage 6; --asr-options: in stage 5; --stats-options: in stage 4
#   --counts "N ..."     numbers of checkpoints whose average is tried [1 5 10]
#   --tests "S ..."      splits to decode [tst-COMMON]
#   --limits "."         options that choose a part of them, such as "--limit 100"
#   --decodings FILE     decoding configurations [conf/sweep.yaml]
#   --data DIR --exp DIR folders for data and experiments [data, exp]
#   --readme FILE        where the tables and, beside it, the curve go [README.md]
#   --jobs N             processes for decoding [all cores]
#   --scheduler ADDRESS  a running Dask scheduler to decode on instead
#   --ngpu N             GPUs for training, each a process of torch.distributed [1]
#   --force              do complete stages again
#
# Stages: 1 data directories  2 segment audio  3 tokens  4 statistics  5 ASR pre-training  6 ST training  7 averaging
#         8 decoding  9 scoring  10 curve and tables
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

root=downloads
pairs=en-de
stage=1
stop_stage=10
on_error=drop
pieces=4000
source_pieces=4000
token_kind=unigram
speeds="0.9 1.0 1.1"
asr=true
config=../../conf/train/paper_c_st.yaml
asr_config=../../conf/train/paper_c_asr.yaml
train_options=
asr_options=
stats_options=
counts="1 5 10"
tests=tst-COMMON
limits=
decodings=conf/sweep.yaml
data=data
exp=exp
readme=README.md
jobs=$(nproc)
scheduler=
ngpu=1
force=false
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=

if runs 1; then
    echo "== stage 1: data directories"
    # shellcheck disable=SC2086
    python ../../local/prepare_must_c.py --root "$root" --pairs $pairs --splits train dev $tests --out "$data" \
        --on-error "$on_error"
fi

recipe=MuST-C
command="./run.sh --recipe must_c --pairs \"$pairs\""
# shellcheck source=../../local/st_stages.sh
. ../../local/st_stages.sh
