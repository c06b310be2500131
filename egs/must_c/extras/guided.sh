#!/usr/bin/env bash
# Paper C's table 2: the model of must_c/extras/full_context, guided by the CTC of that of must_c. Both must be there. For one pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/guided.sh

begin "$@"
run_stages
