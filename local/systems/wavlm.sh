# Paper C's offline model (CUNI-KIT at IWSLT 2023): WavLM with mBART's decoder, one model for several target languages, put online by
# LA-2 with BWBS and IBWBS, and guided by the CTC of each pair's small blockwise model.
. ../../local/systems/paper_a.sh
default config ../../conf/train/paper_c_offline.yaml
default decodings ../../conf/decode/paper_c_guided.yaml
default findings "../../conf/findings/paper_c.yaml ../../conf/findings/paper_c_full_context.yaml"
option guide text "" "the blockwise model whose CTC guides, with PAIR for the pair; empty: PAIR's of ./run.sh --recipe $recipe"

system=wavlm

guide_of() { local guide=${guide:-$exp/PAIR/st}; echo "${guide//PAIR/$1}"; } # $1: the pair

decode_split() {
    local option=pair
    if [ -n "${kind_of[pairs]:-}" ]; then option=pairs; fi
    need "$(guide_of "$1")/chosen.pth" "./run.sh --recipe $recipe --$option $1 --stop-stage choose"
    decode "$data/$1/$2" "$1" "$folder/model" "$decodings" "$(runs_of "$1" "$2")" --text "tc.${1#*-}" \
        --set "guide=$(guide_of "$1")"
}
