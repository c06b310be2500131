"""Makes tests/models/tiny_huggingface.py importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
