"""The program `simulst`: a file for each group of commands.

`main` puts them together, `common` has what they share. At their top the modules import only click; a command imports
the library when it runs, so that help is instant.
"""
