"""From a folder in Hugging Face's form to a model that runs here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError, first_line
from simulst.models.base import check_device, warn_if_slow
from simulst.models.heads import heads_beside
from simulst.models.huggingface.folder import find_folder, model_type, weight_files
from simulst.models.huggingface.options import HuggingFaceOptions

_OF_A_LAYER = re.compile(r"(?:layers?|blocks?|h)\.\d+\.")
NO_CODE = {"trust_remote_code": False}  # else the library asks on the terminal


def load(path: Path, options: HuggingFaceOptions, cores: int) -> Any:
    """A speech model from a folder or the hub. cores: processors that it may use. Raises SimulstError: as `read`."""
    from simulst.models.huggingface.model import HuggingFace

    architecture = read(path, options)
    make_ready(architecture.model, options.device, options.threads or cores)
    return HuggingFace(architecture)


def make_ready(model: Any, device: str, threads: int) -> None:
    """Have a model run there, token by token. threads: torch's; 0: it is to be trained, so it computes all logits."""
    import torch

    from simulst.models.huggingface.attention import attend_by_steps
    from simulst.models.huggingface.decoder import read_last_only

    warn_if_slow(model.dtype, device)
    model.to(device).eval()
    attend_by_steps(model)
    if threads:
        read_last_only(model)
        torch.set_num_threads(threads)


def read(path: Path, options: HuggingFaceOptions, change: Callable[[Any], None] = lambda config: None) -> Any:
    """An `Architecture` with the model of a folder or of the hub, on the processor.

    change: what to do with the configuration before the model is made of it.

    Raises SimulstError: a missing or broken file, a model that does not turn speech into text, code that it wants to
    run without being allowed to.
    """
    from simulst.models.huggingface.architectures import find_architecture
    from simulst.models.huggingface.decoder import sizes_of
    from simulst.models.huggingface.wait_token import learn_wait

    check_device(options.device)
    with quiet():
        from transformers import AutoFeatureExtractor, AutoTokenizer

        import simulst.models.huggingface.relative  # noqa: F401, transformers knows its type then

        folder = find_folder(path)
        # Before the model is read, as the module of one's own may tell the library of its type.
        architecture = find_architecture(str(model_type(folder)), options.architecture, str(path))
        trust = {"trust_remote_code": options.trust_remote_code}
        model = read_model(
            path,
            folder,
            architecture.library or "AutoModelForSpeechSeq2Seq",
            options.dtype,
            options.trust_remote_code,
            lambda config: bool(architecture.library) or config.is_encoder_decoder,
            "does not turn speech into text with an encoder and a decoder, and is no speech LLM that is known; give "
            "one of transformers' speech-to-text models, such as whisper or speech-encoder-decoder.",
            change,
        )
        features = "preprocessor_config.json"
        extractor = read_part(path, features, lambda: AutoFeatureExtractor.from_pretrained(folder, **trust))
        written = model.get_decoder().config
        tokenizer = read_tokenizer(path, lambda: AutoTokenizer.from_pretrained(folder, **trust), written)
    found = architecture(path, model.eval(), extractor, tokenizer, options)
    found.alignment_heads = heads_beside(folder, *sizes_of(model)) or found.alignment_heads
    learn_wait(found)
    return found


