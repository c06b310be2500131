#!/usr/bin/env bash
# Paper A's system (CUNI-KIT at IWSLT 2022) on mini: an offline model of Hugging Face's, for one pair or both, put online.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_a.sh
default config ../../conf/train/mini_a.yaml

dependent_defaults() { default tests tst-COMMON; }

begin "$@"
run_stages
