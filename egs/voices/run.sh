#!/usr/bin/env bash
# Acted speech in English and Spanish with text in eight languages, from two games in Debian, and models on it.
#
#   --training T         none: Whisper base put online; cascade: it recognises, and a command translates; finetune: Whisper
#                        base learns to write six languages; scratch: a blockwise Conformer with joint ST-CTC for these
#                        six [$training]
#   --pairs "P ..."      pairs to decode; with a training: pairs of the model [$pairs]
#   --full               decode all lines of the splits, not only a part of them
#   --model DIR|NAME     another Whisper in CTranslate2 form: a folder, or a name on the Hugging Face hub; its results get
#                        folders of their own
#   --downloads DIR      folder for packages [$downloads]; --models DIR: for models [$models]
#   --recognisers FILE   the recogniser's decoding configurations in cascades [$recognisers]; --decodings: the translator's
#   --translator "."     a cascade's command, which ends each answer in a null byte [$translator]
#   --readings N         scratch: the training data also has N synthetic readings of each line, for each pair in other voices;
#                        data, model and results get folders of their own [$readings]
#   --unstable           cascades also translate the words that the recogniser may still change
#
# Stages of none:     1 corpus and data directories  2 model  8 decoding  9 scoring  10 curve, tables and findings
# Stages of cascade:  the same
# Stages of finetune: the same, with 6 fine-tuning  7 conversion to CTranslate2
# With --stage 13 --stop-stage 13, finetune and scratch decode all lines of the splits: with and without fine-tuning, or
# with and without readings.
# Stage 17 (--stage 17 --stop-stage 17) writes the splits as whole recordings, for long streams; it needs stage 1.
# Of the options below, none, cascade and finetune have --tests, --limits, --decodings, --findings, --data, --exp, --publish,
# --jobs, --scheduler, --slurm and --force; finetune also has --config; scratch has all. `--training T --help` shows the
# defaults of T.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

training=none
pairs=
full=false
model=
downloads=downloads
models=models
recognisers=conf/recognisers.yaml
translator="../../local/apertium.sh eng-spa"
unstable=false
readings=0
readonly six_pairs="en-de en-es en-fr en-it en-pt en-sv"
# shellcheck source=../../local/st_options.sh
. ../../local/st_options.sh
ngpu=0
pieces=2000
source_pieces=1000
speeds=1.0
counts="1 3 5"
asr_config=../../conf/train/voices_asr.yaml
only() { # ends the recipe if options $2... were given for another training than $1
    local name
    for name in "${@:2}"; do
        if [ "$training" != "$1" ] && [[ $given == *" $name "* ]]; then
            echo "error: --${name//_/-} is only for --training $1, and this is --training $training" >&2
            exit 1
        fi
    done
}
dependent_defaults() {
    case $training in
        none)
            default pairs "es-en es-es en-en"
            default tests tst
            default decodings conf/sweep.yaml
            default findings ../../conf/findings/paper_a.yaml ;;
        cascade)
            default pairs en-es
            default tests tst
            default decodings conf/sweep_cascade.yaml
            default findings "" ;;
        finetune)
            default pairs "$six_pairs"
            default tests "tst tst-other"
            default config ../../conf/train/whisper_finetune.yaml
            default decodings conf/sweep.yaml
            default findings ../../conf/findings/paper_a.yaml ;;
        scratch)
            default config ../../conf/train/voices_st.yaml
            default findings "" # two hours give a model too weak for them
            default pairs "$six_pairs"
            default tests "tst tst-other" ;;
        *)
            echo "error: no training '$training'; there are none, cascade, finetune and scratch" >&2
            exit 1 ;;
    esac
    if ! $full; then default limits "--draw 45"; fi
    only scratch readings pieces source_pieces token_kind system speeds asr asr_model asr_config model_options \
        train_options asr_options stats_options counts guided guide seeds ngpu num_nodes hosts
    only cascade recognisers translator unstable
    if [[ $training =~ ^(none|cascade)$ && $given == *" config "* ]]; then
        echo "error: --config is not for --training $training, which trains nothing" >&2
        exit 1
    fi
    if [ "$training" = scratch ] && [ -n "$model" ]; then
        echo "error: --model is not for --training scratch, which begins without a model" >&2
        exit 1
    fi
}
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

