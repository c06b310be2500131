#!/usr/bin/env bash
# {{source}}→{{target}} from tables and audio files: a blockwise Conformer with joint ST-CTC, and translation of speech with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_c.sh
default search_weights dev
# What it wants otherwise than paper C, by any option of ./run.sh --recipe {{name}} --help all, such as: default pieces 2000

begin "$@"
run_stages
