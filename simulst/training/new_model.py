"""A speech-to-text model to begin a training with: an encoder and a decoder, pre-trained or with random weights.

Paper A (CUNI-KIT at IWSLT 2022, section 4.2.1) joins wav2vec 2.0 and the decoder of mBART-50.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from simulst.errors import SimulstError, first_line
from simulst.languages import language_token
from simulst.models.huggingface.folder import find_folder
from simulst.models.huggingface.loading import NO_CODE, quiet, read_part, read_tokenizer, read_weights
from simulst.training.freezing import change_settings

NEW_LAYERS = re.compile(
    "cross_?att|encoder_attn|adapter|masked_spec_embed|relative_"
)  # those that a part may get at random
TOKENS = ("<s>", "<pad>", "</s>", "<unk>")  # with mBART's numbers


@dataclass(frozen=True)
class NewModel:
    """What to make a model of. A part is a mapping, of settings in its config.json, and

    name: of a pre-trained model, on the hub or a folder; or
    model_type: as transformers call it; then its weights are random; or
    both: a model of this type with the pre-trained model's weights, such as wav2vec2_relative with those of a wav2vec2
        (see simulst/models/huggingface/relative.py). What these lack is random.

    encoder: for speech, such as wav2vec2 or wav2vec2-bert.
    decoder: for text, such as mbart.
    extractor: settings of the feature extractor, if the encoder is new; its class may stand in feature_extractor_type.
    pieces: how many pieces of words the tokeniser has, if the decoder is new. It is learnt from the training's texts.
    """

    encoder: dict[str, Any]
    decoder: dict[str, Any]
    extractor: dict[str, Any] = field(default_factory=dict)
    pieces: Annotated[int, Field(ge=10)] = 1000


def make_model(new: NewModel, targets: Sequence[str], texts: Sequence[str], seed: int, out: Path, where: str) -> None:
    """Write a folder of Hugging Face's. The cross-attention of a decoder that had none is random.

    targets: languages that it shall write; texts: of the training. A new tokeniser gets a token for each language.
    where: for errors.

    Raises SimulstError: a part that is no encoder or no decoder, an unknown setting, a model that cannot be had.
    """
    for role, described in (("encoder", new.encoder), ("decoder", new.decoder)):
        if "name" not in described and "model_type" not in described:
            raise SimulstError(f"{where}: '{role}' of 'new_model' needs a name (pre-trained) or a model_type (random).")
    with quiet():
        from transformers import AutoModel, AutoModelForCausalLM, SpeechEncoderDecoderModel

        import simulst.models.huggingface.relative  # noqa: F401, transformers knows its type then

        torch.manual_seed(seed)
        tokenizer = _tokenizer(new, sorted(set(targets)), texts, where)
        roles: dict[str, Any] = {"is_decoder": True, "add_cross_attention": True}
        if "name" not in new.decoder:
            ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "pad", "eos")}
            roles |= {"vocab_size": len(tokenizer), **ids}
        encoder = _part(AutoModel, new.encoder, {}, where, "encoder")
        reads = encoder.main_input_name in ("input_values", "input_features")
        if not reads or encoder.config.is_encoder_decoder:
            raise SimulstError(
                f"{where}: 'encoder' of 'new_model' is no encoder of speech alone; name one such as wav2vec2."
            )
        decoder = _part(AutoModelForCausalLM, new.decoder, roles, where, "decoder")
        if "encoder_hidden_states" not in inspect.signature(decoder.forward).parameters:
            raise SimulstError(
                f"{where}: 'decoder' of 'new_model' cannot attend to an encoder; name one such as mbart or gpt2."
            )
        extractor = _extractor(new, encoder, where)
        try:
            model = SpeechEncoderDecoderModel(encoder=encoder, decoder=decoder)
        except Exception as error:  # the library raises many unrelated kinds
            raise SimulstError(f"{where}: encoder and decoder do not fit together ({first_line(error)}).") from error
        for place in (model.config, model.generation_config):
            place.decoder_start_token_id = place.eos_token_id = tokenizer.eos_token_id
            place.pad_token_id = tokenizer.pad_token_id
        model.save_pretrained(out)
        extractor.save_pretrained(out)
        tokenizer.save_pretrained(out)


def _part(kind: Any, described: Mapping[str, Any], needed: Mapping[str, Any], where: str, role: str) -> Any:
    """An encoder or a decoder. needed: settings that its role needs."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    settings = {key: value for key, value in described.items() if key not in ("name", "model_type")}
    path = Path(f"{where}: '{role}'")
    if "name" not in described:
        config = read_part(path, "model_type", lambda: AutoConfig.for_model(described["model_type"]))
        change_settings(config, settings, where)
        config.update(dict(needed))
        return read_part(path, "the model", lambda: kind.from_config(config))
    folder = find_folder(Path(described["name"]))
    config = read_part(path, "config.json", lambda: AutoConfig.from_pretrained(folder, **NO_CODE))
    if "model_type" in described:
        kept = {key: value for key, value in config.to_dict().items() if key not in ("model_type", "architectures")}
        config = read_part(path, "model_type", lambda: AutoConfig.for_model(described["model_type"], **kept))
    change_settings(config, settings, where)
    if type(config) not in kind._model_mapping:
        raise SimulstError(f"{path}: a model of type '{config.model_type}' has no {role} of its own; name another.")
    if role == "decoder" and config.is_encoder_decoder and type(config) in AutoModelForSeq2SeqLM._model_mapping:
        return _decoder_of_whole(kind, folder, config, needed, path)
    config.update(dict(needed))
    weights = {"config": config, "dtype": torch.float32, **NO_CODE}
    return read_weights(path, lambda: kind.from_pretrained(folder, output_loading_info=True, **weights), NEW_LAYERS)


