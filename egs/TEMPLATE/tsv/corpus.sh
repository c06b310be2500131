# This corpus, which the recipe's scripts share. Say here where it is, and how its columns are called (docs/data.md).
# Scripts of other systems, such as egs/must_c/paper_d.sh, work beside this file as they are.
pairs={{source}}-{{target}}
tables="train=downloads/train.tsv dev=downloads/dev.tsv test=downloads/test.tsv"
audio=downloads
tsv_options=

option tables text "$tables" "the table of each split: train, dev, and all of --tests"
option audio path "$audio" "folder that the tables' file names begin in"
option tsv_options text "$tsv_options" "options of local/prepare_data.py tsv, such as \"--speaker-column client_id\""
stage data "data directories"

corpus_defaults() {
    default tests "test"
    default findings "" # the papers' are about other corpora; --findings names files of them (docs/papers.md)
}

stage_data() {
    step "data directories"
    python ../../local/prepare_data.py tsv $tables --pair "$pairs" --audio "$audio" --out "$data" $tsv_options
}
