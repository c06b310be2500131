#!/usr/bin/env bash
# Train a blockwise Conformer with joint ST-CTC from scratch on synthetic speech in MuST-C's layout, and translate with it.
#
#   --stage N            begin here [1]
#   --stop-stage N       end here [10]
#   --pair P             en-de or en-ja [en-de]
#   --train N            training sentences [3000]
#   --dev N              development sentences [150]
#   --test N             sentences of tst-COMMON [300]
#   --he N               sentences of tst-HE, in voices that training has not heard [100]
#   --pieces N           target pieces [400]; --source-pieces N [300]
#   --speeds "S ..."     factors of speed perturbation ["1.0"]
#   --config FILE        ESPnet's training configuration [../../conf/train/mini_st.yaml]
#   --train-options "."  options for ESPnet's trainer, such as "--max_epoch 2"
#   --exp DIR --data DIR folders for experiments and data [exp, data]
#   --jobs N             processes for decoding [all cores]
#   --ngpu N             GPUs for training [0]
#   --force              do complete stages again
#
# Stages: 1 corpus and data directories  2 segment audio  3 tokens  4 statistics  (5 ASR pre-training: not yet)
#         6 ST training  7 averaging  8 decoding  9 scoring  10 curve and table
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stage=1
stop_stage=10
pair=en-de
train=3000
dev=150
test=300
he=100
pieces=400
source_pieces=300
speeds=1.0
config=../../conf/train/mini_st.yaml
train_options=
exp=exp
data=data
jobs=$(nproc)
ngpu=0
force=false
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
local=../../local
target=${pair#*-}
texts="tc.$target lc.rm.en"
dirs=$data/$pair
out=$exp/$pair
$force && redo=--force || redo=
runs() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ]; }

if runs 1; then
    echo "== stage 1: corpus and data directories"
    python $local/make_mini.py --out "$data/corpus" --pairs "$pair" --train "$train" --dev "$dev" --tst-common "$test" --tst-he "$he"
    python $local/prepare_must_c.py --root "$data/corpus" --pairs "$pair" --out "$data"
fi

if runs 2; then
    echo "== stage 2: segment audio"
    for split in train dev; do
        python $local/dump_audio.py "$dirs/$split" "$dirs/dump/$split" --texts "$texts" $redo \
            --speeds "$([ $split = train ] && echo "$speeds" || echo 1.0)"
    done
fi

if runs 3; then
    echo "== stage 3: tokens"
    python $local/train_tokens.py "$dirs/dump/train/text.tc.$target" --out "$dirs/tokens" --size "$pieces" $redo
    python $local/train_tokens.py "$dirs/dump/train/text.lc.rm.en" --out "$dirs/source_tokens" --size "$source_pieces" $redo
fi

training="--config $config --train $dirs/dump/train --valid $dirs/dump/dev --text tc.$target --tokens $dirs/tokens
    --source-text lc.rm.en --source-tokens $dirs/source_tokens"

if runs 4; then
    echo "== stage 4: statistics"
    # shellcheck disable=SC2086
    python $local/train.py stats $training --out "$dirs/stats" $redo
fi

if runs 6; then
    echo "== stage 6: ST training"
    # shellcheck disable=SC2086
    OMP_NUM_THREADS=$(nproc) python $local/train.py train $training --stats "$dirs/stats" --out "$out/st" $redo \
        -- --ngpu "$ngpu" $train_options
fi

if runs 7; then
    echo "== stage 7: averaging"
    python $local/average.py "$out/st" --data "$dirs/dev" --text "tc.$target" --target-lang "$target" $redo
fi

if runs 8; then
    for split in tst-COMMON tst-HE; do
        echo "== stage 8: decode $split"
        OMP_NUM_THREADS=1 simulst sweep --data "$dirs/$split" --model "$out/st" --model-option checkpoint=chosen.pth \
            --source-lang en --target-lang "$target" --text "tc.$target" --decodings conf/sweep.yaml \
            --out "$out/decode/$split" --jobs "$jobs"
    done
fi

if runs 9; then
    echo "== stage 9: score (again, from the logs alone)"
    python $local/score_runs.py --target-lang "$target" "$out/decode"
fi

if runs 10; then
    echo "== stage 10: curve and table"
    for suffix in svg png; do
        simulst plot "$out/decode/tst-COMMON" --out "$out/$pair.$suffix" --title "mini $pair, tst-COMMON"
    done
    cp "$out/$pair.svg" .
    for split in tst-COMMON tst-HE; do
        python $local/write_results.py --readme README.md --section "$pair-$split" \
            --command "./run.sh --recipe mini --pair $pair" "$out/decode/$split"
    done
fi
