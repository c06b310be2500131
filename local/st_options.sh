# Recipes that train source this file: the options of stages 2 to 10, with paper C's values. A recipe may change them.
#
#   --stage N            first stage to run [$stage]
#   --stop-stage N       last stage to run [$stop_stage]
#   --pieces N           target pieces [$pieces]; --source-pieces N: source pieces [$source_pieces]
#   --token-kind K       target tokens: unigram, bpe or char [$token_kind]; source tokens are unigram
#   --system NAME        name of another model on the same data, with other tokens or another --config; its tokens, statistics,
#                        models and results get folders of this name
#   --speeds "S ..."     factors of speed perturbation [$speeds]
#   --asr true|false     train a recognition model first and use its encoder [$asr]
#   --asr-model FILE     a recognition model that was trained before, such as another system's exp/NAME/en-de/asr/valid.acc.best.pth:
#                        stage 6 begins with its encoder, and stage 5 is left out
#   --config FILE        ESPnet's training configuration [$config]
#   --asr-config FILE    ESPnet's training configuration for stage 5 [$asr_config]
#   --model-options "."  model options for ESPnet's trainer in stages 5 and 6, which need the same encoder, such as
#                        "--encoder_conf num_blocks=12"
#   --train-options "."  options for ESPnet's trainer in stage 6, such as "--max_epoch 2"; --asr-options: in stage 5;
#                        --stats-options: in stage 4
#   --counts "N ..."     numbers of checkpoints to average; the best one is chosen [$counts]
#   --tests "S ..."      splits to decode [$tests]
#   --limits "."         options that decode only a part of these splits, such as "--limit 100"
#   --decodings FILE     decoding configurations [$decodings]
#   --guided             stage 8 also decodes the offline model of stage 11, guided by the CTC of stage 6's model
#                        (paper C's table 2); needs stages 7 and 11
#   --guide DIR          the model whose CTC guides it, such as a smaller --system's exp/NAME/en-de/st; without it, stage 6's
#   --findings "F ..."   files of the papers' findings, which stage 10 tests (docs/papers.md) [$findings];
#                        none with --system
#   --seeds "DIR ..."    folders of experiments (--exp) that were trained with other seeds (--train-options "--seed 2") and have
#                        the same runs; findings about training need them
#   --data DIR --exp DIR folders for data and experiments [$data] [$exp]
#   --publish            also write tables and curves into this recipe's README.md and PREFIX.md, and the verdicts on
#                        findings into docs/papers.md, which git tracks; without it, write only pages of the same names
#                        in the folder of experiments
#   --jobs N             processes on this machine, one for each core [$jobs]
#   --scheduler ADDRESS  a running Dask scheduler to decode on instead; --slurm: decode in --jobs jobs of a Slurm cluster
#   --ngpu N             GPUs per machine for training, with one process for each; 0: the CPU [$ngpu]
#   --num-nodes N        machines of a Slurm cluster to train on [$num_nodes]; --hosts A,B: machines to reach through ssh
#   --force              run complete stages again
#
# Stages: 1 data directories  2 segment audio  3 tokens  4 statistics  5 ASR pre-training  6 ST training  7 averaging
#         8 decoding  9 scoring  10 curve, tables and findings
stage=1
stop_stage=10
pieces=4000
source_pieces=4000
token_kind=unigram
system=
speeds="0.9 1.0 1.1"
asr=true
asr_model=
config=../../conf/train/paper_c_st.yaml
asr_config=../../conf/train/paper_c_asr.yaml
model_options=
train_options=
asr_options=
stats_options=
counts="1 5 10"
tests=tst-COMMON
limits=
decodings=../../conf/decode/sweep.yaml
guided=false
guide=
findings=../../conf/findings/paper_c.yaml
seeds=
data=data
exp=exp
publish=false
jobs=$(env -u OMP_NUM_THREADS nproc) # that variable is about threads
scheduler=
slurm=false
ngpu=1
num_nodes=1
hosts=
force=false
