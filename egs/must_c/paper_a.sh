#!/usr/bin/env bash
# Paper A's system (CUNI-KIT at IWSLT 2022) on MuST-C: wav2vec 2.0 with the decoder of mBART-50, fine-tuned and put online.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_a.sh

begin "$@"
run_stages
