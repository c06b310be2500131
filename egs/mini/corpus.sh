# The corpus of mini, which its scripts share: synthetic speech in MuST-C's layout.
option size "small|large" small "small: minutes on two CPU cores; large: paper C's model, for a GPU (README.md says how long)"
option style "sentences|talk" sentences "segments are sentences, or one to three clauses with pauses and fillers, as in talks"
option pair text en-de "en-de, en-ja, or both for one model of two languages"
option train count 5000 "training sentences; the other splits: --dev, --test (tst-COMMON), --he (tst-HE, other voices)"
option dev count 150 "development sentences" more
option test count 300 "sentences of tst-COMMON" more
option he count 100 "sentences of tst-HE, in voices that training has not heard" more
stage data "the corpus, and its data directories"

corpus_defaults() {
    if [ "$size" = large ]; then variant=large; fi
    if [ "$style" = talk ]; then
        variant=${variant:+$variant-}talk
        default train 4300 # about as much audio as 5000 sentences without pauses
    fi
    if [ "$size" = large ]; then default train 20000; fi
    default data "data${variant:+/$variant}"
    default exp "exp${variant:+/$variant}"
    default tests "tst-COMMON tst-HE"
    default pieces 700
    default source_pieces 300
    default counts "1 2 3 5"
    default ngpu 0
    default speeds "$(sized 1.0 "0.9 1.0 1.1")"
    default prefix_pieces 0
    default offline_config ../../conf/train/mini_offline.yaml
    default stats_config "../../conf/train/$(sized mini paper_c)_st.yaml"
    pairs=$pair
}

sized() { if [ "$size" = small ]; then echo "$1"; else echo "$2"; fi; } # what is for --size small, and for --size large

stage_data() {
    step "corpus and data directories"
    python local/make_mini.py --out "$data/corpus" --pairs "$pair" --jobs "$jobs" --style "$style" --train "$train" --dev "$dev" \
        --tst-common "$test" --tst-he "$he" $redo
    python ../../local/prepare_data.py must-c --root "$data/corpus" --pairs "$pair" --out "$data"
}