if [ "$training" = cascade ] && runs 8 && [ "$pairs" != en-es ] && [[ $given != *" translator "* ]]; then
    echo "error: --pairs '$pairs': the default translator writes Spanish; give --translator" >&2
    exit 1
fi

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=
whisper=$models/whisper-base

if runs 1; then
    echo "== stage 1: recordings, texts and data directories"
    # shellcheck disable=SC2046
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} python ../../local/prepare_voices.py --downloads "$downloads" \
        --out "$data/corpus" --model "$whisper" --heard "$data/heard" $redo
    simulst data must-c --root "$data/corpus" --out "$data" --splits "train dev tst tst-other" \
        --pairs "en-de en-es en-fr en-it en-pt en-ru en-sv es-de es-en es-fr es-it es-ru"
    mkdir -p "$exp"
    for page in "$exp/README.md" $(if $publish; then echo README.md; fi); do
        python ../../local/write_counts.py "$data/corpus" --page "$page" \
            --command "./run.sh --recipe voices --stop-stage 1"
    done
fi
data_of() { # transcripts stand beside translations
    case $1 in
        en-en) echo "$data/en-de/$2" ;;
        es-es) echo "$data/es-en/$2" ;;
        *) echo "$data/$1/$2" ;;
    esac
}
if runs 17; then
    for pair in $pairs; do
        for split in $tests; do
            echo "== stage 17: talks of $pair $split"
            simulst data talks --data "$(data_of "$pair" "$split")" --out "$data/$pair/talks-$split" \
                --source-lang "${pair%-*}" --target-lang "${pair#*-}" $redo
        done
    done
fi
command="./run.sh --recipe voices$shown"
full_name= # results on all lines have sections of their own
if $full; then full_name=-full; fi
decode_part=decode$full_name

# Stage 13's table: all lines of the splits by the models $3 and $4, whose runs are below $2/all-lines, and tests of the
# difference between both, offline. $1: begins the section's name.
write_all_lines() {
    local differences=() page pair split
    for pair in $pairs; do
        for split in $tests; do
            differences+=(--test "$pair/$split/$3/offline" "$pair/$split/$4/offline")
        done
    done
    for page in "$exp/README.md" $(if $publish; then echo README.md; fi); do
        python ../../local/write_results.py --page "$page" --section "$1-all-lines" "${differences[@]}" \
            --command "$command --stage 13 --stop-stage 13" "$2/all-lines"
    done
}

