# The recipes source this file after st_options.sh: the options of stages 21 to 23.
#
# Stages 21 to 23, paper A's system (an offline model of Hugging Face's, for one pair or several), need only stage 1
# (--stage 21 --stop-stage 23 after --stop-stage 1):
#   --a-config FILE      how to train [$a_config]
#   --a-model DIR|NAME   model to fine-tune; empty: the configuration describes a new one
#   --a-decodings FILE   decoding configurations [$a_decodings]
#   --a-tests "S ..."    splits that stage 22 decodes [$a_tests]
#   --a-prefixes NAME    train on the prefix pairs that a filter of stage 13 left, too, such as all or maxratio30; this model
#                        and its results get names of their own
#   --a-findings "F ..." files of the papers' findings, which stage 23 tests [$a_findings]
#
# Stages: 21 training of the offline model  22 decoding  23 scores, curve, tables and findings
a_config=../../conf/train/paper_a_st.yaml
a_model=
a_decodings=../../conf/decode/sweep_a.yaml
a_tests=tst-COMMON
a_prefixes=
a_findings=../../conf/findings/paper_a.yaml
