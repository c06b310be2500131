"""Which weights of a speech-to-text model are trained, and how Whisper's encoder reads windows of less than 30 s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from simulst.errors import SimulstError, first_line

FEATURES = ("feature_extractor", "conv", "conv1", "conv2")
"""Names of the convolutions that encoders begin with."""


def freeze(encoder: Any, features: bool, layers: int | None) -> None:
    """Keep a part of a model's encoder as it is.

    features: keep the convolutions at its beginning (paper A, section 4.2.1).
    layers: train only so many of its last layers, and an adapter after them; None: all layers.

    Raises SimulstError: the encoder has fewer layers.
    """
    if layers is not None:
        found = layers_of(encoder) if layers else ()
        if layers > len(found):
            raise SimulstError(f"encoder_layers {layers}: the encoder has {len(found)}; give at most these, or null.")
        encoder.requires_grad_(False)
        for layer in found[len(found) - layers :]:
            layer.requires_grad_(True)
        if getattr(encoder, "adapter", None) is not None:
            encoder.adapter.requires_grad_(True)
    if features:
        for name in FEATURES:
            if isinstance(part := getattr(encoder, name, None), nn.Module):
                part.requires_grad_(False)


def layers_of(encoder: Any) -> nn.ModuleList:
    """The layers of an encoder, which may lie in an encoder inside of it."""
    for place in (encoder, getattr(encoder, "encoder", None)):
        if isinstance(layers := getattr(place, "layers", None), nn.ModuleList):
            return layers
    raise SimulstError(f"{type(encoder).__name__}: its layers are not found; leave encoder_layers at null.")


def change_settings(config: Any, settings: Mapping[str, Any], where: str) -> None:
    """Change a model's configuration. A mapping changes the configuration of a part, such as `encoder`.

    where: for errors. Raises SimulstError: it has no such setting, or not with this value.
    """
    for name, value in settings.items():
        if not hasattr(config, name):
            raise SimulstError(
                f"{where}: a model of type '{config.model_type}' has no setting '{name}'; see config.json."
            )
        if isinstance(value, Mapping) and hasattr(getattr(config, name), "model_type"):
            change_settings(getattr(config, name), value, where)
            continue
        try:
            setattr(config, name, value)
        except Exception as error:  # the library raises many unrelated kinds
            raise SimulstError(f"{where}: the setting '{name}' cannot be {value!r} ({first_line(error)}).") from error


def read_short_windows(model: Any) -> None:
    """Let Whisper's encoder read features of any length up to 30 s: it takes as many positions as it needs."""
    encoder = model.get_encoder()
    positions, usual = encoder.embed_positions, encoder.config.max_source_positions

    def cut(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        features = args[0] if args else kwargs["input_features"]
        module.config.max_source_positions = positions.num_embeddings = features.shape[-1] // 2

    def restore(module: Any, args: tuple[Any, ...], output: Any) -> None:
        module.config.max_source_positions = positions.num_embeddings = usual

    encoder.register_forward_pre_hook(cut, with_kwargs=True)
    encoder.register_forward_hook(restore, always_call=True)
