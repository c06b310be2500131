"""Cut the segments out of the recordings, change their speed, and write them to one archive that ESPnet reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import soxr
from kaldiio import WriteHelper
from tqdm import tqdm

from simulst.audio.read import as_int16, load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.data.datadir import Utterance, check_has, read_data_dir, text_file
from simulst.errors import SimulstError
from simulst.files.folder import digest_of_texts, written_whole
from simulst.files.table import read_table, write_table

ARCHIVE = "audio.ark"


def dump_audio(
    data: Path, out: Path, texts: Sequence[str], speeds: Sequence[float] = (1.0,), force: bool = False
) -> None:
    """Write `out/{wav.scp,audio.ark,utt2num_samples,utt2spk,text.*}` from a data directory, if it is not there yet.

    Audio is stored as 16-bit WAV, which ESPnet reads as floats. (ESPnet would read a plain Kaldi matrix as integers.)
    `out` appears whole or not at all.

    texts: languages of the text files to copy (see `text_file`). The first one defines the utterances.
    speeds: factors of speed perturbation (Ko et al. 2015: tempo and pitch together). Utterances and speakers at other
        speeds than 1 get the prefix `sp<factor>-`.
    force: write the folder again.

    Raises SimulstError: a speed is not positive; what `read_data_dir`, `load_audio` and `written_whole` raise.
    """
    if not speeds or min(speeds) <= 0:
        raise SimulstError(f"speeds {list(speeds)}: give positive factors, such as 0.9 1.0 1.1.")
    if len(set(speeds)) < len(speeds):
        raise SimulstError(f"speeds {list(speeds)}: a factor is there twice; remove one of them.")
    utterances = sorted(read_data_dir(data, texts[0]), key=lambda u: u.name)
    files = {f"text.{language}": text_file(data, language) for language in texts}
    tables = {name: read_table(file, allow_empty=True) for name, file in files.items()}
    tables["utt2spk"] = read_table(data / "utt2spk")
    for name, table in tables.items():
        check_has(files.get(name, data / name), table, (utterance.name for utterance in utterances))
    made_of = {"texts": list(texts), "speeds": sorted(speeds)}
    files |= {name: data / name for name in ("wav.scp", "segments", "utt2spk")}
    made_of["data"] = digest_of_texts(files[name] for name in ("wav.scp", "segments", *tables))
    with written_whole(out, made_of, force) as part:
        if part is not None:
            _write(part, out, utterances, tables, speeds)


def _write(
    part: Path, out: Path, utterances: Sequence[Utterance], tables: dict[str, dict[str, str]], speeds: Sequence[float]
) -> None:
    rows: dict[str, list[tuple[str, str]]] = {name: [] for name in (*tables, "utt2num_samples")}
    progress = tqdm(total=len(speeds) * len(utterances), desc=f"audio of {out.name}", unit="utt")
    with (
        progress,
        WriteHelper(f"ark,scp:{part / ARCHIVE},{part / 'wav.scp'}", write_function="soundfile") as write,
    ):
        for speed in sorted(speeds):
            prefix = "" if speed == 1.0 else f"sp{speed:g}-"
            for utterance in utterances:
                samples = load_audio(utterance.wav, utterance.start, utterance.end)
                if prefix:
                    samples = soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE)
                name = prefix + utterance.name
                write(name, (SAMPLE_RATE, as_int16(samples)))
                for table, rows_of_table in rows.items():
                    if table == "utt2num_samples":
                        value = str(samples.size)
                    else:
                        value = tables[table][utterance.name]
                        value = prefix + value if table == "utt2spk" else value
                    rows_of_table.append((name, value))
                progress.update()
    for name, table_rows in rows.items():
        write_table(part / name, sorted(table_rows))
    # wav.scp holds the archive's path: replace it by the final path.
    scp = read_table(part / "wav.scp")
    write_table(
        part / "wav.scp", sorted((k, v.replace(str(part / ARCHIVE), str(out / ARCHIVE))) for k, v in scp.items())
    )
