"""Acted speech with text in several languages, from two games that may be distributed for free; see egs/voices."""
