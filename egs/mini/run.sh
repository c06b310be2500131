#!/usr/bin/env bash
# Train a blockwise Conformer with joint ST-CTC from scratch on synthetic speech in MuST-C's layout, and translate with it.
#
#   --size S             small: minutes on two CPU cores; large: paper C's model, for a GPU (README.md says how long), with
#                        the defaults that `--size large --help` shows; stages 11 to 16 are the same in both [$size]
#   --style S            sentences: a segment is a sentence; talk: one to three clauses, some cut within a sentence, with
#                        pauses and fillers, and the defaults that `--style talk --help` shows [$style]
#   --pair P             en-de or en-ja [$pair]
#   --train N            training sentences [$train]
#   --dev N              development sentences [$dev]
#   --test N             sentences of tst-COMMON [$test]
#   --he N               sentences of tst-HE, in voices that training has not heard [$he]
#   --b-models "M ..."   tokens of paper B's models in stage 25 [$b_models]
#
# Stage 17 (--stage 17 --stop-stage 17) writes the talks of the test splits as whole recordings, for long streams.
# Stage 19 (--stage 19 --stop-stage 19) compares, on dev, searches with and without the detection of repeated tokens.
# Stage 24 (--stage 24 --stop-stage 24) measures the recall of rare words without and with a bonus for terms.
# Stage 25 (--stage 25 --stop-stage 25) is paper B: stages 3 to 10 for its models, and its findings. Needs stages 1 and 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

GIVEN=("$@")
size=small
style=sentences
pair=en-de
train=5000
dev=150
test=300
he=100
b_models="char bpe400 bpe2000"
# shellcheck source=../../local/st_options.sh
. ../../local/st_options.sh
# shellcheck source=../../local/prefix_options.sh
. ../../local/prefix_options.sh
# shellcheck source=../../local/paper_a_options.sh
. ../../local/paper_a_options.sh
a_config=../../conf/train/mini_a.yaml
tests="tst-COMMON tst-HE"
pieces=700
source_pieces=300
counts="1 2 3 5"
ngpu=0
prefix_beam=5
prefix_pieces=0
prefix_limit=2500
open_end=true
with_whole=true
ratios="none 36 30"
trained_waits="1 5"
offline_config=../../conf/train/mini_transformer.yaml
# A Conformer instead of that Transformer: it learns more, and sooner.
full_context_options="--encoder conformer --encoder_conf num_blocks=4 --encoder_conf cnn_module_kernel=15 --encoder_conf rel_pos_type=latest"
prefix_config=../../conf/train/mini_prefix.yaml
wait_config=../../conf/train/mini_wait.yaml
predictor_model="--mels 40 --channels 16 --embedding 64 --hidden 128 --learning-rate 1e-3 --warmup 200 --max-epochs 30"
dependent_defaults() {
    if [ "$pair" = en-ja ]; then default ratios "none 29 23"; fi # frames per token
    variant=
    case $size in
        small)
            default speeds 1.0
            default asr false
            default config ../../conf/train/mini_st.yaml
            default asr_config ../../conf/train/mini_asr.yaml ;;
        large)
            variant=large
            default train 20000 ;;
        *)
            echo "error: no size '$size'; there are small and large" >&2
            exit 1 ;;
    esac
    case $style in
        sentences) ;;
        talk)
            variant=${variant:+$variant-}talk
            [ "$size" = large ] || default train 4300 ;; # about as much audio as 5000 sentences without pauses
        *)
            echo "error: no style '$style'; there are sentences and talk" >&2
            exit 1 ;;
    esac
    if [ -n "$variant" ]; then
        default data "data/$variant"
        default exp "exp/$variant"
    fi
}
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=

if runs 1; then
    echo "== stage 1: corpus and data directories"
    # shellcheck disable=SC2086
    python ../../local/make_mini.py --out "$data/corpus" --pairs "$pair" --jobs "$jobs" --style "$style" \
        --train "$train" --dev "$dev" --tst-common "$test" --tst-he "$he" $redo
    simulst data must-c --root "$data/corpus" --pairs "$pair" --out "$data"
fi

