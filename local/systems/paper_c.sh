# Paper C's system (CUNI-KIT at IWSLT 2023): a blockwise Conformer with joint ST-CTC, whose encoder learns recognition first.
. ../../local/training.sh

option config path ../../conf/train/paper_c_st.yaml "ESPnet's training configuration"
option asr flag true "train a recognition model first, and begin with its encoder"
option asr_config path ../../conf/train/paper_c_asr.yaml "its configuration" more
option asr_model path "" "a recognition model to begin with that is there, such as exp/NAME/en-de/asr/valid.acc.best.pth" more
option system path "" "name of another model on the same data, which gets folders and results of this name"
option search_weights "paper|dev" paper "weights of the search: paper C's (ST-CTC 0.3, for Chinese 0.4), or the best ones on dev" more
option token_kind "unigram|bpe|char" unigram "target tokens; source tokens are unigram" more
token_options
option train_options text "" "options for ESPnet in stage 6, such as \"--max_epoch 2\""
option asr_options text "" "options for ESPnet in stage 5" more
espnet_options
decoding_options tst-COMMON ../../conf/decode/paper_c.yaml ../../conf/findings/paper_c.yaml
common_options

stage audio "audio, cut into segments"
stage tokens "tokens of both languages"
stage stats "statistics of features"
stage pretrain "training for recognition"
stage train "training for translation"
stage choose "averages of checkpoints, the best of them on dev, and weights of the search"
stage decode "decoding under all configurations"
stage score "scores, again, from the logs alone"
stage results "curve, tables and findings"

decoded=decode

check_options() { drop_recognition; }

get_ready() {
    system_name=$system
    if [ -n "$system" ] && [ "$findings" = ../../conf/findings/paper_c.yaml ]; then default findings ""; fi # of its own models
    set_places "$system"
    encoder=$asr_model
    if [ -z "$asr_model" ] && $asr; then encoder=$out/asr/valid.acc.best.pth; fi
    check_asr_model
    if runs pretrain; then check_gpus "$out/asr"; fi
    if runs train; then check_gpus "$out/st"; fi
}

stage_audio() { segment_audio; }
stage_tokens() { learn_tokens "$token_kind" "$pieces"; }
stage_stats() { collect_statistics "$config"; }
stage_pretrain() { train_recognition; }
stage_train() { train_translation "$encoder"; }
stage_choose() {
    local weight=0.3
    if [ "$target" = zh ]; then weight=0.4; fi
    choose_checkpoint "$out/st" $([ "$search_weights" = dev ] || echo "--ctc-weight $weight")
}

decode_split() { decode_espnet "$1" "$2" "$out/st" chosen.pth "$decodings"; }
runs_of() { echo "$out/$decoded/$1/$2"; }
