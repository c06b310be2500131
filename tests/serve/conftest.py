"""Makes tests/serve/servers.py and tests/models/tiny_whisper.py importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "models")]