def read_model(
    path: Path,
    folder: Path,
    auto: str,
    dtype: str,
    trust_remote_code: bool,
    accepts: Callable[[Any], bool],
    refusal: str,
    change: Callable[[Any], None] = lambda config: None,
) -> Any:
    """A model of transformers, on the processor.

    path: a folder, or a name on the hub, for errors. folder: where its files are.
    auto: name of the library's class that loads models of this kind, such as AutoModelForCausalLM, or of one model's.
    accepts: whether a configuration of this kind is wanted.
    refusal: ends the sentence that begins with the type of a model that is not.
    change: what to do with the configuration before the model is made of it.

    Raises SimulstError: a missing or broken file; another kind of model; code that it wants to run without being
    allowed to.
    """
    import torch
    import transformers

    kind: Any = getattr(transformers, auto)
    trust = {"trust_remote_code": trust_remote_code}
    config = read_part(path, "config.json", lambda: transformers.AutoConfig.from_pretrained(folder, **trust))
    remote = getattr(config, "auto_map", None) or {}
    known = not hasattr(kind, "_model_mapping") or type(config) in kind._model_mapping
    if not (known or auto in remote) or not accepts(config):
        raise SimulstError(f"{path}: a model of type '{model_type(folder)}' {refusal}")
    weight_files(folder)
    change(config)
    settings = {"config": config, "dtype": getattr(torch, dtype), **trust}
    if not isinstance(config, getattr(kind, "config_class", None) or object):
        del settings["config"]  # the class takes its part of it
    return read_weights(path, lambda: kind.from_pretrained(folder, output_loading_info=True, **settings))


def read_weights(
    path: Path, load: Callable[[], tuple[Any, dict[str, Any]]], may_lack: re.Pattern[str] | None = None
) -> Any:
    """A model whose weights are all there. may_lack: found in the names of weights that may be random.

    Raises SimulstError: they are missing, broken, or do not fit config.json.
    """
    model, report = read_part(path, "the weights", load)
    missing = sorted(name for name in report["missing_keys"] if not (may_lack and may_lack.search(name)))
    if missing:
        raise SimulstError(
            f"{path}: the weights lack '{missing[0]}' ({len(missing)} in all); the checkpoint is of another kind of "
            "model, or not whole."
        )
    # The library drops them. Other weights that it drops belong to heads that are not used here.
    if dropped := sorted(filter(_OF_A_LAYER.search, report["unexpected_keys"])):
        raise SimulstError(
            f"{path}: the weights hold '{dropped[0]}' ({len(dropped)} in all), which the model of config.json does not "
            "have; copy the configuration that belongs to the weights."
        )
    return model


def read_tokenizer(path: Path, load: Callable[[], Any], config: Any = None) -> Any:
    """A tokeniser. config: of the model that writes its tokens, if that is known.

    Raises SimulstError: its files are missing or broken, or of another model.
    """
    tokenizer = read_part(path, "the tokeniser", load)
    # Without its SentencePiece model, the library makes one that knows languages and other special tokens alone.
    vocabulary = {} if not tokenizer else tokenizer.get_vocab()
    words = vocabulary.keys() - set(tokenizer.get_added_vocab() if vocabulary else ())
    if len(words - set(tokenizer.all_special_tokens if words else ())) <= 1:
        raise SimulstError(f"{path}: has no tokeniser (tokenizer.json, or its SentencePiece model); copy it there.")
    last = max(vocabulary[word] for word in words)
    sizes = (getattr(config, f"{side}vocab_size", None) for side in ("", "src_", "encoder_", "decoder_"))
    size = max((size for size in sizes if size is not None), default=None)
    if size is not None and last >= size:
        raise SimulstError(
            f"{path}: the tokeniser has the token {last}, but the model has {size} tokens; copy the model's own "
            "tokeniser."
        )
    return tokenizer


def read_part(path: Path, what: str, load: Callable[[], Any]) -> Any:
    """What `load` gives. what: for errors. Raises SimulstError: it cannot be loaded."""
    try:
        return load()
    except ImportError as error:
        raise SimulstError(f"{path}: {what} needs a package that is missing ({first_line(error)}).") from error
    except Exception as error:  # the library raises many unrelated kinds
        if "trust_remote_code" in str(error):
            raise SimulstError(
                f"{path}: the model wants to run Python code of its own; read that code, and allow it with "
                "trust_remote_code=true (--model-option, or in a cascade's file; training does not allow it)."
            ) from error
        raise SimulstError(f"{path}: {what} cannot be read ({first_line(error)}); copy the whole model.") from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the library's warnings and progress bars: what matters is told in errors."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
