#!/usr/bin/env bash
# Paper C's offline model (CUNI-KIT at IWSLT 2023), tiny: WavLM with mBART's decoder, for one pair or several, by chunks, and
# guided by the CTC of mini's blockwise models, which must be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/wavlm.sh
default config ../../conf/train/mini_c_offline.yaml

dependent_defaults() { default tests tst-COMMON; }

begin "$@"
run_stages
