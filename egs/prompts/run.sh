#!/usr/bin/env bash
# Put a public offline model (Whisper base) online on real recordings: es, fr, it, ru to English.
#
#   --stage N            begin here [1]
#   --stop-stage N       end here [10]
#   --full               decode all test prompts, not only the first of them
#   --limit N            es prompts to decode without --full [40]
#   --limit-others N     prompts of each other language without --full [25]
#   --max-seconds S      the longest prompt to decode without --full [20]
#   --jobs N             processes [all cores]
#   --scheduler ADDRESS  a running Dask scheduler to use instead; --slurm: decode in --jobs jobs of a Slurm cluster
#   --model DIR|NAME     another Whisper in CTranslate2 form: a folder, or a name on the Hugging Face hub
#   --min-words N        keep prompts of at least so many English words [8]
#   --exp DIR            folder for the results [exp]
#   --force              run complete stages from 8 on again
#   --publish            write tables and curve into this recipe's README.md, too, which git tracks; without it only into
#                        README.md in the folder for the results
#
# Stages have the numbers that they have in every recipe; 3 to 7 train a model, and this one comes trained:
#   1 recordings and transcripts   2 model   8 decode   9 score   10 curve, tables and findings
#   11 talks: the test prompts joined to recordings of 10 minutes and more (needs --stop-stage 11)
#   12 decode the talks, and score their sentences by OmniSTEval (needs --stop-stage 12)
# An interrupted run goes on where it was; what is whole is not done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stage=1
stop_stage=10
full=false
limit=40
limit_others=25
max_seconds=20
jobs=$(nproc)
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
command="./run.sh --recipe prompts$(if $full; then echo ' --full'; fi)"
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

if runs 11; then
    for pair in $pairs; do
        for pauses in natural long; do
            echo "== stage 11: talks $pair, $pauses pauses"
            python ../../local/write_talks.py --data "data/$pair/tst" --out "data/$pair/talks-$pauses" \
                --source-lang "${pair%-*}" --target-lang en --join "$pauses" $redo
        done
    done
fi

if runs 12; then
    for pair in $pairs; do
        for pauses in natural long; do
            echo "== stage 12: decode and score the talks $pair, $pauses pauses"
            talks=data/$pair/talks-$pauses
            simulst sweep --data "$talks" --model $whisper --source-lang "${pair%-*}" --target-lang en \
                --decodings conf/sweep_talks.yaml --out "$exp/talks/$pair-$pauses" --jobs "$jobs" $redo \
                ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm)
            python ../../local/score_runs.py --target-lang en --segmentation "$talks/talks.yaml" \
                --references "$talks/talks.en" "$exp/talks/$pair-$pauses"
            simulst table "$exp/talks/$pair-$pauses"
        done
    done
fi
