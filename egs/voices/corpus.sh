# The corpus of acted speech, which this recipe's scripts share.
readonly six_pairs="en-de en-es en-fr en-it en-pt en-sv"
voices_options() {
    option full flag false "decode all lines of the splits, not only a part of them"
    option downloads path downloads "folder for packages" more where
}
stage data "recordings, texts and data directories"

corpus_defaults() {
    if ! $full; then default limits "--draw 45"; fi
    full_name= # results on all lines have names of their own
    if $full; then full_name=-full; fi
}

stage_data() { make_corpus "$data"; }

make_corpus() { # in the folder $1
    step "recordings, texts and data directories"
    python local/prepare_voices.py --downloads "$downloads" --out "$1/corpus" $redo
    python ../../local/prepare_data.py must-c --root "$1/corpus" --out "$1" --splits "train dev tst tst-other" \
        --pairs "en-de en-es en-fr en-it en-pt en-ru en-sv es-de es-en es-fr es-it es-ru"
}

data_of() { # transcripts stand beside translations
    case $1 in
        en-en) echo "$data/en-de/$2" ;;
        es-es) echo "$data/es-en/$2" ;;
        *) echo "$data/$1/$2" ;;
    esac
}
