#!/usr/bin/env bash
# Paper C's system on synthetic speech: a blockwise Conformer with joint ST-CTC, trained from scratch in minutes.
# Beside it: --recipe mini/paper_a, mini/paper_b, mini/paper_d, mini/wait_token; in mini/extras: full_context, guided,
# repetition, speech_llm, talks, terms, wavlm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_c.sh

default search_weights dev

dependent_defaults() {
    if [ "$size" = small ]; then
        default asr false
        default config ../../conf/train/mini_st.yaml
        default asr_config ../../conf/train/mini_asr.yaml
    fi
}

begin "$@"
run_stages
