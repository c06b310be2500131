#!/usr/bin/env bash
# Train a blockwise Conformer with joint ST-CTC from scratch on synthetic speech in MuST-C's layout, and translate with it.
#
#   --stage N            begin here [1]
#   --stop-stage N       end here [10]
#   --size S             small: minutes on two CPU cores; large: paper C's model, for a GPU (README.md says how long) [small]
#   --pair P             en-de or en-ja [en-de]
#   --train N            training sentences [5000; large: 20000]
#   --dev N              development sentences [150]
#   --test N             sentences of tst-COMMON [300]
#   --he N               sentences of tst-HE, in voices that training has not heard [100]
#   --pieces N           target pieces [700]; --source-pieces N [300]; --token-kind K: unigram, bpe or char [unigram]
#   --speeds "S ..."     factors of speed perturbation [1.0; large: 0.9 1.0 1.1]
#   --asr                train for recognition first and take that encoder [small: no; large: yes]
#   --config FILE        ESPnet's training configuration [../../conf/train/mini_st.yaml; large: paper_c_st.yaml]
#   --asr-config FILE    the same for stage 5 [../../conf/train/mini_asr.yaml; large: paper_c_asr.yaml]
#   --train-options "."  options for ESPnet's trainer in stage 6, such as "--max_epoch 2"; --asr-options: in stage 5;
#                        --stats-options: in stage 4
#   --counts "N ..."     numbers of checkpoints whose average is tried [1 2 3 5]
#   --decodings FILE     decoding configurations [conf/sweep.yaml]
#   --data DIR --exp DIR folders for data and experiments [data, exp; large: data/large, exp/large]
#   --readme FILE        where the tables and, beside it, the curve go [README.md; large: exp/large/README.md]
#   --jobs N             processes for synthesis and decoding [all cores]
#   --scheduler ADDRESS  a running Dask scheduler to decode on instead
#   --ngpu N             GPUs for training [0]
#   --force              do complete stages again
#
# Stages: 1 corpus and data directories  2 segment audio  3 tokens  4 statistics  5 ASR pre-training (with --asr)
#         6 ST training  7 averaging  8 decoding  9 scoring  10 curve and tables
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stage=1
stop_stage=10
size=small
pair=en-de
train=
dev=150
test=300
he=100
pieces=700
source_pieces=300
token_kind=unigram
speeds=
asr=false
config=
asr_config=
train_options=
asr_options=
stats_options=
counts="1 2 3 5"
decodings=conf/sweep.yaml
data=
exp=
readme=
jobs=$(nproc)
scheduler=
ngpu=0
force=false
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

case $size in
    small)
        default() { echo "$1"; } ;;
    large)
        default() { echo "$2"; }
        asr=true ;;
    *)
        echo "error: no size '$size'; there are small and large" >&2
        exit 1 ;;
esac
train=${train:-$(default 5000 20000)}
speeds=${speeds:-$(default 1.0 "0.9 1.0 1.1")}
config=${config:-../../conf/train/$(default mini paper_c)_st.yaml}
asr_config=${asr_config:-../../conf/train/$(default mini paper_c)_asr.yaml}
data=${data:-data$(default "" /large)}
exp=${exp:-exp$(default "" /large)}
readme=${readme:-$(default README.md "$exp/README.md")}

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=

if runs 1; then
    echo "== stage 1: corpus and data directories"
    python ../../local/make_mini.py --out "$data/corpus" --pairs "$pair" --jobs "$jobs" \
        --train "$train" --dev "$dev" --tst-common "$test" --tst-he "$he"
    python ../../local/prepare_must_c.py --root "$data/corpus" --pairs "$pair" --out "$data"
fi

recipe=mini
pairs=$pair
tests="tst-COMMON tst-HE"
limits=
command="./run.sh --recipe mini$(default "" " --size large")$([ "$pair" = en-de ] || echo " --pair $pair")"
# shellcheck source=../../local/st_stages.sh
. ../../local/st_stages.sh
