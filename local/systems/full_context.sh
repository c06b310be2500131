# A model that sees all of the audio, by paper C's searches and policies: BWBS, IBWBS and the CTC policy.
. ../../local/systems/offline.sh

offline_options
decoding_options tst-COMMON ../../conf/decode/paper_c_full_context.yaml ../../conf/findings/paper_c_full_context.yaml
common_options

stage audio "audio, cut into segments"
stage tokens "tokens"
stage stats "statistics of features"
stage train "training of the offline model, which is paper_d's, too"
stage choose "averages of checkpoints, the best of them on dev, and weights of the search"
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curve, tables and findings"

system_name=full_context

get_ready() {
    one_pair
    set_shared_tokens
    seeds= # these findings need no other trainings
    if runs train; then check_gpus "$out/offline"; fi
}

stage_train() {
    train_recognition_first
    train_offline
}
stage_choose() { choose_checkpoint "$out/offline"; }

decode_split() { decode_espnet "$1" "$2" "$out/offline" chosen.pth "$decodings"; }
runs_of() { echo "$out/full-context/$2"; }
