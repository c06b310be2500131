"""Acted speech with text in several languages, from two games that are free to distribute; see egs/voices."""
