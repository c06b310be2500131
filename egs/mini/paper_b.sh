#!/usr/bin/env bash
# Paper B's models (Nguyen et al. 2021) on mini: BLSTM and LSTM on characters and two sizes of BPE, by wait k, stride s, write N.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_b.sh
default config ../../conf/train/mini_b_st.yaml
default asr_config ../../conf/train/mini_b_asr.yaml

begin "$@"
run_stages
