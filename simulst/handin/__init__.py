"""Hand a system in to a shared task: `simulst pack` makes a folder of all that it needs, `simulst verify` tries it.

docs/iwslt.md says what is in the folder.
"""
