# An ESPnet model that sees all of the audio: paper D begins with it, and paper C puts it online (extras/full_context.sh).
. ../../local/training.sh

offline_options() {
    option offline_config path ../../conf/train/paper_d_st.yaml "ESPnet's configuration of the offline model"
    option stats_config path ../../conf/train/paper_c_st.yaml "the configuration whose features stage 4 measures, that of ./run.sh --recipe $recipe" more
    option prefix_pieces count 20000 "pieces of the BPE that the two languages share in this model; 0: the tokens of ./run.sh --recipe $recipe" more
    token_options
    option asr flag false "train a recognition model first; the offline model and those for wait-k begin with its encoder" more
    option asr_config path ../../conf/train/paper_d_asr.yaml "its configuration" more
    option asr_options text "" "options for ESPnet in its training" more
    option offline_options text "" "options for ESPnet in the training of the offline model, such as \"--seed 2\"" more
    espnet_options
}

# Sets the tokens of the offline model and of those that begin with its weights.
set_shared_tokens() {
    set_places
    shared_tokens=$own/tokens shared_source_tokens=$own/source_tokens
    encoder=
    if $asr; then encoder=$out/offline-asr/valid.acc.best.pth; fi
    if [ "$prefix_pieces" != 0 ]; then shared_tokens=$own/shared_tokens shared_source_tokens=$own/shared_tokens; fi
    sharing=("${corpus[@]}" --text "tc.$target" --tokens "$shared_tokens"
        --source-text "lc.rm.$source" --source-tokens "$shared_source_tokens")
}

stage_audio() { segment_audio; }

stage_tokens() {
    learn_tokens unigram "$pieces"
    if [ "$prefix_pieces" != 0 ]; then
        step "tokens that both languages share"
        simulst train tokens "$dump/train/text.tc.$target" "$dump/train/text.lc.rm.$source" \
            --out "$shared_tokens" --size "$prefix_pieces" --kind bpe $redo
    fi
}

stage_stats() { collect_statistics "$stats_config"; }

train_offline() {
    step "offline model, ${out#"$exp"/}/offline"
    espnet "$out/offline" "$offline_config" "${sharing[@]}" ${encoder:+--encoder "$encoder"} -- $model_options $offline_options
}

# Recognition with the tokens that both languages share, if --asr wants it.
train_recognition_first() {
    $asr || return 0
    step "recognition, ${out#"$exp"/}/offline-asr"
    espnet "$out/offline-asr" "$asr_config" --task asr "${corpus[@]}" --text "lc.rm.$source" --tokens "$shared_source_tokens" \
        -- $model_options $asr_options
}
