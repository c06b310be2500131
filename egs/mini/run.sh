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
#   --config FILE        ESPnet's training configuration [../../conf/train/mini_st.yaml; large: large_st.yaml]
#   --asr-config FILE    the same for stage 5 [../../conf/train/mini_asr.yaml; large: large_asr.yaml]
#   --train-options "."  options for ESPnet's trainer in stages 5 and 6, such as "--max_epoch 2"
#   --counts "N ..."     numbers of checkpoints whose average is tried [1 2 3 5]
#   --decodings FILE     decoding configurations [conf/sweep.yaml]
#   --data DIR --exp DIR folders for data and experiments [data, exp; large: data/large, exp/large]
#   --readme FILE        where the tables and, beside it, the curve go [README.md; large: exp/large/README.md]
#   --jobs N             processes for synthesis and decoding [all cores]
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
counts="1 2 3 5"
decodings=conf/sweep.yaml
data=
exp=
readme=
jobs=$(nproc)
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
config=${config:-../../conf/train/$(default mini large)_st.yaml}
asr_config=${asr_config:-../../conf/train/$(default mini large)_asr.yaml}
data=${data:-data$(default "" /large)}
exp=${exp:-exp$(default "" /large)}
readme=${readme:-$(default README.md "$exp/README.md")}

export PATH=$PWD/../../.venv/bin:$PATH
local=../../local
target=${pair#*-}
texts="tc.$target lc.rm.en"
dirs=$data/$pair
out=$exp/$pair
$force && redo=--force || redo=

if runs 1; then
    echo "== stage 1: corpus and data directories"
    python $local/make_mini.py --out "$data/corpus" --pairs "$pair" --jobs "$jobs" \
        --train "$train" --dev "$dev" --tst-common "$test" --tst-he "$he"
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
    train_tokens() { python $local/train_tokens.py "$dirs/dump/train/text.$1" --out "$dirs/$2" --size "$3" --kind "$token_kind" $redo; }
    train_tokens "tc.$target" tokens "$pieces"
    train_tokens lc.rm.en source_tokens "$source_pieces"
fi

corpus="--train $dirs/dump/train --valid $dirs/dump/dev"
asr_training="--task asr --config $asr_config $corpus --text lc.rm.en --tokens $dirs/source_tokens"
st_training="--config $config $corpus --text tc.$target --tokens $dirs/tokens
    --source-text lc.rm.en --source-tokens $dirs/source_tokens"

if runs 4; then
    echo "== stage 4: statistics"
    # shellcheck disable=SC2086
    python $local/train.py stats $st_training --out "$dirs/stats" $redo
fi

if runs 5 && $asr; then
    echo "== stage 5: ASR pre-training"
    # shellcheck disable=SC2086
    OMP_NUM_THREADS=$(nproc) python $local/train.py train $asr_training --stats "$dirs/stats" --out "$out/asr" $redo \
        -- --ngpu "$ngpu" $train_options
fi

if runs 6; then
    echo "== stage 6: ST training"
    # shellcheck disable=SC2086,SC2046
    OMP_NUM_THREADS=$(nproc) python $local/train.py train $st_training --stats "$dirs/stats" --out "$out/st" $redo \
        $($asr && echo --encoder "$out/asr/valid.acc.best.pth") -- --ngpu "$ngpu" $train_options
fi

if runs 7; then
    echo "== stage 7: averaging"
    python $local/average.py "$out/st" --data "$dirs/dev" --text "tc.$target" --target-lang "$target" \
        --counts "$counts" $redo
fi

if runs 8; then
    for split in tst-COMMON tst-HE; do
        echo "== stage 8: decode $split"
        OMP_NUM_THREADS=1 simulst sweep --data "$dirs/$split" --model "$out/st" --model-option checkpoint=chosen.pth \
            --source-lang en --target-lang "$target" --text "tc.$target" --decodings "$decodings" \
            --out "$out/decode/$split" --jobs "$jobs"
    done
fi

if runs 9; then
    echo "== stage 9: score (again, from the logs alone)"
    python $local/score_runs.py --target-lang "$target" "$out/decode"/tst-*
fi

if runs 10; then
    echo "== stage 10: curve and tables"
    command="./run.sh --recipe mini$(default "" " --size large")$([ "$pair" = en-de ] || echo " --pair $pair")"
    for suffix in svg png; do
        simulst plot "$out/decode/tst-COMMON" --out "$out/$pair.$suffix" --title "mini $pair, tst-COMMON"
    done
    [ -e "$readme" ] || grep -E '^(#|<!--)' README.md > "$readme"
    cp "$out/$pair.svg" "$(dirname "$readme")"
    for split in tst-COMMON tst-HE; do
        python $local/write_results.py --readme "$readme" --section "$pair-$split" --command "$command" "$out/decode/$split"
    done
fi
