#!/usr/bin/env bash
# Paper B's models (Nguyen et al. 2021) on MuST-C: BLSTM and LSTM on characters and two sizes of BPE, by wait k, stride s, write N.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_b.sh

# The paper has SpecAugment for the German model of characters alone (section 3).
dependent_defaults() { default specaug "$(if [ "$pairs" = en-de ]; then echo char; fi)"; }

begin "$@"
run_stages
