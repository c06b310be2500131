#!/usr/bin/env bash
# A model that learns when to write, on mini: ./run.sh's model, fine-tuned to end each chunk's writing with a wait token.
# docs/learn.md explains it. For one pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/wait_token.sh

default search_weights dev

dependent_defaults() {
    default tests tst-COMMON
    if [ "$size" = small ]; then
        default asr false
        default config ../../conf/train/mini_st.yaml
        default asr_config ../../conf/train/mini_asr.yaml
    fi
}

begin "$@"
run_stages
