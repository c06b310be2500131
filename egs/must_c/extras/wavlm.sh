#!/usr/bin/env bash
# Paper C's offline model (CUNI-KIT at IWSLT 2023): WavLM with mBART's decoder, for one pair or several, by chunks, and
# guided by the CTC of must_c's blockwise models, which must be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/wavlm.sh

begin "$@"
run_stages