if [ "$training" = scratch ]; then
    recipe=voices
    variant=scratch$full_name
    decoded=$decode_part
    folder=$exp/scratch${system:+/$system}/${pairs// /+}
    if [ "$readings" != 0 ]; then
        variant=scratch-readings$readings$full_name
        lines=$data
        data=$data/readings$readings
        exp=$exp/readings$readings
        if runs 1; then
            for pair in $pairs; do
                for split in dev $tests; do
                    if ! [ -d "$lines/$pair/$split" ]; then
                        echo "error: $lines/$pair/$split: no such folder; give splits of the corpus to --tests" >&2
                        exit 1
                    fi
                done
            done
            for pair in $pairs; do
                python ../../local/add_readings.py --data "$lines/$pair/train" --out "$data/$pair/train" --source-lang en \
                    --readings "$readings" --seed "$pair" --jobs "$jobs" $redo
                for split in dev $tests; do ln -sfnr "$lines/$pair/$split" "$data/$pair/$split"; done
            done
        fi
    fi
    # shellcheck source=../../local/st_stages.sh
    . ../../local/st_stages.sh
    if runs 13; then
        model=lines
        if [ "$readings" != 0 ]; then model=readings$readings; fi
        for pair in $pairs; do
            for split in $tests; do
                echo "== stage 13: all lines of $pair $split, $model"
                limits="" decode "$pair" "$split" "$out/st" conf/all_lines_scratch.yaml \
                    "$folder/all-lines/$pair/$split/$model" --model-option checkpoint=chosen.pth
            done
        done
        section=scratch${system:+-$system}
        if [ "$pairs" != "$six_pairs" ]; then section+=-${pairs// /+}; fi
        write_all_lines "$section" "$folder" lines "readings$((readings > 0 ? readings : 1))"
    fi
    exit
fi

named= # another model has results of its own
called="Whisper base"
if [ -n "$model" ]; then
    whisper=$models/$(basename "$model")
    called=${whisper##*/}
    named=-$called
fi
if runs 2; then
    echo "== stage 2: model"
    python ../../local/fetch_whisper.py --downloads "$downloads" --out "$whisper" ${model:+--model "$model"}
fi

trained=$exp/finetuned$named
if [ "$training" = finetune ]; then
    start=$whisper-hf
    if runs 6; then
        echo "== stage 6: fine-tuning"
        # shellcheck disable=SC2086
        simulst models from-ctranslate2 --model "$whisper" --out "$start" $redo
        parts=()
        for pair in $pairs; do parts+=(--pair "$pair" --train "$data/$pair/train" --valid "$data/$pair/dev"); done
        OMP_NUM_THREADS=$(nproc) simulst train finetune --config "$config" --model "$start" --out "$trained" $redo \
            "${parts[@]}"
    fi
    if runs 7; then
        echo "== stage 7: conversion to CTranslate2"
        simulst models to-ctranslate2 --model "$trained/model" --out "$trained/ctranslate2" \
            --quantization int8 $redo
    fi
    folder=$trained
    variants="base finetuned"
    tested="base/offline finetuned/offline"
    pictured=en-de
    title="$called, fine-tuned on acted speech"
elif [ "$training" = cascade ]; then
    folder=$exp/cascade$named
    mkdir -p "$folder"
    variants=$(python ../../local/write_cascades.py --model "$whisper" --decodings "$recognisers" \
        --command "$translator" --out "$folder" $($unstable && echo --unstable))
    pictured=$pairs
    title="Cascades on acted speech"
else
    folder=$exp/whisper$named
    variants=whisper
    pictured=$pairs
    title="$called put online, acted speech"
fi
model_of() {
    case $training-$3 in
        cascade-*) echo "$folder/$3.yaml" ;;
        *-finetuned) echo "$trained/ctranslate2" ;;
        *) echo "$whisper" ;;
    esac
}
runs_of() {
    echo "$folder/$decode_part/$1/$2$(if [ "$variants" != whisper ]; then echo "${3:+/$3}"; fi)"
}
section_of() { echo "$(if [ "$training" = cascade ]; then echo cascade-; fi)$1-$2$named$full_name"; }
sweep_of() {
    case $training-$3-$1-$2 in
        cascade-offline*) echo conf/offline.yaml ;;
        cascade-*) echo "$decodings" ;;
        *-base-*) echo conf/offline.yaml ;;
        *-whisper-* | *-finetuned-en-de-"${tests%% *}") echo "$decodings" ;;
        *) echo conf/sweep_other.yaml ;;
    esac
}
options_of() {
    echo "$limits"
    # Whisper base, too, is asked for German by the token of the language.
    if [ "$training" = finetune ]; then echo "--model-option other_targets=true"; fi
}
# shellcheck source=../../local/whisper_stages.sh
. ../../local/whisper_stages.sh

if [ "$training" = finetune ] && runs 13; then
    for pair in $pairs; do
        for split in $tests; do
            for variant in $variants; do
                echo "== stage 13: all lines of $pair $split, offline, $variant"
                decode "$pair" "$split" "$variant" conf/offline.yaml "$folder/all-lines/$pair/$split/$variant" \
                    --model-option other_targets=true
            done
        done
    done
    write_all_lines "finetuned$named" "$folder" $variants
fi
