"""Hand a system in to a shared task: `simulst pack` makes a folder of all that it needs, `simulst verify` tries it.

FOLDER/README.md, SYSTEM.md          how to run each system; what it is, and its scores
FOLDER/Dockerfile, image.json        the image; the same steps as data, which verify executes without Docker
FOLDER/requirements*.txt             what the systems import, pinned; what verify needs besides
FOLDER/server.yaml                   simulstream's HTTP server
FOLDER/models, own, simulst          weights, modules of the user's own, and simulst itself
FOLDER/systems/NAME/                 processor.yaml, decoding.yaml, simulstream.jsonl (the log), scores.json, ...
FOLDER/development/                  segmentation, references, and the digests of the recordings
FOLDER/licences, SHA256SUMS, verify.py
"""
