"""Make a COMET model of random weights, and run COMET's command with it. Runs in the environment of COMET.

    tiny_comet.py FOLDER SEED OPTION...

The checkpoint is FOLDER/checkpoints/model.ckpt. The options are those of comet-score beside --model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import yaml
from comet.cli.score import score_command
from comet.models import RegressionMetric
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

LETTERS = ["<s>", "<pad>", "</s>", "<unk>", *sorted(set("▁abcdefghijklmnopqrstuvwxyz,.")), "<mask>"]

folder, seed = Path(sys.argv[1]), int(sys.argv[2])
encoder = folder / "encoder"
tokenizer = Tokenizer(models.Unigram([(letter, -1.0) for letter in LETTERS], unk_id=3))
tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
tokenizer.post_processor = processors.TemplateProcessing(
    single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
)
XLMRobertaTokenizerFast(tokenizer_object=tokenizer).save_pretrained(encoder)
sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
XLMRobertaConfig(vocab_size=len(LETTERS), max_position_embeddings=514, type_vocab_size=1, **sizes).save_pretrained(
    encoder
)
torch.manual_seed(seed)
options = {
    "pretrained_model": str(encoder),
    "load_pretrained_weights": False,
    "local_files_only": True,
    "hidden_sizes": [8],
}
model = RegressionMetric(**options)
(folder / "checkpoints").mkdir()
content = {"state_dict": model.state_dict(), "hyper_parameters": options, "pytorch-lightning_version": "2.6.6"}
torch.save(content, folder / "checkpoints" / "model.ckpt")
(folder / "hparams.yaml").write_text(yaml.safe_dump({"class_identifier": "regression_metric", **options}))
sys.argv = ["comet-score", *sys.argv[3:], "--model", str(folder / "checkpoints" / "model.ckpt")]
score_command()
