"""Load every library that the systems of a packed folder use: `python -m simulst.handin.libraries`, in the folder.

It ends with an error that names the first that is missing. A Dockerfile runs it while the image is built.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from pathlib import Path

from simulst.handin.image import Image, read_image

CTRANSLATE2_CUDA = ("libcublas.so.12", "libcudnn.so.9")
"""What CTranslate2's wheels open by name on a GPU, beside the CUDA 13 that torch's wheels bring."""


def missing(image: Image) -> list[str]:
    """A sentence for each module or library that can't be loaded."""
    found = []
    for name in image.modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # of any kind: a library of another version, too
            found.append(f"the module {name} can't be loaded ({error})")
    if image.device != "cpu" and "ctranslate2" in image.modules:
        for name in CTRANSLATE2_CUDA:
            try:
                ctypes.CDLL(name)
            except OSError as error:
                found.append(
                    f"CTranslate2 needs {name} on a GPU ({error}); install nvidia-cublas-cu12, nvidia-cudnn-cu12"
                )
    return found


def main() -> None:
    """Exit with status 1 if something is missing."""
    found = missing(read_image(Path()))
    for sentence in found:
        print(f"error: {sentence}.", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
