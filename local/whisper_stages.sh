# Stages 8 to 10 of a recipe that puts a Whisper online. egs/*/run.sh sources this file after the model is there. Besides
# its options, the recipe sets
#   pairs      language pairs to decode: translation, such as es-en, or recognition, such as en-en
#   tests      splits to decode
#   variants   names of the models to decode with, usually one; findings are tested on the last one's runs
#   tested     two runs, such as "base/offline finetuned/offline", whose difference is tested below each table; may be unset
#   pictured   pairs that get a curve and tests of findings, both of the first split
#   findings   the files of these; empty: none
#   title      begins the titles of the curves
#   command    the command that is written under the tables of results
# and functions, each of which prints something of the pair $1, the split $2 and the variant $3:
#   model_of   the model's folder           sweep_of    its decoding configurations
#   data_of    the data directory           options_of  options that decode only a part of it, or of the model's family
#   runs_of    the folder for the runs; without $3, the one that holds those of all variants
#   section_of the name of the table of results, without $3

# Decodes split $2 of the pair $1 by the variant $3, under the configurations in $4, into the folder $5. $6...: further
# options of `simulst sweep`.
decode() {
    # shellcheck disable=SC2046,SC2086
    simulst sweep --data "$(data_of "$1" "$2")" --model "$(model_of "$1" "$2" "$3")" --source-lang "${1%-*}" \
        --target-lang "${1#*-}" --decodings "$4" --out "$5" --jobs "$jobs" $redo \
        ${scheduler:+--scheduler "$scheduler"} $($slurm && echo --slurm) "${@:6}"
}

# Tests findings on the runs in the folder $2. $1: name of the section; $3: the command that made the runs; $4: files of findings.
write_findings() {
    local files=() file
    for file in $4; do files+=(--findings "$file"); done
    # shellcheck disable=SC2046
    simulst findings "${files[@]}" --runs "$2" --section "$1-findings" --command "$3" --out "$exp/FINDINGS.md" \
        $($publish && echo --out README.md)
}

if runs 8; then
    for pair in $pairs; do
        for split in $tests; do
            for variant in $variants; do
                echo "== stage 8: decode $pair $split"
                # shellcheck disable=SC2046
                decode "$pair" "$split" "$variant" "$(sweep_of "$pair" "$split" "$variant")" \
                    "$(runs_of "$pair" "$split" "$variant")" $(options_of "$pair" "$split")
            done
        done
    done
fi

if runs 9; then
    echo "== stage 9: score (again, from the logs alone)"
    for pair in $pairs; do
        for split in $tests; do
            simulst runs score --target-lang "${pair#*-}" "$(runs_of "$pair" "$split")"
        done
    done
fi

if runs 10; then
    echo "== stage 10: curve, tables and findings"
    pages=("$exp/README.md")
    if $publish; then pages+=(README.md); fi
    for pair in $pairs; do
        for split in $tests; do
            section=$(section_of "$pair" "$split")
            picture=
            if [[ " $pictured " == *" $pair "* && $split = "${tests%% *}" ]]; then
                picture=$section.svg
                simulst plot "$(runs_of "$pair" "$split")" --out "$exp/$section.svg" --out "$exp/$section.png" \
                    --title "$title, ${pair/-/→}"
                if $publish; then cp "$exp/$picture" .; fi
            fi
            for page in "${pages[@]}"; do
                # shellcheck disable=SC2086
                python ../../local/write_results.py --page "$page" --section "$section" --picture "$picture" \
                    --command "$command" ${tested:+--test $tested} "$(runs_of "$pair" "$split")"
            done
            if [ -n "$picture" ] && [ -n "$findings" ]; then
                write_findings "$section" "$(runs_of "$pair" "$split" "${variants##* }")" "$command" "$findings"
            fi
        done
    done
    if $publish; then python ../../local/write_verdicts.py --root ../..; fi
fi