def _decoder_of_whole(kind: Any, folder: Path, config: Any, needed: Mapping[str, Any], path: Path) -> Any:
    """The decoder of an encoder-decoder. Its weights come from the whole model, as a file may hold shared ones once."""
    from transformers import AutoModelForSeq2SeqLM

    weights = {"config": config, "dtype": torch.float32, **NO_CODE}
    load = AutoModelForSeq2SeqLM.from_pretrained
    whole = read_weights(path, lambda: load(folder, output_loading_info=True, **weights))
    alone = copy.deepcopy(config)
    alone.update(dict(needed))
    decoder = read_part(path, "the model", lambda: kind.from_config(alone, dtype=torch.float32))
    decoder.get_decoder().load_state_dict(whole.get_decoder().state_dict())
    decoder.get_output_embeddings().load_state_dict(whole.get_output_embeddings().state_dict())
    return decoder


def _extractor(new: NewModel, encoder: Any, where: str) -> Any:
    import transformers
    from transformers import AutoFeatureExtractor
    from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING

    if "name" in new.encoder:
        folder = find_folder(Path(new.encoder["name"]))
        path = Path(f"{where}: 'encoder'")
        return read_part(
            path, "preprocessor_config.json", lambda: AutoFeatureExtractor.from_pretrained(folder, **NO_CODE)
        )
    settings = dict(new.extractor)
    kind: Any = FEATURE_EXTRACTOR_MAPPING.get(type(encoder.config), None)
    if "feature_extractor_type" in settings:
        kind = getattr(transformers, str(settings.pop("feature_extractor_type")), None)
    if kind is None:
        raise SimulstError(
            f"{where}: no feature extractor for an encoder of type '{new.encoder['model_type']}'; choose wav2vec2 or "
            "another encoder of speech, or one of transformers' feature_extractor_type in 'extractor'."
        )
    return read_part(Path(where), "extractor", lambda: kind(**settings))


def _tokenizer(new: NewModel, targets: Sequence[str], texts: Sequence[str], where: str) -> Any:
    if "name" in new.decoder:
        from transformers import AutoTokenizer

        folder = find_folder(Path(new.decoder["name"]))
        return read_tokenizer(Path(f"{where}: 'decoder'"), lambda: AutoTokenizer.from_pretrained(folder, **NO_CODE))
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    tokenizer = learn_pieces(texts, new.pieces, TOKENS)
    names = [AddedToken(language_token(target), special=True, normalized=False) for target in targets]
    tokenizer.add_special_tokens(names)
    roles = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), TOKENS, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **roles)


def learn_pieces(texts: Iterable[str], size: int, special: Sequence[str]) -> Any:
    """A tokeniser of pieces of words. special: tokens that come first, with "<unk>" among them."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    # Not NFKC: it would write ASCII for the full-width punctuation of Chinese and Japanese.
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(special), unk_token="<unk>", show_progress=False
    )
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except Exception as error:  # the library's own kind has no name
        raise SimulstError(f"pieces: {size} are too few for the texts ({first_line(error)}); give more.") from error
    return tokenizer
