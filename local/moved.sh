# Stages and options that egs/mini/run.sh and egs/must_c/run.sh had before each system had a script of its own. All scripts say so:
# who is sent to another one takes the old options along.
for number in 11 12 13 14 15 16; do no_stage $number "stages 11 to 16 are now ./run.sh --recipe $recipe/paper_d"; done
for number in 21 22 23; do no_stage $number "stages 21 to 23 are now ./run.sh --recipe $recipe/paper_a"; done
offline_script=extras/$([ "$recipe" = mini ] && echo full_context || echo wavlm) # the offline model by paper C's searches
guided_script=extras/$([ "$recipe" = mini ] && echo guided || echo wavlm)
no_stage 18 "stage 18 is now ./run.sh --recipe $recipe/$offline_script"
moved "an option of ./run.sh --recipe $recipe/paper_d now" tau prefix_beam prefix_limit open_end ratios with_whole \
    trained_waits wait_encoders wait_unit wait_writes prefix_pieces offline_config prefix_config wait_config predictor_model \
    offline_options prefix_options wait_options predictor_options
moved "now stands in conf/decode/paper_d.yaml; copy it and give the copy to ./run.sh --recipe $recipe/paper_d --decodings FILE" \
    waits thresholds units
moved "now --model-options of ./run.sh --recipe $recipe/paper_d" full_context_options
moved "now --findings of ./run.sh --recipe $recipe/$offline_script" full_context_findings
moved "now ./run.sh --recipe $recipe/$guided_script" guided
moved "an option of ./run.sh --recipe $recipe/$guided_script now" guide
for name in tests findings; do moved "now --$name of ./run.sh --recipe $recipe/paper_d" prefix_$name; done
for name in config model decodings tests prefixes findings; do moved "now --$name of ./run.sh --recipe $recipe/paper_a" a_$name; done
