# The corpus of acted speech, which this recipe's scripts share.
readonly six_pairs="en-de en-es en-fr en-it en-pt en-sv"
voices_options() {
    option full flag false "decode all lines of the splits, not only a part of them"
    option downloads path downloads "folder for packages" more where
    option models path models "folder for models" more where
}
stage data "recordings, texts and data directories"
no_stage 13 "stage 13 is now --compare of ./run.sh --recipe voices/finetune and voices/scratch"
no_stage 17 "stage 17 is now ./run.sh --recipe voices/extras/talks"
no_stage audio "fetching the model is now --only pretrain; end there by --stop-stage pretrain"
no_stage choose "the conversion to CTranslate2 belongs to --only train"
moved "each training has a script of its own now: ./run.sh --recipe voices, voices/cascade, voices/finetune, voices/scratch" training
moved "an option of ./run.sh --recipe voices/cascade" translator recognisers unstable
moved "an option of ./run.sh --recipe voices/finetune and voices/scratch" config compare
moved "an option of ./run.sh --recipe voices/scratch" readings pieces source_pieces token_kind system speeds asr asr_model asr_config \
    model_options train_options asr_options stats_options counts seeds ngpu num_nodes hosts

corpus_defaults() {
    if ! $full; then default limits "--draw 45"; fi
    full_name= # results on all lines have names of their own
    if $full; then full_name=-full; fi
}

stage_data() { make_corpus "$data"; }

make_corpus() { # in the folder $1
    step "recordings, texts and data directories"
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} python local/prepare_voices.py --downloads "$downloads" --out "$1/corpus" \
        --model "$models/whisper-base" --heard "$1/heard" $redo
    simulst data must-c --root "$1/corpus" --out "$1" --splits "train dev tst tst-other" \
        --pairs "en-de en-es en-fr en-it en-pt en-ru en-sv es-de es-en es-fr es-it es-ru"
}

data_of() { # transcripts stand beside translations
    case $1 in
        en-en) echo "$data/en-de/$2" ;;
        es-es) echo "$data/es-en/$2" ;;
        *) echo "$data/$1/$2" ;;
    esac
}
