#!/usr/bin/env bash
# {{source}}→{{target}} from tables and audio files: a blockwise Conformer with joint ST-CTC, and translation of speech with it.
#
#   --tables "S=F ..."   the table of each split: train, dev, and all of --tests
#                        [$tables]
#   --audio DIR          folder that the tables' file names begin in [$audio]
#   --tsv-options "."    options of simulst data tsv, such as "--speaker-column client_id"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Where this corpus is, and how its columns are called (docs/data.md).
tables="train=downloads/train.tsv dev=downloads/dev.tsv test=downloads/test.tsv"
audio=downloads
tsv_options=
# shellcheck source=../../local/st_options.sh
. ../../local/st_options.sh
# What it wants otherwise than paper C: set any other option of `./run.sh --help` here.
tests="test"
# shellcheck source=../../local/parse_options.sh
. ../../local/parse_options.sh
pairs={{source}}-{{target}}

export PATH=$PWD/../../.venv/bin:$PATH
$force && redo=--force || redo=

if runs 1; then
    echo "== stage 1: data directories"
    # shellcheck disable=SC2086
    simulst data tsv $tables --pair "$pairs" --audio "$audio" --out "$data" $tsv_options
fi

recipe={{name}}
variant=
command="./run.sh --recipe $recipe$shown"
# shellcheck source=../../local/st_stages.sh
. ../../local/st_stages.sh
