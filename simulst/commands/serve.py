"""`simulst serve`: a page with a microphone, and simulstream's protocol, on one port."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from pathlib import Path

import click

from simulst.commands.common import PATH, Positive, Several, context_options, model_folder_option

logger = logging.getLogger(__name__)


def _new_key(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is None or context.resilient_parsing:
        return
    if context.params.get("keys") is None:
        raise click.UsageError("--new-key: give the file, too, by --keys.")
    from simulst.serve.keys import add_key

    click.echo(add_key(context.params["keys"], name))
    context.exit()


@click.command()
@model_folder_option
@click.option(
    "--decoding", type=click.Path(), help="Decoding configuration (YAML) [default: that of conf/decode/live.yaml]."
)
@click.option("--host", default="127.0.0.1", help="Address; 0.0.0.0: whoever reaches the machine.")
@click.option("--port", default=8080, type=click.IntRange(0, 65535), help="Port; 0: a free one.")
@click.option(
    "--source-lang", type=Several(str), help="Languages (speech) on offer, such as 'es fr auto' [default: the model's]."
)
@click.option(
    "--target-lang", type=Several(str), help="Languages (text) on offer; clients that name none get the first."
)
@click.option("--recordings", type=PATH, help="Folder of audio files that the page offers.")
@click.option(
    "--certificate", type=PATH, help="Certificate (PEM), for https: browsers want it for other machines' mics."
)
@click.option("--key", type=PATH, help="Its key, if the certificate's file has none.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name by which browsers reach it (repeatable).")
@click.option(
    "--keys", type=PATH, is_eager=True, help="File of keys, of which clients need one [default: they need none]."
)
@click.option(
    "--new-key", metavar="NAME", expose_value=False, callback=_new_key, help="Add a key to --keys, print it, and end."
)
@click.option("--clients", default=8, type=click.IntRange(1), help="Most streams at once.")
@click.option("--viewers", default=100, type=click.IntRange(0), help="Most viewers at once.")
@click.option("--seconds", default=14400.0, type=Positive(), help="Longest stream.")
@click.option("--idle", default=300.0, type=Positive(), help="Seconds that a client may be silent.")
@click.option("--message", default=1.0, type=Positive(), help="Largest message, in MiB.")
@click.option("--upload", default=512.0, type=Positive(), help="Largest file of a client, in MiB.")
@click.option("--log", type=PATH, help="Add words and times to this file, as simulstream's log [default: none].")
@context_options
def serve(
    model: str,
    decoding: str | None,
    host: str,
    port: int,
    source_lang: tuple[str, ...] | None,
    target_lang: tuple[str, ...] | None,
    recordings: Path | None,
    certificate: Path | None,
    key: Path | None,
    allow_host: tuple[str, ...],
    keys: Path | None,
    clients: int,
    viewers: int,
    seconds: float,
    idle: float,
    message: float,
    upload: float,
    log: Path | None,
    model_options: tuple[str, ...],
    unit: str | None,
    context: str | None,
) -> None:
    """Serve a page that translates a microphone, files or recordings.

    Clients of simulstream's WebSocket server and of OpenAI's interfaces (under /v1) can use the same address. Ctrl-C or
    TERM ends all streams properly.
    """
    if key is not None and certificate is None:
        raise click.UsageError("--key: give its --certificate, too.")
    from simulst.background import NOTHING, known_of_all
    from simulst.config import LIVE, load_decoding
    from simulst.models.registry import check_languages, load_model, parse_options
    from simulst.serve.client import Service, pairs_of
    from simulst.serve.keys import Keys
    from simulst.serve.log import Log
    from simulst.serve.server import Limits, Site, check_port, find_recordings, is_loopback, run, tls_of

    configuration = load_decoding(decoding) if decoding is not None else LIVE
    tls = tls_of(certificate, key) if certificate is not None else None
    found = find_recordings(recordings) if recordings is not None else []
    known_keys = Keys(keys) if keys is not None else None
    if known_keys is None and not is_loopback(host):
        logger.warning("whoever reaches %s:%d may use this server; give --keys FILE. See docs/serve.md.", host, port)
    known = known_of_all(context) if context else NOTHING
    given = parse_options(model_options)
    for pair in itertools.product(source_lang or (), target_lang or ()):
        check_languages(model, given, *pair)
    check_port(host, port)
    with contextlib.closing(Log(log)) if log is not None else contextlib.nullcontext() as opened:
        begin = time.perf_counter()
        loaded = load_model(model, **given)
        if opened is not None:  # a reader sees by it that another server begins, whose numbers of streams are its own
            opened.write({"model_loading_time": round(time.perf_counter() - begin, 3)})
        pairs, usual = pairs_of(loaded, source_lang or (), target_lang or ())
        service = Service(loaded, configuration, pairs, usual, unit or "", known, seconds, opened)
        service.check()
        limits = Limits(clients, viewers, idle, int(message * 2**20), int(upload * 2**20))
        site = Site(service, Path(model).name, limits, found, allow_host, known_keys)

        def tell(number: int) -> None:
            name = f"[{host}]" if ":" in host else "localhost" if host in ("0.0.0.0", "127.0.0.1") else host
            click.echo(f"{'http' if tls is None else 'https'}://{name}:{number}/  (Ctrl-C ends it)")

        asyncio.run(run(site, host, port, tls, tell))
