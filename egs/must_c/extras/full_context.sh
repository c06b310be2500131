#!/usr/bin/env bash
# A model that sees all of the audio, by paper C's searches and policies (CUNI-KIT at IWSLT 2023, tables 1 and 3). For one pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ../../local/common.sh
. ./corpus.sh
. ../../local/systems/full_context.sh

begin "$@"
run_stages
