"""Makes tests/fake.py importable here and in worker processes."""

import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(HERE).parent), HERE, os.environ.get("PYTHONPATH", "")]).rstrip(":")
