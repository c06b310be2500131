#!/usr/bin/env bash
# Paper A's model A (CUNI-KIT at IWSLT 2022, section 4.2): a Transformer with relative attention, from scratch, put online.
# With model B (--recipe must_c/paper_a) decoded, it is tested whether the better offline model is the better online one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_c.sh
default system model_a
default config ../../conf/train/paper_a_model_a_st.yaml
default asr_config ../../conf/train/paper_a_model_a_asr.yaml
default search_weights dev
default decodings ../../conf/decode/paper_a.yaml
default findings ../../conf/findings/paper_a.yaml

stage_results() {
    local found
    for_each_split write_split
    [ -n "$findings" ] || return 0
    for found in "$exp"/*/paper_a/decode/"$pairs"/"${tests%% *}"/offline; do
        if [ -e "$found" ]; then
            step "models A and B"
            findings=../../conf/findings/paper_a_models.yaml test_findings "$exp/*"
            write_results "paper_a-models-${tests%% *}" "${tested[@]}"
            return 0
        fi
    done
}

begin "$@"
run_stages
