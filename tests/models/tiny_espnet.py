"""Tiny, randomly initialised ESPnet speech translation experiments, as ESPnet's own training leaves them behind."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tiny_pieces
import torch
import yaml

from simulst.calls import run_alone
from simulst.hypotheses import WAIT, lag_token
from simulst.models import load_model
from simulst.models.espnet.encoding import encode_whole

WIDTH, MELS = 16, 20
CONTEXTUAL = {
    **{"output_size": WIDTH, "attention_heads": 2, "linear_units": 24, "num_blocks": 3},
    **{"block_size": 40, "hop_size": 16, "look_ahead": 16},
}
FULL = {"output_size": WIDTH, "attention_heads": 2, "linear_units": 24, "num_blocks": 2}
ENCODERS: dict[str, dict[str, Any]] = {
    "contextual_block_conformer": {**CONTEXTUAL, "cnn_module_kernel": 7},
    "contextual_block_transformer": CONTEXTUAL,
    "conformer": {**FULL, "cnn_module_kernel": 7},
    "transformer": FULL,
}

LOSSES = {"st_mtlalpha": 0.3, "asr_weight": 0.3, "mtlalpha": 1.0, "report_bleu": False}
NO_CTC = LOSSES | {"st_mtlalpha": 0.0}
VGG_BLSTM: dict[str, Any] = {  # changes that make it paper B's model: pitch, VGG, BLSTM, an LSTM decoder, no CTC layer
    **{"encoder": "vgg_rnn", "decoder": "rnn", "frontend": "log_mel_pitch"},
    "encoder_conf": {"num_layers": 2, "hidden_size": 12, "output_size": WIDTH},
    "decoder_conf": {"num_layers": 2, "hidden_size": 14, "att_conf": {"atype": "add", "adim": 10}},
    "model_conf": NO_CTC,
}


def write(folder: Path, encoder: str = "contextual_block_conformer", seed: int = 0, **changes: Any) -> Any:
    """Write config.yaml, weights, statistics and tokens; changes: of ESPnet's configuration. Returns ESPnet's model.

    As in a recipe, training runs in `folder`, the experiment is `folder/exp/st`, and paths are relative to `folder`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "wait_k" in changes or "wait_chunk_ms" in changes:
            from simulst.training.wait_k import WaitKTask as STTask
        else:
            from espnet2.tasks.st import STTask

        from simulst.training.pitch_frontend import register

    register("st")
    experiment = folder / "exp" / "st"
    experiment.mkdir(parents=True)
    (folder / "data").mkdir()
    token_type = changes.get("token_type", "bpe")
    (folder / "data" / "tokens.txt").write_text("\n".join(_tokens(folder / "data", token_type)) + "\n")
    random = np.random.default_rng(seed)
    mean = random.normal(-8, 2, MELS + 3 * (changes.get("frontend") == "log_mel_pitch"))
    np.savez(folder / "data" / "feats_stats.npz", count=100, sum=mean * 100, sum_square=(mean**2 + 4) * 100)
    config = {
        **{"frontend_conf": {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": MELS}, "specaug": None},
        **{"normalize": "global_mvn", "normalize_conf": {"stats_file": str(folder / "data" / "feats_stats.npz")}},
        **{"encoder": encoder, "encoder_conf": ENCODERS.get(encoder, {})},
        **{"decoder": "transformer", "decoder_conf": {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}},
        **{"token_type": token_type, "token_list": str(folder / "data" / "tokens.txt")},
        **{"src_token_type": "char", "src_token_list": ["<blank>", "<unk>", "a", "b", "<sos/eos>"]},
        "model_conf": LOSSES,
        **({"bpemodel": "data/bpe.model"} if token_type == "bpe" else {}),
        **changes,
    }
    (folder / "train.yaml").write_text(yaml.safe_dump(config))
    args = STTask.get_parser().parse_args(["--config", str(folder / "train.yaml"), "--output_dir", str(experiment)])
    torch.manual_seed(seed)
    logging.disable(logging.WARNING)
    try:
        model = STTask.build_model(args).eval()
    finally:
        logging.disable(logging.NOTSET)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("output_layer.weight", "ctc_lo.weight")):
                parameter *= 5
            elif config["decoder"] == "rnn" and name.startswith(("decoder.", "encoder.enc.1.")):
                parameter *= 4  # or else it hardly matters what was heard
    if config["normalize"] == "global_mvn":
        args.normalize_conf["stats_file"] = "data/feats_stats.npz"
    (experiment / "config.yaml").write_text(yaml.safe_dump(vars(args), sort_keys=False))
    torch.save(model.state_dict(), experiment / "3epoch.pth")
    torch.save(model.state_dict(), experiment / "valid.acc.ave_3best.pth")
    (experiment / "valid.acc.ave.pth").symlink_to("valid.acc.ave_3best.pth")
    return model


def write_waiting(folder: Path, encoder: str, chunks: tuple[float, float], lags: Sequence[int]) -> Any:
    """A model with a wait token in `folder/waiting`, of another's weights. Returns ESPnet's, made for training.

    chunks: length of the first one and of the others, in ms.
    """
    from simulst.training.tokens import extend_tokens

    write(folder / "base", encoder, seed=3)
    symbols = [WAIT, *map(lag_token, lags)]
    extend_tokens(folder / "base/data", folder / "base/exp/st/3epoch.pth", folder / "tokens", symbols)
    changes = {"token_list": str(folder / "tokens/tokens.txt"), "bpemodel": str(folder / "tokens/bpe.model")}
    changes |= {"wait_first_ms": chunks[0], "wait_chunk_ms": chunks[1], "freeze_param": ["encoder"]}
    losses = {"st_mtlalpha": 0.0, "asr_weight": 0.0, "report_bleu": False}
    theirs = write(folder / "waiting", encoder, model_conf=losses, **changes)
    state = torch.load(folder / "tokens/begin.pth", weights_only=True)
    theirs.load_state_dict({name: state[name] for name in theirs.state_dict()})
    return theirs


def load_wordy(folder: Path, encoder: str, seed: int, attention: float = 1.0) -> Any:
    """A random model that begins words often. attention: by how much more its audio matters."""
    write(folder, encoder, seed)
    path = folder / "exp" / "st"
    weights = torch.load(path / "3epoch.pth")
    for token, piece in enumerate(load_model(path).vocabulary.tokens):
        weights["decoder.output_layer.bias"][token] += 4 * (piece.startswith("▁") and piece != "▁")
    for name in weights:
        if "src_attn.linear_v" in name or "src_attn.linear_out" in name:
            weights[name] *= attention
    torch.save(weights, path / "wordy.pth")
    return load_model(path, checkpoint="wordy.pth")


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, samples).astype(np.float32)


def frames_of(session: Any) -> torch.Tensor:
    """The encoder frames (t, width) of all audio so far, as far as the session's window holds them."""
    run_alone(session._encoding.encode())
    return torch.cat([session._model.no_frames, *(part.frames for part in session._encoding.parts)])


def encoded(model: Any, audio: np.ndarray) -> torch.Tensor:
    """The encoder frames (t, width) of a whole utterance."""
    return torch.cat(encode_whole(model, audio))


def _tokens(folder: Path, token_type: str) -> list[str]:
    if token_type == "word":
        middle = sorted(set(tiny_pieces.TEXT.split()))
    elif token_type == "char":
        middle = ["<space>" if c == " " else c for c in sorted(set(tiny_pieces.TEXT) - {"\n"})]
    else:
        pieces = tiny_pieces.train(folder)
        middle = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    return ["<blank>", "<unk>", *middle, "<sos/eos>"]
