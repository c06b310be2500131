"""Load an ESPnet experiment: from its files to a model that runs here."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import Any

import torch

from simulst.audio.features import LogMel, Normalize, log_mel_of
from simulst.audio.pitch import LogMelPitch
from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError, first_line
from simulst.machine.light_import import without_type_checks
from simulst.models.base import check_device, depends_on_rows
from simulst.models.espnet.divergence import head_of
from simulst.models.espnet.experiment import Experiment
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.blockwise_encoder import BlockwiseEncoder
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.network.full_context_encoder import FullContextEncoder
from simulst.models.espnet.network.lagging import Chunked, Lagging, lagging_of
from simulst.models.espnet.network.linear import Linear, check_precision, joined
from simulst.models.espnet.network.recurrent_decoder import RecurrentDecoder
from simulst.models.espnet.options import ESPnetOptions
from simulst.models.espnet.vocabulary import Vocabulary, read_vocabulary, trained_languages
from simulst.models.heads import heads_beside

ENCODERS = {
    "contextual_block_conformer": "contextual_block_conformer_encoder:ContextualBlockConformerEncoder",
    "contextual_block_transformer": "contextual_block_transformer_encoder:ContextualBlockTransformerEncoder",
    "conformer": "conformer_encoder:ConformerEncoder",
    "transformer": "transformer_encoder:TransformerEncoder",
    "vgg_rnn": "vgg_rnn_encoder:VGGRNNEncoder",
}
DECODERS = {"transformer": "transformer_decoder:TransformerDecoder", "rnn": "rnn_decoder:RNNDecoder"}
FRONTENDS = {"default": LogMel, "log_mel_pitch": LogMelPitch}
HONOURED = (
    *("token_list", "token_type", "bpemodel", "src_token_list", "frontend", "frontend_conf", "normalize"),
    *("normalize_conf", "encoder", "encoder_conf", "decoder", "decoder_conf", "model_conf", "preprocessor_conf"),
)
"""Keys of ESPnet's configuration that change decoding, and that are followed here. What else they say is refused."""
REFUSED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("preencoder", "postencoder", "hier_encoder", "md_encoder", "input_size"), (None,)),
    "speech_volume_normalize": (None,),  # of the whole utterance, so it can't be streamed
    **dict.fromkeys(("use_lang_prompt", "use_nlp_prompt", "use_adapter"), (None, False)),
    "preprocessor": (None, "default"),
    "model": (None, "espnet"),
}
"""Those that must have one of these values. docs/models.md lists both kinds; all other keys are for training."""
OF_TRAINING = ("text_name", "speech_name", "fs", "data_aug_effects", "data_aug_num", "data_aug_prob")
"""What preprocessor_conf may say."""
LEAST_WIDTH = 192  # narrower layers are not faster with a second thread, see docs/benchmarks.md
Weights = dict[str, torch.Tensor]


def load(path: Path, options: ESPnetOptions, cores: int = 1) -> ESPnet:
    """Load a model.

    path: an experiment directory, or a zip that ESPnet packed.
    options: the options of the family.
    cores: how many processors the model may use.

    Raises SimulstError: a missing or broken file; a part of ESPnet that is not implemented here; a missing device.
    """
    check_device(options.device)
    check_precision(options.precision, options.device)
    experiment = Experiment(path, options.checkpoint)
    try:
        model = _assemble(experiment, options)
    except SimulstError as error:
        if str(error).startswith(str(path)):
            raise
        raise SimulstError(f"{path}: {error}") from error
    except Exception as error:  # of any kind: ESPnet's classes are made with what config.yaml says
        raise SimulstError(
            f"{path}: the weights and config.yaml do not fit ({type(error).__name__}: {first_line(error)})."
        ) from error
    # If layers are narrow, threads wait for each other longer than they compute.
    torch.set_num_threads(options.threads or (cores if model.encoder.width >= LEAST_WIDTH else 1))
    return model


def _assemble(experiment: Experiment, options: ESPnetOptions) -> ESPnet:
    config = experiment.config
    check_supported(config, options)
    vocabulary = read_vocabulary(experiment)
    # In float32, however they were saved; numbers of another kind as they are.
    whole = {name: w.float() if w.is_floating_point() else w for name, w in experiment.weights().items()}
    weights = {name: tensor.to(options.device) for name, tensor in whole.items()}
    lagging = lagging_of(config)
    mel, kind = _take(weights, "frontend.logmel.melmat"), FRONTENDS[config["frontend"]]
    features = log_mel_of(config.get("frontend_conf") or {}, mel, SAMPLE_RATE, kind)
    normalize = _normalization(config, weights)
    encoder = _encoder(config, weights, features.dims, normalize, options, lagging)
    module = decoder_of(config, weights, vocabulary, encoder.width).to(options.device)
    decoder: CachedDecoder | RecurrentDecoder
    if config["decoder"] == "rnn":
        decoder = RecurrentDecoder(module)
    else:
        decoder = CachedDecoder(module, options.precision, lagging)
    return ESPnet(
        path=experiment.path,
        vocabulary=vocabulary,
        languages=trained_languages(config),
        features=features,
        normalize=normalize,
        encoder=encoder,
        decoder=decoder,
        ctc_layer=_ctc_layer(config, weights, vocabulary, encoder.width, options),
        window=options.window,
        device=torch.device(options.device),
        batches=not depends_on_rows(options.precision, options.device),
        search=experiment.search(),
        alignment_heads=heads_beside(experiment.path, *decoder.attentions),
        head=head_of(experiment, options.device),
    )


