#!/usr/bin/env bash
# Put a public offline model (Whisper base) online on real recordings: es, fr, it, ru to English.
#
#   --stage N            begin here [1]
#   --stop-stage N       end here [10]
#   --full               decode all test prompts, not only the first of them
#   --limit N            es prompts to decode without --full [40]
#   --limit-others N     prompts of each other language without --full [25]
#   --max-seconds S      the longest prompt to decode without --full [20]
#   --jobs N             processes, one for each core [$jobs]
#   --scheduler ADDRESS  a running Dask scheduler to use instead; --slurm: decode in --jobs jobs of a Slurm cluster
#   --model DIR|NAME     another Whisper in CTranslate2 form: a folder, or a name on the Hugging Face hub
#   --min-words N        keep prompts of at least so many English words [8]
#   --exp DIR            folder for the results [exp]
#   --force              run complete stages from 8 on again
#   --publish            write tables and curve into this recipe's README.md, too, and the verdicts on findings into
#                        docs/papers.md, which git tracks; without it only into README.md in the folder for the results
#
# Stages have the numbers that they have in every recipe; 3 to 7 train a model, and this one comes trained:
#   1 recordings and transcripts   2 model   8 decode   9 score   10 curve, tables and findings
#   11 talks: the test prompts joined to recordings of 10 minutes and more (needs --stop-stage 11)
#   12 decode the talks, and score their sentences by OmniSTEval: curve and tables (needs --stop-stage 12)
#   13 the es prompts with the same weights in CTranslate2's and in Hugging Face's form (--stage 13 --stop-stage 13)
#   14 recall of rare words with and without context, on the es prompts (--stage 14 --stop-stage 14)
#   15 choice by regime: the best configuration for each range of LongYAAL, on a talk of the es dev prompts
#      (--stage 15 --stop-stage 15)
#   16 paper C's searches: BWBS and IBWBS on the es prompts, by Hugging Face's form; table and findings
#      (--stage 16 --stop-stage 16)
# An interrupted run goes on where it was; what is whole is not done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stage=1
stop_stage=10
full=false
limit=40
limit_others=25
max_seconds=20
jobs=$(env -u OMP_NUM_THREADS nproc) # that variable is about threads
scheduler=
slurm=false
model=
min_words=8
exp=exp
force=false
publish=false
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
$force && redo=--force || redo=
whisper=models/whisper-base

if runs 1; then
    echo "== stage 1: recordings and transcripts"
    python ../../local/prepare_prompts.py --downloads downloads --out data --min-words "$min_words"
fi

if runs 2; then
    echo "== stage 2: model"
    python ../../local/fetch_whisper.py --downloads downloads --out $whisper ${model:+--model "$model"}
fi

pairs="es-en fr-en it-en ru-en"
tests=tst
variants=whisper
pictured=es-en
findings=../../conf/findings/paper_a.yaml
title="Whisper base put online, prompts"
command="./run.sh --recipe prompts$shown"
model_of() { echo "$whisper"; }
data_of() { echo "data/$1/$2"; }
runs_of() { echo "$exp/$1"; }
section_of() { echo "$1"; }
sweep_of() { echo "conf/sweep_${1%-*}.yaml"; }
options_of() {
    $full || echo "--max-seconds $max_seconds --limit $([ "$1" = es-en ] && echo "$limit" || echo "$limit_others")"
}
# shellcheck source=../../local/whisper_stages.sh
. ../../local/whisper_stages.sh

write_tables() { # $1: the section, $2: the stage, $3: the folder of the runs; then options of write_results.py
    local page
    for page in "$exp/README.md" $(if $publish; then echo README.md; fi); do
        python ../../local/write_results.py --page "$page" --section "$1" \
            --command "$command --stage $2 --stop-stage $2   # $(python ../../benchmarks/processor.py)" "$3" "${@:4}"
    done
}

if runs 11; then
    for pair in $pairs; do
        for pauses in natural long; do
            echo "== stage 11: talks $pair, $pauses pauses"
            simulst data talks --data "data/$pair/tst" --out "data/$pair/talks-$pauses" \
                --source-lang "${pair%-*}" --target-lang en --join "$pauses" $redo
        done
    done
fi

