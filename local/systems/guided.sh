# Paper C's table 2: a model that sees all of the audio, guided by the CTC of a small blockwise model. Its runs lie beside those of
# the blockwise model, whose table and findings they complete.
. ../../local/training.sh

option guide path "" "the model whose CTC guides, such as a smaller --system's exp/NAME/en-de/st; empty: that of ./run.sh --recipe $recipe"
decoding_options tst-COMMON ../../conf/decode/paper_c_guided.yaml ../../conf/findings/paper_c.yaml
common_options

stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curve, tables and findings, of the blockwise model, too"

get_ready() {
    one_pair
    set_places
    guide=${guide:-$out/st}
    if runs decode; then
        need "$guide/chosen.pth" "./run.sh --recipe $recipe --stop-stage choose"
        need "$out/offline/chosen.pth" "./run.sh --recipe $recipe/extras/full_context --stop-stage choose"
    fi
}

decode_split() { decode_espnet "$1" "$2" "$out/offline" chosen.pth "$decodings" --set "guide=$guide"; }
runs_of() { echo "$out/decode/$1/$2"; }
