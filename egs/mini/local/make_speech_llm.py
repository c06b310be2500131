"""Make a tiny speech LLM with random weights, of Phi-4-multimodal's kind, that can learn to translate from scratch.

The library's random weights (deviation 0.02) let hardly anything of the audio through at this width. Convolutions hear
nothing of later frames, and attention without a bias learns each distance by itself. So here weights keep the size of
what comes through, convolutions are long, and the heads of the encoder begin nearby, each at a place of its own
(docs/experiments/2026-11-28-tiny-speech-llm.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import PATH, force_option, run_command, target_lang_option
from simulst.data.datadir import Utterance, read_data_dir, text_file
from simulst.files.folder import digest_of_texts, written_whole
from simulst.training.new_model import TOKENS, learn_pieces

WIDTH, FEED, HEADS, ENCODER, DECODER, POSITIONS = 96, 384, 4, 4, 3, 1024
REDUCTION = 4  # frames of 10 ms that become one
KERNEL = 15  # frames of the encoder's convolutions: the newest, and those before it
REACH = ((2, 1.0), (5, 2.0), (10, 4.0), (0, 16.0))  # of each head: the frame that it begins at, and how far around
FAR = 200  # frames; all that are further away have one bias
HEARD = 100  # recordings (or somewhat more) from which the features' mean and deviation come
CHAT = ("<|user|>", "<|audio|>", "<|assistant|>")
TEMPLATE = """{% for m in messages %}{% for part in m.content if part.type == 'audio' %}\
<|user|><|audio|><|assistant|>{% endfor %}{% endfor %}"""  # one task, so nothing tells it what to do


@click.command()
@click.option("--data", required=True, type=PATH, help="Data directory of the training.")
@target_lang_option
@click.option("--out", required=True, type=PATH, help="Folder for the model.")
@click.option("--pieces", default=700, show_default=True, help="Pieces of the tokeniser, which the texts give.")
@click.option("--seed", default=0, show_default=True, help="Of the weights.")
@force_option("Make it again.")
def main(data: Path, target_lang: str, out: Path, pieces: int, seed: int, force: bool) -> None:
    """Make a tiny speech LLM that knows nothing yet."""
    utterances = read_data_dir(data, target_lang)
    files = (data / "wav.scp", text_file(data, target_lang))
    with written_whole(out, {"data": digest_of_texts(files), "pieces": pieces, "seed": seed}, force) as part:
        if part:
            tokenizer = make_tokenizer([utterance.reference for utterance in utterances], pieces)
            for one in make_model(tokenizer, utterances[:: max(1, len(utterances) // HEARD)], seed):
                one.save_pretrained(part)


def make_tokenizer(texts: list[str], pieces: int) -> Any:
    """Pieces of words, and the tokens of a chat."""
    from transformers import PreTrainedTokenizerFast

    roles = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), TOKENS, strict=True))
    learnt = learn_pieces(texts, pieces, (*TOKENS, *CHAT))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learnt, clean_up_tokenization_spaces=False, **roles)
    tokenizer.add_special_tokens({"additional_special_tokens": list(CHAT)})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(tokenizer: Any, heard: list[Utterance], seed: int) -> tuple[Any, Any, Any]:
    """The model, what makes its features, and the tokeniser. heard: recordings that say how loud features are."""
    import torch
    import transformers

    torch.manual_seed(seed)
    special = dict(zip(("bos_token_id", "pad_token_id", "eos_token_id"), range(3), strict=True))
    sizes = {"hidden_size": WIDTH, "intermediate_size": FEED, "num_attention_heads": HEADS}
    channels = dict.fromkeys(("ext_pw_out_channel", "depthwise_separable_out_channel", "nemo_conv_channels"), WIDTH)
    config = transformers.Phi4MultimodalConfig(
        **sizes,
        **special,
        vocab_size=len(tokenizer),
        num_hidden_layers=DECODER,
        num_key_value_heads=HEADS,
        max_position_embeddings=POSITIONS,
        original_max_position_embeddings=POSITIONS,
        audio_config={
            **sizes,
            **channels,
            "num_blocks": ENCODER,
            "kernel_size": KERNEL,
            "time_reduction": REDUCTION,
            "bias_max_distance": FAR,
            "audio_token_id": tokenizer.convert_tokens_to_ids("<|audio|>"),
        },
        # Of a kind that sees, too, as little as there can be.
        vision_config={"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "image_token_id": 0},
    )
    model = transformers.Phi4MultimodalForCausalLM(config)
    model.generation_config = transformers.GenerationConfig(**special)
    extractor = transformers.Phi4MultimodalFeatureExtractor(audio_compression_rate=REDUCTION)
    begin(model)
    encoder = model.model.embed_tokens_extend.audio_embed.encoder
    features = torch.cat([extractor(load_audio(u.wav, u.start, u.end), sampling_rate=SAMPLE_RATE)[
        "audio_input_features"][0] for u in heard])  # fmt: skip
    encoder.encoder_embedding.global_mean.copy_(features.mean(0))
    encoder.encoder_embedding.global_invstd.copy_(1 / features.std(0).clamp_min(1e-3))
    return model, extractor, tokenizer


def begin(model: Any) -> None:
    """Weights with which what comes through keeps its size (LeCun; He before a ReLU), and heads that begin nearby."""
    import torch
    from torch import nn

    encoder = model.model.embed_tokens_extend.audio_embed.encoder
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu" if isinstance(part, nn.Conv2d) else "linear")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    nn.init.normal_(model.get_input_embeddings().weight)
    distance = torch.arange(-FAR, FAR)[:, None]
    places, widths = (torch.tensor(column) for column in zip(*REACH, strict=True))
    with torch.no_grad():
        encoder.relative_attention_bias_layer.bias_values.weight.copy_(-(distance - places).abs() / widths)


if __name__ == "__main__":
    run_command(main)