decode_talks() { # $1: a folder of talks; $2: its source language; $3: configurations; $4: the folder for the runs
    simulst sweep --data "$1" --model $whisper --source-lang "$2" --target-lang en --decodings "$3" --out "$4" \
        --jobs "$jobs" $redo ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm)
    simulst runs score --target-lang en --segmentation "$1/talks.yaml" --references "$1/talks.en" "$4"
}

if runs 12; then
    for pair in $pairs; do
        for pauses in natural long; do
            echo "== stage 12: decode and score the talks $pair, $pauses pauses"
            decode_talks "data/$pair/talks-$pauses" "${pair%-*}" conf/sweep_talks.yaml "$exp/talks/$pair-$pauses"
            section=talks-$pair-$pauses
            picture=
            if [ "$pair" = "$pictured" ]; then
                picture=$section.svg
                simulst plot "$exp/talks/$pair-$pauses" --x LongYAAL --out "$exp/$picture" --out "$exp/$section.png" \
                    --title "$title, ${pair/-/→}, talks with $pauses pauses"
                if $publish; then cp "$exp/$picture" .; fi
            fi
            write_tables "$section" 12 "$exp/talks/$pair-$pauses" --picture "$picture"
        done
    done
fi

hf=$whisper-hf
if runs 13 || runs 14 || runs 16; then
    # shellcheck disable=SC2086
    simulst models from-ctranslate2 --model "$whisper" --out "$hf" $redo
fi
es_sweep() { # a sweep over the es prompts; $1: its configurations, $2: the folder for the runs
    # shellcheck disable=SC2046
    simulst sweep --data data/es-en/tst --source-lang es --target-lang en --decodings "$1" --out "$2" --jobs "$jobs" \
        $redo ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) $(options_of es-en) "${@:3}"
}

if runs 13; then
    forms="ctranslate2-int8 ctranslate2-float32 huggingface-float32"
    if grep -qwE "avx512_bf16|amx_bf16|bf16" /proc/cpuinfo; then forms+=" huggingface-bfloat16"; fi
    for form in $forms; do
        echo "== stage 13: the same weights in $form"
        case $form in
            ctranslate2-*) es_sweep conf/sweep_forms.yaml "$exp/forms/$form" \
                --model "$whisper" --model-option "compute_type=${form#*-}" ;;
            *) es_sweep conf/sweep_forms_huggingface.yaml "$exp/forms/$form" \
                --model "$hf" --model-option "dtype=${form#*-}" ;;
        esac
    done
    write_tables forms 13 "$exp/forms" --equal-texts
fi

if runs 14; then
    echo "== stage 14: recall of rare words with and without context"
    context=data/es-en/context.tsv
    simulst data context --data data/es-en/tst --target-lang en --counted data/es-en/dev/text.en \
        --out $context
    es_sweep ../../conf/decode/la2w_1000ms.yaml "$exp/terms/without" --model "$hf"
    es_sweep conf/sweep_terms.yaml "$exp/terms/with" --model "$hf" --context $context
    sed "1s/terms/target_text/; s/=//g; s/; /, /g" $context > data/es-en/context_text.tsv
    es_sweep conf/sweep_terms_in_text.yaml "$exp/terms/in_text" --model "$hf" --context data/es-en/context_text.tsv
    simulst runs score --target-lang en --context $context "$exp/terms"
    write_tables terms 14 "$exp/terms"
fi

if runs 15; then
    echo "== stage 15: choice by regime on a talk of the es dev prompts"
    talks=data/es-en/talks-dev
    simulst data talks --data data/es-en/dev --out $talks --source-lang es --target-lang en \
        --join natural $redo
    decode_talks $talks es conf/sweep_regimes.yaml "$exp/regimes"
    simulst choose "$exp/regimes" --metric LongYAAL --regimes 0-2000 2000-4000 --segmentation $talks/talks.yaml \
        --references $talks/talks.en | tee "$exp/regimes.txt"
    write_tables regimes 15 "$exp/regimes" --text "$exp/regimes.txt"
fi

if runs 16; then
    echo "== stage 16: BWBS and IBWBS on the es prompts"
    es_sweep conf/sweep_full_context.yaml "$exp/full-context" --model "$hf"
    write_tables es-en-full-context 16 "$exp/full-context"
    write_findings es-en-full-context "$exp/full-context" "$command --stage 16 --stop-stage 16" \
        ../../conf/findings/paper_c_full_context.yaml
    if $publish; then python ../../local/write_verdicts.py --root ../..; fi
fi
