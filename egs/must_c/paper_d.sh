#!/usr/bin/env bash
# Paper D's system (NAIST at IWSLT 2022) on MuST-C: prefix pairs and a boundary predictor make an offline model simultaneous.
# docs/prefix.md explains it. For one pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/paper_d.sh

begin "$@"
run_stages
