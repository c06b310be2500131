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
#   --publish            write tables and curve into this recipe's README.md, too, which git tracks; without it only into
#                        README.md in the folder for the results
#
# Stages have the numbers that they have in every recipe; 3 to 7 train a model, and this one comes trained:
#   1 recordings and transcripts   2 model   8 decode   9 score   10 curve, tables and findings
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
publish=false
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh

export PATH=$PWD/../../.venv/bin:$PATH
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
languages="es fr it ru"
whisper=models/whisper-base
part_of() {
    if ! $full; then echo "--max-seconds $max_seconds --limit $([ "$1" = es ] && echo "$limit" || echo "$limit_others")"; fi
}

if runs 1; then
    echo "== stage 1: recordings and transcripts"
    python ../../local/prepare_prompts.py --downloads downloads --out data --min-words "$min_words"
fi

if runs 2; then
    echo "== stage 2: model"
    python ../../local/fetch_whisper.py --downloads downloads --out $whisper ${model:+--model "$model"}
fi

if runs 8; then
    for language in $languages; do
        echo "== stage 8: decode $language-en"
        # shellcheck disable=SC2046
        simulst sweep --data "data/$language-en/tst" --model $whisper --source-lang "$language" --target-lang en \
            --decodings "conf/sweep_$language.yaml" --out "$exp/$language-en" --jobs "$jobs" \
            ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) $(part_of "$language")
    done
fi

if runs 9; then
    echo "== stage 9: score (again, from the logs alone)"
    python ../../local/score_runs.py --target-lang en "$exp"/*-en
fi

if runs 10; then
    echo "== stage 10: curve, tables and findings"
    for suffix in svg png; do
        simulst plot "$exp/es-en" --out "$exp/es-en.$suffix" --title "Whisper base put online, es→en prompts"
    done
    pages=("$exp/README.md")
    if $publish; then
        cp "$exp/es-en.svg" .
        pages+=(README.md)
    fi
    for page in "${pages[@]}"; do
        for language in $languages; do
            # shellcheck disable=SC2046
            python ../../local/write_results.py --page "$page" --section "$language-en" \
                $([ "$language" != es ] || echo "--picture es-en.svg") \
                --command "./run.sh --recipe prompts$(if $full; then echo ' --full'; fi)" "$exp/$language-en"
        done
    done
    # shellcheck disable=SC2046
    simulst findings --findings ../../conf/findings/paper_a.yaml --runs "$exp/es-en" --section es-en-findings \
        --out "$exp/FINDINGS.md" $($publish && echo --out README.md) \
        --command "./run.sh --recipe prompts$(if $full; then echo ' --full'; fi)"
fi
