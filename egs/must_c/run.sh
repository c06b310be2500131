#!/usr/bin/env bash
# Paper C's systems (CUNI-KIT at IWSLT 2023) on MuST-C: blockwise Conformer, joint ST-CTC, ASR pre-training, blockwise search.
# Beside it: --recipe must_c/paper_a, must_c/paper_b, must_c/paper_d, must_c/extras/wavlm, must_c/extras/model_a.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_c.sh

dependent_defaults() { if [ "$pairs" = en-zh ]; then default pieces 8000; fi; }

begin "$@"
run_stages