def _encoder(
    config: dict[str, Any],
    weights: Weights,
    dims: int,
    normalize: Normalize,
    options: ESPnetOptions,
    lagging: Lagging | Chunked | None,
) -> BlockwiseEncoder | FullContextEncoder:
    encoder = _class("espnet2.asr.encoder." + ENCODERS[config["encoder"]])
    module = _filled(encoder(input_size=dims, **config.get("encoder_conf") or {}), weights, "encoder.")
    module = module.to(options.device)
    if _is_blockwise(config):
        return BlockwiseEncoder(module, options.precision)
    by_frame = config.get("normalize") != "utterance_mvn"
    return FullContextEncoder(
        module, normalize, by_frame, options.precision, lagging is not None and lagging.unidirectional
    )


def decoder_of(config: dict[str, Any], weights: Weights, vocabulary: Vocabulary, width: int) -> torch.nn.Module:
    """ESPnet's decoder with its weights, in evaluation mode. width: of the encoder's frames."""
    decoder = _class("espnet2.asr.decoder." + DECODERS[config["decoder"]])
    module: torch.nn.Module = decoder(len(vocabulary), width, **config.get("decoder_conf") or {})
    return _filled(module, weights, "decoder.")


def _ctc_layer(
    config: dict[str, Any], weights: Weights, vocabulary: Vocabulary, width: int, options: ESPnetOptions
) -> Linear | None:
    # In an ST model, `ctc` predicts the source language and `st_ctc` the target. In an ASR model, `ctc` is the one.
    name = "st_ctc.ctc_lo." if "src_token_list" in config else "ctc.ctc_lo."
    if name + "weight" not in weights:
        losses = config.get("model_conf") or {}
        share = losses.get("st_mtlalpha", 0.0) if "src_token_list" in config else losses.get("ctc_weight", 0.5)
        if share:
            raise SimulstError(f"the weights lack '{name}weight', but the model was trained with CTC; give them all.")
        return None
    layer = _filled(torch.nn.Linear(width, len(vocabulary)), weights, name)
    with torch.no_grad():
        layer.bias[list(vocabulary.unspoken)] = -torch.inf
    return joined("float32", layer.to(options.device))


def _is_blockwise(config: dict[str, Any]) -> bool:
    return str(config["encoder"]).startswith("contextual_block")


def check_supported(config: dict[str, Any], options: ESPnetOptions) -> None:
    """Raise SimulstError if the configuration asks for what is not implemented, alone or with these options."""
    for name, known in (("encoder", ENCODERS), ("decoder", DECODERS), ("frontend", FRONTENDS)):
        if config.get(name) not in known:
            raise SimulstError(f"{name}: '{config.get(name)}' is not implemented; use {' or '.join(known)}.")
    if config["decoder"] == "rnn" and _is_blockwise(config):
        raise SimulstError("decoder: rnn is implemented with full-context encoders only; train with 'transformer'.")
    if config["decoder"] == "rnn" and options.precision != "float32":
        raise SimulstError(f"precision: '{options.precision}' is not implemented for decoder rnn; give float32.")
    for name, good in REFUSED.items():
        if config.get(name) not in good:
            instead = f"with '{good[-1]}'" if good[-1] else "without it"
            raise SimulstError(f"{name}: '{config[name]}' is not implemented; train {instead}.")
    for name in sorted((config.get("preprocessor_conf") or {}).keys() - set(OF_TRAINING)):
        raise SimulstError(f"preprocessor_conf: {name} is not implemented; train without it.")
    if (number := (config.get("model_conf") or {}).get("lang_token_id", -1)) not in (None, -1):
        raise SimulstError(f"model_conf: lang_token_id {number} is not implemented; train without it.")
    if options.window and not _is_blockwise(config):
        raise SimulstError(f"window: {options.window:g} s, but only blockwise encoders have a window; give 0.")
    if _is_blockwise(config) and config.get("normalize") == "utterance_mvn":
        raise SimulstError("normalize: utterance_mvn cannot be streamed; train with global_mvn.")


def _normalization(config: dict[str, Any], weights: Weights) -> Normalize:
    """ESPnet's normalisation of features (..., n, dims). Its statistics are stored with the weights."""
    kind, conf = config.get("normalize"), config.get("normalize_conf") or {}
    if kind is None:
        return lambda features: features
    if kind == "global_mvn":
        mean, std = (_take(weights, f"normalize.{name}").float() for name in ("mean", "std"))
        mean = mean if conf.get("norm_means", True) else torch.zeros_like(mean)
        std = std if conf.get("norm_vars", True) else torch.ones_like(std)
        return lambda features: (features - mean) / std
    if kind == "utterance_mvn" and conf.get("norm_means", True) and not conf.get("norm_vars", False):
        return lambda features: features - features.mean(-2, keepdim=True)
    raise SimulstError(f"normalize: '{kind}' with {conf} is not implemented; use global_mvn.")


def _class(name: str) -> Any:
    try:
        # ESPnet prints on stdout that Flash Attention is missing.
        with contextlib.redirect_stdout(None), without_type_checks():
            module, _, attribute = name.partition(":")
            return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise SimulstError(f"ESPnet models need the package espnet ({error}); install it.") from error


def _filled(module: torch.nn.Module, weights: Weights, prefix: str) -> Any:
    """Load the weights whose names begin with `prefix` into the module, and put it into evaluation mode.

    Raises SimulstError: a weight is missing, or there is one that the module does not have.
    """
    part = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    try:
        module.load_state_dict(part, strict=True)
    except RuntimeError as error:
        raise SimulstError(f"the weights '{prefix}*' do not fit config.yaml: {' '.join(str(error).split())}") from error
    return module.eval()


def _take(weights: Weights, name: str) -> torch.Tensor:
    if name not in weights:
        raise SimulstError(f"the weights lack '{name}'; give a complete model, not only its encoder.")
    return weights[name]