recipe=mini
pairs=$pair
command="./run.sh --recipe mini$shown"
# shellcheck source=../../local/st_stages.sh
. ../../local/st_stages.sh
# shellcheck source=../../local/prefix_stages.sh
. ../../local/prefix_stages.sh

if runs 17; then
    for pair in $pairs; do
        for split in $tests; do
            echo "== stage 17: talks of $pair $split"
            simulst data talks --data "$data/$pair/$split" --out "$data/$pair/talks-$split" \
                --source-lang en --target-lang "${pair#*-}" $redo
        done
    done
fi

if runs 19; then
    choose_pages README.md
    for pair in $pairs; do
        echo "== stage 19: repeated tokens and the ranking of the last block, on dev of $pair"
        decode "$pair" dev "$out/st" ../../conf/decode/sweep_repetition.yaml "$out/repetition/$pair" \
            --model-option checkpoint=chosen.pth
        for page in "${pages[@]}"; do
            python ../../local/write_results.py --page "$page" --section "$(pair_section "$pair")-repetition" \
                --command "$command --stage 19 --stop-stage 19" "$out/repetition/$pair"
        done
    done
fi

# shellcheck source=../../local/paper_a_stages.sh
. ../../local/paper_a_stages.sh

if runs 24; then
    choose_pages TERMS.md
    for pair in $pairs; do
        echo "== stage 24: recall of rare words of $pair, without and with a bonus"
        words=$data/$pair/context.tsv
        simulst data context --data "$data/$pair/tst-COMMON" --target-lang "${pair#*-}" \
            --counted "$data/$pair/train/text.tc.${pair#*-}" --out "$words"
        decode "$pair" tst-COMMON "$out/st" ../../conf/decode/sweep_terms.yaml "$out/terms/$pair" --context "$words"
        for page in "${pages[@]}"; do
            python ../../local/write_results.py --page "$page" --section "$(pair_section "$pair")-terms" \
                --command "$command --stage 24 --stop-stage 24" "$out/terms/$pair"
        done
    done
fi

if runs 25; then
    for name in system token_kind pieces; do
        if [[ $given == *" $name "* ]]; then
            echo "error: --${name//_/-}: stage 25 sets it for each of its models; choose these by --b-models" >&2
            exit 1
        fi
    done
    b_stages() { # tokens of the model, first and last stage, more options
        local name=$1 first=$2 last=$3 kind=${1%%[0-9]*} size=${1##*[a-z]}
        ./run.sh --system "b-$name" --config ../../conf/train/mini_b_st.yaml --token-kind "$kind" --pieces "${size:-700}" \
            --decodings ../../conf/decode/paper_b_grid.yaml --asr true --asr-config ../../conf/train/mini_b_asr.yaml \
            "${@:4}" "${GIVEN[@]}" --stage "$first" --stop-stage "$last"
    }
    for name in $b_models; do
        if ! [[ $name =~ ^(char|bpe[1-9][0-9]*)$ ]]; then
            echo "error: --b-models '$name': give char, or bpe and the number of pieces, such as bpe400" >&2
            exit 1
        fi
    done
    shared=()
    if [[ $given != *" asr "* ]] || $asr; then
        echo "== stage 25: the recognition model that all begin with"
        b_stages char 3 5
        shared=(--asr-model "$exp/b-char/$set/asr/valid.acc.best.pth") # the source's tokens are the same in all
    fi
    for name in $b_models; do
        echo "== stage 25: paper B's model with the tokens $name"
        if [ "$name" = char ] && [ ${#shared[@]} != 0 ]; then
            b_stages char 6 10
        else
            b_stages "$name" 3 10 "${shared[@]}"
        fi
    done
    for compared in "char bpe400 b paper_b" "bpe400 bpe2000 b-pieces paper_b_pieces"; do
        read -r one other section file <<< "$compared"
        if [[ " $b_models " == *" $one "* && " $b_models " == *" $other "* ]]; then
            write_findings "${variant:+$variant-}$section-$set" README.md "b-*/$set" \
                "$command --stage 25 --stop-stage 25" "../../conf/findings/$file.yaml"
        fi
    done
fi
