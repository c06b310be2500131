# The recipes source this file after st_options.sh: the options of stages 11 to 16, with paper D's values.
#
# Stages 11 to 16, paper D's system, need only stages 1 to 4 (--stage 11 --stop-stage 16 after --stop-stage 4):
#   --tau N              frames of 10 ms by which prefixes grow [$tau]
#   --prefix-beam N      beam size of the search that translates prefixes [$prefix_beam]
#   --prefix-pieces N    pieces of the BPE that the two languages share in these stages; 0: the tokens of stage 3
#                        [$prefix_pieces]
#   --prefix-limit N     use only the first N utterances of train; 0: all [$prefix_limit]
#   --open-end           leave out the full stop after a prefix's translation [$open_end]
#   --ratios "R ..."     values of maxratio (frames of 10 ms per target word; for zh and ja per token); one model is
#                        fine-tuned for each; none: all pairs [$ratios]
#   --with-whole         fine-tune on whole utterances and their pairs [$with_whole]
#   --waits "K ..."      k of test-time wait-k, by the offline model [$waits]
#   --trained-waits "K .." k of wait-k, with a model trained for each [$trained_waits]
#   --wait-encoders "E .." encoders of these models: bidirectional, as in fairseq, or unidirectional [$wait_encoders]
#   --wait-unit N        unit of both kinds of wait-k, in ms [$wait_unit]
#   --wait-writes N      tokens that these models write after each unit [$wait_writes]
#   --thresholds "T .."  λ_thre of the boundary predictor [$thresholds]; --units "N ...": T in frames [$units]
#   --prefix-findings "F ..." files of the papers' findings, which stage 16 tests [$prefix_findings]
#   --full-context-findings "F ..." those that stage 18 tests [$full_context_findings]
#   --prefix-tests "S ..." splits that stage 15 decodes [$prefix_tests]
#   --offline-config F   ESPnet's configuration for the offline model [$offline_config]
#   --prefix-config F    ESPnet's configuration for fine-tuning [$prefix_config]
#   --wait-config F      ESPnet's configuration for training for wait-k [$wait_config]
#   --full-context-options "."  model options for ESPnet's trainer in stages 11 and 13, which need the same encoder and
#                        decoder, such as "--encoder conformer --encoder_conf num_blocks=12"
#   --predictor-model "."  the boundary predictor's size and training, by options of simulst prefix predictor
#                        [$predictor_model]
#   --offline-options ".", --prefix-options ".", --wait-options ".", --predictor-options "."  further options of the
#                        four trainings
#
# Stages: 11 offline model  12 prefix pairs  13 fine-tuning, training for wait-k  14 boundary predictor  15 decoding
#   16 curve, tables and findings  18 the offline model by paper C's policies, with tables in README.md; needs stage 11
tau=100
prefix_beam=10
prefix_pieces=20000
prefix_limit=0
open_end=false
ratios="none 80 40 20"
with_whole=false
waits="1 3 5 7 9 11 13 15 17 19"
trained_waits="1 3 5 7 9 11 13 15 17 19"
wait_encoders=bidirectional
wait_unit=280
wait_writes=1
thresholds="0.0 0.2 0.4 0.6 0.8 1.0"
units="100 48"
prefix_tests=tst-COMMON
prefix_findings=../../conf/findings/paper_d.yaml
full_context_findings=../../conf/findings/paper_c_full_context.yaml
offline_config=../../conf/train/paper_d_st.yaml
prefix_config=../../conf/train/paper_d_prefix.yaml
wait_config=../../conf/train/paper_d_wait.yaml
full_context_options=
offline_options=
prefix_options=
wait_options=
predictor_model="--mels 80 --embedding 256 --hidden 512"
predictor_options=
